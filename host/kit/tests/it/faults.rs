//! One broken law at a time, and the case that must find it.

use onebit_faults::Which;
use onebit_kit::{CaseResult, State};

use crate::support::Subject;

/// Fault, case, how that ends, and a part of what it says.
type Row = (&'static str, &'static str, State, &'static str);

const FAILED: State = State::Failed;

#[rustfmt::skip]
const UNLAWFUL: &[Row] = &[
    ("probes-anything", "probe.absent-device", FAILED, "is in no machine"),
    ("fits-garbage", "fit.bad-files", FAILED, "is judged usable"),
    ("fits-any-kind", "fit.wrong-kind", FAILED, "plugin.toml does not name"),
    ("opens-garbage", "open.bad-files", FAILED, "was opened as a model"),
    ("opens-anywhere", "open.refused-device", FAILED, "made a model"),
    ("calls-everything-internal", "open.bad-files", FAILED, "is answered with internal"),
    ("random", "forward.determinism", FAILED, "not the same bits"),
    ("depends-on-batch", "forward.chunks", FAILED, "nats apart"),
    ("depends-on-row", "forward.row-order", FAILED, "nats apart"),
    ("mixes-sequences", "forward.side-by-side", FAILED, "nats apart"),
    ("wrong-rows", "forward.wanted-rows", FAILED, "nats apart"),
    ("ignores-tokens", "forward.uses-tokens", State::Warned, "do not depend on the token before"),
    ("not-a-number", "forward.uses-tokens", FAILED, "NaN"),
    ("begins-at-zero", "forward.start-anywhere", FAILED, "begins at position 0"),
    ("accepts-gaps", "forward.refused-batches", FAILED, "a gap in front of the first row was computed"),
    ("keeps-refused-rows", "forward.refused-batches", FAILED, "after all refusals"),
    ("wrong-numbers", "forward.overflow", FAILED, "have ="),
    ("cuts-silently", "forward.overflow", FAILED, "more than the context holds were computed"),
    ("copy-loses-first", "sequences.copy", FAILED, "the copy against computing from the start"),
    ("copy-takes-source", "sequences.copy", FAILED, "forward"),
    ("copy-overwrites", "sequences.copy-refused", FAILED, "was copied onto"),
    ("part-copies-all", "sequences.copy-part", FAILED, "does not go on"),
    ("remove-keeps-first", "sequences.remove", FAILED, "does not go on"),
    ("cut-keeps-one", "sequences.cut", FAILED, "nats apart"),
    ("cut-middle-random", "sequences.cut-middle", FAILED, "nats apart"),
    ("shift-forgets", "sequences.shift", FAILED, "nats apart"),
    ("snapshot-loses-last", "snapshot.same-sequence", FAILED, "not the same bits"),
    ("snapshot-loses-last", "snapshot.other-session", FAILED, "not the same bits"),
    ("snapshot-loses-last", "snapshot.other-model", FAILED, "not the same bits"),
    ("save-disturbs", "snapshot.same-sequence", FAILED, "does not go on"),
    ("snapshot-unchecked", "snapshot.damaged", FAILED, "was loaded"),
    ("snapshot-size", "snapshot.size", FAILED, "state_save came out of a buffer"),
    ("loses-spaces", "tokenizer.round-trip", FAILED, "comes back as"),
    ("users-control", "tokenizer.users-text", FAILED, "became the control token 256"),
    ("pieces-differ", "tokenizer.pieces", FAILED, "token by token"),
    ("eos-goes-on", "tokenizer.facts", FAILED, "does not end a generation"),
    ("vector-length", "embed.vectors", FAILED, "was to have length 1"),
    ("vector-neighbours", "embed.alone", FAILED, "with the texts beside it"),
    ("score-beyond", "rerank.scores", FAILED, "not between 0 and 1"),
    ("score-neighbours", "rerank.alone", FAILED, "with the documents beside it"),
    ("leaks-memory", "leaks.models", FAILED, "that nobody freed"),
    ("leaks-file", "leaks.models", FAILED, "files open"),
    ("leaks-thread", "leaks.models", FAILED, "threads more"),
    ("leaks-session", "leaks.sessions", FAILED, "that nobody freed"),
    ("leaks-batch", "leaks.batches", FAILED, "that nobody freed"),
    ("leaks-failed-load", "leaks.failed-loads", FAILED, "files open"),
    ("burns", "leaks.threads", FAILED, "still a thread computes"),
    ("prints", "behaviour.quiet", FAILED, "standard output"),
    ("crash-at-exit", "behaviour.quiet", FAILED, "SIGABRT"),
    ("environment", "behaviour.process", FAILED, "OMP_NUM_THREADS"),
    ("folder", "behaviour.process", FAILED, "working folder"),
    ("umask", "behaviour.process", FAILED, "umask"),
    ("signal", "behaviour.process", FAILED, "handler of signal 11"),
    ("segfaults", "open.model", FAILED, "SIGSEGV) while: opening the model"),
    ("exits", "open.model", FAILED, "was ended from within, with status 0 while: opening the model"),
    ("calls-home", "open.model", State::Warned, "the sandbox refused the plugin socket"),
    ("prints", "open.model", State::Warned, "18 bytes were written to standard output"),
];

#[rustfmt::skip]
const LIES: &[Row] = &[
    ("new-tables", "entry.table", FAILED, "gave another table"),
    ("calls-null", "entry.sparing-host", FAILED, "SIGSEGV) while: loading the plugin"),
    ("calls-null", "entry.old-host", FAILED, "SIGSEGV"),
    ("same-minor", "entry.new-host", FAILED, "too new"),
    ("any-kind", "probe.unknown-kind", FAILED, "kind 4711"),
    ("token-wraps", "forward.refused-batches", FAILED, "a token that does not exist was computed"),
    ("fewer-sequences", "forward.refused-sessions", FAILED, "one sequence more"),
    ("runs-backwards", "sequences.bad-arguments", FAILED, "runs backwards was done"),
    ("any-sequence", "snapshot.bad-sequence", FAILED, "was loaded into sequence"),
    ("tokens-beyond", "tokenizer.small-buffers", FAILED, "wrote beyond"),
    ("writes-beyond", "lies.short-outputs", FAILED, "SIGSEGV) while: info with OnebitInfo.struct_size = 8 of 72"),
    ("writes-behind", "lies.long-outputs", FAILED, "bytes behind the fields of this ABI"),
    ("reads-beyond", "lies.short-arguments", FAILED, "SIGSEGV) while: fit with OnebitFitArgs.struct_size = 8 of 56"),
    ("refuses-longer", "lies.long-arguments", FAILED, "with the true size it does its work"),
    ("no-size-is-fine", "lies.no-size", FAILED, "was accepted"),
    ("context-smaller", "forward.determinism", FAILED, "the session holds 128 positions"),
    ("rows-missing", "forward.wanted-rows", FAILED, "broke the contract"),
    ("fails-silently", "forward.determinism", FAILED, "gave no reason"),
];

#[track_caller]
fn found(result: &CaseResult, row: &Row) {
    let (fault, _, state, part) = row;
    assert!(result.verdict.state == *state && result.verdict.text.contains(part), "{fault} is to be {state:?} with {part:?}: {result:#?}");
}

fn check(which: Which, variable: &str, rows: &[Row]) {
    let subject = Subject::new(which).once();
    for row in rows {
        found(&subject.clone().with(variable, row.0).case(row.1), row);
    }
}

#[test]
fn broken_laws_are_found_by_the_cases_that_are_there_for_them_first_part() {
    check(Which::Unlawful, "ONEBIT_FAULT", &UNLAWFUL[..UNLAWFUL.len() / 2]);
}

#[test]
fn broken_laws_are_found_by_the_cases_that_are_there_for_them_second_part() {
    check(Which::Unlawful, "ONEBIT_FAULT", &UNLAWFUL[UNLAWFUL.len() / 2..]);
}

#[test]
fn what_the_sdk_makes_impossible_is_found_in_plugins_without_it() {
    check(Which::Liar, "ONEBIT_LIE", LIES);
}

#[test]
fn who_looks_at_no_flag_is_found_and_who_leaves_half_a_batch_too() {
    let subject = Subject::new(Which::Unlawful).once().option("row_us", "4000").option("open_ms", "1200");
    let slow = |fault: &str| subject.clone().with("ONEBIT_FAULT", fault);
    for row in [
        ("deaf-open", "cancel.open", FAILED, "did not see the flag"),
        ("deaf-forward", "cancel.forward", FAILED, "did not see the flag"),
        ("deaf-embed", "cancel.embed", FAILED, "did not see the flag"),
        ("deaf-rerank", "cancel.rerank", FAILED, "did not see the flag"),
        ("half-cancelled", "cancel.forward", FAILED, "beside a cancelled prompt"),
    ] {
        found(&slow(row.0).case(row.1), &row);
    }
}

#[test]
fn every_case_but_those_of_the_machine_has_a_fault_that_it_finds() {
    let cancels = ["cancel.open", "cancel.forward", "cancel.embed", "cancel.rerank"];
    let found: Vec<&str> = UNLAWFUL.iter().chain(LIES).map(|row| row.1).chain(cancels).collect();
    let without: Vec<&str> = onebit_kit::cases::all().map(|case| case.id).filter(|id| !found.contains(id)).collect();
    // Each has its reason: what breaks these laws breaks others first, or the SDK and the honest C plugin cannot be told to.
    let known = [
        "probe.devices",
        "fit.model",
        "forward.threads",
        "forward.embeddings",
        "tokenizer.special",
        "tokenizer.no-such-token",
        "embed.refused",
        "rerank.refused",
        "lies.model-calls",
    ];
    assert_eq!(without, known);
}

//! Which law is broken: the variable `ONEBIT_FAULT`, one name of [`NAMES`]. A name that is not there keeps the plugin from starting, so
//! that a misspelt test fails.

use std::sync::OnceLock;

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "none",
    // Devices and files.
    "probes-anything", "fits-garbage", "opens-garbage", "opens-anywhere", "calls-everything-internal", "fits-any-kind",
    // Batches.
    "random", "depends-on-batch", "depends-on-row", "mixes-sequences", "wrong-rows", "ignores-tokens", "not-a-number", "begins-at-zero",
    "accepts-gaps", "keeps-refused-rows", "wrong-numbers", "cuts-silently",
    // Sequences.
    "copy-loses-first", "copy-takes-source", "copy-overwrites", "part-copies-all", "remove-keeps-first", "cut-keeps-one", "cut-middle-random",
    "shift-forgets",
    // Snapshots.
    "snapshot-loses-last", "snapshot-unchecked", "snapshot-size", "save-disturbs",
    // Tokens, vectors and scores.
    "loses-spaces", "users-control", "pieces-differ", "eos-goes-on", "vector-length", "vector-neighbours",
    "score-beyond", "score-neighbours",
    // Cancelling.
    "deaf-open", "deaf-forward", "deaf-embed", "deaf-rerank", "half-cancelled",
    // What is left.
    "leaks-memory", "leaks-file", "leaks-thread", "leaks-session", "leaks-batch", "leaks-failed-load", "burns",
    // Manners.
    "prints", "environment", "folder", "signal", "umask", "crash-at-exit", "exits", "segfaults", "hangs", "calls-home",
];

/// Whether this law is to be broken.
pub(crate) fn is(name: &str) -> bool {
    debug_assert!(NAMES.contains(&name), "{name} is in no list");
    chosen() == name
}

/// The name that was given, if it is one.
pub(crate) fn known() -> Result<(), String> {
    let name = chosen();
    if NAMES.contains(&name) { Ok(()) } else { Err(format!("there is no fault {name:?}; there are {}", NAMES.join(", "))) }
}

fn chosen() -> &'static str {
    static CHOSEN: OnceLock<String> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("ONEBIT_FAULT").unwrap_or_else(|_| "none".into()))
}

//! A host that lies about `struct_size`: every struct of every call shorter and longer than it is, and of no size at all.
//!
//! A struct that is too short ends at a page that nobody may touch. A plugin that reads or writes beyond what it was told dies there, and the
//! case says in which call.

use onebit_loader::bare::{CALLS, Call, Lie, Part, Stage, Subject, lie};
use onebit_loader::{PluginError, Status};

use crate::bench::Bench;
use crate::case::{Case, Need, Outcome, Stop, ensure, fail};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("lies.short-outputs", "Nothing is written beyond the size that an output says it has", &[], short_outputs),
    Case::new("lies.long-outputs", "Nothing is written behind the fields of this ABI, however long an output says it is", &[], long_outputs),
    Case::new("lies.short-arguments", "Nothing is read beyond the size that arguments say they have", &[], short_arguments),
    Case::new("lies.long-arguments", "What stands behind the fields of this ABI is not believed", &[], long_arguments),
    Case::new("lies.no-size", "A struct that says it has no size is refused as invalid", &[], no_size),
    Case::new("lies.model-calls", "The same for the calls of a model and its sessions", &[Need::Model], model_calls),
];

fn refused(error: PluginError) -> Stop {
    Stop::Failed(format!("the truthful call fails: {error}"))
}

/// Calls that can be made, each with its structs of this kind; `work` tells one lie.
fn each(bench: &Bench, model: bool, parts: &[Part], sizes: impl Fn(usize) -> Vec<usize>, expect: Expect) -> Outcome {
    let device = bench.device()?;
    let garbage = bench.scratch("garbage.bin", &[0x5a; 256])?;
    // What the plugin reads it reads of any file; only an output needs a model, and each load takes time.
    let path = bench.setup.model.as_deref().filter(|_| parts.contains(&Part::Out)).unwrap_or(&garbage);
    let plugin = bench.plugin()?;
    let opened = if model { Some(bench.model()?) } else { None };
    let subject = Subject { plugin, model: opened, path, device: &device, options: &bench.setup.options, text: "Hello" };
    let mut told = 0;
    for call in CALLS.iter().filter(|call| can(call, opened)) {
        bench.step(&format!("{} without a lie", call.name));
        let truth = match lie(&subject, call, None) {
            Err(error) if error.status == Status::UNSUPPORTED => continue,
            Err(error) => return Err(refused(error)),
            Ok(truth) => truth,
        };
        for (part, name, size) in call.structs.iter().filter(|(part, _, _)| parts.contains(part)) {
            for claimed in sizes(*size) {
                bench.step(&format!("{} with {name}.struct_size = {claimed} of {size}", call.name));
                let answer = lie(&subject, call, Some(Lie { part: *part, size: claimed })).map_err(refused)?;
                told += 1;
                let place = format!("{} with {name}.struct_size = {claimed} of {size}", call.name);
                ensure!(answer.damage.is_empty(), "{place}: {}", answer.damage.join("; "));
                match (expect, &truth.result, &answer.result) {
                    (Expect::Same, Ok(()), Err(error)) => fail!("{place}: {error}; with the true size it does its work"),
                    (Expect::Same, Err(without), Err(error)) => {
                        ensure!(without.status == error.status, "{place}: {error}; with the true size {without}");
                    }
                    (Expect::Invalid, _, Ok(())) => fail!("{place} was accepted"),
                    (Expect::Invalid, _, Err(error)) => {
                        ensure!(error.status == Status::INVALID_ARGUMENT, "{place} is refused with {error}, not as invalid");
                    }
                    (_, _, Err(error)) => {
                        ensure!(error.status != Status::PANIC && error.status.name() != "unknown", "{place}: {error}");
                    }
                    _ => {}
                }
            }
        }
    }
    bench.number("lies told", f64::from(told), "", None);
    Ok(())
}

/// What a lie has to lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// No harm.
    Harmless,
    /// The same as without it.
    Same,
    /// A refusal.
    Invalid,
}

fn can(call: &Call, model: Option<&onebit_loader::Model>) -> bool {
    match (call.stage, model) {
        (Stage::Plugin, None) => true,
        (Stage::Plugin, Some(_)) | (_, None) => false,
        (Stage::Forward, Some(model)) => model.forward().is_some(),
        (Stage::Tokenize, Some(model)) => model.tokenizer().is_some(),
        (Stage::Embed, Some(model)) => model.embedder().is_some(),
        (Stage::Rerank, Some(model)) => model.reranker().is_some(),
    }
}

/// Every field but the last few is cut away once.
fn shorter(size: usize) -> Vec<usize> {
    (8..size).step_by(8).collect()
}

fn longer(size: usize) -> Vec<usize> {
    vec![size + 8, size + 64, size.next_multiple_of(1024)]
}

const READ: &[Part] = &[Part::Args, Part::Device];

fn short_outputs(bench: &Bench) -> Outcome {
    each(bench, false, &[Part::Out], shorter, Expect::Harmless)
}

fn long_outputs(bench: &Bench) -> Outcome {
    each(bench, false, &[Part::Out], longer, Expect::Same)
}

fn short_arguments(bench: &Bench) -> Outcome {
    each(bench, false, READ, shorter, Expect::Harmless)
}

fn long_arguments(bench: &Bench) -> Outcome {
    each(bench, false, READ, longer, Expect::Same)
}

/// Smaller than the size itself.
fn absurd(_size: usize) -> Vec<usize> {
    vec![0]
}

fn no_size(bench: &Bench) -> Outcome {
    each(bench, false, &[Part::Args, Part::Out, Part::Device], absurd, Expect::Invalid)
}

fn model_calls(bench: &Bench) -> Outcome {
    bench.model()?;
    each(bench, true, &[Part::Out], shorter, Expect::Harmless)?;
    each(bench, true, &[Part::Out], longer, Expect::Same)?;
    each(bench, true, &[Part::Args], shorter, Expect::Harmless)?;
    each(bench, true, &[Part::Args], longer, Expect::Same)?;
    each(bench, true, &[Part::Args, Part::Out], absurd, Expect::Invalid)
}

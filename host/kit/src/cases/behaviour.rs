//! A plugin is a guest in its process: it prints nothing, changes nothing that is not its own, and lets the process end.

use crate::bench::Bench;
use crate::case::{Case, Outcome, Stop};
use crate::measure::Manners;
use crate::rows::{Shape, feed};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case { ends_by_itself: true, ..Case::new("behaviour.quiet", "Nothing is printed, and the process ends by itself with status 0 after all was closed", &[], quiet) },
    Case::new("behaviour.process", "Environment, working folder, locale, umask, signals, priority and arithmetic stay as they were", &[], process),
];

/// Everything once, from loading to closing. What fails has a case of its own.
fn use_all(bench: &Bench) -> Outcome {
    let (plugin, device) = (bench.plugin()?, bench.device()?);
    bench.step("probe");
    let _ = plugin.probe(std::slice::from_ref(&device));
    let garbage = bench.scratch("garbage.bin", &[0x5a; 4096])?;
    let cancel = onebit_loader::CancelFlag::new();
    bench.step("fit and open of a file that is none");
    let options = &bench.setup.options;
    let _ = plugin.fit(&onebit_loader::FitRequest { path: &garbage, device: &device, context: None, sequences: 1, options });
    drop(bench.open_with(&garbage, &cancel, &mut |_| {})?);
    let Some(path) = &bench.setup.model else { return Ok(()) };
    bench.step("fit and open of the model");
    let _ = plugin.fit(&onebit_loader::FitRequest { path, device: &device, context: None, sequences: 1, options });
    let model = bench.open()?;
    if let Some(tokenizer) = model.tokenizer() {
        bench.step("the tokenizer");
        let tokens = tokenizer.encode("Hello 😀", onebit_loader::Encode::default());
        let _ = tokens.and_then(|tokens| tokenizer.decode(&tokens, true));
    }
    if let Some(embedder) = model.embedder() {
        bench.step("embedding");
        let _ = embedder.embed(&[&[0, 0]], true, None);
    }
    if let Some(forward) = model.forward() {
        bench.step("computing");
        let shape = Shape::usual(forward.limits());
        let mut session = shape.open(&forward)?;
        feed(&mut session, 0, 0, &[0, 0, 0], 2)?;
        let _ = crate::rows::submit(&mut session, &[(0, 99, 0)], |_| true);
        let _ = session.seq_copy(0, 1 % shape.sequences, 0, u32::MAX);
        if let Ok(state) = session.state_save(0) {
            let _ = session.state_load(0, &state);
            let _ = session.state_load(0, &state[..state.len() / 2]);
        }
        bench.step("closing the session");
    }
    bench.step("closing the model");
    Ok(())
}

fn quiet(bench: &Bench) -> Outcome {
    use_all(bench)?;
    bench.step("ending the process");
    Ok(())
}

fn process(bench: &Bench) -> Outcome {
    let before = Manners::now();
    use_all(bench)?;
    match before.changes(&Manners::now()) {
        changes if changes.is_empty() => Ok(()),
        changes => Err(Stop::Failed(changes.join("; "))),
    }
}

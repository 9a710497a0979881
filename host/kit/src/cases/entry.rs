//! The way in: both doors, and hosts that are older, newer or offer nothing.

use onebit_loader::LoadError;
use onebit_loader::bare::HostShape;

use crate::bench::Bench;
use crate::case::{Case, Failing, Outcome, ensure, fail};
use crate::message::Way;

pub(super) static CASES: &[Case] = &[
    Case::new(
        "entry.table",
        "The table is there, agrees with the note, and is the same however often and through whichever door",
        &[],
        table,
    ),
    Case::new(
        "entry.sparing-host",
        "A host that offers no function at all, not even to report an error, is no reason to crash",
        &[],
        sparing,
    ),
    Case::new(
        "entry.old-host",
        "A host whose table ends before its functions is refused or lived with, and nothing behind it is read",
        &[],
        old,
    ),
    Case::new("entry.new-host", "A host of a later minor, with functions that nobody knows yet, changes nothing", &[], new),
];

fn table(bench: &Bench) -> Outcome {
    let file = bench.file()?;
    let plugin = bench.plugin()?;
    ensure!(!plugin.info().computes_with.is_empty(), "info.computes_with is empty: people want to know what computes");
    let again = bench.load(HostShape::Usual)?.failed("loading a second time")?;
    ensure!(again.table_address() == plugin.table_address(), "a second call of the entry gave another table");
    let ways = [(file.note.has_rust_door(), Way::Rust), (file.note.has_c_door(), Way::C)];
    for (_, way) in ways.iter().filter(|(offered, way)| *offered && *way != bench.setup.way) {
        bench.step(&format!("entering through door {}", way.name()));
        let other = onebit_loader::Plugin::load_through(&file, onebit_loader::HostSink::tracing(), way.door());
        let other = other.failed(&format!("door {}", way.name()))?;
        ensure!(other.table_address() == plugin.table_address(), "door {} leads to another table", way.name());
    }
    Ok(())
}

/// Asks for everything that needs no model of the right kind.
fn use_it(bench: &Bench, shape: HostShape) -> Outcome {
    bench.step("loading the plugin");
    let plugin = bench.load(shape)?.failed("loading the plugin")?;
    let device = bench.device()?;
    bench.step("probe");
    plugin.probe(std::slice::from_ref(&device)).failed("probe")?;
    let path = bench.scratch("garbage.bin", &[0x5a; 512])?;
    let (options, cancel) = (&bench.setup.options, onebit_loader::CancelFlag::new());
    bench.step("fit of a file that is none");
    // Any answer will do: a failure is one, and nobody hears its reason.
    let _ = plugin.fit(&onebit_loader::FitRequest { path: &path, device: &device, context: None, sequences: 1, options });
    bench.step("open of a file that is none");
    let request =
        onebit_loader::OpenRequest { path: &path, device: &device, threads: None, options, cancel: &cancel, progress: &mut |_| {} };
    if plugin.open(request).is_ok() {
        fail!("open made a model of a file of garbage");
    }
    let Some(path) = &bench.setup.model else { return Ok(()) };
    bench.step("open of the model");
    let request = onebit_loader::OpenRequest { path, device: &device, threads: None, options, cancel: &cancel, progress: &mut |_| {} };
    let model = plugin.open(request).failed("opening the model")?;
    if let Some(forward) = model.forward() {
        bench.step("computing");
        let shape = crate::rows::Shape::usual(forward.limits());
        let mut session = shape.open(&forward)?;
        crate::rows::feed(&mut session, 0, 0, &[0, 0], 2)?;
    }
    bench.step("closing the model");
    drop(model);
    Ok(())
}

fn sparing(bench: &Bench) -> Outcome {
    use_it(bench, HostShape::NoFunctions)
}

fn old(bench: &Bench) -> Outcome {
    bench.step("loading the plugin");
    match bench.load(HostShape::Older)? {
        Err(LoadError::Entry { .. }) => Ok(()),
        Err(error) => fail!("loading the plugin: {error}"),
        Ok(_) => use_it(bench, HostShape::Older),
    }
}

fn new(bench: &Bench) -> Outcome {
    use_it(bench, HostShape::Newer)
}

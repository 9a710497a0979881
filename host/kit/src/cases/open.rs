//! Loading a model, and not loading what is none.

use onebit_loader::devices::DeviceKind;
use onebit_loader::{CancelFlag, OpenRequest, PluginError, Status};

use super::files;
use super::probe::nowhere;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};

pub(super) static CASES: &[Case] = &[
    Case::new("open.model", "A model opens, says what it is and how far it is, and offers what the note lists", &[Need::Model], model),
    Case::new("open.bad-files", "What is no model is refused with a status that says what is wrong with the file", &[], bad_files),
    Case::new("open.refused-device", "A device that the plugin says no to is refused as unavailable, never replaced", &[], refused_device),
];

fn model(bench: &Bench) -> Outcome {
    bench.plugin()?;
    bench.step("opening the model");
    let mut heard = Vec::new();
    let begin = std::time::Instant::now();
    let model = bench.open_with(bench.path()?, &CancelFlag::new(), &mut |fraction| heard.push(fraction))?.failed("open")?;
    bench.number("open", begin.elapsed().as_secs_f64() * 1e3, "ms", None);
    let description = model.description();
    for (name, text) in [("computes_on", &description.computes_on), ("architecture", &description.architecture)] {
        ensure!(!text.is_empty(), "open.{name} is empty");
    }
    ensure!(heard.windows(2).all(|pair| pair[0] <= pair[1]), "progress goes backwards: {heard:?}");
    if heard.is_empty() {
        bench.remark("open told nobody how far it is: a long load will look like a hang");
    }
    bench.step("asking for capabilities");
    for id in bench.file()?.note.capabilities {
        if !model.offers_unchecked(&id) {
            bench.remark(format!("the note lists {id}, and this model does not have it"));
        }
    }
    for id in ["", "onebit.nothing/1", "onebit.forward/2", "onebit.forward", "org.example.thing/1"] {
        ensure!(!model.offers_unchecked(id), "there is a table for {id:?}, which the plugin does not list");
    }
    bench.step("closing the model");
    drop(model);
    Ok(())
}

/// An error of a load must name what is wrong with what was given, not with the plugin.
pub(super) fn typed(what: &str, error: &PluginError, allowed: &[Status]) -> Outcome {
    if !allowed.contains(&error.status) {
        let names: Vec<&str> = allowed.iter().map(|status| status.name()).collect();
        fail!("{what} is answered with {error}; allowed are {}", names.join(", "));
    }
    ensure!(!error.message.is_empty() && error.message != "the plugin gave no reason", "{what}: {} without a reason", error.status);
    Ok(())
}

fn refused_device(bench: &Bench) -> Outcome {
    let plugin = bench.plugin()?;
    let path = match &bench.setup.model {
        Some(path) => path.clone(),
        None => bench.scratch("garbage.bin", b"nothing")?,
    };
    for kind in [DeviceKind::Vulkan, DeviceKind::Accel] {
        let device = nowhere(kind);
        bench.step(&format!("open on {}", device.id));
        let (options, cancel) = (&bench.setup.options, &CancelFlag::new());
        match plugin.open(OpenRequest { path: &path, device: &device, threads: None, options, cancel, progress: &mut |_| {} }) {
            Ok(model) => fail!("open on {} made a model that computes on {}", device.id, model.description().computes_on),
            Err(error) if bench.setup.model.is_some() => {
                typed("open on a device that is not there", &error, &[Status::DEVICE_UNAVAILABLE])?
            }
            // Without a model the plugin may look at the file first.
            Err(error) => ensure!(error.status != Status::INTERNAL, "open on a device that is not there: {error}"),
        }
    }
    Ok::<(), Stop>(())
}

fn bad_files(bench: &Bench) -> Outcome {
    bench.plugin()?;
    for bad in files::bad(bench)? {
        bench.step(&format!("open of {}", bad.what));
        match bench.open_with(&bad.path, &CancelFlag::new(), &mut |_| {})? {
            // A text has no length; real weights have one, and a download that was torn must be noticed.
            Ok(_) if bad.of_model && !bad.large => {}
            Ok(_) if bad.of_model => bench.remark(format!("{} opens: a download that was torn will not be noticed", bad.what)),
            Ok(_) => fail!("{} was opened as a model", bad.what),
            Err(error) => {
                typed(bad.what, &error, &[Status::IO, Status::CORRUPT_MODEL, Status::UNSUPPORTED, Status::INVALID_ARGUMENT])?;
            }
        }
    }
    Ok(())
}

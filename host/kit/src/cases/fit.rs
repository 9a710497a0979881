//! What a plugin says of a model file before anything is loaded.

use std::path::Path;

use onebit_loader::devices::{Device, DeviceKind};
use onebit_loader::{Fit, FitRequest, PluginError, Reason, Status};

use super::files;
use super::probe::nowhere;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};

pub(super) static CASES: &[Case] = &[
    Case::new(
        "fit.model",
        "A model is judged usable, with sizes that grow with the context and do not change by asking",
        &[Need::Model],
        model,
    ),
    Case::new("fit.bad-files", "What is no model is never judged usable, and the answer says why", &[], bad_files),
    Case::new("fit.wrong-kind", "A model is not usable on a kind of device that plugin.toml does not name", &[Need::Model], wrong_kind),
];

fn ask(bench: &Bench, path: &Path, device: &Device, context: Option<u32>) -> Result<Result<Fit, PluginError>, Stop> {
    let options = &bench.setup.options;
    Ok(bench.plugin()?.fit(&FitRequest { path, device, context, sequences: 1, options }))
}

fn model(bench: &Bench) -> Outcome {
    let (path, device) = (bench.path()?, bench.device()?);
    bench.plugin()?;
    bench.step("fit of the model");
    let begin = std::time::Instant::now();
    let fit = ask(bench, path, &device, Some(256))?.failed("fit of the model")?;
    bench.number("fit", begin.elapsed().as_secs_f64() * 1e3, "ms", None);
    ensure!(fit.usable, "the model is not usable: {:?}, {}", fit.reason, fit.text);
    ensure!(fit.reason == Reason::None, "the model is usable, and for a reason not: {:?}", fit.reason);
    ensure!(!fit.architecture.is_empty(), "fit.architecture is empty");
    ensure!(fit.weights_host + fit.weights_device > 0, "a model whose weights need no memory");
    let again = ask(bench, path, &device, Some(256))?.failed("fit once more")?;
    ensure!(fit == again, "two answers one after the other differ: {fit:?} and {again:?}");
    let twice = ask(bench, path, &device, Some(512))?.failed("fit of twice the context")?;
    ensure!(twice.state >= fit.state, "512 positions need {} bytes of state, 256 need {}", twice.state, fit.state);
    ensure!(
        fit.state_per_token == 0 || twice.state > fit.state,
        "a position costs {} bytes, and 256 more cost nothing",
        fit.state_per_token
    );
    let trained = ask(bench, path, &device, None)?.failed("fit of the trained context")?;
    ensure!(trained.context_trained == fit.context_trained, "the trained context depends on the context that is asked for");
    if let Some(forward) = bench.model()?.forward() {
        let trained = u64::from(forward.limits().context_trained);
        ensure!(fit.context_trained == trained, "fit says {} trained positions, the loaded model {trained}", fit.context_trained);
    }
    Ok(())
}

fn bad_files(bench: &Bench) -> Outcome {
    let device = bench.device()?;
    bench.plugin()?;
    for bad in files::bad(bench)? {
        bench.step(&format!("fit of {}", bad.what));
        match ask(bench, &bad.path, &device, Some(256))? {
            // Judging reads headers only.
            Ok(fit) if fit.usable && bad.of_model => {}
            Ok(fit) if fit.usable => fail!("{} is judged usable", bad.what),
            Ok(fit) => {
                ensure!(fit.reason != Reason::None, "{} is not usable for no reason", bad.what);
                ensure!(!fit.text.is_empty(), "{} is not usable, and no sentence says why", bad.what);
            }
            Err(error) => {
                let allowed = [Status::IO, Status::CORRUPT_MODEL, Status::UNSUPPORTED, Status::INVALID_ARGUMENT];
                super::open::typed(bad.what, &error, &allowed)?;
            }
        }
    }
    Ok(())
}

fn wrong_kind(bench: &Bench) -> Outcome {
    let takes = bench.file()?.toml.device_kinds;
    let others: Vec<DeviceKind> =
        [DeviceKind::Cpu, DeviceKind::Vulkan, DeviceKind::Accel].into_iter().filter(|kind| !takes.contains(kind)).collect();
    if others.is_empty() {
        return Err(Stop::Skipped("the plugin takes every kind of device".into()));
    }
    for kind in others {
        let device = nowhere(kind);
        bench.step(&format!("fit on {}", device.id));
        match ask(bench, bench.path()?, &device, Some(256))? {
            Ok(fit) if fit.usable => fail!("the model is usable on {}, a kind that plugin.toml does not name", device.id),
            Ok(fit) => ensure!(!fit.text.is_empty(), "not usable on {}, and no sentence says why", device.id),
            Err(error) => super::open::typed("fit on another kind of device", &error, &[Status::DEVICE_UNAVAILABLE])?,
        }
    }
    Ok(())
}

//! What a plugin says of devices.

use onebit_loader::devices::{self, Device, DeviceKind};
use onebit_loader::{ProbeReport, Reason};

use crate::bench::Bench;
use crate::case::{Case, Failing, Outcome, ensure};

pub(super) static CASES: &[Case] = &[
    Case::new("probe.devices", "Every device of this machine gets an answer, in order, with a reason where it is no", &[], all_devices),
    Case::new("probe.unknown-kind", "A kind of device that nobody knows yet is refused as the wrong kind", &[], unknown_kind),
    Case::new("probe.absent-device", "A device that is not in this machine is not usable", &[], absent_device),
];

fn reasonable(device: &Device, report: &ProbeReport) -> Outcome {
    if report.usable {
        ensure!(report.reason == Reason::None, "{} is usable, and for a reason not: {:?}", device.id, report.reason);
        ensure!(report.memory_host || report.memory_device, "{} is usable, and models lie in no memory", device.id);
        ensure!(report.score > 0, "{} is usable with score 0", device.id);
    } else {
        ensure!(report.reason != Reason::None, "{} is not usable for no reason", device.id);
        ensure!(!report.text.is_empty(), "{} is not usable, and no sentence says why", device.id);
    }
    Ok(())
}

fn all_devices(bench: &Bench) -> Outcome {
    let plugin = bench.plugin()?;
    bench.step("probe of no device");
    ensure!(plugin.probe(&[]).failed("probe of no device")?.is_empty(), "no device was asked for, and there are reports");
    bench.step("listing the devices");
    let list = devices::list().devices;
    bench.step("probe of all devices");
    let reports = plugin.probe(&list).failed("probe of all devices")?;
    let again = plugin.probe(&list).failed("probe of all devices once more")?;
    let usable = |reports: &[ProbeReport]| reports.iter().map(|report| report.usable).collect::<Vec<_>>();
    ensure!(usable(&reports) == usable(&again), "two probes one after the other disagree");
    for (device, report) in list.iter().zip(&reports) {
        reasonable(device, report)?;
    }
    let kinds = bench.file()?.toml.device_kinds;
    for (device, _) in list.iter().zip(&reports).filter(|(device, report)| report.usable && !kinds.contains(&device.kind)) {
        bench.remark(format!("{} is usable, and plugin.toml does not name its kind", device.id));
    }
    let backwards: Vec<Device> = list.iter().rev().cloned().collect();
    let turned = plugin.probe(&backwards).failed("probe in another order")?;
    let expected: Vec<bool> = usable(&reports).into_iter().rev().collect();
    ensure!(usable(&turned) == expected, "the reports do not stand in the order of the devices");
    bench.number("usable devices", reports.iter().filter(|report| report.usable).count() as f64, "", None);
    Ok(())
}

fn unknown_kind(bench: &Bench) -> Outcome {
    let report = bench.plugin()?.probe_kind_unchecked(&devices::cpu(), 4711).failed("probe of kind 4711")?;
    ensure!(!report.usable, "a device of kind 4711 is said to be usable");
    ensure!(report.reason == Reason::WrongKind, "a device of kind 4711 is refused for {:?}, not as the wrong kind", report.reason);
    Ok(())
}

/// A device of a kind that there is, which is nowhere.
pub(super) fn nowhere(kind: DeviceKind) -> Device {
    let (id, uuid) = match kind {
        DeviceKind::Cpu => ("cpu".to_owned(), [0; 16]),
        DeviceKind::Vulkan => (format!("vulkan:{}", "a5".repeat(16)), [0xa5; 16]),
        DeviceKind::Accel => ("accel:ffff:ff:1f.7".to_owned(), [0; 16]),
    };
    Device { id, kind, uuid, name: "Nothing at all".into(), driver: "none".into(), ..devices::cpu() }
}

fn absent_device(bench: &Bench) -> Outcome {
    for kind in [DeviceKind::Vulkan, DeviceKind::Accel] {
        let device = nowhere(kind);
        bench.step(&format!("probe of {}", device.id));
        let reports = bench.plugin()?.probe(std::slice::from_ref(&device)).failed("probe")?;
        for report in &reports {
            ensure!(!report.usable, "{} is in no machine, and said to be usable", device.id);
            reasonable(&device, report)?;
        }
    }
    Ok(())
}

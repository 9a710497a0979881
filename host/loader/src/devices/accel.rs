//! Nodes of the kernel's accel subsystem (NPUs), from `/sys/class/accel`. Nothing is opened: only names and versions are read.

use std::fs;
use std::path::Path;

use super::{Device, DeviceKind};

/// Files in which drivers show their firmware's version, relative to the device. One row per driver that has one.
const FIRMWARE: &[&str] = &["fw_version", "firmware_version", "fw_ver"];

/// Devices, and notes.
pub(super) fn list(class: &Path, notes: &mut Vec<String>) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(class) else {
        notes.push("no accel nodes: the kernel has no driver for an NPU loaded".into());
        return Vec::new();
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let mut devices = Vec::new();
    for name in names {
        match node(&class.join(&name)) {
            Some(device) => devices.push(device),
            None => notes.push(format!("accel node {} has no device behind it", name.to_string_lossy())),
        }
    }
    devices
}

fn node(node: &Path) -> Option<Device> {
    let device = node.join("device").canonicalize().ok()?;
    let address = device.file_name()?.to_str()?.to_owned();
    let driver = device.join("driver").canonicalize().ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let version = line(&device.join("driver/module/version"));
    let firmware = FIRMWARE.iter().find_map(|file| line(&device.join(file))).unwrap_or_default();
    let name = line(&device.join("vbnv")).or_else(|| line(&device.join("label"))).unwrap_or_else(|| format!("{driver} at {address}"));
    Some(Device {
        id: format!("accel:{address}"),
        kind: DeviceKind::Accel,
        name,
        driver: version.map_or(driver.clone(), |version| format!("{driver} {version}")),
        firmware,
        uuid: [0; 16],
        vendor_id: hex(&device.join("vendor")),
        device_id: hex(&device.join("device")),
        memory_total: 0,
        memory_free: 0,
        integrated: true,
        software: false,
    })
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let first = text.lines().next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

fn hex(path: &Path) -> u32 {
    line(path).and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_described_by_what_its_driver_shows() {
        let sys = tempfile::tempdir().expect("a folder");
        let pci = sys.path().join("0000:c5:00.1");
        let driver = sys.path().join("amdxdna");
        fs::create_dir_all(&pci).expect("pci");
        fs::create_dir_all(driver.join("module")).expect("driver");
        fs::write(driver.join("module/version"), "2.19\n").expect("version");
        std::os::unix::fs::symlink(&driver, pci.join("driver")).expect("link");
        for (file, text) in [("vendor", "0x1022\n"), ("device", "0x17f0\n"), ("fw_version", "1.0.0.63\n"), ("vbnv", "NPU Strix\n")] {
            fs::write(pci.join(file), text).expect("fact");
        }
        let class = sys.path().join("class");
        fs::create_dir_all(class.join("accel0")).expect("class");
        std::os::unix::fs::symlink(&pci, class.join("accel0/device")).expect("link");
        let mut notes = Vec::new();
        let devices = list(&class, &mut notes);
        assert_eq!(devices.len(), 1, "{notes:?}");
        let device = &devices[0];
        assert_eq!((device.id.as_str(), device.name.as_str()), ("accel:0000:c5:00.1", "NPU Strix"));
        assert_eq!((device.driver.as_str(), device.firmware.as_str()), ("amdxdna 2.19", "1.0.0.63"));
        assert_eq!((device.vendor_id, device.device_id), (0x1022, 0x17f0));
    }

    #[test]
    fn no_accel_subsystem_is_a_note() {
        let mut notes = Vec::new();
        assert!(list(Path::new("/nonexistent"), &mut notes).is_empty());
        assert_eq!(notes.len(), 1);
    }
}

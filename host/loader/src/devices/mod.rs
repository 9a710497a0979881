//! The devices of this machine: the processor, Vulkan devices, accel nodes.
//!
//! What is absent is a note for a person, not an error: a machine without libvulkan has a processor. The list is made once and given to
//! every plugin, so that all of them speak of the same things by the same names.

mod accel;
mod cpu;
mod vulkan;

use std::path::Path;

use serde::{Deserialize, Serialize};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The processor.
    Cpu,
    /// A Vulkan physical device.
    Vulkan,
    /// A node of the kernel's accel subsystem.
    Accel,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Stable name: `cpu`, `vulkan:<32 hex digits>`, `accel:<PCI address>`.
    pub id: String,
    /// What it is.
    pub kind: DeviceKind,
    /// For people.
    pub name: String,
    /// Driver and its version.
    pub driver: String,
    /// Firmware version, or empty.
    pub firmware: String,
    /// `deviceUUID` for Vulkan; zeros otherwise.
    pub uuid: [u8; 16],
    /// PCI vendor, or 0.
    pub vendor_id: u32,
    /// PCI device, or 0.
    pub device_id: u32,
    /// Bytes the device computes from; 0 = unknown.
    pub memory_total: u64,
    /// Bytes free of it when the list was made; 0 = unknown.
    pub memory_free: u64,
    /// Shares the machine's memory with the CPU.
    pub integrated: bool,
    /// Computes on the CPU though it is no CPU device (lavapipe).
    pub software: bool,
}

/// All devices, and what kept others from being listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceList {
    /// CPU first, then Vulkan, then accel.
    pub devices: Vec<Device>,
    /// Sentences for a person: why there is no Vulkan, …
    pub notes: Vec<String>,
}

/// Lists the devices. Starts the Vulkan drivers: call it in a process that may die (probe, doctor), never in the front.
pub fn list() -> DeviceList {
    let mut notes = Vec::new();
    let mut devices = vec![cpu::device()];
    devices.extend(vulkan::list(&mut notes));
    devices.extend(accel::list(Path::new("/sys/class/accel"), &mut notes));
    DeviceList { devices, notes }
}

/// The processor alone: what needs no driver, and so may be asked for in any process.
pub fn cpu() -> Device {
    cpu::device()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_of_device_is_listed_or_its_absence_is_explained() {
        let list = list();
        assert_eq!(list.devices[0].id, "cpu");
        for (kind, word) in [(DeviceKind::Vulkan, "Vulkan"), (DeviceKind::Accel, "accel")] {
            let there = list.devices.iter().any(|device| device.kind == kind);
            assert!(there || list.notes.iter().any(|note| note.contains(word)), "{list:?}");
        }
        let ids: BTreeSet<&str> = list.devices.iter().map(|device| device.id.as_str()).collect();
        assert_eq!(ids.len(), list.devices.len(), "{list:?}");
        for device in list.devices.iter().filter(|device| device.kind == DeviceKind::Vulkan) {
            assert!(!device.name.is_empty() && !device.driver.is_empty() && device.memory_total > 0, "{device:?}");
            assert!(device.memory_free <= device.memory_total && device.uuid != [0; 16], "{device:?}");
        }
    }
}

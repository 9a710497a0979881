//! Devices. The host lists them once and owns the list; a plugin says what it thinks of each.

use crate::basic::OnebitStr;

/// The processor.
pub const ONEBIT_DEVICE_CPU: u32 = 1;
/// A Vulkan physical device, named by its UUID (`VkPhysicalDeviceIDProperties::deviceUUID`).
pub const ONEBIT_DEVICE_VULKAN: u32 = 2;
/// A node of the kernel's accel subsystem (`/dev/accel/accelN`).
pub const ONEBIT_DEVICE_ACCEL: u32 = 3;

/// Shares the machine's memory with the CPU.
pub const ONEBIT_DEVICE_FLAG_INTEGRATED: u32 = 1;
/// Computes on the CPU (lavapipe and the like): right answers, slowly. Only used when it is asked for.
pub const ONEBIT_DEVICE_FLAG_SOFTWARE: u32 = 2;

/// One device. All texts live as long as the struct that carries them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitDevice {
    /// `sizeof(OnebitDevice)` of the host.
    pub struct_size: usize,
    /// One of `ONEBIT_DEVICE_*`.
    pub kind: u32,
    /// Bits `ONEBIT_DEVICE_FLAG_*`.
    pub flags: u32,
    /// Stable name: `cpu`, `vulkan:<32 hex digits>`, `accel:<PCI address>`.
    pub id: OnebitStr,
    /// For people.
    pub name: OnebitStr,
    /// Driver and its version.
    pub driver: OnebitStr,
    /// Firmware version, or empty.
    pub firmware: OnebitStr,
    /// `deviceUUID` for Vulkan; zeros otherwise.
    pub uuid: [u8; 16],
    /// PCI vendor, or 0.
    pub vendor_id: u32,
    /// PCI device, or 0.
    pub device_id: u32,
    /// Bytes of memory the device computes from; 0 = unknown.
    pub memory_total: u64,
    /// Bytes free of it, when the list was made; 0 = unknown.
    pub memory_free: u64,
}

/// Memory kinds, as bits of [`OnebitProbeReport::memory_kinds`].
pub const ONEBIT_MEMORY_HOST: u32 = 1;
/// The device's own memory.
pub const ONEBIT_MEMORY_DEVICE: u32 = 2;

/// Why a device cannot be used: nothing is wrong.
pub const ONEBIT_REASON_NONE: u32 = 0;
/// This plugin has nothing for that kind of device.
pub const ONEBIT_REASON_WRONG_KIND: u32 = 1;
/// A library, driver or firmware is missing.
pub const ONEBIT_REASON_MISSING_DRIVER: u32 = 2;
/// A driver or firmware is too old.
pub const ONEBIT_REASON_OLD_DRIVER: u32 = 3;
/// The device lacks a feature.
pub const ONEBIT_REASON_MISSING_FEATURE: u32 = 4;
/// Permissions, limits (memlock), a cgroup.
pub const ONEBIT_REASON_NOT_PERMITTED: u32 = 5;
/// The model file is damaged.
pub const ONEBIT_REASON_CORRUPT_MODEL: u32 = 6;
/// The architecture or quantisation is not known to this plugin.
pub const ONEBIT_REASON_UNSUPPORTED_MODEL: u32 = 7;
/// The device was tried and failed.
pub const ONEBIT_REASON_FAILED: u32 = 8;

/// A plugin's word about one device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitProbeReport {
    /// `sizeof(OnebitProbeReport)` of the plugin.
    pub struct_size: usize,
    /// 1 = can be used, 0 = not, for `reason`.
    pub usable: u32,
    /// Higher is better; compared between devices of one plugin only. 100 = what this plugin was made for.
    pub score: u32,
    /// One of `ONEBIT_REASON_*`.
    pub reason_code: u32,
    /// 1 = only one process at a time may use the device through this plugin.
    pub exclusive: u32,
    /// Bits `ONEBIT_MEMORY_*`: where models would lie.
    pub memory_kinds: u32,
    /// Zero.
    pub reserved: u32,
    /// One sentence for a person. Lives until the next `probe`.
    pub reason: OnebitStr,
}

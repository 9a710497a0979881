//! Devices as the host lists them, and a plugin's word about each.

use onebit_plugin_api as abi;

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The processor.
    Cpu,
    /// A Vulkan physical device.
    Vulkan,
    /// A node of the kernel's accel subsystem.
    Accel,
    /// A kind that this SDK does not know: refuse it.
    Other(u32),
}

/// One device of the host's list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Stable name: `cpu`, `vulkan:<32 hex digits>`, `accel:<PCI address>`.
    pub id: String,
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
    /// Bytes free of it; 0 = unknown.
    pub memory_free: u64,
    /// Shares the machine's memory with the CPU.
    pub integrated: bool,
    /// Computes on the CPU though it is no CPU device (lavapipe).
    pub software: bool,
}

/// Why a device or a model cannot be used. The numbers of `ONEBIT_REASON_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Nothing for that kind of device.
    WrongKind = abi::ONEBIT_REASON_WRONG_KIND,
    /// A library, driver or firmware is missing.
    MissingDriver = abi::ONEBIT_REASON_MISSING_DRIVER,
    /// A driver or firmware is too old.
    OldDriver = abi::ONEBIT_REASON_OLD_DRIVER,
    /// The device lacks a feature.
    MissingFeature = abi::ONEBIT_REASON_MISSING_FEATURE,
    /// Permissions, limits (memlock), a cgroup.
    NotPermitted = abi::ONEBIT_REASON_NOT_PERMITTED,
    /// The model file is damaged.
    CorruptModel = abi::ONEBIT_REASON_CORRUPT_MODEL,
    /// The architecture or quantisation is not known.
    UnsupportedModel = abi::ONEBIT_REASON_UNSUPPORTED_MODEL,
    /// The device was tried and failed.
    Failed = abi::ONEBIT_REASON_FAILED,
}

/// Where models would lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryKinds {
    /// The machine's memory.
    pub host: bool,
    /// The device's own memory.
    pub device: bool,
}

/// A plugin's word about one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    pub(crate) refused: Option<Reason>,
    pub(crate) score: u32,
    pub(crate) exclusive: bool,
    pub(crate) memory: MemoryKinds,
    pub(crate) text: String,
}

impl ProbeReport {
    /// The device can be used. `score` 100 = what this plugin was made for; compared between devices of one plugin only.
    pub fn usable(score: u32, memory: MemoryKinds) -> Self {
        Self { refused: None, score, exclusive: false, memory, text: String::new() }
    }

    /// The device cannot be used; one sentence for a person.
    pub fn refused(reason: Reason, text: impl Into<String>) -> Self {
        Self { refused: Some(reason), score: 0, exclusive: false, memory: MemoryKinds::default(), text: text.into() }
    }

    /// Only one process at a time may use the device through this plugin.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// A remark for a person on a usable device (what makes it slower than it could be, for example).
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Whether the device can be used.
    pub fn is_usable(&self) -> bool {
        self.refused.is_none()
    }
}

//! Which devices a manifest or a person means: `any`, `cpu`, `vulkan`, `vulkan:<uuid>`, …
//!
//! A software Vulkan device (lavapipe) gives right answers slowly. It is never what somebody meant by `any` or `vulkan`; it has to be named.

use std::fmt;
use std::str::FromStr;

use onebit_loader::devices::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

/// A set of devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Selector {
    /// Every device that computes in hardware.
    #[default]
    Any,
    /// The processor.
    Cpu,
    /// Vulkan devices that are hardware.
    Vulkan,
    /// Vulkan devices that are software.
    VulkanSoftware,
    /// Nodes of the accel subsystem.
    Accel,
    /// One device by its id: `vulkan:<32 hex digits>`, `accel:<PCI address>`.
    Id(String),
}

/// A text that names no set of devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is {0:?}; write any, cpu, vulkan, vulkan:<uuid>, vulkan-software, accel or accel:<PCI address> (`onebit-host doctor` lists the devices)"
)]
pub struct SelectorError(String);

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let wrong = || SelectorError(text.to_owned());
        let folded = text.trim().to_ascii_lowercase();
        Ok(match folded.as_str() {
            "any" | "auto" => Self::Any,
            "cpu" => Self::Cpu,
            "vulkan" => Self::Vulkan,
            "vulkan-software" => Self::VulkanSoftware,
            "accel" => Self::Accel,
            other => match other.split_once(':').ok_or_else(wrong)? {
                ("vulkan", uuid) => {
                    let digits: String = uuid.chars().filter(|&c| c != '-').collect();
                    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return Err(wrong());
                    }
                    Self::Id(format!("vulkan:{digits}"))
                }
                ("accel", address) if !address.is_empty() => Self::Id(format!("accel:{address}")),
                _ => return Err(wrong()),
            },
        })
    }
}

impl TryFrom<String> for Selector {
    type Error = SelectorError;

    fn try_from(text: String) -> Result<Self, SelectorError> {
        text.parse()
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.to_string()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Cpu => "cpu",
            Self::Vulkan => "vulkan",
            Self::VulkanSoftware => "vulkan-software",
            Self::Accel => "accel",
            Self::Id(id) => id,
        })
    }
}

impl Selector {
    /// Whether `device` is meant by both this and `other`. Each may be what names a software device for the other: a person who asks for
    /// `vulkan-software` gets it from a manifest that says `vulkan`.
    pub fn both(&self, other: &Selector, device: &Device) -> bool {
        let software = self.names_software(device) || other.names_software(device);
        self.covers(device, software) && other.covers(device, software)
    }

    fn names_software(&self, device: &Device) -> bool {
        match self {
            Self::VulkanSoftware => device.kind == DeviceKind::Vulkan,
            Self::Id(id) => *id == device.id,
            _ => false,
        }
    }

    fn covers(&self, device: &Device, software: bool) -> bool {
        let right_kind = match self {
            Self::Any => true,
            Self::Cpu => device.kind == DeviceKind::Cpu,
            Self::Vulkan => device.kind == DeviceKind::Vulkan,
            Self::VulkanSoftware => device.kind == DeviceKind::Vulkan && device.software,
            Self::Accel => device.kind == DeviceKind::Accel,
            Self::Id(id) => *id == device.id,
        };
        right_kind && (software || !device.software)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `cpu`, `vulkan:<32 × one digit>`; a digit `5` makes it a software device.
    pub(crate) fn device(id: &str) -> Device {
        let kind = match id.split(':').next() {
            Some("vulkan") => DeviceKind::Vulkan,
            Some("accel") => DeviceKind::Accel,
            _ => DeviceKind::Cpu,
        };
        let id = match id.split_once(':') {
            Some(("vulkan", digit)) => format!("vulkan:{}", digit.repeat(32)),
            _ => id.to_owned(),
        };
        Device {
            software: id.ends_with('5'),
            name: format!("device {}", id.get(..8).unwrap_or(&id)),
            id,
            kind,
            driver: "test 1".into(),
            firmware: String::new(),
            uuid: [0; 16],
            vendor_id: 0,
            device_id: 0,
            memory_total: 16 << 30,
            memory_free: 8 << 30,
            integrated: false,
        }
    }

    #[test]
    fn a_selector_means_what_the_table_says() {
        let devices = ["cpu", "vulkan:1", "vulkan:5", "accel:0000:c5:00.1"].map(device);
        let five = format!("vulkan:{}", "5".repeat(32));
        for (entry, preference, expected) in [
            ("any", "any", vec![0, 1, 3]),
            ("vulkan", "any", vec![1]),
            ("cpu", "any", vec![0]),
            ("accel", "any", vec![3]),
            ("vulkan-software", "any", vec![2]),
            (&five, "any", vec![2]),
            ("any", "vulkan-software", vec![2]),
            ("vulkan", &five, vec![2]),
            ("cpu", "vulkan-software", vec![]),
            ("vulkan", "cpu", vec![]),
            ("accel:0000:C5:00.1", "any", vec![3]),
        ] {
            let (a, b): (Selector, Selector) = (entry.parse().unwrap(), preference.parse().unwrap());
            let found: Vec<usize> = (0..devices.len()).filter(|&i| a.both(&b, &devices[i])).collect();
            assert_eq!(found, expected, "{entry} and {preference}");
            let turned: Vec<usize> = (0..devices.len()).filter(|&i| b.both(&a, &devices[i])).collect();
            assert_eq!(turned, expected, "{preference} and {entry}");
        }
    }

    #[test]
    fn a_uuid_may_be_written_with_dashes_and_capitals() {
        let selector: Selector = "Vulkan:0102ABCD-0000-1111-2222-333344445555".parse().unwrap();
        assert_eq!(selector.to_string(), "vulkan:0102abcd000011112222333344445555");
        for wrong in ["", "gpu", "vulkan:", "vulkan:12", "vulkan:zz", "accel:", "cuda:0"] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong:?}");
        }
    }
}

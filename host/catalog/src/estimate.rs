//! Bytes: what a model needs, what there is, and how both are written for people.

use onebit_loader::Fit;
use onebit_loader::devices::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

/// What a model will need, by its plugin's estimate, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// In the machine's memory.
    pub host: u64,
    /// In the device's memory.
    pub device: u64,
    /// Of both: weights.
    pub weights: u64,
    /// Of both: state of all sequences.
    pub state: u64,
    /// Of both: buffers to compute in.
    pub scratch: u64,
}

impl Estimate {
    pub(crate) fn of(fit: &Fit, device: &Device) -> Self {
        let on_cpu = device.kind == DeviceKind::Cpu;
        let (host_state, device_state) = if on_cpu { (fit.state, 0) } else { (0, fit.state) };
        Self {
            host: sum([fit.weights_host, fit.scratch_host, host_state]),
            device: sum([fit.weights_device, fit.scratch_device, device_state]),
            weights: sum([fit.weights_host, fit.weights_device]),
            state: fit.state,
            scratch: sum([fit.scratch_host, fit.scratch_device]),
        }
    }
}

/// Memory that a model could have, bytes. `None` = nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Free {
    /// Of the machine's memory.
    pub host: Option<u64>,
    /// Of the device's memory.
    pub device: Option<u64>,
}

/// The first memory that is too small: its name, bytes needed, bytes free.
pub(crate) fn shortage(estimate: &Estimate, free: &Free, device: &Device) -> Option<(&'static str, u64, u64)> {
    let over = |name, need: u64, free: Option<u64>| free.filter(|&free| need > free).map(|free| (name, need, free));
    // An integrated device computes from the machine's memory: both needs are one need there. The CPU device has no memory of its own.
    let shared = device.integrated || device.kind == DeviceKind::Cpu;
    let host = if shared { sum([estimate.host, estimate.device]) } else { estimate.host };
    over("memory", host, free.host)
        .or_else(|| if device.kind == DeviceKind::Cpu { None } else { over("device memory", estimate.device, free.device) })
}

fn sum<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

/// `98.4 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::device;

    #[test]
    fn the_memory_that_is_too_small_is_named() {
        let estimate = Estimate { host: 10, device: 100, ..Estimate::default() };
        let free = |host, device| Free { host: Some(host), device: Some(device) };
        let gpu = device("vulkan:1");
        assert_eq!(shortage(&estimate, &free(10, 100), &gpu), None);
        assert_eq!(shortage(&estimate, &free(9, 100), &gpu), Some(("memory", 10, 9)));
        assert_eq!(shortage(&estimate, &free(10, 99), &gpu), Some(("device memory", 100, 99)));
        assert_eq!(shortage(&estimate, &Free::default(), &gpu), None);
        let apu = Device { integrated: true, ..gpu };
        assert_eq!(shortage(&estimate, &free(109, 100), &apu), Some(("memory", 110, 109)));
        assert_eq!(shortage(&estimate, &free(110, 0), &device("cpu")), None);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(98_362_432), "93.8 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }
}

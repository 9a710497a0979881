//! The processor, from `/proc`.

use std::fs;

use super::{Device, DeviceKind};

/// Bytes read of a file in `/proc`; the facts stand at their beginnings.
const MAX_PROC: usize = 64 << 10;

/// Always there.
pub(super) fn device() -> Device {
    let memory = read_start("/proc/meminfo");
    Device {
        id: "cpu".into(),
        kind: DeviceKind::Cpu,
        name: name(&read_start("/proc/cpuinfo")).unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH)),
        driver: String::new(),
        firmware: String::new(),
        uuid: [0; 16],
        vendor_id: 0,
        device_id: 0,
        memory_total: kib(&memory, "MemTotal:"),
        memory_free: kib(&memory, "MemAvailable:"),
        integrated: false,
        software: false,
    }
}

fn read_start(path: &str) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    // What cannot be read is unknown, and unknown is 0 or a plain name: a processor is there all the same.
    let _ = fs::File::open(path).and_then(|file| file.take(MAX_PROC as u64).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `model name` on x86, `Model` on boards, `cpu model` on others.
fn name(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model", "uarch"].iter().find_map(|key| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == *key))?;
        let value = line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" ");
        (!value.is_empty()).then_some(value)
    })
}

fn kib(meminfo: &str, key: &str) -> u64 {
    let value =
        meminfo.lines().find_map(|line| line.strip_prefix(key)).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let device = device();
        assert!(!device.name.is_empty());
        assert!(device.memory_total > 0 && device.memory_free > 0 && device.memory_free <= device.memory_total, "{device:?}");
    }

    #[test]
    fn the_name_is_found_in_the_ways_kernels_write_it() {
        assert_eq!(name("processor\t: 0\nmodel name\t: AMD  Ryzen AI\n").as_deref(), Some("AMD Ryzen AI"));
        assert_eq!(name("processor : 0\nBogoMIPS : 50\n\nModel : Raspberry Pi 5\n").as_deref(), Some("Raspberry Pi 5"));
        assert_eq!(name(""), None);
        assert_eq!(kib("MemTotal:       100 kB\n", "MemTotal:"), 102_400);
        assert_eq!(kib("", "MemTotal:"), 0);
    }
}

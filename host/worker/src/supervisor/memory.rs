//! How much memory is free, and who holds the rest.
//!
//! Two sources are put together. The kernel says what is available, but it counts the mapped weights of a running worker as available, and it
//! does not know what a load that has just begun will need. The [`Ledger`] knows both: every worker process has a [`Claim`] from before it is
//! started until after it is reaped. The memory of a device is known from the device list only, so there the claims' estimates count.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_loader::devices::{Device, DeviceKind};

use crate::protocol::Stats;
use crate::spec::{LaunchSpec, MemoryEstimate};

/// What one worker holds or will hold.
#[derive(Debug, Clone)]
struct Holding {
    model: String,
    device: String,
    estimate: Split,
    /// Of the estimate, what lies in the machine's memory but is no part of a process: buffers of an integrated graphics chip.
    unmeasured: u64,
    stats: Stats,
    /// The model is loaded: from here on the measurement counts and the estimate does not.
    loaded: bool,
}

/// An estimate, told apart by whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) host: u64,
    pub(crate) device: u64,
}

impl Split {
    pub(crate) fn of(estimate: MemoryEstimate, device: &Device) -> Self {
        if shares_host_memory(device) {
            Self { host: estimate.total(), device: 0 }
        } else {
            Self { host: estimate.host_bytes, device: estimate.device_bytes }
        }
    }
}

impl Holding {
    /// What the system will still lose to this worker without having noticed yet.
    fn outstanding(&self) -> u64 {
        if self.loaded { 0 } else { self.estimate.host.saturating_sub(self.stats.rss_bytes) }
    }

    /// What it holds of the machine's memory, measured or to be expected.
    fn holds(&self) -> u64 {
        if self.loaded { self.stats.rss_bytes.saturating_add(self.unmeasured) } else { self.at_most() }
    }

    /// What could come back at most when it leaves.
    fn at_most(&self) -> u64 {
        self.stats.rss_bytes.max(self.estimate.host)
    }
}

/// All claims of this host.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inner: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    holdings: HashMap<u64, Holding>,
    /// Free memory of each device when none of our workers was on it.
    devices: HashMap<String, u64>,
}

/// One worker's line in the ledger; dropped after the process is reaped.
#[derive(Debug)]
pub(crate) struct Claim {
    ledger: Arc<Ledger>,
    number: u64,
}

/// Bytes missing for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// `memory` or the device.
    pub(crate) kind: String,
    pub(crate) want: u64,
    pub(crate) free: u64,
    /// Most that could ever be free, if all our models left.
    pub(crate) at_most: u64,
}

impl Ledger {
    fn lock(&self) -> std::sync::MutexGuard<'_, Book> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down that a worker for `spec` is about to start.
    pub(crate) fn claim(self: &Arc<Self>, spec: &LaunchSpec) -> Claim {
        let mut book = self.lock();
        book.next += 1;
        let number = book.next;
        book.holdings.insert(
            number,
            Holding {
                model: spec.model.clone(),
                device: spec.device.id.clone(),
                estimate: Split::of(spec.estimate, &spec.device),
                unmeasured: if spec.device.integrated { spec.estimate.device_bytes } else { 0 },
                stats: Stats::default(),
                loaded: false,
            },
        );
        Claim { ledger: self.clone(), number }
    }

    /// Workers that live, loading ones included.
    pub(crate) fn workers(&self) -> usize {
        self.lock().holdings.len()
    }

    /// Models that hold memory, largest first.
    pub(crate) fn holders(&self) -> Vec<String> {
        let mut holders: Vec<_> = self.lock().holdings.values().map(|h| (h.holds() + h.estimate.device, h.model.clone())).collect();
        holders.sort_by(|a, b| b.cmp(a));
        holders.into_iter().map(|(_, model)| model).collect()
    }

    /// What is missing for `spec`, if something is.
    pub(crate) fn shortage(&self, spec: &LaunchSpec, available: Option<u64>, budget: Option<u64>) -> Option<Shortage> {
        let want = Split::of(spec.estimate, &spec.device);
        let mut book = self.lock();
        let held: u64 = book.holdings.values().map(Holding::holds).sum();
        let at_most: u64 = book.holdings.values().map(Holding::at_most).sum();
        let uncounted: u64 = book.holdings.values().map(|h| h.stats.rss_file_bytes + h.outstanding()).sum();
        let by_system = available.map(|available| (available.saturating_sub(uncounted), available.saturating_add(at_most)));
        let by_budget = budget.map(|budget| (budget.saturating_sub(held), budget));
        for (free, at_most) in by_system.into_iter().chain(by_budget) {
            if want.host > free {
                return Some(Shortage { kind: "memory".into(), want: want.host, free, at_most });
            }
        }
        if want.device == 0 || spec.device.memory_total == 0 {
            return None;
        }
        let on_device: u64 = book.holdings.values().filter(|h| h.device == spec.device.id).map(|h| h.estimate.device).sum();
        if on_device == 0 && spec.device.memory_free > 0 {
            book.devices.insert(spec.device.id.clone(), spec.device.memory_free);
        }
        let at_most = book.devices.get(&spec.device.id).copied().unwrap_or(spec.device.memory_total);
        let free = at_most.saturating_sub(on_device);
        (want.device > free).then(|| Shortage { kind: format!("memory of {}", spec.device.name), want: want.device, free, at_most })
    }
}

impl Claim {
    pub(crate) fn measured(&self, stats: Stats) {
        if let Some(holding) = self.ledger.lock().holdings.get_mut(&self.number) {
            holding.stats = stats;
        }
    }

    pub(crate) fn loaded(&self) {
        if let Some(holding) = self.ledger.lock().holdings.get_mut(&self.number) {
            holding.loaded = true;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ledger.lock().holdings.remove(&self.number);
    }
}

fn shares_host_memory(device: &Device) -> bool {
    device.kind == DeviceKind::Cpu || device.integrated || device.software
}

/// Bytes this process and its children may still take: what the kernel calls available, or what the control group leaves, if that is less.
pub(crate) fn available() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_available(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_headroom(&text, Path::new("/sys/fs/cgroup")));
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (system, group) => system.or(group),
    }
}

fn meminfo_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The least that any control group (version 2) above this process leaves.
fn group_headroom(memberships: &str, root: &Path) -> Option<u64> {
    let own = memberships.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |dir: &Path, file: &str| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
    root.join(own)
        .ancestors()
        .take_while(|dir| dir.starts_with(root))
        .filter_map(|dir| {
            // "max" is no number: no limit here.
            let limit = number(dir, "memory.max")?;
            let current = number(dir, "memory.current")?;
            // Page cache counts as used here, but goes when the memory is needed.
            let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
            let cache = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok()).unwrap_or(0);
            Some(limit.saturating_sub(current.saturating_sub(cache)))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu, spec};

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_load_in_progress_counts_with_what_it_has_not_taken_yet() {
        let ledger = Arc::new(Ledger::default());
        let mut first = spec("first");
        first.estimate = MemoryEstimate { host_bytes: 600 * MIB, device_bytes: 0 };
        let claim = ledger.claim(&first);
        claim.measured(Stats { rss_bytes: 200 * MIB, ..Stats::default() });
        // The system still shows 1000 MiB, of which 400 are promised.
        let mut second = spec("second");
        second.estimate = MemoryEstimate { host_bytes: 700 * MIB, device_bytes: 0 };
        let shortage = ledger.shortage(&second, Some(1000 * MIB), None).expect("too large");
        assert_eq!((shortage.want, shortage.free), (700 * MIB, 600 * MIB));
        assert_eq!(ledger.holders(), ["first"]);
        drop(claim);
        assert_eq!(ledger.shortage(&second, Some(1000 * MIB), None), None);
    }

    #[test]
    fn mapped_weights_of_a_running_worker_are_not_free_although_the_kernel_says_so() {
        let ledger = Arc::new(Ledger::default());
        let claim = ledger.claim(&spec("first"));
        claim.measured(Stats { rss_bytes: 500 * MIB, rss_file_bytes: 400 * MIB, ..Stats::default() });
        claim.loaded();
        let mut second = spec("second");
        second.estimate = MemoryEstimate { host_bytes: 700 * MIB, device_bytes: 0 };
        let shortage = ledger.shortage(&second, Some(1000 * MIB), None).expect("too large");
        assert_eq!((shortage.free, shortage.at_most), (600 * MIB, 1500 * MIB));
    }

    #[test]
    fn a_budget_is_charged_with_measurements_and_not_with_estimates_once_a_model_is_loaded() {
        let ledger = Arc::new(Ledger::default());
        let mut first = spec("first");
        first.estimate = MemoryEstimate { host_bytes: 900 * MIB, device_bytes: 0 };
        let claim = ledger.claim(&first);
        let mut second = spec("second");
        second.estimate = MemoryEstimate { host_bytes: 300 * MIB, device_bytes: 0 };
        assert!(ledger.shortage(&second, None, Some(1000 * MIB)).is_some());
        claim.measured(Stats { rss_bytes: 650 * MIB, ..Stats::default() });
        claim.loaded();
        assert_eq!(ledger.shortage(&second, None, Some(1000 * MIB)), None);
    }

    #[test]
    fn a_discrete_device_is_filled_by_the_estimates_of_its_models() {
        let ledger = Arc::new(Ledger::default());
        let gpu = Device {
            id: "vulkan:00".into(),
            kind: DeviceKind::Vulkan,
            name: "a card".into(),
            memory_total: 8000 * MIB,
            memory_free: 7000 * MIB,
            ..cpu()
        };
        let mut first = spec("first");
        first.device = gpu.clone();
        first.estimate = MemoryEstimate { host_bytes: 0, device_bytes: 4000 * MIB };
        assert_eq!(ledger.shortage(&first, None, None), None);
        let claim = ledger.claim(&first);
        let shortage = ledger.shortage(&first, None, None).expect("two do not fit");
        assert_eq!((shortage.free, shortage.at_most), (3000 * MIB, 7000 * MIB));
        drop(claim);
        // The same on a chip that shares memory is a matter of the machine's memory.
        first.device.integrated = true;
        assert!(ledger.shortage(&first, Some(3000 * MIB), None).is_some());
    }

    #[test]
    fn the_tightest_control_group_above_us_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).expect("folders");
        for (dir, max, current) in [(root.path().join("a"), "1000", "400"), (inner, "max", "100")] {
            fs::write(dir.join("memory.max"), max).expect("written");
            fs::write(dir.join("memory.current"), current).expect("written");
            fs::write(dir.join("memory.stat"), "anon 1\ninactive_file 50\n").expect("written");
        }
        assert_eq!(group_headroom("0::/a/b\n", root.path()), Some(650));
        assert_eq!(group_headroom("0::/elsewhere\n", root.path()), None);
        assert_eq!(meminfo_available("MemFree: 1 kB\nMemAvailable:   12 kB\n"), Some(12 * 1024));
    }
}

//! Memory: how much there is, how much this process may have, and whether it may lock some.

use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};
use serde_json::json;

use super::finding::Finding;
use crate::output::bytes;

const AREA: &str = "memory";
/// Below this no useful model fits.
const LITTLE: u64 = 1 << 30;

/// Everything about memory. `accel` = there is a device that needs locked memory.
pub fn look(accel: bool) -> Vec<Finding> {
    vec![available(), memlock(accel)]
}

fn available() -> Finding {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (total, free, swap) = (field(&meminfo, "MemTotal"), field(&meminfo, "MemAvailable"), field(&meminfo, "SwapTotal"));
    let limit = cgroup_limit();
    let facts = json!({ "total": total, "available": free, "swap": swap, "cgroup_limit": limit });
    let (Some(total), Some(free)) = (total, free) else {
        return Finding::warn(
            AREA,
            "/proc/meminfo cannot be read, so nobody knows how much memory there is",
            "Mount /proc in this container.",
        )
        .with(facts);
    };
    let mut text = format!("{} of {} available", bytes(free), bytes(total));
    let mut usable = free;
    if let Some(limit) = limit.filter(|limit| *limit < total) {
        text.push_str(&format!("; the control group allows {}", bytes(limit)));
        usable = usable.min(limit);
    }
    if usable < LITTLE {
        return Finding::warn(
            AREA,
            text,
            "Only very small models fit. End other programs, or raise the limit of the service or container.",
        )
        .with(facts);
    }
    Finding::ok(AREA, text).with(facts)
}

fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The folder of this process's control group, if it is of the unified kind.
pub(super) fn cgroup_folder() -> Option<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(PathBuf::from("/sys/fs/cgroup").join(path.trim_start_matches('/')))
}

/// The smallest limit on the way up.
fn cgroup_limit() -> Option<u64> {
    let own = cgroup_folder()?;
    own.ancestors()
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
        .filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

fn memlock(accel: bool) -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let text = match limit {
        None => "locked memory is unlimited".to_owned(),
        Some(limit) => format!("{} may be locked (ulimit -l)", bytes(limit)),
    };
    let facts = json!({ "memlock": limit });
    match limit {
        // An NPU's buffers are pinned: with a small limit its driver fails with a message that names something else.
        Some(limit) if accel && limit < 8 << 30 => Finding::fail(
            AREA,
            format!("{text}; an NPU needs its buffers locked"),
            "Allow more: LimitMEMLOCK=infinity in the service, or `* - memlock unlimited` in /etc/security/limits.d/onebit.conf and a new login.",
        )
        .with(facts),
        _ => Finding::ok(AREA, text).with(facts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_bytes() {
        let text = "MemTotal:       24576 kB\nMemAvailable:    1024 kB\nSwapTotal:          0 kB\n";
        assert_eq!(field(text, "MemTotal"), Some(24576 * 1024));
        assert_eq!(field(text, "Mem"), None);
        assert_eq!(field("", "MemTotal"), None);
    }
}

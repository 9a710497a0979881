//! The processor: what it is, what it can do, and how much of it this process may use.

use serde_json::json;

use super::finding::Finding;

const AREA: &str = "cpu";

/// Everything about the processor.
pub fn look() -> Vec<Finding> {
    vec![name_and_features(), cores()]
}

fn name_and_features() -> Finding {
    let name = model_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let features = features();
    let listed = if features.is_empty() { "no features that matter here".to_owned() } else { features.join(" ") };
    let finding = match slow(&features) {
        None => Finding::ok(AREA, format!("{name}: {listed}")),
        Some(reason) => Finding::warn(AREA, format!("{name}: {listed}"), reason),
    };
    finding.with(json!({ "name": name, "architecture": std::env::consts::ARCH, "features": features }))
}

fn model_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    line.split_once(':').map(|(_, name)| name.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt),+ $(,)?) => {{
            let mut found = Vec::new();
            $(if std::arch::is_x86_feature_detected!($name) { found.push($name); })+
            found
        }};
    }
    // Those for which kernels of language models exist.
    detected!("sse4.2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16", "avxvnni")
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

fn slow(features: &[&str]) -> Option<String> {
    let needed = ["avx2", "fma", "f16c"];
    if cfg!(target_arch = "x86_64") && !needed.iter().all(|name| features.contains(name)) {
        return Some("Models run on this processor, slowly: kernels for large speed need AVX2, FMA and F16C. In a virtual machine, pass the host's processor through.".to_owned());
    }
    None
}

fn cores() -> Finding {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| count_range(text.trim()));
    let allowed = rustix::thread::sched_getaffinity(None).ok().map(|set| set.count() as usize);
    let quota = cgroup_quota();
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("{usable} cores can be used");
    if let Some(online) = online {
        text = format!("{usable} of {online} cores can be used");
    }
    let facts = json!({ "online": online, "affinity": allowed, "cgroup_quota": quota, "usable": usable });
    let limited = match (online, allowed, quota) {
        (Some(online), Some(allowed), _) if allowed < online => {
            Some("by the affinity of this process (taskset, cpuset, CPUAffinity= of the service)")
        }
        (Some(online), _, Some(quota)) if quota < online as f64 => {
            Some("by the control group (CPUQuota= of the service, --cpus of the container)")
        }
        _ => None,
    };
    match limited {
        None => Finding::ok(AREA, text).with(facts),
        Some(by) => Finding::warn(AREA, format!("{text}; limited {by}"), "Fine if it is meant. Otherwise raise the limit.").with(facts),
    }
}

/// Counts `0-3,8`.
fn count_range(text: &str) -> Option<usize> {
    text.split(',').try_fold(0, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(sum + last.checked_sub(first)? + 1)
    })
}

/// Cores that the control group allows, fractions included.
fn cgroup_quota() -> Option<f64> {
    let own = super::memory::cgroup_folder()?;
    let text = std::fs::read_to_string(own.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted() {
        for (text, count) in [("0", Some(1)), ("0-3", Some(4)), ("0-3,8,10-11", Some(7)), ("", None), ("3-1", None)] {
            assert_eq!(count_range(text), count, "{text:?}");
        }
    }
}

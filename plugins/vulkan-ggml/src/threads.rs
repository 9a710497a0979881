//! How many threads to compute with: the physical cores this process may use.
//!
//! Matrix kernels keep the units of a core busy, so a second thread on the same core only adds waiting. Affinity and a cgroup's quota are
//! part of the answer: with more threads than cores to run on, all of them wait at every barrier for the one that does not run.

use std::collections::BTreeSet;
use std::fs;

/// Physical cores this process may use, at least 1.
pub fn available() -> u32 {
    // Logical processors by affinity and cgroup quota.
    let logical = std::thread::available_parallelism().map_or(1, |n| n.get());
    let cores = physical(&allowed_cpus()).unwrap_or(logical);
    u32::try_from(cores.min(logical).max(1)).unwrap_or(1)
}

fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a plain bit set for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours and has the size said; 0 = the calling thread.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return Vec::new();
    }
    let most = 8 * size_of::<libc::cpu_set_t>();
    // SAFETY: every index lies within the set.
    (0..most).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Different cores among `cpus`; `None` where the kernel does not say.
fn physical(cpus: &[usize]) -> Option<usize> {
    let mut cores = BTreeSet::new();
    for cpu in cpus {
        let siblings = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()?;
        cores.insert(siblings.trim().to_owned());
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_thread_and_never_more_than_the_process_may_use() {
        let n = available() as usize;
        assert!(n >= 1);
        assert!(n <= std::thread::available_parallelism().map_or(1, |n| n.get()));
    }

    #[test]
    fn cores_are_counted_once() {
        assert_eq!(physical(&[]), None);
        let cpus = allowed_cpus();
        if let Some(cores) = physical(&cpus) {
            assert!(cores <= cpus.len());
        }
    }
}

//! How many threads to compute with, the physical cores this process may use, and on whose account.
//!
//! Matrix kernels keep the units of a core busy, so a second thread on the same core only adds waiting. Affinity and a cgroup's quota are
//! part of the answer: with more threads than cores to run on, all of them wait at every barrier for the one that does not run.

use std::collections::BTreeSet;
use std::fs;

use onebit_sdk::Error;

/// Runs `work` on a thread that ends with it.
///
/// libgomp keeps a team of threads for every thread that ever computed, as long as that thread lives, and once all teams together have more
/// members than there are cores it no longer lets them spin at a barrier but puts them to sleep: measured, a hundred context switches a
/// token where there were two, and an eighth of the speed gone. A session's thread computes all the time and keeps its team. Whatever
/// computes now and then does it here and takes its team along.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("ggml-compute".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::internal(format!("no thread to compute on: {error}")))?;
        thread.join().map_err(|_| Error::internal("a computing thread panicked"))
    })
}

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
    fn work_apart_is_done_on_another_thread_and_comes_back() {
        let here = std::thread::current().id();
        let there = apart(|| std::thread::current().id()).expect("a thread");
        assert_ne!(here, there);
        assert!(apart(|| -> u32 { panic!("for the test") }).is_err());
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

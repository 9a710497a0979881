//! What a process holds and how it is set up, read from /proc.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onebit_loader::bare::{SignalHandler, allocated, locale, signal_handlers};

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holds {
    /// Open file descriptors.
    pub(crate) files: usize,
    /// Threads.
    pub(crate) threads: usize,
    /// Bytes of memory that are no file's, with what allocators keep for the next time.
    pub(crate) memory: u64,
    /// Bytes allocated with malloc and not freed, where that can be told.
    pub(crate) allocated: Option<u64>,
    /// Mappings of the model file.
    pub(crate) mapped: usize,
}

impl Holds {
    /// Now; `model` is the file whose mappings are counted.
    pub(crate) fn now(model: Option<&Path>) -> Self {
        let count = |dir: &str| fs::read_dir(dir).map_or(0, Iterator::count);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let named = |line: &&str| model.is_some_and(|model| line.ends_with(&*model.to_string_lossy()));
        Self {
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            memory: kib("/proc/self/status", "RssAnon:").unwrap_or(0) * 1024,
            allocated: allocated(),
            mapped: maps.lines().filter(named).count(),
        }
    }

    /// As [`Holds::now`], when threads that are about to end have ended: their number must not change for a moment.
    pub(crate) fn settled(model: Option<&Path>, most: usize) -> Self {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let now = Self::now(model);
            if now.threads <= most || Instant::now() > deadline {
                return now;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A number of KiB in a file of /proc.
fn kib(file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

/// Threads other than the calling one that compute now, or would if a core were free.
pub(crate) fn running() -> usize {
    let own = fs::read_link("/proc/thread-self").unwrap_or_default();
    let others = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| Some(entry.file_name().as_os_str()) != own.file_name());
    let computes = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, behind)| behind.starts_with('R'));
    others.filter(|entry| fs::read_to_string(entry.path().join("stat")).is_ok_and(computes)).count()
}

/// How many times longer than its own computing a thread takes here now, because others want the cores too: 1 on a machine that rests.
pub(crate) fn crowded() -> f64 {
    const COMPUTES: Duration = Duration::from_millis(30);
    let computed = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let (begin, before) = (Instant::now(), computed());
    while computed().saturating_sub(before) < COMPUTES {
        std::hint::spin_loop();
    }
    (begin.elapsed().as_secs_f64() / COMPUTES.as_secs_f64()).max(1.0)
}

/// What a plugin must leave as it found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manners {
    environment: BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    folder: Option<PathBuf>,
    locale: String,
    umask: String,
    handlers: Vec<SignalHandler>,
    blocked: String,
    nice: Option<i32>,
    denormals: bool,
}

impl Manners {
    /// Of this process and this thread, now.
    pub(crate) fn now() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        Self {
            environment: std::env::vars_os().collect(),
            folder: std::env::current_dir().ok(),
            locale: locale(),
            umask: field("Umask:"),
            handlers: signal_handlers(),
            blocked: field("SigBlk:"),
            nice: rustix::process::getpriority_process(None).ok(),
            denormals: std::hint::black_box(f32::MIN_POSITIVE) / std::hint::black_box(2.0) > 0.0,
        }
    }

    /// What is different now, in words.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let names = self.environment.keys().chain(now.environment.keys()).collect::<std::collections::BTreeSet<_>>();
        for name in names.into_iter().filter(|name| self.environment.get(*name) != now.environment.get(*name)) {
            found.push(format!(
                "the environment variable {} was {:?} and is {:?}",
                name.display(),
                self.environment.get(name),
                now.environment.get(name)
            ));
        }
        let mut differ = |what: &str, before: String, after: String| {
            if before != after {
                found.push(format!("{what} was {before} and is {after}"));
            }
        };
        differ("the working folder", format!("{:?}", self.folder), format!("{:?}", now.folder));
        differ("the locale", self.locale.clone(), now.locale.clone());
        differ("the umask", self.umask.clone(), now.umask.clone());
        differ("the mask of blocked signals", self.blocked.clone(), now.blocked.clone());
        differ("the priority", format!("{:?}", self.nice), format!("{:?}", now.nice));
        differ("computing with denormal numbers", self.denormals.to_string(), now.denormals.to_string());
        for (before, after) in self.handlers.iter().zip(&now.handlers).filter(|(before, after)| before != after) {
            found.push(format!("the handler of signal {} was {} and is {}", before.signal, handler(before), handler(after)));
        }
        found
    }
}

fn handler(of: &SignalHandler) -> String {
    match of.handler {
        0 => "the default".into(),
        1 => "to ignore it".into(),
        address => format!("a function at {address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_seen_and_its_end_too() {
        let before = Holds::now(None);
        let file = fs::File::open("/proc/self/status").expect("a file");
        assert!(Holds::now(None).files > before.files);
        drop(file);
        assert!(before.files > 0 && before.threads > 0 && before.memory > 0);
    }

    #[test]
    fn a_machine_is_never_faster_than_its_processor() {
        let crowded = crowded();
        assert!((1.0..1000.0).contains(&crowded), "{crowded}");
    }

    #[test]
    fn a_thread_that_computes_is_seen() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || while !flag.load(std::sync::atomic::Ordering::Relaxed) {});
        std::thread::sleep(Duration::from_millis(50));
        let seen = running();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().expect("a thread");
        assert!(seen >= 1);
    }

    #[test]
    fn nothing_changes_by_itself() {
        assert_eq!(Manners::now().changes(&Manners::now()), Vec::<String>::new());
    }
}

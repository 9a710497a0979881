//! The faults: one row each, with the place where it happens and what it does.

use std::path::Path;
use std::time::Duration;

use onebit_sdk::{Error, Options};

/// Where a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Entry,
    Probe,
    Fit,
    Open,
    Forward,
    Close,
    Never,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Nothing,
    Panic,
    Segfault,
    Abort,
    ExitZero,
    /// Sleeps for ever, and looks at no cancel flag.
    Hang,
    /// Half a second per call, and looks at no cancel flag.
    Slow,
    /// Writes to stdout what could be taken for a protocol.
    Stdout,
    /// 1 MiB per call that nobody frees.
    Leak,
    /// A thread that goes on after `close`.
    Thread,
    /// One logit is NaN.
    NanLogit,
    DeviceMemory,
    DeviceLost,
}

pub(crate) const FAULTS: &[(&str, Place, Deed)] = &[
    ("none", Place::Never, Deed::Nothing),
    ("panic-entry", Place::Entry, Deed::Panic),
    ("segfault-entry", Place::Entry, Deed::Segfault),
    ("panic-probe", Place::Probe, Deed::Panic),
    ("segfault-probe", Place::Probe, Deed::Segfault),
    ("hang-probe", Place::Probe, Deed::Hang),
    ("panic-fit", Place::Fit, Deed::Panic),
    ("segfault-fit", Place::Fit, Deed::Segfault),
    ("panic-open", Place::Open, Deed::Panic),
    ("segfault-open", Place::Open, Deed::Segfault),
    ("abort-open", Place::Open, Deed::Abort),
    ("exit-open", Place::Open, Deed::ExitZero),
    ("hang-open", Place::Open, Deed::Hang),
    ("memory-open", Place::Open, Deed::DeviceMemory),
    ("stdout-open", Place::Open, Deed::Stdout),
    ("panic-forward", Place::Forward, Deed::Panic),
    ("segfault-forward", Place::Forward, Deed::Segfault),
    ("abort-forward", Place::Forward, Deed::Abort),
    ("exit-forward", Place::Forward, Deed::ExitZero),
    ("hang-forward", Place::Forward, Deed::Hang),
    ("slow-forward", Place::Forward, Deed::Slow),
    ("stdout-forward", Place::Forward, Deed::Stdout),
    ("leak-forward", Place::Forward, Deed::Leak),
    ("nan-forward", Place::Forward, Deed::NanLogit),
    ("memory-forward", Place::Forward, Deed::DeviceMemory),
    ("lost-forward", Place::Forward, Deed::DeviceLost),
    ("hang-close", Place::Close, Deed::Hang),
    ("segfault-close", Place::Close, Deed::Segfault),
    ("thread-close", Place::Close, Deed::Thread),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) deed: Deed,
}

impl Fault {
    fn named(name: &str) -> Result<Self, Error> {
        let row = FAULTS.iter().find(|(known, _, _)| *known == name);
        let names = || FAULTS.iter().map(|(name, _, _)| *name).collect::<Vec<_>>().join(", ");
        row.map(|(_, place, deed)| Self { place: *place, deed: *deed })
            .ok_or_else(|| Error::invalid_argument(format!("there is no fault {name:?}; there are {}", names())))
    }

    pub(crate) fn from_environment() -> Result<Self, Error> {
        Self::named(std::env::var("ONEBIT_FAULT").as_deref().unwrap_or("none"))
    }

    pub(crate) fn of(path: &Path, options: Options<'_>) -> Result<Self, Error> {
        if let Some(name) = options.get("fault") {
            return Self::named(name);
        }
        if std::env::var_os("ONEBIT_FAULT").is_some() {
            return Self::from_environment();
        }
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        Self::named(name)
    }

    /// Does the deed if this is its place.
    pub(crate) fn happen(self, place: Place) -> Result<(), Error> {
        if self.place != place {
            return Ok(());
        }
        match self.deed {
            Deed::Nothing | Deed::NanLogit => {}
            Deed::Panic => panic!("told to panic in {place:?}"),
            // SAFETY: a write to address 8 is the fault that was asked for; the process ends here.
            Deed::Segfault => unsafe { core::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
            Deed::Abort => std::process::abort(),
            Deed::ExitZero => std::process::exit(0),
            Deed::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Deed::Slow => std::thread::sleep(Duration::from_millis(500)),
            Deed::Stdout => {
                let noise = b"\0\0\0\x08{\"ok\":1}\nstdout is not yours\n";
                // SAFETY: writes bytes that live for the call; not `println!`, whose buffer a test could capture.
                unsafe { libc::write(1, noise.as_ptr().cast(), noise.len()) };
            }
            Deed::Leak => {
                let mut leaked = vec![0u8; 1 << 20];
                leaked.iter_mut().step_by(4096).for_each(|page| *page = 1);
                core::mem::forget(leaked);
            }
            Deed::Thread => {
                std::thread::spawn(|| {
                    loop {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            Deed::DeviceMemory => return Err(Error::out_of_device_memory(1 << 40, 1 << 20, "told to have no memory")),
            Deed::DeviceLost => return Err(Error::device_lost("told to lose the device")),
        }
        Ok(())
    }
}

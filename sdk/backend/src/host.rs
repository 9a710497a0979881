//! What a plugin may ask of the host: log, metrics, the clock.

use onebit_plugin_api as abi;

/// Log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something failed.
    Error = abi::ONEBIT_LOG_ERROR,
    /// Something a person should know.
    Warn = abi::ONEBIT_LOG_WARN,
    /// Milestones.
    Info = abi::ONEBIT_LOG_INFO,
    /// For the author of the plugin.
    Debug = abi::ONEBIT_LOG_DEBUG,
}

/// The host, as a plugin sees it. Cheap to copy; usable from any thread until the process ends.
///
/// A host may not offer everything: [`Host::log`] and the metrics are then no-ops, [`Host::now_ns`] is `None`.
#[derive(Clone, Copy)]
pub struct Host {
    table: &'static abi::OnebitHost,
}

// SAFETY: the ABI allows every function of the table from any thread, and the table is never written after it was handed out.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// # Safety
    ///
    /// `table` must be null or a table that obeys the ABI and lives until the process ends.
    pub(crate) unsafe fn from_raw(table: *const abi::OnebitHost) -> Option<Self> {
        // SAFETY: stated by the caller; null becomes `None`. A host too old to have its version in the table has never existed.
        unsafe { table.as_ref() }
            .filter(|table| table.struct_size >= core::mem::offset_of!(abi::OnebitHost, log))
            .map(|table| Self { table })
    }

    fn offers(&self, field: usize) -> bool {
        self.table.struct_size >= field + size_of::<usize>()
    }

    pub(crate) fn abi(&self) -> (u32, u32) {
        (self.table.abi_major, self.table.abi_minor)
    }

    /// ABI minor of the host.
    pub fn abi_minor(&self) -> u32 {
        self.table.abi_minor
    }

    /// One line. `target` is the part of the plugin that speaks; line ends in `message` become spaces.
    pub fn log(&self, level: Level, target: &str, message: &str) {
        if !self.offers(core::mem::offset_of!(abi::OnebitHost, log)) {
            return;
        }
        if let Some(log) = self.table.log {
            let flat;
            let message = if message.contains('\n') {
                flat = message.trim_end().replace('\n', " ");
                &flat
            } else {
                message
            };
            // SAFETY: the host's function, its own context, texts that live for the call.
            unsafe { log(self.table.ctx, level as u32, abi::OnebitStr::new(target), abi::OnebitStr::new(message)) }
        }
    }

    /// Adds to a counter; the host prefixes the name with the plugin's id.
    pub fn metric_add(&self, name: &str, value: f64) {
        // Asked first: the table of an older host ends before what it does not offer.
        if self.offers(core::mem::offset_of!(abi::OnebitHost, metric_add))
            && let Some(add) = self.table.metric_add
        {
            // SAFETY: as in `log`.
            unsafe { add(self.table.ctx, abi::OnebitStr::new(name), value) }
        }
    }

    /// Sets a gauge; the host prefixes the name with the plugin's id.
    pub fn metric_set(&self, name: &str, value: f64) {
        // Asked first: the table of an older host ends before what it does not offer.
        if self.offers(core::mem::offset_of!(abi::OnebitHost, metric_set))
            && let Some(set) = self.table.metric_set
        {
            // SAFETY: as in `log`.
            unsafe { set(self.table.ctx, abi::OnebitStr::new(name), value) }
        }
    }

    /// The host's monotonic clock, nanoseconds.
    pub fn now_ns(&self) -> Option<u64> {
        if !self.offers(core::mem::offset_of!(abi::OnebitHost, now_ns)) {
            return None;
        }
        // SAFETY: as in `log`.
        self.table.now_ns.map(|now| unsafe { now(self.table.ctx) })
    }

    pub(crate) fn report(&self, error: &crate::Error) {
        if !self.offers(core::mem::offset_of!(abi::OnebitHost, report_error)) {
            return;
        }
        if let Some(report) = self.table.report_error {
            let error = abi::OnebitError {
                struct_size: size_of::<abi::OnebitError>(),
                code: error.code,
                reserved: 0,
                have: error.have,
                need: error.need,
                want: error.want,
                free: error.free,
                retry_ms: error.retry_ms,
                message: abi::OnebitStr::new(&error.message),
            };
            // SAFETY: as in `log`; the host copies before it returns.
            unsafe { report(self.table.ctx, &raw const error) }
        }
    }
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Host(ABI {}.{})", self.table.abi_major, self.table.abi_minor)
    }
}

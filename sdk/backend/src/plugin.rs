//! The plugin itself: who it is, what it thinks of a device and of a file, and how it opens one.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use std::path::Path;

use crate::{Device, Embedder, Error, Forward, Host, ProbeReport, Reason, Reranker, Tokenizer};

/// A way to compute. One instance per process, made when the host enters through one of the doors.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Called once. Must be quick and must not touch devices: `probe` does that, where a crash is a value.
    fn new(host: Host) -> Result<Self, Error>;

    /// Who it is; id and version come from `export_plugin!`.
    fn info(&self) -> Info;

    /// Judges each device, in the order asked. May start drivers.
    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport>;

    /// Judges a model file for a device from its header; no weight is read. A file that cannot be served is [`Fit::refused`], not an error.
    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error>;

    /// Loads. Looks at `cancel` at least every 50 ms, calls `progress` (0.0 ..= 1.0) at least every 250 ms, leaves nothing behind on failure.
    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error>;
}

/// A loaded model. Shared between threads; sessions keep what they need of it alive through an `Arc` in the plugin's own types.
pub trait Model: Send + Sync + 'static {
    /// What it is and what it really computes on.
    fn description(&self) -> &ModelDescription;

    /// `onebit.forward/1`.
    fn forward(&self) -> Option<&dyn Forward> {
        None
    }

    /// `onebit.tokenize/1`.
    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        None
    }

    /// `onebit.embed/1`.
    fn embedder(&self) -> Option<&dyn Embedder> {
        None
    }

    /// `onebit.rerank/1`.
    fn reranker(&self) -> Option<&dyn Reranker> {
        None
    }
}

/// What a plugin says of itself.
#[derive(Debug, Clone, Default)]
pub struct Info {
    /// What it computes with, one line: `llama.cpp b11434, ggml 0.26.0`.
    pub computes_with: String,
    /// Build facts: library versions, CPU features, shader features.
    pub facts: Vec<(String, String)>,
}

/// What a loaded model is.
#[derive(Debug, Clone, Default)]
pub struct ModelDescription {
    /// What it really computes on: `NVIDIA H200 (Vulkan)`.
    pub computes_on: String,
    /// `general.architecture` or its like.
    pub architecture: String,
    /// The most used weight type.
    pub quantisation: String,
}

/// Settings from the manifest, checked by the host against the `[[option]]` tables of `plugin.toml`.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    pub(crate) pairs: &'a [(&'a str, &'a str)],
}

impl<'a> Options<'a> {
    /// For tests of a plugin without a host.
    pub fn new(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self { pairs }
    }

    /// The value of `name`; the last one if it was given twice.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The value of `name` as a `T`; a value that does not parse is `INVALID_ARGUMENT` with both in its message.
    pub fn parse<T: core::str::FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        self.get(name)
            .map(|value| value.parse().map_err(|_| Error::invalid_argument(format!("option {name}: {value:?} is not allowed"))))
            .transpose()
    }

    /// All pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs.iter().copied()
    }
}

/// Input of [`Plugin::fit`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct FitRequest<'a> {
    /// The model file or folder.
    pub path: &'a Path,
    /// The device it would run on.
    pub device: &'a Device,
    /// Positions in all sequences together; `None` = the trained context.
    pub context: Option<u32>,
    /// Sequences at a time, at least 1.
    pub sequences: u32,
    /// Settings.
    pub options: Options<'a>,
}

/// Whether a model can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Usable,
    /// No.
    Refused {
        /// In one word.
        reason: Reason,
        /// In one sentence.
        text: String,
    },
}

/// Output of [`Plugin::fit`]: an estimate. Sizes in bytes. Write `Fit { weights_host: …, ..Fit::usable() }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Whether the model can be served.
    pub verdict: Verdict,
    /// `general.architecture` or its like.
    pub architecture: String,
    /// The most used weight type.
    pub quantisation: String,
    /// Weights in host memory.
    pub weights_host: u64,
    /// Weights in device memory.
    pub weights_device: u64,
    /// State for `context` positions and `sequences` sequences, where the model computes.
    pub state: u64,
    /// Of `state`, what one position costs; 0 for recurrent models.
    pub state_per_token: u64,
    /// Compute buffers in host memory.
    pub scratch_host: u64,
    /// Compute buffers in device memory.
    pub scratch_device: u64,
    /// Positions the model was trained for.
    pub context_trained: u64,
    /// Weights counted, not bytes.
    pub parameters: u64,
}

impl Fit {
    /// Can be served; all numbers 0, to be filled by struct update.
    pub fn usable() -> Self {
        Self {
            verdict: Verdict::Usable,
            architecture: String::new(),
            quantisation: String::new(),
            weights_host: 0,
            weights_device: 0,
            state: 0,
            state_per_token: 0,
            scratch_host: 0,
            scratch_device: 0,
            context_trained: 0,
            parameters: 0,
        }
    }

    /// Cannot be served, for this reason.
    pub fn refused(reason: Reason, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Refused { reason, text: text.into() }, ..Self::usable() }
    }
}

/// Input of [`Plugin::open`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct OpenRequest<'a> {
    /// The model file or folder.
    pub path: &'a Path,
    /// The device that was chosen. Computing elsewhere is not allowed: answer [`Error::device_unavailable`].
    pub device: &'a Device,
    /// CPU threads the plugin may use; `None` = its own choice.
    pub threads: Option<u32>,
    /// Settings.
    pub options: Options<'a>,
}

/// The host's wish that a call ends early. Look at it at least every 50 ms of work, and answer [`Error::cancelled`].
#[derive(Clone, Copy)]
pub struct Cancel<'a> {
    flag: *const u32,
    borrowed: PhantomData<&'a AtomicU32>,
}

// SAFETY: the flag is only read, atomically.
unsafe impl Send for Cancel<'_> {}
// SAFETY: as above.
unsafe impl Sync for Cancel<'_> {}

impl<'a> Cancel<'a> {
    /// Never cancelled.
    pub const NEVER: Cancel<'static> = Cancel { flag: core::ptr::null(), borrowed: PhantomData };

    /// Cancelled when `flag` is not zero.
    pub fn new(flag: &'a AtomicU32) -> Self {
        Self { flag: flag.as_ptr(), borrowed: PhantomData }
    }

    /// # Safety
    ///
    /// `flag` must be null, or aligned and valid for atomic reads during `'a`.
    pub(crate) unsafe fn from_raw(flag: *const u32) -> Self {
        Self { flag, borrowed: PhantomData }
    }

    /// Whether the work is to stop.
    pub fn is_set(&self) -> bool {
        if self.flag.is_null() {
            return false;
        }
        // SAFETY: not null, so valid and aligned during `'a`; the host writes it through an atomic too.
        unsafe { AtomicU32::from_ptr(self.flag.cast_mut()) }.load(Ordering::Relaxed) != 0
    }

    /// `Err(CANCELLED)` when the work is to stop.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// The flag itself, for a callback in another language; null = never. Not to be kept after the call.
    pub fn as_ptr(&self) -> *const u32 {
        self.flag
    }
}

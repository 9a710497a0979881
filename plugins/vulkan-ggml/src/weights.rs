//! A loaded model on llama.cpp's side, and contexts made from it. Both free themselves; a context keeps its model alive.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, Error};
use onebit_weights::GgufFacts;

use crate::border;
use crate::failure;
use crate::logs::{self, Listener};
use crate::modules::DeviceHandle;
use crate::settings::Settings;

/// Where a model computes.
#[derive(Clone)]
pub enum Place {
    /// On the processor.
    Cpu,
    /// On this Vulkan device.
    Vulkan {
        /// ggml's device.
        device: DeviceHandle,
        /// Computes on the CPU after all, slowly.
        software: bool,
    },
}

impl Place {
    /// Bytes free where the weights go; 0 = unknown.
    pub fn free(&self) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Vulkan { device, .. } => device.memory().0,
        }
    }
}

/// A loaded model.
pub struct Weights {
    model: NonNull<sys::llama_model>,
    /// Where it computes.
    pub place: Place,
    /// What the file says.
    pub facts: GgufFacts,
    /// Threads to compute with.
    pub threads: u32,
    /// As given to `open`.
    pub settings: Settings,
}

// SAFETY: a loaded llama_model is never written to; llama.cpp reads it from any thread.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

impl Weights {
    /// Takes a model that was just loaded.
    ///
    /// # Safety
    ///
    /// `model` came from llama.cpp's loader and belongs to nobody else.
    pub unsafe fn new(model: NonNull<sys::llama_model>, place: Place, facts: GgufFacts, threads: u32, settings: Settings) -> Self {
        Self { model, place, facts, threads, settings }
    }

    /// For calls into llama.cpp; alive as long as this.
    pub fn as_ptr(&self) -> *mut sys::llama_model {
        self.model.as_ptr()
    }

    /// The vocabulary; alive as long as this.
    pub fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is alive.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }

    /// Tokens of the vocabulary.
    pub fn n_vocab(&self) -> u32 {
        // SAFETY: the vocabulary is alive.
        u32::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocab()) }).unwrap_or(0)
    }

    /// Values in a row of input embeddings.
    pub fn embedding_width(&self) -> usize {
        // SAFETY: the model is alive.
        usize::try_from(unsafe { sys::llama_model_n_embd_inp(self.as_ptr()) }).unwrap_or(0)
    }

    /// Whether the state can be cut anywhere, not only as a whole.
    pub fn can_cut(&self, settings: &Settings) -> bool {
        // SAFETY: the model is alive.
        let (recurrent, hybrid, window) = unsafe {
            (sys::llama_model_is_recurrent(self.as_ptr()), sys::llama_model_is_hybrid(self.as_ptr()), sys::llama_model_n_swa(self.as_ptr()))
        };
        !recurrent && !hybrid && (window == 0 || settings.swa_full)
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: ours alone, and every context holds an Arc of us.
        unsafe { sys::llama_model_free(self.as_ptr()) }
    }
}

/// What a context is made for.
pub struct Shape {
    /// Positions.
    pub context: u32,
    /// Sequences.
    pub sequences: u32,
    /// Largest batch.
    pub batch: u32,
    /// Tokens computed at once.
    pub ubatch: u32,
    /// Threads for one token, and for more.
    pub threads: (u32, u32),
    /// Makes embeddings, pooled like this, instead of logits.
    pub pooling: Option<sys::llama_pooling_type>,
}

/// A context: state and compute buffers. Used by one thread at a time.
pub struct Context {
    ctx: NonNull<sys::llama_context>,
    /// The flag of the call in progress, or null. Boxed: llama.cpp keeps its address.
    cancel: Box<AtomicPtr<u32>>,
    /// After `ctx`, which is freed first.
    weights: Arc<Weights>,
}

// SAFETY: llama.cpp ties no context to a thread.
unsafe impl Send for Context {}

impl Context {
    /// Makes one.
    pub fn new(weights: &Arc<Weights>, settings: &Settings, shape: &Shape) -> Result<Self, Error> {
        let cancel = Box::new(AtomicPtr::<u32>::new(core::ptr::null_mut()));
        let data: *const AtomicPtr<u32> = &raw const *cancel;
        let data = data.cast::<c_void>().cast_mut();
        // SAFETY: returns a struct by value.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = shape.context;
        params.n_batch = shape.batch;
        params.n_ubatch = shape.ubatch;
        params.n_seq_max = shape.sequences;
        params.n_threads = i32::try_from(shape.threads.0).unwrap_or(1);
        params.n_threads_batch = i32::try_from(shape.threads.1).unwrap_or(1);
        params.flash_attn_type = settings.flash_attention.llama();
        params.type_k = settings.kv_type.ggml();
        params.type_v = settings.kv_type.ggml();
        // One cache for all sequences, so that a single long one may use all of it.
        params.kv_unified = true;
        params.swa_full = settings.swa_full;
        params.no_perf = true;
        params.abort_callback = Some(on_abort_question);
        params.abort_callback_data = data;
        if let Some(pooling) = shape.pooling {
            params.embeddings = true;
            params.pooling_type = pooling;
        }
        if matches!(weights.place, Place::Vulkan { software: true, .. }) {
            // A GPU is asked between batches; a software device needs seconds for one, so it is asked between operations.
            params.cb_eval = Some(on_eval_question);
            params.cb_eval_user_data = data;
        }
        let listener = Listener::start();
        // SAFETY: the model lives in the Arc that this context keeps; `cancel` is kept too and does not move.
        let made = unsafe { border::context_new(weights.as_ptr(), &params) };
        let heard = listener.heard();
        drop(listener);
        match made.map(NonNull::new) {
            Ok(Some(ctx)) => Ok(Self { ctx, cancel, weights: Arc::clone(weights) }),
            Ok(None) => Err(failure::context(&heard, "", weights, shape)),
            Err(thrown) => Err(failure::context(&heard, &thrown, weights, shape)),
        }
    }

    /// For calls into llama.cpp; alive as long as this.
    pub fn as_ptr(&self) -> *mut sys::llama_context {
        self.ctx.as_ptr()
    }

    /// The model.
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// Rows of the largest batch.
    pub fn batch(&self) -> usize {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_batch(self.as_ptr()) as usize }
    }

    /// llama.cpp's book of sequences; null for models without state.
    pub fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive.
        unsafe { sys::llama_get_memory(self.as_ptr()) }
    }

    /// Computes one batch; llama.cpp's answer.
    ///
    /// # Safety
    ///
    /// `batch` points to arrays of its own length.
    pub unsafe fn decode(&mut self, batch: &sys::llama_batch, cancel: Cancel<'_>) -> Result<i32, String> {
        self.cancel.store(cancel.as_ptr().cast_mut(), Ordering::Release);
        // SAFETY: the caller's promise; `&mut self` makes this the only thread.
        let answer = logs::cancellable(cancel, || unsafe { border::decode(self.as_ptr(), batch) });
        self.cancel.store(core::ptr::null_mut(), Ordering::Release);
        answer
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: ours alone; the model is still alive.
        unsafe { sys::llama_free(self.as_ptr()) }
    }
}

/// Whether the flag behind `data` is set.
///
/// # Safety
///
/// `data` is the address that [`Context::new`] gave, while the context lives.
unsafe fn is_cancelled(data: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let flag = unsafe { &*data.cast::<AtomicPtr<u32>>() }.load(Ordering::Acquire);
    if flag.is_null() {
        return false;
    }
    // SAFETY: set by `decode` for the length of a call, during which the host keeps the flag alive.
    unsafe { AtomicU32::from_ptr(flag) }.load(Ordering::Relaxed) != 0
}

unsafe extern "C" fn on_abort_question(data: *mut c_void) -> bool {
    // SAFETY: llama.cpp passes what it was given.
    unsafe { is_cancelled(data) }
}

/// Asked twice per operation: first whether its result is wanted, which here means "stop after it", then with the result at hand.
unsafe extern "C" fn on_eval_question(tensor: *mut sys::ggml_tensor, ask: bool, data: *mut c_void) -> bool {
    if ask {
        // Matrix products are where the time goes.
        // SAFETY: ggml passes an operation of the graph that it computes.
        return unsafe { (*tensor).op } == sys::GGML_OP_MUL_MAT;
    }
    // SAFETY: llama.cpp passes what it was given.
    !unsafe { is_cancelled(data) }
}

/// A path for llama.cpp.
pub fn c_path(path: &std::path::Path) -> Result<CString, Error> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::invalid_argument(format!("{}: a path with a zero byte", path.display())))
}

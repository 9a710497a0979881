//! Loading: the file is checked by our own reader first, then llama.cpp loads it onto exactly the device that was asked for, then the
//! first small batch runs, so that the first request pays for no page fault and no shader.

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, Error, Reason};
use onebit_weights::gguf::{Gguf, GgufError};

use crate::border;
use crate::failure;
use crate::logs::Listener;
use crate::settings::Settings;
use crate::threads;
use crate::weights::{Context, Place, Shape, Weights, c_path};

/// Share of the progress that reading the weights takes; the rest is the first batch.
const LOADING: f32 = 0.95;

/// A model's files, checked.
pub struct Files {
    /// One header per file, the first file's first.
    pub headers: Vec<Gguf>,
    paths: Vec<CString>,
}

impl Files {
    /// Reads and checks the headers of the model at `path`.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let headers = Gguf::open_all(path)?;
        let io = |text: &str| GgufError::Parts { path: path.to_owned(), problem: text.to_owned() };
        let paths = (0..headers.len())
            .map(|index| {
                let file = if index == 0 {
                    path.to_owned()
                } else {
                    Gguf::part_path(path, index as u64, headers.len() as u64).ok_or_else(|| io("is misnamed"))?
                };
                c_path(&file).map_err(|_| io("has a zero byte in its path"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { headers, paths })
    }

    /// The first file's header, which carries the metadata.
    pub fn first(&self) -> Result<&Gguf, Error> {
        self.headers.first().ok_or_else(|| Error::internal("a model without files"))
    }

    /// The first file.
    pub fn first_path(&self) -> Result<&Path, Error> {
        let path = self.paths.first().ok_or_else(|| Error::internal("a model without files"))?;
        Ok(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())))
    }

    /// Bytes of all weights.
    pub fn weights_bytes(&self) -> u64 {
        self.headers.iter().map(Gguf::weights_bytes).sum()
    }
}

/// Whether llama.cpp knows this architecture and finds all its tensors. Reads headers and the vocabulary, no weights.
pub fn examine(files: &Files) -> Result<(), (Reason, String)> {
    // SAFETY: returns a struct by value.
    let mut params = unsafe { sys::llama_model_default_params() };
    let mut none = [core::ptr::null_mut()];
    params.devices = none.as_mut_ptr();
    params.n_gpu_layers = 0;
    params.no_alloc = true;
    params.load_mode = sys::LLAMA_LOAD_MODE_NONE;
    let listener = Listener::start();
    // SAFETY: `none` lives for the call.
    match unsafe { border::model_load(&files.paths, &params) } {
        Ok(model) => {
            // SAFETY: just made, ours alone.
            let translates = unsafe { is_encoder_decoder(model) };
            // SAFETY: as above.
            unsafe { sys::llama_model_free(model) };
            if translates { Err((Reason::UnsupportedModel, ENCODER_DECODER.to_owned())) } else { Ok(()) }
        }
        Err(thrown) => Err(failure::refusal(&listener.heard(), &thrown)),
    }
}

const ENCODER_DECODER: &str = "this is an encoder-decoder model; this plugin serves models that only encode or only decode";

/// # Safety
///
/// `model` is alive.
unsafe fn is_encoder_decoder(model: *const sys::llama_model) -> bool {
    // SAFETY: the caller's promise.
    unsafe { sys::llama_model_has_encoder(model) && sys::llama_model_has_decoder(model) }
}

struct Watch<'a> {
    progress: &'a mut dyn FnMut(f32),
    cancel: Cancel<'a>,
}

unsafe extern "C" fn on_progress(fraction: f32, data: *mut c_void) -> bool {
    // SAFETY: `load` passes a Watch that lives for the call, and llama.cpp calls from the loading thread.
    let watch = unsafe { &mut *data.cast::<Watch<'_>>() };
    (watch.progress)(fraction.clamp(0.0, 1.0) * LOADING);
    !watch.cancel.is_set()
}

/// Loads `files` onto `place`.
pub fn load(
    files: &Files,
    place: Place,
    threads: u32,
    settings: Settings,
    progress: &mut dyn FnMut(f32),
    cancel: Cancel<'_>,
) -> Result<Arc<Weights>, Error> {
    let want = files.weights_bytes();
    let facts = files.first()?.facts().map_err(|error| Error::corrupt(error.to_string()))?;
    if let Place::Vulkan { device, .. } = &place {
        let (free, total) = device.memory();
        // The driver pages out what does not fit, which is slower than not loading at all; 0 = it does not tell.
        if total > 0 && want > free {
            return Err(Error::out_of_device_memory(want, free, format!("the weights need {want} bytes, the device has {free} free")));
        }
    }
    // SAFETY: returns a struct by value.
    let mut params = unsafe { sys::llama_model_default_params() };
    let mut devices = match &place {
        Place::Cpu => [core::ptr::null_mut(); 2],
        Place::Vulkan { device, .. } => [device.0, core::ptr::null_mut()],
    };
    // An explicit list: without it llama.cpp takes whatever GPU it finds.
    params.devices = devices.as_mut_ptr();
    params.n_gpu_layers = if matches!(place, Place::Cpu) { 0 } else { i32::MAX };
    params.split_mode = sys::LLAMA_SPLIT_MODE_LAYER;
    params.load_mode = if settings.mmap { sys::LLAMA_LOAD_MODE_MMAP } else { sys::LLAMA_LOAD_MODE_NONE };
    let mut watch = Watch { progress, cancel };
    params.progress_callback = Some(on_progress);
    params.progress_callback_user_data = (&raw mut watch).cast();
    let listener = Listener::start();
    // SAFETY: devices and watch live for the call.
    let made = unsafe { border::model_load(&files.paths, &params) };
    let heard = listener.heard();
    drop(listener);
    let model = match made.map(NonNull::new) {
        Ok(Some(model)) => model,
        _ if cancel.is_set() => return Err(Error::cancelled()),
        Ok(None) => return Err(failure::load(&heard, "", &place, want)),
        Err(thrown) => return Err(failure::load(&heard, &thrown, &place, want)),
    };
    // SAFETY: just loaded, ours alone.
    let weights = Arc::new(unsafe { Weights::new(model, place, facts, threads, settings) });
    // SAFETY: the model is alive.
    if unsafe { is_encoder_decoder(weights.as_ptr()) } {
        return Err(Error::unsupported(ENCODER_DECODER));
    }
    warm_up(&weights, progress, cancel)?;
    progress(1.0);
    Ok(weights)
}

/// Computes a few tokens and then one, in a small context that is thrown away. Reads every weight once, compiles the shaders that decoding
/// and reading a prompt need, and proves that the device computes.
fn warm_up(weights: &Arc<Weights>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<(), Error> {
    cancel.check()?;
    let settings = &weights.settings;
    let full = settings.ubatch.min(512);
    let batches = match weights.place {
        // A GPU has other shaders for long batches, for long states and for each small number of rows. Compiled now they cost a second;
        // compiled later they are a pause of seconds in somebody's answer.
        Place::Vulkan { software: false, .. } => vec![full, full, full, full, 8, 7, 6, 5, 4, 3, 2, 1],
        // No shaders to compile, or a compiler so slow that nobody would wait for what may never be used.
        Place::Cpu | Place::Vulkan { software: true, .. } => vec![settings.ubatch.min(8), 1],
    };
    let most = batches.iter().copied().max().unwrap_or(1);
    let both = (weights.threads, weights.threads);
    let shape = Shape { context: batches.iter().sum(), sequences: 1, batch: most, ubatch: most, threads: both, pooling: None };
    let mut context = Context::new(weights, settings, &shape)?;
    // SAFETY: the context is alive.
    let (host, device) = unsafe { border::memory(context.as_ptr()) };
    if matches!(weights.place, Place::Vulkan { .. }) && device.weights < host.weights / 4 {
        // The table of input embeddings stays in host memory by design; more than that means that the device cannot hold or compute it.
        return Err(Error::device_unavailable(format!(
            "only {} of {} bytes of weights could be placed on the device",
            device.weights,
            device.weights + host.weights
        )));
    }
    let step = (1.0 - LOADING) / (batches.len() + 1) as f32;
    for (done, rows) in (1_u8..).zip(batches) {
        progress(LOADING + step * f32::from(done));
        let mut tokens = vec![0_i32; rows as usize];
        let first = threads::apart(|| {
            // Positions follow each other, sequence 0, logits of the last row.
            // SAFETY: the tokens live until the call ends.
            let batch = unsafe { sys::llama_batch_get_one(tokens.as_mut_ptr(), i32::try_from(rows).unwrap_or(1)) };
            // SAFETY: the batch has the length of its tokens and no other arrays.
            unsafe { context.decode(&batch, cancel) }
        });
        match first? {
            Ok(0) => {}
            _ if cancel.is_set() => return Err(Error::cancelled()),
            Ok(answer) => return Err(failure::compute(&[], &format!("the first batch ended with {answer}"), &weights.place)),
            Err(thrown) => return Err(failure::compute(&[], &thrown, &weights.place)),
        }
    }
    cancel.check()
}

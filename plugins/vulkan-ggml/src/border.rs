//! The C++ border (`cpp/border.cpp`) as functions that return `Result`: what llama.cpp throws arrives here as text.

use std::ffi::{CStr, CString, c_char};

use llama_cpp_sys_2 as sys;

mod raw {
    use super::{c_char, sys};

    unsafe extern "C" {
        pub fn onebit_backend_load(path: *const c_char, text: *mut c_char, capacity: usize) -> sys::ggml_backend_reg_t;
        pub fn onebit_model_load(
            paths: *const *const c_char,
            n_paths: usize,
            params: *const sys::llama_model_params,
            text: *mut c_char,
            capacity: usize,
        ) -> *mut sys::llama_model;
        pub fn onebit_context_new(
            model: *mut sys::llama_model,
            params: *const sys::llama_context_params,
            text: *mut c_char,
            capacity: usize,
        ) -> *mut sys::llama_context;
        pub fn onebit_decode(ctx: *mut sys::llama_context, batch: *const sys::llama_batch, text: *mut c_char, capacity: usize) -> i32;
        #[allow(clippy::too_many_arguments, reason = "the shape of llama_tokenize, with a place for the reason")]
        pub fn onebit_tokenize(
            vocab: *const sys::llama_vocab,
            input: *const c_char,
            length: i32,
            tokens: *mut sys::llama_token,
            capacity_tokens: i32,
            add_special: bool,
            parse_special: bool,
            text: *mut c_char,
            capacity: usize,
        ) -> i32;
        pub fn onebit_state_save(
            ctx: *mut sys::llama_context,
            to: *mut u8,
            size: usize,
            seq: sys::llama_seq_id,
            text: *mut c_char,
            capacity: usize,
        ) -> usize;
        pub fn onebit_state_load(
            ctx: *mut sys::llama_context,
            from: *const u8,
            size: usize,
            seq: sys::llama_seq_id,
            text: *mut c_char,
            capacity: usize,
        ) -> usize;
        pub fn onebit_memory(ctx: *const sys::llama_context, out: *mut u64);
    }
}

/// Room for what an exception says.
struct Text([u8; 512]);

impl Text {
    fn new() -> Self {
        Self([0; 512])
    }

    fn ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    fn into_string(self) -> String {
        CStr::from_bytes_until_nul(&self.0).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Loads a compute module. `Err` carries what was thrown, or nothing when the module refused.
pub fn backend_load(path: &CStr) -> Result<sys::ggml_backend_reg_t, String> {
    let mut text = Text::new();
    // SAFETY: a text that ends with zero, and room for the reason.
    let reg = unsafe { raw::onebit_backend_load(path.as_ptr(), text.ptr(), text.0.len()) };
    if reg.is_null() { Err(text.into_string()) } else { Ok(reg) }
}

/// Loads a model from its files, in order.
///
/// # Safety
///
/// What `params` points to lives for the call.
pub unsafe fn model_load(paths: &[CString], params: &sys::llama_model_params) -> Result<*mut sys::llama_model, String> {
    let pointers: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
    let mut text = Text::new();
    // SAFETY: as many pointers as said, each to a text that ends with zero; params by the caller's promise.
    let model = unsafe { raw::onebit_model_load(pointers.as_ptr(), pointers.len(), params, text.ptr(), text.0.len()) };
    if model.is_null() { Err(text.into_string()) } else { Ok(model) }
}

/// Makes a context.
///
/// # Safety
///
/// `model` is alive and outlives the context, and so does what `params` points to.
pub unsafe fn context_new(model: *mut sys::llama_model, params: &sys::llama_context_params) -> Result<*mut sys::llama_context, String> {
    let mut text = Text::new();
    // SAFETY: the caller's promise.
    let ctx = unsafe { raw::onebit_context_new(model, params, text.ptr(), text.0.len()) };
    if ctx.is_null() { Err(text.into_string()) } else { Ok(ctx) }
}

/// `llama_decode` and waiting for its end. `Err` = something was thrown.
///
/// # Safety
///
/// `ctx` is alive and used by this thread only; `batch` points to arrays of its own length.
pub unsafe fn decode(ctx: *mut sys::llama_context, batch: &sys::llama_batch) -> Result<i32, String> {
    let mut text = Text::new();
    // SAFETY: the caller's promise.
    match unsafe { raw::onebit_decode(ctx, batch, text.ptr(), text.0.len()) } {
        i32::MIN => Err(text.into_string()),
        answer => Ok(answer),
    }
}

/// `llama_tokenize`: tokens written, or minus the tokens there are. `Err` = something was thrown.
///
/// # Safety
///
/// `vocab` is alive.
pub unsafe fn tokenize(
    vocab: *const sys::llama_vocab,
    input: &str,
    tokens: &mut Vec<u32>,
    add_special: bool,
    parse_special: bool,
) -> Result<(), String> {
    let length = i32::try_from(input.len()).map_err(|_| format!("a text of {} bytes is too long to encode", input.len()))?;
    // A guess that nearly always fits; the second round has the exact number.
    let mut room = input.len() / 3 + 16;
    for _ in 0..2 {
        let start = tokens.len();
        tokens.resize(start + room, 0);
        let capacity = i32::try_from(room).unwrap_or(i32::MAX);
        let mut text = Text::new();
        // SAFETY: `vocab` by the caller's promise; input and output of the lengths said; u32 and i32 have one layout.
        let n = unsafe {
            raw::onebit_tokenize(
                vocab,
                input.as_ptr().cast(),
                length,
                tokens.as_mut_ptr().add(start).cast(),
                capacity,
                add_special,
                parse_special,
                text.ptr(),
                text.0.len(),
            )
        };
        if n == i32::MIN {
            tokens.truncate(start);
            return Err(text.into_string());
        }
        tokens.truncate(start + usize::try_from(n).unwrap_or(0));
        if n >= 0 {
            return Ok(());
        }
        room = n.unsigned_abs() as usize;
    }
    Err("the tokenizer changed its mind about the number of tokens".to_owned())
}

/// Writes the state of `seq` into `to`; the bytes written.
///
/// # Safety
///
/// `ctx` is alive and used by this thread only.
pub unsafe fn state_save(ctx: *mut sys::llama_context, seq: i32, to: &mut [u8]) -> Result<usize, String> {
    let mut text = Text::new();
    // SAFETY: the caller's promise; `to` has the length said.
    match unsafe { raw::onebit_state_save(ctx, to.as_mut_ptr(), to.len(), seq, text.ptr(), text.0.len()) } {
        0 => Err(text.into_string()),
        written => Ok(written),
    }
}

/// Fills `seq`, which must be empty, from `from`; the bytes read.
///
/// # Safety
///
/// `ctx` is alive and used by this thread only.
pub unsafe fn state_load(ctx: *mut sys::llama_context, seq: i32, from: &[u8]) -> Result<usize, String> {
    let mut text = Text::new();
    // SAFETY: the caller's promise; `from` has the length said.
    match unsafe { raw::onebit_state_load(ctx, from.as_ptr(), from.len(), seq, text.ptr(), text.0.len()) } {
        0 => Err(text.into_string()),
        read => Ok(read),
    }
}

/// Bytes in one kind of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Weights.
    pub weights: u64,
    /// State of sequences.
    pub state: u64,
    /// Compute buffers.
    pub scratch: u64,
}

/// What a context and its model allocated: in the host's memory, and in devices' own.
///
/// # Safety
///
/// `ctx` is alive.
pub unsafe fn memory(ctx: *const sys::llama_context) -> (Bytes, Bytes) {
    let mut out = [0_u64; 6];
    // SAFETY: the caller's promise; room for six numbers.
    unsafe { raw::onebit_memory(ctx, out.as_mut_ptr()) };
    let [a, b, c, d, e, f] = out;
    (Bytes { weights: a, state: b, scratch: c }, Bytes { weights: d, state: e, scratch: f })
}

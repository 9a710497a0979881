//! Reading what a plugin returned: the only place where its pointers are followed.
//!
//! A pointer that is null, misaligned, or comes with an impossible length is a breach of the contract with a sentence, not a crash. What
//! cannot be checked (a wild pointer) is why plugins run in processes of their own.

use onebit_plugin_api as abi;
use onebit_plugin_api::layout::Growable;

use crate::{PluginError, Status};

/// Longest text that is taken from a plugin, bytes. Chat templates are the longest there are, tens of KiB.
const MAX_TEXT: usize = 4 << 20;
/// Largest `struct_size` that is believed.
const MAX_STRUCT: usize = 4096;

/// Copies a struct that the plugin allocated; fields beyond its size are zero. `None` for what cannot be a struct.
///
/// # Safety
///
/// `pointer` is null, or readable for the `struct_size` that stands in it.
pub(crate) unsafe fn read_grown<T: Growable>(pointer: *const T) -> Option<T> {
    if pointer.is_null() || !pointer.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned; `struct_size` is the first field of a `Growable`.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(size_of::<usize>()..=MAX_STRUCT).contains(&size) {
        return None;
    }
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: readable by promise, at most a `T`; zeros are valid for the rest of a `Growable`.
    unsafe {
        core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), size.min(size_of::<T>()));
        Some(value.assume_init())
    }
}

/// An output for the plugin to fill: zeros, with its size in front.
pub(crate) fn out<T: Growable>() -> T {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: zeros are valid for a `Growable`, and its first field is `struct_size: usize`.
    unsafe {
        value.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        value.assume_init()
    }
}

/// # Safety
///
/// `pointer` is null, or valid for reads of `len` values during `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: usize, what: &str) -> Result<&'a [T], PluginError> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(PluginError::broken(format!("{what} is null or not aligned, with {len} entries")));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(PluginError::broken(format!("{what}: {len} is no count")));
    }
    // SAFETY: not null, aligned, of a possible length; valid by promise.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// # Safety
///
/// `text.ptr` is null, or valid for reads of `text.len` bytes.
pub(crate) unsafe fn text(text: abi::OnebitStr, what: &str) -> Result<String, PluginError> {
    if text.len > MAX_TEXT {
        return Err(PluginError::broken(format!("{what} has {} bytes, at most {MAX_TEXT} are taken", text.len)));
    }
    // SAFETY: as promised.
    let bytes = unsafe { slice(text.ptr.cast::<u8>(), text.len, what) }?;
    core::str::from_utf8(bytes).map(str::to_owned).map_err(|_| PluginError::broken(format!("{what} is not UTF-8")))
}

/// Texts as the ABI wants them: all tokens, one text after the other, and `n + 1` offsets. The number of texts fits 32 bits afterwards.
pub(crate) fn texts(texts: &[&[u32]]) -> Result<(Vec<u32>, Vec<u32>), PluginError> {
    let mut end = 0u32;
    let mut offsets = vec![0];
    for text in texts {
        end = u32::try_from(text.len()).ok().and_then(|len| end.checked_add(len)).ok_or_else(too_many_tokens)?;
        offsets.push(end);
    }
    u32::try_from(offsets.len()).map_err(|_| too_many_tokens())?;
    Ok((texts.concat(), offsets))
}

/// What does not fit into the ABI's 32 bits.
pub(crate) fn too_many_tokens() -> PluginError {
    PluginError::new(Status::INVALID_ARGUMENT, "too many tokens in one call")
}

/// Options as the ABI wants them; borrows from `options`.
pub(crate) fn pairs(options: &[(String, String)]) -> Vec<abi::OnebitKeyValue> {
    options.iter().map(|(key, value)| abi::OnebitKeyValue { key: abi::OnebitStr::new(key), value: abi::OnebitStr::new(value) }).collect()
}

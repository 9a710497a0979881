//! Reading what the host wrote and writing what it will read, honouring `struct_size` on both ways.

use core::ffi::c_char;
use std::path::Path;

use onebit_plugin_api as abi;
use onebit_plugin_api::layout::Growable;

use crate::{Device, DeviceKind, Error};

/// Largest `struct_size` that is believed: no struct of the ABI will be larger, so a larger number is not a size.
const MAX_STRUCT: usize = 4096;

fn name<T>() -> &'static str {
    core::any::type_name::<T>().rsplit("::").next().unwrap_or("struct")
}

/// # Safety
///
/// Where `pointer` is not null and aligned, its `struct_size` must be readable.
unsafe fn size_at<T: Growable>(pointer: *const T) -> Result<usize, Error> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Error::invalid_argument(format!("{} is null or not aligned", name::<T>())));
    }
    // SAFETY: not null, aligned, readable by the caller's promise; `struct_size` is the first field.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(size_of::<usize>()..=MAX_STRUCT).contains(&size) {
        return Err(Error::invalid_argument(format!("{}: struct_size {size} is no size", name::<T>())));
    }
    Ok(size)
}

/// Copies what the host gave. Fields beyond its `struct_size` are zero.
///
/// # Safety
///
/// `pointer` is null, or readable for the `struct_size` that stands in it.
pub(crate) unsafe fn read<T: Growable>(pointer: *const T) -> Result<T, Error> {
    // SAFETY: as promised.
    let size = unsafe { size_at(pointer) }?.min(size_of::<T>());
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `size` bytes are readable by promise and writable because `size <= size_of::<T>()`; zeros are valid for the rest.
    unsafe {
        core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), size);
        Ok(value.assume_init())
    }
}

/// Checks an output before any work is done for it.
///
/// # Safety
///
/// As [`read`].
pub(crate) unsafe fn check_out<T: Growable>(out: *mut T) -> Result<(), Error> {
    // SAFETY: as promised.
    unsafe { size_at(out.cast_const()) }.map(|_| ())
}

/// Writes `value` as far as the host's `struct_size` reaches, and leaves that size alone.
///
/// # Safety
///
/// `out` is null, or writable for the `struct_size` that stands in it.
pub(crate) unsafe fn write<T: Growable>(out: *mut T, value: &T) -> Result<(), Error> {
    // SAFETY: as promised.
    let size = unsafe { size_at(out.cast_const()) }?.min(size_of::<T>());
    let skip = size_of::<usize>();
    // SAFETY: both sides hold `size` bytes, `size >= skip`, and a `T` of ours does not overlap the host's.
    unsafe {
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(value).cast::<u8>().add(skip), out.cast::<u8>().add(skip), size - skip);
    }
    Ok(())
}

/// # Safety
///
/// `pointer` is null, or valid for reads of `len` values during `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: usize, what: &str) -> Result<&'a [T], Error> {
    check_slice(pointer, len, what)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, in range; valid by promise.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// # Safety
///
/// `pointer` is null, or valid for reads and writes of `len` values during `'a`, and nobody else looks at them.
pub(crate) unsafe fn slice_mut<'a, T>(pointer: *mut T, len: usize, what: &str) -> Result<&'a mut [T], Error> {
    check_slice(pointer, len, what)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: not null, aligned, in range; valid and alone by promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, len) })
}

fn check_slice<T>(pointer: *const T, len: usize, what: &str) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Error::invalid_argument(format!("{what} is null or not aligned, with {len} entries")));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::invalid_argument(format!("{what}: {len} is no count")));
    }
    Ok(())
}

/// Texts that lie one after the other: text i = `tokens[offsets[i] ..< offsets[i + 1]]`.
///
/// # Safety
///
/// `offsets` is null, or valid for reads of `n + 1` values during `'a`; `tokens` is null, or valid for as many as the last of these says.
pub(crate) unsafe fn texts<'a>(tokens: *const u32, offsets: *const u32, n: usize) -> Result<Vec<&'a [u32]>, Error> {
    // SAFETY: as promised.
    let offsets = unsafe { slice(offsets, n + 1, "offsets") }?;
    if offsets[0] != 0 || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::invalid_argument("offsets must begin with 0 and not fall"));
    }
    // SAFETY: as promised.
    let tokens = unsafe { slice(tokens, offsets[n] as usize, "tokens") }?;
    Ok(offsets.windows(2).map(|pair| &tokens[pair[0] as usize..pair[1] as usize]).collect())
}

/// # Safety
///
/// `text.ptr` is null, or valid for reads of `text.len` bytes during `'a`.
pub(crate) unsafe fn text<'a>(text: abi::OnebitStr, what: &str) -> Result<&'a str, Error> {
    // SAFETY: as promised; a byte is a byte.
    let bytes = unsafe { slice::<u8>(text.ptr.cast::<c_char>().cast(), text.len, what) }?;
    core::str::from_utf8(bytes).map_err(|_| Error::invalid_argument(format!("{what} is not UTF-8")))
}

/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(raw: abi::OnebitStr) -> Result<&'a Path, Error> {
    // SAFETY: as promised.
    let path = unsafe { text(raw, "path") }?;
    if path.is_empty() { Err(Error::invalid_argument("path is empty")) } else { Ok(Path::new(path)) }
}

/// # Safety
///
/// `pointer` is null, or valid for reads of `len` pairs, and these of their texts, during `'a`.
pub(crate) unsafe fn pairs<'a>(pointer: *const abi::OnebitKeyValue, len: usize) -> Result<Vec<(&'a str, &'a str)>, Error> {
    // SAFETY: as promised.
    let raw = unsafe { slice(pointer, len, "options") }?;
    // SAFETY: as promised.
    raw.iter().map(|pair| Ok(unsafe { (text(pair.key, "option name")?, text(pair.value, "option value")?) })).collect()
}

/// # Safety
///
/// `pointer` is null, or a device as the ABI has it.
pub(crate) unsafe fn device(pointer: *const abi::OnebitDevice) -> Result<Device, Error> {
    // SAFETY: as promised.
    let raw = unsafe { read(pointer) }?;
    // SAFETY: as promised, for each text.
    let owned = |raw, what| unsafe { text(raw, what) }.map(str::to_owned);
    Ok(Device {
        kind: match raw.kind {
            abi::ONEBIT_DEVICE_CPU => DeviceKind::Cpu,
            abi::ONEBIT_DEVICE_VULKAN => DeviceKind::Vulkan,
            abi::ONEBIT_DEVICE_ACCEL => DeviceKind::Accel,
            other => DeviceKind::Other(other),
        },
        id: owned(raw.id, "device id")?,
        name: owned(raw.name, "device name")?,
        driver: owned(raw.driver, "device driver")?,
        firmware: owned(raw.firmware, "device firmware")?,
        uuid: raw.uuid,
        vendor_id: raw.vendor_id,
        device_id: raw.device_id,
        memory_total: raw.memory_total,
        memory_free: raw.memory_free,
        integrated: raw.flags & abi::ONEBIT_DEVICE_FLAG_INTEGRATED != 0,
        software: raw.flags & abi::ONEBIT_DEVICE_FLAG_SOFTWARE != 0,
    })
}

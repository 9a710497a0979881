//! ggml's compute modules: found beside this library, loaded when they are needed and not before.
//!
//! The CPU module comes in one file per level of instructions; each says how well it suits this processor, and the best that the system
//! lets us run is loaded. The
//! Vulkan module needs libvulkan and starts drivers, so it is loaded only when somebody asks for a Vulkan device: a worker that computes on
//! the CPU stays small, and a machine without Vulkan still serves.
//!
//! Invariant: modules come from the plugin's own folder only, never from a search path, and are never unloaded.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Level, Reason};

use crate::vulkan::{self, Physical};
use crate::{border, logs};

/// Why a module or a device is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In one word.
    pub reason: Reason,
    /// In one sentence.
    pub text: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}

/// A device of ggml's. Lives until the process ends.
#[derive(Clone, Copy)]
pub struct DeviceHandle(pub sys::ggml_backend_dev_t);

// SAFETY: ggml's devices are registered once, never freed, and their functions may be called from any thread.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

impl DeviceHandle {
    /// What the driver calls the device.
    pub fn description(self) -> String {
        // SAFETY: the device lives until the process ends, and so does its description.
        let text = unsafe { sys::ggml_backend_dev_description(self.0) };
        // SAFETY: ggml's texts end with zero; null is excluded.
        if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
    }

    /// Bytes free and in all, as far as the driver tells; 0 = it does not.
    pub fn memory(self) -> (u64, u64) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device lives until the process ends; two numbers to write to.
        unsafe { sys::ggml_backend_dev_memory(self.0, &raw mut free, &raw mut total) };
        (free as u64, total as u64)
    }
}

/// The CPU module that was chosen.
#[derive(Clone)]
pub struct Cpu {
    /// ggml's device.
    pub device: DeviceHandle,
    /// Which one: `haswell`.
    pub variant: String,
}

/// A Vulkan device as both sides know it.
#[derive(Clone)]
pub struct VulkanDevice {
    /// ggml's device.
    pub device: DeviceHandle,
    /// The driver's word about it.
    pub physical: Physical,
}

/// The modules of this process.
#[derive(Default)]
pub struct Modules {
    cpu: OnceLock<Result<Cpu, Refusal>>,
    vulkan: OnceLock<Result<Vec<VulkanDevice>, Refusal>>,
    /// ggml's registry is not made for two loads at a time.
    loading: Mutex<()>,
}

impl Modules {
    /// The CPU, loading its module on the first call.
    pub fn cpu(&self) -> Result<Cpu, Refusal> {
        self.cpu
            .get_or_init(|| {
                let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
                load_cpu(&folder()?)
            })
            .clone()
    }

    /// The Vulkan device with this UUID, starting Vulkan on the first call.
    pub fn vulkan(&self, uuid: &[u8; 16]) -> Result<VulkanDevice, Refusal> {
        let devices = self
            .vulkan
            .get_or_init(|| {
                let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
                load_vulkan(&folder()?)
            })
            .clone()?;
        devices.into_iter().find(|device| device.physical.uuid == *uuid).ok_or_else(|| {
            Refusal::new(Reason::Failed, "the Vulkan driver does not list this device to ggml (GGML_VK_VISIBLE_DEVICES, or it is gone)")
        })
    }
}

/// The folder this library was loaded from.
fn folder() -> Result<PathBuf, Refusal> {
    // SAFETY: a plain struct for which all zeros is a value.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    let own: fn() -> Result<PathBuf, Refusal> = folder;
    // SAFETY: the address of one of our own functions, and a struct to write to.
    let found = unsafe { libc::dladdr(own as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return Err(Refusal::new(Reason::Failed, "the dynamic linker does not say where the plugin lies"));
    }
    // SAFETY: the linker's texts end with zero and live as long as the library.
    let file = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()));
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    Ok(file.parent().unwrap_or(Path::new(".")).to_owned())
}

fn load_cpu(folder: &Path) -> Result<Cpu, Refusal> {
    let missing = |text: String| Refusal::new(Reason::MissingDriver, text);
    let entries = std::fs::read_dir(folder).map_err(|error| missing(format!("{}: {error}", folder.display())))?;
    let mut best: Option<(c_int, PathBuf)> = None;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("libggml-cpu-") || !name.ends_with(".so") {
            continue;
        }
        let path = entry.path();
        let variant = name.trim_start_matches("libggml-cpu-").trim_end_matches(".so");
        if crate::processor::permits(variant)
            && let Some(score) = score(&path)
            && score > best.as_ref().map_or(0, |(score, _)| *score)
        {
            best = Some((score, path));
        }
    }
    let Some((score, path)) = best else {
        return Err(missing(format!("no libggml-cpu-*.so in {} suits this processor; reinstall the plugin", folder.display())));
    };
    let device = load_module(&path)?.first().copied().ok_or_else(|| missing(format!("{} has no device", path.display())))?;
    let variant = path.file_stem().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("libggml-cpu-")).unwrap_or_default();
    logs::say(Level::Info, "modules", &format!("CPU module {variant} (score {score})"));
    Ok(Cpu { device, variant: variant.to_owned() })
}

/// How well a CPU module suits this processor; `None` or 0 = not at all.
fn score(path: &Path) -> Option<c_int> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a module of our own folder; its constructors do nothing but set up tables.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: an open handle and a text that ends with zero.
    let symbol = unsafe { libc::dlsym(handle, c"ggml_backend_score".as_ptr()) };
    let score = (!symbol.is_null()).then(|| {
        // SAFETY: ggml's modules export it with this type; it only asks the processor what it can.
        let function = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol) };
        // SAFETY: as above.
        unsafe { function() }
    });
    // SAFETY: opened above, and nothing of it is kept.
    unsafe { libc::dlclose(handle) };
    score
}

/// Loads a module into ggml's registry; its devices.
fn load_module(path: &Path) -> Result<Vec<DeviceHandle>, Refusal> {
    let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| Refusal::new(Reason::Failed, "a path with a zero byte"))?;
    let listener = logs::Listener::start();
    let reg = border::backend_load(&text).map_err(|thrown| {
        let heard = listener.heard().join("; ");
        Refusal::new(Reason::MissingDriver, format!("{} cannot be loaded: {thrown}{heard}", path.display()))
    })?;
    // SAFETY: a registry that was just loaded; modules are never unloaded.
    let count = unsafe { sys::ggml_backend_reg_dev_count(reg) };
    // SAFETY: as above, with an index below the count.
    Ok((0..count).map(|i| DeviceHandle(unsafe { sys::ggml_backend_reg_dev_get(reg, i) })).collect())
}

fn load_vulkan(folder: &Path) -> Result<Vec<VulkanDevice>, Refusal> {
    let path = folder.join("libggml-vulkan.so");
    if !path.exists() {
        return Err(Refusal::new(Reason::MissingDriver, format!("{} is not there; reinstall the plugin", path.display())));
    }
    let physical = vulkan::list()?;
    if physical.is_empty() {
        return Err(Refusal::new(Reason::MissingDriver, "Vulkan lists no device; install the driver's Vulkan package"));
    }
    let visible = vulkan::visible(physical.len())?;
    let devices = load_module(&path)?;
    if devices.len() != visible.len() {
        return Err(Refusal::new(
            Reason::Failed,
            format!("ggml lists {} Vulkan devices where {} were expected", devices.len(), visible.len()),
        ));
    }
    let mut found = Vec::new();
    for (device, index) in devices.into_iter().zip(visible) {
        let Some(physical) = physical.get(index).cloned() else { continue };
        // Both lists come from the same driver; should they ever disagree, computing on the wrong device would be worse than not at all.
        if device.description() != physical.name {
            let text = format!("ggml calls device {index} {:?}, the driver {:?}", device.description(), physical.name);
            return Err(Refusal::new(Reason::Failed, text));
        }
        found.push(VulkanDevice { device, physical });
    }
    Ok(found)
}

/// The system's name of a null-terminated constant, for `facts`.
pub fn text(pointer: *const c_char) -> String {
    // SAFETY: only called with constants of ggml and llama.cpp, which end with zero; null is excluded.
    if pointer.is_null() { String::new() } else { unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned() }
}

//! What a list of devices depends on: the boot, the drivers' files, the device nodes, the environment.
//!
//! Starting every Vulkan driver to learn that nothing has changed would cost each start of the host a tenth of a second or more. These few
//! `stat` calls tell as much.

use std::fs;
use std::path::PathBuf;

use onebit_catalog::Stamp;
use onebit_loader::devices::Device;

use super::cache::key;
use crate::protocol::build_id;

/// Folders and files whose change may mean another list.
const FIXED: &[&str] = &[
    // Libraries that came or went.
    "/etc/ld.so.cache",
    "/etc/vulkan/icd.d",
    "/etc/vulkan/implicit_layer.d",
    "/usr/local/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/share/vulkan/implicit_layer.d",
    // Devices that came or went.
    "/dev/dri",
    "/dev/accel",
    "/sys/module/amdxdna",
    "/sys/module/nvidia",
];

/// Variables by which the Vulkan loader chooses drivers.
const VARIABLES: &[&str] = &[
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_HOME",
    "LD_LIBRARY_PATH",
];

/// This build of the host. Two builds of one version may speak of devices in other words, or load plugins by other rules: the program's own
/// file tells them apart.
pub(super) fn of_host() -> String {
    let program = fs::metadata("/proc/self/exe").ok().map(|metadata| Stamp::of(&metadata));
    format!("{} {program:?}", build_id())
}

/// The name under which a list of devices is remembered.
pub(super) fn of_machine() -> String {
    let mut parts = vec![of_host()];
    parts.push(fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    parts.extend(VARIABLES.iter().map(|name| format!("{name}={:?}", std::env::var_os(name))));
    for path in FIXED {
        parts.push(stamps(&PathBuf::from(path)));
    }
    key(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The path and, for a folder, what lies in it, each with its stamp.
fn stamps(path: &PathBuf) -> String {
    let mut paths = vec![path.clone()];
    if let Ok(entries) = fs::read_dir(path) {
        paths.extend(entries.map_while(Result::ok).map(|entry| entry.path()));
    }
    paths.sort();
    let stamp = |path: &PathBuf| fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
    // Nodes of /dev change their times when they are used; that they are there is what counts.
    let shown = |path: &PathBuf| {
        if path.starts_with("/dev") { format!("{path:?}") } else { format!("{path:?} {:?}", stamp(path)) }
    };
    paths.iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// What a plugin's word about devices depends on: which ones, with which drivers. Not how much memory is free just now.
pub(super) fn of_devices(devices: &[Device]) -> String {
    let parts: Vec<String> = devices
        .iter()
        .map(|device| format!("{}\n{}\n{}\n{}\n{}", device.id, device.name, device.driver, device.firmware, device.memory_total))
        .collect();
    key(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

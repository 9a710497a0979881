//! Which files a confined process may open: what the host names, and what every compute library finds at the same places.
//!
//! The tables below are public knowledge about the machine (libraries, topology, drivers). Nothing of a person is in them: no home, no `/tmp`,
//! no `/etc` but the few files that the dynamic linker and the drivers read, no other process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Nodes of `/dev` beyond the harmless ones. None: it computes on the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Devices {
    /// The kernel's DRM nodes, and the vendors' own.
    pub graphics: bool,
    /// The kernel's accelerator nodes.
    pub accelerators: bool,
}

/// What may still be opened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Files, and folders with all in them, that may be read.
    pub read: Vec<PathBuf>,
    /// Folders in which files may be made, changed and removed.
    pub write: Vec<PathBuf>,
    /// Device nodes.
    pub devices: Devices,
    /// Whether sockets beyond this process may be opened.
    pub network: bool,
}

/// Read where it exists. `/proc/self` is this process alone.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    // Where vendors and other package managers put libraries.
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/opengl-driver",
    // The dynamic linker, the time zone, the drivers' lists and quirks.
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/vulkan",
    "/etc/OpenCL",
    "/etc/glvnd",
    "/etc/drirc",
    "/etc/nvidia",
    "/etc/amd",
    // Topology, memory, devices.
    "/sys",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/version",
    "/proc/filesystems",
    "/proc/devices",
    "/proc/modules",
    "/proc/driver",
    "/proc/sys/vm",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/pid_max",
];

/// For those that may use the network: names, and whom to trust.
pub(crate) const NETWORK: &[&str] =
    &["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/ssl", "/run/systemd/resolve"];

/// Read and written by everybody, without effect on anybody.
pub(crate) const NODES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Nodes and folders of nodes that graphics needs: the kernel's own, NVIDIA's, AMD's for computing, Windows' below WSL, and shared memory that
/// devices see. `*` at the end stands for the rest of a name.
const GRAPHICS: &[&str] = &["/dev/dri", "/dev/nvidia*", "/dev/kfd", "/dev/dxg", "/dev/udmabuf"];
const ACCELERATORS: &[&str] = &["/dev/accel"];

/// Which nodes a process may use.
pub(crate) fn nodes(devices: Devices) -> impl Iterator<Item = &'static str> {
    let graphics = if devices.graphics { GRAPHICS } else { &[] };
    let accelerators = if devices.accelerators { ACCELERATORS } else { &[] };
    graphics.iter().chain(accelerators).copied()
}

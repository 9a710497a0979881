//! Devices: what the drivers list, which nodes there are, and whether this user may open them.
//!
//! A device that exists and cannot be opened is the most common reason for "it runs on the CPU", so each node is looked at by itself, and
//! the group that would help is named.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use onebit_loader::devices::{Device, DeviceKind, DeviceList};
use rustix::fs::{Access, access};
use serde_json::json;

use super::finding::Finding;
use crate::output::bytes;

const AREA: &str = "devices";

/// What the drivers list, and hardware that no driver lists.
pub fn listed(list: &DeviceList) -> Vec<Finding> {
    let mut findings: Vec<Finding> = list.devices.iter().map(device).collect();
    // What is absent is a fact. It is a fault only where the hardware is there.
    findings.extend(list.notes.iter().map(|note| Finding::ok(AREA, note.clone())));
    let driven = |kind| list.devices.iter().any(|device| device.kind == kind && !device.software);
    if has_graphics() && !driven(DeviceKind::Vulkan) {
        findings.push(Finding::warn(
            AREA,
            "there is a graphics device, and no Vulkan driver for it",
            "Models run on the CPU only. Install its Vulkan driver (Debian and Ubuntu: apt install mesa-vulkan-drivers for AMD and Intel, the vendor's package for NVIDIA).",
        ));
    }
    if has_accel() && !driven(DeviceKind::Accel) {
        findings.push(Finding::warn(
            AREA,
            "there is an accel node, and it is not listed as a device",
            "The lines about /dev/accel say whether it can be opened.",
        ));
    }
    findings
}

/// Whether there is a graphics device that could compute.
fn has_graphics() -> bool {
    !nodes_in("/dev/dri", "renderD").is_empty()
}

fn device(device: &Device) -> Finding {
    let mut text = format!("{}: {}", device.id, device.name);
    for (word, value) in [("driver", &device.driver), ("firmware", &device.firmware)] {
        if !value.is_empty() {
            text.push_str(&format!(", {word} {value}"));
        }
    }
    if device.memory_total > 0 {
        text.push_str(&format!(", {}", bytes(device.memory_total)));
        if device.memory_free > 0 {
            text.push_str(&format!(" ({} free)", bytes(device.memory_free)));
        }
    }
    if device.integrated {
        text.push_str(", shares the machine's memory");
    }
    let facts = json!(device);
    if device.software {
        return Finding::warn(
            AREA,
            format!("{text}, computes on the CPU"),
            "A software driver: right answers, slowly. It is used only where `vulkan-software` is asked for.",
        )
        .with(facts);
    }
    if device.kind == DeviceKind::Accel && (device.driver.is_empty() || device.firmware.is_empty()) {
        return Finding::warn(
            AREA,
            format!("{text}; its driver or firmware does not say its version"),
            "Install the vendor's driver package, and firmware (linux-firmware).",
        )
        .with(facts);
    }
    Finding::ok(AREA, text).with(facts)
}

/// The nodes under `/dev` and whether they can be opened.
pub fn nodes() -> Vec<Finding> {
    let graphics = nodes_in("/dev/dri", "renderD");
    let accel = nodes_in("/dev/accel", "accel");
    let mut findings = Vec::new();
    if graphics.is_empty() {
        findings.push(Finding::ok(AREA, "no graphics device (/dev/dri has no render node)").with(json!({ "render_nodes": [] })));
    }
    findings.extend(graphics.iter().chain(&accel).map(|path| node(path)));
    findings
}

/// Whether there is an accel node.
pub fn has_accel() -> bool {
    !nodes_in("/dev/accel", "accel").is_empty()
}

fn nodes_in(folder: &str, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .map_while(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    paths.sort();
    paths
}

fn node(path: &Path) -> Finding {
    let shown = path.display();
    let Ok(metadata) = std::fs::metadata(path) else {
        return Finding::fail(AREA, format!("{shown} cannot be looked at"), "Look at it with ls -l.");
    };
    if !metadata.file_type().is_char_device() {
        return Finding::fail(
            AREA,
            format!("{shown} is not a device"),
            "Remove it; the kernel makes the right one when the driver is loaded.",
        );
    }
    let group = group_name(metadata.gid());
    let facts =
        json!({ "node": path, "group": group, "mode": format!("{:o}", metadata.mode() & 0o7777), "member": in_group(metadata.gid()) });
    if access(path, Access::READ_OK | Access::WRITE_OK).is_ok() {
        return Finding::ok(AREA, format!("{shown} can be opened (group {group})")).with(facts);
    }
    let next = if in_group(metadata.gid()) || metadata.mode() & 0o060 != 0o060 {
        format!(
            "Its rights are {:o}; a udev rule sets them. In a container, pass the device in with read and write rights.",
            metadata.mode() & 0o777
        )
    } else {
        format!("Join its group: sudo usermod -aG {group} $USER, then log in anew. For a service: SupplementaryGroups={group}.")
    };
    Finding::fail(AREA, format!("{shown} exists and may not be opened by this user (group {group})"), next).with(facts)
}

fn group_name(gid: u32) -> String {
    let known = std::fs::read_to_string("/etc/group").ok().and_then(|text| {
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
        })
    });
    known.unwrap_or_else(|| gid.to_string())
}

fn in_group(gid: u32) -> bool {
    let own = rustix::process::getegid().as_raw() == gid;
    own || rustix::process::getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
}

/// The groups that usually own such devices, and whether this user is in them.
pub fn groups() -> Finding {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let states: Vec<(String, bool)> = ["render", "video"]
        .into_iter()
        .filter_map(|name| {
            let gid = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok())?;
            Some((name.to_owned(), in_group(gid)))
        })
        .collect();
    let words: Vec<String> = states.iter().map(|(name, member)| format!("{} {name}", if *member { "in" } else { "not in" })).collect();
    let words = if words.is_empty() { "there are no groups render and video".to_owned() } else { words.join(", ") };
    // Only a node that cannot be opened makes this a fault, and that node says so itself.
    Finding::ok(AREA, format!("groups of this user: {words}"))
        .with(json!({ "groups": states.into_iter().collect::<std::collections::BTreeMap<_, _>>() }))
}

//! Vulkan devices, through the system's loader. Starts every installed driver, which is why it is called in processes that may die.

use std::ffi::CStr;

use ash::{Entry, Instance, vk};

use super::{Device, DeviceKind};

/// Devices, and notes about what kept others away.
pub(super) fn list(notes: &mut Vec<String>) -> Vec<Device> {
    // SAFETY: opens libvulkan.so.1, whose constructors are those of the system's Vulkan loader.
    let entry = match unsafe { Entry::load() } {
        Ok(entry) => entry,
        Err(error) => {
            notes.push(format!("no Vulkan: {error}; install the Vulkan loader (Debian, Ubuntu: apt install libvulkan1) and a driver"));
            return Vec::new();
        }
    };
    match Started::new(&entry) {
        Ok(started) => started.devices(notes),
        Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => {
            notes.push("no Vulkan: the loader is there, but no driver (Debian, Ubuntu: apt install mesa-vulkan-drivers)".into());
            Vec::new()
        }
        Err(error) => {
            notes.push(format!("no Vulkan: the instance could not be made: {error}"));
            Vec::new()
        }
    }
}

/// An instance that is destroyed on every way out.
struct Started {
    instance: Instance,
}

impl Drop for Started {
    fn drop(&mut self) {
        // SAFETY: nothing made from the instance is left.
        unsafe { self.instance.destroy_instance(None) }
    }
}

impl Started {
    fn new(entry: &Entry) -> Result<Self, vk::Result> {
        // SAFETY: plain queries and a create info that lives for the call.
        unsafe {
            let supported = entry.try_enumerate_instance_version()?.unwrap_or(vk::API_VERSION_1_0);
            // `vkGetPhysicalDeviceProperties2`, and with it the UUID, is part of 1.1.
            if supported < vk::API_VERSION_1_1 {
                return Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER);
            }
            let application =
                vk::ApplicationInfo::default().application_name(c"onebit-host").api_version(supported.min(vk::API_VERSION_1_3));
            let create = vk::InstanceCreateInfo::default().application_info(&application);
            Ok(Self { instance: entry.create_instance(&create, None)? })
        }
    }

    fn devices(&self, notes: &mut Vec<String>) -> Vec<Device> {
        // SAFETY: a live instance.
        let physical = match unsafe { self.instance.enumerate_physical_devices() } {
            Ok(physical) => physical,
            Err(error) => {
                notes.push(format!("no Vulkan: the devices could not be listed: {error}"));
                return Vec::new();
            }
        };
        if physical.is_empty() {
            notes.push("no Vulkan devices: the loader is there, but no driver found a device".into());
        }
        let mut devices: Vec<Device> = Vec::new();
        for device in physical {
            if let Some(device) = self.describe(device, notes) {
                // Two drivers for one GPU (or a layer) can list it twice under one UUID; the first is the loader's choice.
                if devices.iter().any(|known| known.uuid == device.uuid) {
                    notes.push(format!("{} by {} is the same device as one before it", device.name, device.driver));
                } else {
                    devices.push(device);
                }
            }
        }
        devices
    }

    fn describe(&self, physical: vk::PhysicalDevice, notes: &mut Vec<String>) -> Option<Device> {
        // SAFETY: a live instance and a device of it.
        let version = unsafe { self.instance.get_physical_device_properties(physical) }.api_version;
        if version < vk::API_VERSION_1_1 {
            notes.push("a Vulkan device of version 1.0 was left out: it has no UUID".into());
            return None;
        }
        let mut identity = vk::PhysicalDeviceIDProperties::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut identity);
        if version >= vk::API_VERSION_1_2 {
            properties = properties.push_next(&mut driver);
        }
        // SAFETY: the chain holds structs that the device's version knows.
        unsafe { self.instance.get_physical_device_properties2(physical, &mut properties) };
        let plain = properties.properties;
        let kind = plain.device_type;
        let integrated = kind == vk::PhysicalDeviceType::INTEGRATED_GPU;
        let software = kind == vk::PhysicalDeviceType::CPU;
        let (memory_total, memory_free) = self.memory(physical);
        let uuid = identity.device_uuid;
        Some(Device {
            id: format!("vulkan:{}", uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            kind: DeviceKind::Vulkan,
            name: text(plain.device_name_as_c_str().ok()),
            driver: driver_text(&driver, plain.driver_version, version >= vk::API_VERSION_1_2),
            firmware: String::new(),
            uuid,
            vendor_id: plain.vendor_id,
            device_id: plain.device_id,
            memory_total,
            memory_free,
            integrated,
            software,
        })
    }

    /// Bytes of the device-local heaps, and how many of them are free as far as the driver tells.
    fn memory(&self, physical: vk::PhysicalDevice) -> (u64, u64) {
        let has_budget = self.has_extension(physical, ash::ext::memory_budget::NAME);
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default();
        if has_budget {
            properties = properties.push_next(&mut budget);
        }
        // SAFETY: a live instance; the budget is only in the chain if the device knows it.
        unsafe { self.instance.get_physical_device_memory_properties2(physical, &mut properties) };
        let heaps = properties.memory_properties;
        let local: Vec<usize> = (0..(heaps.memory_heap_count as usize).min(vk::MAX_MEMORY_HEAPS))
            .filter(|heap| heaps.memory_heaps[*heap].flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .collect();
        let total = local.iter().map(|heap| heaps.memory_heaps[*heap].size).sum();
        let free =
            if has_budget { local.iter().map(|heap| budget.heap_budget[*heap].saturating_sub(budget.heap_usage[*heap])).sum() } else { 0 };
        (total, free)
    }

    fn has_extension(&self, physical: vk::PhysicalDevice, name: &CStr) -> bool {
        // SAFETY: a live instance and a device of it.
        let extensions = unsafe { self.instance.enumerate_device_extension_properties(physical) }.unwrap_or_default();
        extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
    }
}

fn driver_text(driver: &vk::PhysicalDeviceDriverProperties<'_>, version: u32, has_driver: bool) -> String {
    if !has_driver {
        return format!("driver {}.{}.{}", vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version));
    }
    let (name, info) = (text(driver.driver_name_as_c_str().ok()), text(driver.driver_info_as_c_str().ok()));
    format!("{name} {info}").trim().to_owned()
}

fn text(text: Option<&CStr>) -> String {
    text.map(|text| text.to_string_lossy().trim().to_owned()).unwrap_or_default()
}

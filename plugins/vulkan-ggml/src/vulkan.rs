//! Vulkan's own list of devices, with the UUIDs that ggml does not tell.
//!
//! The host names a device by UUID, ggml by its number in the driver's list. Both lists are the driver's, so the number in this one is
//! ggml's, once ggml is told to show all devices: by itself it hides software devices and all but one driver of a device.

use std::ffi::CString;

use ash::vk;
use onebit_sdk::Reason;

use crate::modules::Refusal;

/// Which devices ggml shows, by number in the driver's list.
const VISIBLE: &str = "GGML_VK_VISIBLE_DEVICES";

/// A device as the driver lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Physical {
    /// `deviceUUID`.
    pub uuid: [u8; 16],
    /// `deviceName`.
    pub name: String,
    /// Computes on the CPU.
    pub software: bool,
    /// Shares the machine's memory.
    pub integrated: bool,
    /// Reads 16-bit values from buffers, which ggml's kernels need.
    pub storage_16bit: bool,
}

/// All devices, in the driver's order.
pub fn list() -> Result<Vec<Physical>, Refusal> {
    // SAFETY: loads the system's Vulkan loader, whose constructors are trusted like those of any system library.
    let entry = unsafe { ash::Entry::load() }
        .map_err(|error| Refusal::new(Reason::MissingDriver, format!("libvulkan.so.1 cannot be loaded ({error}); install libvulkan1")))?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structs live for the call.
    let instance = unsafe { entry.create_instance(&info, None) }
        .map_err(|error| Refusal::new(Reason::MissingDriver, format!("no Vulkan driver starts: {error}")))?;
    // SAFETY: the instance is alive; it is destroyed after the last use of what came from it.
    let listed = unsafe { instance.enumerate_physical_devices() }
        .map(|devices| devices.into_iter().map(|device| describe(&instance, device)).collect())
        .map_err(|error| Refusal::new(Reason::Failed, format!("Vulkan does not list its devices: {error}")));
    // SAFETY: nothing made from the instance is left.
    unsafe { instance.destroy_instance(None) };
    listed
}

fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> Physical {
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    // SAFETY: a device of this instance; the chain lives for the call.
    unsafe { instance.get_physical_device_properties2(device, &mut properties) };
    let kind = properties.properties.device_type;
    let name = properties.properties.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut storage = vk::PhysicalDevice16BitStorageFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut storage);
    // SAFETY: as above.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
    Physical {
        uuid: id.device_uuid,
        name,
        software: kind == vk::PhysicalDeviceType::CPU,
        integrated: kind == vk::PhysicalDeviceType::INTEGRATED_GPU,
        storage_16bit: storage.storage_buffer16_bit_access == vk::TRUE,
    }
}

/// Tells ggml to show all `count` devices, unless somebody has restricted the list; the numbers it will show, in order.
pub fn visible(count: usize) -> Result<Vec<usize>, Refusal> {
    let stated = std::env::var(VISIBLE).unwrap_or_default();
    let restricted: Vec<&str> = stated.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    if !restricted.is_empty() {
        return restricted
            .into_iter()
            .map(|part| part.parse().ok().filter(|&index| index < count))
            .collect::<Option<Vec<usize>>>()
            .ok_or_else(|| {
                Refusal::new(Reason::NotPermitted, format!("{VISIBLE}={stated} names a device that is not one of the {count}"))
            });
    }
    let all: Vec<usize> = (0..count).collect();
    let list = all.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let (name, list) = match (CString::new(VISIBLE), CString::new(list)) {
        (Ok(name), Ok(list)) => (name, list),
        _ => return Err(Refusal::new(Reason::Failed, "a list of numbers with a zero byte")),
    };
    // SAFETY: two texts that end with zero. `plugin.toml` declares the variable, so the process was spawned with it: the C library replaces
    // a pointer in place and moves nothing that another thread may be reading.
    let status = unsafe { libc::setenv(name.as_ptr(), list.as_ptr(), 1) };
    if status == 0 { Ok(all) } else { Err(Refusal::new(Reason::Failed, format!("{VISIBLE} cannot be set"))) }
}

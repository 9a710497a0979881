//! The Vulkan path on a software device (lavapipe), asked for by its UUID. Slow, so the batches are small.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST and ONEBIT_TEST_MODELS set: `cargo test --release -p onebit-plugin-vulkan-ggml`.
//! Needs a software Vulkan driver: `apt-get install mesa-vulkan-drivers`.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use onebit_plugin_api::*;
use support::{Moment, Row, TestDevice, best, difference, model_path, plugin, turn};

/// The software device, as the driver lists it.
fn lavapipe() -> TestDevice {
    // SAFETY: loads the system's Vulkan loader.
    let entry = unsafe { ash::Entry::load() }.expect("libvulkan.so.1 is installed (`cargo xtask setup` says how)");
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    // SAFETY: structs live for the call.
    let instance =
        unsafe { entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&application), None) }.expect("Vulkan starts");
    // SAFETY: the instance is alive.
    let devices = unsafe { instance.enumerate_physical_devices() }.expect("a list");
    let found = devices.into_iter().find_map(|device| {
        let mut id = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
        // SAFETY: a device of this instance.
        unsafe { instance.get_physical_device_properties2(device, &mut properties) };
        (properties.properties.device_type == vk::PhysicalDeviceType::CPU).then_some(id.device_uuid)
    });
    TestDevice::vulkan(found.expect("a software Vulkan device: apt-get install mesa-vulkan-drivers"), ONEBIT_DEVICE_FLAG_SOFTWARE)
}

#[test]
fn a_software_device_computes_what_the_cpu_computes() {
    let _turn = turn();
    let device = lavapipe();
    let report = plugin().probe(std::slice::from_ref(&device)).pop().expect("a report");
    println!("{report:?}");
    assert!(report.usable && report.score == 1, "{report:?}");

    let start = Instant::now();
    let model = plugin().open(&model_path(), &device, &[], None, &mut |_| {}).expect("opens");
    println!("opened on {} in {:?}", model.computes_on, start.elapsed());
    assert!(model.computes_on.contains("llvmpipe") && model.computes_on.contains("Vulkan"), "{}", model.computes_on);
    let prompt = [504, 3575, 282, 4649, 314];
    let mut session = model.session(256, 2, 32).expect("a session");
    let start = Instant::now();
    let vulkan = session.feed(0, 0, &prompt);
    println!("5 tokens in {:?}", start.elapsed());

    let cpu = plugin().open_cpu();
    let on_cpu = cpu.session(256, 1, 32).expect("a session").feed(0, 0, &prompt);
    println!("device against CPU: {}", difference(&vulkan, &on_cpu));
    assert_eq!(best(&vulkan), best(&on_cpu));
    assert!(difference(&vulkan, &on_cpu) < 2.0, "{}", difference(&vulkan, &on_cpu));

    let saved = session.save(0);
    let plain = session.feed(0, 5, &[7042]);
    session.load(0, &saved).expect("loads");
    assert_eq!(session.feed(0, 5, &[7042]), plain, "bit for bit");

    // Cancelled in the middle of a batch. Eight rows, for which all shaders are compiled: a compiler in the driver cannot be interrupted.
    let rows: Vec<Row> = (0..8).map(|p| (500 + p, p, 1, p == 7)).collect();
    let flag = AtomicU32::new(0);
    let since = std::sync::Mutex::new(None);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            *since.lock().expect("no panic") = Some(Moment::now());
            flag.store(1, Ordering::SeqCst);
        });
        session.forward(&rows, Some(&flag))
    });
    let (took, computed) = since.lock().expect("no panic").expect("the flag was set").since();
    println!("a cancelled batch ends after {took:?}, {computed:?} of them computed");
    assert_eq!(result.err().map(|failure| failure.code), Some(ONEBIT_CANCELLED));
    assert!(computed < Duration::from_secs(1), "{computed:?}");
    session.feed(1, 0, &prompt);
}

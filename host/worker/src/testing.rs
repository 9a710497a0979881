//! Small values for the unit tests of this crate.

use onebit_loader::devices::{Device, DeviceKind};

use crate::spec::{Isolation, KeepAlive, LaunchSpec, MemoryEstimate};

/// A processor of which nothing is known.
pub(crate) fn cpu() -> Device {
    Device {
        id: "cpu".into(),
        kind: DeviceKind::Cpu,
        name: "a processor".into(),
        driver: String::new(),
        firmware: String::new(),
        uuid: [0; 16],
        vendor_id: 0,
        device_id: 0,
        memory_total: 0,
        memory_free: 0,
        integrated: false,
        software: false,
    }
}

/// A model that needs nothing.
pub(crate) fn spec(model: &str) -> LaunchSpec {
    LaunchSpec {
        model: model.into(),
        model_path: "/models/tiny.gguf".into(),
        plugin_dir: "/plugins/tiny".into(),
        plugin_id: "tiny".into(),
        plugin_version: "0.1.0".into(),
        device: cpu(),
        options: Vec::new(),
        context: None,
        slots: 1,
        threads: None,
        keep_alive: KeepAlive::default(),
        isolation: Isolation::Worker,
        estimate: MemoryEstimate::default(),
        chat_template: None,
        fallback_note: None,
        needs: Default::default(),
        seen: Vec::new(),
        env: Vec::new(),
    }
}

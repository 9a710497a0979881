//! A host as small as can be: one supervisor, one model, one endless request. The tests kill it to see whether its workers go with it.
//!
//! `small_host WORKER PLUGIN_DIR PLUGIN_ID VERSION MODEL_FILE`; prints the worker's process id once the request runs.

use std::path::PathBuf;
use std::time::Duration;

use onebit_engine::{GenerateRequest, Prompt};
use onebit_loader::devices::{Device, DeviceKind};
use onebit_worker::{Isolation, KeepAlive, LaunchSpec, MemoryEstimate, Supervisor, SupervisorConfig};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [worker, plugin_dir, plugin_id, plugin_version, model_path] = &arguments[..] else { panic!("five arguments") };
    let supervisor = Supervisor::new(SupervisorConfig { exe: Some(PathBuf::from(worker)), ..SupervisorConfig::default() });
    let spec = LaunchSpec {
        model: "a".into(),
        model_path: model_path.into(),
        plugin_dir: plugin_dir.into(),
        plugin_id: plugin_id.clone(),
        plugin_version: plugin_version.clone(),
        device: Device {
            id: "cpu".into(),
            kind: DeviceKind::Cpu,
            name: "the processor".into(),
            driver: String::new(),
            firmware: String::new(),
            uuid: [0; 16],
            vendor_id: 0,
            device_id: 0,
            memory_total: 0,
            memory_free: 0,
            integrated: false,
            software: false,
        },
        options: Vec::new(),
        context: None,
        slots: 1,
        threads: None,
        keep_alive: KeepAlive::Forever,
        isolation: Isolation::Worker,
        estimate: MemoryEstimate::default(),
        chat_template: None,
        fallback_note: None,
        needs: Default::default(),
        seen: Vec::new(),
        env: Vec::new(),
    };
    let lease = supervisor.lease(spec).await.expect("the model loads");
    let request = GenerateRequest { ignore_eos: true, ..GenerateRequest::new(Prompt::Tokens(vec![65])) };
    let _generation = lease.generate(request).await.expect("the request runs");
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("{}", supervisor.status()[0].pid.expect("a process of its own"));
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

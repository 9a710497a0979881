//! What the process border costs: the same model, the same requests, in a worker and inside this process, alternating.
//!
//! `border ONEBIT_HOST PLUGIN_DIR PLUGIN_ID VERSION MODEL_FILE [OPTION=VALUE …]`, for example the test plugin `ngram` with `row_us=500`. Prints
//! microseconds a token, one line a round: in the worker, in this process. `cargo xtask bench` runs it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use onebit_engine::{Event, GenerateRequest, Prompt};
use onebit_loader::devices::{Device, DeviceKind};
use onebit_worker::{Isolation, KeepAlive, LaunchSpec, Lease, MemoryEstimate, Supervisor, SupervisorConfig};

const ROUNDS: usize = 9;
const TOKENS: u32 = 1000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, plugin_dir, plugin_id, plugin_version, model_path, options @ ..] = &arguments[..] else { panic!("at least five arguments") };
    let supervisor = Supervisor::new(SupervisorConfig { exe: Some(PathBuf::from(host)), ..SupervisorConfig::default() });
    let spec = |model: &str, isolation| LaunchSpec {
        model: model.into(),
        model_path: model_path.into(),
        plugin_dir: plugin_dir.into(),
        plugin_id: plugin_id.clone(),
        plugin_version: plugin_version.clone(),
        device: processor(),
        options: options.iter().filter_map(|option| option.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect(),
        context: Some(2 * TOKENS),
        slots: 1,
        threads: None,
        keep_alive: KeepAlive::Forever,
        isolation,
        estimate: MemoryEstimate::default(),
        chat_template: None,
        fallback_note: None,
        needs: Default::default(),
        seen: Vec::new(),
        env: Vec::new(),
    };
    let outside = supervisor.lease(spec("worker", Isolation::Worker)).await.expect("loaded");
    let inside = supervisor.lease(spec("in-process", Isolation::InProcess)).await.expect("loaded");
    for lease in [&outside, &inside] {
        one(lease, TOKENS).await;
    }
    for _ in 0..ROUNDS {
        let per_token = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TOKENS);
        let (worker, here) = (per_token(one(&outside, TOKENS).await), per_token(one(&inside, TOKENS).await));
        println!("{worker:.3} {here:.3}");
    }
    supervisor.drain(Duration::from_secs(5)).await;
}

async fn one(lease: &Lease, tokens: u32) -> Duration {
    let request = GenerateRequest { max_tokens: Some(tokens), ignore_eos: true, ..GenerateRequest::new(Prompt::Tokens(vec![65, 66])) };
    let start = Instant::now();
    let mut generation = lease.generate(request).await.expect("started");
    while let Some(event) = generation.next().await {
        if let Event::Failed(error) = event.expect("the worker lives") {
            panic!("{error}");
        }
    }
    start.elapsed()
}

fn processor() -> Device {
    Device {
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
    }
}

//! Files in the models folder that are no models, and what the others notice of it: nothing.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use onebit_tests::server::Home;
use onebit_tests::{model_file, processes};
use serde_json::json;

use crate::{question, with};

fn header(version: u32, tensors: u64, values: u64) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(values.to_le_bytes());
    bytes
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value.as_bytes());
}

/// Name and bytes of every damaged file.
fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let good = std::fs::read(model_file()).unwrap();
    let mut long_key = header(3, 0, 1);
    long_key.extend((u64::MAX - 7).to_le_bytes());
    let mut endless_list = header(3, 0, 1);
    text(&mut endless_list, "general.tags");
    endless_list.extend(9u32.to_le_bytes()); // a list
    endless_list.extend(8u32.to_le_bytes()); // of texts
    endless_list.extend((1u64 << 59).to_le_bytes());
    let mut no_width = header(3, 1, 0);
    text(&mut no_width, "token_embd.weight");
    no_width.extend(2u32.to_le_bytes());
    no_width.extend(8u64.to_le_bytes());
    no_width.extend(0u64.to_le_bytes());
    no_width.extend(0u32.to_le_bytes());
    no_width.extend(0u64.to_le_bytes());
    let mut strange = header(3, 0, 1);
    text(&mut strange, "general.architecture");
    strange.extend(8u32.to_le_bytes());
    text(&mut strange, "perpetuum");
    vec![
        ("empty", Vec::new()),
        ("four-bytes", b"GGUF".to_vec()),
        ("forty-eight-bytes", vec![0x47; 48]),
        ("wrong-magic", [b"FUGG".as_slice(), &good[4..4096]].concat()),
        ("future-version", header(900, 0, 0)),
        ("long-key", long_key),
        ("endless-list", endless_list),
        ("no-width", no_width),
        ("many-tensors", header(3, u64::MAX / 2, 0)),
        ("many-values", header(3, 0, u64::MAX / 2)),
        ("cut-header", good[..20_000].to_vec()),
        ("cut-weights", good[..good.len() / 2].to_vec()),
        ("strange-architecture", strange),
    ]
}

#[test]
fn damaged_models_are_errors_of_their_own_and_nobody_elses() {
    let home = Home::with_model();
    for (name, bytes) in damaged() {
        std::fs::write(home.models().join(format!("{name}.gguf")), bytes).unwrap();
    }
    std::fs::create_dir(home.models().join("folder.gguf")).unwrap();
    symlink("/nonexistent/elsewhere.gguf", home.models().join("dangling.gguf")).unwrap();

    let server = home.serve();
    let client = server.client();
    client.get("/v1/models").good();
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let names = damaged().into_iter().map(|(name, _)| name).chain(["folder", "dangling"]);
    for name in names {
        let rss = processes::rss(server.pid());
        let since = Instant::now();
        let answer = client.post("/v1/chat/completions", &with(question("Hi", 1), &json!({"model": name})));
        assert!(since.elapsed() < Duration::from_secs(10), "{name} took {:?}", since.elapsed());
        assert!([404, 422, 500, 502, 503].contains(&answer.status), "{name}: {}: {}", answer.status, answer.text);
        assert_ne!(answer.status, 500, "{name}: {}", answer.text);
        assert!(answer.error().len() > 10, "{name}: {}", answer.text);
        assert!(processes::rss(server.pid()) < rss + (64 << 20), "{name} made the front grow");
        client.post("/v1/chat/completions", &question("Hi", 1)).good();
    }
    assert!(processes::alive(server.pid()));
}

#[test]
fn a_good_file_behind_a_linked_folder_is_served_without_a_manifest() {
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(model_file(), elsewhere.join("plain-name.gguf")).unwrap();
    let link = home.path().join("linked");
    symlink(Path::new("elsewhere"), &link).unwrap();
    let server = home.env("ONEBIT_MODELS_DIR", &link).serve();
    let client = server.client();
    let list = client.get("/v1/models").good();
    let id = list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).find(|id| id.contains("plain-name"));
    let id = id.unwrap_or_else(|| panic!("the file is not listed: {list}"));
    client.post("/v1/chat/completions", &with(question("Hi", 2), &json!({"model": id}))).good();
}

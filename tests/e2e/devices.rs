//! The device that was asked for is the device that computes.

use onebit_tests::MODEL_FILE;
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::{continuation, question, with};

fn devices(home: &Home) -> Vec<Value> {
    let output = home.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("doctor --json: {error}\n{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    report["devices"].as_array().unwrap_or_else(|| panic!("no devices in {report}")).clone()
}

/// A manifest that wants one device and nothing else.
fn only_on(home: &Home, device: &str) {
    let folder = home.path().join("config/onebit/models.d");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "schema = 1\nname = \"only-there\"\n\n[model]\nfile = \"{MODEL_FILE}\"\n\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"{device}\"\n"
    );
    std::fs::write(folder.join("only-there.toml"), manifest).unwrap();
}

#[test]
fn a_vulkan_device_in_software_computes_what_it_was_asked_to() {
    let home = Home::with_model().env("ONEBIT_CONTEXT", "128").env("ONEBIT_SLOTS", "1");
    let list = devices(&home);
    let lavapipe = list
        .iter()
        .find(|device| device["name"].as_str().is_some_and(|name| name.contains("llvmpipe")))
        .unwrap_or_else(|| panic!("no llvmpipe among the devices (is mesa-vulkan-drivers installed?): {list:?}"));
    let id = lavapipe["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("vulkan:"), "{id}");
    only_on(&home, &id);
    let server = home.serve();
    let answer =
        server.client().post("/v1/completions", &with(continuation("The capital of France is", 4), &json!({"model": "only-there"}))).good();
    let by = answer["system_fingerprint"].as_str().unwrap();
    assert!(by.ends_with(&id), "asked for {id}, computed by {by}");
    assert!(answer["choices"][0]["text"].as_str().unwrap().starts_with(" Paris"), "{answer}");
}

#[test]
fn a_device_that_is_not_here_is_an_error_and_no_silent_cpu() {
    let home = Home::with_model();
    only_on(&home, "vulkan:00000000000000000000000000000000");
    let server = home.serve();
    let answer = server.client().post("/v1/chat/completions", &with(question("Hi", 1), &json!({"model": "only-there"})));
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.error().contains("only-there"), "{}", answer.text);
    let explained = server.home.run(&["explain", "only-there"]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned() + &String::from_utf8_lossy(&explained.stderr);
    assert!(text.contains("vulkan"), "{text}");
}

#[test]
fn without_any_vulkan_driver_the_cpu_path_works() {
    let server =
        Home::with_model().env("VK_DRIVER_FILES", "/nonexistent/none.json").env("VK_ICD_FILENAMES", "/nonexistent/none.json").serve();
    let answer = server.client().post("/v1/chat/completions", &question("Hi", 1)).good();
    assert!(answer["system_fingerprint"].as_str().unwrap().ends_with("/cpu"), "{answer}");
}

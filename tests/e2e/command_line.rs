//! The commands that start no server.

use onebit_tests::server::Home;
use onebit_tests::{MODEL, model_file};
use serde_json::Value;

fn good(home: &Home, words: &[&str]) -> String {
    let output = home.run(words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "onebit-host {words:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_question_on_the_command_line_is_answered() {
    let home = Home::with_model();
    let text = good(&home, &["run", MODEL, "What is 2+2?", "--temperature", "0"]);
    assert!(text.contains("The answer to this classic math problem is 4."), "{text}");
}

#[test]
fn list_explain_and_doctor_say_what_is_here() {
    let home = Home::with_model();
    assert!(good(&home, &["list"]).contains(MODEL));
    let explained = good(&home, &["explain", MODEL]);
    assert!(explained.contains("vulkan-ggml") && explained.contains("cpu"), "{explained}");
    let doctor: Value = serde_json::from_str(&good(&home, &["doctor", "--json"])).unwrap();
    assert!(doctor["devices"].as_array().is_some_and(|list| list.iter().any(|device| device["id"] == "cpu")), "{doctor}");
    let plugins: Value = serde_json::from_str(&good(&home, &["plugin", "list", "--json"])).unwrap();
    assert!(plugins.to_string().contains("vulkan-ggml"), "{plugins}");
    assert!(good(&home, &["--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(good(&home, &["completions", "bash"]).contains("onebit-host"));
}

#[test]
fn an_unknown_model_is_told_what_looks_alike() {
    let home = Home::with_model();
    let output = home.run(&["run", "smollm2:136m", "Hi"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(MODEL), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_staged_plugin_passes_its_check_and_a_text_file_does_not() {
    let home = Home::new();
    let folder = onebit_tests::dist().join("lib/onebit/plugins/vulkan-ggml");
    good(&home, &["plugin", "check", folder.to_str().unwrap()]);
    let broken = home.path().join("broken");
    std::fs::create_dir(&broken).unwrap();
    // Without its list of files, which are not there.
    let toml = std::fs::read_to_string(folder.join("plugin.toml")).unwrap();
    std::fs::write(broken.join("plugin.toml"), toml.split("[sha256]").next().unwrap()).unwrap();
    std::fs::write(broken.join("libonebit_plugin_vulkan_ggml.so"), "not a library").unwrap();
    let output = home.run(&["plugin", "check", broken.to_str().unwrap()]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ELF") || said.contains("library"), "{said}");
}

#[test]
fn a_pulled_file_is_checked_and_served() {
    let home = Home::new();
    let source = model_file();
    let wrong = home.run(&["pull", source.to_str().unwrap(), "--sha256", &"0".repeat(64)]);
    assert!(!wrong.status.success(), "a wrong sha256 was accepted");
    assert!(
        std::fs::read_dir(home.models())
            .unwrap()
            .flatten()
            .all(|entry| entry.path().extension().is_none_or(|extension| extension != "gguf"))
    );
    good(&home, &["pull", source.to_str().unwrap(), "--sha256", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"]);
    assert!(good(&home, &["list"]).contains(MODEL));
}

#[test]
fn the_tree_runs_from_anywhere() {
    let home = Home::with_model();
    let copy = home.path().join("moved here");
    let status = std::process::Command::new("cp").arg("-r").arg(onebit_tests::dist()).arg(&copy).status().unwrap();
    assert!(status.success());
    let mut command = home.command(&["run", MODEL, "What is 2+2?", "--temperature", "0"]);
    let mut moved = std::process::Command::new(copy.join("bin/onebit-host"));
    moved.args(command.get_args()).current_dir("/");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => moved.env(name, value),
            None => moved.env_remove(name),
        };
    }
    command.stdin(std::process::Stdio::null());
    let output = moved.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("problem is 4."), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

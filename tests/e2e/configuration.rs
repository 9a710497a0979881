//! Configuration files: which editor saved them makes no difference, and a broken one is never passed over.

use onebit_tests::server::{Home, free_port};

// The number of positions is set by a variable for all tests, and a variable wins; the number of slots is not.
const PLAIN: &str = "context = 777\nslots = 3\n\n[run]\nsystem = \"naïve\"\n";

fn shown(home: &Home) -> String {
    // `explain` prints what a model would be served with, settings included; it starts nothing.
    let output = home.run(&["explain", onebit_tests::MODEL]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // How much memory is free changes between two calls.
    said.lines().map(|line| line.split("free: ").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_from_a_windows_editor_says_the_same() {
    let mut results = Vec::new();
    for text in [PLAIN.to_owned(), PLAIN.replace('\n', "\r\n"), format!("\u{feff}{}", PLAIN.replace('\n', "\r\n"))] {
        let home = Home::with_model();
        std::fs::create_dir_all(home.path().join("config/onebit")).unwrap();
        std::fs::write(home.path().join("config/onebit/config.toml"), text).unwrap();
        results.push(shown(&home).replace(&*home.path().to_string_lossy(), "HOME"));
    }
    assert!(results[0].contains("× 3 requests"), "the slots of the file do not show: {}", results[0]);
    assert_eq!(results[1], results[0], "CRLF");
    assert_eq!(results[2], results[0], "byte-order mark");
}

#[test]
fn a_broken_file_stops_the_start_and_names_file_and_line() {
    for (text, line) in [("context = 777\n\u{feff}slots = 3\n", 2), ("slots = \"three\"\n", 1), ("context = 5\nslotz = 3\n", 2), ("[", 1)] {
        let home = Home::new();
        let file = home.path().join("mine.toml");
        std::fs::write(&file, text).unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let output = home.run(&["serve", "--listen", &listen, "--config", file.to_str().unwrap()]);
        assert!(!output.status.success(), "{text:?} was accepted");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("mine.toml"), "{text:?}: {said}");
        assert!(said.contains(&format!("mine.toml:{line}")) || said.contains(&format!("line {line}")), "{text:?}: {said}");
    }
}

#[test]
fn a_manifest_from_a_windows_editor_is_read_and_a_broken_one_hurts_only_itself() {
    let home = Home::with_model();
    let folder = home.path().join("config/onebit/models.d");
    std::fs::create_dir_all(&folder).unwrap();
    let good = format!(
        "schema = 1\nname = \"mine\"\n\n[model]\nfile = \"{}\"\n\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"cpu\"\n",
        onebit_tests::MODEL_FILE
    );
    std::fs::write(folder.join("mine.toml"), format!("\u{feff}{}", good.replace('\n', "\r\n"))).unwrap();
    std::fs::write(folder.join("broken.toml"), "schema = 1\nname = [\n").unwrap();
    let output = home.run(&["list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mine") && text.contains(onebit_tests::MODEL), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let said = text + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("broken.toml"), "nobody hears of the broken manifest: {said}");
}

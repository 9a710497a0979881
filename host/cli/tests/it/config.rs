//! Settings as people give them.

use crate::support::User;

#[test]
fn every_value_says_where_it_comes_from() {
    let user = User::new();
    user.file(".config/onebit/config.toml", "slots = 3\n[hub]\nendpoint = \"https://mirror.example\"\n");
    let named = user.file("named.toml", "\u{feff}log = \"debug\"\r\n[run]\r\nsystem = \"naïve café\"\r\n");
    let mut command = user.command();
    command
        .args(["config", "--json", "--config"])
        .arg(&named)
        .args(["--cache-dir", "/c"])
        .env("ONEBIT_API_KEY", "hush")
        .env("HF_TOKEN", "hush");
    let said = crate::support::Said::of(command.output().unwrap()).ends_with_code(0);
    let all: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let value = |key: &str| (all[key]["value"].clone(), all[key]["origin"].as_str().unwrap().to_owned());
    let home = user.home().display().to_string();
    assert_eq!(value("slots"), ("3".into(), format!("{home}/.config/onebit/config.toml:1")));
    assert_eq!(value("hub.endpoint"), ("https://mirror.example".into(), format!("{home}/.config/onebit/config.toml:3")));
    assert_eq!(value("run.system"), ("naïve café".into(), format!("{home}/named.toml:3")));
    assert_eq!(value("cache_dir"), ("/c".into(), "--cache-dir".into()));
    assert_eq!(value("api_key").1, "environment ONEBIT_API_KEY");
    assert_eq!(value("hub.token").1, "environment HF_TOKEN");
    assert_eq!(value("max_queue"), ("512".into(), "default".into()));
    assert!(!said.out.contains("hush"), "a secret is never shown");
    let said = user.run(&["config"]).ends_with_code(0);
    assert!(said.out.contains("listen") && said.out.contains("127.0.0.1:8090"), "{}", said.out);
}

#[test]
fn a_broken_file_stops_every_command_and_names_the_line() {
    for (text, message) in [
        ("listen = \"127.0.0.1:1\"\nlistne = 1\n", "config.toml:2: there is no setting \"listne\"; did you mean \"listen\"?"),
        ("slots = \"many\"\n", "slots ("),
        ("slots = = 1\n", "config.toml:1: is not valid TOML"),
        ("listen = 3\n", "config.toml:1: listen is a whole number"),
        ("listen = \"everywhere\"\n", "is not an address to listen on"),
        ("slots = 1\n\u{feff}context = 2\n", "config.toml:2: "),
    ] {
        let user = User::new();
        user.file(".config/onebit/config.toml", text);
        let said = user.run(&["list"]).ends_with_code(2);
        assert!(said.err.contains(message), "{text:?}: {}", said.err);
        assert!(said.out.is_empty());
    }
}

#[test]
fn a_named_file_must_exist() {
    let said = User::new().run(&["list", "--config", "/no/such/file.toml"]).ends_with_code(3);
    assert!(said.err.contains("/no/such/file.toml") && said.err.contains("--config"), "{}", said.err);
}

//! From nothing to an answer with what is installed, and nothing else of this repository: by the commands that a new plugin's README gives.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use onebit_tests::server::Home;

/// `plugin new` with what the staged tree brings, and the first block of commands of its README.
fn follow_the_readme(language: &str, arrange: impl FnOnce(&Path)) -> PathBuf {
    let home = Home::new();
    let dir = home.path().join("plugins").join(language);
    let made = home.run(&["plugin", "new", "demo", "--lang", language, "--dir", dir.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    arrange(&dir);
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    let commands = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("commands");

    let program = onebit_tests::program();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(&dir).env("PATH", path).env_remove("CARGO_TARGET_DIR").env_remove("ONEBIT_MODELS_DIR");
    for (name, folder) in
        [("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")]
    {
        shell.env(name, home.path().join(folder));
    }
    // What this repository needs is on the machine; a new download would be a dependency that the SDK should not have.
    let output = shell.env("CARGO_NET_OFFLINE", "true").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("\n you.\n"), "{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status);
    onebit_tests::dist().join("share/onebit/sdk")
}

#[test]
fn a_rust_plugin_is_made_with_the_sdk_that_is_installed() {
    let sdk = follow_the_readme("rust", |dir| {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("share/onebit/sdk/sdk/backend"), "{manifest}");
        // Kept between runs, so that only the first one compiles the SDK.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
        std::fs::create_dir_all(&target).unwrap();
        symlink(target, dir.join("target")).unwrap();
    });
    assert!(!sdk.join("Cargo.lock").exists() && !sdk.join("target").exists(), "building a plugin wrote into the installed SDK");
}

#[test]
fn a_c_plugin_is_made_with_the_header_that_pkg_config_finds() {
    follow_the_readme("c", |dir| {
        let makefile = std::fs::read_to_string(dir.join("Makefile")).unwrap();
        assert!(makefile.contains("lib/pkgconfig"), "{makefile}");
    });
}

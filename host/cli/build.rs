//! Facts of the build for `--version`. No network; without git the source is empty.

use std::process::Command;

fn main() {
    println!("cargo:rustc-env=ONEBIT_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    let described = Command::new("git").args(["describe", "--always", "--dirty", "--tags"]).output();
    let source =
        described.ok().filter(|output| output.status.success()).map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=ONEBIT_SOURCE={}", source.unwrap_or_default());
    // The commit is in HEAD or in the ref that HEAD names; without a checkout there is nothing to watch.
    println!("cargo:rerun-if-changed=build.rs");
    for file in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
        if std::path::Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
}

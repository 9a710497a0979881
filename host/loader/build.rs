//! Hands the target triple to the check of a plugin's note: `cfg!` knows its parts, but not the triple.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=ONEBIT_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

//! Compiles this crate under the name and version of the plugin API, which abi_stable compares before it looks at layouts: without that,
//! the fixture would be refused for its name and prove nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=CARGO_PKG_NAME=onebit-plugin-api");
    println!("cargo:rustc-env=CARGO_PKG_VERSION=1.1.0");
    println!("cargo:rustc-env=PLUGIN_VERSION={}", std::env::var("CARGO_PKG_VERSION").unwrap_or_default());
}

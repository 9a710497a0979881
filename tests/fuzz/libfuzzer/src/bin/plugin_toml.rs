//! The target `plugin_toml` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onebit_fuzz::plugin_toml::run(bytes));

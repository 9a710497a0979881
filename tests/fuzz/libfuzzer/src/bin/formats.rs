//! The target `formats` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onebit_fuzz::formats::run(bytes));

//! The target `constraint` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onebit_fuzz::constraint::run(bytes));

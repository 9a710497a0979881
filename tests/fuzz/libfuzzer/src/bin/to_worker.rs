//! The target `to_worker` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onebit_fuzz::frames::to_worker(bytes));

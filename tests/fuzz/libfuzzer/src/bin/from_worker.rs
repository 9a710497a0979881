//! The target `from_worker` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onebit_fuzz::frames::from_worker(bytes));

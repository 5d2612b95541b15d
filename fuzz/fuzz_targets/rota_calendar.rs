//! See `targets` in `crates/lab/sim`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tieline_sim::targets::run("rota_calendar", bytes));

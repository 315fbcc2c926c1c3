#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| appproxy_fuzz::checks::replica_answer(bytes));

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| appproxy_fuzz::checks::model_peek(bytes));

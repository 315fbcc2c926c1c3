#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| appproxy_fuzz::checks::access_token(bytes));

//! What the fuzz targets check. `core/tests/fuzz_corpus.rs` runs the same checks over the corpus, without a fuzzer.

pub mod checks;

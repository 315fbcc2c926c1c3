//! The worker's program on tokio.
fn main() {}

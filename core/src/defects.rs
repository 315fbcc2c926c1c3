//! Deliberately wrong variants of the data plane, for the tests that show that they would be found.

/// The environment variable that the programs made for it (`appproxy-worker-defects`) take their defect from.
pub const VARIABLE: &str = "APPPROXY_DEFECT";

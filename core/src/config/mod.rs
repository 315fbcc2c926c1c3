//! What an operator configures, as the core uses it: resolved, checked, with secrets that cannot print.

pub mod worker;

//! The data plane: one request, states by value.

mod draw;
pub mod selection;

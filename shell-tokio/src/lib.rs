//! The AppProxy inference worker on tokio and axum.

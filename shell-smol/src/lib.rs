//! The same worker as `appproxy-shell-tokio`, on smol: not built yet.

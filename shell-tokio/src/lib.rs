//! tmp
mod clock; mod tls; mod coordinator; mod logs; mod metrics; mod shutdown;

//! tmp
mod clock; mod tls; mod coordinator; mod logs; mod metrics; mod shutdown; mod bus; mod observe; pub mod stage;

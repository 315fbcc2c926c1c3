//! How the coordinator's REST is spoken on tokio: like every other request that stands alone.

pub(crate) use crate::calls::fetch;

//! Identities. Read with or without dashes, in braces, in any case; written lower-case with dashes.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text.trim()).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A circuit's own id; acks are matched by it.
    CircuitId
);
uuid_id!(
    /// A deployment endpoint; publications map to it.
    EndpointId
);
uuid_id!(
    /// A replica's route.
    RouteId
);
uuid_id!(
    /// A replica group of an endpoint (worker-protocol 6.2).
    GroupId
);
uuid_id!(
    /// The coordinator's row for this authority.
    WorkerId
);
uuid_id!(
    /// This process, among the nodes of its authority.
    NodeId
);
uuid_id!(
    /// One call to the coordinator, as `X-BackendAI-RequestID`.
    RequestId
);

/// A model API key's id: a text of the coordinator's choosing, safe to show.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub Arc<str>);

impl KeyId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for KeyId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({})", self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A snapshot's revision: kept as text, compared for equality only (worker-protocol 5.1; 3.3, rule 6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub Arc<str>);

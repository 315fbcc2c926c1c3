//! The immutable state the data plane reads, and how it is made from the desired state.

mod changes;
mod from_config;
mod health;
#[cfg(feature = "appproxy-legacy")]
mod legacy;
mod pool;
mod pool_build;
mod quorum;
mod reconfigure;
mod registry;
mod reports;
#[cfg(feature = "appproxy-common")]
mod resume;
mod serve;
mod serve_health;
mod settings;
mod touch;
mod view;

pub use changes::ChangeSet;
pub use health::{
    AttemptEnd, Drain, ExchangeEnded, Health, HealthChange, HealthCounts, ProbeSign, Roster, Testimony, Witnesses,
    is_model_list, served_names,
};
pub use pool::{Candidate, EndpointKey, EndpointPool, EndpointShare, GroupKey, GroupPool, ModelPool, PoolKey};
pub use registry::{CircuitModel, Registry, RegistryCounts, ServedCircuit};
#[cfg(feature = "appproxy-common")]
pub(crate) use resume::Book;
pub use serve::{Serving, Update};
pub use settings::{Reconfigured, RoutingWeights, ServingSettings, StaticBackend, StaticModel};
pub use view::{Generation, ServingView, ViewCounts};

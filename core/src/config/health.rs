//! `health_checks` and `passive`: how a replica is judged (data-plane 4).

use core::time::Duration;
use serde::{Deserialize, Serialize};

use super::forms;
use super::reader::{Reader, Section};

/// `health_checks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthChecks {
    /// Whether replicas are probed.
    pub enabled: bool,
    /// Time between two probes.
    pub interval: Duration,
    /// Time a probe may take.
    pub timeout: Duration,
    /// Failures in a row that put a replica down.
    pub unhealthy_threshold: u32,
    /// Successes in a row that bring it back.
    pub healthy_threshold: u32,
    /// Path that is asked.
    pub endpoint: String,
    /// Time between probes of a replica that warms up.
    pub warmup_check_interval: Duration,
    /// Longest time to warm up.
    pub max_warmup_duration: Duration,
}

impl HealthChecks {
    /// The path that is asked unless another is configured.
    pub const ENDPOINT: &str = "/v1/models";
}

impl Default for HealthChecks {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            unhealthy_threshold: 3,
            healthy_threshold: 2,
            endpoint: Self::ENDPOINT.to_owned(),
            warmup_check_interval: Duration::from_secs(1),
            max_warmup_duration: Duration::from_secs(300),
        }
    }
}

/// `passive`: live traffic as a witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passive {
    /// Failures in a row that quarantine a replica.
    pub failures: u32,
    /// First time in quarantine; grows to 300 s.
    pub ejection: Duration,
}

impl Default for Passive {
    fn default() -> Self {
        Self { failures: 3, ejection: Duration::from_secs(10) }
    }
}

/// Reads `health_checks`.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>) -> HealthChecks {
    let section = reader.section(root, "health_checks");
    let default = HealthChecks::default();
    let health = HealthChecks {
        enabled: reader.value(&section, "enabled", forms::boolean).unwrap_or(default.enabled),
        interval: reader.value(&section, "interval", forms::interval).unwrap_or(default.interval),
        timeout: reader.value(&section, "timeout", forms::time).unwrap_or(default.timeout),
        unhealthy_threshold: reader
            .value(&section, "unhealthy_threshold", forms::positive)
            .unwrap_or(default.unhealthy_threshold),
        healthy_threshold: reader
            .value(&section, "healthy_threshold", forms::positive)
            .unwrap_or(default.healthy_threshold),
        endpoint: reader.value(&section, "endpoint", forms::path).unwrap_or(default.endpoint),
        warmup_check_interval: reader
            .value(&section, "warmup_check_interval", forms::interval)
            .unwrap_or(default.warmup_check_interval),
        max_warmup_duration: reader
            .value(&section, "max_warmup_duration", forms::time)
            .unwrap_or(default.max_warmup_duration),
    };
    reader.finish(&section);
    health
}

/// Reads `passive`.
pub(super) fn read_passive(reader: &mut Reader<'_>, root: &Section<'_>) -> Passive {
    let section = reader.section(root, "passive");
    let default = Passive::default();
    let passive = Passive {
        failures: reader.value(&section, "failures", forms::positive).unwrap_or(default.failures),
        ejection: reader.value(&section, "ejection", forms::time).unwrap_or(default.ejection),
    };
    if passive.ejection > Duration::from_secs(300) {
        reader.problem(
            section.place("ejection"),
            section.key("ejection"),
            "longer than 300s",
            "write at most \"300s\"",
        );
    }
    reader.finish(&section);
    passive
}

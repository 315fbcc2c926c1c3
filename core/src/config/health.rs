//! `health_checks` and `passive`: how a replica is judged (data-plane 4).

use core::time::Duration;

/// `health_checks`.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl Default for HealthChecks {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            unhealthy_threshold: 3,
            healthy_threshold: 2,
            endpoint: "/v1/models".to_owned(),
            warmup_check_interval: Duration::from_secs(1),
            max_warmup_duration: Duration::from_secs(300),
        }
    }
}

/// `passive`: live traffic as a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
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

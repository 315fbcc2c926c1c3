//! `backends`: replicas named in the file (data-plane 3.7).

use core::time::Duration;
use std::sync::Arc;

use crate::secret::Secret;

/// What a static backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendType {
    /// Anything OpenAI-compatible.
    #[default]
    Generic,
    /// vLLM.
    Vllm,
    /// OpenAI itself.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
}

/// Its part in disaggregated serving (data-plane 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendRole {
    /// Computes the prompt.
    Prefill,
    /// Generates the answer.
    Decode,
}

/// One entry of `backends`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticBackend {
    /// Unique; never begins with `appproxy-`.
    pub name: Arc<str>,
    /// What it speaks.
    pub kind: BackendType,
    /// `http` or `https` address without a trailing slash, credentials or query.
    pub url: String,
    /// Replaces the client's credential.
    pub api_key: Option<Secret>,
    /// Its weight among the backends of a model, 0 to 1000; 0 takes nothing.
    pub weight: u32,
    /// The names it serves, aliases included, none twice.
    pub models: Vec<Arc<str>>,
    /// For each alias the name that the backend itself knows.
    pub aliases: Vec<(Arc<str>, Arc<str>)>,
    /// Its part in disaggregated serving.
    pub role: Option<BackendRole>,
    /// Retry settings for this backend alone.
    pub retry_override: Option<RetryOverride>,
}

/// `backends[].retry_override`; `None` is what `request` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryOverride {
    /// Attempts in all.
    pub max_attempts: Option<u32>,
    /// First pause.
    pub base_delay: Option<Duration>,
    /// Longest pause.
    pub max_delay: Option<Duration>,
    /// Whether pauses double.
    pub exponential_backoff: Option<bool>,
    /// Whether pauses vary.
    pub jitter: Option<bool>,
}

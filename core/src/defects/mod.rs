//! Deliberately wrong variants of the program, for the tests that show that they would be found.
//!
//! `worker::defects` holds those of the control plane, this list the others: of the data plane, of settings that are read
//! and not kept, and of a shell. One name chooses one of either. Without the feature `defects` none can be chosen and
//! [`has`] is a constant, so that nothing of them is in the program.

mod settings;

pub(crate) use settings::{forget_some, forget_variables, told};

/// The environment variable that the programs made for it (`appproxy-worker-defects`) take their defect from.
#[cfg(feature = "defects")]
pub const VARIABLE: &str = "APPPROXY_DEFECT";

macro_rules! defects {
    ($($(#[doc = $what:literal])+ $variant:ident = $name:literal,)+) => {
        /// One rule that a wrong program does not follow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Defect {
            $($(#[doc = $what])+ $variant,)+
        }

        #[cfg(feature = "defects")]
        impl Defect {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name in the environment and in the list of scenarios.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

defects! {
    // Who gets in.
    /// A key is good beyond its end.
    ExpiryIgnored = "expiry-ignored",
    /// One request a minute more than the limit passes.
    LimitOffByOne = "limit-off-by-one",
    /// A key's addresses are not looked at.
    AddressesIgnored = "addresses-ignored",
    /// Every name is listed, whoever asks.
    EverythingListed = "everything-listed",
    /// A plain router without keys asks for one.
    KeyAlwaysAsked = "key-always-asked",
    /// A removed key stays, and its removal is confirmed.
    RevocationUnheard = "revocation-unheard",
    /// Refusals have OpenAI's shape on every surface.
    OneShapeForAll = "one-shape-for-all",
    /// Any page of any origin is let in.
    OriginsIgnored = "origins-ignored",
    /// The access line quotes the query.
    QueryLogged = "query-logged",

    // Who gets in at a circuit's host.
    /// A label that no circuit has is any circuit's.
    AnyLabel = "any-label",
    /// OPTIONS needs no credential, whatever it asks.
    OptionsNeedNothing = "options-need-nothing",
    /// A circuit is asked for whatever model the client names.
    ModelNotPinned = "model-not-pinned",
    /// Pages about the node answer at circuits' hosts too.
    PagesEverywhere = "pages-everywhere",
    /// No WebSocket goes through.
    UpgradesRefused = "upgrades-refused",
    /// A circuit whose model is not known is served like one without models.
    HeldServes = "held-serves",
    /// A circuit without models waits for some.
    OpaqueHeld = "opaque-held",

    // What reaches the replica.
    /// Connections to a replica that is gone wait for their next request.
    IdleKept = "idle-kept",
    /// What goes through as it is goes on when all of it has come.
    UploadsHeld = "uploads-held",
    /// A body that broke off is answered as if nothing was wrong.
    HalfBodyAnswered = "half-body-answered",
    /// A JSON body is read and written anew.
    BodyWrittenAnew = "body-written-anew",
    /// A packed body goes to the replica as it came, without its coding.
    CodingForgotten = "coding-forgotten",
    /// Of two `model` parts the first one counts.
    SecondModelPartIgnored = "second-model-part-ignored",
    /// Of two `model` fields the second one counts.
    DuplicatesTaken = "duplicates-taken",
    /// A replica's answer with a length and a transfer coding is read by the coding.
    TwoEndsTaken = "two-ends-taken",
    /// Headers that mean one connection go further.
    HopHeadersKept = "hop-headers-kept",
    /// Headers with bytes beyond ASCII are dropped.
    OddHeadersDropped = "odd-headers-dropped",
    /// The client's credential goes to the replica.
    CredentialForwarded = "credential-forwarded",

    // Who is asked.
    /// A failed attempt is the last one.
    NoRetries = "no-retries",
    /// A backend's own rules of retrying are read and not kept.
    RetryOverrideIgnored = "retry-override-ignored",
    /// A stale pooled connection counts as a failure of the replica.
    StaleCounts = "stale-counts",
    /// No model stands in for another.
    FallbackIgnored = "fallback-ignored",
    /// A replica's own 4xx becomes a 502.
    VerdictsReplaced = "verdicts-replaced",
    /// A replica's 4xx counts against it.
    VerdictsCount = "verdicts-count",
    /// Error pages of a replica go to the client as they are.
    ErrorPagesPassed = "error-pages-passed",
    /// `routing.weights` is `literal` whatever was asked.
    WeightsLiteral = "weights-literal",
    /// One bad probe takes a replica out.
    OneProbeDecides = "one-probe-decides",
    /// A replica that is down stays down.
    DownForEver = "down-for-ever",
    /// Live traffic takes nobody out.
    TrafficUnheard = "traffic-unheard",
    /// Live traffic takes nobody out of one model whom another has alone.
    EveryModelMustSpare = "every-model-must-spare",

    // How an answer ends.
    /// A stream that breaks off ends with `[DONE]`.
    FinishedAllTheSame = "finished-all-the-same",
    /// An answer that breaks off gets a clean end.
    CleanEnd = "clean-end",
    /// What passes is made valid text, piece by piece.
    PiecesMadeText = "pieces-made-text",
    /// A piece is kept until the next one comes.
    PiecesHeldBack = "pieces-held-back",
    /// A client that leaves is not noticed.
    LeavingUnnoticed = "leaving-unnoticed",
    /// What a client does not take is kept in memory.
    NoBackPressure = "no-back-pressure",

    // What the node says and hears.
    /// Answers of a node that leaves do not say that their connections end.
    LeavingUntold = "leaving-untold",
    /// The node is ready before it knows anything.
    ReadyAtOnce = "ready-at-once",
    /// `/health` knows no trouble.
    HealthAlwaysGood = "health-always-good",
    /// A configuration file that was refused is told in the log alone.
    RefusalUntold = "refusal-untold",
    /// It is forgotten when a key was seen.
    KeysUnseen = "keys-unseen",
    /// What answers state of their usage is not read.
    UsageUnread = "usage-unread",
    /// Acks are not sent.
    AcksWithheld = "acks-withheld",
    /// Malformed messages and elements are dropped without a word.
    MalformedUncounted = "malformed-uncounted",
    /// Route updates change nothing.
    RouteUpdateUnheard = "route-update-unheard",
    /// The bus is not asked whether it is still there.
    BusNotPinged = "bus-not-pinged",

    /// Heads that two readers may read differently are passed on.
    HeadsUnjudged = "heads-unjudged",
    /// Paths of any length are logged.
    PathUncut = "path-uncut",

    // What operators ask on the admin listener, and of a file.
    /// The admin listener asks nobody for its token.
    AdminOpen = "admin-open",
    /// Nothing is drained, whatever the answer says.
    DrainUnheard = "drain-unheard",
    /// Explanations are of requests without a key.
    ExplainForgetsKey = "explain-forgets-key",
    /// The state tells the hashes of keys.
    StateTellsHashes = "state-tells-hashes",
    /// Schema and reference leave out a section.
    SectionUntold = "section-untold",
    /// Variables that take the place of keys are not read.
    OverridesUnread = "overrides-unread",

    // Settings that are read and not kept.
    /// Another configuration changes nothing.
    ReloadUnheard = "reload-unheard",
    /// `server.max_body_size` is the default.
    BodySizeIgnored = "body-size-ignored",
    /// `server.max_body_size` is one byte more.
    BodySizeOffByOne = "body-size-off-by-one",
    /// `server.max_buffered` is the default.
    BufferedIgnored = "buffered-ignored",
    /// `server.max_header_size` is the default.
    HeaderSizeIgnored = "header-size-ignored",
    /// `server.header_timeout` and `idle_timeout` are an hour.
    SlowPeersStay = "slow-peers-stay",
    /// `server.max_connections` is the default.
    ConnectionsIgnored = "connections-ignored",
    /// All connections share a few places.
    FewConnections = "few-connections",
    /// `server.socket_mode` is not set.
    SocketModeIgnored = "socket-mode-ignored",
    /// `request.retry_buffer` is the default.
    RetryBufferIgnored = "retry-buffer-ignored",
    /// Listeners take any port.
    AnyPort = "any-port",
    /// `request.first_byte_timeout` and `idle_timeout` are the default.
    SilenceIgnored = "silence-ignored",
    /// The notice before the listeners close is a minute.
    NoticeTooLong = "notice-too-long",
    /// Running requests are cut at once.
    CutAtOnce = "cut-at-once",
    /// Running requests are never cut.
    NeverCut = "never-cut",
    /// `max_staleness` and `max_key_staleness` are not set.
    StalenessIgnored = "staleness-ignored",
    /// Pulls are ten minutes apart.
    PullsRare = "pulls-rare",
    /// Only the first mistake of a configuration is told.
    FirstMistakeOnly = "first-mistake-only",
    /// Variables are not read.
    VariablesUnread = "variables-unread",
}

/// Whether the program has this defect.
#[cfg(not(feature = "defects"))]
#[must_use]
pub const fn has(_: Defect) -> bool {
    false
}

/// What a wrong program makes of a piece of an answer; `None`: it keeps it for later.
#[cfg(not(feature = "defects"))]
#[must_use]
pub const fn spoil_piece(piece: bytes::Bytes) -> Option<bytes::Bytes> {
    Some(piece)
}

#[cfg(feature = "defects")]
pub use chosen::{choose, has, spoil_piece};

#[cfg(feature = "defects")]
mod chosen {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, PoisonError};

    use bytes::Bytes;

    use super::Defect;

    const NONE: u32 = u32::MAX;

    /// One for the whole process.
    static CHOSEN: AtomicU32 = AtomicU32::new(NONE);

    /// Gives this process the defect of this name, of whichever plane.
    ///
    /// # Errors
    /// When there is none of this name: all that there are.
    pub fn choose(name: &str) -> Result<(), Vec<&'static str>> {
        use crate::worker::defects as control;
        if let Some(defect) = Defect::ALL.iter().find(|defect| defect.name() == name) {
            CHOSEN.store(*defect as u32, Ordering::SeqCst);
            return Ok(());
        }
        if let Some(defect) = control::Defect::ALL.iter().find(|defect| defect.name() == name) {
            control::choose(Some(*defect));
            return Ok(());
        }
        let data = Defect::ALL.iter().map(|defect| defect.name());
        Err(data.chain(control::Defect::ALL.iter().map(|defect| defect.name())).collect())
    }

    /// Whether the program has this defect.
    #[must_use]
    pub fn has(defect: Defect) -> bool {
        CHOSEN.load(Ordering::Relaxed) == defect as u32
    }

    /// What a wrong program makes of a piece of an answer; `None`: it keeps it for later.
    pub fn spoil_piece(piece: Bytes) -> Option<Bytes> {
        static HELD: Mutex<Option<Bytes>> = Mutex::new(None);
        if has(Defect::PiecesMadeText) {
            return Some(String::from_utf8_lossy(&piece).into_owned().into());
        }
        if has(Defect::PiecesHeldBack) {
            return HELD.lock().unwrap_or_else(PoisonError::into_inner).replace(piece);
        }
        Some(piece)
    }
}

#[cfg(test)]
#[cfg(feature = "defects")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_on_both_planes_and_another_name_is_refused() {
        let names = choose("no-such-defect").unwrap_err();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(names.len(), Defect::ALL.len() + crate::worker::defects::Defect::ALL.len());
    }
}

//! What came back.

/// Status line and headers of an answer, in the order and the case of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The text after the status code.
    pub reason: String,
    /// Names and values; a name may come twice.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All headers of that name, in any case.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the header's comma-separated list holds `token`.
    pub(super) fn lists(&self, name: &str, token: &str) -> bool {
        self.headers(name).flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status and headers.
    pub head: Head,
    /// The body without its chunk framing.
    pub body: Vec<u8>,
}

impl Answer {
    /// The status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as text; what is no UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One event of a `text/event-stream` answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerSentEvent {
    /// The `event:` field, if there was one.
    pub event: Option<String>,
    /// The `data:` lines, joined with line feeds.
    pub data: String,
}

impl ServerSentEvent {
    /// Reads one block of lines, as it stands between two empty lines. A comment alone is no event.
    pub(super) fn parse(block: &str) -> Option<Self> {
        let mut event = None;
        let mut data: Option<String> = None;
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event = Some(value.to_owned()),
                "data" => match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                },
                _ => {}
            }
        }
        (event.is_some() || data.is_some()).then(|| Self { event, data: data.unwrap_or_default() })
    }
}

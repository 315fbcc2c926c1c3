//! The tokens that an answer says it took (data-plane 7), read off its bytes while they pass.
//!
//! Nothing is kept back, changed or asked for: the last [`USAGE_BYTES`] of an answer are remembered, and looked at once,
//! when it is over. Its statement stands at the end of a whole answer and in one of the last events of a stream; only
//! Anthropic's streams and rerank answers have a part of it at the beginning. No document is built. A statement counts
//! where the protocols have it: it is told from one of that name elsewhere (in a tool's arguments, say) by the brackets
//! that are left to close behind it. What cannot be read counts as not stated.

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use serde::Deserialize;

use super::headers;
use super::surface::Surface;
use crate::limits::USAGE_BYTES;

/// Tokens of one answer, as its replica states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt, those read from a cache included.
    pub input: u64,
    /// Of the answer, reasoning included.
    pub output: u64,
}

impl Usage {
    /// Those of another answer as well.
    pub(crate) const fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
    }
}

/// How many data lines of a stream are looked at, from its end: what follows a statement is `[DONE]`, `message_stop`, or
/// an event that was cut.
const LAST_EVENTS: usize = 4;

/// Remembers the ends of an answer whose usage may be stated in it.
#[derive(Debug)]
pub(super) struct Reader {
    events: bool,
    /// The first bytes, where a part of it stands there.
    lead: Option<Vec<u8>>,
    /// The last ones, and up to as many before them.
    tail: Vec<u8>,
}

impl Reader {
    /// A reader for an answer with these headers; `None`: it is packed, or in no form that states usage.
    pub(super) fn of(surface: Surface, headers: &HeaderMap, events: bool) -> Option<Self> {
        let readable = (events || headers::is_json(headers)) && !headers.contains_key(CONTENT_ENCODING);
        let leads = match surface {
            Surface::Anthropic => events,
            Surface::Rerank => !events,
            Surface::OpenAi | Surface::Gemini => false,
        };
        readable.then(|| Self { events, lead: leads.then(Vec::new), tail: Vec::new() })
    }

    /// A chunk passes.
    pub(super) fn see(&mut self, chunk: &[u8]) {
        if let Some(lead) = &mut self.lead {
            let room = USAGE_BYTES.saturating_sub(lead.len()).min(chunk.len());
            lead.extend_from_slice(chunk.get(..room).unwrap_or_default());
        }
        let last = chunk.get(chunk.len().saturating_sub(USAGE_BYTES)..).unwrap_or_default();
        if self.tail.len() + last.len() > 2 * USAGE_BYTES {
            let kept = USAGE_BYTES - last.len();
            self.tail.drain(..self.tail.len().saturating_sub(kept));
        }
        self.tail.extend_from_slice(last);
    }

    /// What was stated, now that the answer is over.
    pub(super) fn stated(&self) -> Option<Usage> {
        let lead = self.lead.as_deref().unwrap_or_default();
        if !self.events {
            // Gemini's streams are lists of answers where no events were asked for.
            return at_the_end(&self.tail, &["}", "}]"]).or_else(|| at_the_beginning(lead))?.usage();
        }
        let begun = whole_lines(lead).find_map(|line| at_the_end(line, &["}}"]));
        let ended = data_lines(&self.tail).take(LAST_EVENTS).find_map(|line| at_the_end(line, &["}", "}}"]));
        match (begun, ended) {
            (Some(begun), Some(ended)) => ended.over(begun).usage(),
            (begun, ended) => ended.or(begun)?.usage(),
        }
    }
}

/// The numbers of all protocols; each has its own names.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Stated {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    total_tokens: Option<u32>,
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
    cache_creation_input_tokens: Option<u32>,
    cache_read_input_tokens: Option<u32>,
    #[serde(rename = "promptTokenCount")]
    gemini_prompt: Option<u32>,
    #[serde(rename = "toolUsePromptTokenCount")]
    gemini_tool_prompt: Option<u32>,
    #[serde(rename = "candidatesTokenCount")]
    gemini_candidates: Option<u32>,
    #[serde(rename = "thoughtsTokenCount")]
    gemini_thoughts: Option<u32>,
}

impl Stated {
    /// The same where it says something, else what was said `before`.
    fn over(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.or(before.input_tokens),
            output_tokens: self.output_tokens.or(before.output_tokens),
            cache_creation_input_tokens: self.cache_creation_input_tokens.or(before.cache_creation_input_tokens),
            cache_read_input_tokens: self.cache_read_input_tokens.or(before.cache_read_input_tokens),
            ..self
        }
    }

    fn usage(self) -> Option<Usage> {
        let sum = |parts: [Option<u32>; 3]| {
            let known = parts.into_iter().flatten();
            parts.iter().any(Option::is_some).then(|| known.map(u64::from).sum::<u64>())
        };
        let input = self.prompt_tokens.map(u64::from).or_else(|| {
            let own = [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens];
            sum(own).or_else(|| sum([self.gemini_prompt, self.gemini_tool_prompt, None]))
        });
        let output = self.completion_tokens.or(self.output_tokens).map(u64::from);
        let output = output.or_else(|| sum([self.gemini_candidates, self.gemini_thoughts, None]));
        // Of embeddings and rankings some servers state the sum alone.
        let rest = || self.total_tokens.map(|total| u64::from(total).saturating_sub(output.unwrap_or_default()));
        let input = input.or_else(rest);
        (input.is_some() || output.is_some())
            .then(|| Usage { input: input.unwrap_or_default(), output: output.unwrap_or_default() })
    }
}

/// The statement behind which only `closings` are left to close, in a text that ends with its document.
fn at_the_end(text: &[u8], closings: &[&str]) -> Option<Stated> {
    let (_, stated, rest) = last_statement(text)?;
    let behind = Brackets::of(rest)?;
    (behind.open == 0 && closings.iter().any(|closing| closing.as_bytes() == behind.closed())).then_some(stated)
}

/// The statement among the first members of the document that the text begins with.
fn at_the_beginning(text: &[u8]) -> Option<Stated> {
    let (before, stated, _) = last_statement(text)?;
    let before = Brackets::of(before)?;
    (before.open == 1 && before.closed().is_empty()).then_some(stated)
}

/// The last usage object of a text, with what stands before its name and behind it. Inside a string its name would have
/// escaped quotes.
fn last_statement(text: &[u8]) -> Option<(&[u8], Stated, &[u8])> {
    let find = |name: &[u8]| text.windows(name.len()).rposition(|part| part == name).map(|at| (at, at + name.len()));
    let (start, end) = find(b"\"usage\"").or_else(|| find(b"\"usageMetadata\""))?;
    let value = text.get(end..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    if !value.starts_with(b"{") {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<Stated>();
    let stated = values.next()?.ok()?;
    Some((text.get(..start)?, stated, value.get(values.byte_offset()..)?))
}

/// What a piece of JSON that begins outside of any string does with brackets.
#[derive(Default)]
struct Brackets {
    /// Opened and not closed.
    open: usize,
    /// Closed and not opened, up to two.
    closed: [u8; 2],
    closings: usize,
}

impl Brackets {
    /// `None`: it ends inside a string, or closes too many.
    fn of(text: &[u8]) -> Option<Self> {
        let mut brackets = Self::default();
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => loop {
                    match bytes.next()? {
                        b'\\' => drop(bytes.next()?),
                        b'"' => break,
                        _ => {}
                    }
                },
                b'{' | b'[' => brackets.open += 1,
                b'}' | b']' if brackets.open > 0 => brackets.open -= 1,
                b'}' | b']' => {
                    *brackets.closed.get_mut(brackets.closings)? = *byte;
                    brackets.closings += 1;
                }
                _ => {}
            }
        }
        Some(brackets)
    }

    fn closed(&self) -> &[u8] {
        self.closed.get(..self.closings).unwrap_or_default()
    }
}

/// The data of a stream's events, from its end. The first line may be cut at its beginning.
fn data_lines(tail: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = tail.rsplit(|byte| matches!(byte, b'\n' | b'\r')).peekable();
    core::iter::from_fn(move || {
        let line = lines.next()?;
        let first = lines.peek().is_none();
        Some(line.strip_prefix(b"data:").or_else(|| first.then_some(line)).unwrap_or_default())
    })
    .filter(|line| !line.is_empty())
}

/// The data of a stream's events, from its beginning.
fn whole_lines(lead: &[u8]) -> impl Iterator<Item = &[u8]> {
    lead.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(|line| line.strip_prefix(b"data:"))
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;

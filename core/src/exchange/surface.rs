//! The path table of the data listener (data-plane 3).

use core::fmt::Write as _;
use http::Method;
use std::borrow::Cow;

use super::gemini;

/// Whose protocol a path belongs to. It decides which backends can serve it and how errors are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Surface {
    /// OpenAI paths, and whatever belongs to no other surface.
    OpenAi,
    /// Rerank, pooling, tokenizing; errors in OpenAI's shape.
    Rerank,
    /// Anthropic messages.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl Surface {
    /// The surface as a metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Rerank => "rerank",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The surface whose error shape a path gets, known or not: for errors before routing as well.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        if OPENAI.contains(&path) {
            Self::OpenAi
        } else if path == "/v1/messages" || path.starts_with("/v1/messages/") {
            Self::Anthropic
        } else if path == "/v1beta" || path.starts_with("/v1beta/") {
            Self::Gemini
        } else if RERANK.contains(&path) {
            Self::Rerank
        } else {
            Self::OpenAi
        }
    }
}

/// A page about this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// `/health`.
    Health,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
    /// `/status`.
    Status,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A page about this node; no key needed.
    Page(Page),
    /// `GET /v1/models`.
    ListModels,
    /// `GET /v1/models/{id}`, decoded.
    GetModel(String),
    /// A call that names its model in its body.
    BodyModel,
    /// A Gemini call: the model stands in the path, decoded.
    PathModel {
        /// The name, decoded.
        model: String,
        /// What follows the name: `:generateContent`.
        verb: &'static str,
    },
    /// A known path that is not supported yet.
    Unsupported,
    /// Passes untouched to a circuit's replicas (legacy worker).
    Raw {
        /// Whether a WebSocket is asked for.
        upgrade: bool,
    },
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nowhere {
    /// No such path.
    UnknownPath,
    /// The path exists, the method does not; what `Allow` says.
    MethodNotAllowed(&'static str),
    /// The name in the path is no percent-encoded UTF-8.
    BadPath,
}

const OPENAI: [&str; 5] =
    ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/moderations"];
const RERANK: [&str; 10] = [
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/score",
    "/v1/score",
    "/pooling",
    "/classify",
    "/tokenize",
    "/detokenize",
    "/embed_sparse",
];
const ANTHROPIC: [&str; 2] = ["/v1/messages", "/v1/messages/count_tokens"];
const OPENAI_FOLDERS: [&str; 2] = ["/v1/images/", "/v1/audio/"];
const GEMINI_MODELS: &str = "/v1beta/models/";
const GEMINI_VERBS: [&str; 5] =
    [":generateContent", ":streamGenerateContent", ":countTokens", gemini::EMBED, gemini::EMBED_BATCH];

/// Looks `path` up.
///
/// # Errors
/// [`Nowhere`], to be refused in the shape of [`Surface::of_path`].
pub(super) fn destination(method: &Method, path: &str) -> Result<Destination, Nowhere> {
    let (found, allow) = find(path)?;
    let allowed = match allow {
        ANY => true,
        GET => *method == Method::GET || *method == Method::HEAD,
        _ => *method == Method::POST,
    };
    if allowed { Ok(found) } else { Err(Nowhere::MethodNotAllowed(allow)) }
}

const GET: &str = "GET, HEAD";
const POST: &str = "POST";
const ANY: &str = "";

fn find(path: &str) -> Result<(Destination, &'static str), Nowhere> {
    if OPENAI.contains(&path) || RERANK.contains(&path) || ANTHROPIC.contains(&path) || in_folder(path) {
        return Ok((Destination::BodyModel, POST));
    }
    if path == "/v1/files" || path.starts_with("/v1/files/") {
        return Ok((Destination::Unsupported, ANY));
    }
    if let Some(rest) = path.strip_prefix(GEMINI_MODELS) {
        let (model, verb) = GEMINI_VERBS
            .into_iter()
            .find_map(|verb| Some((rest.strip_suffix(verb)?, verb)))
            .ok_or(Nowhere::UnknownPath)?;
        let model = decode(model).ok_or(Nowhere::BadPath)?.into_owned();
        return Ok((Destination::PathModel { model, verb }, POST));
    }
    if let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) {
        return Ok((Destination::GetModel(decode(id).ok_or(Nowhere::BadPath)?.into_owned()), GET));
    }
    let found = match path {
        "/v1/models" | "/v1/models/" => Destination::ListModels,
        "/health" => Destination::Page(Page::Health),
        "/livez" => Destination::Page(Page::Livez),
        "/readyz" => Destination::Page(Page::Readyz),
        "/status" => Destination::Page(Page::Status),
        _ => return Err(Nowhere::UnknownPath),
    };
    Ok((found, GET))
}

/// `/v1/images/*` and `/v1/audio/*`: at least one character behind the folder, and no way out of it.
fn in_folder(path: &str) -> bool {
    OPENAI_FOLDERS.iter().any(|folder| {
        path.strip_prefix(folder).is_some_and(|rest| {
            !rest.is_empty() && rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !rest.contains('%')
        })
    })
}

/// Undoes percent-encoding; `None` when the result is no UTF-8 or a `%` has no two hex digits behind it.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            bytes.push(hex(rest.next()?)? << 4 | hex(rest.next()?)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Percent-encodes `text` as one path segment; it is one value of a query as well.
#[must_use]
pub fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
#[path = "surface_tests.rs"]
mod tests;

//! Identities and their short names: `c1` is a circuit, `e1` an endpoint, `r1` a route, `w1` a worker's row.

use uuid::Uuid;

const KINDS: [(char, &str); 4] = [('c', "c0000000"), ('e', "e0000000"), ('r', "70000000"), ('w', "a0000000")];

/// The identity behind a short name.
pub(crate) fn identity(kind: char, name: &str) -> Result<Uuid, String> {
    let wrong = || format!("`{name}` should be `{kind}` and a number, like `{kind}1`");
    let number: u32 = name.strip_prefix(kind).and_then(|rest| rest.parse().ok()).ok_or_else(wrong)?;
    let (_, head) = KINDS.iter().find(|(known, _)| *known == kind).ok_or_else(wrong)?;
    Uuid::parse_str(&format!("{head}-0000-4000-8000-{number:012}")).map_err(|_| wrong())
}

/// `text` with short names in place of identities; `node` is this process, any other is `<id>`.
pub(crate) fn shortened(text: &str, node: Uuid) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(id) = rest.get(..36).and_then(|head| Uuid::parse_str(head).ok()) {
            short.push_str(&name(id, node));
            rest = rest.get(36..).unwrap_or_default();
        } else {
            short.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    short
}

fn name(id: Uuid, node: Uuid) -> String {
    if id == node {
        return "<node>".into();
    }
    let text = id.to_string();
    let known = KINDS.iter().find_map(|(kind, head)| {
        let number: u32 = text.strip_prefix(head)?.strip_prefix("-0000-4000-8000-")?.parse().ok()?;
        Some(format!("{kind}{number}"))
    });
    known.unwrap_or_else(|| "<id>".into())
}

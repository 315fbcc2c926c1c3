//! Typed reading of the tree. Every problem is noted and reading goes on with the default, so that one pass finds all.

use std::collections::{BTreeMap, BTreeSet};

use super::forms::{self, Flaw};
use super::keys::{self, Place};
use super::problem::{Position, Problem, Warning};
use super::suggest;
use super::tree::{Entry, Node, Value};
use super::variables::{self, Unset};
use super::{foreign, pending};
use crate::limits;
use crate::secret::Secret;

/// What is gathered while a file is read.
pub(super) struct Reader<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
    pub(super) not_in_effect: Vec<Warning>,
    pub(super) files: BTreeMap<String, Position>,
    /// Every key that was asked for, as [`keys::KEYS`] spells it; the table is tested against it.
    pub(super) asked: BTreeSet<String>,
}

/// One mapping of the file; empty where the file has none.
pub(super) struct Section<'t> {
    /// As written in messages: `backends[2]`.
    path: String,
    /// As written in tables: `backends[]`.
    pattern: String,
    pub(super) at: Position,
    pub(super) given: bool,
    entries: &'t [Entry],
}

/// One value of the file, its variables replaced.
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) key: String,
    pub(super) at: Position,
    /// Whether messages may show the text: nothing that came from a variable may.
    quotable: bool,
}

impl<'t> Section<'t> {
    /// The root of the file.
    pub(super) fn root(entries: &'t [Entry], at: Position) -> Self {
        Self { path: String::new(), pattern: String::new(), at, given: true, entries }
    }

    /// The whole key of `name` in here, as messages write it.
    pub(super) fn key(&self, name: &str) -> String {
        joined(&self.path, &printable(name))
    }

    /// Where `name` stands, or this section when it is not given.
    pub(super) fn place(&self, name: &str) -> Position {
        self.entry(name).map_or(self.at, |entry| entry.at)
    }

    /// Whether `name` is given with any value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| !matches!(entry.node.value, Value::Null))
    }

    fn entry(&self, name: &str) -> Option<&'t Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }
}

impl Scalar {
    /// The text for a message, or a stand-in. A long text is never shown, not even in part: it may be a secret in the
    /// wrong place, and the message has line and column.
    pub(super) fn quoted(&self) -> String {
        match () {
            () if !self.quotable => "the value of the variable".to_owned(),
            () if self.text.chars().count() > limits::QUOTED_VALUE_CHARS => "the value".to_owned(),
            () => format!("{:?}", self.text),
        }
    }
}

impl<'e> Reader<'e> {
    pub(super) fn new(env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            env,
            problems: Vec::new(),
            warnings: Vec::new(),
            not_in_effect: Vec::new(),
            files: BTreeMap::new(),
            asked: BTreeSet::new(),
        }
    }

    pub(super) fn problem(
        &mut self,
        at: Position,
        key: impl Into<String>,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) {
        self.problems.push(Problem { at, key: key.into(), wrong: wrong.into(), right: right.into() });
    }

    /// The value of `name`, which names a file that only a shell can look into.
    pub(super) fn file(&mut self, section: &Section<'_>, name: &str) -> Option<String> {
        self.files.insert(section.key(name), section.place(name));
        self.value(section, name, forms::text)
    }

    pub(super) fn warn(&mut self, at: Position, key: impl Into<String>, text: impl Into<String>) {
        self.warnings.push(Warning { at, key: key.into(), text: text.into() });
    }

    /// The section called `name`; an empty one where there is none.
    pub(super) fn section<'t>(&mut self, parent: &Section<'t>, name: &str) -> Section<'t> {
        let (path, pattern) = (parent.key(name), joined(&parent.pattern, name));
        let entry = parent.entry(name);
        let at = entry.map_or(parent.at, |entry| entry.at);
        let entries = entry.map(|entry| self.mapping(&entry.node, &path));
        let given = entries.as_ref().is_some_and(Option::is_some);
        Section { path, pattern, at, given, entries: entries.flatten().unwrap_or(&[]) }
    }

    /// The mappings of the list called `name`.
    pub(super) fn items<'t>(&mut self, parent: &Section<'t>, name: &str) -> Vec<Section<'t>> {
        let (path, pattern) = (parent.key(name), format!("{}[]", keys::canonical(&joined(&parent.pattern, name))));
        let nodes = match parent.entry(name).map(|entry| &entry.node.value) {
            None | Some(Value::Null) => &[][..],
            Some(Value::List(nodes)) => nodes.as_slice(),
            Some(_) => {
                self.problem(parent.place(name), path, "not a list", "begin each entry with `- ` on a line of its own");
                return Vec::new();
            }
        };
        let item = |(index, node): (usize, &'t Node)| {
            let path = format!("{path}[{index}]");
            let entries = self.mapping(node, &path)?;
            Some(Section { path, pattern: pattern.clone(), at: node.at, given: true, entries })
        };
        nodes.iter().enumerate().filter_map(item).collect()
    }

    /// The entries of the free mapping called `name`, such as a table of model names.
    pub(super) fn table<'t>(&mut self, parent: &Section<'t>, name: &str) -> Vec<(&'t Entry, String)> {
        self.ask(parent, name);
        let Some(entry) = parent.entry(name) else { return Vec::new() };
        let path = parent.key(name);
        let entries = self.mapping(&entry.node, &path).unwrap_or(&[]);
        self.duplicates(entries, &path);
        entries.iter().map(|entry| (entry, joined(&path, &printable(&entry.key)))).collect()
    }

    /// The entries of `node`; none of an empty one, `None` when it is something else, which is noted.
    fn mapping<'t>(&mut self, node: &'t Node, path: &str) -> Option<&'t [Entry]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            Value::Null => Some(&[]),
            Value::Scalar(_) | Value::Literal(_) | Value::List(_) => {
                self.problem(node.at, path, "not a section", "write its keys on indented lines below, as `key: value`");
                None
            }
        }
    }

    /// The single value called `name`; `None` when absent, empty or reported.
    pub(super) fn scalar(&mut self, section: &Section<'_>, name: &str) -> Option<Scalar> {
        self.ask(section, name);
        let entry = section.entry(name)?;
        self.resolve(&entry.node, section.key(name))
    }

    /// The plain text called `name`, noting no problem: for a first look at a value that is read again.
    pub(super) fn peek(&mut self, section: &Section<'_>, name: &str) -> Option<Scalar> {
        let before = self.problems.len();
        let scalar = self.scalar(section, name);
        self.problems.truncate(before);
        scalar
    }

    /// A node as a single value, its variables replaced.
    pub(super) fn resolve(&mut self, node: &Node, key: String) -> Option<Scalar> {
        let text = match &node.value {
            Value::Null => return None,
            Value::Scalar(text) => text,
            Value::Literal(text) => return Some(Scalar { text: text.clone(), key, at: node.at, quotable: false }),
            Value::List(_) | Value::Map(_) => {
                self.problem(
                    node.at,
                    key,
                    "a list or section where one value belongs",
                    "write `key: value` on one line",
                );
                return None;
            }
        };
        match variables::expand(text, self.env) {
            Ok((text, replaced)) => Some(Scalar { text, key, at: node.at, quotable: !replaced }),
            Err(Unset::Variable(name)) => {
                let right = format!("set {name} in the environment of the worker, or write the value here");
                self.problem(node.at, key, format!("the environment variable {name} is not set"), right);
                None
            }
            Err(Unset::Malformed) => {
                let right = "write ${NAME} with letters, digits and underscores; a text with `${` in it can come from a variable";
                self.problem(node.at, key, "`${` begins no variable here", right);
                None
            }
        }
    }

    /// The value called `name`, read by `form`.
    pub(super) fn value<T>(
        &mut self,
        section: &Section<'_>,
        name: &str,
        form: fn(&str) -> Result<T, Flaw>,
    ) -> Option<T> {
        let scalar = self.scalar(section, name)?;
        self.formed(&scalar, form)
    }

    /// `scalar`, read by `form`.
    pub(super) fn formed<T>(&mut self, scalar: &Scalar, form: fn(&str) -> Result<T, Flaw>) -> Option<T> {
        match form(&scalar.text) {
            Ok(value) => Some(value),
            Err(flaw) => {
                let shown = if flaw.hide { "the value".to_owned() } else { scalar.quoted() };
                self.problem(scalar.at, &scalar.key, format!("{shown} {}", flaw.is), flaw.right);
                None
            }
        }
    }

    /// The value called `name`, one of `words`.
    pub(super) fn choice<T: Copy>(&mut self, section: &Section<'_>, name: &str, words: &[(&str, T)]) -> Option<T> {
        let scalar = self.scalar(section, name)?;
        let found = words.iter().find(|(word, _)| *word == scalar.text).map(|(_, value)| *value);
        if found.is_none() {
            let known = || words.iter().map(|(word, _)| *word);
            let right = match suggest::closest(&scalar.text, known()) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("write one of {}", known().collect::<Vec<_>>().join(", ")),
            };
            self.problem(scalar.at, &scalar.key, format!("{} is not known here", scalar.quoted()), right);
        }
        found
    }

    /// A value that may never be shown; an empty one is a problem.
    pub(super) fn secret(&mut self, section: &Section<'_>, name: &str) -> Option<Secret> {
        let scalar = self.scalar(section, name)?;
        if scalar.text.trim().is_empty() {
            self.problem(scalar.at, scalar.key, "empty", "give the secret, best as \"${NAME}\" from the environment");
            return None;
        }
        Some(Secret::new(scalar.text))
    }

    /// The values of the list called `name`; a single value is a list of one.
    pub(super) fn list(&mut self, section: &Section<'_>, name: &str) -> Option<Vec<Scalar>> {
        self.ask(section, name);
        let entry = section.entry(name)?;
        self.scalars(&entry.node, &section.key(name))
    }

    /// `node` as a list of single values.
    pub(super) fn scalars(&mut self, node: &Node, key: &str) -> Option<Vec<Scalar>> {
        match &node.value {
            Value::Null => None,
            Value::Scalar(_) | Value::Literal(_) => Some(self.resolve(node, key.to_owned()).into_iter().collect()),
            Value::List(nodes) => {
                let resolve = |(index, node)| self.resolve(node, format!("{key}[{index}]"));
                Some(nodes.iter().enumerate().filter_map(resolve).collect())
            }
            Value::Map(_) => {
                self.problem(
                    node.at,
                    key,
                    "a section where a list belongs",
                    "write [\"one\", \"two\"], or a line `- one` each",
                );
                None
            }
        }
    }

    /// Notes that `name` is missing, unless something about it was already said.
    pub(super) fn required<T>(
        &mut self,
        section: &Section<'_>,
        name: &str,
        value: Option<T>,
        right: &str,
    ) -> Option<T> {
        if value.is_none() && !section.has(name) {
            self.problem(section.place(name), section.key(name), "missing", right);
        }
        value
    }

    /// What is left of a section when its keys have been read: keys given twice, unknown, foreign, or not in effect.
    pub(super) fn finish(&mut self, section: &Section<'_>) {
        self.duplicates(section.entries, &section.path);
        for entry in section.entries {
            let pattern = joined(&section.pattern, &entry.key);
            let key = section.key(&entry.key);
            match keys::place(&pattern) {
                Place::Known => {
                    if let Some(text) = pending::reason(&pattern, &entry.node) {
                        self.not_in_effect.push(Warning { at: entry.at, key, text: text.to_owned() });
                    }
                }
                Place::Unknown => match foreign::reason(&pattern) {
                    Some(reason) => {
                        self.warn(entry.at, key, format!("not a feature of this worker: {reason}; ignored"))
                    }
                    None => self.unknown(section, entry, key),
                },
            }
        }
    }

    fn unknown(&mut self, section: &Section<'_>, entry: &Entry, key: String) {
        let names = keys::names_in(&section.pattern);
        let close = suggest::closest(&entry.key, names.iter().copied());
        if close.is_none() && may_be_a_value(entry) {
            let wrong = "a word without a value (not shown, for it may be a secret whose key got lost)";
            self.problem(entry.at, section.path.clone(), wrong, "write `key: value`");
            return;
        }
        let right = match close {
            Some(name) => format!("did you mean `{name}`?"),
            None if names.is_empty() => "nothing may stand here".to_owned(),
            None => format!("known here: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        };
        self.problem(entry.at, key, "unknown key", right);
    }

    fn duplicates(&mut self, entries: &[Entry], path: &str) {
        for (index, entry) in entries.iter().enumerate() {
            let earlier = entries.iter().take(index).find(|earlier| earlier.key == entry.key);
            if let Some(earlier) = earlier {
                let wrong = format!("given twice, first on line {}", earlier.at.line);
                let key = if may_be_a_value(entry) { path.to_owned() } else { joined(path, &printable(&entry.key)) };
                self.problem(entry.at, key, wrong, "keep one of them");
            }
        }
    }

    fn ask(&mut self, section: &Section<'_>, name: &str) {
        self.asked.insert(joined(&section.pattern, name));
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A key of the file as messages write it: on one line, and not at any length.
fn printable(key: &str) -> String {
    let mut shown: String = key.chars().take(limits::SHOWN_KEY_CHARS).flat_map(char::escape_debug).collect();
    if key.chars().nth(limits::SHOWN_KEY_CHARS).is_some() {
        shown.push_str("..");
    }
    shown
}

/// Whether a key without a value looks like a value without a key. Names are lower-case words; secrets rarely are.
fn may_be_a_value(entry: &Entry) -> bool {
    matches!(entry.node.value, Value::Null) && !entry.key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

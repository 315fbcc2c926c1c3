//! Values from the environment: `APPPROXY__SERVER__BIND_ADDRESS` stands for `server.bind_address`, and so on for every key
//! of the file. They are laid over the tree before anything is read, so that what is wrong in them is said like anything
//! else.

use super::keys::{self, KEYS, Kind};
use super::problem::{Position, Problem};
use super::tree::{Entry, Node, Value};

/// What the name of such a variable begins with; `__` stands between the names of a key.
pub const OVERRIDE_PREFIX: &str = "APPPROXY__";

/// Lays `value` over `tree` at the key that `variable` names. A name that is no key is left to the reader, which knows what
/// may have been meant.
pub(super) fn lay(tree: &mut Node, variable: &str, value: &str) -> Result<(), Problem> {
    let refused = |wrong: String, right: &str| Problem {
        at: Position::ENVIRONMENT,
        key: variable.to_owned(),
        wrong,
        right: right.to_owned(),
    };
    let path = variable.strip_prefix(OVERRIDE_PREFIX).unwrap_or(variable).to_lowercase();
    let names: Vec<&str> = path.split("__").collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(refused(
            "names no key".to_owned(),
            "write APPPROXY__SECTION__KEY, such as APPPROXY__SERVER__BIND_ADDRESS",
        ));
    }
    let mut node = tree;
    let mut pattern = String::new();
    for name in names {
        let list = format!("{}[]", keys::canonical(&pattern));
        if KEYS.iter().any(|doc| doc.key.strip_prefix(&list).is_some_and(|rest| rest.starts_with('.'))) {
            node = item(node, name).ok_or_else(|| {
                refused(
                    format!("`{name}` is no entry of the list {pattern}"),
                    "count its entries from 0; the first number behind the last entry adds one",
                )
            })?;
            pattern = list;
        } else {
            node = field(node, name).ok_or_else(|| {
                refused(format!("{pattern} is no section in the file"), "write its keys on indented lines below it")
            })?;
            pattern = if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") };
        }
    }
    let kind = KEYS.iter().find(|doc| doc.key == keys::canonical(&pattern)).map(|doc| doc.kind);
    node.at = Position::ENVIRONMENT;
    node.value = match kind {
        Some(Kind::Table) => {
            return Err(refused("a table cannot be given in one variable".to_owned(), "write it in the file"));
        }
        Some(Kind::List) => {
            Value::List(value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(literal).collect())
        }
        _ => Value::Literal(value.to_owned()),
    };
    Ok(())
}

fn literal(text: &str) -> Node {
    Node { at: Position::ENVIRONMENT, value: Value::Literal(text.to_owned()) }
}

fn empty() -> Node {
    Node { at: Position::ENVIRONMENT, value: Value::Null }
}

/// The entry of a list with this number; the one behind the last is added.
fn item<'n>(list: &'n mut Node, number: &str) -> Option<&'n mut Node> {
    if matches!(list.value, Value::Null) {
        list.value = Value::List(Vec::new());
    }
    let Value::List(items) = &mut list.value else { return None };
    let number: usize = number.parse().ok()?;
    if number == items.len() {
        items.push(empty());
    }
    items.get_mut(number)
}

/// The value of a section with this name; added where there is none.
fn field<'n>(section: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    if matches!(section.value, Value::Null) {
        section.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut section.value else { return None };
    let index = match entries.iter().position(|entry| entry.key == name) {
        Some(index) => index,
        None => {
            entries.push(Entry { key: name.to_owned(), at: Position::ENVIRONMENT, node: empty() });
            entries.len() - 1
        }
    };
    entries.get_mut(index).map(|entry| &mut entry.node)
}

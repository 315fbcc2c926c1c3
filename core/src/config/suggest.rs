//! "Did you mean": the closest of the names that would have been right.

/// The candidate closest to `written`, when it is close enough to be meant. Of equally close ones the first.
pub(super) fn closest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplified(written);
    let bound = (plain.chars().count() / 4).max(1);
    candidates
        .map(|candidate| (distance(&plain, &simplified(candidate)), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn simplified(name: &str) -> String {
    name.chars().take(64).filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect()
}

/// Edits (insert, remove, replace, swap neighbours) from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, from_char) in from.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, to_char) in to.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let replace = at(&last, column) + usize::from(from_char != *to_char);
            let mut best = replace.min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            let swapped = column > 0 && previous == Some(*to_char) && to.get(column - 1) == Some(&from_char);
            if swapped {
                best = best.min(at(&before_last, column - 1) + 1);
            }
            current.push(best);
        }
        before_last = core::mem::replace(&mut last, current);
        previous = Some(from_char);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["heartbeat_period", "hostname", "authority", "redis_url"];
        let find = |written| closest(written, names.into_iter());
        assert_eq!(find("hearbeat_period"), Some("heartbeat_period"));
        assert_eq!(find("heartbeatPeriod"), Some("heartbeat_period"));
        assert_eq!(find("host_name"), Some("hostname"));
        assert_eq!(find("redis-ulr"), Some("redis_url"));
        assert_eq!(find("unrelated"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn distance_counts_edits() {
        for (from, to, edits) in [("", "abc", 3), ("abc", "abc", 0), ("abcd", "abdc", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }
}

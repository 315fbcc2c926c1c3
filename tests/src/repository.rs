//! The repository's own files, for the rules that are checked as tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the workspace's `Cargo.toml`.
#[must_use]
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// Which files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those git tracks.
    Tracked,
    /// Those git tracks, or would after `git add`.
    TrackedOrNew,
}

/// The repository's files as paths below [`root`], sorted. Outside of a checkout (an unpacked archive) all files
/// count, but for what a build leaves behind.
///
/// # Errors
/// When git fails, or the folders cannot be read.
pub fn files(which: Which) -> io::Result<Vec<PathBuf>> {
    let root = root();
    let mut files = Vec::new();
    if root.join(".git").exists() {
        let mut command = Command::new("git");
        // A clone that belongs to another user than the one who tests it is still only listed.
        command.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached"]).current_dir(&root).stdin(Stdio::null());
        if which == Which::TrackedOrNew {
            command.args(["--others", "--exclude-standard"]);
        }
        let listed = command.output()?;
        if !listed.status.success() {
            return Err(io::Error::other(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr))));
        }
        files.extend(String::from_utf8_lossy(&listed.stdout).split_terminator('\0').map(PathBuf::from));
        // What was removed but not yet committed is still listed.
        files.retain(|file| root.join(file).is_file());
    } else {
        walk(&root, Path::new(""), &mut files)?;
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == "artifacts" || name == "__pycache__" {
            continue;
        }
        let path = below.join(&name);
        if entry.file_type()?.is_dir() {
            walk(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The files [`files`] lists that are text, with their content.
///
/// # Errors
/// As [`files`].
pub fn texts() -> io::Result<Vec<(PathBuf, String)>> {
    let root = root();
    let mut texts = Vec::new();
    for file in files(Which::TrackedOrNew)? {
        if let Ok(text) = String::from_utf8(fs::read(root.join(&file))?) {
            texts.push((file, text));
        }
    }
    Ok(texts)
}

/// The Rust files among [`texts`].
///
/// # Errors
/// As [`files`].
pub fn rust() -> io::Result<Vec<(PathBuf, String)>> {
    let mut texts = texts()?;
    texts.retain(|(file, _)| file.extension().is_some_and(|extension| extension == "rs"));
    Ok(texts)
}

/// Whether all of a Rust file is test code, by its place or its name.
#[must_use]
pub fn is_test_file(file: &Path) -> bool {
    let folders = file.components().filter_map(|part| part.as_os_str().to_str()).collect::<Vec<_>>();
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    folders.contains(&"tests") || folders.contains(&"benches") || stem == "tests" || stem.ends_with("_tests")
}

/// Lines with their numbers, counted from 1.
pub type Lines<'a> = Vec<(usize, &'a str)>;

/// Splits a Rust file's code lines into product and test, each line with its number; comment lines are left out. Test
/// is what follows an unindented `#[cfg(test)]` that opens a module: tests stand last in a file.
#[must_use]
pub fn split_tests(text: &str) -> (Lines<'_>, Lines<'_>) {
    let lines: Lines<'_> = text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
    let opens_tests = |from: usize| {
        let mut rest = lines.iter().skip(from).map(|(_, line)| *line);
        let opened = rest.next() == Some("#[cfg(test)]");
        // Other attributes may stand between; a module in a file of its own ends with a semicolon.
        opened && rest.find(|line| !line.starts_with("#[")).is_some_and(|line| line.trim_end().ends_with('{'))
    };
    let end = (0..lines.len()).find(|at| opens_tests(*at)).unwrap_or(lines.len());
    let (product, tests) = lines.split_at(end);
    let keep = |line: &&(usize, &str)| !line.1.trim_start().starts_with("//");
    (product.iter().filter(keep).copied().collect(), tests.iter().filter(keep).copied().collect())
}

/// Whether `text` holds `word` with no letter, digit or underscore beside it.
#[must_use]
pub fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|rest| rest.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|rest| rest.chars().next());
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_listed_and_nothing_built_is() {
        let files = files(Which::TrackedOrNew).unwrap();
        assert!(files.contains(&PathBuf::from("tests/src/repository.rs")));
        assert!(files.iter().all(|file| !file.starts_with("target") && !file.starts_with(".git/")));
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let mut files = Vec::new();
        walk(&root().join("tests"), Path::new(""), &mut files).unwrap();
        assert!(files.contains(&PathBuf::from("src/repository.rs")));
    }

    #[test]
    fn test_files_are_known_by_place_or_name() {
        let tests = ["core/tests/a.rs", "core/benches/a.rs", "core/src/a/tests.rs", "core/src/a_tests.rs"];
        assert!(tests.iter().all(|file| is_test_file(Path::new(file))));
        assert!(!is_test_file(Path::new("core/src/attests.rs")));
    }

    #[test]
    fn product_ends_where_the_test_module_opens() {
        let (product, tests) =
            split_tests("use a;\n// b\n#[cfg(test)]\nmod c;\nd\n#[cfg(test)]\n#[x]\nmod tests {\n}\n");
        assert_eq!(product, [(1, "use a;"), (3, "#[cfg(test)]"), (4, "mod c;"), (5, "d")]);
        assert_eq!(tests, [(6, "#[cfg(test)]"), (7, "#[x]"), (8, "mod tests {"), (9, "}")]);
    }

    #[test]
    fn a_word_is_no_part_of_another() {
        assert!(has_word("a+WORD;", "WORD") && has_word("WORD", "WORD"));
        assert!(!has_word("WORD_ALL FOREWORD", "WORD"));
    }
}

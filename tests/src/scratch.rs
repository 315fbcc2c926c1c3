//! Folders that go away with the test that made them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// A new empty folder under the system's temporary one; removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder; `name` is for a human who finds it.
    ///
    /// # Errors
    /// When the system's temporary folder cannot be written.
    pub fn new(name: &str) -> io::Result<Self> {
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("appproxy-{name}-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by an earlier process of the same id: take the next number.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(io::Error::new(e.kind(), format!("cannot make {}: {e}", path.display()))),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it and returns the file's path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is litter, not a failed test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_scratches_differ_and_vanish_with_what_is_in_them() {
        let (one, two) = (Scratch::new("same").unwrap(), Scratch::new("same").unwrap());
        assert_ne!(one.path(), two.path());
        let file = one.write("a.txt", "content").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "content");
        let folder = one.path().to_owned();
        drop(one);
        assert!(!folder.exists());
        assert!(two.path().is_dir());
    }
}

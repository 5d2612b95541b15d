//! The files of the repository, in memory, so that a rule can be tested on a tree that exists nowhere else.

use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a build or an installation makes; `.git` is a file in a linked work tree.
const NOT_OURS: [&str; 13] = [
    ".git",
    ".mypy_cache",
    ".pytest_cache",
    ".venv",
    ".work",
    "__pycache__",
    "artifacts",
    "corpus",
    "data",
    "dist",
    "node_modules",
    "proptest-regressions",
    "target",
];

/// Every file by its path from the root, with `/`; files that are not UTF-8 have an empty text.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                self.insert(&path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Adds one file, and the folders above it.
    pub(crate) fn insert(&mut self, path: &str, text: impl Into<String>) {
        for (end, _) in path.match_indices('/') {
            self.folders.insert(path[..end].to_owned());
        }
        self.files.insert(path.to_owned(), text.into());
    }

    /// How many files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or folder of that path exists; the root is the empty path.
    pub(super) fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.files.contains_key(path) || self.folders.contains(path)
    }
}

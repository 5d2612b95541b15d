//! The repository's own rules, checked: which room may use what, and how a file must look.
//!
//! In: the files of the repository ([`Tree`]). Out: every finding at once, as `path:line: what, expected …`.
//! One file a family of rules: `rooms.rs` reads manifests, `order.rs` who imports whom in the node, `sources.rs` reads
//! code, `documents.rs` reads Markdown, `versions.rs` compares versions.

mod documents;
mod masked;
mod order;
mod rooms;
mod sources;
#[cfg(test)]
mod tests;
mod tree;
mod versions;

use std::fmt;
use std::path::Path;

pub(crate) use tree::Tree;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    expected: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), expected: expected.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, expected {}", self.path, self.line, self.what, self.expected)
    }
}

/// All findings in a tree, sorted by path and line.
pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = rooms::findings(tree);
    findings.extend(order::findings(tree));
    findings.extend(sources::findings(tree));
    findings.extend(documents::findings(tree));
    findings.extend(versions::findings(tree));
    findings.sort();
    findings
}

/// Checks the repository at `root` and prints what it finds.
///
/// # Errors
/// A file cannot be read, or a rule is broken.
#[expect(clippy::print_stdout, reason = "the findings are this command's output")]
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing found", tree.len());
        return Ok(());
    }
    anyhow::bail!("tidy: {} findings in {} files", findings.len(), tree.len())
}

//! What is known of weaknesses in crates: `advisories.toml`, a snapshot of the RustSec advisories, so that a check needs no
//! download. A person renews it from a clone of <https://github.com/rustsec/advisory-db>.

use anyhow::Context as _;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Where the snapshot is.
const FILE: &str = "advisories.toml";

/// The snapshot.
#[derive(Deserialize)]
pub(crate) struct Advisories {
    /// The date of the database's last change.
    pub(crate) date: String,
    advisory: BTreeMap<String, Advisory>,
}

#[derive(Deserialize, Serialize)]
struct Advisory {
    #[serde(rename = "crate")]
    name: String,
    title: String,
    /// What it informs of, where that is no weakness by itself: `unmaintained`, `unsound`, `notice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    informs: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    patched: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unaffected: Vec<String>,
}

/// What concerns a crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// It may not come in.
    Refused(String),
    /// For a person to see to.
    Noted(String),
}

impl Advisories {
    /// Reads the snapshot.
    ///
    /// # Errors
    /// It is not there, or not what it must be.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).context(FILE)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.advisory.len()
    }

    /// What is known of a version of a crate, besides what is ignored.
    ///
    /// # Errors
    /// The version is none, or a range of the snapshot.
    pub(crate) fn of(&self, name: &str, version: &str, ignored: &[String]) -> anyhow::Result<Vec<Concern>> {
        let parsed: Version = version.parse().with_context(|| format!("{name} {version}"))?;
        let mut concerns = Vec::new();
        for (id, advisory) in
            self.advisory.iter().filter(|(id, advisory)| advisory.name == name && !ignored.contains(id))
        {
            if is_in(&parsed, &advisory.patched)? || is_in(&parsed, &advisory.unaffected)? {
                continue;
            }
            let words = format!("{name} {version}: {id}, {}", advisory.title);
            concerns.push(match advisory.informs.as_deref() {
                Some("unmaintained" | "notice") => Concern::Noted(words),
                Some(_) | None => Concern::Refused(words),
            });
        }
        Ok(concerns)
    }
}

fn is_in(version: &Version, ranges: &[String]) -> anyhow::Result<bool> {
    for range in ranges {
        let range: VersionReq = range.parse().with_context(|| format!("the range {range:?}"))?;
        if range.matches(version) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The head of an advisory in the database, as far as it is read.
#[derive(Deserialize)]
struct Entry {
    advisory: EntryHead,
    #[serde(default)]
    versions: EntryVersions,
}

#[derive(Deserialize)]
struct EntryHead {
    id: String,
    package: String,
    #[serde(default)]
    informational: Option<String>,
    #[serde(default)]
    withdrawn: Option<toml::Value>,
}

#[derive(Default, Deserialize)]
struct EntryVersions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// Renews the snapshot from a clone of the database.
///
/// # Errors
/// The clone cannot be read, or an advisory in it.
#[expect(clippy::print_stdout, reason = "what was done is this command's output")]
pub(crate) fn renew(root: &Path, clone: &Path) -> anyhow::Result<()> {
    let mut all = BTreeMap::new();
    for of_crate in folder(&clone.join("crates"))? {
        for file in folder(&of_crate)? {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            if let Some((id, advisory)) = advisory(&text).with_context(|| file.display().to_string())? {
                all.insert(id, advisory);
            }
        }
    }
    anyhow::ensure!(!all.is_empty(), "{} holds no advisories, expected a clone of advisory-db", clone.display());
    let (date, commit) = (git(clone, "%cs")?, git(clone, "%H")?);
    let mut text = format!(
        "# The RustSec advisories (https://github.com/rustsec/advisory-db, CC0 1.0 and CC BY 4.0), cut to what `cargo xtask deny`\n\
         # reads. Renewed by `cargo xtask advisories CLONE`.\n\ndate = \"{date}\"\ncommit = \"{commit}\"\n"
    );
    for (id, advisory) in &all {
        let body = toml::to_string(advisory).context("an advisory is written")?;
        write!(text, "\n[advisory.{id}]\n{body}")?;
    }
    std::fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))?;
    println!("{FILE}: {} advisories of {date}", all.len());
    Ok(())
}

fn folder(path: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn git(clone: &Path, format: &str) -> anyhow::Result<String> {
    let format = format!("--format={format}");
    let output = Command::new("git").arg("-C").arg(clone).args(["log", "-1", &format]).output().context("git")?;
    anyhow::ensure!(output.status.success(), "git log: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// An advisory of the database: TOML between fences, then Markdown that begins with its title. None of one that was withdrawn.
fn advisory(text: &str) -> anyhow::Result<Option<(String, Advisory)>> {
    let (head, rest) = text
        .strip_prefix("```toml\n")
        .and_then(|text| text.split_once("\n```"))
        .context("no advisory, expected TOML between ``` and ```")?;
    let Entry { advisory: head, versions } = toml::from_str(head)?;
    let title = rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("without a title").to_owned();
    let EntryVersions { patched, unaffected } = versions;
    let advisory = Advisory { name: head.package, title, informs: head.informational, patched, unaffected };
    Ok(head.withdrawn.is_none().then_some((head.id, advisory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2021-0124\"\npackage = \"tokio\"\ndate = \"2021-11-16\"\n\
                         [versions]\npatched = [\">= 1.8.4, < 1.9.0\", \">= 1.13.1\"]\nunaffected = [\"< 0.1.14\"]\n```\n\n\
                         # Data race\n\nText.\n";

    fn known(entry: &str) -> Advisories {
        let advisory = advisory(entry).expect("an advisory").into_iter().collect();
        Advisories { date: "2021-11-16".to_owned(), advisory }
    }

    fn check(version: &str, expect: Option<Concern>) {
        let found = known(ENTRY).of("tokio", version, &[]).expect("a version");
        assert_eq!(found.into_iter().next(), expect, "{version}");
    }

    #[test]
    fn versions_between_those_that_are_well_are_refused() {
        let refused = |version: &str| {
            let words = format!("tokio {version}: RUSTSEC-2021-0124, Data race");
            Some(Concern::Refused(words))
        };
        check("0.1.13", None);
        check("0.1.14", refused("0.1.14"));
        check("1.8.3", refused("1.8.3"));
        check("1.8.4", None);
        check("1.9.0", refused("1.9.0"));
        check("1.13.1", None);
        let known = known(ENTRY);
        assert_eq!(known.of("tokio", "1.8.3", &["RUSTSEC-2021-0124".to_owned()]).expect("a version"), []);
        assert_eq!(known.of("hyper", "1.8.3", &[]).expect("a version"), []);
        assert!(known.of("tokio", "x", &[]).is_err());
    }

    #[test]
    fn what_only_informs_is_noted_and_what_was_withdrawn_is_nothing() {
        let noted = ENTRY.replace("date =", "informational = \"unmaintained\"\ndate =");
        let words = "tokio 1.8.3: RUSTSEC-2021-0124, Data race".to_owned();
        assert_eq!(known(&noted).of("tokio", "1.8.3", &[]).expect("a version"), [Concern::Noted(words)]);
        let unsound = ENTRY.replace("date =", "informational = \"unsound\"\ndate =");
        assert!(matches!(known(&unsound).of("tokio", "1.8.3", &[]).expect("a version")[..], [Concern::Refused(_)]));
        let withdrawn = ENTRY.replace("date =", "withdrawn = \"2022-01-01\"\ndate =");
        assert_eq!(known(&withdrawn).len(), 0);
        assert!(advisory("no fence").is_err());
    }

    #[test]
    fn the_snapshot_is_read_and_written_alike() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("three folders up");
        let snapshot = Advisories::read(root).expect("the snapshot");
        assert!(snapshot.len() > 500, "{} of {}", snapshot.len(), snapshot.date);
        for (_, advisory) in snapshot.advisory.iter().take(50) {
            let text = toml::to_string(advisory).expect("TOML");
            assert_eq!(toml::from_str::<Advisory>(&text).expect("the same").name, advisory.name);
        }
    }
}

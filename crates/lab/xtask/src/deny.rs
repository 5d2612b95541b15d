//! What may come in from outside, read from `deny.toml` (the format of cargo-deny, of which this is the part that
//! needs no download): licences, banned crates, sources, known weaknesses, and how many crates come in more than
//! one version.

use crate::advisories::{Advisories, Concern};
use crate::metadata::{Metadata, Package};
use anyhow::Context as _;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
    #[serde(default)]
    advisories: Ignored,
}

/// Advisories that are known not to concern us.
#[derive(Default, Deserialize)]
struct Ignored {
    #[serde(default)]
    ignore: Vec<IgnoredAdvisory>,
}

#[derive(Deserialize)]
struct IgnoredAdvisory {
    id: String,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<LicenseException>,
}

/// More licences, for one crate.
#[derive(Deserialize)]
struct LicenseException {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// Checks every crate that the shipped targets pull in.
///
/// # Errors
/// Cargo cannot list the crates, or one of them may not come in.
#[expect(clippy::print_stdout, reason = "the findings are this command's output")]
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let policy = std::fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let policy: Policy = toml::from_str(&policy).context("deny.toml")?;
    let mut packages = BTreeSet::new();
    for target in &policy.graph.targets {
        packages.extend(packages_for(root, target)?);
    }
    let advisories = Advisories::read(root)?;
    let ignored: Vec<String> = policy.advisories.ignore.iter().map(|advisory| advisory.id.clone()).collect();
    let mut refused: Vec<String> = packages.iter().flat_map(|package| refusals(&policy, package)).collect();
    for package in &packages {
        for concern in advisories.of(&package.name, &package.version, &ignored)? {
            match concern {
                Concern::Refused(words) => refused.push(words),
                Concern::Noted(words) => println!("note: {words}"),
            }
        }
    }
    for line in &refused {
        println!("{line}");
    }
    for (name, versions) in duplicates(&packages) {
        println!("note: {name} comes in as {}", versions.join(", "));
    }
    anyhow::ensure!(refused.is_empty(), "deny: {} refused of {} crates", refused.len(), packages.len());
    let (count, date) = (advisories.len(), &advisories.date);
    println!("deny: {} crates, none refused; {count} advisories of {date}", packages.len());
    Ok(())
}

fn packages_for(root: &Path, target: &str) -> anyhow::Result<Vec<Package>> {
    let metadata = Metadata::read(root, target)?;
    let used: BTreeSet<String> = metadata.resolve.nodes.into_iter().map(|node| node.id).collect();
    Ok(metadata.packages.into_iter().filter(|package| used.contains(&package.id)).collect())
}

fn refusals(policy: &Policy, package: &Package) -> Vec<String> {
    let Package { name, version, license, source, .. } = package;
    let mut lines = Vec::new();
    if let Some(ban) = policy.bans.deny.iter().find(|ban| ban.name == *name) {
        lines.push(format!("{name} {version}: banned, {}", ban.reason));
    }
    let Some(source) = source else { return lines };
    if !policy.sources.allow_registry.iter().any(|allowed| source.ends_with(allowed.as_str())) {
        lines.push(format!("{name} {version}: from {source}, expected a registry that deny.toml allows"));
    }
    let license = license.as_deref().unwrap_or("none");
    let Licenses { allow, exceptions } = &policy.licenses;
    let excepted = exceptions.iter().any(|of| of.name == *name && satisfied(license, &of.allow));
    if !satisfied(license, allow) && !excepted {
        lines.push(format!("{name} {version}: licence {license}, expected one that deny.toml allows"));
    }
    lines
}

/// Whether the allowed licences satisfy an SPDX expression; `/` is the old way to write `OR`.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "+with+");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace("+with+", " WITH ")).collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let mut result = all(rest, allowed);
    while let [word, after @ ..] = *rest
        && word == "OR"
    {
        *rest = after;
        result |= all(rest, allowed);
    }
    result
}

fn all(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let mut result = one(rest, allowed);
    while let [word, after @ ..] = *rest
        && word == "AND"
    {
        *rest = after;
        result &= one(rest, allowed);
    }
    result
}

fn one(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let [word, after @ ..] = *rest else { return false };
    *rest = after;
    if word != "(" {
        return allowed.contains(word);
    }
    let result = any(rest, allowed);
    let [close, after @ ..] = *rest else { return false };
    *rest = after;
    result && close == ")"
}

/// Crates that come in more than one version.
fn duplicates(packages: &BTreeSet<Package>) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expect: bool) {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        assert_eq!(satisfied(expression, &allowed.map(str::to_owned).into()), expect, "{expression}");
    }

    #[test]
    fn licence_expressions_are_read() {
        check("MIT", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0 OR MIT", true);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true);
        check("GPL-3.0", false);
        check("MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0", false);
        check("GPL-2.0 WITH LLVM-exception", false);
        check("none", false);
        check("", false);
    }

    fn policy() -> Policy {
        let text = "graph.targets = []\nlicenses.allow = [\"MIT\"]\n\
                    licenses.exceptions = [{ crate = \"b\", allow = [\"MPL-2.0\"] }]\nsources.allow-registry = [\"reg/index\"]\n\
                    bans.deny = [{ crate = \"openssl\", reason = \"use rustls\" }]";
        toml::from_str(text).expect("the policy is TOML")
    }

    #[test]
    fn crates_are_refused_with_the_reason() {
        let package = |name: &str, license: &str, source: &str| Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: Some(license.into()),
            source: Some(source.into()),
            ..Package::default()
        };
        assert_eq!(refusals(&policy(), &package("a", "MIT", "registry+reg/index")), Vec::<String>::new());
        assert_eq!(refusals(&policy(), &package("b", "MPL-2.0", "registry+reg/index")), Vec::<String>::new());
        assert_eq!(
            refusals(&policy(), &package("a", "MPL-2.0", "registry+reg/index")),
            ["a 1.0.0: licence MPL-2.0, expected one that deny.toml allows"]
        );
        assert_eq!(
            refusals(&policy(), &package("openssl", "GPL-3.0", "git+elsewhere")),
            [
                "openssl 1.0.0: banned, use rustls",
                "openssl 1.0.0: from git+elsewhere, expected a registry that deny.toml allows",
                "openssl 1.0.0: licence GPL-3.0, expected one that deny.toml allows",
            ]
        );
    }
}

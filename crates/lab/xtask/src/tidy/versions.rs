//! The version of the workspace is one fact: packages beside the workspace have it, documents show it, and the page about upgrades
//! begins with its release.

use super::{Finding, Tree};
use toml::{Table, Value};

/// Manifests of packages that are released with the workspace.
const MANIFESTS: [&str; 3] = ["console/package.json", "sdk/python/pyproject.toml", "sdk/typescript/package.json"];
/// What the lines with their versions begin with.
const VERSION_KEYS: [&str; 2] = ["version = \"", "\"version\": \""];
/// The page about upgrades, newest release first.
const UPGRADE: &str = "docs/upgrade.md";
const RELEASE: &str = "## To ";

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let root: Table = tree.get("Cargo.toml").and_then(|text| text.parse().ok()).unwrap_or_default();
    let package = root.get("workspace").and_then(|workspace| workspace.get("package"));
    let Some(version) = package.and_then(|package| package.get("version")).and_then(Value::as_str) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut expect = |path: &str, (line, found): (usize, &str), expected: &str| {
        if found != expected {
            let what = format!("version {found:?}");
            findings.push(Finding::new(path, line, what, format!("{expected}, that of Cargo.toml")));
        }
    };
    for (path, text) in MANIFESTS.iter().filter_map(|path| Some((path, tree.get(path)?))) {
        expect(path, of_manifest(text).unwrap_or((1, "")), version);
    }
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md") && *path != UPGRADE) {
        shown(text).for_each(|shown| expect(path, shown, version));
    }
    if let Some(text) = tree.get(UPGRADE) {
        let release = version.rsplit_once('.').map_or(version, |(release, _)| release);
        let first = text.lines().zip(1..).find_map(|(line, number)| Some((number, line.strip_prefix(RELEASE)?)));
        expect(UPGRADE, first.unwrap_or((1, "")), release);
    }
    findings
}

/// The version in a manifest, with its line.
fn of_manifest(text: &str) -> Option<(usize, &str)> {
    text.lines().zip(1..).find_map(|(line, number)| {
        let rest = VERSION_KEYS.iter().find_map(|key| line.trim_start().strip_prefix(key))?;
        Some((number, rest.split('"').next()?))
    })
}

/// The versions of three numbers that follow the name of the program in a document, with their lines.
fn shown(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).flat_map(|(line, number)| {
        line.match_indices("tieline").filter_map(move |(at, name)| {
            let rest = line.get(at + name.len()..)?.strip_prefix([' ', '-', '_', ':'])?;
            let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
            let version = rest.get(..end)?.trim_end_matches('.');
            (version.split('.').count() == 3).then_some((number, version))
        })
    })
}

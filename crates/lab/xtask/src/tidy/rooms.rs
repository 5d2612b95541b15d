//! Who may depend on whom.
//!
//! | room | sees of ours | sees of others |
//! |---|---|---|
//! | core | nothing | [`PURE`] |
//! | wire, engine, io | core | wire, engine: [`PURE`]; io: anything |
//! | node | all but lab; the binary also the benchmarks | anything |
//! | lab | all | anything |

use super::{Finding, Tree};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Crates that work without std, clock, socket, thread and random source: all that `core`, `wire` and `engine` may use.
pub(super) const PURE: [&str; 21] = [
    "aes",
    "aes-kw",
    "bytes",
    "crc32fast",
    "ghash",
    "hashbrown",
    "hmac",
    "httparse",
    "libm",
    "memchr",
    "miniz_oxide",
    "regex-automata",
    "serde",
    "serde_json",
    "sha1",
    "sha2",
    "slab",
    "subtle",
    "twox-hash",
    "zeroize",
    "zstd-safe",
];

/// Crates with an executor, a socket or a file inside: not even for the tests of `core`, `wire` and `engine`.
const WORLDLY: [&str; 12] =
    ["async-std", "axum", "hyper", "mio", "nix", "rand", "reqwest", "rusqlite", "smol", "socket2", "tokio", "ureq"];

/// The crates whose errors end at a person, so that the type of an error no longer matters.
const ANYHOW: [&str; 3] = ["tieline", "tieline-bench", "xtask"];

/// The benchmarks are part of the binary: `tieline bench`.
const NODE_SEES_LAB: (&str, &str) = ("tieline", "tieline-bench");

struct Crate<'a> {
    path: &'a str,
    text: &'a str,
    name: String,
    room: String,
    manifest: Table,
}

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut crates = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.starts_with("crates/") && path.ends_with("/Cargo.toml")) {
        match read(path, text) {
            Ok(found) => crates.push(found),
            Err(finding) => findings.push(finding),
        }
    }
    let rooms: BTreeMap<&str, &str> = crates.iter().map(|c| (c.name.as_str(), c.room.as_str())).collect();
    let renames = workspace_renames(tree);
    for of in &crates {
        if !["core", "wire", "engine", "io", "node", "lab"].contains(&of.room.as_str()) {
            let what = format!("a crate in the room \"{}\"", of.room);
            findings.push(Finding::new(of.path, 1, what, "core, wire, engine, io, node or lab"));
        }
        for (key, name, dev) in dependencies(&of.manifest, &renames) {
            if let Some((what, expected)) = refusal(of, &name, dev, rooms.get(name.as_str()).copied()) {
                findings.push(Finding::new(of.path, line_of_key(of.text, &key), what, expected));
            }
        }
    }
    findings
}

fn read<'a>(path: &'a str, text: &'a str) -> Result<Crate<'a>, Finding> {
    let manifest: Table =
        text.parse().map_err(|e: toml::de::Error| Finding::new(path, 1, e.message(), "a manifest in TOML"))?;
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str);
    let name = name.ok_or_else(|| Finding::new(path, 1, "no package name", "[package] with a name"))?.to_owned();
    let room = path.split('/').nth(1).unwrap_or_default().to_owned();
    Ok(Crate { path, text, name, room, manifest })
}

/// The real names of workspace dependencies that go by another key.
fn workspace_renames(tree: &Tree) -> BTreeMap<String, String> {
    let root: Table = tree.get("Cargo.toml").and_then(|text| text.parse().ok()).unwrap_or_default();
    let shared = root.get("workspace").and_then(|w| w.get("dependencies")).and_then(Value::as_table);
    let renamed = |(key, value): (&String, &Value)| Some((key.clone(), value.get("package")?.as_str()?.to_owned()));
    shared.into_iter().flatten().filter_map(renamed).collect()
}

/// Every dependency as (key, real name, only for tests), those of single targets too.
fn dependencies(manifest: &Table, renames: &BTreeMap<String, String>) -> Vec<(String, String, bool)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flatten().filter_map(|(_, target)| target.as_table());
    let mut found = Vec::new();
    for table in tables.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (key, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let own = value.get("package").and_then(Value::as_str);
                let name = own.map(str::to_owned).or_else(|| renames.get(key).cloned()).unwrap_or_else(|| key.clone());
                found.push((key.clone(), name, kind == "dev-dependencies"));
            }
        }
    }
    found
}

/// Why `of` may not depend on `name`, and what it may depend on.
fn refusal(of: &Crate<'_>, name: &str, dev: bool, room: Option<&str>) -> Option<(String, String)> {
    let pure = ["core", "wire", "engine"].contains(&of.room.as_str());
    if let Some(room) = room {
        let sees: &[&str] = match of.room.as_str() {
            "core" => &[],
            "wire" | "engine" | "io" => &["core"],
            "node" if NODE_SEES_LAB == (of.name.as_str(), name) => &["lab"],
            "node" => &["core", "wire", "engine", "io", "node"],
            _ => &["core", "wire", "engine", "io", "node", "lab"],
        };
        let what = || format!("{} of {room} inside {} of {}", name, of.name, of.room);
        let expected = || match sees {
            [] => "nothing of ours".to_owned(),
            [..] => format!("only {}", sees.join(", ")),
        };
        return (!sees.contains(&room)).then(|| (what(), expected()));
    }
    if pure && WORLDLY.contains(&name) {
        let expected = "no clock, socket, thread, file or random source in core, wire and engine";
        return Some((format!("{name} in {} of {}", of.name, of.room), expected.to_owned()));
    }
    if pure && !dev && !PURE.contains(&name) {
        let expected = format!("one of {} (a crate without std joins that list in rooms.rs)", PURE.join(", "));
        return Some((format!("{name} in {} of {}", of.name, of.room), expected));
    }
    if name == "anyhow" && !ANYHOW.contains(&of.name.as_str()) {
        return Some((
            format!("anyhow in {}", of.name),
            "an error enum by blame; anyhow only in the commands".to_owned(),
        ));
    }
    None
}

/// The line of a manifest that names `key` as a dependency.
fn line_of_key(text: &str, key: &str) -> usize {
    let names = |line: &str| {
        let line = line.trim_start().trim_start_matches('"');
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"']))
            || line.trim_end().ends_with(&format!("dependencies.{key}]"))
    };
    let mut in_dependencies = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('[') {
            in_dependencies = line.contains("dependencies");
        }
        if in_dependencies && names(line) {
            return number + 1;
        }
    }
    1
}

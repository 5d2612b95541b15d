//! The list of components of the binary (SBOM) as CycloneDX 1.5, from `cargo metadata` and the checksums of Cargo.lock.
//!
//! Only what is linked: normal dependencies of `tieline` on this target; no tools of the build, nothing of tests. No random serial
//! number, and the time is that of the commit: the same commit gives the same bytes.

use crate::metadata::{Metadata, Node, Package, Resolve, output};
use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The package whose binary is shipped.
const ROOT: &str = "tieline";

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Writes the list to a file.
///
/// # Errors
/// Cargo cannot list the crates, or the file cannot be written.
#[expect(clippy::print_stdout, reason = "how many there are is this command's output")]
pub(crate) fn run(root: &Path, file: &Path) -> anyhow::Result<()> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let text =
        bom(&Metadata::read(root, &target)?, &std::fs::read_to_string(root.join("Cargo.lock"))?, &time_of(root)?)?;
    let count = text["components"].as_array().map_or(0, Vec::len);
    let written = serde_json::to_string_pretty(&text)? + "\n";
    std::fs::write(file, written).with_context(|| format!("{} cannot be written", file.display()))?;
    println!("sbom: {count} components of {ROOT} in {}", file.display());
    Ok(())
}

/// The time of the commit, or `SOURCE_DATE_EPOCH` where there is no repository, as RFC 3339.
fn time_of(root: &Path) -> anyhow::Result<String> {
    let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => epoch,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?,
    };
    let at = format!("@{}", epoch.trim());
    let text = output(Command::new("date").args(["-u", "-d", at.as_str(), "+%Y-%m-%dT%H:%M:%SZ"]))?;
    Ok(text.trim().to_owned())
}

/// The document of what [`ROOT`] is linked with.
fn bom(metadata: &Metadata, lock: &str, time: &str) -> anyhow::Result<Value> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock")?;
    let checksums: BTreeMap<(&str, &str), &str> = lock
        .package
        .iter()
        .filter_map(|one| Some(((one.name.as_str(), one.version.as_str()), one.checksum.as_deref()?)))
        .collect();
    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|one| (one.id.as_str(), one)).collect();
    let root = metadata.packages.iter().find(|one| one.name == ROOT && one.source.is_none());
    let root = root.with_context(|| format!("the workspace has no package {ROOT}"))?;
    let edges = linked(&metadata.resolve, &root.id);
    let mut components: Vec<&Package> =
        edges.keys().filter(|id| **id != root.id).filter_map(|id| packages.get(id).copied()).collect();
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let reference = |id: &&str| packages.get(id).map(|package| purl(package));
    let mut dependencies: Vec<(String, BTreeSet<String>)> =
        edges.iter().filter_map(|(id, on)| Some((reference(id)?, on.iter().filter_map(reference).collect()))).collect();
    dependencies.sort();
    let described = |package: &Package| component(package, checksums.get(&(package.name.as_str(), &package.version)));
    let mut product = described(root);
    product["type"] = json!("application");
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": time, "component": product },
        "components": components.into_iter().map(described).collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(|(of, on)| json!({ "ref": of, "dependsOn": on })).collect::<Vec<_>>(),
    }))
}

/// The packages that normal dependencies lead to from a root, each with those it names itself.
fn linked<'a>(resolve: &'a Resolve, root: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let (mut found, mut next) = (BTreeMap::new(), vec![root]);
    while let Some(id) = next.pop() {
        let Some(node) = nodes.get(id).filter(|_| !found.contains_key(id)) else { continue };
        let on: Vec<&str> = node.deps.iter().filter(|on| on.is_normal()).map(|on| on.pkg.as_str()).collect();
        next.extend(&on);
        found.insert(id, on);
    }
    found
}

fn component(package: &Package, checksum: Option<&&str>) -> Value {
    let reference = purl(package);
    let mut one = json!({
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
    });
    if let Some(words) = &package.description {
        one["description"] = json!(words.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(license) = &package.license {
        // `/` is the old way to write `OR`.
        one["licenses"] = json!([{ "expression": license.replace('/', " OR ").replace("  ", " ") }]);
    }
    if let Some(checksum) = checksum {
        one["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(url) = &package.repository {
        one["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
    one
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "packages": [
            {"name": "tieline", "version": "0.1.0", "id": "t", "license": "Apache-2.0", "description": null, "repository": null, "source": null},
            {"name": "linked", "version": "1.0.0+9", "id": "l", "license": "MIT/Apache-2.0", "description": "of two\nlines", "repository": "https://host/linked", "source": "registry+x"},
            {"name": "below", "version": "2.0.0", "id": "b", "license": null, "description": null, "repository": null, "source": "registry+x"},
            {"name": "tool", "version": "3.0.0", "id": "o", "license": "MIT", "description": null, "repository": null, "source": "registry+x"},
            {"name": "checked", "version": "4.0.0", "id": "c", "license": "MIT", "description": null, "repository": null, "source": "registry+x"}
        ],
        "resolve": {"nodes": [
            {"id": "t", "deps": [
                {"pkg": "l", "dep_kinds": [{"kind": null}, {"kind": "dev"}]},
                {"pkg": "o", "dep_kinds": [{"kind": "build"}]},
                {"pkg": "c", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "l", "deps": [{"pkg": "b", "dep_kinds": [{"kind": null}]}]},
            {"id": "b", "deps": [{"pkg": "l", "dep_kinds": [{"kind": null}]}]},
            {"id": "o", "deps": []},
            {"id": "c", "deps": []}
        ]}
    }"#;
    const LOCK: &str = "[[package]]\nname = 'linked'\nversion = '1.0.0+9'\nchecksum = 'abc'\n";

    #[test]
    fn what_is_linked_is_listed_and_nothing_of_build_and_tests() {
        let bom = bom(&Metadata::parse(METADATA).unwrap(), LOCK, "2026-11-28T00:00:00Z").unwrap();
        let names: Vec<&str> =
            bom["components"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["below", "linked"]);
        assert_eq!(bom["metadata"]["component"]["name"], "tieline");
        assert_eq!(
            bom["components"][1],
            json!({
                "type": "library", "bom-ref": "pkg:cargo/linked@1.0.0%2B9", "purl": "pkg:cargo/linked@1.0.0%2B9",
                "name": "linked", "version": "1.0.0+9", "description": "of two lines",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": "abc" }],
                "externalReferences": [{ "type": "vcs", "url": "https://host/linked" }],
            })
        );
        assert_eq!(
            bom["dependencies"][2],
            json!({ "ref": "pkg:cargo/tieline@0.1.0", "dependsOn": ["pkg:cargo/linked@1.0.0%2B9"] })
        );
    }

    #[test]
    fn a_workspace_without_the_product_is_refused() {
        let empty = Metadata::parse(r#"{"packages": [], "resolve": {"nodes": []}}"#).unwrap();
        let error = bom(&empty, "package = []", "").unwrap_err();
        assert_eq!(error.to_string(), "the workspace has no package tieline");
    }
}

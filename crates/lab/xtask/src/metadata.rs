//! What `cargo metadata` says about the packages of a build.

use anyhow::Context as _;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) resolve: Resolve,
}

#[derive(Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    /// None for a package of the workspace.
    pub(crate) source: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None for a normal dependency, else "dev" or "build".
    kind: Option<String>,
}

impl Metadata {
    /// Of the workspace, for a target such as `x86_64-unknown-linux-gnu`.
    pub(crate) fn read(root: &Path, target: &str) -> anyhow::Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
        Self::parse(&output(Command::new(cargo).args(arguments).current_dir(root))?)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        serde_json::from_str(text).context("cargo metadata")
    }
}

impl Dependency {
    /// It is linked; not only a tool of the build or of tests.
    pub(crate) fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

/// What a command writes.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("cannot run {name}"))?;
    anyhow::ensure!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8(done.stdout)?)
}

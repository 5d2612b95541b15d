//! `cargo xtask counts`: the instructions of hot paths, compared with those committed.
//!
//! A time says little on a machine that does something else beside; a count of instructions is the same on every run. Callgrind
//! counts what `crates/lab/counts` does inside its one counted section. A change that makes a path do more is seen in the commit
//! that makes it, however little it is, and many of them cannot add up unseen.
//!
//! In: the program `tieline-counts`, `counts.toml`. Out: a table, and in `target/counts` what callgrind wrote of each path.
//!
//! Read first: `compare.rs`.

mod compare;
#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail, ensure};
use compare::{Committed, FILE, compare, report};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package and its program.
const PROGRAM: &str = "tieline-counts";
/// What is counted: a function of that program.
const SECTION: &str = "*counted_section*";
/// How our crates are built: as they are released, but for LTO. Those of others stay as the tests have built them.
const PROFILE: [&str; 4] = ["opt-level=3", "debug-assertions=false", "overflow-checks=false", "codegen-units=16"];

/// A path of the program.
struct HotPath {
    name: String,
    times: u64,
    what: String,
}

/// Counts all paths and compares them, or writes what was counted to be committed.
///
/// # Errors
/// There is no valgrind, the program is not built or fails, or a count differs.
#[expect(clippy::print_stdout, reason = "a command prints what it found")]
pub(crate) fn run(root: &Path, accept: bool) -> anyhow::Result<()> {
    if let Some(why) = unfit() {
        println!("SKIPPED the counts of instructions: {why}");
        return Ok(());
    }
    let file = root.join(FILE);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let committed = match Committed::parse(&text) {
        Err(_) if accept => Committed::default(),
        parsed => parsed?,
    };
    let made_with = made_with(root)?;
    let program = build(root)?;
    let folder = program.ancestors().nth(2).context("a program lies in a folder of target")?.join("counts");
    std::fs::create_dir_all(&folder)?;
    let paths = list(&program)?;
    let mut counted = Vec::new();
    for path in &paths {
        counted.push((path.name.clone(), count(&program, &folder, path)?));
    }
    let rows = compare(&committed, &counted);
    let (table, result) = report(&rows);
    print!("{table}");
    if accept {
        let what = paths.iter().map(|path| path.what.as_str());
        std::fs::write(&file, Committed::text(&made_with, counted.iter().zip(what)))?;
        println!("written to {FILE}: commit it, and say in the commit why the counts have changed");
        return Ok(());
    }
    if result.is_err() && committed.made_with != made_with {
        println!("The committed counts were made with {}; here are {made_with}:", committed.made_with);
        println!("that alone may be the difference.");
    }
    println!("{}", result.map_err(|why| anyhow::anyhow!("{why}"))?);
    Ok(())
}

/// Why this machine's counts cannot be compared with those of others.
fn unfit() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let why = (!std::is_x86_feature_detected!("avx2")).then_some("they are of processors with AVX2");
    #[cfg(not(target_arch = "x86_64"))]
    let why = Some("they are of x86-64");
    why
}

/// What moves counts beside our own code.
fn made_with(root: &Path) -> anyhow::Result<String> {
    let first = |program: &str, words: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(program).current_dir(root).args(words).output();
        let output = output.with_context(|| format!("{program} does not run"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let valgrind = first("valgrind", &["--version"]);
    let valgrind =
        valgrind.context("counting needs valgrind (Debian: apt-get install valgrind); make test installs it")?;
    let libc = first("getconf", &["GNU_LIBC_VERSION"])?;
    let rustc = first("rustc", &["--version"])?;
    let rustc = rustc.split(" (").next().unwrap_or_default();
    Ok(format!("{rustc}, {libc}, {valgrind}"))
}

/// Builds the program and returns where it is. The whole workspace is named so that crates of others have the features, and
/// are the files, that `make test` has built before.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--quiet", "--workspace", "--locked", "--bin", PROGRAM]).env("CARGO_INCREMENTAL", "0");
    command.arg("--message-format=json-render-diagnostics");
    for package in packages(root)? {
        for setting in PROFILE {
            command.arg("--config").arg(format!("profile.dev.package.{package}.{setting}"));
        }
    }
    let output = command.stderr(Stdio::inherit()).output().context("cargo does not run")?;
    ensure!(output.status.success(), "{PROGRAM} is not built");
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message.get("target")?.get("name")? == PROGRAM)
            .then(|| message.get("executable")?.as_str().map(PathBuf::from))?
    });
    executable.context("cargo does not say where the program is")
}

/// The names of our crates.
fn packages(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = cargo(root).args(["metadata", "--no-deps", "--locked", "--format-version=1"]).output();
    let output = output.context("cargo does not run")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo's metadata are not JSON")?;
    let packages = metadata.get("packages").and_then(serde_json::Value::as_array).context("cargo names no packages")?;
    Ok(packages.iter().filter_map(|package| package.get("name")?.as_str().map(str::to_owned)).collect())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn list(program: &Path) -> anyhow::Result<Vec<HotPath>> {
    let output = Command::new(program).arg("--list").output().context("the program does not run")?;
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| HotPath::parse(line).with_context(|| format!("not a path: {line:?}"))).collect()
}

impl HotPath {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let (name, times, what) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { name, times: times.parse().ok().filter(|times| *times > 0)?, what })
    }
}

/// Instructions of one operation.
fn count(program: &Path, folder: &Path, path: &HotPath) -> anyhow::Result<u64> {
    let file = folder.join(format!("{}.out", path.name));
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&file);
    let mut command = Command::new("valgrind");
    // What the shell has set is no business of the program.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.args(["--tool=callgrind", "--collect-atstart=no"]).arg(format!("--toggle-collect={SECTION}"));
    let output = command.arg(out).arg(program).arg(&path.name).output().context("valgrind does not run")?;
    if !output.status.success() {
        bail!("{} fails under valgrind:\n{}", path.name, String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("valgrind did not write {}", file.display()))?;
    let total = compare::total(&text).with_context(|| path.name.clone())?;
    Ok((total + path.times / 2) / path.times)
}

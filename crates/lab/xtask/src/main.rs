//! Checks and generators of this repository: `cargo xtask tidy`, `deny`, `gen [--check]`.
//!
//! In: the files of the repository. Out: findings on standard output, generated files in place.
//!
//! Never: part of what is shipped; never a download.
//!
//! Read first: `tidy/rooms.rs`, which decides who may depend on whom.

mod deny;
mod objects;
mod tidy;

use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | deny | gen [--check]
  tidy   rooms, file length, names, tests, links
  deny   licences, banned crates and sources of dependencies (deny.toml)
  gen    writes the generated files; --check says whether they are up to date";

#[expect(clippy::print_stderr, reason = "a command says why it failed")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).context("the crate lies three folders down")?;
    match words {
        ["tidy"] => tidy::run(root),
        ["deny"] => deny::run(root),
        ["gen"] => objects::objects(false),
        ["gen", "--check"] => objects::objects(true),
        _ => anyhow::bail!("{USAGE}"),
    }
}

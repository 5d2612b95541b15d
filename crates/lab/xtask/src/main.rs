//! Checks and generators of this repository: `cargo xtask tidy`, `deny`, `advisories`, `gen [--check]`, `sim`,
//! `fuzz`, `counts`, `sbom`.
//!
//! In: the files of the repository. Out: findings on standard output, generated files in place.
//!
//! Never: part of what is shipped; never a download.
//!
//! Read first: `tidy/rooms.rs`, which decides who may depend on whom.

mod advisories;
mod artifact;
mod counts;
mod deny;
mod figures;
mod fuzz;
mod metadata;
mod objects;
mod sbom;
mod settings;
mod sim;
mod tidy;

use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy | deny | advisories CLONE | gen [--check] | sim [bus|edges] --seed N | sim [bus|edges] --seeds N
       | fuzz TARGET [--inputs N] [--seed N] [--seeds FOLDER] [--input N] | counts [--accept] | sbom FILE
  tidy   rooms, file length, names, tests, links, versions
  deny   licences, banned crates, sources and known weaknesses of dependencies (deny.toml, advisories.toml)
  advisories  renews advisories.toml from a clone of https://github.com/rustsec/advisory-db
  gen    writes the generated files; --check says whether they are up to date
  sim    runs one seed of the simulation and tells what happened, or that many seeds; of DNP3, of a bus and its clients, or of edges
  fuzz   gives changed seeds to the fuzz targets whose names begin so, or to all, a million each or --inputs; --seeds names a
         folder with the corpus of a fuzzer, one folder a target; --input runs one input alone
  counts compares the instructions of hot paths with crates/lab/counts/counts.toml; --accept writes them there
  sbom   writes the list of components that the binary is linked with, as CycloneDX";

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
        ["advisories", clone] => advisories::renew(root, Path::new(clone)),
        ["gen"] => generate(root, false),
        ["gen", "--check"] => generate(root, true),
        ["sim", "--seed", seed] => sim::one(seed.parse().context("a seed is a number")?),
        ["sim", "bus", rest @ ..] => sim::bus(root, rest),
        ["sim", "edges", rest @ ..] => sim::bus(root, &[&["edges"], rest].concat()),
        ["sim", "--seeds", seeds] => sim::many(seeds.parse().context("how many is a number")?),
        ["fuzz", target, rest @ ..] => fuzz::run(root, target, rest),
        ["counts"] => counts::run(root, false),
        ["counts", "--accept"] => counts::run(root, true),
        ["sbom", file] => sbom::run(root, Path::new(file)),
        _ => anyhow::bail!("{USAGE}"),
    }
}

fn generate(root: &Path, check: bool) -> anyhow::Result<()> {
    objects::objects(check)?;
    settings::settings(root, check)?;
    figures::figures(root, check)
}

//! `cargo xtask sim`: runs of the simulation, to look at one or to search far.

use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::Command;

/// Tells one run, line by line.
#[expect(clippy::print_stdout, reason = "a command prints what it found")]
pub(crate) fn one(seed: u64) -> anyhow::Result<()> {
    let (trace, result) = tieline_sim::replay(seed);
    print!("{trace}");
    match result {
        Ok(summary) => println!("seed {seed} is well: {summary:?}"),
        Err(why) => bail!("seed {seed}: {why}"),
    }
    Ok(())
}

/// Runs the seeds from 0 on.
#[expect(clippy::print_stdout, reason = "a command prints what it found")]
pub(crate) fn many(seeds: u64) -> anyhow::Result<()> {
    match tieline_sim::run_all(0..seeds) {
        Ok(total) => println!("{seeds} seeds are well, together {total:?}"),
        Err((seed, why)) => bail!("seed {seed}: {why}; see it with: cargo xtask sim --seed {seed}"),
    }
    Ok(())
}

/// The same of a bus and its clients, which is a program of its own: it holds a whole node.
pub(crate) fn bus(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "--package", "tieline-bus-sim", "--"]).args(words);
    let status = command.status().context("cargo does not run")?;
    if status.success() { Ok(()) } else { bail!("the run failed") }
}

//! `cargo xtask sim`: runs of the simulation, to look at one or to search far.

use anyhow::bail;

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

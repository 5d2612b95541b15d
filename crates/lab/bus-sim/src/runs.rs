//! What the simulations have in common: virtual time, and many seeds one after the other.

use std::ops::Range;

/// Runs tasks of one thread in virtual time, until `run` has ended.
///
/// # Errors
/// As of `run`, or no runtime can be had.
pub fn in_virtual_time<T>(run: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.map_err(|error| error.to_string())?, run)
}

/// Runs many seeds, and returns what all of them together were, or the first that fails and why.
///
/// # Errors
/// The seed, and what was wrong.
pub fn run_seeds<S: Default>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<S, String>,
    add: impl Fn(&mut S, S),
) -> Result<S, (u64, String)> {
    let mut total = S::default();
    for seed in seeds {
        add(&mut total, run(seed).map_err(|why| (seed, why))?);
    }
    Ok(total)
}

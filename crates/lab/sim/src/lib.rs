//! Simulation of DNP3: masters and outstations in virtual time, over networks that delay, split, lose, duplicate and
//! damage data, compared with a model.
//!
//! In: a seed, or the bytes of a fuzzer. Out: a summary, or the first error and the steps that led to it.
//!
//! ```text
//! Choices ─ Plan ─ World ─┬─ Driven<Master> ═ Pipe ═ Driven<Outstation>     as io/net drives them
//!                         └─ Model: owns both, knows all, decides
//! ```
//!
//! These invariants are checked in every run:
//!
//! - An event is reported until it is stored and confirmed, in the order of its class, and never after its confirm. It
//!   is lost only by a restart of the device or by an overflow that IIN2.3 reports.
//! - The last value of each point at the owner is that of the device.
//! - A command is executed at most once, and its result is true: success means executed, and a failure without
//!   [`maybe_operated`](tieline_dnp3::master::TaskOutcome::maybe_operated) means not executed.
//! - After the last fault all devices are online, read, reported and answered within a bounded time.
//! - Queues of events, messages and deadlines stay within their limits and in proportion to the input.
//!
//! The fuzz targets are here as well ([`targets`]).
//!
//! Never: a clock, a socket, a random number that does not come from the seed.
//!
//! Read first: `plan.rs` (possible steps), `model.rs` (the invariants), `world.rs`.

mod choices;
mod driven;
#[cfg(test)]
mod flood;
mod model;
mod mutate;
mod pipe;
mod plan;
mod secured;
pub mod targets;
mod world;

pub use choices::Choices;
pub use driven::{Closed, Driven, Owner};
pub use model::{Model, Outputs};
pub use mutate::Mutator;
pub use pipe::{Carriage, Pipe};
pub use plan::{Act, Plan};
pub use secured::SecurityPlan;
pub use world::{Summary, World};

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs one seed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64) -> Result<Summary, String> {
    World::new(Choices::seeded(seed), false).run()
}

/// Runs one seed again and tells what happened, line by line, and how it ended.
pub fn replay(seed: u64) -> (String, Result<Summary, String>) {
    let mut world = World::new(Choices::seeded(seed), true);
    let result = world.run();
    (world.trace().to_owned(), result)
}

/// Runs many seeds on all cores, and returns what all of them together were, or the lowest seed that fails and why.
///
/// # Errors
/// The seed, and what was wrong.
pub fn run_all(seeds: Range<u64>) -> Result<Summary, (u64, String)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, total, failed) = (AtomicU64::new(seeds.start), Mutex::new(Summary::default()), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let failed = || failed.lock().expect("no run panics while it is held");
                    if seed >= seeds.end || failed().is_some() {
                        return;
                    }
                    match std::panic::catch_unwind(|| run(seed)) {
                        Ok(Ok(summary)) => add(&mut total.lock().expect("likewise"), summary),
                        Ok(Err(why)) => lowest(&mut failed(), seed, why),
                        Err(_) => lowest(&mut failed(), seed, "a panic".into()),
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("likewise") {
        Some(failure) => Err(failure),
        None => Ok(total.into_inner().expect("likewise")),
    }
}

fn lowest(failed: &mut Option<(u64, String)>, seed: u64, why: String) {
    if failed.as_ref().is_none_or(|(known, _)| seed < *known) {
        *failed = Some((seed, why));
    }
}

fn add(total: &mut Summary, summary: Summary) {
    total.time += summary.time;
    total.steps += summary.steps;
    total.messages += summary.messages;
    total.connections += summary.connections;
    total.updates += summary.updates;
    total.given += summary.given;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of every test; a failing one is told by `cargo xtask sim --seed N`.
    const SEEDS: Range<u64> = 0..10_000;

    #[test]
    fn every_seed_keeps_what_is_promised() {
        match run_all(SEEDS) {
            Ok(total) => println!("{} seeds: {total:?}", SEEDS.end),
            Err((seed, why)) => panic!("seed {seed}: {why}\nsee it with: cargo xtask sim --seed {seed}"),
        }
    }

    #[test]
    fn a_seed_is_the_same_run_again() {
        for seed in 0..20 {
            assert_eq!(replay(seed), replay(seed));
            assert_eq!(replay(seed).1, run(seed));
        }
    }
}

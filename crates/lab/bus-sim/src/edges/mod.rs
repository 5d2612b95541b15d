//! Simulation of edges: a core, edges of it and of each other, their clients, and links that fail.
//!
//! ```text
//! Writer ═╗                          ╔═ Link ═ Reader, of each kind
//!         core ═ Link ═ edge 0 ══════╬═ Writer
//! Witness ╝      ║                   ╚═ Link ═ edge 2, in some runs
//!                ╚ Link ═ edge 1 ═══ …
//! ```
//!
//! Nodes are production code, each with tasks and a wall clock of its own: the bus, the broker, the mirror of an edge and its session
//! with deltas at the upstream. What fails: links are held, cut, cut so that nobody learns of it, or cut for a time in which no new
//! connection comes about; edges are killed and start again with nothing; wall clocks jump by up to a month. Links have delays of
//! their own, so what goes over two of them changes its order.
//!
//! These invariants are checked in every run:
//!
//! - After the last fault, every subscriber of every node has the newest value of each topic, and no topic that was removed.
//! - The values of a topic never go back while a subscriber is connected, and none is a value that nobody published.
//! - While an edge has no link, its measurements are `away`, in its tree and at its subscribers.
//! - What an edge acknowledged as taken (QoS 1 and 2) has come to the core. Nothing came to the core twice: an edge sends again
//!   nothing that it is not sure of.
//!
//! Read first: `world.rs`.

mod reader;
mod ways;
mod words;
mod world;
mod writer;

pub use world::Summary;

use crate::runs::run_seeds;
use crate::trace::{Sent, Trace};
use std::ops::Range;

/// What a run gets wrong on purpose: tests show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A subscriber of an edge gets nothing from some time on.
    GoesStale,
    /// A message goes to the core twice.
    Doubles,
    /// A message that never came to the core was acknowledged.
    Claims,
    /// A measurement is as good as ever although the edge has no link.
    Hides,
}

/// Runs one seed; with `tells`, what happens is printed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64, tells: bool) -> Result<Summary, String> {
    world::run(seed, None, (tells, &Trace::default()))
}

/// Runs one seed, and returns all that was sent.
///
/// # Errors
/// What was wrong.
pub fn trace(seed: u64) -> Result<Vec<Sent>, String> {
    let trace = Trace::default();
    world::run(seed, None, (false, &trace))?;
    Ok(trace.sent())
}

/// Runs many seeds, and returns what all of them together were, or the first that fails and why.
///
/// # Errors
/// The seed, and what was wrong.
pub fn run_all(seeds: Range<u64>) -> Result<Summary, (u64, String)> {
    run_seeds(seeds, |seed| run(seed, false), Summary::add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of every test; a failing one is told by `cargo xtask sim edges --seed N`.
    const SEEDS: Range<u64> = 0..30;

    #[test]
    fn every_seed_keeps_what_is_promised() {
        match run_all(SEEDS) {
            Ok(total) => {
                println!("{} seeds: {total:?}", SEEDS.end);
                let is_enough = total.faults > 100 && total.kills > 10 && total.taken > 100 && total.away > 20;
                assert!(is_enough && total.refused > 20 && total.deltas > 500, "{total:?}");
            }
            Err((seed, why)) => panic!("seed {seed}: {why}\nsee it with: cargo xtask sim edges --seed {seed}"),
        }
    }

    #[test]
    fn a_seed_is_the_same_run_again() {
        for seed in 0..4 {
            let [first, second] = [(); 2].map(|()| trace(seed).unwrap());
            let at = first.iter().zip(&second).position(|(first, second)| first != second);
            let at = at.unwrap_or(first.len().min(second.len()));
            assert_eq!(first.get(at), second.get(at), "seed {seed}, after {at} of {} pieces", first.len());
        }
    }

    #[test]
    fn a_defect_is_found_out() {
        for defect in [Defect::GoesStale, Defect::Doubles, Defect::Claims, Defect::Hides] {
            let is_found = |seed| world::run(seed, Some(defect), (false, &Trace::default())).is_err();
            assert!((0..6).any(is_found), "{defect:?} was not found");
        }
    }
}

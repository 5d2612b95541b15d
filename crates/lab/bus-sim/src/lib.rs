//! Simulation of a bus: the broker with its publishers and subscribers in virtual time, over networks that delay, stall,
//! reset connections and drop them silently.
//!
//! In: a seed. Out: a summary, or what was wrong.
//!
//! ```text
//! Publisher ═ Link ═╗                    ╔═ Link ═ Subscriber, of each kind
//! Publisher ═ Link ═╬═ Hall: broker, bus ╬═ Link ═ Subscriber …
//!                   ╚════════════════════╩═ Link ═ Witness: without faults, hears everything
//! ```
//!
//! The bus, the broker and both sides' sessions are those that ship, as tasks of one thread whose clock is a runtime's that
//! stands still. What holds in every run:
//!
//! - after the last fault every subscriber holds the tree's values, however little may wait for it, and in the end those last
//!   published;
//! - nobody hears a value that was not published; over a connection, the values of a topic come in the order in which the
//!   bus took them, and none comes twice, as an update and as a last value of the new subscription;
//! - what is published at QoS 2 is taken once and in order, and heard once and in order by a session that is kept; what is
//!   published at QoS 1 is taken at least once;
//! - of messages that are kept one by one, as many are heard or said to be lost as there were;
//! - a throttled topic comes no sooner than it may; what waits stays within its limits, and nothing does in the end.
//!
//! That a run would notice a bus that loses, doubles, swaps or alters one message is tested with such defects ([`notices`]).
//!
//! By its seed a run has one to three threads' worth of socket shards, or none: the bus has the sockets itself then.
//!
//! Not covered: history, users, TLS, WebSocket, shared subscriptions, wills, devices, the disk. The runtime's choice among tasks
//! that are ready, and the order of hash maps, are not the seed's: a seed is nearly always the same run again, not always.
//!
//! Never: a socket, a wait of the machine's time.
//!
//! Read first: `world.rs`.

mod defect;
mod invariants;
mod link;
mod publisher;
mod subscriber;
#[cfg(test)]
mod timers;
mod world;

pub use defect::{Defect, What};
pub use link::{Link, LinkBehavior};
pub use subscriber::Kind;
pub use world::Summary;

use bytes::Bytes;
use std::ops::Range;
use std::rc::Rc;

/// The value of a topic that is published as its `number`th.
fn speech(topic: &str, number: u32) -> Bytes {
    let more = match topic.rsplit('/').next() {
        _ if topic.starts_with("bulk") => 40_000,
        // The values of all topics together are more than may wait for a client in some runs.
        Some("4" | "5") => 2000,
        _ => number / 8 * 7 % 23 * 5,
    };
    format!("{number:08} of {topic} {}", "x".repeat(more.try_into().unwrap_or(0))).into()
}

/// Runs one seed; with `tells`, what happens is printed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64, tells: bool) -> Result<Summary, String> {
    world::run(seed, None, tells)
}

/// Runs one seed as if the bus had a defect: true where it happened, and something was found wrong.
///
/// # Errors
/// It happened, and nothing was found wrong.
pub fn notices(seed: u64, kind: Kind, what: What) -> Result<bool, String> {
    let defect = Rc::new(Defect::new(kind, what));
    match world::run(seed, Some(Rc::clone(&defect)), false) {
        Ok(_) if defect.has_struck() => {
            Err(format!("seed {seed}: a bus for whose {kind:?} one {what:?} was found well"))
        }
        Ok(_) => Ok(false),
        Err(_) => Ok(defect.has_struck()),
    }
}

/// Runs many seeds, and returns what all of them together were, or the first that fails and why.
///
/// # Errors
/// The seed, and what was wrong.
pub fn run_all(seeds: Range<u64>) -> Result<Summary, (u64, String)> {
    let mut total = Summary::default();
    for seed in seeds {
        total.add(run(seed, false).map_err(|why| (seed, why))?);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of every test; a failing one is told by `cargo xtask sim bus --seed N`.
    const SEEDS: Range<u64> = 0..150;

    #[test]
    fn every_seed_keeps_what_is_promised() {
        match run_all(SEEDS) {
            Ok(total) => {
                println!("{} seeds: {total:?}", SEEDS.end);
                assert!(total.deltas > 1000 && total.faults > 500 && total.lost > 50, "{total:?}");
            }
            Err((seed, why)) => panic!("seed {seed}: {why}\nsee it with: cargo xtask sim bus --seed {seed}"),
        }
    }

    #[test]
    fn a_bus_with_a_defect_is_found_out() {
        use What::{Alters, Doubles, GoesStale, Loses, Swaps};
        for (kind, defects) in [
            (Kind::Witness, &[Loses, Doubles, Swaps, Alters, GoesStale][..]),
            (Kind::Persistent, &[Loses, Doubles, Swaps, Alters, GoesStale]),
            (Kind::All, &[Loses, Doubles, Swaps, Alters, GoesStale]),
            // These may miss a value: the next one makes it good.
            (Kind::Once, &[Doubles, Alters, GoesStale]),
            (Kind::Newest, &[Doubles, Alters, GoesStale]),
            (Kind::Deltas, &[Doubles, Alters, GoesStale]),
            (Kind::Throttled, &[Doubles, Alters, GoesStale]),
        ] {
            for what in defects {
                let noticed: Vec<bool> = (0..3).map(|seed| notices(seed, kind, *what).unwrap()).collect();
                assert!(noticed.contains(&true), "{what:?} never happened to {kind:?}");
            }
        }
    }
}

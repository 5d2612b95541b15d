//! Simulation of a bus: the broker with its publishers and subscribers in virtual time, over networks that delay data,
//! stall, reset connections and drop them silently.
//!
//! In: a seed. Out: a summary, or the first error.
//!
//! ```text
//! Publisher ═ Link ═╗                    ╔═ Link ═ Subscriber, of each kind
//! Publisher ═ Link ═╬═ InProcessBroker ══╬═ Link ═ Subscriber …
//!                   ╚════════════════════╩═ Link ═ Witness: without faults, gets everything
//! ```
//!
//! The bus, the broker and the sessions of both sides are the production code. They are tasks of one thread, with a
//! runtime whose clock is paused. These invariants are checked in every run:
//!
//! - After the last fault every subscriber gets the values of the tree, however small its queue is, and at the end the
//!   values that were published last.
//! - No subscriber gets a value that was not published. Over a connection, the values of a topic arrive in the order in
//!   which the bus applied them. None arrives twice, as an update and as a last value of the new subscription.
//! - A QoS 2 message is accepted once and in order, and delivered once and in order to a persistent session. A QoS 1
//!   message is accepted at least once.
//! - For messages that are queued one by one, delivered messages and reported losses add up to the published messages.
//! - In runs with users, whose rights change meanwhile, no subscriber gets what its user may not read at the time, and it gets
//!   the rest again once it may.
//! - A throttled topic is not sent too early. Queues stay within their limits, and are empty at the end.
//!
//! Tests check that a run detects a bus that loses, duplicates, swaps or alters one message, or takes no note of what a
//! user may no longer read ([`notices`]).
//!
//! The seed determines whether the bus serves the sockets itself, or two to four socket shards do, and whether clients are users. A
//! run with the same seed is identical: every byte of every connection, at its time and in its order ([`trace`]).
//!
//! Not covered: history, authentication, TLS, WebSocket, shared subscriptions, wills, devices, the disk.
//!
//! Never: a socket, a wait in real time.
//!
//! Read first: `world.rs`.

mod defect;
pub mod edges;
mod invariants;
mod link;
mod node;
mod publisher;
mod rights;
mod runs;
pub mod scale;
mod subscriber;
#[cfg(test)]
mod timers;
mod trace;
mod world;

pub use defect::{Defect, What};
pub use link::{Link, LinkBehavior};
pub use subscriber::Kind;
pub use trace::{Sent, Trace};
pub use world::Summary;

use bytes::Bytes;
use runs::run_seeds;
use std::ops::Range;
use std::rc::Rc;

/// The value of a topic that is published as its `number`th.
fn speech(topic: &str, number: u32) -> Bytes {
    let more = match topic.rsplit('/').next() {
        // What comes at once is less than a connection may hold, however many of these are among it.
        _ if topic.starts_with("bulk") => 25_000,
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

/// Runs one seed as if the bus had a defect: true where it happened, and something was found wrong.
///
/// # Errors
/// It happened, and nothing was found wrong.
pub fn notices(seed: u64, kind: Kind, what: What) -> Result<bool, String> {
    let defect = Rc::new(Defect::new(kind, what));
    match world::run(seed, Some(Rc::clone(&defect)), (false, &Trace::default())) {
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
    run_seeds(seeds, |seed| run(seed, false), Summary::add)
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
                assert!(
                    total.deltas > 1000 && total.faults > 500 && total.lost > 50 && total.changes > 500,
                    "{total:?}"
                );
            }
            Err((seed, why)) => panic!("seed {seed}: {why}\nsee it with: cargo xtask sim bus --seed {seed}"),
        }
    }

    /// Every byte of every connection, at its time and in its order.
    #[test]
    fn a_seed_is_the_same_run_again() {
        for seed in 0..40 {
            let [first, second] = [(); 2].map(|()| trace(seed).unwrap());
            let at = first.iter().zip(&second).position(|(first, second)| first != second);
            let at = at.unwrap_or(first.len().min(second.len()));
            assert_eq!(first.get(at), second.get(at), "seed {seed}, after {at} of {} pieces", first.len());
        }
        assert_ne!(trace(0), trace(4), "another seed is another run");
    }

    #[test]
    fn a_bus_with_a_defect_is_found_out() {
        use What::{Alters, Doubles, GoesStale, Loses, Permits, Swaps};
        for (kind, defects) in [
            (Kind::Witness, &[Loses, Doubles, Swaps, Alters, GoesStale][..]),
            (Kind::Persistent, &[Loses, Doubles, Swaps, Alters, GoesStale]),
            (Kind::All, &[Loses, Doubles, Swaps, Alters, GoesStale]),
            // These may miss a value: the next one makes it good.
            (Kind::Once, &[Doubles, Alters, GoesStale]),
            (Kind::Newest, &[Doubles, Alters, GoesStale]),
            (Kind::Deltas, &[Doubles, Alters, GoesStale]),
            (Kind::Gathered, &[Doubles, Alters, GoesStale]),
            (Kind::Throttled, &[Doubles, Alters, GoesStale]),
            (Kind::Reader, &[Doubles, Alters, GoesStale, Permits]),
        ] {
            // In the first of these, nobody is a user.
            let seeds = if kind == Kind::Reader { 4..8 } else { 0..3 };
            for what in defects {
                let noticed: Vec<bool> = seeds.clone().map(|seed| notices(seed, kind, *what).unwrap()).collect();
                assert!(noticed.contains(&true), "{what:?} never happened to {kind:?}");
            }
        }
    }
}

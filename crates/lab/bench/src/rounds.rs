//! Rounds, in which an experiment and its floor take turns, and what is said of their figures.

use crate::report::Progress;
use anyhow::Result;
use tieline_net::Jitter;

/// Which side of a round is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The experiment.
    Ours,
    /// Its floor.
    Floor,
}

/// Runs both sides once in each round, in a random order; says why when one of them was not valid, and goes no further.
/// The first of all is ours: what memory it needs is not there from a floor before it, and the floor may depend on it.
pub fn take_turns(
    rounds: usize,
    progress: &Progress,
    what: &str,
    mut run: impl FnMut(Side) -> Result<()>,
) -> Option<String> {
    let orders = std::iter::once([Side::Ours, Side::Floor]).chain(shuffled(rounds.saturating_sub(1)));
    for (round, order) in (1..).zip(orders) {
        for side in order {
            progress.show(&format!("{what}, round {round} of {rounds}, {side:?}"));
            if let Err(why) = run(side) {
                return Some(format!("{what}, {side:?}: {why:#}"));
            }
        }
    }
    None
}

/// The order of the two sides in each of `rounds` rounds.
pub fn shuffled(rounds: usize) -> impl Iterator<Item = [Side; 2]> {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let mut coin = Jitter::new(seed);
    (0..rounds).map(move |_| if coin.next_unit() < 0.5 { [Side::Ours, Side::Floor] } else { [Side::Floor, Side::Ours] })
}

/// Puts things into a random order.
pub fn shuffle<T>(things: &mut [T], jitter: &mut Jitter) {
    for last in (1..things.len()).rev() {
        let place = jitter.next_unit() * number(last as u64 + 1);
        // Below the length, and a position: nothing is cut off but the part behind the point.
        let chosen = (0..last).rev().find(|at| place >= number(*at as u64 + 1)).map_or(0, |at| at + 1);
        things.swap(last, chosen);
    }
}

/// The figure in the middle; the mean of the two in the middle of an even number; not a number of none.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(low), Some(high)) if sorted.len().is_multiple_of(2) => f64::midpoint(*low, *high),
        (_, Some(high)) => *high,
        _ => f64::NAN,
    }
}

/// The smallest figure that is no less than 99 of 100; of fewer than 100 figures the largest.
#[must_use]
pub fn p99(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let rank = (sorted.len() * 99).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The median of each round's own ratio.
#[must_use]
pub fn median_ratio(ours: &[f64], floor: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(floor).map(|(ours, floor)| ours / floor).collect();
    median(&ratios)
}

/// Four figures: more are noise.
#[must_use]
pub fn short(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A count as a number to divide by: exact up to 2^53.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of a run stay far below 2^53")]
pub const fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        let check = |figures: &[f64], mid: f64, high: f64| {
            assert_eq!((median(figures), p99(figures)), (mid, high), "{figures:?}");
        };
        check(&[3.0, 1.0, 2.0], 2.0, 3.0);
        check(&[4.0, 1.0, 2.0, 3.0], 2.5, 4.0);
        check(&[7.0], 7.0, 7.0);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        check(&hundred, 50.5, 99.0);
        assert!(median(&[]).is_nan() && p99(&[]).is_nan());
        assert_eq!((short(1234.56), short(0.000_123_456)), (1235.0, 0.000_123_5));
        assert_eq!(median_ratio(&[2.0, 9.0, 6.0], &[1.0, 3.0, 3.0]), 2.0);
    }

    #[test]
    fn the_first_fault_ends_the_rounds() {
        let mut sides = Vec::new();
        let run = |side| {
            sides.push(side);
            if sides.len() < 4 { Ok(()) } else { Err(anyhow::anyhow!("lost")) }
        };
        let why = take_turns(9, &Progress::new(false), "10 pairs", run).unwrap();
        assert!(why.starts_with("10 pairs, ") && why.ends_with(": lost"), "{why}");
        assert_eq!((sides.len(), sides[0]), (4, Side::Ours));
        assert_eq!(take_turns(2, &Progress::new(false), "", |_| Ok(())), None);
    }

    #[test]
    fn shuffling_loses_nothing_and_reaches_every_order() {
        let (mut jitter, mut seen) = (Jitter::new(7), std::collections::BTreeSet::new());
        for _ in 0..200 {
            let mut things = [1, 2, 3];
            shuffle(&mut things, &mut jitter);
            seen.insert(things);
        }
        assert_eq!(seen.len(), 6);
        shuffle::<u8>(&mut [], &mut jitter);
    }

    #[test]
    fn every_round_has_both_sides() {
        let orders: Vec<_> = shuffled(64).collect();
        assert!(orders.iter().all(|order| order[0] != order[1]));
        assert_eq!(orders.len(), 64);
    }
}

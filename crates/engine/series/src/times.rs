//! Places in ascending times, found by few looks: most samples come at equal distances.

/// Fewer are counted faster than they are searched.
const FEW: usize = 16;

/// How many of ascending times are before another.
pub(crate) fn count_before(times: &[i64], until: i64) -> usize {
    let is_before = |place: usize| times.get(place).is_some_and(|time| *time < until);
    if !is_before(FEW) {
        return times.iter().take(FEW + 1).take_while(|time| **time < until).count();
    }
    let (mut low, mut high) = (FEW + 1, times.len());
    if is_before(high - 1) {
        return high;
    }
    // All before `low` are before the time; none from `high` on is. Begin where it is if all distances are equal.
    let (mut step, guess) = (1, expected(times, until).clamp(low, high - 1));
    if is_before(guess) {
        low = guess + 1;
        while is_before(low + step) {
            low += step + 1;
            step *= 2;
        }
        high = high.min(low + step);
    } else {
        high = guess;
        while high > low + step && !is_before(high - step) {
            high -= step;
            step *= 2;
        }
        low = low.max(high.saturating_sub(step));
    }
    low + times.get(low..high).unwrap_or_default().partition_point(|time| *time < until)
}

/// The place of a time between the first and the last, if all distances are equal.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a guess, from 0 to the number of times"
)]
fn expected(times: &[i64], until: i64) -> usize {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return 0 };
    let distance = |to: i64| to.saturating_sub(*first) as f64;
    (distance(until) / distance(*last) * (times.len() - 1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn sorted(distances: Vec<i64>) -> Vec<i64> {
        distances
            .into_iter()
            .scan(i64::MIN / 2, |time, distance| Some(core::mem::replace(time, time.saturating_add(distance))))
            .collect()
    }

    proptest! {
        #[test]
        fn the_place_is_that_of_a_search(
            distances in prop::collection::vec(prop_oneof![8 => Just(1000_i64), 3 => 0..5_i64, 1 => 0..i64::MAX], 0..200),
            (place, off) in (any::<prop::sample::Index>(), -2..3_i64),
            far in any::<i64>(),
        ) {
            let times = sorted(distances);
            let near = if times.is_empty() { 0 } else { place.get(&times).saturating_add(off) };
            for until in [near, far, i64::MIN, i64::MAX] {
                prop_assert_eq!(count_before(&times, until), times.partition_point(|time| *time < until), "{:?} {}", times, until);
            }
        }
    }
}

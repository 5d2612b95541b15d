//! An aggregate that is kept up to date: what comes and goes costs the same, however many contributions there are, and the
//! result depends on them alone, not on the order in which they came.

use crate::{Contribution, Operation};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use bytes::Bytes;
use core::cmp::Ordering;
use tieline_core::{Body, Validity};

/// What some contributions come to.
#[derive(Debug)]
pub(crate) struct RunningAggregate {
    count: u32,
    /// How many are of good, uncertain and bad quality.
    grades: [u32; 3],
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    Counted,
    Summed(Box<ExactSum>),
    /// Each number, and how often it is there.
    Sorted(BTreeMap<Ordered, u32>),
}

impl RunningAggregate {
    /// Of no contribution.
    pub(crate) fn new(operation: Operation) -> Self {
        let numbers = match operation {
            Operation::Count => Numbers::Counted,
            Operation::Sum | Operation::Mean => Numbers::Summed(Box::default()),
            Operation::Min | Operation::Max => Numbers::Sorted(BTreeMap::new()),
        };
        Self { count: 0, grades: [0; 3], numbers }
    }

    /// Of these.
    pub(crate) fn of<'a>(operation: Operation, all: impl Iterator<Item = &'a Contribution>) -> Self {
        let mut running = Self::new(operation);
        all.for_each(|one| running.add(one));
        running
    }

    /// One comes.
    pub(crate) fn add(&mut self, one: &Contribution) {
        self.count += 1;
        if let Some(grade) = self.grades.get_mut(grade(one)) {
            *grade += 1;
        }
        let number = number(one);
        match &mut self.numbers {
            Numbers::Counted => {}
            Numbers::Summed(sum) => sum.add(number),
            Numbers::Sorted(all) => *all.entry(Ordered(number)).or_default() += 1,
        }
    }

    /// One that came goes.
    pub(crate) fn remove(&mut self, one: &Contribution) {
        self.count -= 1;
        if let Some(grade) = self.grades.get_mut(grade(one)) {
            *grade -= 1;
        }
        let number = number(one);
        match &mut self.numbers {
            Numbers::Counted => {}
            Numbers::Summed(sum) => sum.add(-number),
            Numbers::Sorted(all) => {
                if let Some(often) = all.get_mut(&Ordered(number)) {
                    *often -= 1;
                    if *often == 0 {
                        all.remove(&Ordered(number));
                    }
                }
            }
        }
    }

    /// The aggregate as a point: of good quality when all are.
    pub(crate) fn body(&mut self, operation: Operation) -> Body {
        let value = match &mut self.numbers {
            Numbers::Counted => f64::from(self.count),
            Numbers::Summed(sum) if operation == Operation::Mean => sum.value() / f64::from(self.count.max(1)),
            Numbers::Summed(sum) => sum.value(),
            Numbers::Sorted(all) => {
                let end = if operation == Operation::Min { all.first_key_value() } else { all.last_key_value() };
                end.map_or(f64::NAN, |(number, _)| number.0)
            }
        };
        let worst = match self.grades {
            [_, 0, 0] => "good",
            [_, _, 0] => "uncertain",
            _ => "bad",
        };
        let value = serde_json::json!({ "v": value, "q": worst, "n": self.count });
        Body::read(Bytes::from(alloc::format!("{value}")))
    }
}

/// Numbers of JSON are finite; `-0` is zero, whose sign would tell the order.
fn number(one: &Contribution) -> f64 {
    one.number.unwrap_or_default() + 0.0
}

fn grade(one: &Contribution) -> usize {
    match one.validity {
        None | Some(Validity::Good) => 0,
        Some(Validity::Uncertain) => 1,
        Some(Validity::Bad) => 2,
    }
}

/// A number that stands in an order.
#[derive(Clone, Copy, Debug)]
struct Ordered(f64);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

/// Bits of a digit of the sum.
const DIGIT: u32 = 32;
/// The smallest number is 2^-1074, the largest below 2^1024, and there may be 2^32 of them: 2130 bits and a sign.
const DIGITS: usize = 68;
/// Numbers that may be added before digits overflow.
const CARRY_EVERY: u32 = 1 << 29;

/// A sum without error, in units of 2^-1074: what was added can be taken away without a trace.
#[derive(Debug)]
struct ExactSum {
    /// The least first. Digits may be negative or long until they are carried.
    digits: [i64; DIGITS],
    uncarried: u32,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self { digits: [0; DIGITS], uncarried: 0 }
    }
}

impl ExactSum {
    fn add(&mut self, number: f64) {
        if !number.is_finite() {
            return;
        }
        let bits = number.to_bits();
        let (exponent, fraction) = (bits >> 52 & 0x7FF, bits & ((1 << 52) - 1));
        // Subnormal numbers have the exponent of the smallest others, and no leading one.
        let (shift, mantissa) = if exponent == 0 { (0, fraction) } else { (exponent - 1, fraction | 1 << 52) };
        let shift = u32::try_from(shift).unwrap_or_default();
        let mut rest = u128::from(mantissa) << (shift % DIGIT);
        for digit in self.digits.iter_mut().skip(place(shift / DIGIT)).take(3) {
            let part = i64::from(low(rest));
            *digit += if number.is_sign_negative() { -part } else { part };
            rest >>= DIGIT;
        }
        self.uncarried += 1;
        if self.uncarried == CARRY_EVERY {
            self.carry();
        }
    }

    /// Brings each digit but the last between 0 and 2^32; the last has the sign.
    fn carry(&mut self) {
        let mut carried = 0;
        let last = DIGITS - 1;
        for (at, digit) in self.digits.iter_mut().enumerate() {
            let whole = *digit + carried;
            carried = if at == last { 0 } else { whole >> DIGIT };
            *digit = whole - (carried << DIGIT);
        }
        self.uncarried = 0;
    }

    /// The sum, rounded once.
    fn value(&mut self) -> f64 {
        self.carry();
        let negative = self.digits.last().is_some_and(|last| *last < 0);
        if negative {
            self.negate();
        }
        let value = self.magnitude();
        if negative {
            self.negate();
            return -value;
        }
        value
    }

    fn negate(&mut self) {
        self.digits.iter_mut().for_each(|digit| *digit = -*digit);
        self.carry();
    }

    fn magnitude(&self) -> f64 {
        let Some(top) = self.digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
        let base = top.saturating_sub(2);
        let leading = self.digits.iter().skip(base).take(3).rev();
        let leading = leading.fold(0_u128, |all, digit| all << DIGIT | u128::from(digit.unsigned_abs()));
        // What follows only says on which side of a half it is.
        let more = self.digits.iter().take(base).any(|digit| *digit != 0);
        #[expect(clippy::cast_precision_loss, reason = "this is where the sum is rounded")]
        let rounded = (leading | u128::from(more)) as f64;
        let exponent = i32::try_from(base).unwrap_or_default() * 32 - 1074;
        // In two steps, of which none leaves the range: 2^-1074 times a digit may be subnormal, and is exact then.
        rounded * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2)
    }
}

fn low(number: u128) -> u32 {
    u32::try_from(number & u128::from(u32::MAX)).unwrap_or_default()
}

fn place(digit: u32) -> usize {
    usize::try_from(digit).unwrap_or_default()
}

/// For exponents from -1022 to 1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::try_from(exponent + 1023).unwrap_or_default() << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn sum(numbers: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum.value()
    }

    #[test]
    fn sums_are_rounded_once() {
        let check = |numbers: &[f64], expect: f64| assert_eq!(sum(numbers).to_bits(), expect.to_bits(), "{numbers:?}");
        check(&[], 0.0);
        check(&[0.1; 10], 1.0);
        check(&[1e308, 1.0, -1e308], 1.0);
        check(&[1e16, 1.0, 1.0], 1e16 + 2.0);
        check(&[-1.5, 0.25], -1.25);
        check(&[f64::MIN_POSITIVE / 4.0, f64::MIN_POSITIVE / 8.0], f64::MIN_POSITIVE * 0.375);
        check(&[5e-324, 5e-324, -5e-324], 5e-324);
        check(&[f64::MAX, f64::MAX], f64::INFINITY);
        // A half is rounded to even, and a little more than a half up.
        check(&[9_007_199_254_740_992.0, 1.0], 9_007_199_254_740_992.0);
        check(&[9_007_199_254_740_992.0, 1.0, 1e-300], 9_007_199_254_740_994.0);
        check(&[-9_007_199_254_740_992.0, -1.0, -1e-300], -9_007_199_254_740_994.0);
    }

    proptest! {
        #[test]
        fn whatever_the_order_and_whatever_went_a_sum_is_the_same(
            stay in prop::collection::vec(any::<f64>().prop_filter("finite", |number| number.is_finite()), 0..20),
            go in prop::collection::vec(any::<f64>().prop_filter("finite", |number| number.is_finite()), 0..20),
        ) {
            let mut mixed = ExactSum::default();
            go.iter().for_each(|number| mixed.add(*number));
            stay.iter().rev().for_each(|number| mixed.add(*number));
            mixed.value();
            go.iter().for_each(|number| mixed.add(-number));
            prop_assert_eq!(mixed.value().to_bits(), sum(&stay).to_bits());
        }

        #[test]
        fn two_numbers_are_added_as_the_machine_does(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(a.is_finite() && b.is_finite() && a + b != 0.0);
            prop_assert_eq!(sum(&[a, b]).to_bits(), (a + b).to_bits());
        }

        #[test]
        fn whole_numbers_are_added_as_whole_numbers(numbers in prop::collection::vec(-(1_i64 << 40)..1 << 40, 0..100)) {
            let floats: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            prop_assert_eq!(sum(&floats), numbers.iter().sum::<i64>() as f64);
        }
    }
}

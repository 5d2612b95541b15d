//! The lanes, filled with the numbers of a batch.

use crate::engine::{BATCH_MAX, EngineCounters, Number};
use crate::lanes::{LaneModulus, MESSAGES, PUBLIC_MESSAGES, Pass, PublicPass, Unit};
use crate::{MODULUS_BYTES, PrivateKey};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// From how many on public operations are faster in a pass of eight than one at a time.
const PUBLIC_PASS_MIN: usize = 3;

/// A number that is raised to the public exponent.
pub(crate) type PublicNumber<'a> = (&'a LaneModulus, Number);

/// The lanes and their memory.
pub(crate) struct Worker<U> {
    unit: U,
    pass: Box<Pass>,
    public: Box<PublicPass>,
}

impl<U: Unit> Worker<U> {
    pub(crate) fn new(unit: U) -> Self {
        Self { unit, pass: Pass::new(), public: PublicPass::new() }
    }

    /// Fills in what suits the lanes: keys that are prepared for them, and never a single one, which the library does
    /// faster. At most [`BATCH_MAX`] numbers. Public numbers share the passes that check the results; what comes back
    /// are theirs, none for those that are too few for a pass.
    pub(crate) fn run(
        &mut self,
        numbers: &[(&PrivateKey, &[u8; MODULUS_BYTES])],
        out: &mut [Option<Number>],
        public: &[Option<PublicNumber<'_>>],
        counters: &mut EngineCounters,
    ) -> Vec<Option<Number>> {
        let mut fitting = Vec::with_capacity(BATCH_MAX);
        for (at, (key, number)) in numbers.iter().enumerate().take(BATCH_MAX) {
            fitting.extend(key.lane().zip(key.public().lane()).map(|(lane, modulus)| (at, lane, modulus, *number)));
        }
        if fitting.len() % MESSAGES == 1 {
            fitting.pop();
        }
        let mut results = Zeroizing::new([[0; MODULUS_BYTES]; BATCH_MAX]);
        for (work, results) in fitting.chunks(MESSAGES).zip(results.chunks_mut(MESSAGES)) {
            let pairs: Vec<_> = work.iter().map(|(_, lane, _, number)| (*lane, *number)).collect();
            self.pass.run(self.unit, &pairs, results);
            counters.private_passes += 1;
        }
        let checks = fitting.iter().zip(&*results).map(|((_, _, modulus, _), result)| (*modulus, result));
        let others = public.iter().flatten().map(|(modulus, number)| (*modulus, &**number));
        let mut powers = self.pow_mod_public(checks.chain(others).collect(), fitting.len());
        counters.public_lanes += (powers.len() - fitting.len()) as u64;
        let mut powers = powers.drain(..);
        for (((at, _, _, number), result), check) in fitting.iter().zip(&*results).zip(powers.by_ref()) {
            if bool::from(check.ct_eq(*number)) {
                counters.private_lanes += 1;
                out[*at] = Some(Zeroizing::new(*result));
            } else {
                counters.faults += 1;
            }
        }
        public.iter().map(|number| number.as_ref().and_then(|_| powers.next())).collect()
    }

    /// Raises numbers to the public exponent, of the first `checks` all; the last ones are left when they are too few
    /// for another pass.
    fn pow_mod_public(&mut self, mut numbers: Vec<(&LaneModulus, &[u8; MODULUS_BYTES])>, checks: usize) -> Vec<Number> {
        let left = numbers.len() % PUBLIC_MESSAGES;
        if left < PUBLIC_PASS_MIN {
            numbers.truncate(checks.max(numbers.len() - left));
        }
        let mut powers = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(PUBLIC_MESSAGES) {
            let results = Zeroizing::new(self.public.run(self.unit, numbers));
            powers.extend(results.iter().take(numbers.len()).map(|result| Zeroizing::new(*result)));
        }
        powers
    }
}

//! A number that stands for the samples of a column: others have another.
//!
//! XXH3 with 64 bits over: times; how many runs of kinds there are, and each with its length; the same of qualities; doubles; integers;
//! of each text or bytes how many bytes, and these. All numbers have 8 bytes, the lowest first.

use crate::column::Column;
use core::hash::Hasher as _;
use twox_hash::XxHash3_64;

/// Numbers that are given to the hash at a time.
const NUMBERS: usize = 64;

impl Column {
    /// The number that stands for the samples.
    #[must_use]
    pub fn check(&self) -> u64 {
        let mut sum = Sum(XxHash3_64::new());
        sum.numbers(&self.times, |time| time.to_le_bytes());
        sum.number(self.kinds.runs().len() as u64);
        for (kind, length) in self.kinds.runs() {
            sum.number(*kind as u64);
            sum.number(*length as u64);
        }
        sum.number(self.qualities.runs().len() as u64);
        for (bits, length) in self.qualities.runs() {
            sum.number((*bits).into());
            sum.number(*length as u64);
        }
        sum.numbers(&self.floats, |double| double.to_le_bytes());
        sum.numbers(&self.integers, |integer| integer.to_le_bytes());
        for blob in &self.blobs {
            sum.number(blob.len() as u64);
            sum.0.write(blob);
        }
        sum.0.finish()
    }
}

struct Sum(XxHash3_64);

impl Sum {
    fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    fn numbers<T: Copy>(&mut self, numbers: &[T], bytes: impl Fn(T) -> [u8; 8]) {
        let mut room = [[0; 8]; NUMBERS];
        for part in numbers.chunks(NUMBERS) {
            room.iter_mut().zip(part).for_each(|(room, number)| *room = bytes(*number));
            self.0.write(room.get(..part.len()).unwrap_or_default().as_flattened());
        }
    }
}

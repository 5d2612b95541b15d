//! Numbers that spread pauses.

use core::time::Duration;

/// A generator whose numbers are those of its seed (splitmix64).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Three quarters of a pause to five quarters.
    pub(crate) fn about(&mut self, pause: Duration) -> Duration {
        let share = u32::try_from(self.next() % 512).unwrap_or(0);
        pause * 3 / 4 + pause * share / 1024
    }
}

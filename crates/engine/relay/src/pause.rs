//! Pauses that are spread, so that not all ends come back together.

use core::time::Duration;
use tieline_core::Random;

/// Three quarters of a pause to five quarters.
pub(crate) fn about(pause: Duration, random: &mut Random) -> Duration {
    let share = u32::try_from(random.below(512)).unwrap_or(0);
    pause * 3 / 4 + pause * share / 1024
}

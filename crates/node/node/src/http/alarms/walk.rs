//! A look at all alarms, which holds up nothing else on the bus for long.

use super::super::authorization::Authorized;
use crate::bus::{AskError, Bus};
use tieline_alarms::Alarm;

/// Alarms of one visit to the bus: half a millisecond of its time, about.
const ALARMS_AT_ONCE: usize = 1_000;

/// Takes the alarms that are not normal, some in each visit to the bus; `finish` comes in the last one. Each alarm is as it is
/// at its visit.
pub(super) async fn walk<T: Send + 'static, R: Send + 'static>(
    authorized: &Authorized,
    begin: T,
    mut take: impl FnMut(&mut T, Alarm) + Send + 'static,
    finish: impl FnOnce(T, &mut Bus) -> R + Send + 'static,
) -> Result<R, AskError> {
    let (mut taken, mut finish, mut next) = (Some(begin), Some(finish), 0);
    let step = move |bus: &mut Bus, _| {
        let mut left = ALARMS_AT_ONCE;
        let state = taken.as_mut()?;
        for (row, alarm) in bus.alarms_from(next).take(ALARMS_AT_ONCE) {
            take(state, alarm);
            (next, left) = (row.saturating_add(1), left - 1);
        }
        if left == 0 {
            return None;
        }
        Some(finish.take()?(taken.take()?, bus))
    };
    authorized.app.bus.ask(&authorized.share(), step).await
}

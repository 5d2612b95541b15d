//! How many devices are in which state.

use tieline_poll::DeviceState;

/// How many devices are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// All.
    pub total: usize,
    /// They answer.
    pub online: usize,
    /// Not known yet.
    pub connecting: usize,
}

impl DeviceCounts {
    /// Of devices whose states have these names.
    pub(super) fn of(states: impl Iterator<Item = String>) -> Self {
        let settles = [DeviceState::Connecting, DeviceState::Restarting].map(DeviceState::name);
        states.fold(Self::default(), |counts, state| Self {
            total: counts.total + 1,
            online: counts.online + usize::from(state == DeviceState::Online.name()),
            connecting: counts.connecting + usize::from(settles.contains(&state.as_str())),
        })
    }
}

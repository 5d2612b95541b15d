//! Whether a device is there, where no connection says it: an answer does. One that does not answer is asked again, more and
//! more rarely.

use std::cell::Cell;
use std::rc::Weak;
use std::time::Duration;

/// From a question that a device left unanswered to the next one that looks for it.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// The longest, for one that is away for long.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(60);

/// What is known of a device.
#[derive(Debug, Default)]
pub struct Presence(Cell<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It cannot be asked.
    #[default]
    Unreachable,
    /// A question is out, or will be; so many had no answer.
    Probed(u32),
    /// It answers.
    Online,
}

impl Presence {
    /// Whether the device answers.
    pub fn is_online(&self) -> bool {
        self.0.get() == State::Online
    }

    /// Whether a question is out, or will be.
    pub fn is_probed(&self) -> bool {
        matches!(self.0.get(), State::Probed(_))
    }

    /// Goes on where that of the device's configuration before was.
    pub fn take_over(&self, before: &Self) {
        self.0.set(before.0.get());
    }

    /// It can be asked from now on.
    pub fn begin(&self) {
        self.0.set(State::Probed(0));
    }

    /// It can no longer be asked.
    pub fn end(&self) {
        self.0.set(State::Unreachable);
    }

    /// It has answered; whether it did not before.
    pub fn came(&self) -> bool {
        self.0.replace(State::Online) != State::Online
    }

    /// It leaves requests unanswered; whether it answered them before.
    pub fn went(&self) -> bool {
        let was_online = self.is_online();
        if was_online {
            self.begin();
        }
        was_online
    }

    /// A question had no answer; how many had none before. None of a device that is not looked for.
    pub fn probe_failed(&self) -> Option<u32> {
        let State::Probed(failed) = self.0.get() else { return None };
        self.0.set(State::Probed(failed.saturating_add(1)));
        Some(failed)
    }
}

/// A device that is asked whether it is there.
pub trait Probed {
    /// What is known of it.
    fn presence(&self) -> &Presence;

    /// Asks it.
    fn probe(&self);
}

/// Asks a device again after a while, if it is still looked for then; `failed` questions had no answer.
pub fn probe_later<D: Probed + 'static>(device: Option<&Weak<D>>, failed: u32) {
    let Some(device) = device.cloned() else { return };
    tokio::task::spawn_local(async move {
        tokio::time::sleep(probe_wait(failed)).await;
        if let Some(device) = device.upgrade()
            && device.presence().is_probed()
        {
            device.probe();
        }
    });
}

fn probe_wait(failed: u32) -> Duration {
    (PROBE_EVERY * 2_u32.pow(failed.min(4))).min(PROBE_EVERY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_comes_and_goes_once() {
        let presence = Presence::default();
        assert_eq!(presence.probe_failed(), None);
        presence.begin();
        assert_eq!([presence.probe_failed(), presence.probe_failed()], [Some(0), Some(1)]);
        assert!(!presence.went(), "it was not there");
        assert_eq!(presence.probe_failed(), Some(2));
        assert!(presence.came() && !presence.came() && presence.is_online());
        assert_eq!(presence.probe_failed(), None);
        assert!(presence.went() && !presence.went());
        assert_eq!(presence.probe_failed(), Some(0));
        presence.end();
        assert_eq!((presence.is_online(), presence.probe_failed()), (false, None));
    }

    #[test]
    fn a_device_that_is_away_is_asked_more_and_more_rarely() {
        assert_eq!([0, 1, 2, 3, 4, 40].map(|failed| probe_wait(failed).as_secs()), [5, 10, 20, 40, 60, 60]);
    }
}

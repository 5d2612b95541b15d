//! What was counted of notifications.

use crate::sender::SenderKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tieline_core::{Timestamp, Words};
use tieline_notify::End;

/// Counters and gauges, read by metrics.
#[derive(Debug, Default)]
pub struct Counts {
    ends: [[AtomicU64; End::WORDS.len()]; SenderKind::WORDS.len()],
    /// Messages that have not arrived yet.
    pub waiting: AtomicU64,
    /// Attempts that failed.
    pub failures: AtomicU64,
    /// Messages and alarms that there were too many of.
    pub dropped: AtomicU64,
    /// Writes of the file that failed.
    pub unwritten: AtomicU64,
    receivers: Mutex<BTreeMap<Arc<str>, ReceiverState>>,
}

/// How a receiver is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverState {
    /// What it is.
    pub kind: SenderKind,
    /// Messages that have not arrived yet.
    pub waiting: usize,
    /// When a message last arrived.
    pub delivered: Option<Timestamp>,
    /// The last attempt that failed, and why.
    pub failure: Option<(Timestamp, String)>,
    /// Since when each attempt has failed; none where the last one did not.
    pub failing_since: Option<Timestamp>,
    /// When a message was for an empty shift last.
    pub nobody: Option<Timestamp>,
}

impl Counts {
    pub(crate) fn add(&self, kind: SenderKind, end: End) {
        if let Some(count) = self.of(kind, end) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// These receivers there are, with the messages that wait for each.
    pub(crate) fn set_receivers<'a>(&self, all: impl Iterator<Item = (&'a Arc<str>, SenderKind, usize)>) {
        let mut receivers = self.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *receivers);
        receivers.extend(all.map(|(name, kind, waiting)| {
            let new =
                ReceiverState { kind, waiting, delivered: None, failure: None, failing_since: None, nobody: None };
            let state = before.remove(name).filter(|state| state.kind == kind).unwrap_or(new);
            (Arc::clone(name), ReceiverState { waiting, ..state })
        }));
    }

    /// An attempt has ended; `why` it failed, where it did.
    pub(crate) fn attempted(&self, name: &str, now: Timestamp, why: Option<&str>) {
        let mut receivers = self.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = receivers.get_mut(name) else { return };
        match why {
            None => (state.delivered, state.failing_since) = (Some(now), None),
            Some(why) => {
                state.failure = Some((now, why.to_owned()));
                state.failing_since.get_or_insert(now);
            }
        }
    }

    /// Nobody was on call: that is no failure of the receiver.
    pub(crate) fn found_nobody(&self, name: &str, now: Timestamp) {
        let mut receivers = self.receivers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = receivers.get_mut(name) {
            state.nobody = Some(now);
        }
    }

    /// How receivers are doing, by name.
    #[must_use]
    pub fn receivers(&self) -> BTreeMap<Arc<str>, ReceiverState> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Messages by the kind of their receiver and their end.
    pub fn ends(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let all = SenderKind::WORDS.iter().flat_map(|kind| End::WORDS.iter().map(move |end| (kind, end)));
        all.map(|((kind, of), (end, by))| {
            (*kind, *end, self.of(*of, *by).map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    fn of(&self, kind: SenderKind, end: End) -> Option<&AtomicU64> {
        let kind = SenderKind::WORDS.iter().position(|(_, known)| *known == kind)?;
        self.ends.get(kind)?.get(End::WORDS.iter().position(|(_, known)| *known == end)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_fails_from_its_first_failure_to_the_next_delivery() {
        let (counts, name, at) = (Counts::default(), Arc::from("duty"), Timestamp::from_millis);
        counts.set_receivers([(&name, SenderKind::Webhook, 2)].into_iter());
        for (millis, why) in [(1, Some("refused")), (2, Some("timeout"))] {
            counts.attempted("duty", at(millis), why);
            counts.attempted("other", at(millis), why);
        }
        let failing = ReceiverState {
            kind: SenderKind::Webhook,
            waiting: 2,
            delivered: None,
            failure: Some((at(2), "timeout".to_owned())),
            failing_since: Some(at(1)),
            nobody: None,
        };
        assert_eq!(counts.receivers(), BTreeMap::from([(Arc::clone(&name), failing.clone())]));
        counts.attempted("duty", at(3), None);
        counts.set_receivers([(&name, SenderKind::Webhook, 0)].into_iter());
        let well = ReceiverState { waiting: 0, delivered: Some(at(3)), failing_since: None, ..failing };
        assert_eq!(counts.receivers(), BTreeMap::from([(Arc::clone(&name), well)]));
        counts.found_nobody("duty", at(4));
        let empty = &counts.receivers()[&name];
        assert_eq!((empty.nobody, empty.failing_since), (Some(at(4)), None), "an empty shift is no failure");
        counts.set_receivers([(&name, SenderKind::Mqtt, 0)].into_iter());
        assert_eq!(counts.receivers()[&name].failure, None, "it is another receiver by the same name");
        counts.set_receivers(std::iter::empty());
        assert_eq!(counts.receivers(), BTreeMap::new());
    }
}

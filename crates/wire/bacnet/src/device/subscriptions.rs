//! Subscriptions to changes of values: renewed at half of their life, tried again where the device refused.

use super::work::Work;
use super::{Device, DeviceEvent};
use crate::ObjectId;
use crate::client::{Client, Failure, RequestError};
use crate::names::{ErrorClass, ErrorCode};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Deadlines, Instant, Now};

/// How soon a subscription is tried again at the earliest.
const AGAIN_MIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// When each is due, and whether the device has taken it.
    objects: BTreeMap<ObjectId, Subscribed>,
    deadlines: Deadlines<ObjectId>,
}

#[derive(Clone, Copy, Debug)]
struct Subscribed {
    due: Option<Instant>,
    is_taken: Option<bool>,
}

impl Subscriptions {
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.deadlines.timeout()
    }

    fn schedule(&mut self, object: ObjectId, at: Option<Instant>) {
        let Some(subscribed) = self.objects.get_mut(&object) else { return };
        if let Some(due) = subscribed.due.take() {
            self.deadlines.remove(due, object);
        }
        if let Some(at) = at {
            subscribed.due = Some(at);
            self.deadlines.add(at, object);
        }
    }
}

impl Device {
    /// Asks the device to tell changes of an object, until [`Device::unsubscribe`]: [`DeviceEvent::Subscribed`] says that it
    /// does, [`DeviceEvent::NotSubscribed`] that it does not, and values must be polled.
    ///
    /// # Errors
    /// There are too many.
    pub fn subscribe(&mut self, now: Now, object: ObjectId) -> Result<(), RequestError> {
        let is_known = self.subscriptions.objects.contains_key(&object);
        if is_known {
            return Ok(());
        }
        if self.subscriptions.objects.len() >= self.config.subscriptions_max {
            return Err(RequestError::QueueFull);
        }
        self.subscriptions.objects.insert(object, Subscribed { due: None, is_taken: None });
        self.subscriptions.schedule(object, Some(now.mono));
        Ok(())
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, object: ObjectId) {
        self.subscriptions.schedule(object, None);
        if self.subscriptions.objects.remove(&object).is_some_and(|subscribed| subscribed.is_taken == Some(true)) {
            self.queue.push_back(Work::Unsubscribe(object));
        }
    }

    /// Ends all subscriptions of a device that nobody looks after any more. The requests are the client's from here on;
    /// nobody is told what becomes of them.
    pub fn leave(mut self, now: Now, client: &mut Client) {
        let subscribed: Vec<ObjectId> = self.subscribed().collect();
        self.config.in_flight = usize::MAX;
        self.sent.clear();
        self.queue = subscribed.into_iter().map(Work::Unsubscribe).collect();
        self.pump(now, client);
    }

    /// Renews all subscriptions now: a device that has restarted has forgotten them.
    pub fn resubscribe(&mut self, now: Now) {
        let objects: Vec<ObjectId> = self.subscriptions.objects.keys().copied().collect();
        for object in objects {
            self.subscriptions.schedule(object, Some(now.mono));
        }
    }

    /// The objects that the device tells changes of.
    pub fn subscribed(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let is_taken = |subscribed: &Subscribed| subscribed.is_taken == Some(true);
        self.subscriptions.objects.iter().filter(move |(_, subscribed)| is_taken(subscribed)).map(|(object, _)| *object)
    }

    /// Whether a subscription is still wanted.
    pub(super) fn wants(&self, object: &ObjectId) -> bool {
        self.subscriptions.objects.contains_key(object)
    }

    /// Queues subscriptions that are due, as many as there is room for.
    pub(super) fn renew(&mut self, now: Now) {
        while self.queue.len() < self.config.queue_max {
            let Some((_, object)) = self.subscriptions.deadlines.take_next(now.mono) else { return };
            if let Some(subscribed) = self.subscriptions.objects.get_mut(&object) {
                subscribed.due = None;
                self.queue.push_back(Work::Subscribe(object));
            }
        }
    }

    pub(super) fn handle_subscribed(&mut self, now: Now, object: ObjectId, result: Result<(), Failure>) {
        let Some(subscribed) = self.subscriptions.objects.get_mut(&object) else {
            // It was ended while the request was on its way.
            if result.is_ok() {
                self.queue.push_back(Work::Unsubscribe(object));
            }
            return;
        };
        let was_taken = subscribed.is_taken.replace(result.is_ok());
        let half = Duration::from_secs(u64::from(self.config.lifetime_s)) / 2;
        let again = match result {
            // A lifetime of 0 has no end.
            Ok(()) if self.config.lifetime_s == 0 => None,
            Ok(()) => Some(now.mono + half),
            Err(failure) if is_final(failure) => None,
            Err(_) => Some(now.mono + half.max(AGAIN_MIN)),
        };
        self.subscriptions.schedule(object, again);
        match result {
            Ok(()) if was_taken != Some(true) => self.events.push_back(DeviceEvent::Subscribed(object)),
            Ok(()) => {}
            Err(failure) if was_taken != Some(false) => {
                self.events.push_back(DeviceEvent::NotSubscribed(object, failure));
            }
            Err(_) => {}
        }
    }
}

/// Whether asking again is no use: the device lacks the service, or the object, or does not tell changes of it.
fn is_final(failure: Failure) -> bool {
    match failure {
        Failure::Reject(_) => true,
        Failure::Error(error) => {
            error.class == ErrorClass::OBJECT
                || error.code == ErrorCode::OPTIONAL_FUNCTIONALITY_NOT_SUPPORTED
                || error.code == ErrorCode::NOT_COV_PROPERTY
                || error.code == ErrorCode::UNKNOWN_PROPERTY
        }
        Failure::Abort(_)
        | Failure::TimedOut
        | Failure::Unreachable(_)
        | Failure::AnswerTooLong
        | Failure::Malformed
        | Failure::Cancelled => false,
    }
}

//! Changes that a BACnet device tells: which objects it is asked to tell of, and what they mean.

use super::device::BacnetDevice;
use super::values::reading;
use std::collections::HashSet;
use tieline_bacnet::client::{Change, Failure};
use tieline_bacnet::{ObjectId, PropertyId};
use tieline_core::{Now, PointId};

/// Subscriptions that are asked for at a time: reads and commands have their turn between them.
const SUBSCRIBE_AT_ONCE: usize = 8;

impl BacnetDevice {
    pub(super) fn subscriptions(&self) -> usize {
        self.subscribed.borrow().len()
    }

    pub(super) fn subscribe_all(&self) {
        *self.to_subscribe.borrow_mut() = self.told.keys().copied().collect();
        (0..SUBSCRIBE_AT_ONCE).for_each(|_| self.subscribe_next());
    }

    fn subscribe_next(&self) {
        self.is_changed.set(true);
        let Some(object) = self.to_subscribe.borrow_mut().pop_front() else { return };
        let asked = self.link.with(|site, now| {
            site.call(self.member, |device, client| {
                let asked = device.subscribe(now, object);
                device.handle_timeout(now, client);
                asked
            })
        });
        if let Some(Err(error)) = asked {
            tracing::warn!(device = %self.topic, %object, %error, "changes are not asked for: the point is polled");
        }
    }

    pub(super) fn changed(&self, now: Now, change: &Change) {
        let Some(points) = self.told.get(&change.object) else { return };
        let find = |wanted| change.values.iter().find(|(property, index, _)| *property == wanted && index.is_none());
        let Some((_, _, value)) = find(PropertyId::PRESENT_VALUE) else { return };
        let flags = find(PropertyId::STATUS_FLAGS).map(|(_, _, flags)| flags).filter(|_| self.config.status_flags);
        self.changes.update(|changes| changes + 1);
        self.past.heard(now);
        if !self.presence.is_online() {
            return;
        }
        let Some(reporter) = self.reporter() else { return };
        let read = |number: &u32| Some(reading(PointId(*number), value, self.plan.point(*number)?.kind, flags));
        reporter.batch(now, points.iter().filter_map(read));
    }

    pub(super) fn subscribed(&self, object: ObjectId) {
        self.subscribed.borrow_mut().insert(object);
        self.subscribe_next();
    }

    pub(super) fn not_subscribed(&self, object: ObjectId, failure: &Failure) {
        self.note_unsubscribed(object, failure);
        self.subscribed.borrow_mut().remove(&object);
        self.subscribe_next();
    }

    /// Goes on with those of the device's configuration before, as far as they are the same.
    pub(super) fn take_subscriptions(&self, old: &Self) {
        let (kept, over): (HashSet<_>, HashSet<_>) =
            old.subscribed.take().into_iter().partition(|object| self.told.contains_key(object));
        let waiting = old.to_subscribe.take();
        let over = over.into_iter().chain(old.told.keys().copied().filter(|object| !self.told.contains_key(object)));
        self.link.with(|site, now| {
            site.call(self.member, |device, client| {
                over.for_each(|object| device.unsubscribe(object));
                device.handle_timeout(now, client);
            })
        });
        let new = self.told.keys().copied().filter(|object| !old.told.contains_key(object));
        *self.to_subscribe.borrow_mut() =
            waiting.into_iter().filter(|object| self.told.contains_key(object)).chain(new).collect();
        *self.subscribed.borrow_mut() = kept;
        if self.presence.is_online() {
            (0..SUBSCRIBE_AT_ONCE).for_each(|_| self.subscribe_next());
        }
    }

    fn note_unsubscribed(&self, object: ObjectId, failure: &Failure) {
        let said = "the device does not tell changes of an object, which is polled";
        if self.noted.borrow_mut().insert(u32::MAX) {
            tracing::warn!(device = %self.topic, %object, %failure, "{said}");
        } else {
            tracing::debug!(device = %self.topic, %object, %failure, "{said}");
        }
    }
}

//! Subscriptions of clients, and what is told to them.

use super::properties::UNKNOWN_OBJECT;
use super::transaction::Notifying;
use super::{Server, StatusFlags};
use crate::apdu::{Accepts, Apdu, apdu_code};
use crate::names::{ConfirmedService, ErrorClass, ErrorCode, UnconfirmedService};
use crate::service::{Notification, Subscription};
use crate::{ObjectId, Peer, PropertyId, ServiceError, Value};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// One subscriber's interest in one object.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    confirmed: bool,
    until: Option<Instant>,
    told: (Value, StatusFlags),
}

/// Object, subscriber and the subscriber's own number.
pub(super) type SubscriptionKey = (ObjectId, Peer, u32);

impl Server {
    pub(super) fn subscribe(
        &mut self,
        now: Now,
        peer: Peer,
        subscription: Subscription,
    ) -> Result<SubscriptionKey, ServiceError> {
        let key = (subscription.object, peer, subscription.process);
        let object = self.objects.get(&subscription.object).ok_or(UNKNOWN_OBJECT)?;
        if object.log.is_some() {
            return Err(ServiceError::new(ErrorClass::SERVICES, ErrorCode::OPTIONAL_FUNCTIONALITY_NOT_SUPPORTED));
        }
        let Some((confirmed, seconds)) = subscription.wanted else {
            self.subscriptions.remove(&key);
            return Ok(key);
        };
        if self.subscriptions.len() >= self.config.subscriptions_max && !self.subscriptions.contains_key(&key) {
            return Err(ServiceError::new(ErrorClass::RESOURCES, ErrorCode::NO_SPACE_TO_ADD_LIST_ELEMENT));
        }
        let until = (seconds > 0).then(|| now.mono + Duration::from_secs(u64::from(seconds)));
        let told = (object.present_value().clone(), object.status);
        self.subscriptions.insert(key, Subscribed { confirmed, until, told });
        Ok(key)
    }

    /// Tells subscribers of an object what has changed.
    pub(super) fn notify(&mut self, now: Now, id: ObjectId) {
        let Some(object) = self.objects.get(&id) else { return };
        let all = (id, Peer::direct(LOWEST), 0)..;
        let of_object = self.subscriptions.range(all).take_while(|((object, ..), _)| *object == id);
        let due: Vec<SubscriptionKey> =
            of_object.filter(|(_, subscribed)| object.has_changed(&subscribed.told)).map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.tell(now, key));
    }

    /// Tells one subscriber the value as it is.
    pub(super) fn tell(&mut self, now: Now, key: SubscriptionKey) {
        let (id, peer, process) = key;
        let (Some(object), Some(subscribed)) = (self.objects.get(&id), self.subscriptions.get_mut(&key)) else {
            return;
        };
        subscribed.told = (object.present_value().clone(), object.status);
        let mut list = Vec::with_capacity(24);
        Notification::emit_value(PropertyId::PRESENT_VALUE, object.present_value(), &mut list);
        Notification::emit_value(PropertyId::STATUS_FLAGS, &Value::BitString(object.status.bits()), &mut list);
        let (confirmed, remaining) =
            (subscribed.confirmed, subscribed.until.map_or(Duration::ZERO, |until| until.since(now.mono)));
        let mut parameters = Vec::with_capacity(48);
        Notification { process, device: self.device(), object: id, remaining, list: &list }.emit(&mut parameters);
        if confirmed {
            self.notify_confirmed(now, peer, parameters);
        } else {
            let service = UnconfirmedService::COV_NOTIFICATION;
            self.send(&peer, &Apdu::UnconfirmedRequest { service, parameters: &parameters });
        }
    }

    fn notify_confirmed(&mut self, now: Now, peer: Peer, parameters: Vec<u8>) {
        if self.notifying.len() >= self.config.transactions_max {
            self.counters.dropped += 1;
            return;
        }
        let ids = (0..=u8::MAX).map(|ahead| self.next_invoke_id.wrapping_add(ahead));
        let Some(invoke_id) = ids.into_iter().find(|id| !self.notifying.contains_key(&(peer, *id))) else { return };
        self.next_invoke_id = invoke_id.wrapping_add(1);
        let request = Apdu::ConfirmedRequest {
            segment: None,
            accepts: Accepts { segmented: false, segments_code: 0, apdu_code: apdu_code(self.config.max_apdu) },
            invoke_id,
            service: ConfirmedService::COV_NOTIFICATION,
            parameters: &parameters,
        };
        let mut apdu = Vec::with_capacity(parameters.len() + 4);
        request.emit(&mut apdu);
        self.send(&peer, &request);
        let deadline = now.mono + self.config.apdu_timeout;
        self.notifying.insert((peer, invoke_id), Notifying { apdu, retries_left: self.config.retries, deadline });
    }

    /// Ends subscriptions whose time is over.
    pub(super) fn end_subscriptions(&mut self, now: Instant) {
        self.subscriptions.retain(|_, subscribed| subscribed.until.is_none_or(|until| until > now));
    }

    pub(super) fn subscriptions_timeout(&self) -> Option<Instant> {
        self.subscriptions.values().filter_map(|subscribed| subscribed.until).min()
    }
}

/// The lowest address there is: where a range of subscribers begins.
const LOWEST: core::net::SocketAddrV4 = core::net::SocketAddrV4::new(core::net::Ipv4Addr::UNSPECIFIED, 0);

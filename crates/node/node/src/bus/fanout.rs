//! Fan-out of one update to all its subscribers: encoded once for each form that is asked for.

use super::client::Client;
use super::deltas::{Followed, Follower, SharedDelta};
use super::flow::Queued;
use super::wire::Wire;
use bytes::Bytes;
use std::sync::Arc;
use tieline_core::{Body, Instant, Now, Topic};
use tieline_mqtt::{
    AliasFrame, DeliverError, Delivery, Message, Properties, Qos, ServerSession, SubscriptionId, Version,
    encode_publish,
};
use tieline_net::Session;
use tieline_topics::{Applied, Change, Lane, Match};

/// More than this is not queued in a turn while the socket takes it.
const FLUSH_BYTES: usize = 64 * 1024;
/// The most that any update goes out with, and what the node's own updates go out with.
const NODE_QOS: Qos = Qos::AtLeastOnce;

/// One update being sent.
#[derive(Debug)]
pub struct Outgoing {
    message: Arc<Message>,
    qos: Qos,
    retained: bool,
    /// Whether it is pending for sessions over a restart: a publisher may be acknowledged because of that. What the
    /// node says itself it says again then.
    kept: bool,
    frames: [Option<Bytes>; 2],
    /// What changed, for those who know as much as the last one.
    shared_delta: Option<(SharedDelta, AliasFrame)>,
}

impl Outgoing {
    /// A client's message.
    #[must_use]
    pub fn published(message: Message, qos: Qos, retained: bool) -> Self {
        Self { message: Arc::new(message), qos, retained, kept: true, frames: [None, None], shared_delta: None }
    }

    /// An update of the node's own.
    #[must_use]
    pub fn of_node(topic: Topic, body: &Body, now: Instant, retained: bool) -> Self {
        let message = Message { topic, payload: body.to_payload(), properties: Properties::default(), received: now };
        Self { kept: false, ..Self::published(message, NODE_QOS, retained) }
    }

    /// Whether it is pending for sessions over a restart.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.kept && !matches!(self.qos, Qos::AtMostOnce)
    }

    /// Where it goes.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.message.topic
    }

    fn shared(&mut self, version: Version) -> Option<Bytes> {
        let at = usize::from(version == Version::V5);
        let slot = self.frames.get_mut(at)?;
        if slot.is_none() {
            *slot = encode_publish(version, &self.message, false, self.message.received);
        }
        slot.clone()
    }

    /// Gives a client the update. True when it has something that is to be sent at the end of the turn.
    ///
    /// # Errors
    /// The client's queue is full of messages that may not be dropped.
    pub fn offer(
        &mut self,
        now: Now,
        client: &mut Client,
        applied: Applied,
        to: &Match<'_>,
        followed: Option<&mut Followed>,
    ) -> Result<bool, DeliverError> {
        let qos = lower(self.qos, to.qos);
        // [MQTT-3.3.1-12]: RETAIN is 0 in a delivery to a subscription that exists, unless it asked for it as published.
        let retain = self.retained && to.retain_as_published;
        if to.lane == Lane::Protection {
            client.session.mark_urgent();
        }
        if qos != Qos::AtMostOnce {
            let delivery = self.delivery(to);
            let deliver = if self.kept { ServerSession::deliver_kept } else { ServerSession::deliver_tagged };
            return client.session.send_at(now, |wire, _| deliver(&mut wire.mqtt, delivery, 0)).map(|()| false);
        }
        if !retain && to.ids.is_empty() {
            match self.share_now(now, client, applied, to, followed) {
                Shared::Sent => return Ok(false),
                Shared::Queued => return Ok(true),
                Shared::Not => {}
            }
        }
        let (is_open, bytes_max) = client.session.look(|wire| (wire.mqtt.is_open(), wire.bytes_max()));
        if !is_open {
            return Err(DeliverError::Closed);
        }
        let Client { session, flow, identity, .. } = client;
        let flow = flow.get_or_insert_default();
        // Nothing is dropped for a socket that takes bytes.
        let is_clear = flow.pending.is_empty() && session.is_clear() && session.look(Wire::takes_frames);
        let room = if is_clear { usize::MAX } else { bytes_max };
        if flow.queue(now, applied, to, || self.delivery(to), room) == Queued::End {
            return Err(DeliverError::Full);
        }
        if is_clear && flow.log_bytes() > bytes_max / 2 {
            let mut out = Vec::new();
            session.look(|wire| flow.fill_early(now, identity.as_deref(), wire, &mut out));
            session.send(|wire, _| wire.push_shared(out.into()));
        }
        Ok(true)
    }

    /// Sends what may go at once, in a frame that others get too.
    fn share_now(
        &mut self,
        now: Now,
        client: &mut Client,
        applied: Applied,
        to: &Match<'_>,
        followed: Option<&mut Followed>,
    ) -> Shared {
        let Client { session, flow, follower, snapshots, .. } = client;
        let delivery_options = to.delivery_options;
        if flow.as_ref().is_some_and(|flow| !flow.is_empty()) || !delivery_options.is_newest() || !session.is_clear() {
            return Shared::Not;
        }
        if applied.change != Change::Stored {
            return if delivery_options.is_default() { self.share(now, session) } else { Shared::Not };
        }
        // A value that cannot go at once is read again when it can.
        if delivery_options.wants_deltas() && !snapshots.is_empty() {
            return Shared::Not;
        }
        if delivery_options.window() > 0
            && !flow.get_or_insert_default().pending.pass(now.mono, to.lane, delivery_options)
        {
            return Shared::Not;
        }
        match (follower.as_deref().filter(|_| delivery_options.wants_deltas()), followed) {
            (None, _) => self.share(now, session),
            (Some(follower), Some(followed)) => self.share_delta(now, session, followed, follower),
            (Some(_), None) => Shared::Not,
        }
    }

    /// Sends the frame that all sessions share.
    fn share(&mut self, now: Now, session: &Session<Wire>) -> Shared {
        match session.look(|wire| self.shared(wire.mqtt.version())) {
            Some(frame) => queue(now, session, frame),
            None => Shared::Not,
        }
    }

    /// Sends what changed of the topic since the session was told last, where that is all that it needs.
    fn share_delta(
        &mut self,
        now: Now,
        session: &Session<Wire>,
        followed: &mut Followed,
        follower: &Follower,
    ) -> Shared {
        let Some((shared_delta, place, alias)) = followed.shared_delta(follower) else { return Shared::Not };
        if self.shared_delta.as_ref().is_none_or(|(made, _)| *made != shared_delta) {
            let Some(payload) = followed.payload(shared_delta) else { return Shared::Not };
            let message = Message { payload, ..(*self.message).clone() };
            self.shared_delta = AliasFrame::new(&message, self.message.received).map(|frame| (shared_delta, frame));
        }
        let Some((_, frame)) = &self.shared_delta else { return Shared::Not };
        let shared = queue(now, session, frame.with(alias));
        if shared != Shared::Not {
            followed.leapt(place);
        }
        shared
    }

    /// The update as a message of the session's own.
    #[must_use]
    pub fn delivery(&self, to: &Match<'_>) -> Delivery {
        let qos = lower(self.qos, to.qos);
        let retain = self.retained && to.retain_as_published;
        let subscription_ids = to.ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect();
        Delivery { message: Arc::clone(&self.message), qos, retain, subscription_ids }
    }
}

/// What became of a frame for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    /// It is on its way.
    Sent,
    /// It goes out at the end of the turn.
    Queued,
    /// The session cannot have it, or there is none.
    Not,
}

/// Sends a frame to a session at once where another thread writes it, or queues it.
fn queue(now: Now, session: &Session<Wire>, frame: Bytes) -> Shared {
    if session.look(|wire| wire.passes(frame.len())) && session.send_past(now, &frame) {
        return Shared::Sent;
    }
    let queued = session.look(|wire| {
        let takes = !wire.is_output_held() && wire.mqtt.can_take_shared_frame(frame.len());
        takes.then(|| wire.push_shared(frame))?;
        Some((wire.waiting_bytes(), wire.bytes_max()))
    });
    if queued.is_some_and(|(bytes, bytes_max)| bytes > FLUSH_BYTES.min(bytes_max)) && session.is_clear() {
        session.send_at(now, |_, _| ());
    }
    if queued.is_some() { Shared::Queued } else { Shared::Not }
}

/// The lower of how a message was published and how it was subscribed.
#[must_use]
pub fn lower(published: Qos, subscribed: u8) -> Qos {
    let most = Qos::from_bits(subscribed).unwrap_or(Qos::AtMostOnce);
    if most.bits() < published.bits() { most } else { published }
}

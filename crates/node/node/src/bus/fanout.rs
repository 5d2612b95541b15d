//! Fan-out of one update to all its subscribers: encoded once for each form that is asked for.

use super::client::Client;
use super::deltas::{Followed, Follower, SharedDelta};
use super::flow::Queued;
use super::frames::{FrameBytes, FrameRoom, Frames};
use super::passages::Passages;
use super::wire::Wire;
use crate::access::Serial;
use std::cell::OnceCell;
use std::sync::Arc;
use tieline_core::{Body, Instant, Now, Topic};
use tieline_mqtt::{AliasFrame, DeliverError, Delivery, Message, Properties, Qos, ServerSession, SubscriptionId};
use tieline_net::Session;
use tieline_topics::{Applied, Change, Lane, Match};

/// More than this is not queued in a turn while the socket takes it.
const FLUSH_BYTES: usize = 64 * 1024;
/// The most that any update goes out with, and what the node's own updates go out with.
const NODE_QOS: Qos = Qos::AtLeastOnce;

/// One update being sent.
#[derive(Debug)]
pub struct Outgoing {
    message: Message,
    /// The same, shared: for sessions that keep it.
    kept_message: OnceCell<Arc<Message>>,
    qos: Qos,
    retained: bool,
    /// Whether it is pending for sessions over a restart: a publisher may be acknowledged because of that. What the
    /// node says itself it says again then.
    kept: bool,
    frames: Frames,
    /// Room for them.
    room: FrameRoom,
    /// What changed, for those who know as much as the last one.
    shared_delta: Option<(SharedDelta, AliasFrame)>,
}

impl Outgoing {
    /// A client's message.
    #[must_use]
    pub fn published(message: Message, qos: Qos, retained: bool) -> Self {
        Self {
            message,
            kept_message: OnceCell::new(),
            qos,
            retained,
            kept: true,
            frames: Frames::default(),
            room: FrameRoom::default(),
            shared_delta: None,
        }
    }

    /// An update of the node's own.
    #[must_use]
    pub fn of_node(topic: Topic, body: &Body, now: Instant, retained: bool) -> Self {
        let message = Message { topic, payload: body.to_payload(), properties: Properties::default(), received: now };
        Self { kept: false, ..Self::published(message, NODE_QOS, retained) }
    }

    /// A message of the upstream.
    #[must_use]
    pub fn passed_on(message: Message, retained: bool) -> Self {
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

    /// Makes its frames in this room, which is given back by [`Outgoing::give_back`].
    pub(super) fn with_room(&mut self, room: &mut FrameRoom) {
        self.room = std::mem::take(room);
    }

    /// The room, where its frames are not kept by anybody.
    pub(super) fn give_back(&mut self, room: &mut FrameRoom) {
        self.frames.give_back(&mut self.room);
        *room = std::mem::take(&mut self.room);
    }

    /// Sends a client the update past all that is known of it, where all clients are sent the same and it has a passage;
    /// false where the update is to go another way.
    #[inline(never)]
    pub(super) fn pass(&mut self, key: usize, serial: Serial, to: &Match<'_>, passages: &mut Passages) -> bool {
        if !to.delivery_options.is_default() || self.shared_retain(to) != Some(false) {
            return false;
        }
        let Self { frames, message, room, .. } = self;
        let (update, is_urgent) = ((serial, &*message.topic), to.lane == Lane::Protection);
        passages.write(key, update, is_urgent, |version| frames.of(version, message, room).map(|frame| frame.shared()))
    }

    /// Whether a client is sent RETAIN, where it takes the update without an identifier or an acknowledgement: as others do.
    fn shared_retain(&self, to: &Match<'_>) -> Option<bool> {
        // [MQTT-3.3.1-12]: RETAIN is 0 in a delivery to a subscription that exists, unless it asked for it as published.
        let retain = self.retained && to.retain_as_published;
        (lower(self.qos, to.qos) == Qos::AtMostOnce && to.ids.is_empty()).then_some(retain)
    }

    /// Gives a client the update.
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
    ) -> Result<Offered, DeliverError> {
        if to.lane == Lane::Protection {
            client.session.mark_urgent();
            client.session.look(Wire::hurry);
        }
        if lower(self.qos, to.qos) != Qos::AtMostOnce {
            let delivery = self.delivery(to);
            let deliver = if self.kept { ServerSession::deliver_kept } else { ServerSession::deliver_tagged };
            return client.session.send_at(now, |wire, _| deliver(&mut wire.mqtt, delivery, 0)).map(|()| Offered::Sent);
        }
        if let Some(retain) = self.shared_retain(to) {
            match self.share_now(now, client, (applied, retain), to, followed) {
                Shared::Sent => return Ok(Offered::Passed),
                Shared::Queued => return Ok(Offered::Queued),
                Shared::Not => {}
            }
        }
        let (is_open, bytes_max) = client.session.look(|wire| (wire.mqtt.is_open(), wire.bytes_max()));
        if !is_open {
            return Err(DeliverError::Closed);
        }
        client.flow_mut();
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
        Ok(Offered::Queued)
    }

    /// Sends what may go at once, in a frame that others get too.
    fn share_now(
        &mut self,
        now: Now,
        client: &mut Client,
        (applied, retain): (Applied, bool),
        to: &Match<'_>,
        followed: Option<&mut Followed>,
    ) -> Shared {
        let Client { session, flow, follower, snapshots, .. } = client;
        let delivery_options = to.delivery_options;
        if flow.as_ref().is_some_and(|flow| !flow.is_empty()) || !delivery_options.is_newest() || !session.is_clear() {
            return Shared::Not;
        }
        // Only frames of deltas are made with RETAIN.
        if retain && !delivery_options.wants_deltas() {
            return Shared::Not;
        }
        if applied.change != Change::Stored {
            return if delivery_options.is_default() && !retain { self.share(now, session) } else { Shared::Not };
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
            (None, _) if !retain => self.share(now, session),
            (Some(follower), Some(followed)) => self.share_delta(now, session, (followed, retain), follower),
            (None, _) | (Some(_), None) => Shared::Not,
        }
    }

    /// Sends the frame that all sessions share.
    fn share(&mut self, now: Now, session: &Session<Wire>) -> Shared {
        let version = session.look(|wire| wire.mqtt.version());
        match self.frames.of(version, &self.message, &mut self.room) {
            Some(frame) => queue(now, session, frame.bytes_mut()),
            None => Shared::Not,
        }
    }

    /// Sends what changed of the topic since the session was told last, where that is all that it needs.
    fn share_delta(
        &mut self,
        now: Now,
        session: &Session<Wire>,
        (followed, retain): (&mut Followed, bool),
        follower: &Follower,
    ) -> Shared {
        let Some((shared_delta, place, alias)) = followed.shared_delta(follower) else { return Shared::Not };
        if self.shared_delta.as_ref().is_none_or(|(made, _)| *made != shared_delta) {
            let Some(payload) = followed.payload(shared_delta) else { return Shared::Not };
            let message = Message { payload, ..self.message.clone() };
            self.shared_delta = AliasFrame::new(&message, self.message.received).map(|frame| (shared_delta, frame));
        }
        let Some((_, frame)) = &self.shared_delta else { return Shared::Not };
        let gathered = session
            .look(|wire| wire.gathers().then(|| wire.gather(frame.len(), |out| frame.append(alias, retain, out))));
        let shared = match gathered {
            Some(waiting) => queued(now, session, waiting),
            None => queue(now, session, &mut FrameBytes::Shared(frame.with(alias, retain))),
        };
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
        let message = self.kept_message.get_or_init(|| Arc::new(self.message.clone()));
        Delivery { message: Arc::clone(message), qos, retain, subscription_ids }
    }
}

/// What became of an update for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It went in a shared frame past the session: the next one may, too.
    Passed,
    /// It is the session's.
    Sent,
    /// It goes out at the end of the turn.
    Queued,
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
fn queue(now: Now, session: &Session<Wire>, frame: &mut FrameBytes) -> Shared {
    let len = frame.as_slice().len();
    if session.look(|wire| wire.passes(len)) && session.send_past(now, frame.as_slice()) {
        return Shared::Sent;
    }
    session.close_passage();
    let waiting = session.look(|wire| wire.queue(frame));
    queued(now, session, waiting)
}

/// What became of a frame, by the bytes that wait with it and that may: many go at once.
fn queued(now: Now, session: &Session<Wire>, waiting: Option<(usize, usize)>) -> Shared {
    let Some((bytes, bytes_max)) = waiting else { return Shared::Not };
    if bytes > FLUSH_BYTES.min(bytes_max) && session.is_clear() {
        session.send_at(now, |_, _| ());
    }
    Shared::Queued
}

/// The lower of how a message was published and how it was subscribed.
#[must_use]
pub fn lower(published: Qos, subscribed: u8) -> Qos {
    let most = Qos::from_bits(subscribed).unwrap_or(Qos::AtMostOnce);
    if most.bits() < published.bits() { most } else { published }
}

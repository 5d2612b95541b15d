//! What a message of a client, or of the upstream, does to the bus.

use super::fanout::Outgoing;
use super::retained::{PublishMetadata, copied};
use super::state::Bus;
use tieline_core::{Body, Now, Update};
use tieline_delta::ReadyDelta;
use tieline_mqtt::{Message, Qos};
use tieline_topics::{Applied, Change, SubscriberId, TreeError};

/// Where a message comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// A client; none where that is not told, or the node itself.
    Client(Option<SubscriberId>),
    /// The upstream, which says it again after a restart; with what leads to the value from the one before, and with its version
    /// there, where these are known.
    Upstream(Option<&'a ReadyDelta>, Option<u64>),
}

impl Bus {
    /// A client's message, whose body is `body`: kept if it is to be retained, and sent to its subscribers.
    ///
    /// # Errors
    /// The tree is full.
    pub fn apply_message(
        &mut self,
        now: Now,
        message: Message,
        body: &Body,
        qos: Qos,
        retain: bool,
        from: Option<SubscriberId>,
    ) -> Result<(), TreeError> {
        self.apply_from(now, message, body, (qos, retain), Origin::Client(from)).map(drop)
    }

    /// The same for any origin; what became of the topic.
    pub(super) fn apply_from(
        &mut self,
        now: Now,
        message: Message,
        body: &Body,
        (qos, retain): (Qos, bool),
        origin: Origin<'_>,
    ) -> Result<Applied, TreeError> {
        self.counters.updates += 1;
        // A payload shares the bytes of its packet: what is kept for long is copied, to its size. A point was when it came in,
        // and so was what the upstream sends.
        let kept = match (body, origin) {
            (Body::Opaque(bytes), Origin::Client(_)) if retain => {
                Body::Opaque(copied(bytes, self.tree.take_replaced()))
            }
            (body, _) => body.clone(),
        };
        let (from, ready) = match origin {
            Origin::Client(from) => (from, None),
            Origin::Upstream(ready, _) => (None, ready),
        };
        let update = Update { topic: message.topic.clone(), body: kept };
        let admitted = if retain { self.retained.admit(&message) } else { Ok(()) };
        let applied = admitted.and_then(|()| self.tree.apply(now, update, retain));
        let applied = applied.inspect_err(|error| self.count_refused(&message.topic, error))?;
        self.statistics.count(applied.topic, &message.topic, message.payload.len());
        if self.deltas.topics() > 0 {
            // What a stream keeps is what the tree keeps, and not the packet.
            let kept = self.tree.view(applied.topic).map_or(body, |view| view.body);
            self.deltas.update_ready(applied, self.tree.replaced(), kept, ready);
        }
        if let Origin::Upstream(_, version) = origin
            && self.tree.adopt(applied.topic, version)
        {
            self.deltas.leap(applied.topic);
        }
        self.note(now, &message.topic, &applied, body, from);
        if retain {
            self.look_at(now, &message.topic, body);
        }
        match applied.change {
            Change::Stored => {
                self.tree.mark(applied.topic, PublishMetadata::mark(qos));
                self.retained.keep(&message, qos);
                if let Origin::Client(_) = origin {
                    self.keep_value(now, applied.topic, &message, qos);
                }
            }
            Change::Cleared => {
                self.retained.forget(&message.topic);
                self.forget_value(now, applied.topic, &message.topic);
            }
            Change::Passed => {}
        }
        let source = self.deriving.is_some().then(|| message.topic.clone());
        if self.site_events.is_some() {
            self.share_message(applied.topic, &message, qos, retain);
        }
        let outgoing = match origin {
            Origin::Client(_) => Outgoing::published(message, qos, retain),
            Origin::Upstream(..) => Outgoing::passed_on(message, retain),
        };
        self.send(now, applied, outgoing, from);
        if let Some(topic) = source.filter(|_| applied.change != Change::Passed) {
            self.derive(now, &topic, body);
        }
        Ok(applied)
    }
}

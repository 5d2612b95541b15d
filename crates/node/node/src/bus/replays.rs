//! Last values that sessions have not been sent yet, and how each is sent.

use super::client::{CHUNK, CHUNK_MIN};
use super::fanout::lower;
use super::flow::Source;
use super::retained::{PublishMetadata, Retained};
use crate::access::ClientIdentity;
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{Delivery, Message, Property, Qos, SubscriptionId, Text};
use tieline_topics::{Event, Last, Series, Snapshot, TopicId, View};

/// The user properties that say which event a message is, and when the node got it.
const SEQ: &str = "tieline-seq";
const TIME: &str = "tieline-time";

/// Last values that a session has not been sent yet, of each subscription that asked for them.
pub(super) type RetainedReplays = VecDeque<RetainedReplay>;

/// A subscription's last values, being sent.
#[derive(Debug)]
pub(super) struct RetainedReplay {
    pub(super) snapshot: Snapshot,
    pub(super) qos: Qos,
    pub(super) ids: Vec<SubscriptionId>,
    /// How topics that come as deltas start.
    pub(super) deltas: Option<DeltaStart>,
    /// How many of these are looked at next.
    pub(super) chunk: usize,
    /// Which events of topics that keep some are sent.
    pub(super) last: Option<Last>,
    /// The topic whose events are being sent, and the number of the last one that was.
    pub(super) within: Option<(TopicId, u64)>,
    /// The word that the client is told when all of this and all before it has been sent.
    pub(super) word: Option<Box<str>>,
    /// The stamp of the last value that is sent: later ones come to the subscription as updates. None where updates may
    /// have been lost since.
    pub(super) upto: Option<u64>,
}

/// How topics that come as deltas start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaStart {
    /// Their last values are sent now.
    Sent,
    /// Their next values are whole.
    Later,
}

impl RetainedReplay {
    /// From the first on.
    pub(super) fn new(snapshot: Snapshot, qos: Qos, id: Option<SubscriptionId>, last: Option<Last>) -> Self {
        Self {
            snapshot,
            qos,
            ids: id.into_iter().collect(),
            deltas: None,
            chunk: CHUNK_MIN,
            last,
            within: None,
            word: None,
            upto: None,
        }
    }

    /// Whether a value is one of those that are sent, and does not come as an update.
    pub(super) fn is_due(&self, stamp: u64) -> bool {
        self.upto.is_none_or(|upto| stamp <= upto)
    }

    /// The subscription's filter.
    pub(super) const fn filter(&self) -> &Filter {
        self.snapshot.filter()
    }

    /// Whether the topic is to start from a whole value.
    pub(super) fn renews(&self, topic: &Topic) -> bool {
        self.deltas.is_some() && self.snapshot.awaits(topic)
    }

    /// Queues the next last values, up to one for which there is no room: true then, and that one is still to come.
    pub(super) fn values(
        &mut self,
        source: &mut Source<'_>,
        identity: Option<&ClientIdentity>,
        mut queue: impl FnMut(Delivery) -> bool,
    ) -> bool {
        let (now, retained) = (source.now, source.retained);
        let mut place = self.snapshot.place().cloned();
        for view in source.tree.next(&mut self.snapshot, CHUNK) {
            let may = self.is_due(view.stamp) && identity.is_none_or(|identity| identity.may_read(view.topic));
            if may && !queue(self.delivery(&view, retained, now)) {
                self.snapshot.return_to(place);
                return true;
            }
            place = Some(view.topic.clone());
        }
        false
    }

    /// The same with the events of topics that keep some, oldest first, in the place of their last values.
    pub(super) fn events(
        &mut self,
        last: Last,
        source: &mut Source<'_>,
        series: &Series,
        identity: Option<&ClientIdentity>,
        mut queue: impl FnMut(Delivery) -> bool,
    ) -> bool {
        let (now, retained, upto) = (source.now, source.retained, self.upto);
        let is_due = |stamp: u64| upto.is_none_or(|upto| stamp <= upto);
        let mut count = 0;
        while count < CHUNK {
            let (id, seq) = match self.within.take() {
                Some(within) => within,
                None => {
                    let place = self.snapshot.place().cloned();
                    let Some(view) = source.tree.next(&mut self.snapshot, 1).pop() else { break };
                    if identity.is_some_and(|identity| !identity.may_read(view.topic)) {
                        continue;
                    }
                    let Some(seq) = series.before_last(view.id, last) else {
                        if is_due(view.stamp) {
                            if !queue(self.delivery(&view, retained, now)) {
                                self.snapshot.return_to(place);
                                return true;
                            }
                            count += 1;
                        }
                        continue;
                    };
                    (view.id, seq)
                }
            };
            // Its value may have gone, and its events with it.
            let Some(view) = source.tree.view(id) else { continue };
            let mut sent = seq;
            for event in series.after(id, seq).take_while(|event| is_due(event.stamp)).take(CHUNK - count) {
                if !queue(self.event(&view, event, retained, now)) {
                    self.within = Some((id, sent));
                    return true;
                }
                (sent, count) = (event.seq, count + 1);
            }
            self.within = series.after(id, sent).next().filter(|event| is_due(event.stamp)).map(|_| (id, sent));
        }
        false
    }

    /// An event, with its number and its time.
    fn event(&self, view: &View<'_>, event: &Event, retained: &Retained, now: Now) -> Delivery {
        let (topic, payload) = (view.topic.clone(), event.body.to_payload());
        let text = |text: &str| Text::truncated(text);
        let seq = Property::UserProperty((text(SEQ), text(&event.seq.to_string())));
        let time = Property::UserProperty((text(TIME), text(&event.time.to_string())));
        let message = Message { topic, payload, properties: [seq, time].into_iter().collect(), received: now.mono };
        let qos = lower(retained.metadata(view, now.mono).qos, self.qos.bits());
        Delivery { message: Arc::new(message), qos, retain: true, subscription_ids: self.ids.clone() }
    }

    fn delivery(&self, view: &View<'_>, retained: &Retained, now: Now) -> Delivery {
        let (topic, payload) = (view.topic.clone(), view.body.to_payload());
        let PublishMetadata { qos, properties, received } = retained.metadata(view, now.mono);
        let message = Message { topic, payload, properties, received };
        // [MQTT-3.8.4-8]: the lower of how it was published and how it is subscribed.
        let (qos, subscription_ids) = (lower(qos, self.qos.bits()), self.ids.clone());
        Delivery { message: Arc::new(message), qos, retain: true, subscription_ids }
    }
}

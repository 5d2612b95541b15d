//! Receipts: what history and the ledger are given, and the acknowledgements that wait until they have it.

use super::ledger::PendingAck;
use super::reasons;
use super::state::{Bus, Subscriber, id_of, key_of};
use crate::field::{self, FieldInput};
use tieline_core::{Body, Now, Point, Quality, Update};
use tieline_journal::Sample;
use tieline_mqtt::{Message, PacketId, Qos};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

/// Who waits until something is stored.
#[derive(Debug)]
pub enum Receipt {
    /// A client's QoS 1 or 2 message.
    Client {
        /// Its key on the bus.
        key: usize,
        /// Which session has the key.
        number: u64,
        /// What is to be acknowledged.
        packet_id: PacketId,
        /// What the ledger has to hold by then; 0 for nothing.
        batch_number: u64,
    },
    /// A device's events.
    Field(field::Receipt),
    /// A call of the API.
    Call {
        /// Who hears of it.
        answer: oneshot::Sender<bool>,
        /// What the ledger has to hold by then; 0 for nothing.
        batch_number: u64,
    },
}

impl Receipt {
    /// What the ledger has to hold before it is answered; 0 for nothing.
    #[must_use]
    pub const fn batch_number(&self) -> u64 {
        match self {
            Self::Client { batch_number, .. } | Self::Call { batch_number, .. } => *batch_number,
            Self::Field(_) => 0,
        }
    }
}

impl Bus {
    /// Acknowledges to the publisher that history has stored it, or refuses.
    pub fn handle_stored(&mut self, now: Now, receipts: Vec<Receipt>, stored: bool) {
        for receipt in receipts {
            let batch_number = receipt.batch_number();
            match receipt {
                // The ledger has it, too, before anybody is told.
                receipt @ (Receipt::Client { .. } | Receipt::Call { .. }) if stored && batch_number > 0 => {
                    self.ack(now, batch_number, PendingAck::Receipt(receipt));
                }
                Receipt::Client { key, number, packet_id, .. } => {
                    let stored = stored.then_some(()).ok_or(reasons::NOT_STORED);
                    self.answer_client(now, (key, number), packet_id, stored);
                }
                // Its device still has it, and is asked again.
                Receipt::Field(receipt) if receipt.is_past && !stored => {}
                // What history cannot take is counted there; the field goes on, or live values would stop too.
                Receipt::Field(receipt) => self.untold.push(receipt),
                Receipt::Call { answer, .. } => drop(answer.send(stored)),
            }
        }
        self.tell_untold();
    }

    /// Tells field shards that what their devices reported is stored. A shard that is too busy is told later, as is one that has
    /// just started and reports before the bus knows it.
    pub(super) fn tell_untold(&mut self) {
        let Self { untold, field, .. } = self;
        untold.retain(|receipt| match field.get(receipt.shard) {
            Some(shard) => matches!(shard.try_send(FieldInput::Settled(*receipt)), Err(TrySendError::Full(_))),
            None => true,
        });
    }

    /// Why a message cannot be stored as its sender wants it to be, as far as that is known before anything is done with it;
    /// none where it can. What is refused here was neither kept, recorded nor sent on.
    pub fn cannot_store(
        &mut self,
        message: &Message,
        update: &Update,
        qos: Qos,
        retain: bool,
        from: Option<usize>,
    ) -> Option<&'static str> {
        if qos == Qos::AtMostOnce {
            return None;
        }
        let bytes = message.payload.len() + message.topic.len();
        if self.ledger.batches.has_no_room(bytes) && (retain || self.is_owed(message, qos, from)) {
            self.ledger.batches.count_refused();
            return Some(reasons::CANNOT_KEEP);
        }
        self.recorder.refuses(update).then_some(reasons::CANNOT_STORE)
    }

    /// Whether the ledger would have to hold something for a session because of this message.
    fn is_owed(&mut self, message: &Message, qos: Qos, from: Option<usize>) -> bool {
        let is_kept = |subscriber: &Subscriber| match subscriber {
            Subscriber::Client(client) => client.kept.is_some(),
            Subscriber::Away(away) => away.kept.is_some(),
            // Who of them it goes to is seen when it does.
            Subscriber::Group(_) => true,
            Subscriber::Feed(_) => false,
        };
        let Self { tree, subscribers, .. } = self;
        let sender = from.and_then(|key| subscribers.get(key));
        if qos == Qos::ExactlyOnce && sender.is_some_and(is_kept) {
            return true;
        }
        let Some(topic) = tree.find(&message.topic) else {
            // Who wants a topic that the tree does not know is seen when it is applied.
            return subscribers.iter().any(|(_, subscriber)| is_kept(subscriber));
        };
        let mut owed = false;
        tree.matches(topic).for_each(from.map(id_of), |to| {
            owed |= to.qos > 0 && subscribers.get(key_of(to.subscriber)).is_some_and(is_kept);
        });
        owed
    }

    /// A client's message is acknowledged later.
    pub fn publish_waits(&mut self, now: Now, session: (usize, u64), packet_id: PacketId) {
        self.durations.publish_waits(now.mono, session, packet_id);
    }

    /// A client's message is acknowledged at once.
    pub fn publish_done(&mut self, since: Now) {
        self.durations.publish_done(since.mono, || self.shard.now().mono);
    }

    /// Gives an update to history; true when `receipt` will come back.
    pub fn record(&mut self, now: Now, update: &Update, receipt: Option<Receipt>) -> bool {
        match receipt {
            // It is for the ledger alone.
            Some(receipt) if receipt.batch_number() > 0 && !self.recorder.records(update) => {
                self.ack(now, receipt.batch_number(), PendingAck::Receipt(receipt));
                true
            }
            receipt => match self.recorder.record(now, update, receipt) {
                Ok(()) => true,
                Err(receipt) => {
                    answer_unrecorded(receipt);
                    false
                }
            },
        }
    }

    /// Gives a client's QoS 2 message to history, once the ledger has its identifier and the time that it is recorded with: so
    /// history has no message that comes again as a new one. True when the client will be answered.
    pub fn record_held(&mut self, now: Now, who: (usize, u64), packet_id: PacketId, update: &Update) -> bool {
        let (key, number) = who;
        let time = self.recorder.records(update).then(|| self.recorder.own_time(now));
        let kept = self.keep_held(now, key, packet_id, time);
        let batch_number = self.end_act(now).unwrap_or(0);
        let Some(time) = time.filter(|_| kept) else {
            return self.record(now, update, Some(Receipt::Client { key, number, packet_id, batch_number }));
        };
        let sample = Box::new(Sample::new(time, update.clone()));
        let receipt = Receipt::Client { key, number, packet_id, batch_number: 0 };
        self.ack(now, batch_number, PendingAck::Record { sample, receipt });
        true
    }

    /// Gives history a QoS 2 message that was taken before the node started, and that history may lack. True when the client
    /// will be answered.
    pub fn record_again(&mut self, (key, number): (usize, u64), packet_id: PacketId, update: &Update) -> bool {
        let time = self.held_sample(key, packet_id).filter(|_| self.recorder.records(update));
        let Some(time) = time else { return false };
        let sample = Sample { again: true, ..Sample::new(time, update.clone()) };
        self.recorder.record_sample(sample, Some(Receipt::Client { key, number, packet_id, batch_number: 0 }));
        true
    }

    /// Points are recorded; the documents that repeat them are not. A point that this node found wanting keeps the
    /// time of its value on the bus; in history it stands where that was found.
    pub(super) fn record_node(&mut self, now: Now, update: &Update) {
        const FOUND_HERE: Quality = Quality::AWAY.with(Quality::STALE).with(Quality::INITIAL);
        let Body::Point(point) = &update.body else { return };
        if point.quality.without(FOUND_HERE) == point.quality {
            let _ = self.recorder.record(now, update, None);
        } else {
            let point = Point { time: now.utc, ..point.clone() };
            let moved = Update { topic: update.topic.clone(), body: Body::Point(point) };
            let _ = self.recorder.record(now, &moved, None);
        }
    }
}

/// What is not recorded needs no receipt: only a call has to be told.
fn answer_unrecorded(receipt: Option<Receipt>) {
    if let Some(Receipt::Call { answer, .. }) = receipt {
        let _ = answer.send(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use crate::bus::turn::UNTOLD_EVERY;
    use crate::field::Lane;
    use tieline_core::{DeviceId, Instant};
    use tokio::sync::mpsc;

    #[test]
    fn a_shard_that_reports_before_it_is_known_hears_that_it_is_stored() {
        let (mut bus, _rest) = alone();
        let receipt =
            |shard| field::Receipt { shard, device: DeviceId(7), lane: Lane::Main, fragments: 1, is_past: false };
        let stored = [0, 1].map(|shard| Receipt::Field(receipt(shard)));
        bus.handle_stored(Now::default(), stored.into(), true);
        let (senders, mut shards): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(4)).unzip();
        bus.set_field(senders);
        for (shard, inputs) in shards.iter_mut().enumerate() {
            let Ok(FieldInput::Settled(told)) = inputs.try_recv() else { panic!("shard {shard} hears nothing") };
            assert_eq!(told, receipt(shard));
            assert!(inputs.try_recv().is_err());
        }
    }

    #[test]
    fn a_shard_that_is_busy_hears_later_what_is_stored() {
        const DEVICES: u16 = 20;
        let (mut bus, _rest) = alone();
        let (sender, mut inputs) = mpsc::channel(4);
        bus.set_field(vec![sender]);
        let receipt = |device| field::Receipt {
            shard: 0,
            device: DeviceId(device),
            lane: Lane::Main,
            fragments: 1,
            is_past: false,
        };
        let stored = (0..DEVICES).map(|device| Receipt::Field(receipt(device.into()))).collect();
        let now = Now::default();
        bus.handle_stored(now, stored, true);
        let mut told = Vec::new();
        loop {
            let heard = std::iter::from_fn(|| inputs.try_recv().ok()).count();
            told.push(heard);
            if heard == 0 {
                break;
            }
            let is_busy = !bus.untold.is_empty();
            let due = bus.deadline(now, Instant(u64::MAX));
            assert!(!is_busy || due <= now.mono + UNTOLD_EVERY, "nothing wakes the bus");
            bus.tell_untold();
        }
        assert_eq!(told, [4, 4, 4, 4, 4, 0]);
    }
}

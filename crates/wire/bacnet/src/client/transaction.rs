//! Transactions (clause 5.4.4): a request on its way, by whole or by segments, and its answer, by whole or by segments.

use super::{Client, Event, Failure, PeerLimits, RequestId};
use crate::Peer;
use crate::apdu::{Apdu, Segment};
use crate::names::{AbortReason, ConfirmedService};
use crate::segments::{Acked, Arrived, Incoming, Outgoing};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::{Instant, Now};

/// Which request of which peer.
pub(super) type Key = (Peer, u8);

/// Bytes of the header of a request, and of a segment of one.
const HEADER_BYTES: usize = 4;
const SEGMENT_HEADER_BYTES: usize = 6;
/// Segments of a request to a peer that does not say how many it takes.
const SEGMENTS_MAX: usize = 64;
/// Finished answers of which the last acknowledgement can be said again.
const FINISHED_MAX: usize = 32;

#[derive(Debug)]
enum State {
    /// The request goes out by segments.
    Sending(Outgoing),
    /// The request is out.
    Waiting,
    /// The answer comes in by segments.
    Receiving(Incoming),
}

#[derive(Debug)]
pub(super) struct Transaction {
    id: RequestId,
    service: ConfirmedService,
    /// Empty while [`State::Sending`] has them.
    parameters: Vec<u8>,
    state: State,
    retries_left: u8,
    deadline: Instant,
}

/// The last acknowledgements of answers by segments, for peers that did not get them.
#[derive(Debug, Default)]
pub(super) struct Finished(VecDeque<(Key, u8, u8)>);

impl Finished {
    fn add(&mut self, key: Key, sequence: u8, window: u8) {
        self.remove(&key);
        if self.0.len() >= FINISHED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key, sequence, window));
    }

    fn remove(&mut self, key: &Key) {
        self.0.retain(|(other, ..)| other != key);
    }

    fn acknowledgement(&self, key: &Key) -> Option<(u8, u8)> {
        self.0.iter().find(|(other, ..)| other == key).map(|(_, sequence, window)| (*sequence, *window))
    }
}

/// Bytes of parameters that a peer takes, by segments where it takes them.
pub(super) fn parameters_max(limits: PeerLimits) -> usize {
    let whole = usize::from(limits.max_apdu).saturating_sub(HEADER_BYTES);
    if !limits.segmentation.receives() {
        return whole;
    }
    let segments = limits.max_segments.map_or(SEGMENTS_MAX, |segments| usize::from(segments).max(1));
    whole.max(segment_bytes(limits) * segments)
}

fn segment_bytes(limits: PeerLimits) -> usize {
    usize::from(limits.max_apdu).saturating_sub(SEGMENT_HEADER_BYTES).max(1)
}

impl Client {
    /// Sends requests that wait, as many as the limits let.
    pub(super) fn start_requests(&mut self, now: Now) {
        while self.transactions.len() < self.config.in_flight && self.transmits.len() < self.config.transmits_max {
            let transactions = &self.transactions;
            let next = self.peers.next(|peer, invoke_id| !transactions.contains_key(&(*peer, invoke_id)));
            let Some((peer, invoke_id, pending)) = next else { return };
            let key = (peer, invoke_id);
            self.finished.remove(&key);
            self.counters.requests += 1;
            let is_write =
                matches!(pending.service, ConfirmedService::WRITE_PROPERTY | ConfirmedService::WRITE_PROPERTY_MULTIPLE);
            let transaction = Transaction {
                id: pending.id,
                service: pending.service,
                parameters: pending.parameters,
                state: State::Waiting,
                retries_left: if is_write { self.config.write_retries } else { self.config.retries },
                deadline: Instant::ZERO,
            };
            self.transactions.insert(key, transaction);
            self.begin(now, key);
        }
    }

    /// Sends a request from its start.
    fn begin(&mut self, now: Now, key: Key) {
        let limits = self.peers.limits(&key.0);
        let accepts = self.accepts();
        let Some(transaction) = self.transactions.get_mut(&key) else { return };
        if transaction.parameters.len() + HEADER_BYTES > usize::from(limits.max_apdu) {
            let parameters = core::mem::take(&mut transaction.parameters);
            transaction.state = State::Sending(Outgoing::new(parameters, segment_bytes(limits)));
            return self.send_window(now, key);
        }
        let (service, parameters) = (transaction.service, core::mem::take(&mut transaction.parameters));
        let request =
            Apdu::ConfirmedRequest { segment: None, accepts, invoke_id: key.1, service, parameters: &parameters };
        self.send_apdu(&key.0, &request);
        if let Some(transaction) = self.transactions.get_mut(&key) {
            transaction.parameters = parameters;
        }
        self.wait(key, now.mono + self.config.apdu_timeout);
    }

    /// Sends the segments of a request that may go now.
    fn send_window(&mut self, now: Now, key: Key) {
        let accepts = self.accepts();
        let Some(mut transaction) = self.transactions.remove(&key) else { return };
        if let State::Sending(outgoing) = &transaction.state {
            for place in outgoing.window() {
                let part = outgoing.part(place);
                let window = self.config.window;
                let segment = Segment { sequence: part.sequence, window, more_follows: part.more_follows };
                let request = Apdu::ConfirmedRequest {
                    segment: Some(segment),
                    accepts,
                    invoke_id: key.1,
                    service: transaction.service,
                    parameters: part.bytes,
                };
                self.send_apdu(&key.0, &request);
            }
        }
        self.deadlines.remove(transaction.deadline, key);
        transaction.deadline = now.mono + self.config.segment_timeout;
        self.deadlines.add(transaction.deadline, key);
        self.transactions.insert(key, transaction);
    }

    fn wait(&mut self, key: Key, until: Instant) {
        if let Some(transaction) = self.transactions.get_mut(&key) {
            self.deadlines.remove(transaction.deadline, key);
            transaction.deadline = until;
            self.deadlines.add(until, key);
        }
    }

    /// A deadline has passed.
    pub(super) fn expire(&mut self, now: Now, key: Key) {
        let Some(transaction) = self.transactions.get_mut(&key) else { return };
        let is_receiving = matches!(transaction.state, State::Receiving(_));
        if transaction.retries_left == 0 {
            self.counters.timeouts += 1;
            if is_receiving {
                self.abort(&key, AbortReason::TSM_TIMEOUT);
            }
            return self.finish(now, key, Err(Failure::TimedOut));
        }
        transaction.retries_left -= 1;
        self.counters.retries += 1;
        match &mut transaction.state {
            State::Sending(_) => self.send_window(now, key),
            State::Waiting => self.begin(now, key),
            State::Receiving(incoming) => {
                // The rest of a window was lost: its sender learns what has arrived, and does not give up for want of it.
                let (sequence, window) = (incoming.sequence(), incoming.window());
                incoming.acknowledged();
                self.acknowledge(&key, false, sequence, window);
                self.wait(key, now.mono + self.config.segment_timeout / 2);
            }
        }
    }

    /// Ends a transaction, tells what it came to, and lets the next begin.
    pub(super) fn finish(&mut self, now: Now, key: Key, result: Result<Vec<u8>, Failure>) {
        let Some(transaction) = self.transactions.remove(&key) else { return };
        self.deadlines.remove(transaction.deadline, key);
        self.peers.ended(&key.0);
        let Transaction { id, service, .. } = transaction;
        self.events.push_back(Event::Answer { id, peer: key.0, service, result });
        self.start_requests(now);
    }

    pub(super) fn abort(&mut self, key: &Key, reason: AbortReason) {
        self.send_apdu(&key.0, &Apdu::Abort { from_server: false, invoke_id: key.1, reason });
    }

    /// Whether a request waits for the answer to this service.
    pub(super) fn is_expected(&mut self, key: &Key, service: ConfirmedService) -> bool {
        let is_expected = self.transactions.get(key).is_some_and(|transaction| transaction.service == service);
        if !is_expected {
            self.counters.unexpected += 1;
        }
        is_expected
    }

    /// Whether a message without a service answers a request.
    pub(super) fn is_open(&mut self, key: &Key) -> bool {
        let is_open = self.transactions.contains_key(key);
        if !is_open {
            self.counters.unexpected += 1;
        }
        is_open
    }

    /// The peer has segments of a request.
    pub(super) fn handle_segment_ack(&mut self, now: Now, key: Key, negative: bool, sequence: u8, window: u8) {
        let Some(transaction) = self.transactions.get_mut(&key) else {
            self.counters.unexpected += 1;
            return;
        };
        let State::Sending(outgoing) = &mut transaction.state else { return };
        match outgoing.acknowledge(negative, sequence, window) {
            Acked::Nothing => {}
            Acked::Window => {
                transaction.retries_left = self.config.retries;
                self.send_window(now, key);
            }
            Acked::Done => {
                if let State::Sending(outgoing) = core::mem::replace(&mut transaction.state, State::Waiting) {
                    transaction.parameters = outgoing.into_message();
                }
                self.wait(key, now.mono + self.config.apdu_timeout);
            }
        }
    }

    /// A segment of an answer.
    pub(super) fn handle_segment(
        &mut self,
        now: Now,
        key: Key,
        service: ConfirmedService,
        segment: Segment,
        bytes: &[u8],
    ) {
        let expected = self.transactions.get_mut(&key).filter(|transaction| transaction.service == service);
        let Some(transaction) = expected else { return self.handle_late_segment(key) };
        let window = segment.window.min(self.config.window);
        let State::Receiving(incoming) = &mut transaction.state else {
            if segment.sequence == 0 {
                let incoming = Incoming::new(bytes, window, self.config.answer_bytes_max);
                transaction.state = State::Receiving(incoming);
                self.acknowledge(&key, false, 0, window);
                if !segment.more_follows {
                    self.complete(now, key);
                } else {
                    self.wait(key, now.mono + self.config.segment_timeout / 2);
                }
            }
            return;
        };
        transaction.retries_left = self.config.retries.saturating_mul(2).saturating_add(1);
        let arrived = incoming.take(segment.sequence, segment.more_follows, bytes);
        let (sequence, window) = (incoming.sequence(), incoming.window());
        match arrived {
            Arrived::Quiet => {}
            Arrived::Acknowledge { negative } => self.acknowledge(&key, negative, sequence, window),
            Arrived::Complete => {
                self.acknowledge(&key, false, sequence, window);
                return self.complete(now, key);
            }
            Arrived::TooLong => {
                self.abort(&key, AbortReason::BUFFER_OVERFLOW);
                return self.finish(now, key, Err(Failure::AnswerTooLong));
            }
        }
        self.wait(key, now.mono + self.config.segment_timeout / 2);
    }

    /// The last segment is there.
    fn complete(&mut self, now: Now, key: Key) {
        let Some(transaction) = self.transactions.get_mut(&key) else { return };
        if let State::Receiving(incoming) = core::mem::replace(&mut transaction.state, State::Waiting) {
            self.finished.add(key, incoming.sequence(), incoming.window());
            self.finish(now, key, Ok(incoming.into_message()));
        }
    }

    /// A segment of an answer that is complete, or was given up: its sender shall stop.
    fn handle_late_segment(&mut self, key: Key) {
        self.counters.unexpected += 1;
        match self.finished.acknowledgement(&key) {
            Some((sequence, window)) => self.acknowledge(&key, false, sequence, window),
            None if !self.transactions.contains_key(&key) => self.abort(&key, AbortReason::INVALID_APDU_IN_THIS_STATE),
            None => {}
        }
    }

    fn acknowledge(&mut self, key: &Key, negative: bool, sequence: u8, window: u8) {
        let acknowledgement =
            Apdu::SegmentAck { negative, from_server: false, invoke_id: key.1, sequence, window: window.max(1) };
        self.send_apdu(&key.0, &acknowledgement);
    }
}

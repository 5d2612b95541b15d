//! Transactions of a server (clause 5.4.5): long answers by segments, long requests by segments, notifications that are
//! confirmed, and answers that are given again to a request that is repeated.

use super::Server;
use crate::Peer;
use crate::apdu::{Accepts, Apdu, Segment, apdu_bytes_of_code, segments_of_code};
use crate::names::{AbortReason, ConfirmedService};
use crate::segments::{Acked, Arrived, Incoming, Outgoing};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// Bytes of the header of an answer, and of a segment of one.
const HEADER_BYTES: usize = 3;
const SEGMENT_HEADER_BYTES: usize = 5;
/// How many times the segment time-out a request may stall between segments.
const STALL: u32 = 4;
/// Answers that are kept for repeated requests, and for how long.
const ANSWERS_MAX: usize = 64;
const ANSWERS_KEPT: Duration = Duration::from_secs(30);

/// A long answer on its way.
#[derive(Debug)]
pub(super) struct Sending {
    outgoing: Outgoing,
    service: ConfirmedService,
    retries_left: u8,
    deadline: Instant,
}

/// A long request that comes in.
#[derive(Debug)]
pub(super) struct Receiving {
    incoming: Incoming,
    service: ConfirmedService,
    accepts: Accepts,
    deadline: Instant,
}

/// A notification that is not confirmed yet.
#[derive(Debug)]
pub(super) struct Notifying {
    pub(super) apdu: Vec<u8>,
    pub(super) retries_left: u8,
    pub(super) deadline: Instant,
}

/// What requests that change something were answered, so that a repeated one changes nothing again.
#[derive(Debug, Default)]
pub(super) struct Answers(VecDeque<Answer>);

#[derive(Debug)]
struct Answer {
    key: (Peer, u8),
    service: ConfirmedService,
    parameters: Vec<u8>,
    answer: Vec<u8>,
    until: Instant,
}

impl Answers {
    pub(super) fn add(
        &mut self,
        now: Instant,
        key: (Peer, u8),
        service: ConfirmedService,
        parameters: &[u8],
        answer: Vec<u8>,
    ) {
        if self.0.len() >= ANSWERS_MAX {
            self.0.pop_front();
        }
        let until = now + ANSWERS_KEPT;
        self.0.push_back(Answer { key, service, parameters: parameters.to_vec(), answer, until });
    }

    pub(super) fn find(
        &self,
        now: Instant,
        key: (Peer, u8),
        service: ConfirmedService,
        parameters: &[u8],
    ) -> Option<&[u8]> {
        let is_meant = |answer: &&Answer| {
            answer.key == key && answer.service == service && answer.parameters == parameters && answer.until > now
        };
        self.0.iter().rev().find(is_meant).map(|answer| answer.answer.as_slice())
    }
}

impl Server {
    /// Bytes of parameters that an answer may have, by segments where both ends can.
    pub(super) fn answer_bytes_max(&self, accepts: Accepts) -> usize {
        let apdu = usize::from(self.apdu_bytes(accepts));
        let whole = apdu.saturating_sub(HEADER_BYTES);
        if !accepts.segmented || !self.config.segmentation.transmits() {
            return whole;
        }
        let segments = segments_of_code(accepts.segments_code).map_or(usize::MAX, usize::from);
        let segmented = apdu.saturating_sub(SEGMENT_HEADER_BYTES).saturating_mul(segments);
        whole.max(segmented.min(self.config.message_bytes_max))
    }

    fn apdu_bytes(&self, accepts: Accepts) -> u16 {
        apdu_bytes_of_code(accepts.apdu_code).min(self.config.max_apdu)
    }

    /// Answers with a result, by as many segments as it takes.
    pub(super) fn answer(
        &mut self,
        now: Now,
        key: (Peer, u8),
        accepts: Accepts,
        service: ConfirmedService,
        parameters: Vec<u8>,
    ) {
        let (peer, invoke_id) = key;
        let apdu = usize::from(self.apdu_bytes(accepts));
        if parameters.len() + HEADER_BYTES <= apdu {
            return self.send(&peer, &Apdu::ComplexAck { segment: None, invoke_id, service, parameters: &parameters });
        }
        let can_segment = accepts.segmented && self.config.segmentation.transmits();
        if !can_segment || parameters.len() > self.answer_bytes_max(accepts) {
            let reason =
                if can_segment { AbortReason::BUFFER_OVERFLOW } else { AbortReason::SEGMENTATION_NOT_SUPPORTED };
            return self.abort(key, reason);
        }
        if self.sending.len() >= self.config.transactions_max {
            return self.abort(key, AbortReason::OUT_OF_RESOURCES);
        }
        let sending = Sending {
            outgoing: Outgoing::new(parameters, apdu - SEGMENT_HEADER_BYTES),
            service,
            retries_left: self.config.retries,
            deadline: Instant::ZERO,
        };
        self.sending.insert(key, sending);
        self.send_window(now, key);
    }

    pub(super) fn abort(&mut self, (peer, invoke_id): (Peer, u8), reason: AbortReason) {
        self.send(&peer, &Apdu::Abort { from_server: true, invoke_id, reason });
    }

    fn send_window(&mut self, now: Now, key: (Peer, u8)) {
        let Some(mut sending) = self.sending.remove(&key) else { return };
        for place in sending.outgoing.window() {
            let part = sending.outgoing.part(place);
            let segment =
                Segment { sequence: part.sequence, window: self.config.window, more_follows: part.more_follows };
            let service = sending.service;
            let ack = Apdu::ComplexAck { segment: Some(segment), invoke_id: key.1, service, parameters: part.bytes };
            self.send(&key.0, &ack);
        }
        sending.deadline = now.mono + self.config.segment_timeout;
        self.sending.insert(key, sending);
    }

    pub(super) fn handle_segment_ack(&mut self, now: Now, key: (Peer, u8), negative: bool, sequence: u8, window: u8) {
        let Some(sending) = self.sending.get_mut(&key) else { return };
        match sending.outgoing.acknowledge(negative, sequence, window) {
            Acked::Nothing => {}
            Acked::Window => {
                sending.retries_left = self.config.retries;
                self.send_window(now, key);
            }
            Acked::Done => {
                self.sending.remove(&key);
            }
        }
    }

    /// A segment of a request; gives the request when it is complete.
    pub(super) fn handle_segment(
        &mut self,
        now: Now,
        key: (Peer, u8),
        accepts: Accepts,
        service: ConfirmedService,
        segment: Segment,
        bytes: &[u8],
    ) -> Option<(Accepts, Vec<u8>)> {
        if !self.config.segmentation.receives() {
            self.abort(key, AbortReason::SEGMENTATION_NOT_SUPPORTED);
            return None;
        }
        let deadline = now.mono + self.config.segment_timeout * STALL;
        let Some(receiving) = self.receiving.get_mut(&key).filter(|receiving| receiving.service == service) else {
            self.begin_receiving(key, accepts, service, segment, bytes, deadline);
            return None;
        };
        receiving.deadline = deadline;
        let arrived = receiving.incoming.take(segment.sequence, segment.more_follows, bytes);
        let (sequence, window) = (receiving.incoming.sequence(), receiving.incoming.window());
        match arrived {
            Arrived::Quiet => None,
            Arrived::Acknowledge { negative } => {
                self.acknowledge(key, negative, sequence, window);
                None
            }
            Arrived::Complete => {
                self.acknowledge(key, false, sequence, window);
                self.receiving.remove(&key).map(|receiving| (receiving.accepts, receiving.incoming.into_message()))
            }
            Arrived::TooLong => {
                self.receiving.remove(&key);
                self.abort(key, AbortReason::BUFFER_OVERFLOW);
                None
            }
        }
    }

    fn begin_receiving(
        &mut self,
        key: (Peer, u8),
        accepts: Accepts,
        service: ConfirmedService,
        segment: Segment,
        bytes: &[u8],
        deadline: Instant,
    ) {
        // A late segment of a request that is complete, or one that has overtaken the first.
        if segment.sequence != 0 || !segment.more_follows {
            return;
        }
        if self.receiving.len() >= self.config.transactions_max {
            return self.abort(key, AbortReason::OUT_OF_RESOURCES);
        }
        let incoming = Incoming::new(bytes, segment.window.min(self.config.window), self.config.message_bytes_max);
        let window = incoming.window();
        self.receiving.insert(key, Receiving { incoming, service, accepts, deadline });
        self.acknowledge(key, false, 0, window);
    }

    fn acknowledge(&mut self, (peer, invoke_id): (Peer, u8), negative: bool, sequence: u8, window: u8) {
        self.send(&peer, &Apdu::SegmentAck { negative, from_server: true, invoke_id, sequence, window });
    }

    /// Repeats what was not acknowledged in time, and gives up what was repeated often enough.
    pub(super) fn expire(&mut self, now: Now) {
        self.receiving.retain(|_, receiving| receiving.deadline > now.mono);
        let due: Vec<_> = self.sending.iter().filter(|(_, s)| s.deadline <= now.mono).map(|(key, _)| *key).collect();
        for key in due {
            let Some(sending) = self.sending.get_mut(&key) else { continue };
            if sending.retries_left == 0 {
                self.sending.remove(&key);
                continue;
            }
            sending.retries_left -= 1;
            self.send_window(now, key);
        }
        let due: Vec<_> = self.notifying.iter().filter(|(_, n)| n.deadline <= now.mono).map(|(key, _)| *key).collect();
        for key in due {
            let Some(mut notifying) = self.notifying.remove(&key) else { continue };
            if notifying.retries_left > 0 {
                notifying.retries_left -= 1;
                notifying.deadline = now.mono + self.config.apdu_timeout;
                self.send_bytes(&key.0, &notifying.apdu, true);
                self.notifying.insert(key, notifying);
            }
        }
    }

    pub(super) fn transactions_timeout(&self) -> Option<Instant> {
        let sending = self.sending.values().map(|sending| sending.deadline);
        let receiving = self.receiving.values().map(|receiving| receiving.deadline);
        sending.chain(receiving).chain(self.notifying.values().map(|notifying| notifying.deadline)).min()
    }
}

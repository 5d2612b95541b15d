//! The writer of a term: appends to a stream that refuses what does not follow its last message, and finds out what became of a message
//! without an answer.
//!
//! ```text
//!            last message: a lower term, or own        accepted
//!  Asking ──────────────────────────────────▶ Flowing ─────────▶ Flowing …
//!    ▲                                           │ an error, or no answer in time
//!    └───────────────── Resting ◀────────────────┘
//!  Asking: the last message has a higher term ─▶ Ended
//! ```
//!
//! One message is on its way at a time; what comes meanwhile goes together into the next one. A message is appended on the condition that
//! the last one is *L*, and the writer knows of *L* that it is of no higher term: it was acknowledged, or read. So a message that is
//! accepted follows a message of its own term or a lower one, whatever is lost or late. (With several on their way, the second one
//! would be accepted behind a record of a higher term if that record took the place of the first.) A copy that comes late is
//! refused, or is the message itself: a message is sent again with the same records.
//!
//! A message has records, each with its length before it as a varint ([`message_records`]). The first message of a term has one, the
//! record of the term.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use tieline_core::varint::{self, VarintError};
use tieline_core::{Cursor, Instant};

/// Limits of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterLimits {
    /// Bytes of a message, give or take the last record.
    pub message_bytes_max: usize,
    /// Records that are not acknowledged.
    pub records_max: usize,
    /// Bytes of them.
    pub bytes_max: usize,
    /// An answer is waited for this long.
    pub answer_timeout: Duration,
    /// The pause before the stream is asked again.
    pub rest: Duration,
}

impl Default for WriterLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 256 << 10,
            records_max: 65_536,
            bytes_max: 32 << 20,
            answer_timeout: Duration::from_millis(250),
            rest: Duration::from_millis(20),
        }
    }
}

/// After so many answers that know less than was acknowledged, the stream has lost something.
const STALE_MAX: u32 = 100;

/// The records of a message.
///
/// # Errors
/// The bytes are no message.
pub fn message_records(message: &Bytes) -> Result<Vec<Bytes>, VarintError> {
    let (mut cursor, mut records) = (Cursor::new(message), Vec::new());
    while !cursor.is_empty() {
        let length = varint::get_len(&mut cursor)?;
        records.push(message.slice_ref(cursor.take(length)?));
    }
    Ok(records)
}

/// What the stream must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriterAction {
    /// Reads the sequence and the term of the last message from the stream's leader, for [`Writer::handle_last`].
    AskLast {
        /// Which request.
        request: u64,
    },
    /// Appends a message, for [`Writer::handle_appended`].
    Append {
        /// Which request.
        request: u64,
        /// Only if the last message has this sequence.
        expected: u64,
        /// Stands in the message.
        term: u64,
        /// The message.
        body: Bytes,
    },
}

/// The last message of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Its sequence; 0 where there is none.
    pub sequence: u64,
    /// Its term; 0 where there is none.
    pub term: u64,
}

/// Why a message is not known to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The last message is another one (JetStream: 10071).
    WrongLast,
    /// No answer, or no leader: it may be appended yet.
    Unknown,
}

/// What the owner of a writer learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterEvent {
    /// The record of the term is in the stream: all messages before it are final.
    Begun {
        /// Its sequence.
        sequence: u64,
    },
    /// A message is in the stream, with the records that follow those acknowledged before.
    Acknowledged {
        /// How many records are in the stream since the term began.
        count: u64,
        /// The sequence of the message.
        sequence: u64,
    },
    /// The stream has a higher term: what is not acknowledged may be in the stream or not; the next leader finds out.
    Fenced {
        /// That term.
        term: u64,
    },
    /// The stream has less than it acknowledged: it was restored, or is another one.
    WentBack,
}

/// Too much is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterFull;

impl core::fmt::Display for WriterFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("too many records wait for the acknowledgement of the stream")
    }
}

impl core::error::Error for WriterFull {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The last message must be asked for.
    ToAsk,
    Asking {
        request: u64,
        deadline: Instant,
    },
    /// The next message may be sent.
    Flowing,
    Sending {
        request: u64,
        deadline: Instant,
    },
    Resting(Instant),
    /// Nothing is sent any more.
    Ended,
}

/// A message that is not acknowledged.
#[derive(Clone, Debug)]
struct Message {
    body: Bytes,
    records: usize,
}

/// The writer of a term.
#[derive(Debug)]
pub struct Writer {
    term: u64,
    limits: WriterLimits,
    state: State,
    /// The message that is sent until it is acknowledged; first that with the record of the term.
    message: Option<Message>,
    /// What goes into the next ones.
    records: VecDeque<Bytes>,
    /// Bytes of both.
    bytes: usize,
    /// A message of this term or a lower one: the next one follows it.
    last: u64,
    has_begun: bool,
    /// Answers in a row that know less than was acknowledged.
    stale: u32,
    /// Records given that are acknowledged.
    count: u64,
    next_request: u64,
    events: VecDeque<WriterEvent>,
}

impl Writer {
    /// A writer of a term, which begins with the record of that term.
    #[must_use]
    pub fn new(term: u64, record: &[u8], limits: WriterLimits) -> Self {
        let mut body = Vec::new();
        push(record, &mut body);
        Self {
            term,
            limits,
            state: State::ToAsk,
            bytes: body.len(),
            message: Some(Message { body: body.into(), records: 1 }),
            records: VecDeque::new(),
            last: 0,
            has_begun: false,
            stale: 0,
            count: 0,
            next_request: 0,
            events: VecDeque::new(),
        }
    }

    /// Appends a record behind all others.
    ///
    /// # Errors
    /// Too much is not acknowledged; wait for [`WriterEvent::Acknowledged`].
    pub fn handle_record(&mut self, record: Bytes) -> Result<(), WriterFull> {
        let is_over = self.bytes + record.len() > self.limits.bytes_max;
        if self.records.len() >= self.limits.records_max || (is_over && !self.records.is_empty()) {
            return Err(WriterFull);
        }
        self.bytes += record.len();
        self.records.push_back(record);
        Ok(())
    }

    /// The sequence that a message has, or why it is not known to have one.
    pub fn handle_appended(&mut self, now: Instant, request: u64, appended: Result<u64, AppendError>) {
        if !matches!(self.state, State::Sending { request: awaited, .. } if awaited == request) {
            return;
        }
        match appended {
            Ok(sequence) if sequence == self.last + 1 => {
                self.state = State::Flowing;
                self.acknowledge();
            }
            Ok(_) | Err(AppendError::WrongLast | AppendError::Unknown) => {
                self.state = State::Resting(now + self.limits.rest);
            }
        }
    }

    /// The last message of the stream, or that it did not answer.
    pub fn handle_last(&mut self, now: Instant, request: u64, last: Result<Last, AppendError>) {
        if !matches!(self.state, State::Asking { request: awaited, .. } if awaited == request) {
            return;
        }
        self.state = State::Resting(now + self.limits.rest);
        let Ok(last) = last else { return };
        if last.term > self.term {
            self.end(WriterEvent::Fenced { term: last.term });
        } else if !self.has_begun && last.term < self.term {
            self.last = last.sequence;
            self.state = State::Flowing;
        } else if last.term < self.term || last.sequence < self.last {
            // A server that was cut off may still answer for a stream that it no longer leads.
            self.stale += 1;
            if self.stale > STALE_MAX {
                self.end(WriterEvent::WentBack);
            }
        } else {
            self.stale = 0;
            self.state = State::Flowing;
            // Where the record of the term is in, it is the last one: nothing follows it yet.
            if !self.has_begun {
                self.last = last.sequence.saturating_sub(1);
            }
            if last.sequence > self.last {
                self.acknowledge();
            }
        }
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Asking { deadline: at, .. } | State::Sending { deadline: at, .. } | State::Resting(at) => {
                if at <= now {
                    self.state = State::ToAsk;
                }
            }
            State::ToAsk | State::Flowing | State::Ended => {}
        }
    }

    /// When [`Writer::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Asking { deadline: at, .. } | State::Sending { deadline: at, .. } | State::Resting(at) => Some(at),
            State::ToAsk | State::Flowing | State::Ended => None,
        }
    }

    /// What must be done next.
    pub fn poll_action(&mut self, now: Instant) -> Option<WriterAction> {
        match self.state {
            State::ToAsk => {
                let (request, deadline) = (self.begin_request(), now + self.limits.answer_timeout * 4);
                self.state = State::Asking { request, deadline };
                Some(WriterAction::AskLast { request })
            }
            State::Flowing => {
                self.gather();
                let body = self.message.as_ref()?.body.clone();
                let (request, deadline) = (self.begin_request(), now + self.limits.answer_timeout);
                self.state = State::Sending { request, deadline };
                Some(WriterAction::Append { request, expected: self.last, term: self.term, body })
            }
            State::Asking { .. } | State::Sending { .. } | State::Resting(_) | State::Ended => None,
        }
    }

    /// What happened since.
    pub fn poll_event(&mut self) -> Option<WriterEvent> {
        self.events.pop_front()
    }

    /// The term.
    #[must_use]
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// Bytes that are not acknowledged.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.bytes
    }

    fn begin_request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    /// Makes the next message of what has come.
    fn gather(&mut self) {
        if self.message.is_some() {
            return;
        }
        let (mut body, mut records, mut taken) = (Vec::new(), 0, 0);
        while body.len() < self.limits.message_bytes_max {
            let Some(record) = self.records.pop_front() else { break };
            push(&record, &mut body);
            records += 1;
            taken += record.len();
        }
        if records > 0 {
            self.bytes = self.bytes - taken + body.len();
            self.message = Some(Message { body: body.into(), records });
        }
    }

    /// The message is in the stream, behind `last`.
    fn acknowledge(&mut self) {
        let Some(message) = self.message.take() else { return };
        self.bytes -= message.body.len();
        self.last += 1;
        if !self.has_begun {
            self.has_begun = true;
            self.events.push_back(WriterEvent::Begun { sequence: self.last });
            return;
        }
        self.count += message.records as u64;
        self.events.push_back(WriterEvent::Acknowledged { count: self.count, sequence: self.last });
    }

    fn end(&mut self, event: WriterEvent) {
        self.state = State::Ended;
        self.events.push_back(event);
    }
}

fn push(record: &[u8], out: &mut Vec<u8>) {
    varint::put_len(out, record.len());
    out.extend_from_slice(record);
}

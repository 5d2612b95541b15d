//! Long messages in segments (clauses 5.3, 5.4): the sender's window, and how the other end puts them together.

use alloc::vec::Vec;

/// Segments that may be sent before an acknowledgement, at most (clause 20.1.2.8).
pub(crate) const WINDOW_MAX: u8 = 127;

/// What an acknowledgement did to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// Nothing: it is old, or said again.
    Nothing,
    /// Segments of the next window may be sent.
    Window,
    /// All have arrived.
    Done,
}

/// The segments of a message that is being sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    message: Vec<u8>,
    segment_bytes: usize,
    window: u8,
    /// The first that is not acknowledged.
    first: usize,
    /// The first that was sent again because the other end asked for it.
    asked_again: Option<usize>,
}

/// One segment to send.
pub(crate) struct Part<'a> {
    pub(crate) sequence: u8,
    pub(crate) more_follows: bool,
    pub(crate) bytes: &'a [u8],
}

impl Outgoing {
    pub(crate) fn new(message: Vec<u8>, segment_bytes: usize) -> Self {
        Self { message, segment_bytes: segment_bytes.max(1), window: 1, first: 0, asked_again: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.message.len().div_ceil(self.segment_bytes).max(1)
    }

    /// The numbers of the segments that may be on their way: the first alone, until its acknowledgement has said how
    /// many the other end takes.
    pub(crate) fn window(&self) -> core::ops::Range<usize> {
        self.first..(self.first + usize::from(self.window)).min(self.count())
    }

    pub(crate) fn part(&self, place: usize) -> Part<'_> {
        let start = place * self.segment_bytes;
        let end = (start + self.segment_bytes).min(self.message.len());
        Part {
            sequence: sequence_of(place),
            more_follows: place + 1 < self.count(),
            bytes: self.message.get(start..end).unwrap_or_default(),
        }
    }

    pub(crate) fn acknowledge(&mut self, negative: bool, sequence: u8, window: u8) -> Acked {
        let ahead = sequence.wrapping_sub(sequence_of(self.first));
        if ahead < self.window {
            self.first += usize::from(ahead) + 1;
            self.window = window.clamp(1, WINDOW_MAX);
            self.asked_again = None;
            return if self.first >= self.count() { Acked::Done } else { Acked::Window };
        }
        // The first of the window is asked for: once, for each that follows it may bring another such request.
        if negative && ahead == u8::MAX && self.first > 0 && self.asked_again != Some(self.first) {
            self.asked_again = Some(self.first);
            return Acked::Window;
        }
        Acked::Nothing
    }

    pub(crate) fn into_message(self) -> Vec<u8> {
        self.message
    }
}

/// What a segment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It was kept, or was there already; no acknowledgement is due.
    Quiet,
    /// An acknowledgement is due, which says whether a segment is missing.
    Acknowledge {
        /// One is missing.
        negative: bool,
    },
    /// It was the last; an acknowledgement is due.
    Complete,
    /// The message is longer than this end takes.
    TooLong,
}

/// The segments of a message that is being received.
#[derive(Debug)]
pub(crate) struct Incoming {
    message: Vec<u8>,
    bytes_max: usize,
    window: u8,
    /// The last segment that was kept, counted without the limit of 256.
    last: usize,
    /// The segment after which the last acknowledgement was sent.
    acknowledged: usize,
    /// A missing one has been asked for.
    asked: bool,
}

impl Incoming {
    /// Begins with the first segment, which is acknowledged at once: that agrees on the window.
    pub(crate) fn new(first: &[u8], window: u8, bytes_max: usize) -> Self {
        let mut message = Vec::with_capacity(first.len().saturating_mul(4).min(bytes_max));
        message.extend_from_slice(first);
        Self { message, bytes_max, window: window.clamp(1, WINDOW_MAX), last: 0, acknowledged: 0, asked: false }
    }

    pub(crate) fn window(&self) -> u8 {
        self.window
    }

    /// The number of the last segment that was kept.
    pub(crate) fn sequence(&self) -> u8 {
        sequence_of(self.last)
    }

    /// An acknowledgement of what has arrived was sent beside those that [`Self::take`] asks for.
    pub(crate) fn acknowledged(&mut self) {
        (self.acknowledged, self.asked) = (self.last, false);
    }

    pub(crate) fn take(&mut self, sequence: u8, more_follows: bool, bytes: &[u8]) -> Arrived {
        let ahead = sequence.wrapping_sub(self.sequence());
        if ahead != 1 {
            return self.out_of_order(ahead);
        }
        if self.message.len().saturating_add(bytes.len()) > self.bytes_max {
            return Arrived::TooLong;
        }
        self.message.extend_from_slice(bytes);
        self.last += 1;
        self.asked = false;
        if !more_follows {
            return Arrived::Complete;
        }
        if self.last - self.acknowledged >= usize::from(self.window) {
            self.acknowledged = self.last;
            return Arrived::Acknowledge { negative: false };
        }
        Arrived::Quiet
    }

    fn out_of_order(&mut self, ahead: u8) -> Arrived {
        let is_repeated = ahead == 0 || ahead > WINDOW_MAX;
        if is_repeated {
            // The sender begins its window again where the acknowledgement of the window before was lost.
            let begins = usize::from(ahead.wrapping_neg()) >= self.last - self.acknowledged;
            return if begins { Arrived::Acknowledge { negative: false } } else { Arrived::Quiet };
        }
        if self.asked {
            return Arrived::Quiet;
        }
        self.asked = true;
        self.acknowledged = self.last;
        Arrived::Acknowledge { negative: true }
    }

    pub(crate) fn into_message(self) -> Vec<u8> {
        self.message
    }
}

fn sequence_of(place: usize) -> u8 {
    u8::try_from(place % 256).unwrap_or(0)
}

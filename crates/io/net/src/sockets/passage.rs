//! Writes past a session: a fan-out to many sessions that have nothing to add looks at one line of memory for each.

use super::OUTPUT_MAX;
use super::owner::Link;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next frame.
static FRAMES: AtomicU64 = AtomicU64::new(0);

/// Names the bytes of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameNumber(u64);

impl FrameNumber {
    /// A number that no frame has.
    #[must_use]
    pub fn next() -> Self {
        Self(FRAMES.fetch_add(1, Ordering::Relaxed))
    }
}

/// A frame for several connections. It is told from others by its number, so that a batch has its bytes once.
#[derive(Clone, Copy, Debug)]
pub struct SharedFrame<'a> {
    bytes: &'a [u8],
    number: FrameNumber,
}

impl<'a> SharedFrame<'a> {
    /// A frame of these bytes, which are always the same with this number.
    #[must_use]
    pub const fn new(bytes: &'a [u8], number: FrameNumber) -> Self {
        Self { bytes, number }
    }

    /// Its number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) const fn number(&self) -> FrameNumber {
        self.number
    }
}

/// The right to write frames to a connection past its session, while it lasts
/// ([`Session::open_passage`](crate::Session::open_passage)).
#[derive(Clone, Debug)]
pub struct Passage {
    link: Rc<Link>,
    connection: u32,
    serial: u32,
}

impl Passage {
    pub(super) const fn new(link: Rc<Link>, connection: u32, serial: u32) -> Self {
        Self { link, connection, serial }
    }

    /// Gives the connection a frame; an urgent one goes before what waits for others. False, and nothing is given, where the
    /// passage is over, the frame is too long for it, or the connection takes nothing at the moment.
    #[must_use]
    pub fn write(&self, frame: SharedFrame<'_>, is_urgent: bool) -> bool {
        self.link.write_past((self.connection, self.serial), frame, is_urgent)
    }

    /// Whether it lasts.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_passage_open(self.connection, self.serial)
    }
}

/// What a write needs to know of a connection: a line of memory has two of them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Record {
    /// The batch that its last write is in.
    last: u64,
    /// Bytes that were written past its session and not counted there, and in how many frames.
    past_bytes: u64,
    past_frames: u32,
    /// Bytes that it was given since all that it was given was written.
    given: u32,
    /// The longest frame that may be written past its session; 0 where none may.
    frame_max: u32,
    /// Tells it from the other connections that have its number one after another.
    serial: u32,
}

impl Record {
    /// Of a connection that was given nothing.
    pub(super) fn new(serial: u32) -> Self {
        Self { serial, ..Self::default() }
    }

    /// Whether all that it was given is in batches up to `done`.
    pub(super) const fn is_done(&self, done: u64) -> bool {
        self.last <= done
    }

    /// Whether it may be given more.
    pub(super) const fn has_room(&self, done: u64) -> bool {
        self.is_done(done) || (self.given as usize) < OUTPUT_MAX
    }

    /// It is given so many bytes in this batch.
    pub(super) fn give(&mut self, bytes: usize, batch: u64, done: u64) {
        let before = if self.is_done(done) { 0 } else { self.given };
        self.given = before.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.last = batch;
    }

    /// Whether a frame may be written past its session; counts it there.
    pub(super) fn pass(&mut self, serial: u32, frame: &[u8], done: u64) -> bool {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let may = self.serial == serial
            && (1..=self.frame_max).contains(&len)
            && self.has_room(done)
            && self.past_frames < u32::MAX;
        if may {
            self.past_bytes += u64::from(len);
            self.past_frames += 1;
        }
        may
    }

    /// Lets frames of so many bytes be written past its session; returns what tells it.
    pub(super) const fn open(&mut self, frame_max: u32) -> u32 {
        self.frame_max = frame_max;
        self.serial
    }

    /// Whether frames may be written past its session.
    pub(super) const fn is_open(&self, serial: u32) -> bool {
        self.serial == serial && self.frame_max > 0
    }

    /// Nothing is written past its session any more.
    pub(super) const fn close(&mut self) {
        self.frame_max = 0;
    }

    /// Bytes and frames that were written past its session.
    pub(super) const fn past(&self) -> (u64, u64) {
        (self.past_bytes, self.past_frames as u64)
    }

    /// The same, for the session to count them.
    pub(super) const fn take_past(&mut self) -> (u64, u64) {
        let past = self.past();
        (self.past_bytes, self.past_frames) = (0, 0);
        past
    }
}

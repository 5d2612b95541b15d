//! Frames of a session that are to wait for one another, because its client asked for fewer writes: they go in one.
//!
//! ```text
//! first after a pause ─ goes at once; the window begins
//! others ─ gathered ─ the window is over, one is urgent, or they are many ─▶ one write; the next window begins
//! ```
//!
//! Nothing is left out: what changes several times within a window is sent several times. Windows of the same length end at the same
//! moments: the bus writes to all such sessions in one turn.

use std::collections::VecDeque;
use std::time::Duration;
use tieline_core::Instant;

/// Room that is larger is not kept.
const ROOM_BYTES: usize = 64 * 1024;

/// Frames that wait for one another.
#[derive(Debug)]
pub(super) struct Gathered {
    window: Duration,
    /// Frames, one behind the other; those that were taken first are still there.
    bytes: Vec<u8>,
    taken: usize,
    lengths: VecDeque<usize>,
    /// When the window is over.
    next: Instant,
    /// When the bus looks.
    armed: Option<Instant>,
    is_urgent: bool,
}

/// Whether what waits is to wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It goes now.
    No,
    /// The bus is to look at this time.
    Until(Instant),
    /// The bus is told, or looks anyway.
    Armed,
}

impl Gathered {
    /// None yet.
    pub(super) fn new(window: Duration) -> Self {
        let (bytes, lengths) = Default::default();
        Self { window, bytes, taken: 0, lengths, next: Instant::ZERO, armed: None, is_urgent: false }
    }

    /// Adds what `put` appends; returns how many bytes that is.
    pub(super) fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.bytes.len();
        put(&mut self.bytes);
        let length = self.bytes.len().saturating_sub(before);
        self.lengths.push_back(length);
        length
    }

    /// Appends the next frame; returns how many bytes it has.
    pub(super) fn pop(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let length = self.lengths.pop_front()?;
        let end = self.taken + length;
        out.extend_from_slice(self.bytes.get(self.taken..end).unwrap_or_default());
        self.taken = end;
        if self.lengths.is_empty() {
            self.clear();
        }
        Some(length)
    }

    /// All are dropped.
    pub(super) fn clear(&mut self) {
        self.taken = 0;
        self.lengths.clear();
        self.bytes.clear();
        self.bytes.shrink_to(ROOM_BYTES);
    }

    /// What waits is not to wait on.
    pub(super) const fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// When the window ends that this moment is in.
    fn end(&self, now: Instant) -> Instant {
        let window = u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX).max(1);
        Instant((now.0 / window).saturating_add(1).saturating_mul(window))
    }

    /// Whether what waits is to wait on. Where it is not, it is written now: the next window begins.
    pub(super) fn hold(&mut self, now: Instant) -> Hold {
        if std::mem::take(&mut self.is_urgent) || now >= self.next {
            (self.next, self.armed) = (self.end(now), None);
            return Hold::No;
        }
        if self.armed == Some(self.next) {
            return Hold::Armed;
        }
        self.armed = Some(self.next);
        Hold::Until(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_one_by_one_and_their_room_is_used_again() {
        let mut gathered = Gathered::new(Duration::from_millis(1));
        for _ in 0..2 {
            for frame in ["one", "", "three"] {
                assert_eq!(gathered.push(|out| out.extend_from_slice(frame.as_bytes())), frame.len());
            }
            let mut out = Vec::new();
            let lengths: Vec<usize> = std::iter::from_fn(|| gathered.pop(&mut out)).collect();
            assert_eq!((&out[..], &lengths[..]), (&b"onethree"[..], &[3, 0, 5][..]));
            assert!(gathered.bytes.is_empty() && gathered.taken == 0);
        }
    }

    #[test]
    fn the_first_after_a_pause_and_what_is_urgent_do_not_wait() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut gathered = Gathered::new(Duration::from_millis(10));
        assert_eq!(gathered.hold(at(103)), Hold::No);
        assert_eq!([104, 109].map(|millis| gathered.hold(at(millis))), [Hold::Until(at(110)), Hold::Armed]);
        gathered.hurry();
        assert_eq!(gathered.hold(at(109)), Hold::No);
        assert_eq!(
            [110, 111, 119].map(|millis| gathered.hold(at(millis))),
            [Hold::No, Hold::Until(at(120)), Hold::Armed]
        );
        assert_eq!([120, 121, 200].map(|millis| gathered.hold(at(millis))), [Hold::No, Hold::Until(at(130)), Hold::No]);
    }
}

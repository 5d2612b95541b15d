//! Two masters of one address, which take an association from each other: each of them comes back as soon as it is thrown
//! out, and neither is served.
//!
//! ```text
//! a connection comes while another is there ── the first times ──▶ it takes the place: a master that came back
//!        └── the third time within a minute, and from then on ──▶ it takes the place and keeps it for 5 s, 10 s … 60 s:
//!                                                                 others are refused until then
//! ```
//!
//! So both are served in turns that grow longer, and the server's operator can see what is wrong. A master that comes
//! back because
//! its network lost the connection before waits 60 s at most.

use core::time::Duration;
use tieline_core::Instant;

/// Takeovers within this time are of masters that know nothing of each other.
const WINDOW: Duration = Duration::from_secs(60);
/// Takeovers within [`WINDOW`] until the place is kept.
const TAKEOVERS: u8 = 3;
const KEPT_MIN: Duration = Duration::from_secs(5);
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Who may take the place of whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rivals {
    takeovers: u8,
    /// When the place was taken over last, or when it is kept no longer.
    last: Option<Instant>,
    kept_until: Option<Instant>,
}

/// What becomes of a connection that comes while another is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It takes the place.
    Takes,
    /// It takes the place, and keeps it for so long: two masters use one address.
    Keeps(Duration),
    /// The other keeps the place.
    Refused,
}

impl Rivals {
    /// Nobody took a place.
    #[must_use]
    pub const fn new() -> Self {
        Self { takeovers: 0, last: None, kept_until: None }
    }

    /// A connection comes while another is there; `spoke` says whether a master was heard on the other. One that never
    /// spoke is no rival: its place is free.
    pub fn arrive(&mut self, now: Instant, spoke: bool) -> Arrival {
        if self.kept_until.is_some_and(|until| now < until) {
            return Arrival::Refused;
        }
        if !spoke {
            return Arrival::Takes;
        }
        if self.last.is_none_or(|last| now > last + WINDOW) {
            self.takeovers = 0;
        }
        self.takeovers = self.takeovers.saturating_add(1);
        (self.last, self.kept_until) = (Some(now), None);
        let Some(more) = self.takeovers.checked_sub(TAKEOVERS) else { return Arrival::Takes };
        let kept = KEPT_MIN.saturating_mul(1 << more.min(7)).min(KEPT_MAX);
        (self.last, self.kept_until) = (Some(now + kept), Some(now + kept));
        Arrival::Keeps(kept)
    }

    /// The connection that had the place is gone: the next connection may have it.
    pub const fn leave(&mut self) {
        self.kept_until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of arrivals at so many seconds, each while a connection is there that spoke: `t` takes the place, a
    /// number keeps it for so many seconds, `-` is refused.
    fn check(seconds: &[u64], expect: &str) {
        let mut rivals = Rivals::new();
        let found: alloc::vec::Vec<_> = seconds
            .iter()
            .map(|at| match rivals.arrive(Instant::ZERO + Duration::from_secs(*at), true) {
                Arrival::Takes => "t".into(),
                Arrival::Keeps(kept) => alloc::format!("{}", kept.as_secs()),
                Arrival::Refused => "-".into(),
            })
            .collect();
        assert_eq!(found.join(" "), expect, "{seconds:?}");
    }

    #[test]
    fn masters_that_take_the_place_from_each_other_have_it_in_turns_that_grow() {
        check(&[1, 2, 3, 4, 7, 8, 9, 17, 18, 37, 38, 80, 140, 200], "t t 5 - - 10 - - 20 - 40 60 60 60");
        // A master that comes back every hour, or that lost its connection twice.
        check(&[0, 3600, 7200, 10_800], "t t t t");
        check(&[0, 1, 70, 71, 140], "t t t t t");
        // After a minute without another attempt it begins again.
        check(&[0, 1, 2, 67, 68, 138], "t t 5 10 - t");
    }

    #[test]
    fn a_place_that_nobody_uses_is_free() {
        let mut rivals = Rivals::new();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        for second in 0..10 {
            assert_eq!(rivals.arrive(at(second), false), Arrival::Takes);
        }
        for (second, expect) in [(10, Arrival::Takes), (11, Arrival::Takes), (12, Arrival::Keeps(KEPT_MIN))] {
            assert_eq!(rivals.arrive(at(second), true), expect);
        }
        assert_eq!(rivals.arrive(at(13), false), Arrival::Refused);
        rivals.leave();
        assert_eq!(rivals.arrive(at(14), false), Arrival::Takes);
    }
}

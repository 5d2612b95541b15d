//! What members tell each other of themselves, so that each can say how all do.

use super::super::board::{ClusterRole, MemberSeen};
use super::{Follow, Member};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tieline_core::Words as _;
use tieline_fabric::Message;

/// How often a member says how it does, and how exactly it knows how old what it misses is.
const EVERY: Duration = Duration::from_secs(1);
/// Messages whose age is known; a member that misses more of them knows the age of the oldest all the same.
const MISSED_MAX: usize = 3600;

/// What a member says of itself.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// When, and with which role.
    last: Option<(Instant, ClusterRole)>,
    /// Messages that it has heard of and does not have, with when it heard of them: the last one of each second.
    missed: VecDeque<(u64, Instant)>,
}

impl Told {
    /// How old the oldest message is that it does not have.
    fn behind(&mut self, now: Instant, applied: u64, last: u64) -> Duration {
        while self.missed.front().is_some_and(|(number, _)| *number <= applied) {
            self.missed.pop_front();
        }
        let is_new = self.missed.back().is_none_or(|(number, at)| *number < last && now.duration_since(*at) >= EVERY);
        if last > applied && is_new && self.missed.len() < MISSED_MAX {
            self.missed.push_back((last, now));
        }
        self.missed.front().map_or(Duration::ZERO, |(_, at)| now.duration_since(*at))
    }
}

impl Member {
    /// The subject on which members say how they do.
    pub(super) fn members_subject(&self) -> String {
        format!("tl.cluster.{}.member", self.parts.config.name)
    }

    /// Notes how this member does, and says it where it is time.
    pub(super) async fn tell(&mut self) {
        let (now, mut shown) = (Instant::now(), (ClusterRole::default(), 0, 0, 0));
        self.parts.board.note(|seen| shown = (seen.role, seen.term, seen.applied, seen.last));
        let (role, term, applied, last) = shown;
        // A member that has never had all of the log does not know how old what it misses is.
        let is_known = self.stands || self.is_elected();
        let age = self.told.behind(now, applied, last);
        let behind = is_known.then_some(if self.follow == Follow::Led { Duration::ZERO } else { age });
        self.parts.board.note(|seen| seen.behind = behind);
        if self.told.last.is_some_and(|(at, told)| told == role && now.duration_since(at) < EVERY) {
            return;
        }
        self.told.last = Some((now, role));
        let behind = behind.map(|behind| behind.as_millis().to_string()).unwrap_or_default();
        let reference = self.parts.config.reference.as_deref().unwrap_or_default();
        let text = format!("{}\n{}\n{term}\n{applied}\n{behind}\n{reference}", self.parts.node, role.word());
        // One that is lost is followed by another.
        let _ = self.fabric.publish(&self.members_subject(), text.into()).await;
    }

    pub(super) fn handle_member(&self, message: &Message) {
        let Some((node, seen)) = std::str::from_utf8(&message.body).ok().and_then(read) else { return };
        if node != self.parts.node {
            self.parts.board.note(|board| board.note_member(node, seen));
        }
    }
}

fn read(text: &str) -> Option<(&str, MemberSeen)> {
    let mut lines = text.split('\n');
    let (node, role, term) = (lines.next()?, ClusterRole::of_word(lines.next()?)?, lines.next()?.parse().ok()?);
    let (applied, behind) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok().map(Duration::from_millis));
    let reference = lines.next().filter(|reference| !reference.is_empty()).map(str::to_owned);
    Some((node, MemberSeen { role, term, applied, behind, reference, heard: Instant::now() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_what_is_missed_is_that_of_the_oldest() {
        let (mut told, start) = (Told::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let seen = [(0, 7, 7), (1, 7, 9), (2, 7, 12), (4, 8, 12), (5, 9, 12), (6, 12, 12), (7, 12, 13)];
        let behind = seen.map(|(seconds, applied, last)| told.behind(at(seconds), applied, last).as_secs());
        assert_eq!(behind, [0, 0, 1, 3, 3, 0, 0]);
        // What it keeps of that has a limit.
        for second in 0..2 * MISSED_MAX as u64 {
            told.behind(at(second), 0, second);
        }
        assert_eq!(told.missed.len(), MISSED_MAX);
    }

    #[test]
    fn what_a_member_says_is_read() {
        let (node, seen) = read("b\nstandby\n3\n17\n250\nb.example:1883").unwrap();
        assert_eq!((node, seen.role, seen.term, seen.applied), ("b", ClusterRole::Standby, 3, 17));
        assert_eq!(
            (seen.behind, seen.reference.as_deref()),
            (Some(Duration::from_millis(250)), Some("b.example:1883"))
        );
        let (_, seen) = read("b\ncatching_up\n3\n17\n\n").unwrap();
        assert_eq!((seen.behind, seen.reference), (None, None));
        assert!(["", "b", "b\nking\n1\n1\n\n", "b\nstandby\nx\n1\n\n"].iter().all(|text| read(text).is_none()));
    }
}

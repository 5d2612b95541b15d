use super::{at_ms, frame, pdu_head};
use crate::*;
use std::vec::Vec;

fn config() -> SubscriberConfig {
    SubscriberConfig {
        gocb_ref: "IED/LLN0$GO$gcb".into(),
        app_id: None,
        dat_set: None,
        go_id: None,
        conf_rev: None,
        simulation: Simulation::Ignore,
    }
}

struct Subject(Subscriber);

impl Subject {
    fn new(config: SubscriberConfig) -> Self {
        Self(Subscriber::new(config))
    }

    fn take(&mut self, ms: u64, head: &PduHead<'_>, on: bool) -> Received {
        let bytes = frame(head, &[Value::Boolean(on)]);
        self.0.receive(at_ms(ms).mono, &Message::parse(&bytes).unwrap())
    }

    /// A message with these numbers whose value changes with `st_num`, and whose time is that of its change.
    fn numbered(&mut self, ms: u64, st_num: u32, sq_num: u32, changed_ms: u64) -> Received {
        let time = UtcTime::new(at_ms(changed_ms).utc, TimeQuality::SYNCHRONIZED);
        self.take(ms, &PduHead { st_num, sq_num, time, ..pdu_head() }, st_num.is_multiple_of(2))
    }
}

/// Messages, each a millisecond after the other: stNum, sqNum, when the values changed, what it is.
fn check(messages: &[(u32, u32, u64, Received)]) -> SubscriberCounters {
    let mut subject = Subject::new(config());
    for ((st_num, sq_num, changed, expect), ms) in messages.iter().zip(0..) {
        assert_eq!(subject.numbered(ms, *st_num, *sq_num, *changed), *expect, "stNum {st_num}, sqNum {sq_num}");
    }
    *subject.0.counters()
}

use Received::{Changed, Dropped, First, Repeated, Restarted};

#[test]
fn changes_and_repetitions_follow_each_other() {
    let counters = check(&[
        (7, 3, 0, First),
        (7, 4, 0, Repeated),
        (7, 6, 0, Repeated),
        (8, 0, 1, Changed { missed: 0 }),
        (11, 0, 2, Changed { missed: 2 }),
        (11, 1, 2, Repeated),
    ]);
    let expect = SubscriberCounters { messages: 6, changes: 2, missed: 2, lost: 1, ..SubscriberCounters::default() };
    assert_eq!(counters, expect);
}

#[test]
fn duplicates_and_late_messages_are_dropped() {
    let counters = check(&[
        (7, 3, 5, First),
        (7, 3, 5, Dropped),
        (7, 2, 5, Dropped),
        (8, 0, 6, Changed { missed: 0 }),
        (7, 4, 5, Dropped),
        (8, 0, 6, Dropped),
    ]);
    assert_eq!((counters.duplicates, counters.late), (2, 2));
}

#[test]
fn a_publisher_that_restarted_is_known_by_a_later_time() {
    let counters = check(&[
        (7, 3, 5, First),
        (1, 0, 6, Restarted),
        (1, 1, 6, Repeated),
        // Again, before anything changed.
        (1, 0, 7, Restarted),
        (1, 1, 7, Repeated),
        (1, 1, 8, Restarted),
    ]);
    assert_eq!((counters.restarts, counters.late), (3, 0));
}

#[test]
fn numbers_begin_again_at_1() {
    check(&[
        (u32::MAX, u32::MAX, 5, First),
        (u32::MAX, 1, 5, Repeated),
        (1, 0, 6, Changed { missed: 0 }),
        (1, 1, 6, Repeated),
    ]);
    check(&[(u32::MAX - 1, 0, 5, First), (2, 0, 6, Changed { missed: 2 }), (u32::MAX, 0, 5, Dropped)]);
}

#[test]
fn without_a_trusted_time_the_first_number_tells_a_restart() {
    let mut subject = Subject::new(config());
    let mut take = |ms, st_num, changed: u64| {
        let time = UtcTime::new(at_ms(changed).utc, TimeQuality::UNSYNCHRONIZED);
        subject.take(ms, &PduHead { st_num, time, ..pdu_head() }, false)
    };
    assert_eq!(take(0, 7, 5000), First);
    assert_eq!(take(1, 6, 4000), Dropped);
    assert_eq!(take(2, 1, 10), Restarted);
}

#[test]
fn values_end_with_the_time_allowed_to_live() {
    let mut subject = Subject::new(config());
    assert_eq!(subject.0.timeout(), None);
    assert_eq!(subject.numbered(0, 7, 0, 5), First);
    assert_eq!(subject.0.timeout(), Some(at_ms(100).mono));
    assert_eq!(subject.numbered(60, 7, 1, 5), Repeated);
    // A duplicate renews nothing.
    assert_eq!(subject.numbered(90, 7, 1, 5), Dropped);
    assert!(!subject.0.handle_timeout(at_ms(159).mono));
    assert!(subject.0.handle_timeout(at_ms(160).mono));
    assert!(!subject.0.handle_timeout(at_ms(161).mono) && !subject.0.is_alive());
    // Whatever comes then is the first.
    assert_eq!(subject.numbered(170, 7, 2, 5), First);
    // Even where nobody asked in time.
    assert_eq!(subject.numbered(400, 7, 3, 5), First);
    assert_eq!(subject.0.counters().expired, 2);
}

#[test]
fn a_change_that_stnum_does_not_tell_is_one() {
    let mut subject = Subject::new(config());
    assert_eq!(subject.take(0, &pdu_head(), false), First);
    assert_eq!(subject.take(1, &PduHead { sq_num: 1, ..pdu_head() }, true), Changed { missed: 0 });
    assert_eq!(subject.take(2, &PduHead { sq_num: 2, ..pdu_head() }, true), Repeated);
    assert_eq!(subject.0.counters().untold, 1);
}

#[test]
fn what_is_not_expected_is_refused_and_ends_the_values() {
    let check = |config: SubscriberConfig, expect: Misfit| {
        let mut subject = Subject::new(config);
        assert_eq!(subject.numbered(0, 1, 0, 0), Received::Refused(expect));
        assert_eq!((subject.0.is_alive(), subject.0.counters().refused), (false, 1));
    };
    check(SubscriberConfig { app_id: Some(1), ..config() }, Misfit::AppId { found: 0x1000, expected: 1 });
    check(SubscriberConfig { dat_set: Some("other".into()), ..config() }, Misfit::DatSet);
    check(SubscriberConfig { go_id: Some("other".into()), ..config() }, Misfit::GoId);
    check(SubscriberConfig { conf_rev: Some(2), ..config() }, Misfit::ConfRev { found: 1, expected: 2 });
    let right = SubscriberConfig {
        app_id: Some(0x1000),
        dat_set: Some("IED/LLN0$ds".into()),
        go_id: Some("id".into()),
        conf_rev: Some(1),
        ..config()
    };
    let mut subject = Subject::new(right);
    assert_eq!(subject.take(0, &pdu_head(), true), First);
    let head = PduHead { sq_num: 1, needs_commissioning: true, ..pdu_head() };
    assert_eq!(subject.take(1, &head, true), Received::Refused(Misfit::NeedsCommissioning));
    assert_eq!(subject.take(2, &PduHead { sq_num: 2, ..pdu_head() }, true), First);
}

#[test]
fn another_revision_is_told_where_none_is_expected() {
    let mut subject = Subject::new(config());
    assert_eq!(subject.take(0, &pdu_head(), true), First);
    let head = PduHead { conf_rev: 2, ..pdu_head() };
    assert_eq!(subject.take(1, &head, true), Received::Reconfigured { from: 1 });
    assert_eq!(subject.take(2, &PduHead { sq_num: 1, ..head }, true), Repeated);
    assert_eq!(subject.0.counters().conf_rev_changes, 1);
}

#[test]
fn simulated_messages_count_where_they_are_accepted() {
    let simulated = |sq_num| PduHead { is_simulated: true, sq_num, ..pdu_head() };
    let mut subject = Subject::new(config());
    assert_eq!(subject.take(0, &simulated(0), true), Dropped);
    assert_eq!(subject.take(1, &pdu_head(), false), First);
    assert_eq!(subject.take(2, &simulated(1), true), Dropped);
    assert_eq!((subject.0.counters().simulation, subject.0.is_simulated()), (2, false));
    let mut subject = Subject::new(SubscriberConfig { simulation: Simulation::Accept, ..config() });
    let taken: Vec<Received> = [
        subject.take(0, &pdu_head(), false),
        subject.take(1, &simulated(0), true),
        subject.take(2, &PduHead { sq_num: 1, ..pdu_head() }, false),
        subject.take(3, &simulated(1), true),
    ]
    .into();
    assert_eq!(taken, [First, First, Dropped, Repeated]);
    assert!(subject.0.is_simulated());
}

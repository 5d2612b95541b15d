use super::{at_ms, frame_head, path};
use crate::*;
use std::boxed::Box;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::Now;

pub(super) fn config() -> PublisherConfig {
    PublisherConfig {
        frame: frame_head(),
        gocb_ref: "IED/LLN0$GO$gcb".into(),
        dat_set: "IED/LLN0$ds".into(),
        go_id: None,
        conf_rev: 4,
        needs_commissioning: false,
        time_quality: TimeQuality::SYNCHRONIZED,
        curve: Curve { min: Duration::from_millis(4), max: Duration::from_millis(1000) },
    }
}

pub(super) fn started(values: &[Value]) -> Publisher {
    let mut publisher = Publisher::new(config(), values.to_vec()).unwrap();
    publisher.start(at_ms(0));
    publisher
}

/// stNum, sqNum and the time allowed of what is sent now.
fn sent(publisher: &mut Publisher, now: Now) -> Vec<(u32, u32, u32)> {
    let next = || {
        let mut out = Vec::new();
        publisher.poll_transmit(now, &mut out).then(|| {
            let head = Message::parse(&out).unwrap().pdu.head;
            (head.st_num, head.sq_num, head.time_allowed_ms)
        })
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn repetitions_become_rarer_up_to_the_longest_interval() {
    let mut publisher = started(&[Value::Boolean(false)]);
    assert_eq!(sent(&mut publisher, at_ms(0)), [(1, 0, 50)]);
    let mut at = Vec::new();
    for ms in 0..4000 {
        for (st_num, sq_num, allowed) in sent(&mut publisher, at_ms(ms)) {
            assert_eq!(st_num, 1);
            at.push((ms, sq_num, allowed));
        }
    }
    let expect = [
        (4, 1, 50),
        (12, 2, 50),
        (28, 3, 64),
        (60, 4, 128),
        (124, 5, 256),
        (252, 6, 512),
        (508, 7, 1024),
        (1020, 8, 2000),
        (2020, 9, 2000),
        (3020, 10, 2000),
    ];
    assert_eq!(at, expect);
    let change = [(path("1"), Value::Boolean(true))];
    publisher.set(at_ms(4000), &change).unwrap();
    assert_eq!(sent(&mut publisher, at_ms(4000)), [(2, 0, 50)]);
    assert_eq!(publisher.timeout(), Some(at_ms(4004).mono));
    assert_eq!(publisher.counters(), &PublisherCounters { frames: 12, changes: 2, refused: 0 });
}

#[test]
fn changes_are_sent_each_and_in_order() {
    let mut publisher = started(&[Value::Boolean(false)]);
    for on in [true, false, true] {
        publisher.set(at_ms(1), &[(path("1"), Value::Boolean(on))]).unwrap();
    }
    let numbers: Vec<u32> = sent(&mut publisher, at_ms(1)).into_iter().map(|(st_num, _, _)| st_num).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    for _ in 0..64 {
        publisher.set(at_ms(2), &[(path("1"), Value::Boolean(true))]).unwrap();
    }
    let error = publisher.set(at_ms(2), &[(path("1"), Value::Boolean(true))]).unwrap_err();
    assert_eq!((error, publisher.counters().refused), (PublisherError::Full, 1));
}

#[test]
fn a_repetition_that_is_late_is_not_followed_by_those_that_were_missed() {
    let mut publisher = started(&[Value::Boolean(false)]);
    sent(&mut publisher, at_ms(0));
    assert_eq!(sent(&mut publisher, at_ms(10_000)).len(), 1);
    assert_eq!(publisher.timeout(), Some(at_ms(10_008).mono));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let long = |count: usize| Value::Octets(Box::from(std::vec![7; count]));
    assert_eq!(Publisher::new(config(), [long(1500)].into()).unwrap_err(), PublisherError::TooLong);
    let mut publisher = started(&[Value::Structure([long(1), Value::Integer(1)].into())]);
    sent(&mut publisher, at_ms(0));
    let mut check = |to: &str, value: Value, expect| {
        let before = publisher.values().to_vec();
        assert_eq!(publisher.set(at_ms(1), &[(path("1.2"), Value::Integer(2)), (path(to), value)]), Err(expect));
        assert_eq!(publisher.values(), before);
        assert!(sent(&mut publisher, at_ms(1)).is_empty());
    };
    check("1.1", long(1500), PublisherError::TooLong);
    check("1.3", Value::Integer(1), PublisherError::NoValue);
    check("2", Value::Integer(1), PublisherError::NoValue);
    check("1.2", Value::Unsigned(1), PublisherError::NoValue);
    check("1.1.1", Value::Unsigned(1), PublisherError::NoValue);
}

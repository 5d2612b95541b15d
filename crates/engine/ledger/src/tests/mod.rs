//! The format by vectors and properties, and the replay against a state that is kept beside the log.

use crate::*;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::{Timestamp, Topic};

fn any_message() -> impl Strategy<Value = Message> {
    let octets = || proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    ("[ab]{1,2}(/[ab])?", octets(), octets(), 0i64..1 << 50).prop_map(|(topic, payload, properties, micros)| Message {
        topic: Topic::new(&topic).unwrap(),
        payload,
        properties,
        received: Timestamp::from_micros(micros),
    })
}

fn any_will() -> impl Strategy<Value = Option<Will>> {
    let will = (any_message(), 0u8..3, any::<bool>(), any::<u32>());
    proptest::option::of(will.prop_map(|(message, qos, retain, delay_s)| Will { message, qos, retain, delay_s }))
}

fn any_session() -> impl Strategy<Value = Session> {
    let since = proptest::option::of((0i64..1 << 50).prop_map(Timestamp::from_micros));
    (0u64..4, "[a-c]{0,3}", proptest::option::of("[a-c]{1,3}"), any::<u32>(), since, any_will()).prop_map(
        |(number, client, user, expiry_s, away_since, will)| Session {
            number,
            client,
            user,
            expiry_s,
            away_since,
            will,
        },
    )
}

/// A change that is no part of a walk, of few sessions, so that they meet.
fn any_change() -> impl Strategy<Value = Record> {
    let session = || prop_oneof![8 => 0u64..4, 1 => any::<u64>()];
    let filter = || "[ab+]{1,2}";
    let id = || 1u16..9;
    let owed = (session(), 0u64..20, id(), 1u8..3, any::<bool>(), proptest::collection::vec(any::<u32>(), 0..3));
    let options = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        (0i64..1 << 50).prop_map(|at| Record::Alive(Timestamp::from_micros(at))),
        (any_message(), 0u8..3).prop_map(|(message, qos)| Record::Value(Value { message, qos })),
        any_message().prop_map(|message| Record::Cleared(message.topic)),
        any_session().prop_map(Record::Session),
        session().prop_map(Record::Ended),
        (session(), filter(), any::<u8>(), options, any::<bool>()).prop_map(
            |(session, filter, options, properties, due)| {
                Record::Subscribed { session, filter, options, properties, due }
            }
        ),
        (session(), filter()).prop_map(|(session, filter)| Record::Unsubscribed { session, filter }),
        (owed, any_message()).prop_map(|((session, serial, packet_id, qos, retain, subscription_ids), message)| {
            Record::Owed { session, serial, packet_id, qos, retain, subscription_ids, message }
        }),
        (session(), 0u64..20).prop_map(|(session, serial)| Record::Received { session, serial }),
        (session(), 0u64..20).prop_map(|(session, serial)| Record::Done { session, serial }),
        (session(), id(), proptest::option::of((0i64..1 << 50).prop_map(Timestamp::from_micros)))
            .prop_map(|(session, packet_id, sample)| Record::Held { session, packet_id, sample }),
        (session(), id()).prop_map(|(session, packet_id)| Record::Released { session, packet_id }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![1 => Just(Record::Begin), 1 => Just(Record::End), 20 => any_change()]
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut octets = Vec::new();
    Record::begin(&mut octets);
    records.iter().for_each(|record| record.emit(&mut octets));
    octets
}

fn replayed(records: &[Record]) -> Image {
    let mut replay = Replay::default();
    records.iter().cloned().for_each(|record| replay.handle_change(record));
    replay.finish()
}

/// Without changes of sessions that have not begun, which no node writes.
fn well_formed(changes: Vec<Record>) -> Vec<Record> {
    let mut begun = BTreeSet::new();
    let keep = |record: &Record| match record {
        Record::Begin | Record::End | Record::Alive(_) | Record::Value(_) | Record::Cleared(_) => true,
        Record::Session(session) => {
            begun.insert(session.number);
            true
        }
        Record::Ended(session) => begun.remove(session),
        Record::Subscribed { session, .. }
        | Record::Unsubscribed { session, .. }
        | Record::Owed { session, .. }
        | Record::Received { session, .. }
        | Record::Done { session, .. }
        | Record::Held { session, .. }
        | Record::Released { session, .. } => begun.contains(session),
    };
    changes.into_iter().filter(keep).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| alloc::format!("{octet:02x}")).collect()
}

/// The octets of docs/ledger.md.
#[test]
fn the_octets_are_those_of_the_document() {
    let message = Message {
        topic: Topic::new("a/b").unwrap(),
        payload: Bytes::from_static(b"on"),
        properties: Bytes::from_static(&[1, 1]),
        received: Timestamp::from_micros(1),
    };
    let (session, serial, packet_id) = (300, 2, 7);
    for (record, expect) in [
        (Record::Begin, "0101"),
        (Record::End, "0102"),
        (Record::Alive(Timestamp::from_micros(258)), "09030201000000000000"),
        (Record::Value(Value { message: message.clone(), qos: 1 }), "140403612f62026f6e020101010000000000000001"),
        (Record::Cleared(message.topic.clone()), "050503612f62"),
        (Record::Ended(session), "0307ac02"),
        (Record::Unsubscribed { session, filter: "a/#".to_string() }, "0709ac0203612f23"),
        (Record::Received { session, serial }, "040bac0202"),
        (Record::Done { session, serial }, "040cac0202"),
        (Record::Held { session, packet_id, sample: None }, "040dac0207"),
        (Record::Held { session, packet_id, sample: Some(Timestamp::from_micros(258)) }, "0c0fac02070201000000000000"),
        (Record::Released { session, packet_id }, "040eac0207"),
        (
            Record::Owed {
                session,
                serial,
                packet_id,
                qos: 2,
                retain: true,
                subscription_ids: vec![5],
                message: message.clone(),
            },
            "1a0aac02020706010503612f62026f6e0201010100000000000000",
        ),
    ] {
        let octets = written(core::slice::from_ref(&record));
        assert_eq!(hex(&octets[1..]), expect, "{record:?}");
        assert_eq!(Record::parse_all(&octets), Ok(vec![record]));
    }
}

#[test]
fn what_no_writer_makes_is_refused() {
    for (octets, expect) in [
        (&[][..], RecordError::Truncated),
        (&[2], RecordError::Version(2)),
        (&[1, 1], RecordError::Truncated),
        (&[1, 0], RecordError::Truncated),
        (&[1, 1, 99], RecordError::Tag(99)),
        (&[1, 2, 1, 0], RecordError::Illegal("rest")),
        (&[1, 3, 13, 1, 0], RecordError::Illegal("packet identifier")),
        (&[1, 3, 5, 1, b'#'], RecordError::Illegal("topic name")),
        (&[1, 3, 5, 1, 0xff], RecordError::Illegal("text")),
        (&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], RecordError::Illegal("number")),
        (&[1, 9, 3, 0, 0, 0, 0, 0, 0, 0, 0x7f], RecordError::Illegal("time")),
    ] {
        assert_eq!(Record::parse_all(octets), Err(expect), "{octets:02x?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in proptest::collection::vec(any_record(), 0..20)) {
        prop_assert_eq!(Record::parse_all(&written(&records)), Ok(records));
    }

    /// A record that is cut anywhere, or whose octets are changed, is refused or read, and costs no more than its octets.
    #[test]
    fn hostile_octets_do_no_harm(
        records in proptest::collection::vec(any_record(), 0..5),
        cut in any::<proptest::sample::Index>(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut octets = written(&records);
        for (at, flip) in flips {
            let at = at.index(octets.len());
            octets[at] ^= flip;
        }
        octets.truncate(cut.index(octets.len() + 1));
        if let Ok(read) = Record::parse_all(&octets) {
            prop_assert!(read.len() <= octets.len());
            prop_assert_eq!(Record::parse_all(&written(&read)), Ok(read));
        }
    }

    /// A walk that is mixed with changes, as the node mixes them, ends with what the changes alone make; and a log that
    /// is cut within the walk does so too. Each part of the state is walked at some moment, as it is then.
    #[test]
    fn a_walk_changes_nothing(
        changes in proptest::collection::vec(any_change(), 0..100),
        begins in any::<proptest::sample::Index>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let changes = well_formed(changes);
        let (before, meanwhile) = changes.split_at(begins.index(changes.len() + 1));
        let (mut log, mut plain, mut changes) = (before.to_vec(), before.to_vec(), meanwhile.iter().cloned());
        log.push(Record::Begin);
        let mut cuts = vec![(log.len(), plain.len())];
        let sessions = replayed(&plain).sessions.into_keys().map(Some);
        for step in sessions.chain([None]) {
            let image = replayed(&plain);
            match step {
                Some(number) => {
                    log.extend(image.sessions.get(&number).into_iter().flat_map(|kept| kept.records(number)));
                }
                None => log.extend(image.values.values().cloned().map(Record::Value)),
            }
            cuts.push((log.len(), plain.len()));
            for change in changes.by_ref().take(3) {
                log.push(change.clone());
                plain.push(change);
                cuts.push((log.len(), plain.len()));
            }
        }
        log.push(Record::End);
        let (at, done) = cuts[cut.index(cuts.len())];
        prop_assert_eq!(replayed(&log[..at]), replayed(&plain[..done]));
        for change in changes {
            log.push(change.clone());
            plain.push(change);
        }
        prop_assert_eq!(replayed(&log), replayed(&plain));
    }

    /// All that an image says makes it again.
    #[test]
    fn an_image_says_itself(changes in proptest::collection::vec(any_change(), 0..80)) {
        let image = replayed(&well_formed(changes));
        let said: Vec<Record> = image.records().collect();
        prop_assert_eq!(replayed(&said), image);
    }
}

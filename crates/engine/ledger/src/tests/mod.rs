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
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    ("[ab]{1,2}(/[ab])?", bytes(), bytes(), 0i64..1 << 50).prop_map(|(topic, payload, properties, micros)| Message {
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
    let user = (proptest::option::of("[a-c]{1,3}"), any::<Option<u64>>());
    (0u64..4, "[a-c]{0,3}", user, any::<u32>(), since, any_will()).prop_map(
        |(number, client, (user, stamp), expiry_s, away_since, will)| Session {
            number,
            client,
            user,
            stamp,
            expiry_s,
            away_since,
            will,
        },
    )
}

/// A change that is not part of a compaction, of few sessions, so that they meet.
fn any_change() -> impl Strategy<Value = Record> {
    let session = || prop_oneof![8 => 0u64..4, 1 => any::<u64>()];
    let filter = || "[ab+]{1,2}";
    let id = || 1u16..9;
    let pending =
        (session(), 0u64..20, id(), 1u8..3, any::<[bool; 2]>(), proptest::collection::vec(any::<u32>(), 0..3));
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
        (pending, any_message()).prop_map(|((session, serial, packet_id, qos, flags, subscription_ids), message)| {
            let [retain, unsent] = flags;
            Record::Pending { session, serial, packet_id, qos, retain, unsent, subscription_ids, message }
        }),
        (session(), 0u64..20).prop_map(|(session, serial)| Record::Sent { session, serial }),
        (session(), 0u64..20).prop_map(|(session, serial)| Record::Received { session, serial }),
        (session(), 0u64..20).prop_map(|(session, serial)| Record::Done { session, serial }),
        (session(), id(), proptest::option::of((0i64..1 << 50).prop_map(Timestamp::from_micros)))
            .prop_map(|(session, packet_id, sample)| Record::Held { session, packet_id, sample }),
        (session(), id()).prop_map(|(session, packet_id)| Record::Released { session, packet_id }),
        (0u64..50).prop_map(Record::LockNumbers),
        ("[ab]", 0u64..50, proptest::collection::vec(any::<u8>(), 0..3))
            .prop_map(|(name, occurrence, state)| Record::Alarm { name, occurrence, state: state.into() }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![1 => Just(Record::Begin), 1 => Just(Record::End), 20 => any_change()]
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::begin(&mut bytes);
    records.iter().for_each(|record| record.emit(&mut bytes));
    bytes
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
        Record::Begin
        | Record::End
        | Record::Alive(_)
        | Record::Value(_)
        | Record::Cleared(_)
        | Record::LockNumbers(_)
        | Record::Alarm { .. } => true,
        Record::Session(session) => {
            begun.insert(session.number);
            true
        }
        Record::Ended(session) => begun.remove(session),
        Record::Subscribed { session, .. }
        | Record::Unsubscribed { session, .. }
        | Record::Pending { session, .. }
        | Record::Sent { session, .. }
        | Record::Received { session, .. }
        | Record::Done { session, .. }
        | Record::Held { session, .. }
        | Record::Released { session, .. } => begun.contains(session),
    };
    changes.into_iter().filter(keep).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
}

/// The bytes of docs/ledger.md.
#[test]
fn the_bytes_are_those_of_the_document() {
    let message = Message {
        topic: Topic::new("a/b").unwrap(),
        payload: Bytes::from_static(b"on"),
        properties: Bytes::from_static(&[1, 1]),
        received: Timestamp::from_micros(1),
    };
    let (session, serial, packet_id) = (300, 2, 7);
    let of_anna = |stamp| {
        let (client, user) = ("c".to_string(), Some("anna".to_string()));
        Record::Session(Session { number: session, client, user, stamp, expiry_s: 60, away_since: None, will: None })
    };
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
            Record::Pending {
                session,
                serial,
                packet_id,
                qos: 2,
                retain: true,
                unsent: false,
                subscription_ids: vec![5],
                message: message.clone(),
            },
            "1a0aac02020706010503612f62026f6e0201010100000000000000",
        ),
        (
            Record::Pending {
                session,
                serial,
                packet_id,
                qos: 1,
                retain: false,
                unsent: true,
                subscription_ids: Vec::new(),
                message: message.clone(),
            },
            "190aac020207090003612f62026f6e0201010100000000000000",
        ),
        (Record::Sent { session, serial }, "0411ac0202"),
        (Record::LockNumbers(300), "0313ac02"),
        (Record::Alarm { name: "a".into(), occurrence: 300, state: Bytes::from_static(b"xy") }, "08140161ac02027879"),
        (of_anna(None), "0e06ac0201630104616e6e613c0000"),
        (of_anna(Some(258)), "1612ac0201630104616e6e613c00000201000000000000"),
    ] {
        let bytes = written(core::slice::from_ref(&record));
        assert_eq!(hex(&bytes[1..]), expect, "{record:?}");
        assert_eq!(Record::parse_all(&bytes), Ok(vec![record]));
    }
}

#[test]
fn what_no_writer_makes_is_refused() {
    for (bytes, expect) in [
        (&[][..], RecordError::Truncated),
        (&[3], RecordError::Version(3)),
        (&[2, 0, 0], RecordError::Truncated),
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
        assert_eq!(Record::parse_all(bytes), Err(expect), "{bytes:02x?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in proptest::collection::vec(any_record(), 0..20)) {
        prop_assert_eq!(Record::parse_all(&written(&records)), Ok(records));
    }

    /// A record that is cut anywhere, or whose bytes are changed, is refused or read, and costs no more than its bytes.
    #[test]
    fn hostile_bytes_do_no_harm(
        records in proptest::collection::vec(any_record(), 0..5),
        cut in any::<proptest::sample::Index>(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = written(&records);
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(read) = Record::parse_all(&bytes) {
            prop_assert!(read.len() <= bytes.len());
            prop_assert_eq!(Record::parse_all(&written(&read)), Ok(read));
        }
    }

    /// A compaction that is mixed with changes, as the node mixes them, ends with what the changes alone make; and a
    /// log that is cut within the compaction does so too. Each part of the state is written at some moment, as it is
    /// then.
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
                None => {
                    log.push(Record::LockNumbers(image.lock_numbers));
                    log.extend(image.alarm_records());
                    log.extend(image.values.values().cloned().map(Record::Value));
                }
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

fn session(number: u64, away: bool) -> Record {
    let (client, away_since) = (alloc::format!("c{number}"), away.then_some(Timestamp::from_micros(1)));
    Record::Session(Session { number, client, user: None, stamp: None, expiry_s: 60, away_since, will: None })
}

fn message_to(topic: &str) -> Message {
    let received = Timestamp::default();
    Message { topic: Topic::new(topic).unwrap(), payload: Bytes::from_static(b"x"), properties: Bytes::new(), received }
}

fn pending(session: u64, serial: u64) -> Record {
    let (packet_id, subscription_ids) = (7, Vec::new());
    Record::Pending {
        session,
        serial,
        packet_id,
        qos: 1,
        retain: false,
        unsent: false,
        subscription_ids,
        message: message_to("m"),
    }
}

fn value(topic: &str) -> Record {
    Record::Value(Value { message: message_to(topic), qos: 1 })
}

/// Batches of a log, one of which is lost, with the bytes that are found in its place; what is left and what is given
/// up.
fn check_lost(
    batches: &[&[Record]],
    lost: usize,
    found: Option<&[u8]>,
    left: (&[u64], &[&str]),
    given: (&[&str], usize, &[&str]),
) {
    let mut replay = Replay::default();
    for (at, batch) in batches.iter().enumerate() {
        if at == lost { replay.handle_lost(found) } else { replay.handle_record(&written(batch)).unwrap() }
    }
    let (image, gave) = replay.finish_with_losses();
    let mut topics: Vec<String> = image.values.keys().map(ToString::to_string).collect();
    topics.sort();
    assert_eq!((image.sessions.keys().copied().collect::<Vec<_>>(), topics), (left.0.to_vec(), strings(left.1)));
    let topics: Vec<String> = gave.topics.iter().map(ToString::to_string).collect();
    assert_eq!((gave.clients, gave.messages, topics), (strings(given.0), given.1, strings(given.2)));
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A session goes on where no lost batch can have spoken of it; its client is told where one can.
#[test]
fn a_lost_batch_costs_what_it_spoke_of() {
    let begun = [session(1, false), session(2, false), pending(1, 1), pending(2, 1), value("a"), value("b")];
    let batch = [pending(1, 2), Record::Released { session: 1, packet_id: 3 }, value("a")];
    let bytes = written(&batch);
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    // Of whom it spoke is known: the others lose nothing.
    let others = [pending(2, 2)];
    let known: [&[Record]; 3] = [&begun, &batch, &others];
    check_lost(&known, 1, Some(&flipped), (&[2], &["b"]), (&["c1"], 1, &["a"]));
    // What is written after it holds.
    let after = [Record::Ended(1), value("a"), session(3, false)];
    check_lost(&[&begun, &batch, &after], 1, Some(&flipped), (&[2, 3], &["a", "b"]), (&[], 0, &[]));
    // Of whom it spoke is not known: of all that were there, and of those that are there without a beginning.
    let after = [session(3, false), session(4, true), pending(5, 1), pending(3, 1)];
    for found in [None, Some(&bytes[..9]), Some(&[9; 9][..])] {
        check_lost(&[&begun, &batch, &after], 1, found, (&[3], &["a", "b"]), (&["c1", "c2", "c4"], 3, &[]));
    }
    // A compaction after it writes all state again; one that it interrupts says nothing of what is left out.
    let walk = [Record::Begin, session(1, false), value("a"), Record::End];
    check_lost(&[&begun, &batch, &walk], 1, None, (&[1], &["a"]), (&[], 0, &[]));
    let (begin, rest) = ([Record::Begin, session(2, false)], [value("b"), Record::End]);
    check_lost(&[&begun, &begin, &batch, &rest], 2, Some(&flipped), (&[2], &["b"]), (&["c1"], 1, &["a"]));
}

/// Whatever was said before: what is named as sent, and what came before it, was.
#[test]
fn what_is_sent_in_order_is_said_once() {
    let message = Message {
        topic: Topic::new("a").unwrap(),
        payload: Bytes::new(),
        properties: Bytes::new(),
        received: Timestamp::default(),
    };
    let pending = |serial, unsent| Record::Pending {
        session: 1,
        serial,
        packet_id: 1,
        qos: 1,
        retain: false,
        unsent,
        subscription_ids: Vec::new(),
        message: message.clone(),
    };
    let mut kept = Kept::default();
    for record in [
        pending(1, false),
        pending(2, true),
        pending(3, true),
        pending(4, true),
        Record::Sent { session: 1, serial: 3 },
    ] {
        kept.handle_change(record);
    }
    let unsent = |kept: &Kept| kept.pending.values().map(|pending| pending.unsent).collect::<Vec<_>>();
    assert_eq!(unsent(&kept), [false, false, false, true]);
    let mut said_anew = Kept::default();
    kept.records(1).for_each(|record| said_anew.handle_change(record));
    assert_eq!(unsent(&said_anew), [false, false, false, true]);
}

#[test]
fn a_record_with_a_place_says_the_same() {
    let mut record = Vec::new();
    Record::begin(&mut record);
    Record::Ended(7).emit(&mut record);
    let placed = Record::placed(0x0102_0304_0506_0708, &record);
    assert_eq!(placed[..9], [2, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!((Record::place_of(&placed), Record::place_of(&record)), (Some(0x0102_0304_0506_0708), None));
    assert_eq!(Record::parse_all(&placed).unwrap(), [Record::Ended(7)]);
    assert!(Record::parse_all(&placed[..5]).is_err());
}

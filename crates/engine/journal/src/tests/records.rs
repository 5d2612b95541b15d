use super::disk::Disk;
use crate::{
    Decoder, Journal, Limits, RecordError, Sample, Seq, begin_placed, decode, encode, encode_noted, find_last, note_of,
    place_of,
};
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::{Body, Point, Quality, Timestamp, Topic, Update, Value};

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-200i64..200).prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        any::<f32>().prop_map(|x| Value::Float(x.into())),
        "\\PC{0,20}".prop_map(|s| Value::Text(s.into())),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|o| Value::Bytes(o.into())),
    ]
}

fn samples() -> impl Strategy<Value = Sample> {
    let topic = prop_oneof!["[ab/é]{1,6}", "site/[a-c]/é?[0-9]{1,2}"];
    let point = (values(), any::<u16>(), prop_oneof![Just(1_700_000_000_000_000), any::<i64>()]).prop_map(
        |(value, bits, micros)| {
            Body::Point(Point { value, quality: Quality::from_bits(bits), time: Timestamp::from_micros(micros) })
        },
    );
    let opaque = prop::collection::vec(any::<u8>(), 0..20).prop_map(|o| Body::Opaque(o.into()));
    (topic, prop_oneof![4 => point, 1 => opaque], any::<i64>(), any::<bool>()).prop_map(
        |(topic, body, received, again)| {
            let update = Update { topic: Topic::new(&topic).unwrap(), body };
            Sample { again, ..Sample::new(Timestamp::from_micros(received), update) }
        },
    )
}

fn emit(samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(samples, &mut out);
    out
}

proptest! {
    #[test]
    fn records_round_trip(record in prop::collection::vec(samples(), 0..40)) {
        let bytes = emit(&record);
        let again = decode(&bytes).unwrap();
        // Compared as bytes too: a double that is not a number is equal to none.
        prop_assert_eq!(emit(&again), bytes);
        prop_assert_eq!(alloc::format!("{:?}", again), alloc::format!("{:?}", record));
    }

    #[test]
    fn a_note_is_kept_beside_the_samples(record in prop::collection::vec(samples(), 0..9), note: Vec<u8>) {
        let mut bytes = Vec::new();
        encode_noted(&note, &record, &mut bytes);
        prop_assert_eq!(note_of(&bytes), Some(note.as_slice()));
        prop_assert_eq!(alloc::format!("{:?}", decode(&bytes).unwrap()), alloc::format!("{:?}", record));
        let whole = emit(&record);
        prop_assert_eq!(note_of(&whole), None);
        prop_assert!(bytes.len() == 1 || decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn names_of_other_records_change_nothing(records in prop::collection::vec(prop::collection::vec(samples(), 0..9), 0..9)) {
        let mut decoder = Decoder::default();
        for record in records {
            let bytes = emit(&record);
            prop_assert!(decoder.decode(&bytes[..bytes.len() - 1]).is_err());
            prop_assert_eq!(alloc::format!("{:?}", decoder.decode(&bytes).unwrap()), alloc::format!("{:?}", record));
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let mut versioned = bytes;
        versioned.insert(0, 1);
        let _ = decode(&versioned);
    }

    #[test]
    fn changed_bytes_are_refused_or_read(
        samples in prop::collection::vec(samples(), 0..10), at: prop::sample::Index, to: u8, cut: prop::sample::Index,
    ) {
        let mut bytes = emit(&samples);
        let (at, cut) = (at.index(bytes.len()), cut.index(bytes.len()));
        prop_assert!(decode(&bytes[..cut]).is_err());
        bytes[at] = to;
        let _ = decode(&bytes);
    }
}

fn check(bytes: &[u8], expect: RecordError) {
    assert_eq!(decode(bytes), Err(expect), "{bytes:02x?}");
}

#[test]
fn wrong_records_are_named() {
    check(&[], RecordError::Truncated);
    check(&[4], RecordError::Version(4));
    check(&[3, 0, 0], RecordError::Truncated);
    check(&[2], RecordError::Truncated);
    check(&[2, 1], RecordError::Truncated);
    check(&[2, 1, b'x'], RecordError::Truncated);
    check(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f], RecordError::Truncated);
    check(&[1, 1, 0x40, 1], RecordError::Illegal("topic number"));
    check(&[1, 1, 0, 1, 1, b'a'], RecordError::Illegal("shared part of a topic name"));
    check(&[1, 1, 0, 0, 1, b'#'], RecordError::Illegal("topic name"));
    check(&[1, 1, 9, 0, 1, b'a'], RecordError::Illegal("kind"));
    check(&[1, 0, 0], RecordError::Illegal("rest"));
    check(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], RecordError::Illegal("number"));
}

#[test]
fn samples_of_two_records_share_a_name() {
    let update = Update { topic: Topic::new("site/a").unwrap(), body: Body::Opaque(bytes::Bytes::new()) };
    let bytes = emit(&[Sample::new(Timestamp::from_micros(1), update)]);
    let mut decoder = Decoder::default();
    let [one, other] = [(); 2].map(|()| decoder.decode(&bytes).unwrap().remove(0).update.topic);
    assert!(core::ptr::eq(one.as_str(), other.as_str()));
}

#[test]
fn a_point_of_a_steady_scan_costs_few_bytes() {
    let samples: Vec<Sample> = (0..1000)
        .map(|i| {
            let topic = Topic::new(&alloc::format!("site/feeder1/relay{}/point{}", i / 50, i % 50)).unwrap();
            let time = Timestamp::from_micros(1_700_000_000_000_000);
            let point = Point { value: Value::Float(59.98), quality: Quality::GOOD, time };
            Sample::new(time, Update { topic, body: Body::Point(point) })
        })
        .collect();
    let twice: Vec<Sample> = samples.iter().chain(&samples).cloned().collect();
    let sizes = [&samples, &twice].map(|record| emit(record).len());
    assert!(sizes[0] < 15 * 1000, "with names: {}", sizes[0]);
    assert!(sizes[1] - sizes[0] < 9 * 1000 + 10, "without: {}", sizes[1] - sizes[0]);
}

/// A record with a place.
fn placed(place: u64, note: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    begin_placed(place, &mut record);
    encode_noted(note, &[], &mut record);
    record
}

#[test]
fn a_record_with_a_place_is_read_without_it() {
    let record = placed(9, b"n");
    assert_eq!((place_of(&record), note_of(&record)), (Some(9), Some(&b"n"[..])));
    assert_eq!(decode(&record).unwrap(), []);
    let (mut plain, mut noted) = (Vec::new(), Vec::new());
    encode(&[], &mut plain);
    encode_noted(b"n", &[], &mut noted);
    assert_eq!((place_of(&plain), place_of(&noted), place_of(b"\x03123")), (None, None, None));
    assert_eq!(decode(&record[..9]), Err(RecordError::Truncated));
}

#[test]
fn the_last_place_is_found_whatever_is_behind_it() {
    let mut disk = Disk::new(1);
    let limits = Limits { segment_bytes: 256, ..Limits::default() };
    let mut plain = Vec::new();
    encode(&[], &mut plain);
    let (mut journal, _) = Journal::open(disk.clone(), limits, Seq(0), Timestamp::from_micros(1)).unwrap();
    assert_eq!(find_last(&mut disk, place_of).unwrap(), None);
    for place in 1..40 {
        journal.append(&placed(place, b"")).unwrap();
        journal.sync().unwrap();
        assert_eq!(find_last(&mut disk, place_of).unwrap(), Some(place));
    }
    // Several segments without any.
    for _ in 0..40 {
        journal.append(&plain).unwrap();
        journal.sync().unwrap();
    }
    assert!(journal.segments() > 4);
    assert_eq!(find_last(&mut disk, place_of).unwrap(), Some(39));
}

use super::pair;
use super::points::point;
use crate::*;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::{Body, Point, Quality, Timestamp, Value};

const ALL: CodecSet = CodecSet::POINT.with(CodecSet::HUNK).with(CodecSet::ZSTD);

/// Bodies are the same when their payloads are: doubles bit by bit.
fn same(a: &Body, b: &Body) -> bool {
    let whole = |body: &Body| Stream::new(Revision(0), body).since(None, CodecSet::POINT);
    whole(a) == whole(b)
}

fn bodies() -> impl Strategy<Value = Vec<Body>> {
    let bytes = prop::collection::vec(pair().prop_map(|(a, b)| [a, b]), 1..8)
        .prop_map(|pairs| pairs.concat().into_iter().map(|v| Body::Opaque(v.into())).collect::<Vec<_>>());
    let points = prop::collection::vec(point(), 1..60)
        .prop_map(|points| points.into_iter().map(Body::Point).collect::<Vec<_>>());
    prop_oneof![bytes, points]
}

proptest! {
    /// Receivers that lag by any number of updates, or take only some codecs, hold the sender's value each time they
    /// are sent something.
    #[test]
    fn whoever_is_sent_something_holds_the_senders_value(
        bodies in bodies(),
        first: u32,
        lags in prop::collection::vec((1..12_usize, 0..3_usize), 1..4),
    ) {
        let mut codecs = Codecs::built_in();
        let mut stream = Stream::new(Revision(first), &bodies[0]);
        let mut receivers: Vec<_> = lags.iter().map(|_| (Decoder::new(1 << 20), None)).collect();
        for (at, body) in bodies.iter().enumerate() {
            if at > 0 {
                stream.update(body, ALL, &mut codecs);
            }
            for ((decoder, held), (lag, takes)) in receivers.iter_mut().zip(&lags) {
                if at % lag != 0 {
                    continue;
                }
                let accepts = [ALL, CodecSet::POINT, CodecSet::HUNK][*takes];
                let payload = stream.since(*held, accepts).to_bytes();
                let decoded = decoder.apply(&payload, &mut codecs);
                let Ok(Decoded::Value(got)) = decoded else { panic!("{decoded:?} of {payload:?}") };
                match (&got, body) {
                    (Body::Opaque(text), Body::Point(point)) if accepts == CodecSet::HUNK => {
                        prop_assert_eq!(text, &point.to_json().into_bytes());
                    }
                    (got, body) => prop_assert!(same(got, body), "{:?} is not {:?}", got, body),
                }
                *held = Some(stream.revision());
                prop_assert_eq!(decoder.revision(), stream.revision().low());
                let check = stream.since(*held, accepts).to_bytes();
                let checked = decoder.apply(&check, &mut codecs);
                prop_assert!(!matches!(checked, Err(_) | Ok(Decoded::Waiting)), "{:?} of {:?}", checked, check);
            }
        }
    }

    #[test]
    fn a_decoder_survives_any_bytes(payloads: Vec<Vec<u8>>, body in bodies()) {
        let mut codecs = Codecs::built_in();
        let mut decoder = Decoder::new(1000);
        let first = Stream::new(Revision(0), &body[0]).since(None, ALL).to_bytes();
        for payload in payloads {
            let _ = decoder.apply(&first, &mut codecs);
            for kind in 0..8_u8 {
                let mut bytes = alloc::vec![kind << 5];
                bytes.extend_from_slice(&payload);
                if let Ok(Decoded::Value(Body::Opaque(value))) = decoder.apply(&bytes.into(), &mut codecs) {
                    assert!(value.len() <= 1000);
                }
                let _ = decoder.apply(&first, &mut codecs);
            }
        }
    }
}

fn float(x: f64, millis: i64) -> Body {
    Body::Point(Point { value: Value::Float(x), quality: Quality::GOOD, time: Timestamp::from_millis(millis) })
}

#[test]
fn a_lost_payload_is_noticed_and_a_whole_value_heals_it() {
    let mut codecs = Codecs::built_in();
    let mut stream = Stream::new(Revision(30), &float(1.0, 0));
    let mut decoder = Decoder::new(100);
    let delta = |stream: &mut Stream, codecs: &mut Codecs, x: f64| {
        let base = stream.revision();
        stream.update(&float(x, 0), ALL, codecs);
        stream.since(Some(base), ALL).to_bytes()
    };
    let early = delta(&mut stream, &mut codecs, 2.0);
    assert_eq!(decoder.apply(&early, &mut codecs), Err(DeltaError::NoBase));
    decoder.apply(&stream.since(None, ALL).to_bytes(), &mut codecs).unwrap();
    let _lost = delta(&mut stream, &mut codecs, 3.0);
    let next = delta(&mut stream, &mut codecs, 4.0);
    let gap = DeltaError::Gap { have: Low::new(31), base: Low::new(0) };
    assert_eq!(decoder.apply(&next, &mut codecs), Err(gap));
    assert_eq!(decoder.value(), None);
    let next = delta(&mut stream, &mut codecs, 5.0);
    assert_eq!(decoder.apply(&next, &mut codecs), Ok(Decoded::Waiting));
    let whole = stream.since(None, ALL).to_bytes();
    assert_eq!(decoder.apply(&whole, &mut codecs), Ok(Decoded::Value(float(5.0, 0))));
    let next = delta(&mut stream, &mut codecs, 6.0);
    assert_eq!(decoder.apply(&next, &mut codecs), Ok(Decoded::Value(float(6.0, 0))));
    assert_eq!(decoder.value(), Some(float(6.0, 0)));
}

/// Exactly 32 payloads lost leave the revision as it was; the CRC-32 that comes with every 32nd tells.
#[test]
fn a_gap_that_revisions_cannot_show_is_found_by_the_next_check() {
    let mut codecs = Codecs::built_in();
    let mut stream = Stream::new(Revision(3), &float(0.0, 0));
    let mut decoder = Decoder::new(100);
    decoder.apply(&stream.since(None, ALL).to_bytes(), &mut codecs).unwrap();
    let mut wrong = 0;
    for count in 1..=64_u32 {
        stream.update(&float(f64::from(count * count), 0), ALL, &mut codecs);
        if count <= 32 {
            continue;
        }
        let base = Revision(stream.revision().0 - 1);
        match decoder.apply(&stream.since(Some(base), ALL).to_bytes(), &mut codecs) {
            Ok(_) => wrong += 1,
            Err(error) => {
                assert_eq!((error, wrong), (DeltaError::Mismatch, 28));
                return;
            }
        }
    }
    panic!("nothing was noticed");
}

/// A 0.01-step random walk, about a second apart: docs/delta.md says four bytes at most.
#[test]
fn a_points_update_takes_three_bytes() {
    let mut codecs = Codecs::built_in();
    let (mut cents, mut millis, mut draw) = (5_000_i32, 1_795_167_360_000_i64, 1_u32);
    let mut stream = Stream::new(Revision(0), &float(50.0, millis));
    let (mut bytes, mut most) = (0, 0);
    for _ in 0..3_200 {
        draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        cents += i32::try_from(draw >> 28).unwrap() - 8;
        millis += 980 + i64::from(draw >> 8 & 31);
        let base = stream.revision();
        stream.update(&float(f64::from(cents) / 100.0, millis), ALL, &mut codecs);
        let payload = stream.since(Some(base), ALL);
        bytes += payload.len();
        most = most.max(payload.len());
    }
    assert!(bytes <= 3_200 * 32 / 10, "{bytes} bytes for 3,200 updates");
    assert!(most <= 8, "{most} bytes: a check and at most four");
}

#[cfg(feature = "hunk")]
#[test]
fn the_smallest_of_delta_chain_and_value_is_sent() {
    let mut codecs = Codecs::built_in();
    let text = |n: usize| Body::Opaque(bytes::Bytes::from(std::format!("{{\"count\":{n:06},\"unit\":\"m3\"}}")));
    let mut stream = Stream::new(Revision(0), &text(0));
    let mut check = |updates: usize, base: u32, accepts: CodecSet, expect: (Kind, u8)| {
        for n in 0..updates {
            stream.update(&text(n * 111_111 % 999_983), ALL, &mut codecs);
        }
        let payload = stream.since(Some(Revision(base)), accepts).to_bytes();
        let parts = Parts::parse(&payload).unwrap();
        assert_eq!((parts.header.kind, parts.count), expect, "from {base}");
        assert!(payload.len() <= 1 + 30);
    };
    check(1, 0, CodecSet::HUNK, (Kind::Same, 1));
    check(2, 2, CodecSet::HUNK, (Kind::Delta(CodecId::HUNK), 1));
    check(0, 1, CodecSet::HUNK, (Kind::Several, 2));
    check(0, 2, CodecSet::POINT, (Kind::Bytes, 0));
    check(0, 3, CodecSet::HUNK, (Kind::Several, 0));
    check(9, 2, CodecSet::HUNK, (Kind::Bytes, 0));
}

#[cfg(feature = "hunk")]
#[test]
fn a_topic_whose_deltas_do_not_pay_is_left_alone() {
    let mut codecs = Codecs::built_in();
    let noise = |n: u32| {
        let mut x = n.wrapping_mul(2_654_435_761) | 1;
        let bytes = (0..400).map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            x.to_le_bytes()[1]
        });
        Body::Opaque(bytes.collect::<Vec<u8>>().into())
    };
    let mut stream = Stream::new(Revision(0), &noise(0));
    for n in 1..100 {
        assert_eq!(stream.update(&noise(n), ALL, &mut codecs), Updated::Whole);
    }
    // Once it changes its ways, deltas come back, at the latest after 63 values.
    let calm = |n: u32| Body::Opaque(std::format!("{:0400}", n).into_bytes().into());
    let back = (0..70).position(|n| stream.update(&calm(n), ALL, &mut codecs) == Updated::Delta);
    assert!(back.is_some_and(|n| n > 0), "{back:?}");
    assert!(stream.held_bytes() < 500);
}

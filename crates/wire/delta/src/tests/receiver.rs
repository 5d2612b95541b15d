use crate::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use tieline_core::{Body, Filter, Point, Topic, Value};

fn int(value: i64) -> Body {
    Body::Point(Point { value: Value::Int(value), ..Point::default() })
}

fn receiver(topics_max: usize) -> Receiver {
    Receiver::new(Codecs::built_in(), ReceiverLimits { topics_max, value_octets_max: 1000 })
}

/// What came of a PUBLISH, in words.
fn publish(receiver: &mut Receiver, topic: &str, alias: Option<u16>, payload: &Bytes) -> Vec<std::string::String> {
    let mut events = Vec::new();
    receiver.handle_publish(&Topic::new(topic).unwrap(), alias, payload, &mut events);
    let told = events.into_iter().map(|event| match event {
        Event::Value { topic, body: Body::Point(point) } => std::format!("{topic} = {:?}", point.value.as_f64()),
        Event::Value { topic, body: Body::Opaque(octets) } => std::format!("{topic} = {octets:?}"),
        Event::Lost { topic, error } => std::format!("{topic} lost: {error}"),
    });
    told.collect()
}

#[test]
fn only_what_was_agreed_is_decoded() {
    let mut receiver = receiver(10);
    let (deltas, plain) = (Filter::new("a/+").unwrap(), Filter::new("#").unwrap());
    assert!(receiver.offer().unwrap().starts_with("point,batch"));
    assert_eq!(receiver.handle_suback(&plain, None), CodecSet::NONE);
    assert_eq!(receiver.handle_suback(&deltas, Some("point")), CodecSet::POINT);
    let whole = Stream::new(Revision(1), &int(5)).since(None, CodecSet::POINT).to_bytes();
    assert_eq!(publish(&mut receiver, "a/b", None, &whole), ["a/b = Some(5.0)"]);
    assert_eq!(publish(&mut receiver, "b", None, &Bytes::from("as it is")), ["b = b\"as it is\""]);
    receiver.handle_unsuback(&deltas);
    assert_eq!(receiver.topics(), 0);
    assert_eq!(publish(&mut receiver, "a/b", None, &Bytes::from("as it is")), ["a/b = b\"as it is\""]);
    receiver.handle_suback(&deltas, Some("point"));
    receiver.handle_disconnect();
    assert_eq!(publish(&mut receiver, "a/b", None, &Bytes::from("as it is")), ["a/b = b\"as it is\""]);
}

#[test]
fn a_lost_value_is_asked_for_once() {
    let mut receiver = receiver(10);
    receiver.handle_suback(&Filter::new("#").unwrap(), Some("point"));
    let mut stream = Stream::new(Revision(0), &int(0));
    let mut codecs = Codecs::default();
    let mut next = |value: i64| {
        let base = stream.revision();
        stream.update(&int(value), CodecSet::POINT, &mut codecs);
        (stream.since(Some(base), CodecSet::POINT).to_bytes(), stream.since(None, CodecSet::POINT).to_bytes())
    };
    let lost = "t lost: a delta before any whole value";
    assert_eq!(publish(&mut receiver, "t", None, &next(1).0), [lost]);
    assert_eq!(publish(&mut receiver, "t", None, &next(2).0), [""; 0]);
    assert_eq!(publish(&mut receiver, "t", None, &Bytes::from(&[0xFF][..])), [""; 0]);
    assert_eq!(receiver.poll_resync().map(|topic| topic.to_string()).as_deref(), Some("t"));
    assert_eq!(receiver.poll_resync(), None);
    assert_eq!(publish(&mut receiver, "t", None, &next(3).1), ["t = Some(3.0)"]);
    assert_eq!(publish(&mut receiver, "t", None, &next(4).0), ["t = Some(4.0)"]);
    assert_eq!(publish(&mut receiver, "t", None, &Bytes::new()), ["t = b\"\""]);
    assert_eq!(publish(&mut receiver, "t", None, &next(5).0), [lost]);
    let stats = receiver.stats();
    assert_eq!((stats.values, stats.deltas, stats.lost, stats.waiting), (2, 1, 2, 2));
}

#[test]
fn batches_carry_the_topics_whose_aliases_are_known() {
    let mut receiver = receiver(10);
    receiver.handle_suback(&Filter::new("#").unwrap(), Some("point,batch"));
    let mut codecs = Codecs::default();
    let mut batch = Batch::default();
    for (alias, topic) in [(3, "x"), (200, "y")] {
        let mut stream = Stream::new(Revision(0), &int(0));
        let whole = stream.since(None, CodecSet::POINT).to_bytes();
        assert_eq!(publish(&mut receiver, topic, Some(alias), &whole).len(), 1);
        stream.update(&int(i64::from(alias)), CodecSet::POINT, &mut codecs);
        let alias = NonZeroU16::new(alias).unwrap();
        assert!(batch.push(alias, &stream.since(Some(Revision(0)), CodecSet::POINT)));
        assert!(!batch.push(alias, &stream.since(None, CodecSet::POINT)));
    }
    assert_eq!(batch.len(), 4 + 6);
    let octets: Bytes = batch.take().into();
    assert_eq!(publish(&mut receiver, BATCH_TOPIC, Some(9), &octets), ["x = Some(3.0)", "y = Some(200.0)"]);
    let check = |receiver: &mut Receiver, octets: &[u8]| {
        let before = receiver.stats().malformed;
        assert_eq!(publish(receiver, BATCH_TOPIC, Some(9), &Bytes::copy_from_slice(octets)), [""; 0]);
        assert_eq!(receiver.stats().malformed, before + 1);
    };
    check(&mut receiver, &[4, 1, 0]);
    check(&mut receiver, &[0, 1, 0]);
    check(&mut receiver, &[3, 9, 0]);
    check(&mut receiver, &[0xFF, 0xFF, 0xFF, 0x01, 0]);
}

#[test]
fn a_full_receiver_forgets_a_topic_and_asks_for_it_again() {
    let mut receiver = receiver(2);
    receiver.handle_suback(&Filter::new("#").unwrap(), Some("point"));
    let whole = Stream::new(Revision(1), &int(5)).since(None, CodecSet::POINT).to_bytes();
    for topic in ["a", "b", "c", "d"] {
        assert_eq!(publish(&mut receiver, topic, None, &whole).len(), 1);
    }
    assert_eq!((receiver.topics(), receiver.stats().forgotten), (2, 2));
}

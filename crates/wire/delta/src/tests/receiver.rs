use crate::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Body, Filter, Point, Topic, Value};

fn int(value: i64) -> Body {
    Body::Point(Point { value: Value::Int(value), ..Point::default() })
}

fn receiver(topics_max: usize) -> Receiver {
    Receiver::new(Codecs::built_in(), ReceiverLimits { topics_max, value_bytes_max: 1000 })
}

/// What came of a PUBLISH, in words.
fn publish(
    receiver: &mut Receiver,
    topic: &str,
    (alias, is_marked): (Option<u16>, bool),
    payload: &Bytes,
) -> Vec<std::string::String> {
    let mut events = Vec::new();
    let topic = Topic::new(topic).unwrap();
    receiver.handle_publish(Publish { topic: &topic, alias, is_marked, payload, version: None }, &mut events);
    let told = events.into_iter().map(|event| match event {
        Event::Value { topic, body: Body::Point(point) } => std::format!("{topic} = {:?}", point.value.as_f64()),
        Event::Value { topic, body } => std::format!("{topic} = {:?}", body.to_payload()),
        Event::Lost { topic, error } => std::format!("{topic} lost: {error}"),
    });
    told.collect()
}

const PLAIN: (Option<u16>, bool) = (None, false);
const MARKED: (Option<u16>, bool) = (None, true);

/// What is plain and what is not is said by each message, whichever filters there are at the moment.
#[test]
fn only_what_is_marked_is_decoded() {
    let mut receiver = receiver(10);
    let filter = Filter::new("a/+").unwrap();
    assert!(receiver.offer().unwrap().starts_with("point"));
    assert_eq!(receiver.handle_suback(&filter, None), CodecSet::NONE);
    assert_eq!(receiver.handle_suback(&filter, Some("point")), CodecSet::POINT);
    let mut stream = Stream::new(Revision(1), &int(5));
    let whole = stream.since(None, CodecSet::POINT).to_bytes();
    let plain = Bytes::from("as it is");
    assert_eq!(publish(&mut receiver, "a/b", (Some(17), true), &whole), ["a/b = Some(5.0)"]);
    // A message of an overlapping subscription, with an alias of its own or without, changes nothing.
    assert_eq!(publish(&mut receiver, "a/b", PLAIN, &plain), ["a/b = b\"as it is\""]);
    assert_eq!(publish(&mut receiver, "a/b", (Some(1), false), &plain), ["a/b = b\"as it is\""]);
    stream.update(&int(6), CodecSet::POINT, &mut Codecs::default());
    let delta = stream.since(Some(Revision(1)), CodecSet::POINT).to_bytes();
    assert_eq!(publish(&mut receiver, "a/b", (Some(17), false), &delta), ["a/b = Some(6.0)"]);
    // What is still on its way when the last filter has gone.
    receiver.handle_unsuback(&filter);
    assert_eq!(receiver.topics(), 0);
    assert_eq!(publish(&mut receiver, "a/b", (Some(17), false), &whole), ["a/b = Some(5.0)"]);
    assert_eq!(publish(&mut receiver, "a/b", PLAIN, &plain), ["a/b = b\"as it is\""]);
    // An alias may come to stand for another topic.
    assert_eq!(publish(&mut receiver, "a/c", (Some(17), true), &whole), ["a/c = Some(5.0)"]);
    receiver.handle_disconnect();
    assert_eq!(publish(&mut receiver, "a/c", (Some(17), false), &plain), ["a/c = b\"as it is\""]);
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
    assert_eq!(publish(&mut receiver, "t", MARKED, &next(1).0), [lost]);
    assert_eq!(publish(&mut receiver, "t", MARKED, &next(2).0), [""; 0]);
    assert_eq!(publish(&mut receiver, "t", MARKED, &Bytes::from(&[0xFF][..])), [""; 0]);
    assert_eq!(receiver.poll_resync().map(|topic| topic.to_string()).as_deref(), Some("t"));
    assert_eq!(receiver.poll_resync(), None);
    assert_eq!(publish(&mut receiver, "t", MARKED, &next(3).1), ["t = Some(3.0)"]);
    assert_eq!(publish(&mut receiver, "t", MARKED, &next(4).0), ["t = Some(4.0)"]);
    assert_eq!(publish(&mut receiver, "t", MARKED, &Bytes::new()), ["t = b\"\""]);
    assert_eq!(publish(&mut receiver, "t", MARKED, &next(5).0), [lost]);
    let stats = receiver.stats();
    assert_eq!((stats.values, stats.deltas, stats.lost, stats.waiting), (2, 1, 2, 2));
}

#[test]
fn a_full_receiver_forgets_a_topic_and_asks_for_it_again() {
    let mut receiver = receiver(2);
    receiver.handle_suback(&Filter::new("#").unwrap(), Some("point"));
    let whole = Stream::new(Revision(1), &int(5)).since(None, CodecSet::POINT).to_bytes();
    for topic in ["a", "b", "c", "d"] {
        assert_eq!(publish(&mut receiver, topic, MARKED, &whole).len(), 1);
    }
    assert_eq!((receiver.topics(), receiver.stats().forgotten), (2, 2));
}

/// A version comes with a name, and is counted on from there by the revisions of what has an alias alone.
#[test]
fn versions_are_counted_on_from_one_that_was_told() {
    let (mut receiver, topic) = (receiver(10), Topic::new("a").unwrap());
    let (mut stream, mut codecs) = (Stream::new(Revision(30), &int(5)), Codecs::default());
    let mut take = |stream: &mut Stream, base: Option<Revision>, version: Option<u64>, is_marked: bool| {
        let payload = stream.since(base, CodecSet::POINT).to_bytes();
        let publish = Publish { topic: &topic, alias: Some(17), is_marked, payload: &payload, version };
        receiver.handle_publish(publish, &mut Vec::new());
        receiver.version()
    };
    let mut next = |stream: &mut Stream, updates: i64| {
        let base = stream.revision();
        for value in 0..updates {
            stream.update(&int(value), CodecSet::POINT, &mut codecs);
        }
        Some(base)
    };
    assert_eq!(take(&mut stream, None, Some(u64::from(u32::MAX)), true), Some(4_294_967_295));
    let base = next(&mut stream, 3);
    assert_eq!(take(&mut stream, base, None, false), Some(4_294_967_298));
    next(&mut stream, 2);
    assert_eq!(take(&mut stream, None, None, false), Some(4_294_967_300), "a value that is whole");
    let base = next(&mut stream, 1);
    assert_eq!(take(&mut stream, base, Some(7), true), Some(7), "what is told counts");
    let base = next(&mut stream, 1);
    assert_eq!(take(&mut stream, base, None, false), Some(8));
    let base = next(&mut stream, 1);
    assert_eq!(take(&mut stream, base, None, true), None, "it is not told any more");
    let base = next(&mut stream, 1);
    assert_eq!(take(&mut stream, base, None, false), None);
    next(&mut stream, 1);
    assert_eq!(take(&mut stream, None, Some(9), true), Some(9));
    // Of a value that was lost, none knows how many more were.
    let base = next(&mut stream, 1).map(Revision::next);
    assert_eq!(take(&mut stream, base, None, false), None);
    assert_eq!(take(&mut stream, None, None, false), None);
}

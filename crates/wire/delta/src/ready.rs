//! A delta that came of another sender, to be passed on: what leads from one value to the next is the same for all who hold the
//! first, whatever each sender counts as its revision.

use crate::{CodecId, CodecSet, Kind, Parts};
use bytes::Bytes;

/// A delta of bytes, and the value that it is told against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyDelta {
    base: Bytes,
    codec: CodecId,
    delta: Bytes,
}

impl ReadyDelta {
    /// That of a payload which was applied to these bytes; none where it has no delta, or several.
    pub(crate) fn of(payload: &Bytes, base: Bytes) -> Option<Self> {
        let parts = Parts::parse(payload).ok()?;
        match parts.header.kind {
            Kind::Delta(codec) if codec != CodecId::POINT => {
                Some(Self { base, codec, delta: payload.slice_ref(parts.rest) })
            }
            Kind::Delta(_) | Kind::Same | Kind::Several | Kind::Bytes | Kind::Point => None,
        }
    }

    /// The codec and the delta, for subscribers that hold this value and take one of these codecs.
    pub(crate) fn from(&self, base: &Bytes, wanted: CodecSet) -> Option<(CodecId, Bytes)> {
        let leads = wanted.contains(CodecSet::of(self.codec)) && self.base == *base;
        leads.then(|| (self.codec, self.delta.clone()))
    }
}

#[cfg(all(test, feature = "hunk"))]
mod tests {
    use super::*;
    use crate::{Codecs, Event, Publish, Receiver, ReceiverLimits, Revision, Stream, Updated};
    use alloc::format;
    use alloc::vec::Vec;
    use tieline_core::{Body, Topic};

    fn value(number: u32) -> Body {
        let text = format!("{{\"name\":\"a pump with a long name\",\"state\":\"running\",\"count\":{number}}}");
        Body::Opaque(text.into())
    }

    /// An edge says of each value what its upstream said, but for the revision.
    #[test]
    fn a_delta_goes_on_as_it_came() {
        let topic = Topic::new("pump").unwrap();
        let mut codecs = Codecs::built_in();
        let all = codecs.set();
        let mut upstream = Stream::new(Revision(7), &value(0));
        let mut receiver = Receiver::new(Codecs::built_in(), ReceiverLimits::default()).passing_on();
        let mut edge = None::<Stream>;
        let mut events = Vec::new();
        for number in 0..100 {
            let base = (number > 0).then(|| upstream.revision());
            if number > 0 {
                assert_eq!(upstream.update(&value(number), all, &mut codecs), Updated::Delta);
            }
            let came = upstream.since(base, all).to_bytes();
            let publish = Publish { topic: &topic, alias: None, is_marked: true, payload: &came, version: None };
            receiver.handle_publish(publish, &mut events);
            let ready = receiver.take_ready();
            let Some(Event::Value { body, .. }) = events.pop() else { panic!("{number}") };
            assert_eq!(body, value(number));
            let Some(stream) = &mut edge else {
                assert_eq!(ready, None);
                edge = Some(Stream::new(Revision(1000), &body));
                continue;
            };
            let base = stream.revision();
            // Codecs that find nothing show that nothing is looked for.
            let mut none = Codecs::default();
            assert_eq!(stream.update_ready(&body, ready.as_ref(), all, &mut none), Updated::Delta, "{number}");
            let goes = stream.since(Some(base), all).to_bytes();
            let delta = |payload: &Bytes| Parts::parse(payload).unwrap().rest.to_vec();
            assert_eq!(delta(&came), delta(&goes));
            upstream.settle();
            stream.settle();
        }
    }

    #[test]
    fn a_delta_of_another_value_is_not_passed_on() {
        let mut codecs = Codecs::built_in();
        let all = codecs.set();
        let ready = ReadyDelta { base: value(5).to_payload(), codec: CodecId::HUNK, delta: Bytes::from_static(b"x") };
        assert_eq!(ready.from(&value(4).to_payload(), all), None);
        assert_eq!(ready.from(&value(5).to_payload(), CodecSet::POINT), None);
        let mut stream = Stream::new(Revision(0), &value(4));
        assert_eq!(stream.update_ready(&value(6), Some(&ready), all, &mut codecs), Updated::Delta);
        let mut decoder = crate::Decoder::new(1000);
        decoder.apply(&Stream::new(Revision(0), &value(4)).since(None, all).to_bytes(), &mut codecs).unwrap();
        let decoded = decoder.apply(&stream.since(Some(Revision(0)), all).to_bytes(), &mut codecs).unwrap();
        assert_eq!(decoded, crate::Decoded::Value(value(6)));
    }
}

//! What subscribers with deltas make of what comes.

use super::plan::Plan;
use super::quote::{VALUE_BYTES, blank, read, stamp};
use super::values::{Form, Points};
use bytes::Bytes;
use tieline_delta::{CodecId, Codecs, Decoded, Decoder, Kind, Low, Parts, items};

/// What is known of some subscriptions.
pub enum Rebuild {
    /// Values are documents.
    Json(Quotes),
    /// They are points: what is known of one is more than its value.
    Point(Codecs, Vec<Decoder>),
}

impl Rebuild {
    /// Nothing has come yet.
    pub fn new(plan: &Plan, subscriptions: usize) -> Self {
        match plan.form {
            Form::Json => Self::Json(Quotes::new(subscriptions)),
            Form::Point => Self::Point(Codecs::built_in(), vec![Decoder::new(VALUE_BYTES); subscriptions]),
        }
    }

    /// When the value was due that a payload makes of the one before, which was due at `before_us`; none where that is not
    /// what was published.
    pub fn due_us(
        &mut self,
        points: &Points,
        place: usize,
        topic: usize,
        before_us: u64,
        payload: &[u8],
    ) -> Option<u64> {
        match self {
            Self::Json(quotes) => quotes.time_of(place, topic, before_us, payload),
            Self::Point(codecs, decoders) => {
                let decoder = decoders.get_mut(place)?;
                match decoder.apply(&Bytes::copy_from_slice(payload), codecs).ok()? {
                    Decoded::Value(value) => points.due_us(topic, &value),
                    Decoded::Checked | Decoded::Waiting => None,
                }
            }
        }
    }
}

/// Documents. A value says its own time and follows from it: of each subscription no more is kept than that time, which the
/// caller has, and the revision.
pub struct Quotes {
    codecs: Codecs,
    revisions: Vec<Option<Low>>,
    base: Vec<u8>,
    value: Vec<u8>,
}

impl Quotes {
    fn new(subscriptions: usize) -> Self {
        let revisions = vec![None; subscriptions];
        Self { codecs: Codecs::built_in(), revisions, base: blank(), value: Vec::with_capacity(VALUE_BYTES) }
    }

    /// The time of the value that a payload makes of the one before, whose time is `before_us`; none where that is not
    /// what was published.
    fn time_of(&mut self, place: usize, topic: usize, before_us: u64, payload: &[u8]) -> Option<u64> {
        let parts = Parts::parse(payload).ok()?;
        let known = self.revisions.get_mut(place)?.replace(parts.result());
        if parts.header.kind == Kind::Bytes {
            return read(parts.rest, topic);
        }
        if known != Some(parts.header.revision) {
            return None;
        }
        stamp(&mut self.base, topic, before_us);
        match parts.header.kind {
            Kind::Bytes | Kind::Point => return None,
            Kind::Same => {}
            Kind::Delta(codec) => self.apply(codec, parts.rest)?,
            Kind::Several if parts.count == 0 => return None,
            Kind::Several => {
                for item in items(parts.rest) {
                    let (codec, delta) = item.ok()?;
                    self.apply(codec, delta)?;
                }
            }
        }
        read(&self.base, topic)
    }

    fn apply(&mut self, codec: CodecId, delta: &[u8]) -> Option<()> {
        self.value.clear();
        self.codecs.by_id(codec)?.apply(&self.base, delta, VALUE_BYTES, &mut self.value).ok()?;
        std::mem::swap(&mut self.base, &mut self.value);
        // The next base is written over this one.
        (self.base.len() == VALUE_BYTES).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::values::Writer;
    use tieline_core::{Body, Point};
    use tieline_delta::{CodecSet, Revision, Stream};

    #[test]
    fn the_time_of_a_value_comes_out_of_deltas_and_of_nothing_else() {
        let value = |time_us| {
            let mut value = blank();
            stamp(&mut value, 7, time_us);
            Body::Opaque(value.into())
        };
        let (mut codecs, mut rebuild) = (Codecs::built_in(), Quotes::new(2));
        let mut stream = Stream::new(Revision(4), &value(1000));
        let mut update = |time_us, base: Option<Revision>| {
            stream.update(&value(time_us), CodecSet::HUNK, &mut codecs);
            stream.since(base, CodecSet::HUNK).to_bytes()
        };
        let whole = update(2000, None);
        assert_eq!(rebuild.time_of(1, 7, 0, &whole), Some(2000));
        let delta = update(345_678, Some(Revision(5)));
        assert_eq!(rebuild.time_of(1, 7, 2000, &delta), Some(345_678));
        // Once more it is not from the value that is held.
        assert_eq!(rebuild.time_of(1, 7, 345_678, &delta), None);
        assert_eq!(rebuild.time_of(0, 7, 0, &delta), None);
        update(400_000, None);
        let whole = update(500_000, None);
        assert_eq!(rebuild.time_of(1, 7, 345_678, &whole), Some(500_000));
        update(600_000, None);
        let several = update(700_000, Some(Revision(8)));
        assert_eq!(rebuild.time_of(1, 7, 500_000, &several), Some(700_000));
        // Of another base than the one that is held, something else comes out.
        let delta = update(800_000, Some(Revision(10)));
        assert_eq!(rebuild.time_of(1, 7, 123_456, &delta), None);
    }

    #[test]
    fn points_come_out_of_deltas() {
        let plan = Plan { subscribers: 1, topics: 2, rate: 2, subscriptions_each: 2, form: Form::Point };
        let (points, mut rebuild) = (Points::new(plan, 0), Rebuild::new(&plan, 2));
        let mut codecs = Codecs::built_in();
        let mut writer = Writer::new(&plan);
        let mut point = |round: u64| {
            let due_us = round * 1_000_000;
            (due_us, Body::Point(Point::from_exact_json(writer.write(0, round, due_us)).unwrap()))
        };
        let mut stream = Stream::new(Revision(0), &point(0).1);
        for round in 1..100 {
            let (due_us, value) = point(round);
            stream.update(&value, CodecSet::POINT, &mut codecs);
            let base = (round > 1).then(|| Revision(stream.revision().0 - 1));
            let payload = stream.since(base, CodecSet::POINT).to_bytes();
            assert_eq!(rebuild.due_us(&points, 1, 0, 0, &payload), Some(due_us));
            // Twice it is not from the value that is held.
            if round == 99 {
                assert_eq!(rebuild.due_us(&points, 1, 0, 0, &payload), None);
            }
        }
    }
}

//! What is published: documents of 950 bytes in which two numbers change, which follow from the topic and how often it was updated.
//! And what a subscriber makes of what comes: of each subscription no more is kept than that number and the revision.

use tieline_delta::{CodecId, Codecs, Kind, Low, Parts, items};

const BYTES: usize = 950;
const TIME_AT: usize = 9;
const TIME_DIGITS: usize = 13;
const POINTS_AT: usize = 210;
const POINTS_DIGITS: usize = 3;

/// A topic's value after so many updates.
pub fn document(topic: usize, number: u32) -> Vec<u8> {
    let mut value = Vec::with_capacity(BYTES);
    write(&mut value, topic, number);
    value
}

fn write(value: &mut Vec<u8>, topic: usize, number: u32) {
    value.clear();
    let points = (topic + usize::try_from(number).unwrap_or(0) * 7) % 1000;
    value.extend_from_slice(
        format!("{{\"time\":\"{number:0TIME_DIGITS$}\",\"pair\":\"{topic:08}\",\"tiers\":\"").as_bytes(),
    );
    let pattern = b"1.10412 1.10633 1.10752 0.991 1.211 613 614 ";
    let filler = pattern.iter().cycle().take(POINTS_AT - value.len());
    value.extend(filler);
    value.extend_from_slice(format!("{points:0POINTS_DIGITS$}").as_bytes());
    let filler = pattern.iter().cycle().take(BYTES - 2 - value.len());
    value.extend(filler);
    value.extend_from_slice(b"\"}");
}

/// Which value of its topic a document is; none where nobody published it.
fn read(value: &[u8], topic: usize, scratch: &mut Vec<u8>) -> Option<u32> {
    let digits = value.get(TIME_AT..TIME_AT + TIME_DIGITS)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    write(scratch, topic, number);
    (scratch == value).then_some(number)
}

/// Subscriptions, and what is known of each.
pub struct Known {
    codecs: Codecs,
    /// The newest value of each, and its revision.
    known: Vec<Option<(u32, Low)>>,
    base: Vec<u8>,
    scratch: Vec<u8>,
}

impl Known {
    pub fn new(subscriptions: usize) -> Self {
        Self { codecs: Codecs::built_in(), known: vec![None; subscriptions], base: Vec::new(), scratch: Vec::new() }
    }

    /// How many updates of the topic its newest value has seen.
    pub fn number(&self, subscription: usize) -> Option<u32> {
        self.known.get(subscription).copied().flatten().map(|(number, _)| number)
    }

    /// Takes a payload with deltas. Each value must be the one after the one before.
    pub fn take(&mut self, subscription: usize, topic: usize, payload: &[u8]) -> Result<(), String> {
        let before = self.known.get(subscription).copied().flatten();
        let (number, revision) =
            self.number_of(before, topic, payload).ok_or_else(|| format!("topic {topic}: no value of it came"))?;
        if before.is_some_and(|(before, _)| before + 1 != number) {
            return Err(format!("topic {topic}: {number} came after {before:?}"));
        }
        if let Some(known) = self.known.get_mut(subscription) {
            *known = Some((number, revision));
        }
        Ok(())
    }

    fn number_of(&mut self, before: Option<(u32, Low)>, topic: usize, payload: &[u8]) -> Option<(u32, Low)> {
        let parts = Parts::parse(payload).ok()?;
        if parts.header.kind == Kind::Bytes {
            return read(parts.rest, topic, &mut self.scratch).map(|number| (number, parts.result()));
        }
        let (number, revision) = before?;
        if revision != parts.header.revision {
            return None;
        }
        write(&mut self.base, topic, number);
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
        let base = std::mem::take(&mut self.base);
        let number = read(&base, topic, &mut self.scratch);
        self.base = base;
        Some((number?, parts.result()))
    }

    fn apply(&mut self, codec: CodecId, delta: &[u8]) -> Option<()> {
        self.scratch.clear();
        self.codecs.by_id(codec)?.apply(&self.base, delta, 2 * BYTES, &mut self.scratch).ok()?;
        std::mem::swap(&mut self.base, &mut self.scratch);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Body;
    use tieline_delta::{CodecSet, Revision, Stream};

    #[test]
    fn a_value_comes_out_of_what_changed_and_of_nothing_else() {
        assert_eq!(document(7, 1).len(), BYTES);
        let body = |number| Body::Opaque(document(7, number).into());
        let (mut codecs, mut known) = (Codecs::built_in(), Known::new(2));
        let mut stream = Stream::new(Revision(4), &body(1));
        known.take(0, 7, &stream.since(None, CodecSet::HUNK).to_bytes()).unwrap();
        stream.update(&body(2), CodecSet::HUNK, &mut codecs);
        let delta = stream.since(Some(Revision(4)), CodecSet::HUNK).to_bytes();
        assert!(delta.len() < 20);
        known.take(0, 7, &delta).unwrap();
        assert_eq!(known.number(0), Some(2));
        assert!(known.take(0, 7, &delta).is_err(), "twice");
        assert!(known.take(1, 7, &delta).is_err(), "of nothing");
        stream.update(&body(4), CodecSet::HUNK, &mut codecs);
        let delta = stream.since(Some(Revision(5)), CodecSet::HUNK).to_bytes();
        assert!(known.take(0, 7, &delta).unwrap_err().contains("4 came after"), "one is missing");
    }
}

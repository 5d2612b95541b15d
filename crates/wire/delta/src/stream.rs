//! The sender's side of a topic: its value, and the last deltas, computed once for everybody.

use crate::payload::{put_item, start, start_several, whole_octets};
use crate::point::PointEncoder;
use crate::{CodecId, CodecSet, Codecs, Header, Kind, Payload, PointState, Revision};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Body, Point};

/// Updates that a subscriber may be behind and still get a delta; the oldest delta is dropped for the next.
pub const RING_MAX: usize = 8;
/// Octets of a value below which a delta is not worth computing.
const VALUE_OCTETS_MIN: usize = 16;
/// After `n` values in a row whose delta did not pay, `2^n - 1` go without one; n is at most this.
const PAUSE_MAX: u8 = 6;

/// The sender's side of one topic in one form: points by field, or octets.
///
/// An owner that has no subscriber with deltas has no stream; it costs a pointer then.
#[derive(Debug)]
pub struct Stream {
    revision: Revision,
    form: Form,
    /// Payloads made for the present revision, by the revision that they start from.
    made: Vec<(Option<Revision>, Payload)>,
    /// A point as JSON, for those who do not take points.
    json: Option<Payload>,
}

#[derive(Debug)]
enum Form {
    Octets(Octets),
    Point(Points),
}

#[derive(Debug)]
struct Octets {
    value: Bytes,
    /// One delta an update, the newest last; together they lead to the present revision.
    ring: VecDeque<Step>,
    /// Values that are to go without a delta.
    pause: u8,
    /// Values in a row whose delta did not pay.
    failed: u8,
}

/// One update. No codec: the same value again.
#[derive(Debug)]
struct Step {
    codec: Option<CodecId>,
    delta: Bytes,
}

#[derive(Debug)]
struct Points {
    encoder: PointEncoder,
    /// The states before the present one, the newest last.
    ring: VecDeque<PointState>,
}

/// What an update became for those who had the value before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// There is a delta.
    Delta,
    /// The value is the same.
    Same,
    /// Only the whole value will do: a delta would not pay, or nobody takes one.
    Whole,
}

impl Stream {
    /// The stream of a topic that holds `body`.
    #[must_use]
    pub fn new(revision: Revision, body: &Body) -> Self {
        Self { revision, form: Form::new(body), made: Vec::new(), json: None }
    }

    /// The revision of the present value.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Takes the topic's next value. `wanted` is what its subscribers take; a codec that none of them takes is not run.
    pub fn update(&mut self, body: &Body, wanted: CodecSet, codecs: &mut Codecs) -> Updated {
        self.revision = self.revision.next();
        self.made.clear();
        self.json = None;
        match (&mut self.form, body) {
            (Form::Octets(octets), Body::Opaque(value)) => octets.update(value, wanted, codecs),
            (Form::Point(points), Body::Point(point)) => points.update(point),
            (form, body) => {
                *form = Form::new(body);
                Updated::Whole
            }
        }
    }

    /// What brings a subscriber that holds revision `base` (none: nothing yet) to the present value: the smallest of a
    /// delta, a chain of deltas and the whole value. One that holds the present value gets a check of it. One that does
    /// not take points gets them whole, as JSON.
    ///
    /// `base` must be a revision that this stream, or the one that it continues, has had.
    pub fn since(&mut self, base: Option<Revision>, accepts: CodecSet) -> Payload {
        if let (Form::Point(points), false) = (&self.form, accepts.contains(CodecSet::POINT)) {
            let whole = || whole_octets(self.revision, &points.encoder.state().to_point().to_json().into());
            return self.json.get_or_insert_with(whole).clone();
        }
        let base = base.filter(|&base| self.form.leads_from(self.revision.since(base), accepts));
        if let Some((_, payload)) = self.made.iter().find(|(from, _)| *from == base) {
            return payload.clone();
        }
        let payload = self.make(base);
        self.made.push((base, payload.clone()));
        payload
    }

    fn make(&self, base: Option<Revision>) -> Payload {
        let whole = self.whole_len();
        let delta = base.and_then(|base| {
            let count = u8::try_from(self.revision.since(base)).ok()?;
            let mut out = Vec::with_capacity(32);
            let fits = match &self.form {
                _ if count == 0 => {
                    start_several(&mut out, base, 0, || self.form.crc());
                    return Some(out);
                }
                Form::Octets(octets) => octets.since(base, count, &mut out),
                Form::Point(points) => points.since(base, count, &mut out),
            };
            (fits && out.len() <= whole).then_some(out)
        });
        match delta {
            Some(delta) => Payload { head: None, body: delta.into() },
            None => self.whole(),
        }
    }

    fn whole(&self) -> Payload {
        match &self.form {
            Form::Octets(octets) => whole_octets(self.revision, &octets.value),
            Form::Point(points) => {
                let mut out = Vec::with_capacity(24);
                Header { kind: Kind::Point, revision: self.revision.low() }.emit(&mut out);
                points.encoder.state().emit(&mut out);
                Payload { head: None, body: out.into() }
            }
        }
    }

    fn whole_len(&self) -> usize {
        match &self.form {
            Form::Octets(octets) => 1 + octets.value.len(),
            // A point's delta that is longer than its whole form is one of a text; it says the text too.
            Form::Point(_) => usize::MAX,
        }
    }

    /// Octets that this stream holds besides the present value.
    #[must_use]
    pub fn held_octets(&self) -> usize {
        let made = self.made.iter().filter(|(base, _)| base.is_some()).map(|(_, made)| made);
        let made: usize = made.chain(&self.json).map(Payload::len).sum();
        let ring = match &self.form {
            Form::Octets(octets) => octets.ring.iter().map(|step| size_of::<Step>() + step.delta.len()).sum(),
            Form::Point(points) => points.ring.len() * size_of::<PointState>(),
        };
        size_of::<Self>() + made + ring
    }
}

impl Form {
    fn new(body: &Body) -> Self {
        match body {
            Body::Opaque(value) => {
                Self::Octets(Octets { value: value.clone(), ring: VecDeque::new(), pause: 0, failed: 0 })
            }
            Body::Point(point) => Self::Point(Points { encoder: PointEncoder::new(point), ring: VecDeque::new() }),
        }
    }

    /// Whether deltas that `accepts` takes lead to the present value from `count` updates before it.
    fn leads_from(&self, count: u32, accepts: CodecSet) -> bool {
        let Ok(count) = usize::try_from(count) else { return false };
        match self {
            Self::Octets(octets) => {
                let takes = |step: &Step| step.codec.is_none_or(|codec| accepts.contains(CodecSet::of(codec)));
                count <= octets.ring.len() && octets.ring.iter().rev().take(count).all(takes)
            }
            Self::Point(points) => count <= points.ring.len(),
        }
    }

    fn crc(&self) -> u32 {
        match self {
            Self::Octets(octets) => crc32fast::hash(&octets.value),
            Self::Point(points) => points.encoder.state().crc(),
        }
    }
}

impl Octets {
    fn update(&mut self, value: &Bytes, wanted: CodecSet, codecs: &mut Codecs) -> Updated {
        let base = core::mem::replace(&mut self.value, value.clone());
        if base == value {
            push(&mut self.ring, Step { codec: None, delta: Bytes::new() });
            return Updated::Same;
        }
        if let Some(step) = self.diff(&base, wanted, codecs) {
            push(&mut self.ring, step);
            return Updated::Delta;
        }
        // Nothing leads over this update.
        self.ring.clear();
        Updated::Whole
    }

    fn diff(&mut self, base: &Bytes, wanted: CodecSet, codecs: &mut Codecs) -> Option<Step> {
        if self.value.len() < VALUE_OCTETS_MIN || !wanted.takes_octets() {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let mut delta = Vec::new();
        for codec in codecs.of(wanted) {
            delta.clear();
            if codec.diff(base, &self.value, self.value.len() / 2, &mut delta) {
                self.failed = 0;
                return Some(Step { codec: Some(codec.id()), delta: delta.into() });
            }
        }
        self.failed = (self.failed + 1).min(PAUSE_MAX);
        self.pause = (1 << self.failed) - 1;
        None
    }

    fn since(&self, base: Revision, count: u8, out: &mut Vec<u8>) -> bool {
        let crc = || crc32fast::hash(&self.value);
        let mut steps = self.ring.iter().skip(self.ring.len().saturating_sub(usize::from(count)));
        if count == 1 {
            let Some(step) = steps.next() else { return false };
            start(out, step.codec.map_or(Kind::Same, Kind::Delta), base, crc);
            out.extend_from_slice(&step.delta);
            return true;
        }
        start_several(out, base, count, crc);
        for step in steps {
            if let Some(codec) = step.codec {
                put_item(out, codec, &step.delta);
            }
        }
        true
    }
}

impl Points {
    fn update(&mut self, point: &Point) -> Updated {
        let before = self.encoder.next(point);
        let same = before == *self.encoder.state();
        // A text is as long as it is; numbers are what rings are for.
        if before.is_long() || self.encoder.state().is_long() {
            self.ring.clear();
            return Updated::Whole;
        }
        push(&mut self.ring, before);
        if same { Updated::Same } else { Updated::Delta }
    }

    fn since(&self, base: Revision, count: u8, out: &mut Vec<u8>) -> bool {
        let Some(from) = self.ring.len().checked_sub(usize::from(count)).and_then(|at| self.ring.get(at)) else {
            return false;
        };
        let state = self.encoder.state();
        if count == 1 {
            let kind = if from == state { Kind::Same } else { Kind::Delta(CodecId::POINT) };
            start(out, kind, base, || state.crc());
            return kind == Kind::Same || from.diff(state, out);
        }
        start_several(out, base, count, || state.crc());
        let mut delta = Vec::with_capacity(16);
        let fits = from == state || from.diff(state, &mut delta);
        if !delta.is_empty() {
            put_item(out, CodecId::POINT, &delta);
        }
        fits
    }
}

fn push<T>(ring: &mut VecDeque<T>, step: T) {
    if ring.len() == RING_MAX {
        ring.pop_front();
    }
    ring.push_back(step);
}

//! The sender's side of a topic: its value, and the last deltas, computed once for everybody.

use crate::payload::{put_item, start, start_several, whole_bytes};
use crate::point::PointEncoder;
use crate::{CodecId, CodecSet, Codecs, Header, Kind, Payload, PointState, ReadyDelta, Revision};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Body, Point};

/// Updates that a subscriber may be behind and still get a delta; the oldest delta is dropped for the next.
pub const RING_MAX: usize = 8;
/// Bytes of a value below which a delta is not worth computing.
pub(crate) const VALUE_BYTES_MIN: usize = 16;
/// After `n` values in a row whose delta did not pay, `2^n - 1` go without one; n is at most this.
const PAUSE_MAX: u8 = 6;

/// The sender's side of one topic in one form: points by field, or bytes.
///
/// An owner that has no subscriber with deltas has no stream; it costs a pointer then. One whose subscribers all hold the
/// present value keeps nothing but that ([`Stream::settle`]).
#[derive(Debug)]
pub struct Stream {
    revision: Revision,
    form: Form,
    late: Option<Box<Late>>,
}

#[derive(Debug)]
enum Form {
    Opaque(Opaque),
    Point(PointEncoder),
}

#[derive(Debug)]
struct Opaque {
    value: Bytes,
    pace: Pace,
}

/// How often deltas of a topic's bytes are tried: what is to be kept of its stream while that rests ([`Stream::rest`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Values that are to go without a delta.
    pause: u8,
    /// Values in a row whose delta did not pay.
    failed: u8,
}

/// What is kept for those who do not hold the present value.
#[derive(Debug, Default)]
struct Late {
    /// One delta an update of bytes, the newest last; together they lead to the present revision.
    steps: VecDeque<Step>,
    /// The states of a point before the present one, the newest last.
    states: VecDeque<PointState>,
    /// Payloads made for the present revision, by the revision that they start from.
    made: Vec<(Revision, Payload)>,
    /// A point as JSON, for those who do not take points.
    json: Option<Payload>,
}

/// One update. No codec: the same value again.
#[derive(Debug)]
struct Step {
    codec: Option<CodecId>,
    delta: Bytes,
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
        Self { revision, form: Form::new(body), late: None }
    }

    /// The stream that rests, of a topic that holds these bytes at this revision.
    #[must_use]
    pub const fn resume(revision: Revision, value: Bytes, pace: Pace) -> Self {
        Self { revision, form: Form::Opaque(Opaque { value, pace }), late: None }
    }

    /// All that is to be kept besides the present value and its revision, where that is no more: [`Stream::resume`] takes
    /// it. None for points, and while somebody is owed what leads to the present value.
    #[must_use]
    pub fn rest(&self) -> Option<Pace> {
        match &self.form {
            Form::Opaque(bytes) => self.late.is_none().then_some(bytes.pace),
            Form::Point(_) => None,
        }
    }

    /// The revision of the present value.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Takes the topic's next value. `wanted` is what its subscribers take; a codec that none of them takes is not run.
    pub fn update(&mut self, body: &Body, wanted: CodecSet, codecs: &mut Codecs) -> Updated {
        self.update_ready(body, None, wanted, codecs)
    }

    /// The same where the delta may be there already.
    pub fn update_ready(
        &mut self,
        body: &Body,
        ready: Option<&ReadyDelta>,
        wanted: CodecSet,
        codecs: &mut Codecs,
    ) -> Updated {
        self.revision = self.revision.next();
        let late = self.late.get_or_insert_default();
        late.made.clear();
        late.json = None;
        let updated = match (&mut self.form, body) {
            (Form::Opaque(bytes), Body::Opaque(value)) => bytes.update(value, late, (wanted, ready), codecs),
            (Form::Opaque(bytes), Body::Published(point)) => {
                bytes.update(point.payload(), late, (wanted, ready), codecs)
            }
            (Form::Point(encoder), Body::Point(point)) => update_point(encoder, point, late),
            (form, body) => {
                *form = Form::new(body);
                Updated::Whole
            }
        };
        if updated == Updated::Whole {
            // Nothing leads over this update.
            self.late = None;
        }
        updated
    }

    /// Everybody holds the present value: what leads to it is given up.
    pub fn settle(&mut self) {
        self.late = None;
    }

    /// What brings a subscriber that holds revision `base` (none: nothing yet) to the present value: the smallest of a
    /// delta, a chain of deltas and the whole value. One that holds the present value gets a check of it. One that does
    /// not take points gets them whole, as JSON.
    ///
    /// `base` must be a revision that this stream, or the one that it continues, has had.
    pub fn since(&mut self, base: Option<Revision>, accepts: CodecSet) -> Payload {
        if let (Form::Point(encoder), false) = (&self.form, accepts.contains(CodecSet::POINT)) {
            let whole = || whole_bytes(self.revision, &encoder.state().to_point().to_json().into());
            return self.late.get_or_insert_default().json.get_or_insert_with(whole).clone();
        }
        let Some(base) = base.filter(|&base| self.leads_from(base, accepts)) else { return self.whole() };
        let made = self.late.as_ref().and_then(|late| late.made.iter().find(|(from, _)| *from == base));
        if let Some((_, payload)) = made {
            return payload.clone();
        }
        let payload = self.make(base);
        if let Some(late) = &mut self.late {
            late.made.push((base, payload.clone()));
        }
        payload
    }

    /// Whether deltas that `accepts` takes lead to the present value from `base`.
    fn leads_from(&self, base: Revision, accepts: CodecSet) -> bool {
        let Ok(count) = usize::try_from(self.revision.since(base)) else { return false };
        let Some(late) = &self.late else { return count == 0 };
        match &self.form {
            Form::Opaque(_) => {
                let takes = |step: &Step| step.codec.is_none_or(|codec| accepts.contains(CodecSet::of(codec)));
                count <= late.steps.len() && late.steps.iter().rev().take(count).all(takes)
            }
            Form::Point(_) => count <= late.states.len(),
        }
    }

    fn make(&self, base: Revision) -> Payload {
        match self.delta(base) {
            Some(delta) => Payload { head: None, body: delta.into() },
            None => self.whole(),
        }
    }

    /// The delta from `base`, where there is one that is no longer than the whole value.
    fn delta(&self, base: Revision) -> Option<Vec<u8>> {
        let count = u8::try_from(self.revision.since(base)).ok()?;
        let mut out = Vec::with_capacity(32);
        let crc = || self.form.crc();
        if count == 0 {
            start_several(&mut out, base, 0, crc);
            return Some(out);
        }
        let late = self.late.as_ref()?;
        let fits = match &self.form {
            Form::Opaque(bytes) => late.steps_since(base, count, crc, &mut out) && out.len() <= 1 + bytes.value.len(),
            // A point's delta that is longer than its whole form is one of a text; it says the text too.
            Form::Point(encoder) => late.states_since(encoder.state(), base, count, crc, &mut out),
        };
        fits.then_some(out)
    }

    fn whole(&self) -> Payload {
        match &self.form {
            Form::Opaque(bytes) => whole_bytes(self.revision, &bytes.value),
            Form::Point(encoder) => {
                let mut out = Vec::with_capacity(24);
                Header { kind: Kind::Point, revision: self.revision.low() }.emit(&mut out);
                encoder.state().emit(&mut out);
                Payload { head: None, body: out.into() }
            }
        }
    }

    /// Bytes that this stream holds besides the present value.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let late = self.late.as_ref().map_or(0, |late| late.held_bytes());
        size_of::<Self>() + late
    }
}

impl Form {
    fn new(body: &Body) -> Self {
        match body {
            Body::Opaque(_) | Body::Published(_) => {
                Self::Opaque(Opaque { value: body.to_payload(), pace: Pace::default() })
            }
            Body::Point(point) => Self::Point(PointEncoder::new(point)),
        }
    }

    fn crc(&self) -> u32 {
        match self {
            Self::Opaque(bytes) => crc32fast::hash(&bytes.value),
            Self::Point(encoder) => encoder.state().crc(),
        }
    }
}

impl Opaque {
    fn update(
        &mut self,
        value: &Bytes,
        late: &mut Late,
        (wanted, ready): (CodecSet, Option<&ReadyDelta>),
        codecs: &mut Codecs,
    ) -> Updated {
        let base = core::mem::replace(&mut self.value, value.clone());
        if base == value {
            push(&mut late.steps, Step { codec: None, delta: Bytes::new() });
            return Updated::Same;
        }
        if let Some((codec, delta)) = ready.and_then(|ready| ready.from(&base, wanted)) {
            self.pace = Pace::default();
            push(&mut late.steps, Step { codec: Some(codec), delta });
            return Updated::Delta;
        }
        if let Some(step) = self.diff(&base, wanted, codecs) {
            push(&mut late.steps, step);
            return Updated::Delta;
        }
        Updated::Whole
    }

    fn diff(&mut self, base: &Bytes, wanted: CodecSet, codecs: &mut Codecs) -> Option<Step> {
        if self.value.len() < VALUE_BYTES_MIN || !wanted.takes_bytes() {
            return None;
        }
        let pace = &mut self.pace;
        if pace.pause > 0 {
            pace.pause -= 1;
            return None;
        }
        let mut delta = Vec::new();
        for codec in codecs.of(wanted) {
            delta.clear();
            if codec.diff(base, &self.value, self.value.len() / 2, &mut delta) {
                pace.failed = 0;
                return Some(Step { codec: Some(codec.id()), delta: delta.into() });
            }
        }
        pace.failed = (pace.failed + 1).min(PAUSE_MAX);
        pace.pause = (1 << pace.failed) - 1;
        None
    }
}

fn update_point(encoder: &mut PointEncoder, point: &Point, late: &mut Late) -> Updated {
    let before = encoder.next(point);
    let same = before == *encoder.state();
    // A text is as long as it is; numbers are what rings are for.
    if before.is_long() || encoder.state().is_long() {
        return Updated::Whole;
    }
    push(&mut late.states, before);
    if same { Updated::Same } else { Updated::Delta }
}

impl Late {
    fn steps_since(&self, base: Revision, count: u8, crc: impl FnOnce() -> u32, out: &mut Vec<u8>) -> bool {
        let mut steps = self.steps.iter().skip(self.steps.len().saturating_sub(usize::from(count)));
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

    fn states_since(
        &self,
        state: &PointState,
        base: Revision,
        count: u8,
        crc: impl FnOnce() -> u32,
        out: &mut Vec<u8>,
    ) -> bool {
        let at = self.states.len().checked_sub(usize::from(count));
        let Some(from) = at.and_then(|at| self.states.get(at)) else { return false };
        if count == 1 {
            let kind = if from == state { Kind::Same } else { Kind::Delta(CodecId::POINT) };
            start(out, kind, base, crc);
            return kind == Kind::Same || from.diff(state, out);
        }
        start_several(out, base, count, crc);
        let mut delta = Vec::with_capacity(16);
        let fits = from == state || from.diff(state, &mut delta);
        if !delta.is_empty() {
            put_item(out, CodecId::POINT, &delta);
        }
        fits
    }

    fn held_bytes(&self) -> usize {
        let made: usize = self.made.iter().map(|(_, made)| made).chain(&self.json).map(Payload::len).sum();
        let steps: usize = self.steps.iter().map(|step| size_of::<Step>() + step.delta.len()).sum();
        size_of::<Self>() + made + steps + self.states.len() * size_of::<PointState>()
    }
}

fn push<T>(ring: &mut VecDeque<T>, step: T) {
    if ring.len() == RING_MAX {
        ring.pop_front();
    }
    ring.push_back(step);
}

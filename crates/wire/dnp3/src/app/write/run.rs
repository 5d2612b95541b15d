//! Events of one variation after another: what their layout says is looked at once.

use super::{FragmentWriter, HEADER_FIXED, Open};
use crate::app::Qualifier;
use crate::objects::{Layout, TimeForm, ValueForm};
use crate::{Flags, GroupVar, Stamp};

/// The longest event: index, first byte, value and time, each written in a word.
const EVENT_MAX: usize = 2 + 1 + 8 + 8;

/// An event as an outstation keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) index: u16,
    pub(crate) flags: Flags,
    /// A bit, a double-bit code, a count, or the bits of a double.
    pub(crate) bits: u64,
    pub(crate) stamp: Stamp,
}

impl FragmentWriter<'_> {
    /// Writes events as [`FragmentWriter::event`] does, as long as they join the header of the event before; says how
    /// many. What follows begins a header, or fits no more.
    pub(crate) fn join_events(&mut self, object: GroupVar, samples: impl ExactSizeIterator<Item = Sample>) -> usize {
        let Some(open) = self.open.filter(|open| open.object == object) else { return 0 };
        let Some(layout) = self.layout.filter(|layout| layout.object == object) else { return 0 };
        let (index_bytes, index_max, count_max) = match open.qualifier {
            Qualifier::INDEXED_8 => (1, u16::from(u8::MAX), u16::from(u8::MAX)),
            Qualifier::INDEXED_16 => (2, u16::MAX, u16::MAX),
            _ => return 0,
        };
        let Some(bytes) = layout.bytes() else { return 0 };
        let stride = index_bytes + bytes;
        let start = self.out.len();
        let fit = self.end.saturating_sub(start) / stride;
        let most = fit.min(samples.len()).min(usize::from(count_max - open.count));
        self.out.resize(start + most * stride + EVENT_MAX, 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        let run = Run { layout, cto: self.cto, index_max, stride };
        let samples = samples.take(most);
        let (written, last) = match index_bytes {
            1 => run.fill::<1>(room, samples),
            _ => run.fill::<2>(room, samples),
        };
        self.out.truncate(start + usize::from(written) * stride);
        let count = open.count + written;
        self.patch_count(open.at + HEADER_FIXED, count, index_bytes);
        self.open = Some(Open { count, last: last.unwrap_or(open.last), ..open });
        usize::from(written)
    }
}

/// What events of one header have in common.
struct Run {
    layout: Layout,
    cto: Option<Stamp>,
    index_max: u16,
    /// Bytes of an event.
    stride: usize,
}

impl Run {
    /// Writes events whose indices have `INDEX` bytes. What a value is and where each field begins is known when this is
    /// compiled: a loop for each form.
    fn fill<const INDEX: usize>(&self, room: &mut [u8], samples: impl Iterator<Item = Sample>) -> (u16, Option<u16>) {
        match self.layout.value {
            ValueForm::None => self.fill_with::<INDEX, 0>(room, samples, ValueForm::None),
            ValueForm::U8 => self.fill_with::<INDEX, 1>(room, samples, ValueForm::U8),
            ValueForm::U16 => self.fill_with::<INDEX, 2>(room, samples, ValueForm::U16),
            ValueForm::I16 => self.fill_with::<INDEX, 2>(room, samples, ValueForm::I16),
            ValueForm::U32 => self.fill_with::<INDEX, 4>(room, samples, ValueForm::U32),
            ValueForm::I32 => self.fill_with::<INDEX, 4>(room, samples, ValueForm::I32),
            ValueForm::F32 => self.fill_with::<INDEX, 4>(room, samples, ValueForm::F32),
            ValueForm::F64 => self.fill_with::<INDEX, 8>(room, samples, ValueForm::F64),
            ValueForm::Bit | ValueForm::DoubleBit | ValueForm::Bytes => (0, None),
        }
    }

    /// Writes events, one after the other, up to the first that begins another header; says how many, and the last index.
    #[inline(always)]
    fn fill_with<const INDEX: usize, const VALUE: usize>(
        &self,
        room: &mut [u8],
        samples: impl Iterator<Item = Sample>,
        form: ValueForm,
    ) -> (u16, Option<u16>) {
        let (mut at, mut count, mut last) = (0, 0, None);
        for sample in samples {
            let time = match self.layout.time {
                TimeForm::None => 0,
                TimeForm::Absolute => sample.stamp.time.millis(),
                TimeForm::Relative => match self.cto.and_then(|cto| since(cto, sample.stamp)) {
                    Some(millis) => u64::from(millis),
                    None => break,
                },
            };
            let Some((value, in_range)) = form.number_of(sample.bits) else { break };
            let Some(first) = self.layout.flags.first_byte(sample.bits, sample.flags, in_range) else { break };
            let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<EVENT_MAX>) else { break };
            if sample.index > self.index_max {
                break;
            }
            // Each word over the rest of the one before.
            put(place, 0, sample.index.to_le_bytes());
            put(place, INDEX, [first]);
            put(place, INDEX + 1, value.to_le_bytes());
            put(place, INDEX + 1 + VALUE, time.to_le_bytes());
            at += self.stride;
            count += 1;
            last = Some(sample.index);
        }
        (count, last)
    }
}

/// Writes bytes over what is there.
#[inline(always)]
fn put<const N: usize>(room: &mut [u8; EVENT_MAX], at: usize, bytes: [u8; N]) {
    if let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

/// Milliseconds since the common time, where one object can carry them.
pub(super) fn since(cto: Stamp, stamp: Stamp) -> Option<u16> {
    let millis = stamp.time.millis().checked_sub(cto.time.millis())?;
    u16::try_from(millis).ok().filter(|_| cto.synchronized == stamp.synchronized)
}

#[cfg(test)]
mod tests;

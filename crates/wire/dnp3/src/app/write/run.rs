//! Events of one variation after another: what their layout says is looked at once.

use super::{FragmentWriter, HEADER_FIXED, Open};
use crate::app::Qualifier;
use crate::objects::TimeForm;
use crate::{Flags, GroupVar, Stamp};

/// Bytes that one event is written with, of which fewer stay.
const STORE: usize = 18;

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
        let Some((value_bytes, bytes)) = layout.number_bytes().zip(layout.bytes()) else { return 0 };
        let stride = index_bytes + bytes;
        let start = self.out.len();
        let fit = self.end.saturating_sub(start) / stride;
        let most = fit.min(samples.len()).min(usize::from(count_max - open.count));
        self.out.resize(start + most * stride + STORE, 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        let (mut at, mut count, mut last) = (0, open.count, open.last);
        for sample in samples.take(most) {
            let time = match layout.time {
                TimeForm::None => 0,
                TimeForm::Absolute => sample.stamp.time.millis(),
                TimeForm::Relative => match self.cto.and_then(|cto| since(cto, sample.stamp)) {
                    Some(millis) => u64::from(millis),
                    None => break,
                },
            };
            let Some((first, value)) = layout.number_of_bits(sample.bits, sample.flags) else { break };
            if sample.index > index_max {
                break;
            }
            // Low byte first, the fields of an object follow one another as the parts of one number.
            let number = u128::from(first) | u128::from(value) << 8 | u128::from(time) << (8 + 8 * value_bytes);
            put(room, at, sample.index.to_le_bytes());
            put(room, at + index_bytes, number.to_le_bytes());
            at += stride;
            count += 1;
            last = sample.index;
        }
        self.out.truncate(start + at);
        self.patch_count(open.at + HEADER_FIXED, count, index_bytes);
        self.open = Some(Open { count, last, ..open });
        usize::from(count - open.count)
    }
}

/// Writes bytes over what is there.
#[inline]
fn put<const N: usize>(room: &mut [u8], at: usize, bytes: [u8; N]) {
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

//! Builds fragments.

mod run;

pub(crate) use run::Sample;

use super::{AppControl, CommandStatus, Function, Prefix, Qualifier, RangeCode};
use crate::objects::{Layout, Size, TimeField, TimeForm, bytes_of_time, push_low};
use crate::{AnalogCommand, Classes, Control, DnpTime, Flags, GroupVar, Iin, Measured, Measurement, Stamp};
use alloc::vec::Vec;
use core::fmt;
use run::since;

/// Bytes of a request's header; a response has two more.
const REQUEST_HEADER: usize = 2;
/// Bytes of group, variation and qualifier.
const HEADER_FIXED: usize = 3;

/// Why something was not written. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The fragment has no room for it: send what there is, and go on in the next.
    Full,
    /// The caller asks for a variation that does not exist, or that cannot hold the value.
    WrongObject(GroupVar),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the fragment is full"),
            Self::WrongObject(object) => write!(f, "{object} cannot hold the value"),
        }
    }
}

impl core::error::Error for WriteError {}

/// A point's value, borrowed from wherever it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointRef<'a> {
    /// The number of the point.
    pub index: u16,
    /// Its value.
    pub value: &'a Measured,
    /// Its flags.
    pub flags: Flags,
    /// Its time stamp; a variation with time writes 0 without one.
    pub stamp: Option<Stamp>,
}

impl<'a> From<&'a Measurement> for PointRef<'a> {
    fn from(m: &'a Measurement) -> Self {
        Self { index: m.index, value: &m.value, flags: m.flags, stamp: m.stamp }
    }
}

/// Appends one fragment to a buffer, object by object, never beyond a limit. Consecutive objects of one kind share a
/// header.
#[derive(Debug)]
pub struct FragmentWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    /// Where the fragment must end at the latest.
    end: usize,
    header_bytes: usize,
    open: Option<Open>,
    /// Of the last object.
    layout: Option<Layout>,
    cto: Option<Stamp>,
    index_max: u16,
}

/// The header that the next object may join.
#[derive(Clone, Copy, Debug)]
struct Open {
    object: GroupVar,
    qualifier: Qualifier,
    /// Where its group byte is.
    at: usize,
    /// Objects so far.
    count: u16,
    /// The index of the last one.
    last: u16,
}

impl<'o> FragmentWriter<'o> {
    /// Begins a request (or a confirm) of at most `bytes_max` bytes at the end of `out`.
    pub fn request(out: &'o mut Vec<u8>, bytes_max: u16, control: AppControl, function: Function) -> Self {
        Self::request_of_code(out, bytes_max, control, function.code())
    }

    /// The same with the code of a function, which may be one without a meaning: for tests of an outstation.
    pub fn request_of_code(out: &'o mut Vec<u8>, bytes_max: u16, control: AppControl, code: u8) -> Self {
        Self::begin(out, bytes_max, &[control.emit(), code])
    }

    /// Begins a response of at most `bytes_max` bytes at the end of `out`.
    pub fn response(out: &'o mut Vec<u8>, bytes_max: u16, control: AppControl, function: Function, iin: Iin) -> Self {
        let [iin1, iin2] = iin.0.to_le_bytes();
        Self::begin(out, bytes_max, &[control.emit(), function.code(), iin1, iin2])
    }

    fn begin(out: &'o mut Vec<u8>, bytes_max: u16, header: &[u8]) -> Self {
        let start = out.len();
        out.extend_from_slice(header);
        let end = start + usize::from(bytes_max);
        Self { out, start, end, header_bytes: header.len(), open: None, layout: None, cto: None, index_max: u16::MAX }
    }

    /// Says that no event's index is above `index_max`: up to 255, events are written with qualifier 17 instead of 28.
    #[must_use]
    pub const fn with_index_max(mut self, index_max: u16) -> Self {
        self.index_max = index_max;
        self
    }

    /// Bytes written, with the header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether no object was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() <= self.header_bytes
    }

    /// What was written, with the header.
    #[must_use]
    pub fn fragment(&self) -> &[u8] {
        self.out.get(self.start..).unwrap_or_default()
    }

    /// Replaces the control byte: whether this is the last fragment is known at the end.
    pub fn set_control(&mut self, control: AppControl) {
        self.patch(self.start, &[control.emit()]);
    }

    /// Replaces the internal indications of a response.
    pub fn set_iin(&mut self, iin: Iin) {
        if self.header_bytes > REQUEST_HEADER {
            self.patch(self.start + REQUEST_HEADER, &iin.0.to_le_bytes());
        }
    }

    /// Lets the next object begin a header of its own.
    pub fn end_header(&mut self) {
        self.open = None;
    }

    /// Writes a header for all objects (qualifier 06).
    ///
    /// # Errors
    /// Full.
    pub fn all(&mut self, object: GroupVar) -> Result<(), WriteError> {
        self.raw(&[object.group, object.variation, Qualifier::ALL.0])
    }

    /// Writes a header for indices `start..=stop` without objects (qualifier 00 or 01).
    ///
    /// # Errors
    /// Full.
    pub fn span(&mut self, object: GroupVar, start: u16, stop: u16) -> Result<(), WriteError> {
        let GroupVar { group, variation } = object;
        match (u8::try_from(start), u8::try_from(stop)) {
            (Ok(start), Ok(stop)) => self.raw(&[group, variation, Qualifier::SPAN_8.0, start, stop]),
            _ => {
                let ([a, b], [c, d]) = (start.to_le_bytes(), stop.to_le_bytes());
                self.raw(&[group, variation, Qualifier::SPAN_16.0, a, b, c, d])
            }
        }
    }

    /// Writes a header for the first `count` objects without objects (qualifier 07 or 08): at most so many events.
    ///
    /// # Errors
    /// Full.
    pub fn count(&mut self, object: GroupVar, count: u16) -> Result<(), WriteError> {
        let GroupVar { group, variation } = object;
        match u8::try_from(count) {
            Ok(count) => self.raw(&[group, variation, Qualifier::COUNT_8.0, count]),
            Err(_) => {
                let [a, b] = count.to_le_bytes();
                self.raw(&[group, variation, Qualifier::COUNT_16.0, a, b])
            }
        }
    }

    /// Writes a header for each class: 1, 2, 3, then 0, so that events come before the state they led to.
    ///
    /// # Errors
    /// Full; the classes before it are written.
    pub fn classes(&mut self, classes: Classes) -> Result<(), WriteError> {
        let order = [(Classes::CLASS_1, 2), (Classes::CLASS_2, 3), (Classes::CLASS_3, 4), (Classes::CLASS_0, 1)];
        for (class, variation) in order {
            if classes.contains(class) {
                self.all(GroupVar::new(60, variation))?;
            }
        }
        Ok(())
    }

    /// Writes one time: group 50 variation 1 or 3, or group 51 (which [`FragmentWriter::event`] does by itself).
    ///
    /// # Errors
    /// Full.
    pub fn time(&mut self, object: GroupVar, time: DnpTime) -> Result<(), WriteError> {
        let [a, b, c, d, e, f] = bytes_of_time(time);
        self.raw(&[object.group, object.variation, Qualifier::COUNT_8.0, 1, a, b, c, d, e, f])
    }

    /// Writes one delay: group 52 variation 2, in milliseconds.
    ///
    /// # Errors
    /// Full.
    pub fn delay_ms(&mut self, delay: u16) -> Result<(), WriteError> {
        let [a, b] = delay.to_le_bytes();
        self.raw(&[52, 2, Qualifier::COUNT_8.0, 1, a, b])
    }

    /// Writes the object that clears IIN1.7: group 80 variation 1, index 7, 0.
    ///
    /// # Errors
    /// Full.
    pub fn clear_restart(&mut self) -> Result<(), WriteError> {
        self.raw(&[80, 1, Qualifier::SPAN_8.0, 7, 7, 0])
    }

    /// Appends whole object headers as they are.
    ///
    /// # Errors
    /// Full.
    pub fn raw(&mut self, headers: &[u8]) -> Result<(), WriteError> {
        if self.out.len() + headers.len() > self.end {
            return Err(WriteError::Full);
        }
        self.out.extend_from_slice(headers);
        self.open = None;
        Ok(())
    }

    /// Writes a static object (qualifier 00 or 01). It joins the header before it when its index follows. The
    /// variation of group 110 is the length of the string, whatever is asked for.
    ///
    /// # Errors
    /// Full, or a variation that cannot hold the value.
    pub fn static_point(&mut self, object: GroupVar, point: PointRef<'_>) -> Result<(), WriteError> {
        let layout = self.layout_for(object, point.value)?;
        let wrong = WriteError::WrongObject(object);
        let before = self.out.len();
        let mut open = self.open_span(layout.object, point.index);
        let written = if let Size::Bits(width) = layout.size {
            layout.encode_packed(point.value).map(|bits| self.push_bits(bits, width, open.count))
        } else {
            let time = point.stamp.map_or(TimeField::None, |stamp| TimeField::Absolute(stamp.time));
            layout.encode(point.value, point.flags, time, self.out)
        };
        let fits = if self.out.len() > self.end { Err(WriteError::Full) } else { Ok(()) };
        if let Err(error) = written.map_err(|_| wrong).and(fits) {
            self.out.truncate(before);
            return Err(error);
        }
        open.count = open.count.wrapping_add(1);
        open.last = point.index;
        let stop_bytes = if open.qualifier == Qualifier::SPAN_8 { 1 } else { 2 };
        let stop = point.index.to_le_bytes();
        self.patch(open.at + HEADER_FIXED + stop_bytes, stop.get(..stop_bytes).unwrap_or_default());
        self.open = Some(open);
        Ok(())
    }

    /// Writes an event object (qualifier 17 or 28). It joins the header before it when that is of the same variation.
    /// Where the variation has a relative time, the common time is written as it is needed.
    ///
    /// # Errors
    /// Full, or a variation that cannot hold the value.
    pub fn event(&mut self, object: GroupVar, point: PointRef<'_>) -> Result<(), WriteError> {
        let layout = self.layout_for(object, point.value)?;
        let before = Mark { bytes: self.out.len(), cto: self.cto, open: self.open };
        let time = match (layout.time, point.stamp) {
            (TimeForm::None, _) | (_, None) => TimeField::None,
            (TimeForm::Absolute, Some(stamp)) => TimeField::Absolute(stamp.time),
            (TimeForm::Relative, Some(stamp)) => self.relative(stamp),
        };
        let wide = self.index_max.max(point.index) > u16::from(u8::MAX);
        let (qualifier, bytes) = if wide { (Qualifier::INDEXED_16, 2) } else { (Qualifier::INDEXED_8, 1) };
        let form = Indexed { qualifier, index_bytes: bytes, count_bytes: bytes };
        self.indexed(before, layout.object, form, point.index, |out| {
            layout.encode(point.value, point.flags, time, out).is_ok()
        })
    }

    /// Writes a control object with a qualifier of count and index (17, 27, 28, …): that of the request, in an echo.
    ///
    /// # Errors
    /// Full, or a qualifier that does not fit.
    pub fn control(
        &mut self,
        qualifier: Qualifier,
        index: u16,
        control: &Control,
        status: CommandStatus,
    ) -> Result<(), WriteError> {
        self.indexed_object(object_of(control), qualifier, index, |out| encode_control(control, status, out))
    }

    /// Writes any object with an index prefix: `encode` appends its bytes.
    pub(crate) fn indexed_object(
        &mut self,
        object: GroupVar,
        qualifier: Qualifier,
        index: u16,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), WriteError> {
        let before = Mark { bytes: self.out.len(), cto: self.cto, open: self.open };
        let form = Indexed::of(qualifier, index).ok_or(WriteError::WrongObject(object))?;
        self.indexed(before, object, form, index, |out| {
            encode(out);
            true
        })
    }

    /// Milliseconds since the common time, which is written again when it is too far or of the other quality.
    fn relative(&mut self, stamp: Stamp) -> TimeField {
        if let Some(millis) = self.cto.and_then(|cto| since(cto, stamp)) {
            return TimeField::Relative(millis);
        }
        let [a, b, c, d, e, f] = bytes_of_time(stamp.time);
        let variation = if stamp.synchronized { 1 } else { 2 };
        self.out.extend_from_slice(&[51, variation, Qualifier::COUNT_8.0, 1, a, b, c, d, e, f]);
        self.cto = Some(stamp);
        self.open = None;
        TimeField::Relative(0)
    }

    /// Writes one object with an index prefix, or takes back all since `before`.
    #[inline]
    fn indexed(
        &mut self,
        before: Mark,
        object: GroupVar,
        form: Indexed,
        index: u16,
        encode: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Result<(), WriteError> {
        let open = self.open_indexed(object, form);
        push_low(u64::from(index), form.index_bytes, self.out);
        let error = match encode(self.out) {
            true if self.out.len() <= self.end => {
                self.patch_count(open.at + HEADER_FIXED, open.count + 1, form.count_bytes);
                self.open = Some(Open { count: open.count + 1, last: index, ..open });
                return Ok(());
            }
            true => WriteError::Full,
            false => WriteError::WrongObject(object),
        };
        self.out.truncate(before.bytes);
        (self.cto, self.open) = (before.cto, before.open);
        Err(error)
    }

    /// The open header if one more of these objects may join it, or a new one.
    #[inline]
    fn open_indexed(&mut self, object: GroupVar, form: Indexed) -> Open {
        let count_max = if form.count_bytes == 1 { u16::from(u8::MAX) } else { u16::MAX };
        let joins = |open: &Open| open.object == object && open.qualifier == form.qualifier && open.count < count_max;
        self.open.filter(joins).unwrap_or_else(|| {
            let at = self.out.len();
            self.out.extend_from_slice(&[object.group, object.variation, form.qualifier.0]);
            push_low(0, form.count_bytes, self.out);
            Open { object, qualifier: form.qualifier, at, count: 0, last: 0 }
        })
    }

    /// Replaces a header's count, which is written again with each object that joins.
    #[inline]
    fn patch_count(&mut self, at: usize, count: u16, bytes: usize) {
        let [low, high] = count.to_le_bytes();
        match self.out.get_mut(at..at + bytes) {
            Some([first]) => *first = low,
            Some([first, second, ..]) => [*first, *second] = [low, high],
            Some([]) | None => {}
        }
    }

    /// The open header if the object of this index may join it, or a new one that holds it alone.
    fn open_span(&mut self, object: GroupVar, index: u16) -> Open {
        let narrow = index <= u16::from(u8::MAX);
        let joins = |open: &Open| {
            open.object == object
                && open.last.checked_add(1) == Some(index)
                && (open.qualifier == Qualifier::SPAN_16 || (open.qualifier == Qualifier::SPAN_8 && narrow))
        };
        self.open.filter(joins).unwrap_or_else(|| {
            let (at, [low, high]) = (self.out.len(), index.to_le_bytes());
            let qualifier = if narrow { Qualifier::SPAN_8 } else { Qualifier::SPAN_16 };
            self.out.extend_from_slice(&[object.group, object.variation, qualifier.0]);
            let both: &[u8] = if narrow { &[low, low] } else { &[low, high, low, high] };
            self.out.extend_from_slice(both);
            Open { object, qualifier, at, count: 0, last: index }
        })
    }

    /// The layout for a value: of octet strings, the one of its length (1 to 255).
    #[inline]
    fn layout_for(&mut self, object: GroupVar, value: &Measured) -> Result<Layout, WriteError> {
        let object = match value {
            Measured::Bytes(bytes) => {
                GroupVar::new(object.group, u8::try_from(bytes.len()).map_err(|_| WriteError::WrongObject(object))?)
            }
            Measured::Bit(_) | Measured::DoubleBit(_) | Measured::Count(_) | Measured::Analog(_) => object,
        };
        if let Some(layout) = self.layout.filter(|layout| layout.object == object) {
            return Ok(layout);
        }
        self.layout = Layout::find(object);
        self.layout.ok_or(WriteError::WrongObject(object))
    }

    /// Appends a packed object to those of its header, `count` so far.
    fn push_bits(&mut self, bits: u8, width: u8, count: u16) {
        let per_byte = 8 / u16::from(width.max(1));
        let shift = u32::from(count % per_byte) * u32::from(width);
        if shift == 0 {
            self.out.push(bits);
        } else if let Some(byte) = self.out.last_mut() {
            *byte |= bits << shift;
        }
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// What to go back to when an object does not fit.
#[derive(Clone, Copy)]
struct Mark {
    bytes: usize,
    cto: Option<Stamp>,
    open: Option<Open>,
}

/// How objects with an index each are counted and named, in bytes.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    qualifier: Qualifier,
    index_bytes: usize,
    count_bytes: usize,
}

impl Indexed {
    /// What a qualifier says; None unless it has a count, and room for this index.
    fn of(qualifier: Qualifier, index: u16) -> Option<Self> {
        match qualifier.parts()? {
            (Prefix::Index(prefix), RangeCode::Count(count)) if prefix > 1 || index <= u16::from(u8::MAX) => {
                Some(Self { qualifier, index_bytes: usize::from(prefix), count_bytes: usize::from(count) })
            }
            _ => None,
        }
    }
}

const fn object_of(control: &Control) -> GroupVar {
    match control {
        Control::Crob(_) => GroupVar::new(12, 1),
        Control::Analog(AnalogCommand::Int32(_)) => GroupVar::new(41, 1),
        Control::Analog(AnalogCommand::Int16(_)) => GroupVar::new(41, 2),
        Control::Analog(AnalogCommand::Float32(_)) => GroupVar::new(41, 3),
        Control::Analog(AnalogCommand::Float64(_)) => GroupVar::new(41, 4),
    }
}

fn encode_control(control: &Control, status: CommandStatus, out: &mut Vec<u8>) {
    match control {
        Control::Crob(crob) => {
            out.extend_from_slice(&[crob.code, crob.count]);
            out.extend_from_slice(&crob.on_ms.to_le_bytes());
            out.extend_from_slice(&crob.off_ms.to_le_bytes());
        }
        Control::Analog(AnalogCommand::Int32(x)) => out.extend_from_slice(&x.to_le_bytes()),
        Control::Analog(AnalogCommand::Int16(x)) => out.extend_from_slice(&x.to_le_bytes()),
        Control::Analog(AnalogCommand::Float32(x)) => out.extend_from_slice(&x.to_le_bytes()),
        Control::Analog(AnalogCommand::Float64(x)) => out.extend_from_slice(&x.to_le_bytes()),
    }
    out.push(status.code());
}

#[cfg(test)]
mod tests;

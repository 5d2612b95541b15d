//! The objects of one header, one by one.

use super::attribute::value_bytes;
use super::header::{Row, Shape, read_uint};
use super::{CommandStatus, Header, Prefix};
use crate::objects::{Size, ValueForm};
use crate::{AnalogCommand, Control, Crob, GroupVar, Measurement, Stamp};
use tieline_core::Cursor;

/// One object without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its index; its position where the header gives none.
    pub index: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The objects of a header, one by one.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    shape: Shape,
    position: usize,
    cursor: Cursor<'a>,
}

impl<'a> Items<'a> {
    pub(super) const fn new(header: Header<'a>) -> Self {
        Self { shape: header.shape, position: 0, cursor: Cursor::new(header.data) }
    }

    fn take_object(&mut self) -> Option<&'a [u8]> {
        let layout = self.shape.layout?;
        match layout.size {
            Size::Bytes(_) | Size::Variation => self.cursor.take(layout.bytes()?).ok(),
            Size::Own => {
                let mut ahead = self.cursor;
                let [code, length] = ahead.array().ok()?;
                self.cursor.take(2 + value_bytes(code, length)).ok()
            }
            Size::Bits(_) | Size::Prefixed => None,
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        // Objects of no bytes and without prefix end here at once, whatever their count.
        if self.cursor.is_empty() {
            return None;
        }
        let by_position = self.shape.span_index(self.position);
        let item = match self.shape.prefix {
            Prefix::None => Item { index: by_position, bytes: self.take_object()? },
            Prefix::Size(bytes) => {
                let size = usize::try_from(read_uint(&mut self.cursor, bytes)?).ok()?;
                Item { index: by_position, bytes: self.cursor.take(size).ok()? }
            }
            Prefix::Index(bytes) => {
                Item { index: read_uint(&mut self.cursor, bytes)?, bytes: self.take_object().unwrap_or_default() }
            }
        };
        self.position += 1;
        Some(item)
    }
}

/// The measurements of a header.
#[derive(Clone, Copy, Debug)]
pub struct Measurements<'a> {
    header: Header<'a>,
    cto: Option<Stamp>,
    position: usize,
}

impl<'a> Measurements<'a> {
    pub(super) const fn new(header: Header<'a>, cto: Option<Stamp>) -> Self {
        Self::starting_at(header, cto, 0)
    }

    pub(super) const fn starting_at(header: Header<'a>, cto: Option<Stamp>, position: usize) -> Self {
        Self { header, cto, position }
    }
}

impl Measurements<'_> {
    #[inline(always)]
    fn fold_row<B>(self, row: Row, data: &[u8], init: B, mut f: impl FnMut(B, Measurement) -> B) -> B {
        let mut all = init;
        let rest = data.get(self.position.saturating_mul(row.stride)..).unwrap_or_default();
        for (bytes, position) in rest.chunks_exact(row.stride).zip(self.position..) {
            let Some(measurement) = row.measurement(bytes, position, self.cto) else { break };
            all = f(all, measurement);
        }
        all
    }
}

impl Iterator for Measurements<'_> {
    type Item = Measurement;

    fn next(&mut self) -> Option<Measurement> {
        let measurement = self.header.shape.measurement(self.header.data, self.position, self.cto)?;
        self.position += 1;
        Some(measurement)
    }

    /// What the header says of all its objects is looked at once.
    #[inline]
    fn fold<B, F: FnMut(B, Measurement) -> B>(self, init: B, mut f: F) -> B {
        let mut all = init;
        let Header { shape, data } = self.header;
        if let Some(row) = shape.row() {
            // A loop for each of the usual forms: the value and the length of the index are known when this is compiled.
            return match (row.layout.value, row.index_bytes) {
                (ValueForm::I16, 0) => self.fold_row(row.of(ValueForm::I16, 0), data, all, f),
                (ValueForm::I16, 1) => self.fold_row(row.of(ValueForm::I16, 1), data, all, f),
                (ValueForm::I16, 2) => self.fold_row(row.of(ValueForm::I16, 2), data, all, f),
                (ValueForm::I32, 0) => self.fold_row(row.of(ValueForm::I32, 0), data, all, f),
                (ValueForm::I32, 1) => self.fold_row(row.of(ValueForm::I32, 1), data, all, f),
                (ValueForm::I32, 2) => self.fold_row(row.of(ValueForm::I32, 2), data, all, f),
                (ValueForm::F32, 0) => self.fold_row(row.of(ValueForm::F32, 0), data, all, f),
                (ValueForm::F32, 1) => self.fold_row(row.of(ValueForm::F32, 1), data, all, f),
                (ValueForm::F32, 2) => self.fold_row(row.of(ValueForm::F32, 2), data, all, f),
                _ => self.fold_row(row, data, all, f),
            };
        }
        for measurement in self {
            all = f(all, measurement);
        }
        all
    }
}

/// One control object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlItem {
    /// Which point.
    pub index: u16,
    /// What to do.
    pub control: Control,
    /// What became of it; success in a request.
    pub status: CommandStatus,
}

/// The controls of a header.
#[derive(Clone, Copy, Debug)]
pub struct Controls<'a> {
    object: GroupVar,
    items: Items<'a>,
}

impl<'a> Controls<'a> {
    pub(super) const fn new(header: Header<'a>) -> Self {
        Self { object: header.shape.object, items: Items::new(header) }
    }
}

impl Iterator for Controls<'_> {
    type Item = ControlItem;

    fn next(&mut self) -> Option<ControlItem> {
        let item = self.items.next()?;
        let mut cursor = Cursor::new(item.bytes);
        let control = read_control(self.object, &mut cursor)?;
        let status = CommandStatus::from_byte(cursor.u8().ok()?);
        Some(ControlItem { index: u16::try_from(item.index).ok()?, control, status })
    }
}

fn read_control(object: GroupVar, cursor: &mut Cursor<'_>) -> Option<Control> {
    Some(match (object.group, object.variation) {
        (12, 1) => {
            let [code, count] = cursor.array().ok()?;
            let (on_ms, off_ms) = (cursor.u32_le().ok()?, cursor.u32_le().ok()?);
            Control::Crob(Crob { code, count, on_ms, off_ms })
        }
        (41, 1) => Control::Analog(AnalogCommand::Int32(cursor.i32_le().ok()?)),
        (41, 2) => Control::Analog(AnalogCommand::Int16(cursor.i16_le().ok()?)),
        (41, 3) => Control::Analog(AnalogCommand::Float32(cursor.f32_le().ok()?)),
        (41, 4) => Control::Analog(AnalogCommand::Float64(cursor.f64_le().ok()?)),
        _ => return None,
    })
}

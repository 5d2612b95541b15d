//! The object headers of a fragment, first to last.

use super::attribute::value_bytes;
use super::header::{Shape, read_uint};
use super::{Function, Header, Prefix, Qualifier, Range, RangeCode};
use crate::objects::{Kind, Layout, Size};
use crate::{GroupVar, Iin};
use core::fmt;
use tieline_core::Cursor;

/// Why an object header cannot be read. What came before it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// Where it begins, in bytes from the first header.
    pub at: usize,
    /// Its group and variation, as far as they are there.
    pub object: Option<GroupVar>,
    /// What is wrong.
    pub kind: HeaderErrorKind,
}

/// What is wrong with an object header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderErrorKind {
    /// The fragment ends within the header or its objects.
    Truncated,
    /// Objects of unknown size follow, so that the next header cannot be found.
    UnknownObject,
    /// The qualifier is reserved or forbidden.
    UnknownQualifier(Qualifier),
    /// The qualifier is legal, but not for these objects.
    MisfitQualifier(Qualifier),
    /// The first index is greater than the last.
    BackwardRange {
        /// The first index.
        start: u32,
        /// The last index.
        stop: u32,
    },
    /// An object has an index above 65535.
    IndexTooLarge(u32),
}

impl HeaderError {
    /// Whether the peer did nothing wrong: we do not know the objects.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.kind, HeaderErrorKind::UnknownObject)
    }

    /// What an outstation answers: IIN2.1 for unknown objects, IIN2.2 for all else (IEEE 1815 4.5).
    #[must_use]
    pub const fn iin(&self) -> Iin {
        if self.is_unsupported() { Iin::OBJECT_UNKNOWN } else { Iin::PARAMETER_ERROR }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object {
            Some(object) => write!(f, "{object}: ")?,
            None => f.write_str("object header: ")?,
        }
        match self.kind {
            HeaderErrorKind::Truncated => f.write_str("the fragment ends too early"),
            HeaderErrorKind::UnknownObject => f.write_str("objects of unknown size"),
            HeaderErrorKind::UnknownQualifier(q) => write!(f, "qualifier {q} has no meaning"),
            HeaderErrorKind::MisfitQualifier(q) => write!(f, "qualifier {q} does not fit these objects"),
            HeaderErrorKind::BackwardRange { start, stop } => write!(f, "range {start}-{stop} runs backward"),
            HeaderErrorKind::IndexTooLarge(index) => write!(f, "index {index} is above 65535"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// Reads the object headers of a fragment. After an error there is nothing more: where the next header begins is not
/// known.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    function: Function,
    bytes: usize,
    cursor: Cursor<'a>,
    failed: bool,
}

impl<'a> Headers<'a> {
    /// Of the objects of a fragment with this function.
    #[must_use]
    pub const fn new(function: Function, objects: &'a [u8]) -> Self {
        Self { function, bytes: objects.len(), cursor: Cursor::new(objects), failed: false }
    }

    /// Where the next header begins, in bytes from the first.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.bytes - self.cursor.left()
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.cursor.is_empty() {
            return None;
        }
        let (at, before) = (self.offset(), self.cursor.rest());
        Some(next_header(self.function, &mut self.cursor).map_err(|kind| {
            self.failed = true;
            let object = before.first_chunk().map(|[group, variation]| GroupVar::new(*group, *variation));
            HeaderError { at, object, kind }
        }))
    }
}

fn next_header<'a>(function: Function, cursor: &mut Cursor<'a>) -> Result<Header<'a>, HeaderErrorKind> {
    let [group, variation, qualifier] = cursor.array().map_err(|_| HeaderErrorKind::Truncated)?;
    let (object, qualifier) = (GroupVar::new(group, variation), Qualifier(qualifier));
    let (prefix, code) = qualifier.parts().ok_or(HeaderErrorKind::UnknownQualifier(qualifier))?;
    let range = read_range(code, cursor)?;
    let shape = Shape { object, qualifier, prefix, range, layout: Layout::find(object) };
    // A freeze at a time brings the time (group 50) and then names the counters.
    let at_time = matches!(function, Function::FreezeAtTime | Function::FreezeAtTimeNoResponse);
    let named_only = function.names_objects_only() && !(at_time && object.group == 50);
    let bytes = match prefix {
        Prefix::Size(size) => sized_bytes(range, size, *cursor)?,
        Prefix::Index(index) if named_only => bytes_of(range, usize::from(index))?,
        Prefix::None if named_only => 0,
        Prefix::None | Prefix::Index(_) => object_bytes(&shape, *cursor)?,
    };
    let data = cursor.take(bytes).map_err(|_| HeaderErrorKind::Truncated)?;
    let header = Header { shape, data };
    if !named_only && !data.is_empty() {
        check_indices(&header)?;
    }
    Ok(header)
}

fn read_range(code: RangeCode, cursor: &mut Cursor<'_>) -> Result<Range, HeaderErrorKind> {
    let mut read = |bytes| read_uint(cursor, bytes).ok_or(HeaderErrorKind::Truncated);
    Ok(match code {
        RangeCode::All => Range::All,
        RangeCode::Count(bytes) => Range::Count(read(bytes)?),
        RangeCode::Free => Range::Count(read(1)?),
        RangeCode::Span(bytes) => {
            let (start, stop) = (read(bytes)?, read(bytes)?);
            if start > stop {
                return Err(HeaderErrorKind::BackwardRange { start, stop });
            }
            Range::Span { start, stop }
        }
    })
}

/// Bytes of objects that each have a size prefix.
fn sized_bytes(range: Range, size_bytes: u8, mut cursor: Cursor<'_>) -> Result<usize, HeaderErrorKind> {
    let before = cursor.left();
    // Every turn uses up its prefix: the fragment's length bounds the work.
    for _ in 0..range.count() {
        let size = read_uint(&mut cursor, size_bytes).ok_or(HeaderErrorKind::Truncated)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        cursor.take(size).map_err(|_| HeaderErrorKind::Truncated)?;
    }
    Ok(before - cursor.left())
}

/// Bytes of objects that follow one another, each with its index prefix if there is one.
fn object_bytes(shape: &Shape, cursor: Cursor<'_>) -> Result<usize, HeaderErrorKind> {
    let count = shape.range.count();
    if count == 0 {
        return Ok(0);
    }
    let prefix = match shape.prefix {
        Prefix::None | Prefix::Size(_) => 0,
        Prefix::Index(bytes) => usize::from(bytes),
    };
    let layout = shape.layout.ok_or(HeaderErrorKind::UnknownObject)?;
    // Points and commands without an index would be taken for points 0, 1, 2, …
    let of_points = layout.point_type.is_some() || layout.kind == Kind::Command;
    if of_points && matches!((shape.range, shape.prefix), (Range::Count(_), Prefix::None)) {
        return Err(HeaderErrorKind::MisfitQualifier(shape.qualifier));
    }
    match layout.size {
        Size::Bytes(bytes) => bytes_of(shape.range, prefix + usize::from(bytes)),
        Size::Variation => bytes_of(shape.range, prefix + usize::from(shape.object.variation)),
        Size::Bits(bits) if prefix == 0 => {
            let bytes = (count * u64::from(bits)).div_ceil(8);
            usize::try_from(bytes).map_err(|_| HeaderErrorKind::Truncated)
        }
        Size::Bits(_) => Err(HeaderErrorKind::MisfitQualifier(shape.qualifier)),
        Size::Own => own_bytes(count, prefix, cursor),
        Size::Prefixed => Err(HeaderErrorKind::UnknownObject),
    }
}

fn bytes_of(range: Range, bytes: usize) -> Result<usize, HeaderErrorKind> {
    let count = usize::try_from(range.count()).map_err(|_| HeaderErrorKind::Truncated)?;
    count.checked_mul(bytes).ok_or(HeaderErrorKind::Truncated)
}

/// Bytes of objects that begin with a type and a length.
fn own_bytes(count: u64, prefix: usize, mut cursor: Cursor<'_>) -> Result<usize, HeaderErrorKind> {
    let before = cursor.left();
    for _ in 0..count {
        cursor.take(prefix).map_err(|_| HeaderErrorKind::Truncated)?;
        let [code, length] = cursor.array().map_err(|_| HeaderErrorKind::Truncated)?;
        cursor.take(value_bytes(code, length)).map_err(|_| HeaderErrorKind::Truncated)?;
    }
    Ok(before - cursor.left())
}

/// Points have 16-bit indices, whatever the qualifier could carry.
fn check_indices(header: &Header<'_>) -> Result<(), HeaderErrorKind> {
    let last = match (header.shape.range, header.shape.prefix) {
        (Range::Span { stop, .. }, _) => Some(stop),
        (Range::Count(_), Prefix::Index(4)) => header.items().map(|item| item.index).max(),
        (Range::Count(_) | Range::All, _) => None,
    };
    match last {
        Some(last) if last > u32::from(u16::MAX) => Err(HeaderErrorKind::IndexTooLarge(last)),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! Points become blocks.

use super::Holes;
use crate::{READ_BITS_MAX, READ_REGISTERS_MAX, Request, Response, Table, Unit};
use alloc::vec::Vec;
use core::fmt;

/// Where a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Which device.
    pub unit: Unit,
    /// Which of its tables.
    pub table: Table,
    /// The first address.
    pub start: u16,
    /// How many registers or bits, at least 1.
    pub count: u16,
}

impl Place {
    /// The address after the last.
    pub(super) const fn end(&self) -> u32 {
        self.start as u32 + self.count as u32
    }
}

/// A point that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPoint {
    /// The owner's number.
    pub key: u32,
    /// Where it is.
    pub place: Place,
    /// The owner's number of how often: points of different rates are never read together.
    pub rate: u32,
}

/// What a block may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Registers between two points that are read and thrown away; 0 for none.
    pub gap_registers_max: u16,
    /// Bits between two points that are read and thrown away.
    pub gap_bits_max: u16,
    /// Registers of a block, 1 to [`READ_REGISTERS_MAX`].
    pub block_registers_max: u16,
    /// Bits of a block, 1 to [`READ_BITS_MAX`].
    pub block_bits_max: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            gap_registers_max: 8,
            gap_bits_max: 64,
            block_registers_max: READ_REGISTERS_MAX,
            block_bits_max: READ_BITS_MAX,
        }
    }
}

impl Limits {
    fn gap_max(&self, table: Table) -> u32 {
        u32::from(if table.is_bits() { self.gap_bits_max } else { self.gap_registers_max })
    }

    fn block_max(&self, table: Table) -> u32 {
        let max = if table.is_bits() { self.block_bits_max } else { self.block_registers_max };
        u32::from(max.clamp(1, table.read_max()))
    }
}

/// One read, and the points in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What is read: from the first point's start to the last one's end.
    pub place: Place,
    /// The rate of all its points.
    pub rate: u32,
    /// Sorted by place.
    pub points: Vec<WantedPoint>,
}

impl Block {
    /// The request that reads it.
    #[must_use]
    pub const fn request(&self) -> Request {
        Request::Read { table: self.place.table, start: self.place.start, count: self.place.count }
    }

    /// Each point with its registers; none of them where the response has none.
    pub fn registers<'a>(&'a self, response: &'a Response) -> impl Iterator<Item = (WantedPoint, &'a [u16])> + 'a {
        let all: &[u16] = if let Response::Registers(registers) = response { registers } else { &[] };
        self.points.iter().filter_map(move |point| {
            let from = usize::from(point.place.start.checked_sub(self.place.start)?);
            Some((*point, all.get(from..from + usize::from(point.place.count))?))
        })
    }

    /// Each point with its first bit; none of them where the response has none.
    pub fn bits<'a>(&'a self, response: &'a Response) -> impl Iterator<Item = (WantedPoint, bool)> + 'a {
        self.points.iter().filter_map(move |point| {
            let Response::Bits(bits) = response else { return None };
            Some((*point, bits.bit(point.place.start.checked_sub(self.place.start)?)?))
        })
    }

    /// Around points that are sorted by place; none around none.
    pub(super) fn around(points: Vec<WantedPoint>) -> Option<Self> {
        let (first, rate) = points.first().map(|point| (point.place, point.rate))?;
        let end = points.iter().map(|point| point.place.end()).max()?;
        let count = u16::try_from(end - u32::from(first.start)).ok()?;
        Some(Self { place: Place { count, ..first }, rate, points })
    }
}

/// Why a point cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// It has no address, or more than one request can read.
    Count {
        /// The point.
        key: u32,
        /// How many addresses it has.
        found: u16,
        /// The largest that is allowed; the smallest is 1.
        max: u16,
    },
    /// Its last address is beyond 65,535.
    Address {
        /// The point.
        key: u32,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { found, max, .. } => write!(f, "a point of {found} addresses, expected 1 to {max}"),
            Self::Address { .. } => f.write_str("a point beyond address 65535"),
        }
    }
}

impl core::error::Error for PlanError {}

/// Blocks of these points, in the order of their places. Points that were refused are in none.
///
/// # Errors
/// A point cannot be read by one request.
pub fn plan(points: &[WantedPoint], limits: &Limits, holes: &Holes) -> Result<Vec<Block>, PlanError> {
    for WantedPoint { key, place, .. } in points {
        let max = limits.block_max(place.table);
        if place.count == 0 || u32::from(place.count) > max {
            let max = u16::try_from(max).unwrap_or(u16::MAX);
            return Err(PlanError::Count { key: *key, found: place.count, max });
        }
        if place.end() > 0x1_0000 {
            return Err(PlanError::Address { key: *key });
        }
    }
    let mut sorted: Vec<WantedPoint> =
        points.iter().copied().filter(|point| !holes.is_unreadable(&point.place)).collect();
    sorted.sort_by_key(|point| (point.rate, point.place, point.key));
    let (mut blocks, mut open, mut end) = (Vec::new(), Vec::<WantedPoint>::new(), 0);
    for point in sorted {
        if let Some(first) = open.first()
            && !joins(first, end, &point, limits, holes)
        {
            blocks.extend(Block::around(core::mem::take(&mut open)));
            end = 0;
        }
        end = point.place.end().max(end);
        open.push(point);
    }
    blocks.extend(Block::around(open));
    Ok(blocks)
}

/// Whether a point goes into the block that begins with `first` and ends before `end`.
fn joins(first: &WantedPoint, end: u32, point: &WantedPoint, limits: &Limits, holes: &Holes) -> bool {
    let (from, to) = (first.place, point.place);
    let new_end = to.end().max(end);
    first.rate == point.rate
        && (from.unit, from.table) == (to.unit, to.table)
        && u32::from(to.start).saturating_sub(end) <= limits.gap_max(to.table)
        && new_end - u32::from(from.start) <= limits.block_max(to.table)
        && !holes.is_between(&Place { count: 0, ..from }, new_end)
}

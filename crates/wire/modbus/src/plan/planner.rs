//! The blocks of a device, and what its refusals make of them.

use super::{Block, Holes, Limits, PlanError, WantedPoint, plan};
use crate::{Table, Unit};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A block, for as long as it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u64);

/// What became of a refused block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such block; the answer is of an earlier plan.
    Unknown,
    /// It is two blocks from now on, to be read at once.
    Split(Vec<BlockId>),
    /// The points of one place cannot be read, and stay out. The others of the block that was planned at first are in new
    /// blocks, to be read at once.
    Unreadable(Vec<WantedPoint>, Vec<BlockId>),
}

#[derive(Clone, Debug)]
struct Planned {
    block: Block,
    /// The block of the plan that this is a part of.
    origin: BlockId,
}

/// The blocks of the points behind one connection.
#[derive(Clone, Debug)]
pub struct Planner {
    limits: Limits,
    holes: Holes,
    blocks: BTreeMap<BlockId, Planned>,
    unreadable: Vec<WantedPoint>,
    /// Where the blocks of an origin were cut: taken back when a point of it is the reason.
    cuts: BTreeMap<BlockId, Vec<(Unit, Table, u16)>>,
    next_id: u64,
}

impl Planner {
    /// Plans points, with what is known from before.
    ///
    /// # Errors
    /// A point cannot be read by one request.
    pub fn new(points: &[WantedPoint], limits: Limits, holes: Holes) -> Result<Self, PlanError> {
        let blocks = plan(points, &limits, &holes)?;
        let unreadable = points.iter().copied().filter(|point| holes.is_unreadable(&point.place)).collect();
        let mut planner =
            Self { limits, holes, blocks: BTreeMap::new(), unreadable, cuts: BTreeMap::new(), next_id: 0 };
        for block in blocks {
            planner.add(block, None);
        }
        Ok(planner)
    }

    /// All blocks.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks.iter().map(|(id, planned)| (*id, &planned.block))
    }

    /// A block; none where it is planned no longer.
    #[must_use]
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(&id).map(|planned| &planned.block)
    }

    /// Points that are in no block, for the device refused them.
    #[must_use]
    pub fn unreadable(&self) -> &[WantedPoint] {
        &self.unreadable
    }

    /// What was learned: for a plan of other points of the same devices.
    #[must_use]
    pub const fn holes(&self) -> &Holes {
        &self.holes
    }

    /// A device refused a block as it is, with exception 2 or 3: it becomes two, each with half of the points, or, where it
    /// has one point, none.
    pub fn refuse(&mut self, id: BlockId) -> Refused {
        let Some(Planned { block, origin }) = self.blocks.remove(&id) else { return Refused::Unknown };
        if block.points.iter().all(|point| point.place == block.place) {
            return self.drop_point(block, origin);
        }
        let Block { mut points, .. } = block;
        let second = points.split_off(middle(&points));
        let cut = second.first().map(|point| (point.place.unit, point.place.table, point.place.start));
        if let Some((unit, table, at)) = cut {
            self.holes.cut(unit, table, at);
            self.cuts.entry(origin).or_default().extend(cut);
        }
        let halves = [points, second].into_iter().filter_map(Block::around);
        Refused::Split(halves.map(|half| self.add(half, Some(origin))).collect())
    }

    /// A point cannot be read: it was the reason of the cuts, so what is left of its origin is planned again without it.
    fn drop_point(&mut self, block: Block, origin: BlockId) -> Refused {
        self.holes.insert(block.place);
        for (unit, table, at) in self.cuts.remove(&origin).unwrap_or_default() {
            self.holes.join(unit, table, at);
        }
        let mut points = block.points;
        self.blocks.retain(|_, planned| {
            let stays = planned.origin != origin;
            if !stays {
                points.append(&mut planned.block.points);
            }
            stays
        });
        let (lost, left): (Vec<_>, Vec<_>) =
            points.into_iter().partition(|point| self.holes.is_unreadable(&point.place));
        self.unreadable.extend_from_slice(&lost);
        // They were planned before, so each can be read by one request.
        let blocks = plan(&left, &self.limits, &self.holes).unwrap_or_default();
        Refused::Unreadable(lost, blocks.into_iter().map(|block| self.add(block, None)).collect())
    }

    fn add(&mut self, block: Block, origin: Option<BlockId>) -> BlockId {
        let id = BlockId(self.next_id);
        self.next_id += 1;
        self.blocks.insert(id, Planned { block, origin: origin.unwrap_or(id) });
        id
    }
}

/// Where points are split: in the middle, but not between points that overlap where there is another place.
fn middle(points: &[WantedPoint]) -> usize {
    let half = points.len() / 2;
    let mut end = 0;
    let mut best = None;
    for (at, point) in points.iter().enumerate() {
        if at > 0 && u32::from(point.place.start) >= end {
            best = best.into_iter().chain([at]).min_by_key(|at| at.abs_diff(half));
        }
        end = point.place.end().max(end);
    }
    best.unwrap_or(half)
}

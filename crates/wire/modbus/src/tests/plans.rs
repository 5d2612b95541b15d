use crate::plan::{BlockId, Holes, Limits, Place, PlanError, Planner, Refused, WantedPoint, plan};
use crate::{Response, Table, Unit};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

const HOLDING: Table = Table::HoldingRegisters;

fn point(key: u32, start: u16, count: u16) -> WantedPoint {
    WantedPoint { key, place: Place { unit: Unit(1), table: HOLDING, start, count }, rate: 0 }
}

/// Start and count of each block.
fn spans(points: &[WantedPoint], limits: &Limits) -> Vec<(u16, u16)> {
    let blocks = plan(points, limits, &Holes::default()).unwrap();
    blocks.iter().map(|block| (block.place.start, block.place.count)).collect()
}

#[test]
fn points_that_are_near_are_read_together() {
    let limits = Limits::default();
    assert_eq!(spans(&[point(0, 20, 2), point(1, 10, 2), point(2, 31, 1)], &limits), [(10, 12), (31, 1)]);
    let tight = Limits { gap_registers_max: 0, ..limits };
    assert_eq!(spans(&[point(0, 10, 2), point(1, 12, 1), point(2, 14, 1)], &tight), [(10, 3), (14, 1)]);
    let short = Limits { block_registers_max: 3, ..limits };
    assert_eq!(spans(&[point(0, 0, 2), point(1, 2, 2), point(2, 4, 1)], &short), [(0, 2), (2, 3)]);
    // Two layouts of the same registers.
    assert_eq!(spans(&[point(0, 5, 1), point(1, 5, 2), point(2, 6, 1)], &limits), [(5, 2)]);
    let full: Vec<_> = (0..200).map(|at| point(u32::from(at), at, 1)).collect();
    assert_eq!(spans(&full, &limits), [(0, 125), (125, 75)]);
    let bits =
        |start| WantedPoint { place: Place { table: Table::Coils, start, ..point(0, 0, 1).place }, ..point(0, 0, 1) };
    assert_eq!(spans(&[bits(0), bits(65), bits(131)], &limits), [(0, 66), (131, 1)]);
}

#[test]
fn units_tables_and_rates_are_read_apart() {
    let near = point(0, 10, 1);
    let others = [
        near,
        WantedPoint { rate: 1, ..near },
        WantedPoint { place: Place { unit: Unit(2), ..near.place }, ..near },
        WantedPoint { place: Place { table: Table::InputRegisters, ..near.place }, ..near },
    ];
    assert_eq!(spans(&others, &Limits::default()).len(), 4);
}

#[test]
fn points_that_no_request_reads_are_refused() {
    let check = |point: WantedPoint, expect| {
        assert_eq!(plan(&[point], &Limits::default(), &Holes::default()), Err(expect));
    };
    check(point(7, 0, 0), PlanError::Count { key: 7, found: 0, max: 125 });
    check(point(7, 0, 126), PlanError::Count { key: 7, found: 126, max: 125 });
    check(point(7, 0xFFFF, 2), PlanError::Address { key: 7 });
}

/// Reads all blocks of a device that has some addresses, until it refuses none. Returns the points that were found
/// unreadable, and how many requests were refused.
fn settle(planner: &mut Planner, device: impl Fn(&Place) -> bool) -> (BTreeSet<u32>, usize) {
    let (mut lost, mut refusals) = (BTreeSet::new(), 0);
    loop {
        let refused: Vec<BlockId> =
            planner.blocks().filter(|(_, block)| !device(&block.place)).map(|(id, _)| id).collect();
        if refused.is_empty() {
            return (lost, refusals);
        }
        for id in refused {
            refusals += 1;
            match planner.refuse(id) {
                Refused::Unknown => refusals -= 1,
                Refused::Split(halves) => assert_eq!(halves.len(), 2),
                Refused::Unreadable(points, _) => lost.extend(points.iter().map(|point| point.key)),
            }
        }
        assert!(refusals < 10_000);
    }
}

#[test]
fn one_unreadable_point_among_many_stays_out_alone() {
    let points: Vec<_> = (0..100).map(|at| point(u32::from(at), at, 1)).collect();
    let has = |place: &Place| !(place.start..place.start + place.count).contains(&57);
    let mut planner = Planner::new(&points, Limits::default(), Holes::default()).unwrap();
    let (lost, refusals) = settle(&mut planner, has);
    assert_eq!((lost, refusals), (BTreeSet::from([57]), 8));
    let spans = |planner: &Planner| {
        let spans: Vec<_> = planner.blocks().map(|(_, block)| (block.place.start, block.place.count)).collect();
        spans
    };
    assert_eq!(spans(&planner), [(0, 57), (58, 42)]);
    // What was learned holds for a new plan.
    let again = Planner::new(&points, Limits::default(), planner.holes().clone()).unwrap();
    assert_eq!(spans(&again), [(0, 57), (58, 42)]);
}

#[test]
fn a_hole_between_points_is_cut_out_and_remembered() {
    let points = [point(0, 0, 2), point(1, 5, 2), point(2, 7, 2)];
    let has = |place: &Place| !(place.start..place.start + place.count).contains(&3);
    let mut planner = Planner::new(&points, Limits::default(), Holes::default()).unwrap();
    let (lost, refusals) = settle(&mut planner, has);
    assert_eq!((lost.len(), refusals), (0, 1));
    let again = Planner::new(&points, Limits::default(), planner.holes().clone()).unwrap();
    assert_eq!(settle(&mut again.clone(), has).1, 0);
    assert_eq!(again.blocks().count(), 2);
}

#[test]
fn points_find_their_values_in_a_block() {
    let blocks = plan(&[point(0, 10, 2), point(1, 13, 1)], &Limits::default(), &Holes::default()).unwrap();
    let response = Response::Registers([1, 2, 3, 4].into());
    let found: Vec<_> = blocks[0].registers(&response).map(|(point, values)| (point.key, values.to_vec())).collect();
    assert_eq!(found, [(0, std::vec![1, 2]), (1, std::vec![4])]);
    assert_eq!(blocks[0].registers(&Response::Registers([1].into())).count(), 0);
    assert_eq!(blocks[0].bits(&Response::Bits([true, false, true, true].into_iter().collect())).count(), 2);
}

proptest! {
    #[test]
    fn every_point_is_in_one_block_or_unreadable(
        places in prop::collection::vec((0..300_u16, 1..=4_u16, 0..2_u32), 1..60),
        holes in prop::collection::btree_set(0..310_u16, 0..12),
        gap in 0..10_u16, max in 4..=125_u16, device_max in 4..=125_u16,
    ) {
        let points: Vec<_> = places.iter().enumerate().map(|(key, (start, count, rate))| {
            WantedPoint { rate: *rate, ..point(u32::try_from(key).unwrap(), *start, *count) }
        }).collect();
        let limits = Limits { gap_registers_max: gap, block_registers_max: max, ..Limits::default() };
        let has = |place: &Place| {
            place.count <= device_max && holes.range(place.start..place.start + place.count).next().is_none()
        };
        let mut planner = Planner::new(&points, limits, Holes::default()).unwrap();
        let (lost, _) = settle(&mut planner, has);
        for point in &points {
            let of = planner.blocks().filter(|(_, block)| block.points.contains(point)).count();
            let is_readable = has(&point.place);
            prop_assert_eq!(planner.unreadable().contains(point), !is_readable);
            prop_assert_eq!((of, lost.contains(&point.key)), (usize::from(is_readable), !is_readable));
        }
        for (_, block) in planner.blocks() {
            prop_assert!(block.place.count <= max && block.request().check().is_ok());
            for point in &block.points {
                prop_assert!(point.rate == block.rate && point.place.start >= block.place.start);
            }
        }
        let mut again = Planner::new(&points, limits, planner.holes().clone()).unwrap();
        prop_assert!(settle(&mut again, has).0.is_empty(), "a point is found unreadable twice");
    }
}

//! The points of each device, and how they change while the node runs.

extern crate std;
use super::devices::POINTS;
use super::world::{DEVICES, KEPT, name};
use crate::*;
use core::time::Duration;
use std::format;
use std::vec::Vec;
use tieline_core::{CommandMode, DeviceId, PointId, Random, Topic, Value};

/// What a node is told of a device. Points that are reverted are always there: a hold of one that is gone is given up.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) id: u32,
    /// The number of each point.
    numbers: [u32; POINTS],
    /// How much less than the greatest number each point takes.
    less: [i64; POINTS],
    has_kept: bool,
}

impl Table {
    pub(super) fn first(device: usize) -> Self {
        let numbers = core::array::from_fn(|point| u32::try_from(point).unwrap());
        Self { id: u32::try_from(device).unwrap(), numbers, less: [0; POINTS], has_kept: true }
    }

    pub(super) fn random(random: &mut Random, id: u32) -> Self {
        let first = random.below(3);
        let mut numbers: [u32; POINTS] = core::array::from_fn(|at| u32::try_from(first + at as u64).unwrap());
        for at in 1..POINTS {
            numbers.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
        }
        let less = core::array::from_fn(|_| i64::from(random.is_one_of(4)));
        Self { id, numbers, less, has_kept: !random.is_one_of(4) }
    }

    pub(super) fn id(&self) -> DeviceId {
        DeviceId(self.id)
    }

    pub(super) fn point(&self, number: PointId) -> usize {
        self.numbers.iter().position(|other| *other == number.0).expect("a point that is not in the table")
    }

    pub(super) fn points(&self, device: usize) -> DevicePoints {
        let points = (0..POINTS).filter(|point| *point != KEPT || self.has_kept);
        let points: Vec<_> = points.map(|point| (self.control_point(device, point), rules_of(point))).collect();
        DevicePoints { device: self.id(), topic: Topic::new(&name(device)).unwrap(), points }
    }

    fn control_point(&self, device: usize, point: usize) -> ControlPoint {
        let scaling = Scaling { whole: true, ..Scaling::default() };
        ControlPoint {
            topic: Topic::new(&format!("{}/p{point}", name(device))).unwrap(),
            device: self.id(),
            point: PointId(self.numbers[point]),
            accepts: Accepts::Int { min: 0, max: i64::MAX - self.less[point], scaling },
            modes: Modes { select: true, direct: true, preferred: CommandMode::DirectOperate },
            relinquishes: false,
        }
    }
}

fn rules_of(point: usize) -> PointRules {
    let within = Duration::from_secs(1);
    let read_back = ReadBack { topic: None, within, tolerance: 0.0, double_bit: false };
    match point {
        0 => PointRules { revert: RevertTo::Value(Value::Int(0)), ..PointRules::default() },
        1 => PointRules { revert: RevertTo::Relinquish, ..PointRules::default() },
        2 => PointRules {
            revert: RevertTo::Value(Value::Int(0)),
            read_back: Some(read_back),
            interval_min: Some(Duration::from_millis(300)),
            ..PointRules::default()
        },
        _ => PointRules::default(),
    }
}

pub(super) fn coordinator(limits: CoordinatorLimits, tables: &[Table; DEVICES]) -> Coordinator {
    let mut coordinator = Coordinator::new(limits, 1);
    for (device, table) in tables.iter().enumerate() {
        let DevicePoints { device, topic, points } = table.points(device);
        coordinator.add_device(device, topic);
        for (point, rules) in points {
            let topic = point.topic.clone();
            coordinator.add_point(point).unwrap();
            coordinator.set_rules(&topic, rules).unwrap();
        }
    }
    coordinator
}

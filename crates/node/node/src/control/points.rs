//! What the configuration says of points that can be commanded, as the engine takes it.

use crate::config::{
    Config, ControlConfig, DeviceConfig, Numbered, PointAddress, PointConfig, RulesConfig, Takes, ValueKind,
};
use std::time::Duration;
use tieline_control::{
    Accepts, ControlPoint, Coordinator, CoordinatorLimits, DevicePoints, Limits, Modes, PointError, PointRules,
    ReadBack, Scaling, ScheduleLimits,
};
use tieline_core::{DeviceId, PointId, Topic};

/// The bounds of the engine.
pub(super) fn limits_of(config: &Config) -> CoordinatorLimits {
    let (command, control) = (&config.command, &config.control);
    let default = CoordinatorLimits::default();
    CoordinatorLimits {
        control: Limits { timeout: command.timeout, device_queue_max: command.queue_max, ..Limits::default() },
        schedule: ScheduleLimits {
            tasks_max: control.reservations_max,
            slots_max: control.slots_max,
            grace: control.preempt_grace,
            announce_every: control.announce_interval,
            ..ScheduleLimits::default()
        },
        is_reservation_required: control.reservation_required,
        batch_points_max: control.points_max,
        jobs_max: default.jobs_max.max(control.points_max.saturating_mul(2)),
        overrides_max: control.overrides_max,
        tags_max: control.tags_max,
        confirm_within: control.confirm_within,
        return_within: control.return_within,
        ..default
    }
}

/// Gives the engine a device with its points that can be commanded.
///
/// # Errors
/// Two points have one topic, or a point contradicts itself.
pub(super) fn add_device(
    coordinator: &mut Coordinator,
    Numbered { id, config, .. }: &Numbered,
    confirm_within: Duration,
) -> Result<(), PointError> {
    coordinator.add_device(*id, config.topic.clone());
    for (added, rules) in points_of(*id, config, confirm_within) {
        let topic = added.topic.clone();
        coordinator.add_point(added)?;
        if rules != PointRules::default()
            && let Err(refusal) = coordinator.set_rules(&topic, rules)
        {
            // Each column is checked where it is read.
            tracing::warn!(%topic, detail = refusal.detail, "the rules of a point are not taken");
        }
    }
    Ok(())
}

/// A device as the engine takes it in the place of what it was.
pub(super) fn device_of(Numbered { id, config, .. }: &Numbered, confirm_within: Duration) -> DevicePoints {
    let points = points_of(*id, config, confirm_within).collect();
    DevicePoints { device: *id, topic: config.topic.clone(), points }
}

/// The points of a device that can be commanded, with their rules.
fn points_of(
    device: DeviceId,
    config: &DeviceConfig,
    confirm_within: Duration,
) -> impl Iterator<Item = (ControlPoint, PointRules)> {
    config.points.iter().zip(0..).filter_map(move |(point, number)| {
        let (control, added) = point_of(device, config, point, number)?;
        Some((added, rules_of(&config.topic, point, control, confirm_within)))
    })
}

fn point_of<'a>(
    device: DeviceId,
    config: &DeviceConfig,
    point: &'a PointConfig,
    number: u32,
) -> Option<(&'a ControlConfig, ControlPoint)> {
    let control = point.control.as_ref()?;
    let topic = config.topic.join(&point.name).ok()?;
    let accepts = accepts(control, point);
    // The point list names the way that is taken where a request names none; a request may name the other.
    let modes = Modes { select: control.has_select, direct: true, preferred: control.mode };
    let relinquishes = match &point.address {
        PointAddress::Bacnet(point) => point.is_present_value(),
        PointAddress::Dnp3(_)
        | PointAddress::Modbus(_)
        | PointAddress::Iec104(_)
        | PointAddress::Goose(_)
        | PointAddress::Simulated(_) => false,
    };
    Some((control, ControlPoint { topic, device, point: PointId(number), accepts, modes, relinquishes }))
}

fn rules_of(device: &Topic, point: &PointConfig, control: &ControlConfig, within: Duration) -> PointRules {
    let RulesConfig { revert, step_max, rate_max, interval_min, allow_when, read_back, tolerance } = &*control.rules;
    let double_bit = point.kind == ValueKind::DoubleBit;
    let topic = read_back.as_ref().and_then(|name| RulesConfig::topic_at(device, name).ok());
    let says = topic.is_some() || double_bit || *tolerance > 0.0;
    let interlocks = allow_when.iter().filter_map(|interlock| {
        let topic = RulesConfig::topic_at(device, &interlock.topic).ok()?;
        Some(tieline_control::Interlock { topic, ..interlock.clone() })
    });
    PointRules {
        revert: revert.clone(),
        read_back: says.then_some(ReadBack { topic, within, tolerance: *tolerance, double_bit }),
        step_max: *step_max,
        rate_max: *rate_max,
        interval_min: *interval_min,
        interlocks: interlocks.collect(),
    }
}

/// Points whose reading is one of four states.
pub(super) fn double_bits_of(config: &DeviceConfig) -> impl Iterator<Item = Topic> {
    let points = config.points.iter().filter(|point| point.kind == ValueKind::DoubleBit);
    points.filter_map(|point| config.topic.join(&point.name).ok())
}

fn accepts(control: &ControlConfig, point: &PointConfig) -> Accepts {
    let (scale, offset) = (point.scale, point.offset);
    let Some(range) = control.limits(scale, offset) else {
        let words = point.states.as_ref().map(|states| (states.off.clone(), states.on.clone()));
        return Accepts::Bool { invert: false, words };
    };
    let whole = matches!(control.takes, Takes::Number { whole: true, .. });
    Accepts::Float { min: *range.start(), max: *range.end(), scaling: Scaling { scale, offset, whole } }
}

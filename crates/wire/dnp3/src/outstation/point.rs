//! One point as the database keeps it, in 24 bytes, and how it is configured.

use super::database::Change;
use crate::{DnpTime, EventClass, Flags, Measured, PointType, Stamp};

/// How one point is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointConfig {
    /// The class of its events; none keeps no events.
    pub class: Option<EventClass>,
    /// Whether a class 0 read reports it.
    pub in_class_0: bool,
    /// The static variation of a read that leaves the choice to the outstation. 1 and up; not used for octet strings.
    pub static_variation: u8,
    /// The event variation, likewise.
    pub event_variation: u8,
    /// How far an analog or a counter must move from its last reported value to be an event, in its own unit. Zero
    /// reports every change. Analogs compare in single precision, as group 34 variation 3 does, and a master may write it.
    pub dead_band: f32,
    /// Outputs: the class of the events that tell of each control of the point and its status (groups 13 and 43),
    /// from any master. Default none.
    pub command_class: Option<EventClass>,
    /// Outputs: the variation of those events, 1 and 2 of group 13 or 1 to 8 of group 43.
    pub command_variation: u8,
}

impl PointConfig {
    /// The default of a type: inputs in class 1, analogs and outputs in class 2, counters and octet strings in class
    /// 3; all in class 0; 32-bit variations with flags, and with time for the events of inputs and outputs.
    #[must_use]
    pub const fn of(point_type: PointType) -> Self {
        let (class, static_variation, event_variation) = match point_type {
            PointType::Binary | PointType::DoubleBit => (EventClass::Class1, 2, 2),
            PointType::BinaryOutput => (EventClass::Class2, 2, 2),
            PointType::Counter | PointType::FrozenCounter => (EventClass::Class3, 1, 1),
            PointType::Analog | PointType::AnalogOutput => (EventClass::Class2, 1, 3),
            PointType::FrozenAnalog => (EventClass::Class3, 1, 3),
            PointType::OctetString => (EventClass::Class3, 0, 0),
        };
        let command_variation = match point_type {
            PointType::BinaryOutput => 2,
            PointType::AnalogOutput => 3,
            PointType::Binary
            | PointType::DoubleBit
            | PointType::Counter
            | PointType::FrozenCounter
            | PointType::Analog
            | PointType::FrozenAnalog
            | PointType::OctetString => 0,
        };
        Self {
            class: Some(class),
            in_class_0: true,
            static_variation,
            event_variation,
            dead_band: 0.0,
            command_class: None,
            command_variation,
        }
    }

    /// The same in another event class.
    #[must_use]
    pub const fn in_class(self, class: Option<EventClass>) -> Self {
        Self { class, ..self }
    }
}

/// A point: 24 bytes. `reported` and `band` hold the last reported value and the dead-band of an analog (single
/// precision) or a counter, and for what is frozen the 48-bit time of its freeze.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// A bit, a double-bit code, a count, or the bits of a double. Zero for octet strings.
    value: u64,
    reported: u32,
    band: u32,
    pub(super) index: u16,
    pub(super) point_type: PointType,
    flags: u8,
    /// 0 none, 1 to 3 the event class, bit 2 class 0.
    class: u8,
    pub(super) static_variation: u8,
    pub(super) event_variation: u8,
    /// Outputs: the class of command events in bits 0 and 1, as in `class`; their variation above.
    command: u8,
}

const _: () = assert!(size_of::<Point>() == 24);

/// The bit of [`Point::class`] that says: in class 0.
const IN_CLASS_0: u8 = 4;

impl Point {
    /// A point without a value yet: zero, flagged as not measured since the restart.
    pub(super) fn new(point_type: PointType, index: u16, config: PointConfig) -> Self {
        let band = match point_type {
            PointType::Analog | PointType::AnalogOutput => config.dead_band.max(0.0).to_bits(),
            PointType::Counter => whole(config.dead_band),
            PointType::Binary
            | PointType::DoubleBit
            | PointType::BinaryOutput
            | PointType::FrozenCounter
            | PointType::FrozenAnalog
            | PointType::OctetString => 0,
        };
        let mut point = Self {
            value: 0,
            reported: 0,
            band,
            index,
            point_type,
            flags: Flags::RESTART.0,
            class: 0,
            static_variation: config.static_variation,
            event_variation: config.event_variation,
            command: class_bits(config.command_class) | config.command_variation << 2,
        };
        point.set_class(config.class, config.in_class_0);
        point
    }

    pub(super) const fn key(&self) -> (PointType, u16) {
        (self.point_type, self.index)
    }

    /// What points are sorted by: [`Point::key`] in one number.
    pub(super) const fn rank(&self) -> u32 {
        rank(self.point_type, self.index)
    }

    pub(super) const fn event_class(&self) -> Option<EventClass> {
        class_of(self.class)
    }

    /// The class and the variation of the events that tell of controls; none where nothing does.
    pub(super) fn command_events(&self) -> Option<(EventClass, u8)> {
        class_of(self.command).map(|class| (class, self.command >> 2))
    }

    /// The dead-band of an analog.
    pub(super) const fn dead_band(&self) -> f32 {
        f32::from_bits(self.band)
    }

    /// Gives an analog a dead-band: finite, not negative.
    pub(super) const fn set_dead_band(&mut self, band: f32) {
        self.band = band.to_bits();
    }

    pub(super) const fn is_in_class_0(&self) -> bool {
        self.class & IN_CLASS_0 != 0
    }

    pub(super) const fn set_class(&mut self, class: Option<EventClass>, in_class_0: bool) {
        self.class = class_bits(class) | if in_class_0 { IN_CLASS_0 } else { 0 };
    }

    pub(super) const fn flags(&self) -> Flags {
        Flags(self.flags)
    }

    /// What it is now, as an event of a class.
    pub(super) const fn change(&self, class: EventClass) -> Change {
        Change { class, event_variation: self.event_variation, bits: self.value, flags: self.flags() }
    }

    /// The value; none for octet strings, whose bytes the database keeps apart.
    pub(super) fn value(&self) -> Option<Measured> {
        measured(self.point_type, self.value)
    }

    /// When a frozen counter or analog was frozen.
    pub(super) fn frozen_at(&self) -> DnpTime {
        DnpTime::from_millis(u64::from(self.reported) | u64::from(self.band) << 32)
    }

    /// The time of its freeze, of a point that is a frozen value.
    pub(super) fn frozen_stamp(&self) -> Option<Stamp> {
        let frozen = matches!(self.point_type, PointType::FrozenCounter | PointType::FrozenAnalog);
        frozen.then(|| Stamp { time: self.frozen_at(), synchronized: true })
    }

    pub(super) fn set_frozen_at(&mut self, time: DnpTime) {
        let [a, b, c, d, e, f, ..] = time.millis().to_le_bytes();
        self.reported = u32::from_le_bytes([a, b, c, d]);
        self.band = u32::from_le_bytes([e, f, 0, 0]);
    }

    /// Keeps the value of an analog or an analog output and says whether it is worth an event: then it is the last reported
    /// value, from which the dead-band is measured.
    #[inline]
    pub(super) fn set_analog(&mut self, value: f64, flags: Flags) -> bool {
        let (bits, reported, band) = (value.to_bits(), single(value), f32::from_bits(self.band));
        let moved = (reported - f32::from_bits(self.reported)).abs();
        // Not a number, on either side, is a change of its own.
        let leaves_band = band == 0.0 || moved > band || moved.is_nan();
        let worth = flags.0 != self.flags || (bits != self.value && leaves_band);
        (self.value, self.flags) = (bits, flags.0);
        if worth {
            self.reported = reported.to_bits();
        }
        worth
    }

    /// The same for all other types, of which counters have a dead-band.
    pub(super) fn set(&mut self, bits: u64, flags: Flags) -> bool {
        let flags = state_bits_cleared(self.point_type, flags);
        let is_counter = self.point_type == PointType::Counter;
        let leaves_band = !is_counter || self.band == 0 || low_half(bits).abs_diff(self.reported) > self.band;
        let worth = flags.0 != self.flags || (bits != self.value && leaves_band);
        (self.value, self.flags) = (bits, flags.0);
        if worth && is_counter {
            self.reported = low_half(bits);
        }
        worth
    }
}

const fn class_bits(class: Option<EventClass>) -> u8 {
    match class {
        None => 0,
        Some(EventClass::Class1) => 1,
        Some(EventClass::Class2) => 2,
        Some(EventClass::Class3) => 3,
    }
}

/// The event class in the two lowest bits.
const fn class_of(bits: u8) -> Option<EventClass> {
    match bits & 3 {
        1 => Some(EventClass::Class1),
        2 => Some(EventClass::Class2),
        3 => Some(EventClass::Class3),
        _ => None,
    }
}

/// The order of points: by type, then by index.
pub(super) const fn rank(point_type: PointType, index: u16) -> u32 {
    (point_type as u32) << 16 | index as u32
}

/// The value behind stored bits; none for octet strings.
pub(super) fn measured(point_type: PointType, bits: u64) -> Option<Measured> {
    Some(match point_type {
        PointType::Binary | PointType::BinaryOutput => Measured::Bit(bits != 0),
        PointType::DoubleBit => {
            let [low, ..] = bits.to_le_bytes();
            Measured::DoubleBit(crate::DoubleBit::from_bits(low))
        }
        PointType::Counter | PointType::FrozenCounter => Measured::Count(low_half(bits)),
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => Measured::Analog(f64::from_bits(bits)),
        PointType::OctetString => return None,
    })
}

/// The stored bits of a value; none where the value is not of the point's type. Bytes have no bits of their own.
pub(super) fn bits_of(point_type: PointType, value: &Measured) -> Option<u64> {
    match (point_type, value) {
        (PointType::Binary | PointType::BinaryOutput, Measured::Bit(b)) => Some(u64::from(*b)),
        (PointType::DoubleBit, Measured::DoubleBit(d)) => Some(u64::from(d.bits())),
        (PointType::Counter | PointType::FrozenCounter, Measured::Count(n)) => Some(u64::from(*n)),
        (PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput, Measured::Analog(x)) => {
            Some(x.to_bits())
        }
        (PointType::OctetString, Measured::Bytes(_)) => Some(0),
        (
            _,
            Measured::Bit(_) | Measured::DoubleBit(_) | Measured::Count(_) | Measured::Analog(_) | Measured::Bytes(_),
        ) => None,
    }
}

/// The flags without the bits that carry the state itself on the wire (IEEE 1815 11.6: STATE, bits 7 and 6).
const fn state_bits_cleared(point_type: PointType, flags: Flags) -> Flags {
    match point_type {
        PointType::Binary | PointType::BinaryOutput => Flags(flags.0 & 0x7f),
        PointType::DoubleBit => Flags(flags.0 & 0x3f),
        PointType::Counter
        | PointType::FrozenCounter
        | PointType::Analog
        | PointType::FrozenAnalog
        | PointType::AnalogOutput
        | PointType::OctetString => flags,
    }
}

const fn low_half(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[expect(clippy::cast_possible_truncation, reason = "dead-bands compare in single precision, as documented")]
const fn single(x: f64) -> f32 {
    x as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, which a band may")]
const fn whole(x: f32) -> u32 {
    x as u32
}

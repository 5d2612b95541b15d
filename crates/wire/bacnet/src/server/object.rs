//! Objects of a simulated device: their values, priorities and logs.

use crate::service::LogRecord;
use crate::{BitString, ObjectId, ObjectType, Unit, Value};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What is wrong with a value (property `status-flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFlags {
    /// An alarm is active.
    pub in_alarm: bool,
    /// The value cannot be trusted.
    pub fault: bool,
    /// Somebody has taken the device over on site.
    pub overridden: bool,
    /// The value no longer follows the device.
    pub out_of_service: bool,
}

impl StatusFlags {
    /// As they stand in the property.
    #[must_use]
    pub fn bits(self) -> BitString {
        BitString::new(&[self.in_alarm, self.fault, self.overridden, self.out_of_service])
    }
}

/// The records of a trend log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TrendLog {
    pub(super) records: VecDeque<LogRecord>,
    pub(super) size: usize,
    /// Records since the start: the sequence number of the last.
    pub(super) total: u32,
}

impl TrendLog {
    pub(super) fn add(&mut self, record: LogRecord) {
        if self.records.len() >= self.size {
            self.records.pop_front();
        }
        self.records.push_back(record);
        self.total = self.total.wrapping_add(1).max(1);
    }
}

/// One object: built by the calls below, then given to the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub(super) id: ObjectId,
    pub(super) name: Box<str>,
    pub(super) description: Box<str>,
    pub(super) value: Value,
    pub(super) status: StatusFlags,
    pub(super) units: Option<Unit>,
    pub(super) states: Vec<Box<str>>,
    /// How many states a multi-state object without names for them has; none: as many as it was seen in.
    pub(super) state_count: Option<u64>,
    /// The greatest state that it was in.
    pub(super) state_seen: u64,
    pub(super) cov_increment: f32,
    /// The least and the greatest present value that clients may write.
    pub(super) limits: Option<(f32, f32)>,
    pub(super) writable: bool,
    /// The values by priority of a commandable object; then `value` is the relinquish default.
    pub(super) priorities: Option<Box<[Option<Value>; 16]>>,
    pub(super) log: Option<TrendLog>,
}

impl Object {
    /// An object with a value: analog ones have a Real, binary ones 0 or 1 enumerated, multi-state ones Unsigned from 1.
    #[must_use]
    pub fn new(object_type: ObjectType, instance: u32, name: &str, value: Value) -> Self {
        let is_analog = object_type.is_analog();
        let state_seen = if let Value::Unsigned(state) = value { state } else { 1 };
        Self {
            id: ObjectId::new(object_type, instance),
            name: name.into(),
            description: "".into(),
            value,
            status: StatusFlags::default(),
            units: is_analog.then_some(Unit::NO_UNITS),
            states: Vec::new(),
            state_count: None,
            state_seen,
            cov_increment: 0.0,
            limits: None,
            writable: object_type.is_output(),
            priorities: object_type.is_output().then(Box::default),
            log: None,
        }
    }

    /// A trend log that keeps so many records.
    #[must_use]
    pub fn trend_log(instance: u32, name: &str, size: usize) -> Self {
        let log = TrendLog { size: size.max(1), ..TrendLog::default() };
        Self { log: Some(log), ..Self::new(ObjectType::TREND_LOG, instance, name, Value::Null) }
    }

    /// What its number counts.
    #[must_use]
    pub fn with_units(mut self, units: Unit) -> Self {
        self.units = Some(units);
        self
    }

    /// What it is, in words.
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.description = description.into();
        self
    }

    /// The names of its states, the first of state 1 (multi-state), or of inactive and active (binary).
    #[must_use]
    pub fn with_states(mut self, states: &[&str]) -> Self {
        self.states = states.iter().map(|state| Box::from(*state)).collect();
        self
    }

    /// How many states a multi-state object has whose states have no names.
    #[must_use]
    pub const fn with_state_count(mut self, count: u64) -> Self {
        self.state_count = Some(count);
        self
    }

    /// How much a number must change before subscribers are told.
    #[must_use]
    pub const fn with_cov_increment(mut self, increment: f32) -> Self {
        self.cov_increment = increment;
        self
    }

    /// The least and the greatest present value of a Real that clients may write.
    #[must_use]
    pub const fn with_limits(mut self, min: f32, max: f32) -> Self {
        self.limits = Some((min, max));
        self
    }

    /// Lets clients write its value; outputs are always commandable.
    #[must_use]
    pub const fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// Gives it a priority array; its value becomes the relinquish default.
    #[must_use]
    pub fn commandable(mut self) -> Self {
        self.writable = true;
        self.priorities = Some(Box::default());
        self
    }

    /// Which object it is.
    #[must_use]
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    /// Its present value: of a commandable object that of the highest priority, or the relinquish default.
    #[must_use]
    pub fn present_value(&self) -> &Value {
        self.commanded().unwrap_or(&self.value)
    }

    /// Whether its value no longer follows the device.
    #[must_use]
    pub const fn is_out_of_service(&self) -> bool {
        self.status.out_of_service
    }

    /// What a client commands, at the highest priority in use; none where it is at its relinquish default.
    #[must_use]
    pub fn commanded(&self) -> Option<&Value> {
        self.priority().and_then(|(_, value)| value)
    }

    /// The priority that commands it, and its value.
    pub(super) fn priority(&self) -> Option<(usize, Option<&Value>)> {
        let priorities = self.priorities.as_ref()?;
        let place = priorities.iter().position(Option::is_some)?;
        Some((place + 1, priorities.get(place).and_then(Option::as_ref)))
    }

    /// Whether a value is of the object's data type.
    pub(super) fn takes(&self, value: &Value) -> bool {
        match value {
            Value::Enumerated(state) if self.id.object_type().is_binary() => *state <= 1,
            Value::Unsigned(_) if self.id.object_type().is_multi_state() => true,
            value => core::mem::discriminant(value) == core::mem::discriminant(&self.value),
        }
    }

    /// Whether a value of its data type is within its limits, if it has some, and one of its states.
    pub(super) fn allows(&self, value: &Value) -> bool {
        match (self.limits, value) {
            (Some((min, max)), Value::Real(number)) => (min..=max).contains(number),
            (_, value) => self.has_state(value),
        }
    }

    /// Whether a multi-state object has this state; true of all other objects.
    pub(super) fn has_state(&self, value: &Value) -> bool {
        match value {
            Value::Unsigned(state) if self.id.object_type().is_multi_state() => {
                *state >= 1 && self.states_known().is_none_or(|count| *state <= count)
            }
            _ => true,
        }
    }

    /// How many states it is known to have: names say so before anything else, because State_Text has the size Number_Of_States
    /// (clause 12.18).
    fn states_known(&self) -> Option<u64> {
        if self.states.is_empty() { self.state_count } else { u64::try_from(self.states.len()).ok() }
    }

    /// The property Number_Of_States: what is known, or the greatest state that the object was in.
    pub(super) fn number_of_states(&self) -> u64 {
        self.states_known().unwrap_or(self.state_seen)
    }

    /// Gives it a value.
    pub(super) fn set(&mut self, value: Value) {
        self.see(&value);
        self.value = value;
    }

    /// Notes the greatest state.
    pub(super) fn see(&mut self, value: &Value) {
        if let Value::Unsigned(state) = value {
            self.state_seen = self.state_seen.max(*state);
        }
    }

    /// Whether subscribers are to be told, who were told this before.
    pub(super) fn has_changed(&self, told: &(Value, StatusFlags)) -> bool {
        let (before, status) = told;
        let value = self.present_value();
        if *status != self.status {
            return true;
        }
        match (before, value) {
            (Value::Real(before), Value::Real(value)) => {
                let difference = (before - value).abs();
                if self.cov_increment > 0.0 {
                    difference >= self.cov_increment
                } else {
                    before.to_bits() != value.to_bits()
                }
            }
            (before, value) => before != value,
        }
    }
}

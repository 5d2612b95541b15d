//! An object of a BACnet device, and what is asked of it.

use tieline_bacnet::client::Failure;
use tieline_bacnet::service::LoggedProperty;
use tieline_bacnet::{ObjectId, ObjectType, PropertyId, PropertyRef, Unit, Value};

/// Words of one object's states at most.
const STATES_MAX: usize = 64;

/// What is known of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Which it is.
    pub id: ObjectId,
    /// Its name; empty where it does not say, as the description.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What its number counts.
    pub unit: Option<Unit>,
    /// The words for its states: inactive and active, or those of a multi-state object.
    pub states: Vec<String>,
    /// How many states a multi-state object has.
    pub state_count: Option<u32>,
    /// Whether it has priorities, and so can be commanded.
    pub is_commandable: bool,
    /// The least and the greatest present value.
    pub limits: [Option<f64>; 2],
    /// What a trend log logs.
    pub logs: Vec<LoggedProperty>,
}

/// Object types that are worth a point.
const POINTS: [ObjectType; 9] = [
    ObjectType::ANALOG_INPUT,
    ObjectType::ANALOG_OUTPUT,
    ObjectType::ANALOG_VALUE,
    ObjectType::BINARY_INPUT,
    ObjectType::BINARY_OUTPUT,
    ObjectType::BINARY_VALUE,
    ObjectType::MULTI_STATE_INPUT,
    ObjectType::MULTI_STATE_OUTPUT,
    ObjectType::MULTI_STATE_VALUE,
];
/// Those without a constant.
const MORE_POINTS: [&str; 15] = [
    "loop",
    "accumulator",
    "pulse-converter",
    "averaging",
    "large-analog-value",
    "integer-value",
    "positive-integer-value",
    "characterstring-value",
    "date-value",
    "time-value",
    "datetime-value",
    "bitstring-value",
    "lighting-output",
    "binary-lighting-output",
    "staging",
];

impl Object {
    /// One of which nothing is known.
    pub fn new(id: ObjectId) -> Self {
        Self {
            id,
            name: String::new(),
            description: String::new(),
            unit: None,
            states: Vec::new(),
            state_count: None,
            is_commandable: id.object_type().is_output(),
            limits: [None; 2],
            logs: Vec::new(),
        }
    }

    /// Whether it is proposed as a point.
    pub fn is_point(&self) -> bool {
        let object_type = self.id.object_type();
        POINTS.contains(&object_type) || object_type.name().is_some_and(|name| MORE_POINTS.contains(&name))
    }

    /// The property that is proposed: in most objects the present value, which needs no name.
    pub fn property(&self) -> &'static str {
        match self.id.object_type().name() {
            Some("averaging") => "average-value",
            _ => "",
        }
    }

    /// Whether it is a trend log.
    pub fn is_log(&self) -> bool {
        [ObjectType::TREND_LOG, ObjectType::TREND_LOG_MULTIPLE].contains(&self.id.object_type())
    }

    /// What it is asked for.
    pub fn references(id: ObjectId) -> Vec<PropertyRef> {
        let (object_type, name) = (id.object_type(), id.object_type().name().unwrap_or_default());
        let mut properties = vec![PropertyId::OBJECT_NAME, PropertyId::DESCRIPTION];
        let is_number = object_type.is_analog()
            || matches!(name, "loop" | "accumulator" | "pulse-converter")
            || (name.ends_with("-value") && (name.contains("integer") || name.contains("analog")));
        if is_number {
            properties.push(PropertyId::UNITS);
        }
        if object_type.is_binary() {
            properties.extend([PropertyId::INACTIVE_TEXT, PropertyId::ACTIVE_TEXT]);
        }
        if object_type.is_multi_state() {
            properties.extend([PropertyId::NUMBER_OF_STATES, PropertyId::STATE_TEXT]);
        }
        if name.starts_with("trend-log") {
            properties.push(PropertyId::LOG_DEVICE_OBJECT_PROPERTY);
        }
        let can_be_written = name.ends_with("-output") || name.ends_with("-value");
        if can_be_written && is_number {
            properties.extend([PropertyId::MIN_PRES_VALUE, PropertyId::MAX_PRES_VALUE]);
        }
        let mut references: Vec<_> = properties.into_iter().map(|property| PropertyRef::new(id, property)).collect();
        if name.ends_with("-value") {
            references.push(PropertyRef::element(id, PropertyId::PRIORITY_ARRAY, 0));
        }
        references
    }

    /// Takes one answer.
    pub fn take(&mut self, reference: &PropertyRef, answer: &Result<Value, Failure>) {
        let Ok(value) = answer else { return };
        let words = || value.as_str().unwrap_or_default().trim().to_owned();
        match reference.property {
            PropertyId::OBJECT_NAME => self.name = words(),
            PropertyId::DESCRIPTION => self.description = words(),
            PropertyId::UNITS => self.unit = value.as_u32().map(Unit).filter(|unit| *unit != Unit::NO_UNITS),
            PropertyId::INACTIVE_TEXT | PropertyId::ACTIVE_TEXT => {
                let place = usize::from(reference.property == PropertyId::ACTIVE_TEXT);
                self.states.resize(2, String::new());
                if let Some(state) = self.states.get_mut(place) {
                    *state = words();
                }
            }
            PropertyId::STATE_TEXT => {
                let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
                self.states = value.as_list().iter().take(STATES_MAX).map(text).collect();
            }
            PropertyId::NUMBER_OF_STATES => self.state_count = value.as_u32(),
            PropertyId::MIN_PRES_VALUE | PropertyId::MAX_PRES_VALUE => {
                let place = usize::from(reference.property == PropertyId::MAX_PRES_VALUE);
                if let Some(limit) = self.limits.get_mut(place) {
                    *limit = number(value);
                }
            }
            PropertyId::PRIORITY_ARRAY => self.is_commandable = value.as_u32() == Some(16),
            PropertyId::LOG_DEVICE_OBJECT_PROPERTY => self.logs = LoggedProperty::all_of(value),
            _ => {}
        }
    }
}

/// A finite number; floats of 32 bits as they are written, not as they are nearest in 64 bits.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Real(number) => number.to_string().parse().ok(),
        Value::Double(number) => Some(*number),
        other => other.as_f64(),
    };
    // Devices that have no limits say the greatest numbers that there are.
    number.filter(|number: &f64| number.is_finite() && number.abs() < 1e30)
}

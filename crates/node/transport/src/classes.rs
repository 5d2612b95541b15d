//! Event classes as configurations say them.

use tieline_dnp3::{Classes, EventClass};
use tieline_service::parse;
use tieline_service::reader::Expected;
use toml::de::DeValue;

/// Event classes; none where the list is empty.
///
/// # Errors
/// What was expected.
pub fn event_classes(value: &DeValue<'_>) -> Result<Classes, Expected> {
    let expected = || "a list of event classes, as in [1]".to_owned();
    let numbers = value.as_array().ok_or_else(expected)?;
    numbers.iter().try_fold(Classes::NONE, |classes, number| {
        let class = parse::integer(1..=3)(number.get_ref()).ok().and_then(event_class).ok_or_else(expected)?;
        Ok(classes.with(class.into()))
    })
}

/// The event class of a number; none of 0, and of numbers that are none.
#[must_use]
pub const fn event_class(number: u8) -> Option<EventClass> {
    match number {
        1 => Some(EventClass::Class1),
        2 => Some(EventClass::Class2),
        3 => Some(EventClass::Class3),
        _ => None,
    }
}

//! Expressions over topics.

use tieline_core::{Quality, Timestamp, Validity, Value};
use tieline_derived::{Changes, Expression, Form, Reading, Window};

/// The first byte says how it is calculated, and what its inputs hold; the rest is the text.
pub(super) fn expression(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let form = if first & 1 == 0 { Form::Change } else { Form::Interval };
    let expression = match Expression::parse(text, form) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(error.at >= 1 && error.at <= text.chars().count() + 1, "{error}");
            return;
        }
    };
    let values = [0.0, 1.0, -1.5, 1e300, -0.0, f64::INFINITY, 3.0, 1e-300];
    let value =
        |input: usize| values.get((input + usize::from(first >> 1)) % values.len()).copied().unwrap_or_default();
    let reading = |input: usize| Reading::of(&Value::Float(value(input)), Quality::GOOD);
    let at = Timestamp::from_micros;
    let found = if form == Form::Change {
        let mut changes = Changes::empty(&expression);
        for input in 0..expression.inputs().len() {
            assert!(changes.take(&expression, input, (at(1), reading(input))).is_none());
        }
        changes.finish(&expression).map(|point| (point.value, point.quality))
    } else {
        let window = |input: usize| {
            let mut window = Window::new(at(0), at(1_000_000), None);
            window.add(at(500_000), reading(input));
            window
        };
        expression.of_interval(&(0..expression.inputs().len()).map(window).collect::<Vec<_>>())
    };
    if let Some((value, quality)) = found {
        assert_eq!(value == Value::Null, quality.validity() == Validity::Bad);
        assert!(value.as_f64().is_none_or(f64::is_finite));
    }
}

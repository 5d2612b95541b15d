//! User properties of PUBLISH by which a client says what has to be true of the topic's value
//! (docs/topics-and-mqtt.md, Conditional publish).

use bytes::Bytes;
use tieline_mqtt::{Properties, Property, Text};
use tieline_topics::Condition;

const VERSION: &str = "tieline-if-version";
const ABSENT: &str = "tieline-if-absent";
const VALUE: &str = "tieline-if-value";
/// Conditions of one message.
const CONDITIONS_MAX: usize = 4;

/// What has to be true for a message to be taken.
///
/// # Errors
/// A condition is none; the words are for the client.
pub fn read(properties: &Properties) -> Result<Vec<Condition>, String> {
    let mut conditions = Vec::new();
    if properties.is_empty() {
        return Ok(conditions);
    }
    for own in properties.own_properties() {
        conditions.push(match own {
            own if own.is(VERSION) => Condition::Version(version(own.value())?),
            own if own.is(ABSENT) => absent(own.value())?,
            own if own.is(VALUE) => Condition::Value(Bytes::copy_from_slice(own.value().as_bytes())),
            _ => continue,
        });
        if conditions.len() > CONDITIONS_MAX {
            return Err(format!("more than {CONDITIONS_MAX} conditions"));
        }
    }
    Ok(conditions)
}

/// The same conditions for another node. Values of bytes that are no text cannot be told.
#[must_use]
pub fn write(conditions: &[Condition]) -> Properties {
    let pair = |name, value: &str| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
    let told = conditions.iter().map(|condition| match condition {
        Condition::Absent => pair(ABSENT, "true"),
        Condition::Present => pair(ABSENT, "false"),
        Condition::Version(version) => pair(VERSION, &version.to_string()),
        Condition::Value(value) => pair(VALUE, &String::from_utf8_lossy(value)),
    });
    told.collect()
}

fn version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{VERSION} is {text:?}, expected the version of a value, as in \"41\""))
}

fn absent(text: &str) -> Result<Condition, String> {
    match text {
        "" | "true" => Ok(Condition::Absent),
        "false" => Ok(Condition::Present),
        _ => Err(format!("{ABSENT} is {text:?}, expected \"true\", \"false\" or no bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn check(pairs: &[(&str, &str)], expect: Result<&[Condition], &str>) {
        let text = |text: &str| Text::new(text).unwrap();
        let properties = pairs.iter().map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect();
        if let Ok(conditions) = expect {
            assert_eq!(read(&write(conditions)).as_deref(), Ok(conditions), "told to another node");
        }
        assert_eq!(read(&properties), expect.map(<[_]>::to_vec).map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn conditions_are_read_and_wrong_ones_refused() {
        check(&[("other", "x")], Ok(&[]));
        check(&[(VERSION, "41"), (VALUE, "on")], Ok(&[Condition::Version(41), Condition::Value("on".into())]));
        check(&[(ABSENT, "")], Ok(&[Condition::Absent]));
        check(&[(ABSENT, "false")], Ok(&[Condition::Present]));
        check(&[(ABSENT, "no")], Err("tieline-if-absent is \"no\", expected \"true\", \"false\" or no bytes"));
        let wrong = "tieline-if-version is \"-1\", expected the version of a value, as in \"41\"";
        check(&[(VERSION, "-1")], Err(wrong));
        check(&[(VALUE, "a"); 5], Err("more than 4 conditions"));
    }
}

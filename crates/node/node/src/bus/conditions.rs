//! User properties of PUBLISH by which a client says what has to be true of the topic's value
//! (docs/topics-and-mqtt.md, Conditional publish).

use bytes::Bytes;
use tieline_mqtt::{Properties, Property, Text};
use tieline_topics::Condition;

/// A condition that a lock is held: its name, and behind a `#`, which no name has, the number of its acquisition.
pub const LOCK: &str = "tieline-if-lock";
const VERSION: &str = "tieline-if-version";
const ABSENT: &str = "tieline-if-absent";
const VALUE: &str = "tieline-if-value";
/// Conditions of one message.
const CONDITIONS_MAX: usize = 4;

/// What has to be true for a message to be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Of the topic's value.
    pub values: Vec<Condition>,
    /// Of the locks of the session that publishes.
    pub locks: Vec<LockCondition>,
}

/// The session has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockCondition {
    /// Its name.
    pub name: String,
    /// The acquisition by which the session has it; none where any will do.
    pub number: Option<u64>,
}

/// What has to be true for a message to be taken.
///
/// # Errors
/// A condition is none; the words are for the client.
pub fn read(properties: &Properties) -> Result<Conditions, String> {
    let mut conditions = Conditions::default();
    if properties.is_empty() {
        return Ok(conditions);
    }
    for own in properties.own_properties() {
        let values = &mut conditions.values;
        match own {
            own if own.is(VERSION) => values.push(Condition::Version(version(own.value())?)),
            own if own.is(ABSENT) => values.push(absent(own.value())?),
            own if own.is(VALUE) => values.push(Condition::Value(Bytes::copy_from_slice(own.value().as_bytes()))),
            own if own.is(LOCK) => conditions.locks.push(lock(own.value())?),
            _ => continue,
        }
        if conditions.values.len() + conditions.locks.len() > CONDITIONS_MAX {
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

/// Properties with the names of locks as another node has them; none where one has no name there.
#[must_use]
pub fn with_locks(properties: &Properties, there: impl Fn(&str) -> Option<String>) -> Option<Properties> {
    let other = |property| match property {
        Property::UserProperty((name, value)) if *name == *LOCK => {
            let (lock, number) = value.split_at(value.find('#').unwrap_or(value.len()));
            let value = format!("{}{number}", there(lock)?);
            Some(Property::UserProperty((name, Text::truncated(&value))))
        }
        property => Some(property),
    };
    properties.iter().map(other).collect()
}

fn version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{VERSION} is {text:?}, expected the version of a value, as in \"41\""))
}

fn lock(text: &str) -> Result<LockCondition, String> {
    let wrong = || format!("{LOCK} is {text:?}, expected a lock and perhaps its number, as in \"plant/writer#41\"");
    let (name, number) = match text.split_once('#') {
        Some((name, number)) => (name, Some(number.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    if name.is_empty() { Err(wrong()) } else { Ok(LockCondition { name: name.to_owned(), number }) }
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
    fn read_all(pairs: &[(&str, &str)]) -> Result<Conditions, String> {
        let text = |text: &str| Text::new(text).unwrap();
        read(&pairs.iter().map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect())
    }

    fn check(pairs: &[(&str, &str)], expect: Result<&[Condition], &str>) {
        let expect = expect.map_err(str::to_owned);
        let expect = expect.map(|values| Conditions { values: values.to_vec(), locks: Vec::new() });
        if let Ok(conditions) = &expect {
            assert_eq!(read(&write(&conditions.values)).as_ref(), Ok(conditions), "told to another node");
        }
        assert_eq!(read_all(pairs), expect, "{pairs:?}");
    }

    #[test]
    fn locks_are_named_with_their_numbers() {
        let of = |text| read_all(&[(LOCK, text)]).map(|conditions| conditions.locks);
        let lock = |name: &str, number| Ok(vec![LockCondition { name: name.to_owned(), number }]);
        assert_eq!(of("plant/writer"), lock("plant/writer", None));
        assert_eq!(of("plant/writer#41"), lock("plant/writer", Some(41)));
        for wrong in ["", "#41", "a#", "a#x", "a#1#2"] {
            let words = format!(
                "tieline-if-lock is {wrong:?}, expected a lock and perhaps its number, as in \"plant/writer#41\""
            );
            assert_eq!(of(wrong), Err(words));
        }
        assert_eq!(read_all(&[(LOCK, "a"); 5]), Err("more than 4 conditions".to_owned()));
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

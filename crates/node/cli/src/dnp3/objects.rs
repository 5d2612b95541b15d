//! What a master learns besides measurements, as lines for people and for programs.

use super::measured;
use serde_json::{Value as Json, json};
use tieline_core::Timestamp;
use tieline_dnp3::app::{Attribute, AttributeValue, Object, attribute_name};
use tieline_dnp3::master::Answer;
use tieline_dnp3::{Measurement, Stamp};

/// An object in words.
pub fn line(object: &Object, event: bool, unsolicited: bool) -> String {
    match object {
        Object::Attribute(Attribute { set, variation, value }) => {
            let name = name(*set, *variation);
            format!("attribute {set} {variation} {name} {value}").replace("  ", " ")
        }
        Object::DeadBand { index, value } => format!("dead-band {index} {}", measured::number(*value)),
        Object::Commanded { status, .. } => {
            format!("commanded {} {status}", measured::line_without_flags(&as_measurement(object), event, unsolicited))
        }
        Object::Delta { .. } => format!("delta {}", measured::line(&as_measurement(object), event, unsolicited)),
        Object::Time(time) => format!("time {}", Timestamp::from(*time)),
    }
}

/// An object as one JSON object.
pub fn json(object: &Object, event: bool, unsolicited: bool) -> Json {
    match object {
        Object::Attribute(Attribute { set, variation, value }) => json!({
            "object": "attribute",
            "set": set,
            "variation": variation,
            "name": attribute_name(*variation).filter(|_| *set == 0),
            "type": value.type_name(),
            "value": attribute_json(value),
        }),
        Object::DeadBand { index, value } => json!({ "object": "dead-band", "index": index, "value": value }),
        Object::Commanded { status, .. } => {
            let mut told = measured::json(&as_measurement(object), event, unsolicited);
            if let Some(members) = told.as_object_mut() {
                members.retain(|name, _| !name.starts_with("flag"));
                members.insert("object".to_owned(), json!("commanded"));
                members.insert("status".to_owned(), json!(status.name()));
            }
            told
        }
        Object::Delta { .. } => {
            let mut told = measured::json(&as_measurement(object), event, unsolicited);
            if let Some(members) = told.as_object_mut() {
                members.insert("object".to_owned(), json!("delta"));
            }
            told
        }
        Object::Time(time) => json!({ "object": "time", "value": Timestamp::from(*time).to_string() }),
    }
}

/// What an answer brought, in words: one line each.
pub fn answer_lines(answer: &Answer) -> Vec<String> {
    match answer {
        Answer::Statuses(statuses) => {
            statuses.iter().enumerate().map(|(number, status)| format!("control {} {status}", number + 1)).collect()
        }
        Answer::Delay(delay) => vec![format!("takes {} ms", delay.as_millis())],
        Answer::RoundTrip { both_ways, inside } => vec![format!(
            "round trip {:.3} ms, inside the outstation {} ms",
            both_ways.as_secs_f64() * 1000.0,
            inside.as_millis()
        )],
        Answer::Address(address) => vec![format!("address {address}")],
        Answer::Objects(bytes) => vec![format!("objects {}", measured::hex(bytes))],
    }
}

/// What an answer brought, as one JSON object.
pub fn answer_json(answer: &Answer) -> Json {
    match answer {
        Answer::Statuses(statuses) => {
            json!({ "answer": "statuses", "statuses": statuses.iter().map(|status| status.name()).collect::<Vec<_>>() })
        }
        Answer::Delay(delay) => json!({ "answer": "delay", "ms": delay.as_secs_f64() * 1000.0 }),
        Answer::RoundTrip { both_ways, inside } => json!({
            "answer": "round_trip",
            "ms": both_ways.as_secs_f64() * 1000.0,
            "inside_ms": inside.as_secs_f64() * 1000.0,
        }),
        Answer::Address(address) => json!({ "answer": "address", "address": address }),
        Answer::Objects(bytes) => json!({ "answer": "objects", "hex": measured::hex(bytes) }),
    }
}

fn name(set: u16, variation: u8) -> &'static str {
    attribute_name(variation).filter(|_| set == 0).unwrap_or_default()
}

/// What has a point and a value, as if it were measured.
fn as_measurement(object: &Object) -> Measurement {
    use tieline_dnp3::{Flags, Measured, PointType};
    let measurement = |point_type: PointType, index, value, flags, stamp: Option<Stamp>| Measurement {
        point_type,
        index,
        value,
        flags,
        stamp,
    };
    match object {
        Object::Commanded { point_type, index, value, stamp, .. } => {
            measurement(*point_type, *index, value.clone(), Flags::ONLINE, *stamp)
        }
        Object::Delta { point_type, index, change, flags, stamp } => {
            measurement(*point_type, *index, Measured::Count(*change), *flags, *stamp)
        }
        Object::Attribute(_) | Object::DeadBand { .. } | Object::Time(_) => {
            measurement(PointType::Analog, 0, Measured::Count(0), Flags::ONLINE, None)
        }
    }
}

fn attribute_json(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::Text(bytes) | AttributeValue::Unicode(bytes) => json!(String::from_utf8_lossy(bytes)),
        AttributeValue::Unsigned(number) => json!(number),
        AttributeValue::Signed(number) => json!(number),
        AttributeValue::Float(number) => json!(number),
        AttributeValue::Time(time) => json!(Timestamp::from(*time).to_string()),
        AttributeValue::List(listed) => {
            let one = |one: &tieline_dnp3::app::ListedAttribute| json!({ "variation": one.variation, "name": attribute_name(one.variation), "writable": one.is_writable() });
            json!(listed.iter().map(one).collect::<Vec<_>>())
        }
        AttributeValue::Bytes(bytes) | AttributeValue::Bits(bytes) | AttributeValue::Unknown { bytes, .. } => {
            json!({ "hex": measured::hex(bytes) })
        }
    }
}

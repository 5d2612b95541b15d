//! What is told of a payload, wherever it is asked: the topics of the API (which `get` prints), history, views, counts by
//! quality, and all of that after a restart.

use super::alone::alone;
use super::grade::grade;
use super::ledger::LedgerBatches;
use super::state::Bus;
use super::view::write_topic;
use crate::config;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::Path;
use tieline_core::{Filter, Instant, Now, Timestamp, Topic};
use tieline_history::{HistoryOptions, HistoryQuery, HistoryReader, HistoryWriter};
use tieline_ledger::Image;
use tieline_topics::Grade;
use tieline_views::Views;

/// When the payloads arrive.
const NOW: Now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(1_795_167_360_123) };
const ARRIVED: &str = "2026-11-20T09:36:00.123Z";
const STATED: &str = "2020-01-02T03:04:05.000Z";
/// The source's number with its quality, and the mean of it alone.
const VIEWS: &str = "[[view]]\nname = 'picked'\nfrom = 'in/+'\nto = 'picked/{1}'\npick = { is = '/v' }\n\
    [[view]]\nname = 'mean'\nfrom = 'in/+'\nto = 'mean/{1}'\naggregate = 'mean'\n";

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    /// A point with a quality: value, quality and time.
    Point(&'static str, &'static str, &'static str),
    /// A point whose publisher states no quality: value and time.
    Unstated(&'static str, &'static str),
    /// No point.
    Other,
}
use Is::{Other, Point, Unstated};

const TABLE: &[(&str, Is)] = &[
    // Points.
    (r#"{"v":59.98,"q":"good","t":"2020-01-02T03:04:05Z"}"#, Point("59.98", "good", STATED)),
    (r#"{"v":59.98,"q":"good","t":"2020-01-02T03:04:05.000Z"}"#, Point("59.98", "good", STATED)),
    (r#" { "t" : "2020-01-02T05:04:05+02:00" , "q" : "bad" , "v" : 7 } "#, Point("7", "bad", STATED)),
    (r#"{"v":true,"q":"uncertain"}"#, Point("true", "uncertain", ARRIVED)),
    (r#"{"v":null,"q":"bad"}"#, Point("null", "bad", ARRIVED)),
    (r#"{"v":"on \"it\"","q":"good"}"#, Point(r#""on \"it\"""#, "good", ARRIVED)),
    (r#"{"v":{"hex":"00fF"},"q":"good"}"#, Point(r#"{"hex":"00ff"}"#, "good", ARRIVED)),
    (r#"{"v":"nan","q":"good"}"#, Point(r#""nan""#, "good", ARRIVED)),
    (r#"{"v":1,"q":"good","unit":"A","rows":[{"v":2},{"v":3}]}"#, Point("1", "good", ARRIVED)),
    (r#"{"\u0076":1,"v\u0020":5,"v":2,"q":"good"}"#, Other),
    (r#"{"v":1,"\u0071":"b\u0061d"}"#, Point("1", "bad", ARRIVED)),
    // Reasons.
    (r#"{"v":1,"why":["offline"]}"#, Point("1", "bad", ARRIVED)),
    (r#"{"v":1,"q":"good","why":["comm_lost"]}"#, Point("1", "good", ARRIVED)),
    (r#"{"v":1,"q":"bad","why":["sensor broken","stale"]}"#, Point("1", "bad", ARRIVED)),
    (r#"{"v":1,"why":["sensor broken"]}"#, Point("1", "uncertain", ARRIVED)),
    (r#"{"v":1,"q":"bad","why":"broken"}"#, Point("1", "bad", ARRIVED)),
    (r#"{"v":1,"q":"good","why":[]}"#, Point("1", "good", ARRIVED)),
    // Times that are none.
    (r#"{"v":1,"q":"bad","t":"yesterday"}"#, Point("1", "bad", ARRIVED)),
    (r#"{"v":1,"q":"bad","t":null}"#, Point("1", "bad", ARRIVED)),
    (r#"{"v":1,"q":"bad","t":1577934245}"#, Other),
    // No quality.
    (r#"{"v":5}"#, Unstated("5", ARRIVED)),
    (r#"{"v":5,"t":"2020-01-02T03:04:05Z"}"#, Unstated("5", STATED)),
    ("23.5", Unstated("23.5", ARRIVED)),
    (" -7\n", Unstated("-7", ARRIVED)),
    ("true", Unstated("true", ARRIVED)),
    ("null", Unstated("null", ARRIVED)),
    (r#""text""#, Unstated(r#""text""#, ARRIVED)),
    // Numbers.
    (r#"{"v":1e2,"q":"good"}"#, Point("100.0", "good", ARRIVED)),
    (r#"{"v":-0,"q":"good"}"#, Point("-0.0", "good", ARRIVED)),
    (r#"{"v":9223372036854775807,"q":"good"}"#, Point("9223372036854775807", "good", ARRIVED)),
    (r#"{"v":18446744073709551615,"q":"good"}"#, Point("1.8446744073709552e19", "good", ARRIVED)),
    (r#"{"v":0.1000000000000000055511151231257827,"q":"good"}"#, Point("0.1", "good", ARRIVED)),
    (r#"{"v":1e999,"q":"good"}"#, Other),
    ("1e999", Other),
    ("05", Other),
    ("NaN", Other),
    // Words of quality that are none.
    (r#"{"v":1,"q":"GOOD"}"#, Other),
    (r#"{"v":1,"q":"fine"}"#, Other),
    (r#"{"v":1,"q":""}"#, Other),
    (r#"{"v":1,"q":null}"#, Other),
    (r#"{"v":1,"q":1}"#, Other),
    // Values that are none.
    (r#"{"v":[1,2],"q":"good"}"#, Other),
    (r#"{"v":{"a":1},"q":"good"}"#, Other),
    (r#"{"v":{"hex":"0"},"q":"good"}"#, Other),
    (r#"{"v":"\ud800","q":"good"}"#, Other),
    (r#"{"q":"good"}"#, Other),
    (r#"{"value":1,"quality":"good"}"#, Other),
    (r#"[{"v":1,"q":"good"}]"#, Other),
    // Members twice.
    (r#"{"v":1,"v":2,"q":"good"}"#, Other),
    (r#"{"v":1,"q":"good","q":"bad"}"#, Other),
    // No JSON.
    (r#"{"v":1,"q":"good"}}"#, Other),
    (r#"{"v":1,"q":"good",}"#, Other),
    (r#"{"v":1,"q":"good""#, Other),
    (r#"{'v':1}"#, Other),
    ("on", Other),
    ("truest", Other),
    ("-", Other),
    (" ", Other),
    ("{", Other),
];

/// The JSON of a topic, as `/v1/topics/{topic}` answers.
fn topic(bus: &Bus, path: &str) -> Option<Json> {
    let view = bus.tree().get(path)?;
    let mut text = String::new();
    write_topic(bus.tree(), &view, &mut text);
    // What is JSON and beyond this reader (a number that no double is, half a character) is shown as it came.
    let payload = String::from_utf8(view.body.to_payload().to_vec()).unwrap();
    let is_beyond = ["1e999", "\\ud800"].iter().any(|beyond| payload.contains(beyond));
    Some(serde_json::from_str(&if is_beyond { text.replacen(&payload, "null", 1) } else { text }).unwrap())
}

fn members(point: &Json) -> (Json, Json, Json) {
    (point["v"].clone(), point["q"].clone(), point["t"].clone())
}

fn history(folder: &Path) -> HashMap<String, Json> {
    let rows = HistoryReader::open(folder).unwrap();
    let rows = rows.query(HistoryQuery::of(Filter::new("in/+").unwrap())).unwrap().map(Result::unwrap);
    rows.map(|row| (row.topic.to_string(), serde_json::from_str(&row.point.to_json()).unwrap())).collect()
}

/// What the topics of the API say of a payload, and its grade.
fn check_topic(bus: &Bus, path: &str, payload: &str, is: Is) {
    let shown = topic(bus, path).unwrap();
    let view = bus.tree().get(path).unwrap();
    assert_eq!((shown["updated"].as_str(), view.body.to_payload().as_ref()), (Some(ARRIVED), payload.as_bytes()));
    let found = grade(view.body);
    match is {
        Point(v, q, t) => {
            let v: Json = serde_json::from_str(v).unwrap();
            assert_eq!(
                (&shown["kind"], members(&shown["value"])),
                (&json!("point"), (v, json!(q), json!(t))),
                "{payload}"
            );
            let expect = [("good", Grade::Good), ("uncertain", Grade::Uncertain), ("bad", Grade::Bad)];
            assert!(expect.contains(&(q, found)), "{payload}: {found:?}");
        }
        Unstated(..) | Other => {
            assert_ne!(shown["kind"], "point", "{payload}");
            assert_eq!(found, Grade::Unstated, "{payload}");
        }
    }
}

/// What history has of a payload: of a point the same as the topics say; where no quality is stated, there is no reason
/// against it.
fn check_history(row: &Json, payload: &str, is: Is) {
    let expect = match is {
        Point(v, q, t) => (serde_json::from_str(v).unwrap(), json!(q), json!(t)),
        Unstated(v, t) => (serde_json::from_str(v).unwrap(), json!("good"), json!(t)),
        Other => (json!(payload), json!("good"), json!(ARRIVED)),
    };
    assert_eq!(members(row), expect, "{payload}");
}

/// What views derive from a payload.
fn check_views(bus: &Bus, name: &str, payload: &str, is: Is) {
    let (picked, mean) = (topic(bus, &format!("picked/{name}")), topic(bus, &format!("mean/{name}")));
    let is_number = |v: &str| v.parse::<f64>().is_ok();
    match is {
        Point(v, q, _) => {
            let picked = picked.unwrap();
            let said = picked["value"]["q"].as_str();
            // Where reasons alone are stated, they go with the value.
            assert!(said == Some(q) || (said.is_none() && picked["value"].get("why").is_some()), "{payload}: {picked}");
            let expect = is_number(v).then(|| (json!(v.parse::<f64>().unwrap()), json!(q)));
            assert_eq!(mean.map(|mean| (mean["value"]["v"].clone(), mean["value"]["q"].clone())), expect, "{payload}");
        }
        Unstated(v, _) => {
            let expect = (payload.contains("\"v\"") && is_number(v)).then(|| json!("good"));
            assert_eq!(mean.map(|mean| mean["value"]["q"].clone()), expect, "{payload}");
            assert!(picked.is_none_or(|picked| picked["value"].get("q").is_none()), "{payload}");
        }
        // What looks like a point and is none does not pass for a good one.
        Other => {
            let looks = payload.contains("\"q\"");
            assert!(mean.is_none_or(|mean| !looks || mean["value"]["q"] == "uncertain"), "{payload}");
        }
    }
}

#[test]
fn all_tell_the_same_of_a_payload() {
    let (mut bus, rest) = alone();
    let writer = HistoryWriter::open(rest.1.path(), HistoryOptions::default()).unwrap();
    bus.set_history(Ok(writer.handle().clone()));
    let config = config::from_text("node.toml", VIEWS, rest.1.path()).unwrap();
    bus.set_views(Views::new(config.views, tieline_views::Limits::default()).unwrap());
    let paths: Vec<String> = (0..TABLE.len()).map(|number| format!("in/{number}")).collect();
    for ((payload, _), path) in TABLE.iter().zip(&paths) {
        let payload = Bytes::from_static(payload.as_bytes());
        bus.publish(NOW, Topic::new(path).unwrap(), payload, true).unwrap();
    }
    bus.recorder.submit();
    drop(writer);
    let rows = history(rest.1.path());
    for (number, ((payload, is), path)) in TABLE.iter().zip(&paths).enumerate() {
        check_topic(&bus, path, payload, *is);
        check_history(&rows[path], payload, *is);
        check_views(&bus, &number.to_string(), payload, *is);
    }
    // The same after a restart.
    let find = |path: &String| bus.tree().find(path).and_then(|id| bus.value_of(NOW, id)).unwrap();
    let values = paths.iter().map(|path| (Topic::new(path).unwrap(), find(path))).collect();
    let image = Image { values, ..Image::default() };
    let (mut again, _rest) = alone();
    again.restore(NOW, image, LedgerBatches::default());
    for ((payload, is), path) in TABLE.iter().zip(&paths) {
        check_topic(&again, path, payload, *is);
    }
}

//! A message as JSON and as text.

use serde_json::{Map, Value as Json, json};
#[cfg(any(feature = "smtp", test))]
use std::fmt::Write as _;
use tieline_core::{Value, Words, json_value};
use tieline_notify::{Message, MessageKind, Notice};

/// A message as JSON: what a webhook and a topic have.
#[must_use]
pub fn json(node: &str, message: &Message) -> Json {
    let alarms: Vec<Json> = message.alarms.iter().map(alarm).collect();
    json!({
        "key": message.key(),
        "kind": message.kind.word(),
        "node": node,
        "to": &*message.to,
        "time": message.made.to_string(),
        "step": message.step,
        "repeats": message.repeats,
        "total": message.total,
        "alarms": alarms,
    })
}

fn alarm(notice: &Notice) -> Json {
    let mut object = Map::new();
    let fields = [
        ("topic", Json::from(notice.alarm.topic.as_str())),
        ("kind", Json::from(&*notice.alarm.kind)),
        ("seq", Json::from(notice.seq)),
        ("state", Json::from(&*notice.state)),
        ("priority", Json::from(&*notice.priority)),
        ("severity", Json::from(notice.severity)),
        ("group", Json::from(&*notice.group)),
        ("text", Json::from(&*notice.text)),
        ("value", value(&notice.value)),
        ("since", Json::from(notice.since.to_string())),
        ("count", Json::from(notice.count)),
    ];
    object.extend(fields.map(|(name, field)| (name.to_owned(), field)));
    Json::Object(object)
}

fn value(value: &Value) -> Json {
    let mut text = String::new();
    json_value(value, &mut text);
    serde_json::from_str(&text).unwrap_or(Json::Null)
}

/// The line that a person reads first.
#[must_use]
pub(crate) fn subject(message: &Message) -> String {
    let first = message.alarms.first();
    let of = |notice: &Notice| {
        let Notice { alarm, text, count, .. } = notice;
        let words = if text.is_empty() { &*alarm.kind } else { text };
        let more = if *count > 0 { format!(" and {count} consequences") } else { String::new() };
        format!("{}: {words}{more}", alarm.topic)
    };
    let line = match (message.kind, first) {
        (MessageKind::Raised, Some(notice)) => format!("[{}] {}", notice.priority, of(notice)),
        (MessageKind::Repeated, Some(notice)) => format!("[{}, still] {}", notice.priority, of(notice)),
        (MessageKind::Resolved, Some(notice)) => format!("[resolved] {}", of(notice)),
        (MessageKind::Flood, _) => format!("[flood] {} alarms", message.total),
        (MessageKind::FloodOver, _) => format!("[flood over] {} alarms are left", message.total),
        (MessageKind::Test, _) => "[test] notifications arrive".to_owned(),
        (MessageKind::Heartbeat, _) => "[heartbeat] the node is up".to_owned(),
        (MessageKind::Raised | MessageKind::Repeated | MessageKind::Resolved, None) => message.kind.word().to_owned(),
    };
    // What a device is called is not a second line of a mail's head.
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// All of it as text.
#[cfg(any(feature = "smtp", test))]
#[must_use]
pub(crate) fn text(node: &str, message: &Message) -> String {
    let mut text = format!("{}\n\n", subject(message));
    for notice in &message.alarms {
        let mut shown = String::new();
        json_value(&notice.value, &mut shown);
        let _ = write!(
            text,
            "{} {}\n  {}\n  priority {}, group {}\n  value {shown}, since {}\n  {}, occurrence {}, {} consequences\n\n",
            notice.alarm.topic,
            notice.alarm.kind,
            notice.text,
            notice.priority,
            if notice.group.is_empty() { "none" } else { &notice.group },
            notice.since,
            notice.state,
            notice.seq,
            notice.count,
        );
    }
    let named = u32::try_from(message.alarms.len()).unwrap_or(u32::MAX);
    if message.total > named {
        let _ = writeln!(text, "and {} more\n", message.total - named);
    }
    let _ = writeln!(text, "node {node}, {}, {}", message.made, message.key());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Timestamp, Topic};
    use tieline_notify::{AlarmName, RouteId, Standing};

    fn message(kind: MessageKind, text: &str, count: u32) -> Message {
        let notice = Notice {
            alarm: AlarmName { topic: Topic::new("site/a/current").unwrap(), kind: "high".into() },
            seq: 12,
            standing: Standing::Calling,
            priority: "high".into(),
            severity: 700,
            state: "unacknowledged".into(),
            group: "".into(),
            text: text.into(),
            value: Value::Float(412.5),
            since: Timestamp::from_millis(1_764_381_600_000),
            count,
        };
        let made = Timestamp::from_millis(1_764_381_605_000);
        let (to, route) = ("duty".into(), RouteId(0xAB));
        Message { id: 4, to, made, kind, route, step: 1, repeats: 2, total: 3, alarms: vec![notice] }
    }

    #[test]
    fn a_subject_is_one_line() {
        let check = |kind, text: &str, count, expect: &str| assert_eq!(subject(&message(kind, text, count)), expect);
        check(MessageKind::Raised, "overload", 0, "[high] site/a/current: overload");
        check(MessageKind::Raised, "", 4750, "[high] site/a/current: high and 4750 consequences");
        check(MessageKind::Raised, "x\r\nBcc: all@example.org", 0, "[high] site/a/current: x  Bcc: all@example.org");
        check(MessageKind::Repeated, "overload", 0, "[high, still] site/a/current: overload");
        check(MessageKind::Resolved, "overload", 0, "[resolved] site/a/current: overload");
        check(MessageKind::Flood, "", 0, "[flood] 3 alarms");
        check(MessageKind::FloodOver, "", 0, "[flood over] 3 alarms are left");
        check(MessageKind::Test, "", 0, "[test] notifications arrive");
    }

    #[test]
    fn json_and_text_have_all_of_it() {
        let message = message(MessageKind::Repeated, "overload", 2);
        let expect = json!({
            "key": "12.000000ab.1.2", "kind": "repeated", "node": "north", "to": "duty",
            "time": "2025-11-29T02:00:05.000Z", "step": 1, "repeats": 2, "total": 3,
            "alarms": [{
                "topic": "site/a/current", "kind": "high", "seq": 12, "state": "unacknowledged", "priority": "high",
                "severity": 700, "group": "", "text": "overload", "value": 412.5, "since": "2025-11-29T02:00:00.000Z",
                "count": 2,
            }],
        });
        assert_eq!(super::json("north", &message), expect);
        let text = text("north", &message);
        for part in ["value 412.5", "group none", "occurrence 12, 2 consequences", "and 2 more", "node north"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

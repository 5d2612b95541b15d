//! Topics that are asked for once, over HTTP and MQTT alike: the request, and a page as JSON.
//!
//! Over MQTT the request is JSON published to `$fetch` with a response topic; the members are those of the query of
//! `/v1/topics`.

use crate::bus::{Bus, write_body, write_head, write_topic};
use serde_json::{Map, Value as Json};
use std::fmt::Write;
use tieline_core::{Filter, Timestamp, Topic, json_string};
use tieline_topics::{Fetch, Page, Range, Selector, Tree, View};

/// MQTT requests are published here.
pub const REQUEST_TOPIC: &str = "$fetch";

/// Topics of a page, unless the request says.
const LIMIT: usize = 1000;
const LIMIT_MAX: usize = 10_000;
/// Octets of a page's names and values over MQTT, where packets have a limit, unless the request says.
const MESSAGE_OCTETS: usize = 64 << 10;
const MESSAGE_OCTETS_MAX: usize = 512 << 10;
/// The same over HTTP.
const BODY_OCTETS: usize = 16 << 20;
const BODY_OCTETS_MAX: usize = 64 << 20;

/// The members of a request.
pub const MEMBERS: [&str; 9] = ["filter", "select", "depth", "after", "before", "last", "limit", "octets", "values"];

/// The members of a request for the events of a topic, besides `topic`.
pub const EVENT_MEMBERS: [&str; 4] = ["events", "after", "from", "to"];

/// A request over MQTT.
#[derive(Debug)]
pub enum Asked {
    /// For topics.
    Topics(Fetch),
    /// For the events that a topic keeps.
    Events(Topic, Range),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// HTTP: members are texts.
    Http,
    /// MQTT: members are JSON.
    Mqtt,
}

/// Reads a request by its members. `member` gives one as text.
///
/// # Errors
/// One sentence: which member is what, and what was expected.
pub fn read(door: Door, member: impl Fn(&str) -> Option<String>) -> Result<Fetch, String> {
    let text = member("filter").unwrap_or_else(|| "#".to_owned());
    let filter = Filter::new(&text).map_err(|error| format!("filter is {text:?}: {error}"))?;
    let place = |name: &str| match member(name) {
        None => Ok(None),
        Some(text) => Topic::new(&text).map(Some).map_err(|error| format!("{name} is {text:?}: {error}")),
    };
    let select =
        member("select").map(|text| Selector::new(&text).map_err(|error| format!("select is {text:?}: {error}")));
    let (octets, octets_max) = match door {
        Door::Http => (BODY_OCTETS, BODY_OCTETS_MAX),
        Door::Mqtt => (MESSAGE_OCTETS, MESSAGE_OCTETS_MAX),
    };
    Ok(Fetch {
        filter,
        select: select.transpose()?,
        depth: member("depth").map(|text| number("depth", &text, 128)).transpose()?,
        after: place("after")?,
        before: place("before")?,
        from_end: truth("last", member("last"), false)?,
        limit: member("limit").map_or(Ok(LIMIT), |text| number("limit", &text, LIMIT_MAX))?,
        octets_max: member("octets").map_or(Ok(octets), |text| number("octets", &text, octets_max))?,
        values: truth("values", member("values"), true)?,
    })
}

/// Reads a request in JSON.
///
/// # Errors
/// As with [`read`].
pub fn read_json(payload: &[u8]) -> Result<Asked, String> {
    let members: Map<String, Json> = match payload {
        [] => Map::new(),
        _ => serde_json::from_slice(payload)
            .map_err(|error| format!("the payload is no JSON object ({error}), expected {{\"filter\": …}}"))?,
    };
    let member =
        |name: &str| members.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let known = if members.contains_key("topic") { &EVENT_MEMBERS[..] } else { &MEMBERS[..] };
    if let Some(name) = members.keys().find(|name| *name != "topic" && !known.contains(&name.as_str())) {
        return Err(format!("the member {name:?} is unknown, expected one of {}", known.join(", ")));
    }
    let Some(topic) = member("topic") else { return read(Door::Mqtt, member).map(Asked::Topics) };
    let topic = Topic::new(&topic).map_err(|error| format!("topic is {topic:?}: {error}"))?;
    Ok(Asked::Events(topic, read_range(member)?.unwrap_or(Range { limit: LIMIT, ..Range::default() })))
}

/// Reads which events of a topic are asked for; none where none are.
///
/// # Errors
/// As with [`read`].
pub fn read_range(member: impl Fn(&str) -> Option<String>) -> Result<Option<Range>, String> {
    if EVENT_MEMBERS.iter().all(|name| member(name).is_none()) {
        return Ok(None);
    }
    let time = |name: &str| {
        let parse = |text: String| {
            let expected = "expected a time, as in 2026-11-20T09:36:00Z";
            text.parse::<Timestamp>().map_err(|_| format!("{name} is {text:?}, {expected}"))
        };
        member(name).map(parse).transpose()
    };
    let after = member("after").map(|text| {
        text.parse::<u64>().map_err(|_| format!("after is {text:?}, expected the seq of an event, as in 41"))
    });
    Ok(Some(Range {
        after: after.transpose()?,
        from: time("from")?,
        to: time("to")?,
        limit: member("events").map_or(Ok(LIMIT), |text| number("events", &text, LIMIT_MAX))?,
    }))
}

/// The events that are asked for, as JSON, as many as there is room for; none where the topic keeps none.
pub fn events(door: Door, bus: &Bus, topic: &Topic, range: &Range) -> Option<String> {
    let octets_max = match door {
        Door::Http => BODY_OCTETS,
        Door::Mqtt => MESSAGE_OCTETS_MAX,
    };
    let mut text = String::from("{\"topic\":");
    json_string(topic, &mut text);
    text.push_str(",\"events\":[");
    for (i, event) in bus.events(topic, range)?.into_iter().enumerate() {
        let before = text.len();
        text.push_str(if i == 0 { "{" } else { ",{" });
        let _ = write!(text, "\"seq\":{},\"time\":\"{}\",", event.seq, event.time);
        write_body(&event.body, &mut text);
        text.push('}');
        if text.len() > octets_max && i > 0 {
            text.truncate(before);
            break;
        }
    }
    text.push_str("]}");
    Some(text)
}

fn number(name: &str, text: &str, max: usize) -> Result<usize, String> {
    let found = text.parse().ok().filter(|number| (1..=max).contains(number));
    found.ok_or_else(|| format!("{name} is {text:?}, expected a whole number from 1 to {max}"))
}

fn truth(name: &str, text: Option<String>, default: bool) -> Result<bool, String> {
    match text.as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(format!("{name} is {other:?}, expected true or false")),
    }
}

/// The page that is asked for, as JSON.
pub fn page(tree: &Tree, fetch: &Fetch, may: impl Fn(&Topic) -> bool) -> String {
    let Page { items, after } = tree.fetch(fetch, may);
    let mut text = String::from("{\"topics\":[");
    for (i, view) in items.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        write(view, fetch.values, &mut text);
    }
    text.push_str("],\"next\":");
    match after {
        Some(after) => json_string(&after, &mut text),
        None => text.push_str("null"),
    }
    text.push('}');
    text
}

fn write(view: &View<'_>, values: bool, out: &mut String) {
    if values { write_topic(view, out) } else { write_head(view, out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: &str, expect: Result<&str, &str>) {
        let shown = read_json(payload.as_bytes()).map(|asked| {
            let fetch = match asked {
                Asked::Topics(fetch) => fetch,
                Asked::Events(topic, range) => return format!("{topic} {:?} {}", range.after, range.limit),
            };
            let (after, select) = (fetch.after.map(|topic| topic.to_string()), fetch.select);
            let select = select.map(|select| select.as_str().to_owned());
            format!("{} {:?} {:?} {after:?} {} {}", fetch.filter, select, fetch.depth, fetch.limit, fetch.values)
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expect, "{payload}");
    }

    #[test]
    fn requests_are_read_and_wrong_ones_refused() {
        check(r#"{"topic": "a", "after": 3, "events": 2}"#, Ok("a Some(3) 2"));
        check(
            r#"{"topic": "a", "depth": 3}"#,
            Err("the member \"depth\" is unknown, expected one of events, after, from, to"),
        );
        check(r#"{"topic": "a", "from": "x"}"#, Err("from is \"x\", expected a time, as in 2026-11-20T09:36:00Z"));
        check("", Ok("# None None None 1000 true"));
        let whole = r#"{"filter": "a/#", "select": "x$", "depth": 2, "after": "a/b", "limit": 5, "values": false}"#;
        check(whole, Ok("a/# Some(\"x$\") Some(2) Some(\"a/b\") 5 false"));
        check(
            "[]",
            Err(
                "the payload is no JSON object (invalid type: sequence, expected a map at line 1 column 0), expected {\"filter\": …}",
            ),
        );
        check(
            r#"{"fitler": "a"}"#,
            Err(
                "the member \"fitler\" is unknown, expected one of filter, select, depth, after, before, last, limit, octets, values",
            ),
        );
        check(r#"{"filter": "a+"}"#, Err("filter is \"a+\": + must be a whole level of a filter, as in site/+/state"));
        check(r#"{"limit": 0}"#, Err("limit is \"0\", expected a whole number from 1 to 10000"));
        check(r#"{"octets": 999999}"#, Err("octets is \"999999\", expected a whole number from 1 to 524288"));
        check(r#"{"values": 1}"#, Err("values is \"1\", expected true or false"));
        check(r#"{"select": "("}"#, Err("select is \"(\": no regular expression: unclosed group"));
    }
}

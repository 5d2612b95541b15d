//! Topics that are asked for once, over HTTP and MQTT alike: the request, and a page as JSON.
//!
//! Over MQTT the request is JSON published to `$fetch` with a response topic; the members are those of the query of
//! `/v1/topics`.

use crate::bus::{Bus, write_body, write_head, write_topic};
use crate::config::Moment;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write;
use tieline_core::{Filter, Timestamp, Topic, json_string};
use tieline_service::http::parameters::{Fault, Parameter, Parameters, Whole};
use tieline_service::parameters;
use tieline_topics::{Fetch, Growth, Range, Selector, Tree, View};

/// MQTT requests are published here.
pub const REQUEST_TOPIC: &str = "$fetch";

/// Events of an answer, unless the request says.
const EVENTS: usize = 1000;
/// Topics of a page, or events.
const LIMIT_MAX: usize = 10_000;
/// Bytes of a page's names and values over MQTT, where packets have a limit, unless the request says.
const MESSAGE_BYTES: usize = 64 << 10;
const MESSAGE_BYTES_MAX: usize = 512 << 10;
/// The same over HTTP.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Bytes of a page from the end over HTTP, and of events: they are held until all are there.
pub const HELD_BYTES_MAX: usize = 1 << 20;
/// Bytes that are given to a reader at a time.
const PIECE_BYTES: usize = 32 << 10;

/// What one step looks at: topics, fewer where an expression is matched with each, and bytes of their values.
const TOPICS_A_STEP: usize = 128;
const SELECTED_A_STEP: usize = 16;
const BYTES_A_STEP: usize = 64 << 10;

parameters! {
    /// Which topics are asked for.
    pub struct TopicsAsked {
        /// Topic filter with the wildcards of MQTT
        filter: Filter = "#",
        /// The last values at this time, from history: RFC 3339, or how long ago, as in 24h
        at: Option<Moment>,
        /// With at: whether edits of the history are left out
        raw: bool = "false",
        /// Regular expression that topics have to match, too
        select: Option<Expression>,
        /// Levels below those of the filter before its first wildcard; topics with more are left out
        depth: Option<Whole<1, 128>>,
        /// Topics behind this one; the member next of the page before
        after: Option<Topic>,
        /// Topics before this one; with last, the member next of the page before
        before: Option<Topic>,
        /// Whether the page is the last topics, not the first
        last: bool = "false",
        /// Entries of the page
        limit: Whole<1, LIMIT_MAX> = "1000",
        /// Bytes of the names and values of the page; one topic comes all the same
        bytes: Whole<1, BODY_BYTES_MAX> = "16777216",
        /// Whether topics come with their values
        values: bool = "true",
    }
}

parameters! {
    /// Which events of a topic are asked for; its last value, where nothing is said.
    pub struct EventsAsked {
        /// So many of the events that the topic keeps, in the place of its last value
        events: Option<Whole<1, LIMIT_MAX>>,
        /// Events behind the one of this seq
        after: Option<u64>,
        /// Events not before
        from: Option<Moment>,
        /// Events not after
        to: Option<Moment>,
    }
}

/// A regular expression; it is compiled when the request has its turn.
#[derive(Debug)]
pub struct Expression(String);

impl Parameter for Expression {
    fn read(text: &str) -> Result<Self, Fault> {
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Json {
        json!({ "type": "string", "maxLength": Selector::TEXT_BYTES_MAX })
    }
}

/// A request over MQTT.
#[derive(Debug)]
pub enum Asked {
    /// For topics, and the selector besides, which is not looked at yet: that takes its time.
    Topics(Fetch, Option<String>),
    /// For the events that a topic keeps.
    Events(Topic, Range),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// HTTP: members are texts.
    Http,
    /// MQTT: members are JSON.
    Mqtt,
}

impl TopicsAsked {
    /// What is asked for, and the selector besides, which is not looked at yet.
    #[must_use]
    pub fn into_fetch(self) -> (Fetch, Option<String>) {
        let fetch = Fetch {
            filter: self.filter,
            select: None,
            depth: self.depth.map(|Whole(depth)| depth),
            after: self.after,
            before: self.before,
            from_end: self.last,
            limit: self.limit.0,
            bytes_max: self.bytes.0,
            values: self.values,
        };
        (fetch, self.select.map(|Expression(text)| text))
    }
}

impl EventsAsked {
    /// The events that are asked for; none where none are.
    #[must_use]
    pub fn range(&self, now: Timestamp) -> Option<Range> {
        let Self { events, after, from, to } = self;
        if events.is_none() && after.is_none() && from.is_none() && to.is_none() {
            return None;
        }
        let to = to.map(|to| to.resolve(now, now));
        let from = from.map(|from| from.resolve(to.unwrap_or(now), now));
        Some(Range { after: *after, from, to, limit: events.map_or(EVENTS, |Whole(events)| events) })
    }
}

/// Reads a request in JSON.
///
/// # Errors
/// One sentence: which member is what, and what was expected.
pub fn read_json(payload: &[u8], now: Timestamp) -> Result<Asked, String> {
    let members: Map<String, Json> = match payload {
        [] => Map::new(),
        _ => serde_json::from_slice(payload)
            .map_err(|error| format!("the payload is no JSON object ({error}), expected {{\"filter\": …}}"))?,
    };
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let topic = members.get("topic").map(text);
    let others = members.iter().filter(|(name, _)| *name != "topic");
    let mut others: Vec<_> = others.map(|(name, value)| (name.clone(), text(value))).collect();
    let Some(topic) = topic else {
        if !members.contains_key("bytes") {
            others.push(("bytes".to_owned(), MESSAGE_BYTES.to_string()));
        }
        let asked = TopicsAsked::read("member", &others)?;
        let Whole(bytes) = asked.bytes;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(format!("bytes is \"{bytes}\", expected a whole number from 1 to {MESSAGE_BYTES_MAX}"));
        }
        if asked.at.is_some() {
            return Err("at is asked for over HTTP, expected a request without it".to_owned());
        }
        let (fetch, select) = asked.into_fetch();
        return Ok(Asked::Topics(fetch, select));
    };
    let range = EventsAsked::read("member", &others)?.range(now);
    let topic = Topic::new(&topic).map_err(|error| format!("topic is {topic:?}: {error}"))?;
    Ok(Asked::Events(topic, range.unwrap_or(Range { limit: EVENTS, ..Range::default() })))
}

/// The events that are asked for, as JSON, as many as there is room for; none where the topic keeps none.
pub fn events(door: Interface, bus: &Bus, topic: &Topic, range: &Range) -> Option<String> {
    let bytes_max = match door {
        Interface::Http => HELD_BYTES_MAX,
        Interface::Mqtt => MESSAGE_BYTES_MAX,
    };
    let mut text = String::from("{\"topic\":");
    json_string(topic, &mut text);
    text.push_str(",\"events\":[");
    for (i, event) in bus.events(topic, range)?.into_iter().enumerate() {
        let before = text.len();
        text.push_str(if i == 0 { "{" } else { ",{" });
        let _ = write!(text, "\"seq\":{},\"time\":\"{}\",", event.seq, event.time);
        write_body(&event.body, event.time, &mut text);
        text.push('}');
        if text.len() > bytes_max && i > 0 {
            text.truncate(before);
            break;
        }
    }
    text.push_str("]}");
    Some(text)
}

/// A page of topics as JSON, made step by step.
#[derive(Debug)]
pub struct Paging {
    fetch: Fetch,
    /// The selector, until it is compiled.
    select: Option<String>,
    growth: Growth,
    /// What was made and not taken yet.
    text: String,
    /// Of a page from the end: its pieces, the last first.
    pieces: Vec<String>,
    is_begun: bool,
    has_items: bool,
}

impl Paging {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(door: Interface, mut fetch: Fetch, select: Option<String>) -> Self {
        if fetch.from_end && door == Interface::Http {
            // Its beginning is known when all of it is there.
            fetch.bytes_max = fetch.bytes_max.min(HELD_BYTES_MAX);
        }
        let (growth, text, pieces) = (Growth::default(), String::new(), Vec::new());
        Self { fetch, select, growth, text, pieces, is_begun: false, has_items: false }
    }

    /// Makes some more, of topics that `may` be read; true once there is a piece to be taken.
    ///
    /// # Errors
    /// The selector is none: one sentence.
    pub fn step(&mut self, tree: &Tree, may: impl Fn(&Topic) -> bool) -> Result<bool, String> {
        let Self { fetch, select, growth, text, pieces, is_begun, has_items } = self;
        if let Some(text) = select.take() {
            let selector = Selector::new(&text).map_err(|error| format!("select is {text:?}: {error}"))?;
            fetch.select = Some(selector);
            return Ok(false);
        }
        if !std::mem::replace(is_begun, true) {
            text.push_str("{\"topics\":[");
        }
        let count = if fetch.select.is_some() { SELECTED_A_STEP } else { TOPICS_A_STEP };
        let items = tree.grow(fetch, growth, (count, BYTES_A_STEP), may);
        if fetch.from_end {
            for view in &items {
                let mut piece = String::new();
                write(tree, view, fetch.values, &mut piece);
                pieces.push(piece);
            }
        } else {
            for view in &items {
                if std::mem::replace(has_items, true) {
                    text.push(',');
                }
                write(tree, view, fetch.values, text);
            }
        }
        if growth.is_done() {
            for (i, piece) in pieces.drain(..).rev().enumerate() {
                text.push_str(if i == 0 { "" } else { "," });
                text.push_str(&piece);
            }
            text.push_str("],\"next\":");
            match growth.next_page() {
                Some(next) => json_string(next, text),
                None => text.push_str("null"),
            }
            text.push('}');
        }
        Ok(growth.is_done() || text.len() >= PIECE_BYTES)
    }

    /// What was made.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Whether some was made.
    #[must_use]
    pub const fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Whether all was made.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.growth.is_done()
    }
}

fn write(tree: &Tree, view: &View<'_>, values: bool, out: &mut String) {
    if values { write_topic(tree, view, out) } else { write_head(tree, view, out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::written;
    use tieline_topics::Limits;

    fn check(payload: &str, expect: Result<&str, &str>) {
        let now = "2026-11-20T12:00:00Z".parse().unwrap();
        let shown = read_json(payload.as_bytes(), now).map(|asked| {
            let (fetch, select) = match asked {
                Asked::Topics(fetch, select) => (fetch, select),
                Asked::Events(topic, range) => {
                    let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
                    let (from, to) = (time(range.from), time(range.to));
                    return format!("{topic} {:?} {} {from} {to}", range.after, range.limit).trim_end().to_owned();
                }
            };
            let after = fetch.after.map(|topic| topic.to_string());
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
        let wrong = format!("from is \"x\", expected {}", Moment::EXPECTED);
        check(r#"{"topic": "a", "from": "x"}"#, Err(&wrong));
        let hour = "a None 1000 2026-11-20T11:00:00.000Z 2026-11-20T11:30:00.000Z";
        check(r#"{"topic": "a", "from": "30m", "to": "-30m"}"#, Ok(hour));
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
                "the member \"fitler\" is unknown, expected one of filter, at, raw, select, depth, after, before, last, limit, bytes, values",
            ),
        );
        check(r#"{"filter": "a+"}"#, Err("filter is \"a+\": + must be a whole level of a filter, as in site/+/state"));
        check(r#"{"limit": 0}"#, Err("limit is \"0\", expected a whole number from 1 to 10000"));
        check(r#"{"bytes": 999999}"#, Err("bytes is \"999999\", expected a whole number from 1 to 524288"));
        check(r#"{"at": "1h"}"#, Err("at is asked for over HTTP, expected a request without it"));
        check(r#"{"values": 1}"#, Err("values is \"1\", expected true or false"));
    }

    #[test]
    fn a_selector_is_looked_at_when_the_request_has_its_turn() {
        let Ok(Asked::Topics(fetch, select)) = read_json(br#"{"select": "("}"#, Timestamp::from_micros(0)) else {
            panic!("a request for topics")
        };
        let mut paging = Paging::new(Interface::Mqtt, fetch, select);
        let words = "select is \"(\": no regular expression: unclosed group";
        assert_eq!(paging.step(&Tree::new(Limits::default()), |_| true), Err(words.to_owned()));
    }

    #[test]
    fn a_page_is_made_step_by_step() {
        let mut tree = Tree::new(Limits::default());
        for number in 0..1000 {
            let body = tieline_core::Body::Opaque(bytes::Bytes::from_static(b"1"));
            let topic = Topic::new(&format!("a/{number:04}")).unwrap();
            tree.apply(tieline_core::Now::default(), tieline_core::Update { topic, body }, true).unwrap();
        }
        let check = |query: &[(&str, &str)], steps: usize, first: &str, count: usize| {
            let pairs: Vec<_> = query.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let (fetch, select) = TopicsAsked::read("parameter", &pairs).unwrap().into_fetch();
            let (mut paging, mut text, mut taken) = (Paging::new(Interface::Http, fetch, select), String::new(), 0);
            while !paging.is_done() {
                taken += 1;
                if paging.step(&tree, |_| true).unwrap() {
                    text.push_str(&paging.take());
                }
            }
            written::check::<written::TopicPage>(&text);
            let page: Json = serde_json::from_str(&text).unwrap();
            let topics = page["topics"].as_array().unwrap();
            assert_eq!((taken, topics.len()), (steps, count), "{query:?}");
            assert_eq!(topics.first().map_or("", |topic| topic["topic"].as_str().unwrap()), first);
        };
        check(&[("limit", "1000")], 1000 / TOPICS_A_STEP + 1, "a/0000", 1000);
        check(&[("limit", "300"), ("last", "true")], 300 / TOPICS_A_STEP + 1, "a/0700", 300);
        // One step compiles the expression.
        check(&[("select", "9$"), ("limit", "1000")], 1000 / SELECTED_A_STEP + 2, "a/0009", 100);
        check(&[("filter", "b/#")], 1, "", 0);
    }
}

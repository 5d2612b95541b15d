//! What one source contributes to a view.

use crate::template::captures;
use crate::{Pick, View};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use serde_json::{Map, Value};
use tieline_core::{Body, Quality, Topic, Validity};

/// Members that tell how good a point is; they go with what is picked out of it.
const OF_A_POINT: [&str; 3] = ["q", "why", "t"];

/// A source with its value, whose JSON is read when first asked for.
#[derive(Debug)]
pub struct Source<'a> {
    topic: &'a Topic,
    body: &'a Body,
    /// None before it was read; none inside where it is no JSON.
    json: Option<Option<Value>>,
}

/// What a source gives to a derived topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The derived topic.
    pub to: Topic,
    /// Its value, if this contribution is shown.
    pub body: Body,
    /// The number for aggregates.
    pub number: Option<f64>,
    /// The validity of the source, where it states any.
    pub validity: Option<Validity>,
}

impl<'a> Source<'a> {
    /// A source.
    #[must_use]
    pub const fn new(topic: &'a Topic, body: &'a Body) -> Self {
        Self { topic, body, json: None }
    }

    fn json(&mut self) -> Option<&Value> {
        let body = self.body;
        let read = || match body {
            Body::Point(point) => serde_json::from_str(&point.to_json()).ok(),
            Body::Published(point) => serde_json::from_slice(point.payload()).ok(),
            Body::Opaque(bytes) => serde_json::from_slice(bytes).ok(),
        };
        self.json.get_or_insert_with(read).as_ref()
    }
}

/// What a source contributes to a view, at most `items_max` things; true when there were more.
#[must_use]
pub fn evaluate(view: &View, source: &mut Source<'_>, items_max: usize) -> (Vec<Contribution>, bool) {
    let topic = source.topic;
    let Some(captures) = captures(&view.from, topic) else { return (Vec::new(), false) };
    if !view.reads() {
        let to = view.to.fill(topic, &captures, "", &Value::Null);
        let body = source.body.clone();
        let one = to.map(|to| Contribution { to, body, number: None, validity: None });
        return (one.into_iter().collect(), false);
    }
    let body = source.body;
    let Some(root) = source.json() else { return (Vec::new(), false) };
    let validity = validity(body, root);
    let items = match view.expand.as_ref().map(|place| place.find(root)) {
        None => alloc::vec![(String::new(), root)],
        Some(Some(Value::Array(items))) => items.iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
        Some(Some(Value::Object(members))) => members.iter().map(|(key, item)| (key.clone(), item)).collect(),
        Some(_) => Vec::new(),
    };
    let over = items.len() > items_max;
    let contribution = |(key, item): (String, &Value)| {
        if view.when.as_ref().is_some_and(|when| !when.holds(item)) {
            return None;
        }
        let number = match &view.aggregate {
            Some(aggregate) => Some(aggregate.of.find(item).and_then(Value::as_f64)?),
            None => None,
        };
        let to = view.to.fill(topic, &captures, &key, item)?;
        let body = if view.expand.is_none() && view.pick.is_empty() {
            body.clone()
        } else {
            picked(view, validity.map(|_| root), item)
        };
        Some(Contribution { to, body, number, validity })
    };
    (items.into_iter().take(items_max).filter_map(contribution).collect(), over)
}

/// The validity that a source states. What has both members of a point and is none does not pass for good.
fn validity(body: &Body, root: &Value) -> Option<Validity> {
    let is_like_a_point = || root.get("v").is_some() && root.get("q").is_some();
    match body {
        Body::Point(_) | Body::Published(_) => body.stated_quality().map(Quality::validity),
        Body::Opaque(_) => is_like_a_point().then_some(Validity::Uncertain),
    }
}

/// What a view picks out of an item; `point` is the source where it states a quality.
fn picked(view: &View, point: Option<&Value>, item: &Value) -> Body {
    if view.pick.is_empty() {
        return json(item);
    }
    let mut members = Map::new();
    for (name, pick) in &view.pick {
        let value = match pick {
            Pick::Place(place) => place.find(item).cloned(),
            Pick::Fixed(value) => Some(value.clone()),
        };
        members.extend(value.map(|value| (name.to_string(), value)));
    }
    for name in OF_A_POINT {
        if let Some(value) = point.and_then(|point| point.get(name))
            && !members.contains_key(name)
        {
            members.insert(name.to_owned(), value.clone());
        }
    }
    json(&Value::Object(members))
}

fn json(value: &Value) -> Body {
    Body::read(Bytes::from(value.to_string()))
}

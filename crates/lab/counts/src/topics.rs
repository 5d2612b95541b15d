//! The tree: an update finds its subscribers.

use crate::meter::Operation;
use crate::values::table;
use bytes::Bytes;
use std::fmt::Display;
use tieline_core::{Body, Filter, Now, Topic, Update};
use tieline_topics::{Limits, Options, SubscriberId, Tree};

/// Subscribers of a topic.
const SUBSCRIBERS: u32 = 100;
/// Filters that some of them share.
const SHARED: [&str; 10] = [
    "#",
    "plant/#",
    "plant/1/#",
    "plant/1/unit/#",
    "plant/1/unit/2/#",
    "+/1/unit/2/table",
    "plant/+/unit/2/table",
    "plant/1/+/2/table",
    "plant/1/unit/+/table",
    "plant/1/unit/2/+",
];
/// Filters of which a topic matches few.
const FILTERS: u32 = 1000;

/// Counts an update of a topic that was there.
pub fn known() -> Result<Operation, String> {
    let mut tree = Tree::new(Limits::default());
    for (subscriber, filter) in (0..SUBSCRIBERS).zip(SHARED.iter().cycle()) {
        subscribe(&mut tree, subscriber, filter)?;
    }
    let topic = Topic::new("plant/1/unit/2/table").map_err(words)?;
    let payload = Bytes::from(table(1));
    Ok(Box::new(move |meter| {
        let found = meter.count(|| apply(&mut tree, &topic, &payload));
        if found? == SUBSCRIBERS { Ok(()) } else { Err("a subscriber is missing".to_owned()) }
    }))
}

/// Counts the first update of a topic.
pub fn new() -> Result<Operation, String> {
    let mut tree = Tree::new(Limits::default());
    for number in 0..FILTERS {
        let filter = match number % 4 {
            0 => format!("plant/{number}/#"),
            1 => format!("plant/+/unit/{number}/#"),
            2 => format!("plant/{}/+/{number}/table", number / 10),
            _ => format!("other/{number}/#"),
        };
        subscribe(&mut tree, number, &filter)?;
    }
    subscribe(&mut tree, FILTERS, "plant/+/unit/+/table")?;
    let (payload, mut number) = (Bytes::from(table(1)), 0);
    Ok(Box::new(move |meter| {
        number += 1;
        let topic = Topic::new(&format!("plant/{number}/unit/{}/table", 100_000 + number)).map_err(words)?;
        let found = meter.count(|| apply(&mut tree, &topic, &payload))?;
        if found > 0 { Ok(()) } else { Err("nobody wants the topic".to_owned()) }
    }))
}

fn subscribe(tree: &mut Tree, subscriber: u32, filter: &str) -> Result<(), String> {
    let filter = Filter::new(filter).map_err(words)?;
    tree.subscribe(SubscriberId(subscriber), &filter, Options::default()).map(|_| ()).map_err(words)
}

fn apply(tree: &mut Tree, topic: &Topic, payload: &Bytes) -> Result<u32, String> {
    let update = Update { topic: topic.clone(), body: Body::Opaque(payload.clone()) };
    let applied = tree.apply(Now::default(), update, true).map_err(words)?;
    let mut found = 0;
    tree.matches(applied.topic).for_each(None, |_| found += 1);
    Ok(found)
}

fn words(error: impl Display) -> String {
    error.to_string()
}

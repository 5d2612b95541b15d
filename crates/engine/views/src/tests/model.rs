//! What is kept up to date against what is worked out again from all sources.

use super::{at, body, view};
use crate::{Aggregate, Condition, Contribution, Limits, Operation, Pointer, Source, View, Views, evaluate};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{Body, Topic};

const TOPICS: [&str; 6] = ["a/x", "a/y", "a/z", "b/x", "b/y", "c"];

fn views() -> impl Strategy<Value = Vec<View>> {
    let pace = prop::sample::select(&[0_u64, 0, 30][..]);
    let one = (0_usize..10, pace.clone(), pace);
    prop::collection::vec(one, 1..5).prop_map(|kinds| {
        let made = kinds.into_iter().enumerate().map(|(number, (kind, delay, throttle))| {
            let name = alloc::format!("v{number}");
            let place = || Pointer::new("/v").unwrap();
            let sum = |operation| Some(Aggregate { operation, of: place() });
            let base = match kind {
                0 => view(&name, "a/+", "d/{1}"),
                1 => view(&name, "+/x", "d/{1}"),
                2 => View { expand: Some(Pointer::new("/l").unwrap()), ..view(&name, "a/+", "e/{key}") },
                3 => View { when: Some(Condition::new("/v > 1").unwrap()), ..view(&name, "a/#", "f/{1}") },
                4 => View { aggregate: sum(Operation::Sum), ..view(&name, "a/+", "g") },
                8 => View { aggregate: sum(Operation::Mean), ..view(&name, "+/+", "g") },
                9 => View { aggregate: sum(Operation::Min), ..view(&name, "#", "k") },
                5 => View { aggregate: sum(Operation::Max), ..view(&name, "+/x", "h/{1}") },
                6 => view(&name, "d/#", "i/{1}"),
                _ => View { aggregate: sum(Operation::Count), ..view(&name, "f/+", "j") },
            };
            View { delay: Duration::from_millis(delay), throttle: Duration::from_millis(throttle), ..base }
        });
        made.collect()
    })
}

#[derive(Clone, Debug)]
enum Step {
    Update(usize, String),
    Remove(usize),
    Wait(u64),
    Replace(Vec<View>),
}

fn step() -> impl Strategy<Value = Step> {
    let value =
        (0..3, prop::collection::vec(0..3, 0..3)).prop_map(|(v, list)| alloc::format!("{{\"v\":{v},\"l\":{list:?}}}"));
    prop_oneof![
        4 => (0..TOPICS.len(), value).prop_map(|(topic, value)| Step::Update(topic, value)),
        1 => (0..TOPICS.len()).prop_map(|topic| Step::Update(topic, "no JSON".into())),
        2 => (0..TOPICS.len()).prop_map(Step::Remove),
        2 => (1_u64..60).prop_map(Step::Wait),
        1 => views().prop_map(Step::Replace),
    ]
}

/// What is derived when nothing waits: round by round from nothing, until nothing changes.
fn from_scratch(views: &[View], sources: &BTreeMap<Topic, Body>) -> BTreeMap<Topic, Body> {
    let mut derived: BTreeMap<Topic, Body> = BTreeMap::new();
    loop {
        let all = sources.iter().chain(&derived);
        let mut made: BTreeMap<Topic, BTreeMap<(usize, Topic, usize), Contribution>> = BTreeMap::new();
        for (topic, body) in all {
            for (number, view) in views.iter().enumerate() {
                let (found, _) = evaluate(view, &mut Source::new(topic, body), 1000);
                for (which, one) in found.into_iter().enumerate() {
                    made.entry(one.to.clone()).or_default().insert((number, topic.clone(), which), one);
                }
            }
        }
        let next: BTreeMap<Topic, Body> = made.into_iter().map(|(topic, all)| (topic, show(views, &all))).collect();
        if next == derived {
            return derived;
        }
        derived = next;
    }
}

fn show(views: &[View], all: &BTreeMap<(usize, Topic, usize), Contribution>) -> Body {
    let ((number, _, _), first) = all.first_key_value().unwrap();
    let Some(aggregate) = &views[*number].aggregate else { return first.body.clone() };
    let numbers: Vec<f64> =
        all.iter().filter(|((n, _, _), _)| n == number).map(|(_, one)| one.number.unwrap()).collect();
    let value: f64 = match aggregate.operation {
        Operation::Count => numbers.len() as f64,
        Operation::Sum => numbers.iter().sum(),
        Operation::Mean => numbers.iter().sum::<f64>() / numbers.len() as f64,
        Operation::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
        Operation::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    body(&alloc::format!("{{\"n\":{},\"q\":\"good\",\"v\":{value:?}}}", numbers.len()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_kept_is_what_is_worked_out_anew(given in views(), steps in prop::collection::vec(step(), 0..40)) {
        let Ok(mut views) = Views::new(given.clone(), Limits::default()) else { return Ok(()) };
        let mut given = given;
        let (mut sources, mut now, mut seen) = (BTreeMap::<Topic, Body>::new(), 0, BTreeMap::new());
        for step in steps {
            match step {
                Step::Update(topic, value) => {
                    let (topic, value) = (Topic::new(TOPICS[topic]).unwrap(), body(&value));
                    views.handle_update(at(now), &topic, Some(&value));
                    sources.insert(topic, value);
                }
                Step::Remove(topic) => {
                    let topic = Topic::new(TOPICS[topic]).unwrap();
                    views.handle_update(at(now), &topic, None);
                    sources.remove(&topic);
                }
                Step::Wait(ms) => {
                    now += ms;
                    pass(&mut views, now);
                }
                Step::Replace(others) => {
                    // The bus gives the values of its topics; those that are derived are among them.
                    let all: BTreeMap<Topic, Body> = sources.clone().into_iter().chain(seen.clone()).collect();
                    if views.replace(at(now), others.clone(), all).is_ok() {
                        given = others;
                    }
                }
            }
            follow(&mut views, &mut seen);
        }
        // All that waits comes in the end: chains of four views, each with its delay and throttle.
        for _ in 0..20 {
            now += 100;
            pass(&mut views, now);
        }
        follow(&mut views, &mut seen);
        prop_assert_eq!(&seen, &from_scratch(&given, &sources));
        prop_assert_eq!((views.timeout(), views.stats().waiting), (None, 0));
        prop_assert_eq!(views.stats().derived, seen.len());
        for topic in sources.into_keys() {
            views.handle_update(at(now), &topic, None);
        }
        for _ in 0..20 {
            now += 100;
            pass(&mut views, now);
        }
        prop_assert_eq!((views.stats().derived, views.stats().contributions), (0, 0));
    }
}

/// Lets all come that is due, however many calls that takes.
fn pass(views: &mut Views, now: u64) {
    while views.timeout().is_some_and(|due| due <= at(now)) {
        views.handle_timeout(at(now));
    }
}

/// Each output is a change.
fn follow(views: &mut Views, seen: &mut BTreeMap<Topic, Body>) {
    while let Some(output) = views.poll_output() {
        let before = match &output.body {
            Some(body) => seen.insert(output.topic, body.clone()),
            None => seen.remove(&output.topic),
        };
        assert_ne!(before, output.body);
    }
}

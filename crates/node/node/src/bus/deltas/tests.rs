//! What clients rebuild, beside the tree.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use tieline_core::{Now, Point, Timestamp, Topic, Update, Value};
use tieline_delta::{Decoded, Decoder};
use tieline_topics::{Limits, Tree};

#[derive(Clone, Debug)]
enum Step {
    /// Another value of a topic; a number, or a text that long.
    Set(usize, i64, usize),
    Clear(usize),
    /// A client is sent the present value, whole where `restart` is true.
    Tell(usize, usize, bool),
    /// An update of which a client is told with others.
    Share(usize, usize),
    /// Another client comes in the place of one.
    Replace(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_usize, any::<i64>(), 0..200_usize).prop_map(|(topic, value, more)| Step::Set(topic, value, more)),
        1 => (0..4_usize).prop_map(Step::Clear),
        4 => (0..5_usize, 0..4_usize, prop::bool::weighted(0.1)).prop_map(|(who, topic, restart)| Step::Tell(who, topic, restart)),
        4 => (0..5_usize, 0..4_usize).prop_map(|(who, topic)| Step::Share(who, topic)),
        1 => (0..5_usize).prop_map(Step::Replace),
    ]
}

/// A client as docs/delta.md has it: what it knows by alias and by name.
struct Client {
    follower: Follower,
    names: HashMap<u16, usize>,
    decoders: HashMap<usize, Decoder>,
}

impl Client {
    fn new(deltas: &mut Deltas, who: usize) -> Self {
        let offer = ["point,hunk", "hunk", "point"][who % 3];
        let (set, _) = deltas.agree(offer).unwrap();
        Self { follower: deltas.follow(set, who == 0, 17..=19), names: HashMap::new(), decoders: HashMap::new() }
    }

    fn hear(&mut self, topic: usize, payload: &Bytes, alias: Option<(u16, bool)>) -> Option<Body> {
        let topic = match alias {
            Some((alias, true)) => self.names[&alias],
            Some((alias, false)) => *self.names.entry(alias).insert_entry(topic).get(),
            None => topic,
        };
        let decoder = self.decoders.entry(topic).or_insert_with(|| Decoder::new(1 << 16));
        match decoder.apply(payload, &mut Codecs::built_in()).unwrap() {
            Decoded::Value(body) => Some(body),
            Decoded::Checked => decoder.value(),
            Decoded::Waiting => panic!("nothing was lost"),
        }
    }
}

fn name(topic: usize) -> Topic {
    Topic::new(&format!("t/{topic}")).unwrap()
}

fn body(value: i64, more: usize) -> Body {
    let point = Point { value: Value::Int(value), ..Point::default() };
    if more < 100 {
        return Body::Point(point);
    }
    if more < 130 {
        // As a client publishes it.
        return Body::read(point.to_json().into());
    }
    Body::Opaque(format!("{{\"value\":{value:020},\"text\":\"{}\"}}", "x".repeat(more)).into())
}

proptest! {
    /// Clients lag, connect and disconnect: what a client rebuilds is the tree's value.
    #[test]
    fn what_is_rebuilt_is_the_value(steps in prop::collection::vec(any_step(), 0..200)) {
        let (mut tree, mut deltas) = (Tree::new(Limits { idle_max: 1, ..Limits::default() }), Deltas::default());
        let mut clients: Vec<Client> = (0..5).map(|who| Client::new(&mut deltas, who)).collect();
        for step in steps {
            match step {
                Step::Set(topic, value, more) => {
                    let body = body(value, more);
                    let update = Update { topic: name(topic), body: body.clone() };
                    let applied = tree.apply(Now::default(), update, true).unwrap();
                    deltas.update(applied, tree.replaced(), &body);
                    if let Some(followed) = deltas.followed(applied).filter(|_| value % 3 == 0) {
                        followed.settle();
                    }
                }
                Step::Clear(topic) => {
                    let body = Body::Opaque(Bytes::new());
                    let update = Update { topic: name(topic), body: body.clone() };
                    let applied = tree.apply(Now::default(), update, true).unwrap();
                    deltas.update(applied, tree.replaced(), &body);
                }
                Step::Tell(who, topic, restart) => {
                    let Some(view) = tree.get(&name(topic)) else { continue };
                    let client = &mut clients[who];
                    let Next { payload, alias } = deltas.since(&mut client.follower, &view, restart);
                    let delivered = client.hear(topic, &payload, alias.map(|(alias, known)| (alias.get(), known)));
                    same(delivered, view.body)?;
                }
                Step::Share(who, topic) => {
                    let Some(view) = tree.get(&name(topic)) else { continue };
                    let client = &mut clients[who];
                    let applied = Applied { topic: view.id, version: view.version, change: Change::Stored, is_new: false };
                    let Some(followed) = deltas.followed(applied) else { continue };
                    let Some((shared_delta, place, alias)) = followed.shared_delta(&client.follower) else { continue };
                    let payload = followed.payload(shared_delta).unwrap();
                    followed.leapt(place);
                    same(client.hear(topic, &payload, Some((alias.get(), true))), view.body)?;
                }
                Step::Replace(who) => clients[who] = Client::new(&mut deltas, who),
            }
        }
        prop_assert!(deltas.topics() <= 4);
        for followed in deltas.topics.iter().flatten() {
            let late = followed.delivered.iter().filter(|delivered| is_late(delivered)).count();
            prop_assert_eq!(followed.live.as_ref().map_or(0, |live| live.late), late);
        }
    }
}

fn same(delivered: Option<Body>, value: &Body) -> Result<(), TestCaseError> {
    prop_assert_eq!(delivered.as_ref().map(Body::to_payload), Some(value.to_payload()));
    Ok(())
}

#[test]
fn a_points_json_is_told_by_field() {
    for (offer, ms, expect) in [("point,hunk", 1000, 2..=4), ("hunk", 1000, 5..=24)] {
        let (mut tree, mut deltas) = (Tree::new(Limits::default()), Deltas::default());
        let (set, _) = deltas.agree(offer).unwrap();
        let mut client = deltas.follow(set, false, 17..=20);
        let mut bytes = 0;
        for at in 0..4 {
            let (value, time) = (Value::Float(49.98 + f64::from(at)), Timestamp::from_millis(i64::from(at) * ms));
            let json = Point { value, time, ..Point::default() }.to_json();
            let body = Body::read(json.into());
            let applied = tree.apply(Now::default(), Update { topic: name(0), body: body.clone() }, true).unwrap();
            deltas.update(applied, tree.replaced(), &body);
            bytes = deltas.since(&mut client, &tree.get(&name(0)).unwrap(), false).payload.len();
        }
        assert!(expect.contains(&bytes), "{bytes} bytes for {offer}");
    }
}

#[test]
fn clients_that_have_gone_leave_no_more_than_those_that_are_here() {
    let (mut tree, mut deltas) = (Tree::new(Limits::default()), Deltas::default());
    tree.apply(Now::default(), Update { topic: name(0), body: body(1, 0) }, true).unwrap();
    let (set, _) = deltas.agree("point").unwrap();
    let mut stays = deltas.follow(set, false, 17..=20);
    let view = tree.get(&name(0)).unwrap();
    for _ in 0..1000 {
        let mut goes = deltas.follow(set, false, 17..=20);
        assert_eq!(
            deltas.since(&mut goes, &view, false).alias.map(|(alias, known)| (alias.get(), known)),
            Some((17, false))
        );
        deltas.since(&mut stays, &view, false);
    }
    let delivered: usize = deltas.topics.iter().flatten().map(|followed| followed.delivered.capacity()).sum();
    assert!(delivered <= 4, "{delivered} places for one client");
}

#[test]
fn numbers_that_come_again_are_nobody_elses() {
    let (mut tree, mut deltas) = (Tree::new(Limits::default()), Deltas::default());
    tree.apply(Now::default(), Update { topic: name(0), body: body(1, 0) }, true).unwrap();
    let (set, _) = deltas.agree("point").unwrap();
    let mut first = deltas.follow(set, false, 17..=20);
    let view = tree.get(&name(0)).unwrap();
    deltas.since(&mut first, &view, false);
    deltas.last_number = u32::MAX;
    let second = deltas.follow(set, false, 17..=20);
    assert!(second.number != first.number && deltas.topics() == 0);
    assert!(deltas.since(&mut first, &view, false).alias.is_some_and(|(_, known)| !known));
}

/// What one that reads late made the node keep is given back when it has read, and not with the next update.
#[test]
fn what_led_to_a_value_is_kept_until_the_last_was_told() {
    let (mut tree, mut deltas) = (Tree::new(Limits::default()), Deltas::default());
    let (set, _) = deltas.agree("hunk").unwrap();
    let [mut prompt, mut late] = [(); 2].map(|()| deltas.follow(set, false, 17..=20));
    for value in 0..3 {
        let body = body(value, 150);
        let applied = tree.apply(Now::default(), Update { topic: name(0), body: body.clone() }, true).unwrap();
        deltas.update(applied, tree.replaced(), &body);
        let view = tree.get(&name(0)).unwrap();
        deltas.since(&mut prompt, &view, false);
        if value == 0 {
            deltas.since(&mut late, &view, false);
        }
    }
    let kept = |deltas: &Deltas| deltas.topics.iter().flatten().filter(|followed| followed.live.is_some()).count();
    assert_eq!(kept(&deltas), 1);
    let view = tree.get(&name(0)).unwrap();
    assert!(deltas.since(&mut late, &view, false).payload.len() < 100, "as what changed");
    assert_eq!(kept(&deltas), 0);
}

/// A version that does not go on from the one before is told with the topic's name, and with the delta all the same.
#[test]
fn who_counts_versions_is_told_of_a_leap_by_name() {
    for counts in [false, true] {
        let (mut tree, mut deltas) = (Tree::new(Limits::default()), Deltas::default());
        let (set, _) = deltas.agree("point").unwrap();
        let mut client = deltas.follow(set, counts, 17..=20);
        let mut known = Vec::new();
        for (at, leaps) in [false, false, true, false].into_iter().enumerate() {
            let body = body(i64::try_from(at).unwrap(), 0);
            let applied = tree.apply(Now::default(), Update { topic: name(0), body: body.clone() }, true).unwrap();
            deltas.update(applied, tree.replaced(), &body);
            if leaps {
                deltas.leap(applied.topic);
            }
            let is_shared = deltas.followed(applied).is_some_and(|followed| followed.shared_delta(&client).is_some());
            let next = deltas.since(&mut client, &tree.get(&name(0)).unwrap(), false);
            assert_eq!(is_shared, next.alias.unwrap().1, "{at}");
            known.push((next.alias.unwrap().1, next.payload[0] >> 5 == 2));
        }
        assert_eq!(known, [(false, false), (true, true), (!counts, true), (true, true)]);
    }
}

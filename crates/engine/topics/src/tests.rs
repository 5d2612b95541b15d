//! What MQTT says of subscriptions and last values, and what the limits do.

extern crate std;
use crate::*;
use bytes::Bytes;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use tieline_core::{Body, Filter, Now, Topic, Update};

fn update(topic: &str, payload: &str) -> Update {
    let body = Body::Opaque(Bytes::copy_from_slice(payload.as_bytes()));
    Update { topic: Topic::new(topic).unwrap(), body }
}

fn store(tree: &mut Tree, topic: &str, payload: &str) -> Result<Applied, TreeError> {
    tree.apply(Now::default(), update(topic, payload), true)
}

fn subscribe(tree: &mut Tree, who: u32, filter: &str, options: Options) -> Result<Subscribed, TreeError> {
    tree.subscribe(SubscriberId(who), &Filter::new(filter).unwrap(), options)
}

fn audience(tree: &mut Tree, topic: &str, from: Option<u32>) -> String {
    let applied = tree.apply(Now::default(), update(topic, "x"), false).unwrap();
    let mut out = Vec::new();
    tree.matches(applied.topic).for_each(from.map(SubscriberId), |m| {
        let kept = if m.retain_as_published { "r" } else { "" };
        out.push(format!("{}:q{}{kept}{:?}", m.subscriber.0, m.qos, m.ids));
    });
    out.join(" ")
}

fn tree() -> Tree {
    Tree::new(Limits::default())
}

#[test]
fn overlapping_subscriptions_make_one_delivery() {
    let mut tree = tree();
    let with = |qos, id| Options { qos, subscription_id: id, ..Options::default() };
    subscribe(&mut tree, 7, "a/b", with(0, Some(3))).unwrap();
    subscribe(&mut tree, 7, "a/+", with(2, Some(1))).unwrap();
    subscribe(&mut tree, 7, "#", with(1, None)).unwrap();
    subscribe(&mut tree, 5, "a/#", with(1, Some(9))).unwrap();
    assert_eq!(audience(&mut tree, "a/b", None), "5:q1[9] 7:q2[1, 3]");
    assert_eq!(audience(&mut tree, "a", None), "5:q1[9] 7:q1[]");
    assert_eq!(audience(&mut tree, "$SYS/a", None), "");
    assert_eq!(tree.drop_subscriber(SubscriberId(7)), 3);
    assert_eq!(audience(&mut tree, "a/b", None), "5:q1[9]");
}

#[test]
fn no_local_hides_only_its_own_subscription() {
    let mut tree = tree();
    let own = Options { no_local: true, retain_as_published: true, ..Options::default() };
    subscribe(&mut tree, 1, "a", own).unwrap();
    assert_eq!(audience(&mut tree, "a", Some(1)), "");
    assert_eq!(audience(&mut tree, "a", Some(2)), "1:q0r[]");
    subscribe(&mut tree, 1, "+", Options { qos: 1, ..Options::default() }).unwrap();
    assert_eq!(audience(&mut tree, "a", Some(1)), "1:q1[]");
}

#[test]
fn a_subscription_says_whether_last_values_are_due() {
    let mut tree = tree();
    let mut check = |handling, expect: [bool; 2]| {
        let options = Options { retain_handling: handling, ..Options::default() };
        tree.unsubscribe(SubscriberId(1), &Filter::new("a/+").unwrap());
        let due = [(); 2].map(|()| subscribe(&mut tree, 1, "a/+", options).unwrap());
        assert_eq!(due.map(|s| s.snapshot), expect, "{handling:?}");
        assert_eq!(due.map(|s| s.is_new), [true, false]);
    };
    check(RetainHandling::Send, [true, true]);
    check(RetainHandling::SendIfNew, [true, false]);
    check(RetainHandling::Skip, [false, false]);
}

#[test]
fn a_value_is_kept_passed_and_cleared() {
    let mut tree = tree();
    let mut check = |payload, retain, expect: (Change, u64, Option<&str>)| {
        let applied = tree.apply(Now::default(), update("a", payload), retain).unwrap();
        let held = tree.get("a").map(|view| String::from_utf8(view.body.to_payload().to_vec()).unwrap());
        assert_eq!((applied.change, applied.version, held.as_deref()), expect);
    };
    check("1", false, (Change::Passed, 0, None));
    check("1", true, (Change::Stored, 1, Some("1")));
    check("2", false, (Change::Passed, 1, Some("1")));
    check("", false, (Change::Passed, 1, Some("1")));
    check("3", true, (Change::Stored, 2, Some("3")));
    check("", true, (Change::Cleared, 3, None));
    check("", true, (Change::Passed, 3, None));
    check("4", true, (Change::Stored, 4, Some("4")));
}

#[test]
fn a_version_does_not_fall_when_its_topic_was_forgotten() {
    let mut tree = Tree::new(Limits { idle_max: 1, ..Limits::default() });
    for version in 1..=5 {
        assert_eq!(store(&mut tree, "a", "x").unwrap().version, version);
    }
    store(&mut tree, "a", "").unwrap();
    audience(&mut tree, "b", None);
    audience(&mut tree, "c", None);
    assert_eq!(tree.find("a"), None);
    assert_eq!(store(&mut tree, "a", "x").unwrap().version, 7);
    assert_eq!(tree.stats().idle_forgotten, 2);
}

#[test]
fn limits_refuse_and_change_nothing() {
    let limits = Limits {
        topics_max: 2,
        payload_bytes_max: 4,
        bytes_max: 5_000,
        subscriptions_max: 3,
        subscriber_subscriptions_max: 2,
        ..Limits::default()
    };
    let mut tree = Tree::new(limits);
    assert_eq!(store(&mut tree, "a", "12345"), Err(TreeError::PayloadTooLong { found: 5, max: 4 }));
    store(&mut tree, "a", "1").unwrap();
    store(&mut tree, "b/c", "1").unwrap();
    assert_eq!(store(&mut tree, "d", "1"), Err(TreeError::TopicsFull { max: 2 }));
    store(&mut tree, "a", "2").unwrap();
    let plain = Options::default();
    subscribe(&mut tree, 1, "a", plain).unwrap();
    subscribe(&mut tree, 1, "+", plain).unwrap();
    assert_eq!(subscribe(&mut tree, 1, "#", plain), Err(TreeError::SubscriberFull { max: 2 }));
    assert!(!subscribe(&mut tree, 1, "+", plain).unwrap().is_new);
    assert_eq!(subscribe(&mut tree, 2, &"x".repeat(5_000), plain), Err(TreeError::BytesFull { max: 5_000 }));
    subscribe(&mut tree, 2, "#", plain).unwrap();
    assert_eq!(subscribe(&mut tree, 3, "#", plain), Err(TreeError::SubscriptionsFull { max: 3 }));
    assert_eq!(tree.stats().refused, 5);
    assert_eq!(audience(&mut tree, "a", None), "1:q0[] 2:q0[]");
    // Whatever passes through is forgotten before the tree is full.
    for topic in 0..200 {
        audience(&mut tree, &format!("through/{topic}"), None);
        assert!(tree.stats().bytes <= 5_000);
    }
}

#[test]
fn all_bytes_come_back() {
    let mut tree = Tree::new(Limits { idle_max: 1, ..Limits::default() });
    for topic in ["a", "a/b", "a/b/c", "/", "//"] {
        store(&mut tree, topic, "payload").unwrap();
    }
    subscribe(&mut tree, 1, "a/+/#", Options::default()).unwrap();
    subscribe(&mut tree, 1, "x/y", Options::default()).unwrap();
    tree.drop_subscriber(SubscriberId(1));
    for topic in ["a", "a/b", "a/b/c", "/", "//"] {
        store(&mut tree, topic, "").unwrap();
    }
    audience(&mut tree, "z", None);
    let Stats { bytes, topics, subscriptions, valueless, wildcard_filters, .. } = tree.stats();
    assert_eq!((bytes, topics, subscriptions, valueless, wildcard_filters), (161, 0, 0, 1, 0));
}

#[test]
fn children_stand_in_tree_order() {
    let mut tree = tree();
    for topic in ["a-b", "a", "a/x/1", "a/x/2", "a/y", "a/", "b/c", "/r", "$SYS/n"] {
        store(&mut tree, topic, "v").unwrap();
    }
    let check = |branch: Option<&str>, after: Option<&str>, limit, expect: &str| {
        let page = tree.children(branch, after, limit);
        let show = |c: &Child| format!("{}{}{}", c.name, if c.has_value { "*" } else { "" }, c.below);
        let mut text = page.items.iter().map(show).collect::<Vec<_>>().join(" ");
        if let Some(after) = page.after {
            text += &format!(" > {after}");
        }
        assert_eq!(text, expect, "{branch:?}");
    };
    check(None, None, 10, "1 $SYS1 a*4 a-b*0 b1");
    check(None, Some("$SYS"), 2, "a*4 a-b*0 > a-b");
    check(None, Some("a-b"), 2, "b1");
    check(Some("a"), None, 10, "*0 x2 y*0");
    check(Some("a/x"), None, 1, "1*0 > 1");
    check(Some(""), None, 10, "r*0");
    check(Some("none"), None, 10, "");
}

#[test]
fn a_walk_sees_what_stays_once_while_the_tree_changes() {
    let mut tree = tree();
    let name = |i: usize| format!("s/{}/v{}", i % 7, i);
    for i in 0..100 {
        store(&mut tree, &name(i), "v").unwrap();
    }
    let mut walk = Snapshot::new(Filter::new("s/#").unwrap());
    let (mut seen, mut turn) = (vec![0; 100], 0);
    while !walk.is_done() {
        let page: Vec<String> = tree.next(&mut walk, 3).iter().map(|view| view.topic.to_string()).collect();
        for topic in page {
            let number: usize = topic.rsplit_once('v').unwrap().1.parse().unwrap();
            seen[number] += 1;
        }
        // Odd topics come and go, even ones stay.
        let odd = (turn * 14 + 1) % 100;
        store(&mut tree, &name(odd), if turn % 2 == 0 { "" } else { "back" }).unwrap();
        turn += 1;
    }
    assert!(seen.iter().enumerate().all(|(i, count)| *count == 1 || i % 2 == 1 && *count == 0), "{seen:?}");
}

#[test]
fn a_filter_that_others_hold_invalidates_nothing() {
    let mut tree = tree();
    subscribe(&mut tree, 1, "a/+", Options::default()).unwrap();
    audience(&mut tree, "a/b", None);
    let before = tree.stats().sets_computed;
    subscribe(&mut tree, 2, "a/+", Options::default()).unwrap();
    tree.drop_subscriber(SubscriberId(1));
    assert_eq!(audience(&mut tree, "a/b", None), "2:q0[]");
    assert_eq!(tree.stats().sets_computed, before);
}

#[test]
fn filters_are_told_with_their_first_and_last_subscriber() {
    let mut tree = tree();
    subscribe(&mut tree, 9, "before", Options::default()).unwrap();
    tree.tell_filters();
    let mut check = |who: u32, does: &str, expect: &str| {
        let id = SubscriberId(who);
        let (sign, text) = does.split_at(1);
        let filter = Filter::new(text.trim_end_matches('~')).unwrap();
        let selector = text.ends_with('~').then(|| Selector::new("x").unwrap());
        match sign {
            "+" => drop(tree.subscribe_narrowed(id, &filter, selector.as_ref(), Options::default()).unwrap()),
            "-" => drop(tree.unsubscribe(id, &filter)),
            _ => drop(tree.drop_subscriber(id)),
        }
        let told = tree.take_told();
        let told: Vec<_> =
            told.iter().map(|(filter, first)| format!("{}{filter}", if *first { "+" } else { "-" })).collect();
        assert_eq!(told.join(" "), expect, "{who} {does}");
    };
    check(1, "+a/b", "+a/b");
    check(1, "+a/b", "");
    check(2, "+a/b", "");
    check(1, "+a/+", "+a/+");
    check(2, "+a/+~", "");
    check(1, "-a/+", "");
    check(2, "-a/+", "-a/+");
    check(1, "-a/b", "");
    check(2, "+b/#", "+b/#");
    check(2, "!all", "-a/b -b/#");
    check(9, "-before", "-before");
}

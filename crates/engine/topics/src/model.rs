//! The tree against a naive model: a sorted map of values and a list of subscriptions.

extern crate std;
use crate::*;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::{Body, Filter, Now, Topic, Update};

#[derive(Clone, Debug)]
enum Step {
    Subscribe(u32, Filter, Options),
    Unsubscribe(u32, Filter),
    Drop(u32),
    Apply(Topic, u8, bool),
}

#[derive(Default)]
struct Model {
    values: BTreeMap<Vec<String>, (Topic, u8)>,
    subscriptions: BTreeMap<(u32, Filter), Options>,
}

type Delivery = (u32, u8, bool, Vec<u32>);

impl Model {
    fn audience(&self, topic: &Topic, from: u32) -> Vec<Delivery> {
        let mut out: BTreeMap<u32, (u8, bool, BTreeSet<u32>)> = BTreeMap::new();
        for ((who, filter), options) in &self.subscriptions {
            if filter.matches(topic) && !(options.no_local && *who == from) {
                let (qos, kept, ids) = out.entry(*who).or_default();
                *qos = options.qos.max(*qos);
                *kept |= options.retain_as_published;
                ids.extend(options.subscription_id);
            }
        }
        out.into_iter().map(|(who, (qos, kept, ids))| (who, qos, kept, ids.into_iter().collect())).collect()
    }

    fn list(&self, filter: &Filter) -> Vec<(String, u8)> {
        let selected = self.values.values().filter(|(topic, _)| filter.matches(topic));
        selected.map(|(topic, value)| (topic.as_str().to_owned(), *value)).collect()
    }

    fn children(&self, branch: Option<&str>) -> Vec<Child> {
        let stem: Vec<String> = branch.map(|b| b.split('/').map(str::to_owned).collect()).unwrap_or_default();
        let mut out: BTreeMap<String, Child> = BTreeMap::new();
        for levels in self.values.keys().filter(|levels| levels.len() > stem.len() && levels.starts_with(&stem)) {
            let name = levels[stem.len()].clone();
            let child = out.entry(name.clone()).or_insert(Child { name, has_value: false, below: 0 });
            if levels.len() == stem.len() + 1 {
                child.has_value = true;
            } else {
                child.below += 1;
            }
        }
        out.into_values().collect()
    }
}

fn levels(topic: &Topic) -> Vec<String> {
    topic.levels().map(str::to_owned).collect()
}

fn body(value: u8) -> Body {
    Body::Opaque(if value == 0 { Bytes::new() } else { Bytes::copy_from_slice(&[value]) })
}

fn value(view: &View<'_>) -> (String, u8) {
    let Body::Opaque(octets) = view.body else { panic!("only opaque bodies go in") };
    (view.topic.as_str().to_owned(), octets[0])
}

fn any_topic() -> impl Strategy<Value = Topic> {
    "(a|b|\\$S|a-b|)(/(a|b|a-b|)){0,3}".prop_filter_map("empty", |text| Topic::new(&text).ok())
}

fn any_filter() -> impl Strategy<Value = Filter> {
    "((a|b|\\$S|a-b|\\+|)(/(a|b|a-b|\\+|)){0,3}(/#)?|#)".prop_filter_map("empty", |text| Filter::new(&text).ok())
}

fn any_options() -> impl Strategy<Value = Options> {
    (0u8..3, any::<bool>(), any::<bool>(), proptest::option::of(1u32..5)).prop_map(
        |(qos, no_local, retain_as_published, subscription_id)| Options {
            qos,
            no_local,
            retain_as_published,
            retain_handling: RetainHandling::Send,
            subscription_id,
            wish: Wish::default(),
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..6, any_filter(), any_options()).prop_map(|(who, filter, options)| Step::Subscribe(who, filter, options)),
        2 => (0u32..6, any_filter()).prop_map(|(who, filter)| Step::Unsubscribe(who, filter)),
        1 => (0u32..6).prop_map(Step::Drop),
        8 => (any_topic(), 0u8..4, any::<bool>()).prop_map(|(topic, value, retain)| Step::Apply(topic, value, retain)),
    ]
}

fn apply(tree: &mut Tree, model: &mut Model, topic: &Topic, value: u8, retain: bool) {
    let update = Update { topic: topic.clone(), body: body(value) };
    let before = tree.get(topic).map(|view| view.version);
    let applied = tree.apply(Now::default(), update, retain).unwrap();
    if retain && value == 0 {
        model.values.remove(&levels(topic));
    } else if retain {
        model.values.insert(levels(topic), (topic.clone(), value));
    }
    if let Some(before) = before {
        assert_eq!(applied.version, before + u64::from(retain));
    }
    let mut found: Vec<Delivery> = Vec::new();
    let audience = tree.matches(applied.topic);
    let is_empty = audience.is_empty();
    audience.for_each(Some(SubscriberId(0)), |m| {
        found.push((m.subscriber.0, m.qos, m.retain_as_published, m.ids.to_vec()));
    });
    assert_eq!(found, model.audience(topic, 0), "{topic}");
    for who in 1..6 {
        let one = tree.match_of(applied.topic, SubscriberId(who), |m| (m.qos, m.retain_as_published, m.ids.to_vec()));
        let among = found.iter().find(|delivery| delivery.0 == who).cloned();
        assert_eq!(one, among.map(|(_, qos, kept, ids)| (qos, kept, ids)));
    }
    assert!(!is_empty || found.is_empty());
}

fn check_pages(tree: &Tree, model: &Model, filter: &Filter, page: usize) {
    let (mut walk, mut found) = (Snapshot::new(filter.clone()), Vec::new());
    while !walk.is_done() {
        found.extend(tree.next(&mut walk, page).iter().map(value));
    }
    assert_eq!(found, model.list(filter), "{filter}");
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = tree.list(filter, after.as_ref(), page);
        found.extend(page.items.iter().map(value));
        let Some(next) = page.after else { break };
        after = Some(Topic::new(&next).unwrap());
    }
    assert_eq!(found, model.list(filter), "{filter}");
}

fn check_children(tree: &Tree, model: &Model, branch: Option<&str>, limit: usize) {
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = tree.children(branch, after.as_deref(), limit);
        found.extend(page.items);
        let Some(next) = page.after else { break };
        after = Some(next);
    }
    assert_eq!(found, model.children(branch), "{branch:?}");
}

proptest! {
    #[test]
    fn the_tree_does_what_the_model_does(
        steps in proptest::collection::vec(any_step(), 0..60),
        filters in proptest::collection::vec(any_filter(), 4),
        branch in any_topic(),
        idle_max in 1usize..5,
        page in 1usize..4,
        set_octets_max in prop_oneof![Just(64usize), Just(1 << 20)],
    ) {
        let mut tree = Tree::new(Limits { idle_max, set_octets_max, ..Limits::default() });
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Subscribe(who, filter, options) => {
                    let is_new = model.subscriptions.insert((who, filter.clone()), options).is_none();
                    let subscribed = tree.subscribe(SubscriberId(who), &filter, options).unwrap();
                    prop_assert_eq!(subscribed.is_new, is_new);
                }
                Step::Unsubscribe(who, filter) => {
                    let was = model.subscriptions.remove(&(who, filter.clone())).is_some();
                    prop_assert_eq!(tree.unsubscribe(SubscriberId(who), &filter), was);
                }
                Step::Drop(who) => {
                    let held = model.subscriptions.len();
                    model.subscriptions.retain(|(other, _), _| *other != who);
                    prop_assert_eq!(tree.drop_subscriber(SubscriberId(who)), held - model.subscriptions.len());
                }
                Step::Apply(topic, value, retain) => apply(&mut tree, &mut model, &topic, value, retain),
            }
            prop_assert_eq!(tree.stats().subscriptions, model.subscriptions.len());
            prop_assert_eq!(tree.stats().topics, model.values.len());
        }
        for filter in &filters {
            check_pages(&tree, &model, filter, page);
        }
        check_children(&tree, &model, Some(&branch), page);
        check_children(&tree, &model, None, page);
        for who in 0..6 {
            tree.drop_subscriber(SubscriberId(who));
        }
        prop_assert_eq!((tree.stats().wildcard_filters, tree.stats().wildcard_levels), (0, 0));
        prop_assert!(tree.stats().valueless <= idle_max);
    }
}

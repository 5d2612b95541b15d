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
    Subscribe(u32, Filter, Option<&'static str>, Options),
    Unsubscribe(u32, Filter),
    Drop(u32),
    Apply(Topic, u8, bool),
}

#[derive(Default)]
struct Model {
    values: BTreeMap<Vec<String>, (Topic, u8)>,
    subscriptions: BTreeMap<(u32, Filter), (Option<&'static str>, Options)>,
}

type Delivery = (u32, u8, bool, Vec<u32>);

impl Model {
    fn audience(&self, topic: &Topic, from: u32) -> Vec<Delivery> {
        let mut out: BTreeMap<u32, (u8, bool, BTreeSet<u32>)> = BTreeMap::new();
        for ((who, filter), (select, options)) in &self.subscriptions {
            let selects = select.is_none_or(|select| Selector::new(select).unwrap().matches(topic));
            if filter.matches(topic) && selects && !(options.no_local && *who == from) {
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
    let Body::Opaque(bytes) = view.body else { panic!("only opaque bodies go in") };
    (view.topic.as_str().to_owned(), bytes[0])
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
            delivery_options: DeliveryOptions::default(),
        },
    )
}

/// Mostly none.
fn any_select() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![4 => Just(None), 1 => Just(Some("a$")), 1 => Just(Some("^a/b")), 1 => Just(Some("-|S"))]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..6, any_filter(), any_select(), any_options())
            .prop_map(|(who, filter, select, options)| Step::Subscribe(who, filter, select, options)),
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

fn any_fetch() -> impl Strategy<Value = Fetch> {
    let selectors = ["a", "^a", "b$", "a-b|S", "(a/){2}"].map(Some).into_iter().chain([None]).collect::<Vec<_>>();
    let place = || proptest::option::of(any_topic());
    let select = proptest::sample::select(selectors);
    let sizes = (proptest::option::of(1usize..4), 1usize..5, prop_oneof![Just(usize::MAX), 1usize..40]);
    (any_filter(), select, sizes, place(), place(), any::<bool>(), any::<bool>()).prop_map(
        |(filter, select, (depth, limit, bytes_max), after, before, from_end, values)| {
            let select = select.map(|text| Selector::new(text).unwrap());
            Fetch { filter, select, depth, after, before, from_end, limit, bytes_max, values }
        },
    )
}

/// All pages of what is asked for are what the model says, whatever their size.
fn check_fetch(tree: &Tree, model: &Model, fetch: &Fetch) {
    let may = |topic: &Topic| !topic.len().is_multiple_of(3);
    let literal = fetch.filter.split('/').take_while(|level| !["+", "#"].contains(level)).count();
    let depth = fetch.depth.map_or(usize::MAX, |depth| literal + depth);
    let place = |topic: &Option<Topic>| topic.as_ref().map(levels);
    let (after, before) = (place(&fetch.after), place(&fetch.before));
    let wanted = model.values.iter().filter(|(levels, (topic, _))| {
        fetch.filter.matches(topic)
            && fetch.select.as_ref().is_none_or(|select| select.matches(topic))
            && levels.len() <= depth
            && after.as_ref().is_none_or(|after| *levels > after)
            && before.as_ref().is_none_or(|before| *levels < before)
            && may(topic)
    });
    let expect: Vec<_> = wanted.map(|(_, (topic, value))| (topic.as_str().to_owned(), *value)).collect();
    let asked_for = model.values.values().filter(|(topic, _)| fetch.asks_for(topic) && may(topic));
    assert!(
        asked_for.map(|(topic, value)| (topic.as_str().to_owned(), *value)).eq(expect.iter().cloned()),
        "{fetch:?}"
    );
    let (mut fetch, mut found) = (fetch.clone(), Vec::new());
    loop {
        let page = tree.fetch(&fetch, may);
        assert!(page.items.len() <= fetch.limit);
        let bytes: usize = page.items.iter().map(|view| view.topic.len() + usize::from(fetch.values)).sum();
        assert!(page.items.len() <= 1 || bytes <= fetch.bytes_max);
        let items: Vec<_> = page.items.iter().map(value).collect();
        check_pieces(tree, &fetch, &items, page.after.as_deref(), may);
        let at = if fetch.from_end { 0 } else { found.len() };
        found.splice(at..at, items);
        let Some(next) = page.after else { break };
        let next = Some(Topic::new(&next).unwrap());
        if fetch.from_end { fetch.before = next } else { fetch.after = next }
    }
    assert_eq!(found, expect, "{fetch:?}");
}

/// A page that is made piece by piece is the page that is made at once.
fn check_pieces(
    tree: &Tree,
    fetch: &Fetch,
    items: &[(String, u8)],
    next: Option<&str>,
    may: impl Fn(&Topic) -> bool + Copy,
) {
    let (mut growth, mut found) = (Growth::default(), Vec::new());
    while !growth.is_done() {
        let piece = tree.grow(fetch, &mut growth, (2, 5), may);
        assert!(piece.len() <= 2);
        found.extend(piece.iter().map(value));
    }
    if fetch.from_end {
        found.reverse();
    }
    assert_eq!((&*found, growth.next_page().map(|topic| topic.as_str())), (items, next), "{fetch:?}");
}

fn check_condition(tree: &Tree, model: &Model, topic: &Topic, byte: u8) {
    let held = model.values.get(&levels(topic)).map(|(_, value)| *value);
    let meets = |condition: &Condition| tree.check(topic, condition).is_ok();
    assert_eq!(meets(&Condition::Absent), held.is_none());
    assert_eq!(meets(&Condition::Present), held.is_some());
    assert_eq!(meets(&Condition::Value(Bytes::copy_from_slice(&[byte]))), held == Some(byte));
    let version = tree.get(topic).map_or(u64::from(byte), |view| view.version);
    assert_eq!(meets(&Condition::Version(version)), held.is_some());
    assert!(!meets(&Condition::Version(version + 1)));
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
        fetches in proptest::collection::vec(any_fetch(), 8),
        branch in any_topic(),
        idle_max in 1usize..5,
        page in 1usize..4,
        set_bytes_max in prop_oneof![Just(64usize), Just(1 << 20)],
    ) {
        let mut tree = Tree::new(Limits { idle_max, set_bytes_max, ..Limits::default() });
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Subscribe(who, filter, select, options) => {
                    let is_new = model.subscriptions.insert((who, filter.clone()), (select, options)).is_none();
                    let select = select.map(|select| Selector::new(select).unwrap());
                    let subscribed =
                        tree.subscribe_narrowed(SubscriberId(who), &filter, select.as_ref(), options).unwrap();
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
        for fetch in &fetches {
            check_fetch(&tree, &model, fetch);
        }
        check_condition(&tree, &model, &branch, 1);
        check_children(&tree, &model, Some(&branch), page);
        check_children(&tree, &model, None, page);
        for who in 0..6 {
            tree.drop_subscriber(SubscriberId(who));
        }
        prop_assert_eq!((tree.stats().wildcard_filters, tree.stats().wildcard_levels), (0, 0));
        prop_assert!(tree.stats().valueless <= idle_max);
    }
}

mod model;

use crate::{
    Aggregate, Condition, Limits, Operation, Output, Pick, Pointer, SelectError, Template, TemplateError, View,
    ViewError, Views, meets,
};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use tieline_core::{Body, Filter, Instant, Point, Topic};

pub(crate) fn view(name: &str, from: &str, to: &str) -> View {
    let from = Filter::new(from).unwrap();
    View {
        name: name.into(),
        to: Template::new(to, &from, true).unwrap(),
        from,
        expand: None,
        when: None,
        pick: Vec::new(),
        aggregate: None,
        delay: Duration::ZERO,
        throttle: Duration::ZERO,
    }
}

fn aggregate(name: &str, from: &str, to: &str, operation: Operation) -> View {
    let of = Pointer::new("/v").unwrap();
    View { aggregate: Some(Aggregate { operation, of }), ..view(name, from, to) }
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

pub(crate) fn body(text: &str) -> Body {
    Body::read(Bytes::from(text.to_owned()))
}

fn shown(output: Output) -> String {
    match output.body {
        Some(Body::Point(point)) => alloc::format!("{} = point {}", output.topic, point.to_json()),
        Some(body) => alloc::format!("{} = {}", output.topic, core::str::from_utf8(&body.to_payload()).unwrap()),
        None => alloc::format!("{} gone", output.topic),
    }
}

fn drain(views: &mut Views) -> Vec<String> {
    core::iter::from_fn(|| views.poll_output()).map(shown).collect()
}

/// Updates as `topic = text`, removals as `topic gone`; what comes of each at once.
fn check(views: Vec<View>, updates: &[(&str, &[&str])]) {
    let mut views = Views::new(views, Limits::default()).unwrap();
    for (update, expect) in updates {
        match update.split_once(" = ") {
            Some((topic, text)) => views.handle_update(at(0), &Topic::new(topic).unwrap(), Some(&body(text))),
            None => views.handle_update(at(0), &Topic::new(update.strip_suffix(" gone").unwrap()).unwrap(), None),
        }
        assert_eq!(drain(&mut views), *expect, "{update}");
    }
}

#[test]
fn topics_are_renamed_and_subtrees_moved() {
    check(
        [view("v", "site/+/relay/#", "by-relay/{2}/of/{1}")].into(),
        &[
            ("site/a/relay/r1/volts = 5", &["by-relay/r1/volts/of/a = 5"]),
            ("site/a/relay/r1/volts = 5", &[]),
            ("site/a/relay/r1/volts = no JSON", &["by-relay/r1/volts/of/a = no JSON"]),
            ("site/a/meter/r1 = 5", &[]),
            ("site/a/relay/r1/volts gone", &["by-relay/r1/volts/of/a gone"]),
        ],
    );
    check([view("v", "a/#", "copy/{topic}")].into(), &[("a/b = 1", &["copy/a/b = 1"]), ("a = 2", &["copy/a = 2"])]);
    let mut views = Views::new([view("v", "a", "b")].into(), Limits::default()).unwrap();
    views.handle_update(at(0), &Topic::new("a").unwrap(), Some(&Body::Point(Point::default())));
    assert!(drain(&mut views)[0].starts_with("b = point {"), "a point stays one");
}

#[test]
fn arrays_and_objects_are_taken_apart() {
    let expand = |place: &str| Some(Pointer::new(place).unwrap());
    check(
        [View { expand: expand("/items"), ..view("v", "list", "item/{key}/{/name}") }].into(),
        &[
            (
                "list = {\"items\":[{\"name\":\"x\"},{\"name\":\"y\"}]}",
                &["item/0/x = {\"name\":\"x\"}", "item/1/y = {\"name\":\"y\"}"],
            ),
            (
                "list = {\"items\":[{\"name\":\"x\"},{\"name\":\"z\"}]}",
                &["item/1/y gone", "item/1/z = {\"name\":\"z\"}"],
            ),
            (
                "list = {\"items\":{\"k\":{\"name\":\"x\"}}}",
                &["item/0/x gone", "item/1/z gone", "item/k/x = {\"name\":\"x\"}"],
            ),
            ("list = {\"items\":[{\"name\":\"a/b\"},{\"name\":null},5]}", &["item/k/x gone"]),
            ("list gone", &[]),
        ],
    );
}

#[test]
fn fields_are_picked_and_inserted_and_the_quality_goes_with_them() {
    let place = |text: &str| Pick::Place(Pointer::new(text).unwrap());
    let pick = Vec::from([
        ("name".into(), place("/meta/name")),
        ("unit".into(), Pick::Fixed("A".into())),
        ("v".into(), place("/v")),
    ]);
    check(
        [View { pick, when: Some(Condition::new("/v > 5").unwrap()), ..view("v", "in", "out") }].into(),
        &[
            ("in = {\"v\":6,\"meta\":{\"name\":\"x\"}}", &["out = {\"name\":\"x\",\"unit\":\"A\",\"v\":6}"]),
            (
                "in = {\"v\":7,\"q\":\"bad\",\"why\":[\"stale\"],\"t\":1}",
                &["out = {\"q\":\"bad\",\"t\":1,\"unit\":\"A\",\"v\":7,\"why\":[\"stale\"]}"],
            ),
            ("in = {\"v\":5}", &["out gone"]),
            ("in = nonsense", &[]),
        ],
    );
}

#[test]
fn numbers_are_aggregated_as_topics_come_and_go() {
    check(
        [
            aggregate("mean", "f/+/amps", "all/mean", Operation::Mean),
            aggregate("max", "f/+/amps", "all/max", Operation::Max),
        ]
        .into(),
        &[
            (
                "f/1/amps = {\"v\":1,\"q\":\"good\"}",
                &["all/max = {\"n\":1,\"q\":\"good\",\"v\":1.0}", "all/mean = {\"n\":1,\"q\":\"good\",\"v\":1.0}"],
            ),
            (
                "f/2/amps = {\"v\":4,\"q\":\"bad\"}",
                &["all/max = {\"n\":2,\"q\":\"bad\",\"v\":4.0}", "all/mean = {\"n\":2,\"q\":\"bad\",\"v\":2.5}"],
            ),
            ("f/3/amps = {\"v\":\"text\"}", &[]),
            (
                "f/2/amps gone",
                &["all/max = {\"n\":1,\"q\":\"good\",\"v\":1.0}", "all/mean = {\"n\":1,\"q\":\"good\",\"v\":1.0}"],
            ),
            ("f/1/amps gone", &["all/max gone", "all/mean gone"]),
        ],
    );
    for (operation, expect) in [(Operation::Count, "2.0"), (Operation::Sum, "8.0"), (Operation::Min, "3.0")] {
        let mut views = Views::new([aggregate("a", "f/+", "all", operation)].into(), Limits::default()).unwrap();
        for (topic, text) in [("f/1", "{\"v\":3}"), ("f/2", "{\"v\":5}")] {
            views.handle_update(at(0), &Topic::new(topic).unwrap(), Some(&body(text)));
        }
        let expect = alloc::format!("all = {{\"n\":2,\"q\":\"good\",\"v\":{expect}}}");
        assert_eq!(drain(&mut views).pop().unwrap(), expect);
    }
}

#[test]
fn views_take_what_views_derive() {
    check(
        [view("c", "c", "d"), view("b", "b", "c"), aggregate("a", "a/+", "b", Operation::Sum)].into(),
        &[
            (
                "a/1 = {\"v\":1}",
                &[
                    "b = {\"n\":1,\"q\":\"good\",\"v\":1.0}",
                    "c = {\"n\":1,\"q\":\"good\",\"v\":1.0}",
                    "d = {\"n\":1,\"q\":\"good\",\"v\":1.0}",
                ],
            ),
            ("a/1 gone", &["b gone", "c gone", "d gone"]),
        ],
    );
}

#[test]
fn views_that_feed_themselves_are_refused() {
    let check = |views: Vec<View>, expect: Option<&str>| {
        let found = Views::new(views, Limits::default()).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), expect);
    };
    check([view("a", "a/+", "b/{1}")].into(), None);
    check([view("a", "a/#", "a/{1}/x")].into(), Some("views feed themselves: a → a"));
    check([view("a", "#", "b")].into(), Some("views feed themselves: a → a"));
    check(
        [view("a", "a/+", "b/{1}"), view("b", "b/+", "c/{1}"), view("c", "c/x", "a/y")].into(),
        Some("views feed themselves: a → b → c → a"),
    );
    check([view("a", "a", "b"), view("a", "b", "c")].into(), Some("two views have the name \"a\""));
    // `in/in` would make `in/a`, which it takes.
    check([view("a", "in/+", "{1}/a")].into(), Some("views feed themselves: a → a"));
    check([view("a", "in/+", "out/{1}/a"), view("b", "+/a", "in")].into(), None);
    check([view("a", "site/+/relay", "site/{1}/shown")].into(), None);
    assert_eq!(
        Views::new([view("a", "x", "y"), view("b", "y", "x")].into(), Limits::default()).err(),
        Some(ViewError::Cycle(["a", "b", "a"].map(Into::into).into()))
    );
}

#[test]
fn changes_come_later_and_not_too_often() {
    let slow = View { delay: Duration::from_millis(100), ..view("v", "a", "b") };
    let mut views = Views::new([slow].into(), Limits::default()).unwrap();
    let topic = Topic::new("a").unwrap();
    views.handle_update(at(0), &topic, Some(&body("1")));
    views.handle_update(at(30), &topic, None);
    assert_eq!((drain(&mut views), views.timeout()), (Vec::new(), Some(at(100))));
    views.handle_timeout(at(100));
    assert_eq!((drain(&mut views), views.timeout()), (["b = 1".to_owned()].into(), Some(at(130))));
    views.handle_timeout(at(130));
    assert_eq!((drain(&mut views), views.timeout()), (["b gone".to_owned()].into(), None));
    assert_eq!(views.stats().derived, 0);

    let seldom = View { throttle: Duration::from_millis(100), ..view("v", "a", "b") };
    let mut views = Views::new([seldom, view("w", "b", "c")].into(), Limits::default()).unwrap();
    for ms in [0, 10, 20] {
        views.handle_update(at(ms), &topic, Some(&body(&ms.to_string())));
    }
    assert_eq!((drain(&mut views), views.timeout()), (["b = 0".to_owned(), "c = 0".to_owned()].into(), Some(at(100))));
    views.handle_timeout(at(100));
    assert_eq!(drain(&mut views), ["b = 20", "c = 20"]);
    // What has come back to what is shown is no change.
    views.handle_update(at(110), &topic, Some(&body("1")));
    views.handle_update(at(120), &topic, Some(&body("20")));
    views.handle_timeout(at(200));
    assert_eq!((drain(&mut views), views.timeout(), views.stats().waiting), (Vec::new(), None, 0));
}

/// What one update does is bounded whatever else is there: an aggregate of many is not worked out again, and of what is due at
/// one moment some comes at a time.
#[test]
fn many_sources_cost_no_more_than_they_are() {
    let all = [
        aggregate("sum", "a/+", "sum", Operation::Sum),
        View { delay: Duration::from_secs(1), ..view("late", "a/+", "late/{1}") },
    ];
    let mut views = Views::new(all.into(), Limits::default()).unwrap();
    // With work that grows by the square of them this takes hours.
    for number in 0..200_000 {
        let (topic, value) = (alloc::format!("a/{number}"), alloc::format!("{{\"v\":{number}.5}}"));
        views.handle_update(at(0), &Topic::new(&topic).unwrap(), Some(&body(&value)));
        while let Some(output) = views.poll_output() {
            assert_eq!(&*output.topic, "sum");
        }
    }
    views.handle_update(at(0), &Topic::new("a/0").unwrap(), None);
    assert_eq!(drain(&mut views), ["sum = {\"n\":199999,\"q\":\"good\",\"v\":19999999999.5}"]);
    views.handle_timeout(at(1000));
    assert!(drain(&mut views).len() <= 3);
    assert_eq!(views.timeout(), Some(at(1000)));
}

#[test]
fn limits_hold() {
    let limits = Limits { contributions_max: 3, items_max: 2, waiting_max: 1 };
    let expand = View { expand: Some(Pointer::default()), ..view("v", "a/+", "b/{1}/{key}") };
    let mut views = Views::new([expand].into(), limits).unwrap();
    views.handle_update(at(0), &Topic::new("a/1").unwrap(), Some(&body("[1,2,3]")));
    assert_eq!((drain(&mut views), views.stats().refused), (["b/1/0 = 1", "b/1/1 = 2"].map(str::to_owned).into(), 1));
    views.handle_update(at(0), &Topic::new("a/2").unwrap(), Some(&body("[1,2]")));
    assert_eq!((drain(&mut views), views.stats().refused), (Vec::new(), 2));
    let slow = View { delay: Duration::from_secs(1), ..view("v", "a", "b") };
    let mut views = Views::new([slow].into(), limits).unwrap();
    views.handle_update(at(0), &Topic::new("a").unwrap(), Some(&body("1")));
    views.handle_update(at(0), &Topic::new("a").unwrap(), Some(&body("2")));
    assert_eq!((drain(&mut views), views.stats().flushed_early), (["b = 1".to_owned()].into(), 1));
}

#[test]
fn templates_say_what_is_wrong_with_them() {
    let check = |text: &str, expect: &str| {
        let found = Template::new(text, &Filter::new("a/+/#").unwrap(), false);
        assert_eq!(found.map_or_else(|error| error.to_string(), |template| template.to_string()), expect);
    };
    check("x/{1}/{2}", "x/{1}/{2}");
    check("x/{3}", "{3} is the wildcard number 3, and the filter has 2");
    check("x/{name}", "{name} means nothing, expected {1}, {2}, …, {topic}, {key} or {/place}");
    check("x/{key}", "{key} needs expand");
    check("x/{1", "a brace has no partner");
    check("x/1}", "a brace has no partner");
    for wrong in ["", "$SYS/x", "x/+", "x/#"] {
        check(wrong, "a topic is not empty, begins otherwise than with $, and holds neither + nor #");
    }
    assert_eq!(
        Template::new("{0}", &Filter::new("+").unwrap(), false),
        Err(TemplateError::Wildcard { number: 0, there_are: 1 })
    );
}

#[test]
fn conditions_are_true_or_not() {
    let value: serde_json::Value = serde_json::from_str("{\"v\":5,\"s\":\"open\",\"n\":null,\"l\":[1]}").unwrap();
    for (text, expect) in [
        ("/v", true),
        ("/x", false),
        ("/n", true),
        ("/v == 5.0", true),
        ("/v != 5", false),
        ("/x != 5", true),
        ("/v < 6", true),
        ("/v <= 5", true),
        ("/v > 5", false),
        ("/v >= 5", true),
        ("/s == \"open\"", true),
        ("/s < \"p\"", true),
        ("/s > 5", false),
        ("/l/0 == 1", true),
        ("/l == [1]", true),
    ] {
        assert_eq!(Condition::new(text).unwrap().holds(&value), expect, "{text}");
    }
    assert_eq!(Condition::new("v > 5"), Err(SelectError::Pointer));
    assert_eq!(Condition::new("/v ~ 5"), Err(SelectError::Form));
    assert_eq!(Condition::new("/v >"), Err(SelectError::Form));
    assert_eq!(Condition::new("/v == open"), Err(SelectError::Value("open".into())));
}

#[test]
fn filters_meet_or_not() {
    let check = |a: &str, b: &str, expect: bool| {
        let (a, b) = (Filter::new(a).unwrap(), Filter::new(b).unwrap());
        assert_eq!((meets(&a, &b), meets(&b, &a)), (expect, expect), "{a} {b}");
    };
    check("a/+", "+/b", true);
    check("a/#", "a", true);
    check("a/#", "b/#", false);
    check("#", "$SYS/x", false);
    check("+/x", "$SYS/x", false);
    check("a/b", "a/b/c", false);
    check("a/+/c", "a/#", true);
    check("$SYS/#", "$SYS/+", true);
}

#[test]
fn views_are_replaced_and_only_what_differs_changes() {
    let delayed = View { delay: Duration::from_millis(50), ..view("c", "a/x", "slow") };
    let before = alloc::vec![view("a", "a/+", "d/{1}"), view("b", "d/x", "e"), delayed.clone()];
    let mut views = Views::new(before.clone(), Limits::default()).unwrap();
    let sources: Vec<(Topic, Body)> = ["a/x", "a/y"].map(|topic| (Topic::new(topic).unwrap(), body("1"))).into();
    for (topic, value) in &sources {
        views.handle_update(at(0), topic, Some(value));
    }
    views.handle_timeout(at(50));
    assert_eq!(drain(&mut views), ["d/x = 1", "e = 1", "d/y = 1", "slow = 1"]);
    // The same views again: nothing changes, and what follows goes on.
    views.replace(at(60), before.clone(), sources.clone()).unwrap();
    assert_eq!(drain(&mut views), [""; 0]);
    views.handle_update(at(60), &Topic::new("a/x").unwrap(), Some(&body("2")));
    assert_eq!(drain(&mut views), ["d/x = 2", "e = 2"]);
    // Views that cannot live together change nothing.
    let cycle = alloc::vec![view("a", "a/x", "b"), view("b", "b", "a/x")];
    assert!(views.replace(at(61), cycle, sources.clone()).is_err());
    assert_eq!((drain(&mut views), views.views().len()), (Vec::new(), 3));
    // One goes, one comes; what is delayed begins its delay again.
    let sources: Vec<(Topic, Body)> = ["a/x", "a/y"].map(|topic| (Topic::new(topic).unwrap(), body("2"))).into();
    views.replace(at(70), alloc::vec![view("n", "a/y", "n"), delayed], sources).unwrap();
    assert_eq!(drain(&mut views), ["n = 2", "d/x gone", "d/y gone", "e gone"]);
    views.handle_timeout(at(119));
    assert_eq!(drain(&mut views), [""; 0]);
    views.handle_timeout(at(120));
    assert_eq!(drain(&mut views), ["slow = 2"]);
}

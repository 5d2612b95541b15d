use super::*;
use crate::bus::alone::alone;
use tieline_mqtt::Property;
use tieline_topics::{Options, SubscriberId};
use tokio::sync::mpsc;

const LINGER: Duration = Duration::from_secs(10);

struct Edge {
    bus: Bus,
    now: Now,
    inputs: mpsc::Receiver<EdgeInput>,
    _rest: Box<dyn std::any::Any>,
}

impl Edge {
    fn new(topics: &str, keep: &[&str]) -> Self {
        let (mut bus, rest) = alone();
        let (handle, inputs) = EdgeHandle::new();
        let filter = |text: &str| Filter::new(text).unwrap();
        let keep: Vec<Filter> = keep.iter().copied().map(filter).collect();
        bus.set_mirror(Mirror::new(vec![filter(topics)], &keep, LINGER, handle));
        let now = bus.now();
        Self { bus, now, inputs, _rest: Box::new(rest) }
    }

    fn subscribe(&mut self, who: u32, filter: &str) {
        self.bus.tree.subscribe(SubscriberId(who), &Filter::new(filter).unwrap(), Options::default()).unwrap();
    }

    /// What the thread is told to ask for, after some seconds.
    fn asked(&mut self, after_s: u64) -> String {
        self.now.mono = self.now.mono + Duration::from_secs(after_s);
        self.bus.ask_upstream(self.now);
        self.work();
        let shown = |input| match input {
            EdgeInput::Begin(filter) => format!("+{filter}"),
            EdgeInput::End(filter) => format!("-{filter}"),
            EdgeInput::Publish { .. } => "publish".to_owned(),
        };
        std::iter::from_fn(|| self.inputs.try_recv().ok()).map(shown).collect::<Vec<_>>().join(" ")
    }

    fn work(&mut self) {
        while self.bus.ask_stats().0 > 0 {
            self.bus.run_asks(self.now);
        }
    }

    fn news(&mut self, news: EdgeNews) {
        self.bus.handle_edge(self.now, EdgeReport(vec![news]));
    }

    fn value(&mut self, topic: &str, payload: &str) {
        let topic = Topic::new(topic).unwrap();
        self.news(EdgeNews::Value { topic, body: Body::read(payload.to_owned().into()), ready: None });
    }

    fn link(&mut self, is_up: bool) {
        let upstream = "mqtt://core:1883".to_owned();
        let away = || LinkState::Away { upstream: upstream.clone(), why: "it was lost".to_owned() };
        self.news(EdgeNews::Link(if is_up { LinkState::Up { upstream: upstream.clone() } } else { away() }));
        self.work();
    }

    fn shown(&self, topic: &str) -> String {
        let view = self.bus.tree().get(topic);
        view.map(|view| String::from_utf8(view.body.to_payload().to_vec()).unwrap()).unwrap_or_default()
    }
}

#[test]
fn what_clients_have_is_asked_for_and_its_values_are_removed_with_the_last() {
    let mut edge = Edge::new("#", &["plant/alarm"]);
    assert_eq!(edge.asked(0), "+plant/alarm");
    edge.subscribe(1, "plant/+/power");
    edge.subscribe(2, "plant/+/power");
    edge.subscribe(2, "$SYS/#");
    assert_eq!(edge.asked(0), "+plant/+/power");
    edge.value("plant/1/power", "5");
    edge.value("plant/1/amps", "7");
    assert_eq!((edge.shown("plant/1/power").as_str(), edge.shown("plant/1/amps").as_str()), ("5", ""));
    edge.bus.tree.drop_subscriber(SubscriberId(1));
    edge.bus.tree.drop_subscriber(SubscriberId(2));
    assert_eq!(edge.asked(0), "");
    assert_eq!(edge.asked(LINGER.as_secs() - 1), "");
    assert_eq!(edge.shown("plant/1/power"), "5");
    assert_eq!(edge.asked(1), "-plant/+/power");
    assert_eq!((edge.shown("plant/1/power").as_str(), edge.bus.mirror_seen().unwrap().counts.topics), ("", 0));
}

#[test]
fn values_are_away_when_the_link_is_lost_and_come_again() {
    let point = |value: u32, quality: &str| format!("{{\"v\":{value},{quality},\"t\":\"2026-11-20T09:36:00.000Z\"}}");
    let (good, away) = ("\"q\":\"good\"", "\"q\":\"bad\",\"why\":[\"away\"]");
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    edge.link(true);
    for i in 0..3 * u32::try_from(STEP).unwrap() {
        edge.value(&format!("t/{i}"), &point(i, good));
    }
    edge.value("text", "hello");
    edge.link(false);
    assert_eq!((edge.shown("t/0"), edge.shown("t/190")), (point(0, away), point(190, away)));
    assert_eq!(edge.shown("text"), "hello");
    assert_eq!(edge.bus.mirror_seen().unwrap().counts.away, 193);
    assert!(edge.shown(STATE_TOPIC).starts_with("{\"v\":\"away\",\"q\":\"bad\",\"why\":[\"away\"]"));
    edge.link(true);
    edge.value("t/0", &point(9, good));
    assert_eq!((edge.shown("t/0"), edge.shown("t/1")), (point(9, good), point(1, away)));
    assert_eq!(edge.bus.mirror_seen().unwrap().counts.away, 192);
    assert!(edge.shown(STATE_TOPIC).starts_with("{\"v\":\"up\",\"q\":\"good\""));
}

#[test]
fn what_the_upstream_removes_without_a_message_is_removed() {
    let mut edge = Edge::new("plant/#", &["plant/#"]);
    edge.asked(0);
    edge.link(true);
    let topic = |text: &str| Topic::new(text).unwrap();
    edge.bus.apply_value(edge.now, topic("site/1"), Body::read("1".into()), true);
    edge.value("plant/1", "5");
    for removed in ["plant/1", "plant/2", "site/1"] {
        edge.news(EdgeNews::Removed(topic(removed)));
    }
    assert_eq!((edge.shown("plant/1").as_str(), edge.shown("site/1").as_str()), ("", "1"), "its own stays");
    assert_eq!(edge.bus.mirror_seen().unwrap().counts.topics, 0);
}

#[test]
fn what_does_not_come_again_is_removed() {
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    edge.link(true);
    edge.value("plant/1", "5");
    edge.value("plant/2", "6");
    edge.news(EdgeNews::Again);
    edge.value("plant/1", "5");
    edge.news(EdgeNews::CaughtUp);
    edge.work();
    assert_eq!((edge.shown("plant/1").as_str(), edge.shown("plant/2").as_str()), ("5", ""));
}

#[test]
fn a_circle_is_told_and_its_values_are_away() {
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    edge.link(true);
    edge.value("plant/1", "{\"v\":1,\"q\":\"good\",\"t\":\"2026-11-20T09:36:00.000Z\"}");
    edge.news(EdgeNews::Nodes(["north 1", "core 2"].map(str::to_owned).into()));
    assert_eq!(edge.shown(NODES_TOPIC), "[\"north 1\",\"core 2\"]");
    let nodes = ["north 1", "core 2"].map(str::to_owned).into();
    edge.news(EdgeNews::Link(LinkState::Circle { upstream: "mqtt://core:1883".to_owned(), nodes }));
    edge.work();
    assert!(edge.shown("plant/1").contains("away") && !edge.bus.is_upstream_there());
    assert!(edge.shown(STATE_TOPIC).starts_with("{\"v\":\"circle\",\"q\":\"bad\",\"why\":[\"away\"]"));
}

/// The link is back before all values were marked: those that came again are good, and the others are marked.
#[test]
fn a_value_that_came_again_is_not_marked_by_a_loss_before() {
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    edge.link(true);
    let good = |v: u32| format!("{{\"v\":{v},\"q\":\"good\"}}");
    edge.value("a", &good(1));
    edge.value("b", &good(2));
    let upstream = "u".to_owned();
    edge.news(EdgeNews::Link(LinkState::Away { upstream: upstream.clone(), why: String::new() }));
    edge.news(EdgeNews::Link(LinkState::Up { upstream }));
    edge.value("b", &good(3));
    edge.work();
    assert!(edge.shown("a").contains("away"), "{}", edge.shown("a"));
    assert_eq!(edge.shown("b"), good(3));
}

/// Whatever an upstream sends: topics that are not its own stay as they are.
#[test]
fn an_upstream_changes_nothing_but_what_is_its_own_and_was_asked_for() {
    let mut edge = Edge::new("plant/#", &["plant/asked"]);
    edge.asked(0);
    let ours = Topic::new("site/ours").unwrap();
    edge.bus.apply_node(edge.now, ours, Body::read("1".into()), true);
    for topic in ["site/ours", "site/other", "plant/not_asked", "$SYS/edge/state", "plant/asked"] {
        edge.value(topic, "5");
    }
    let shown: Vec<String> =
        ["site/ours", "site/other", "plant/not_asked", "plant/asked"].map(|topic| edge.shown(topic)).into();
    assert_eq!(shown, ["1", "", "", "5"]);
    assert!(edge.shown(STATE_TOPIC).starts_with("{\"v\":\"connecting\""));
    assert_eq!(edge.bus.mirror_seen().unwrap().counts.own, 3);
}

#[test]
fn what_has_not_come_again_is_removed_once_all_has() {
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    edge.link(true);
    edge.value("stays", "1");
    edge.value("goes", "1");
    edge.link(false);
    edge.link(true);
    edge.value("stays", "1");
    edge.news(EdgeNews::CaughtUp);
    edge.work();
    assert_eq!((edge.shown("stays").as_str(), edge.shown("goes").as_str()), ("1", ""));
    assert_eq!(edge.bus.mirror_seen().unwrap().counts, MirrorCounts { topics: 1, ..MirrorCounts::default() });
}

#[test]
fn messages_keep_their_properties_and_pass() {
    let mut edge = Edge::new("#", &["#"]);
    edge.asked(0);
    let properties: tieline_mqtt::Properties =
        [Property::ContentType(tieline_mqtt::Text::truncated("text/plain"))].into_iter().collect();
    let mut send = |topic: &str, retain: bool| {
        let message = Message::new(Topic::new(topic).unwrap(), "x", edge.now.mono);
        let message = Box::new(Message { properties: properties.clone(), ..message });
        edge.news(EdgeNews::Message { message, body: Body::read("x".into()), retain });
    };
    send("kept", true);
    send("passed", false);
    let view = edge.bus.tree.get("kept").unwrap();
    assert_eq!(edge.bus.retained.metadata(&view, edge.now.mono).properties, properties);
    assert_eq!(edge.shown("passed"), "");
}

#[test]
fn a_filter_that_is_looked_at_is_asked_for_for_a_while() {
    let mut edge = Edge::new("plant/#", &[]);
    edge.bus.look_upstream(edge.now, &Filter::new("plant/1").unwrap());
    assert_eq!(edge.asked(0), "+plant/1");
    assert_eq!(edge.asked(LINGER.as_secs()), "-plant/1");
    assert!(edge.bus.is_of_upstream("plant/1") && !edge.bus.is_of_upstream("site/1"));
    assert!(!edge.bus.is_of_upstream("$SYS/x"));
}

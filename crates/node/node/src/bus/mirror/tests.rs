use super::said::STATE_TOPIC;
use super::*;
use crate::bus::alone::alone;
use crate::edge::NODES_TOPIC;
use tieline_core::{Body, Topic};
use tieline_mqtt::{Message, Property, Qos};
use tieline_topics::{Options, SubscriberId};
use tokio::sync::mpsc;

const LINGER: Duration = Duration::from_secs(10);

pub(super) struct Edge {
    pub(super) bus: Bus,
    pub(super) now: Now,
    pub(super) inputs: Vec<mpsc::Receiver<EdgeInput>>,
    /// The upstream that has news, and is asked.
    pub(super) up: usize,
    _rest: Box<dyn std::any::Any>,
}

impl Edge {
    fn new(topics: &str, keep: &[&str]) -> Self {
        let keep = if keep.is_empty() { String::new() } else { format!("keep={keep:?}\n") };
        Self::of(&format!("[edge]\nupstream='mqtt://core'\ntopics=['{topics}']\n{keep}"))
    }

    pub(super) fn of(config: &str) -> Self {
        let (mut bus, rest) = alone();
        let config = crate::config::from_text("t.toml", config, std::path::Path::new(".")).unwrap().edge.unwrap();
        let sockets = Arc::default();
        let (mut mirrors, mut all) = (Vec::new(), Vec::new());
        for (upstream, _) in config.upstreams.iter().flat_map(UpstreamConfig::sessions) {
            let (handle, inputs) = EdgeHandle::new(&sockets);
            mirrors.push(Mirror::new(&upstream, "edge 1", LINGER, handle));
            all.push(inputs);
        }
        bus.set_mirrors(mirrors);
        let now = bus.now();
        Self { bus, now, inputs: all, up: 0, _rest: Box::new(rest) }
    }

    pub(super) fn seen(&self) -> MirrorSeen {
        self.bus.mirrors_seen().remove(self.up)
    }

    fn subscribe(&mut self, who: u32, filter: &str) {
        self.bus.tree.subscribe(SubscriberId(who), &Filter::new(filter).unwrap(), Options::default()).unwrap();
    }

    /// What the thread is told to ask for, after some seconds.
    pub(super) fn asked(&mut self, after_s: u64) -> String {
        self.now.mono = self.now.mono + Duration::from_secs(after_s);
        self.bus.ask_upstream(self.now);
        self.work();
        let shown = |input| match input {
            EdgeInput::Begin(filter) => format!("+{filter}"),
            EdgeInput::End(filter) => format!("-{filter}"),
            EdgeInput::Publish { .. } => "publish".to_owned(),
        };
        let inputs = &mut self.inputs[self.up];
        std::iter::from_fn(|| inputs.try_recv().ok()).map(shown).collect::<Vec<_>>().join(" ")
    }

    fn work(&mut self) {
        while self.bus.ask_stats().0 > 0 {
            self.bus.run_asks(self.now);
        }
    }

    pub(super) fn news(&mut self, news: EdgeNews) {
        self.bus.handle_edge(self.now, EdgeReport { upstream: self.up, news: vec![news] });
    }

    fn value(&mut self, topic: &str, payload: &str) {
        self.value_of(topic, payload, None);
    }

    fn value_of(&mut self, topic: &str, payload: &str, version: Option<u64>) {
        let topic = Topic::new(topic).unwrap();
        self.news(EdgeNews::Value { topic, body: Body::read(payload.to_owned().into()), ready: None, version });
    }

    /// The version that is told of a value, and whether it is as its node has it.
    fn version(&self, topic: &str) -> (Option<u64>, bool) {
        let view = self.bus.tree().get(topic).unwrap();
        (self.bus.tree().version_told(&view), self.bus.is_present(&view))
    }

    pub(super) fn link(&mut self, is_up: bool) {
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
    assert_eq!((edge.shown("plant/1/power").as_str(), edge.seen().counts.topics), ("", 0));
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
    assert_eq!(edge.seen().counts.away, 193);
    assert!(edge.shown(STATE_TOPIC).starts_with("{\"v\":\"away\",\"q\":\"bad\",\"why\":[\"away\"]"));
    edge.link(true);
    edge.value("t/0", &point(9, good));
    assert_eq!((edge.shown("t/0"), edge.shown("t/1")), (point(9, good), point(1, away)));
    assert_eq!(edge.seen().counts.away, 192);
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
    assert_eq!(edge.seen().counts.topics, 0);
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
    edge.news(EdgeNews::Nodes(Nodes::read(b"[\"north 1\",\"core 2\"]")));
    assert_eq!(edge.shown(NODES_TOPIC), "[\"edge 1\",\"north 1\",\"core 2\"]");
    let nodes = ["north 1", "core 2"].map(str::to_owned).into();
    edge.news(EdgeNews::Link(LinkState::Circle { upstream: "mqtt://core:1883".to_owned(), nodes }));
    edge.work();
    assert!(edge.shown("plant/1").contains("away") && !edge.bus.is_upstream_there("plant/1"));
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
    assert_eq!(edge.seen().counts.own, 3);
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
    assert_eq!(edge.seen().counts, MirrorCounts { topics: 1, ..MirrorCounts::default() });
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
        edge.news(EdgeNews::Message { message, body: Body::read("x".into()), retain, version: None });
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

const TWO: &str = "[[edge.upstream]]\nname='west'\naddress='mqtt://w'\nprefix='west'\n\
                   [[edge.upstream]]\nname='east'\naddress='mqtt://e'\nprefix='east'\ntopics=['plant/#']\n";

#[test]
fn each_upstream_is_asked_for_its_own_topics_and_only_its_values_are_away() {
    let good = |v: u32| format!("{{\"v\":{v},\"q\":\"good\",\"t\":\"2026-11-20T09:36:00.000Z\"}}");
    let mut edge = Edge::of(TWO);
    edge.subscribe(1, "#");
    edge.subscribe(2, "east/other/1");
    assert_eq!(edge.asked(0), "+west/#");
    edge.link(true);
    assert!(edge.shown(STATE_TOPIC).contains("connecting"), "the other is not up yet");
    edge.value("west/plant/1", &good(1));
    // A value of the other's topic is not taken of this one.
    edge.value("east/plant/1", &good(7));
    edge.up = 1;
    assert_eq!(edge.asked(0), "+east/plant/#");
    edge.link(true);
    assert!(edge.shown(STATE_TOPIC).contains("\"up\""));
    edge.value("east/plant/1", &good(2));
    assert_eq!((edge.shown("west/plant/1"), edge.shown("east/plant/1")), (good(1), good(2)));
    edge.link(false);
    assert!(edge.shown("east/plant/1").contains("away") && edge.shown("west/plant/1") == good(1));
    assert!(
        edge.shown("$SYS/edge/east/state").contains("away") && edge.shown("$SYS/edge/west/state").contains("\"up\"")
    );
    assert!(edge.shown(STATE_TOPIC).contains("away"), "one that is away is not hidden by others");
    assert!(edge.bus.is_upstream_there("west/plant/1") && !edge.bus.is_upstream_there("east/plant/1"));
    assert_eq!((edge.bus.mirrors_seen()[0].counts.own, edge.seen().counts.away), (1, 1));
    let owners = ["west/a", "east/plant/1", "east/a", "west", "west/$command/a", "a"];
    assert_eq!(owners.map(|topic| edge.bus.upstream_of(topic)), [Some(0), Some(1), None, None, None, None]);
}

#[test]
fn the_nodes_of_all_upstreams_are_told_together() {
    let mut edge = Edge::of(TWO);
    edge.news(EdgeNews::Nodes(Nodes::read(b"[\"w 1\",\"core 2\"]")));
    edge.up = 1;
    edge.news(EdgeNews::Nodes(Nodes::read(b"[\"e 1\"]")));
    let said = r#"[["edge 1","w 1","e 1"],["w 1","core 2"],["core 2"],["e 1"]]"#;
    assert_eq!(edge.shown(NODES_TOPIC), said);
}

#[test]
fn messages_go_to_the_upstream_of_their_topic_by_its_names() {
    let mut edge = Edge::of(TWO);
    for up in 0..2 {
        edge.up = up;
        edge.link(true);
    }
    let sent = |edge: &mut Edge, topic: &str, payload: &str, to: &str| {
        let properties = [Property::ResponseTopic(tieline_mqtt::Text::truncated(to))].into_iter().collect();
        let message = Message::new(Topic::new(topic).unwrap(), payload.to_owned(), edge.now.mono);
        let message = Message { properties, ..message };
        let now = edge.now;
        let done = edge.bus.publish_up(now, message, Qos::AtLeastOnce, false, crate::bus::upward::Ticket::Nobody);
        assert!(done.is_ok(), "{topic}: {done:?}");
        let input = edge.inputs.iter_mut().enumerate().find_map(|(up, inputs)| Some((up, inputs.try_recv().ok()?)));
        let Some((up, EdgeInput::Publish { message, .. })) = input else { panic!("{topic}: {input:?}") };
        let to = message.properties.response_topic().map(|to| to.to_string());
        (up, message.topic.to_string(), String::from_utf8(message.payload.to_vec()).unwrap(), to.unwrap())
    };
    let expect = |up: usize, rest: [&str; 3]| {
        let [topic, payload, to] = rest.map(str::to_owned);
        (up, topic, payload, to)
    };
    assert_eq!(sent(&mut edge, "west/a", "x", "west/b"), expect(0, ["a", "x", "b"]));
    assert_eq!(sent(&mut edge, "east/plant/1", "x", "own/b"), expect(1, ["plant/1", "x", "own/b"]));
    let command = r#"{"topic":"east/plant/1","value":5}"#;
    let there = r#"{"topic":"plant/1","value":5}"#;
    assert_eq!(
        sent(&mut edge, "$command/east/plant/1", command, "east/plant/b"),
        expect(1, ["$command/plant/1", there, "plant/b"])
    );
    assert_eq!(sent(&mut edge, "$command/west/v", "open", "west/b"), expect(0, ["$command/v", "open", "b"]));
}

/// Asks, and gives what each upstream is asked, until there is an answer.
fn ask(edge: &mut Edge, topic: &str, payload: &str, answers: [Option<&str>; 2]) -> (Vec<(usize, String)>, String) {
    let answered = Arc::new(std::sync::Mutex::new(String::new()));
    let question = crate::bus::Question {
        topic: Topic::new(topic).unwrap(),
        payload: payload.to_owned().into(),
        user: None,
        client: None,
    };
    let hears = Arc::clone(&answered);
    let answer = move |_: &mut Bus, said: Result<bytes::Bytes, crate::bus::Unanswered>| {
        let said = said.map(|text| String::from_utf8(text.to_vec()).unwrap());
        *hears.lock().unwrap() = said.unwrap_or_else(|why| why.refusal.1);
    };
    let ups = match crate::bus::wanted::Wanted::read(topic.trim_start_matches("$control/"), payload.as_bytes()) {
        Some(wanted) => wanted.unwrap().upstreams(&edge.bus).unwrap(),
        None => panic!("{topic}"),
    };
    let now = edge.now;
    edge.bus.ask_above(now, ups, question, Box::new(answer));
    let mut asked = Vec::new();
    while answered.lock().unwrap().is_empty() {
        let input = edge.inputs.iter_mut().enumerate().find_map(|(up, inputs)| Some((up, inputs.try_recv().ok()?)));
        let Some((up, EdgeInput::Publish { ticket, message, .. })) = input else { panic!("{input:?}") };
        asked.push((up, String::from_utf8(message.payload.to_vec()).unwrap()));
        edge.up = up;
        match answers[up] {
            Some(text) => edge.news(EdgeNews::Reply { request: ticket, payload: text.to_owned().into() }),
            None => edge.link(false),
        }
    }
    let answered = answered.lock().unwrap().clone();
    (asked, answered)
}

#[test]
fn requests_are_answered_by_the_upstream_that_has_the_points_or_the_reservation() {
    let mut edge = Edge::of(TWO);
    for up in 0..2 {
        edge.up = up;
        edge.link(true);
    }
    let (asked, answer) = ask(
        &mut edge,
        "$control/set",
        r#"{"points":[{"topic":"east/plant/1","value":5}]}"#,
        [None, Some(r#"{"points":[{"topic":"plant/1"}]}"#)],
    );
    assert_eq!(asked, [(1, r#"{"points":[{"topic":"plant/1","value":5}]}"#.to_owned())]);
    assert_eq!(answer, r#"{"points":[{"topic":"east/plant/1"}]}"#);
    let (unknown, done) =
        (r#"{"result":"FAILURE","info":"TASK_ID_DOES_NOT_EXIST"}"#, r#"{"result":"SUCCESS","info":""}"#);
    let renew = r#"{"task":"t"}"#;
    let both = [(0, renew.to_owned()), (1, renew.to_owned())];
    assert_eq!(
        ask(&mut edge, "$control/renew", renew, [Some(unknown), Some(done)]),
        (both.clone().into(), done.to_owned())
    );
    assert_eq!(ask(&mut edge, "$control/renew", renew, [Some(done), None]), (both[..1].into(), done.to_owned()));
    assert_eq!(ask(&mut edge, "$control/renew", renew, [Some(unknown), Some(unknown)]).1, unknown);
    // One that is away may have it: that it does not exist is not known.
    edge.up = 0;
    edge.link(false);
    let (asked, answer) = ask(&mut edge, "$control/renew", renew, [None, Some(unknown)]);
    assert_eq!((asked, answer.contains("away")), (both[1..].into(), true));
    let mixed = serde_json::from_str(r#"{"points":["east/plant/1","west/1"]}"#).unwrap();
    let wanted = crate::bus::wanted::Wanted::Points(crate::control::request::RevertBody::read(mixed).unwrap());
    assert!(wanted.upstreams(&edge.bus).unwrap_err().contains("not of one upstream"));
}

#[test]
fn topics_of_protection_come_in_their_own_session_alone() {
    let mut edge = Edge::of("[edge]\nupstream='mqtt://core'\nprotection=['+/alarm']\n");
    edge.subscribe(1, "a/alarm");
    edge.subscribe(2, "b/#");
    assert_eq!(edge.asked(0), "+a/alarm +b/alarm");
    edge.link(true);
    edge.value("a/alarm", "1");
    edge.up = 1;
    assert_eq!(edge.asked(0), "+b/#");
    edge.link(true);
    edge.value("b/power", "5");
    // The filter brings it here, too, and later.
    edge.value("b/alarm", "old");
    edge.up = 0;
    edge.value("b/alarm", "2");
    assert_eq!(["a/alarm", "b/alarm", "b/power"].map(|topic| edge.shown(topic)), ["1", "2", "5"]);
    assert_eq!(
        edge.bus.mirrors_seen().iter().map(|seen| (seen.counts.topics, seen.counts.own)).collect::<Vec<_>>(),
        [(2, 0), (1, 0)]
    );
    assert_eq!(["b/alarm", "b/power"].map(|topic| edge.bus.upstream_of(topic)), [Some(0), Some(1)]);
}

#[test]
fn a_topic_of_protection_and_bulk_is_of_protection() {
    let mut edge = Edge::of("[edge]\nupstream='mqtt://core'\nprotection=['+/alarm']\nbulk=['b/#']\n");
    edge.subscribe(1, "#");
    for (up, asked) in ["++/alarm", "+b/#", "+#"].into_iter().enumerate() {
        edge.up = up;
        assert_eq!(edge.asked(0), asked);
        edge.link(true);
    }
    for (up, value) in [(2, "other"), (1, "bulk"), (0, "alarm")] {
        edge.up = up;
        ["b/alarm", "b/power", "c/power"].into_iter().for_each(|topic| edge.value(topic, value));
    }
    assert_eq!(["b/alarm", "b/power", "c/power"].map(|topic| edge.shown(topic)), ["alarm", "bulk", "other"]);
    let ups = ["b/alarm", "b/power", "c/power"].map(|topic| edge.bus.upstream_of(topic));
    assert_eq!(ups, [Some(0), Some(1), Some(2)]);
    assert_eq!(edge.bus.upstream_of_lock("b/power"), Some(2));
}

/// Versions are those of the upstream, also of a value that was marked `away` and of one that comes again.
#[test]
fn versions_are_those_of_the_upstream() {
    let point = "{\"v\":1,\"q\":\"good\",\"t\":\"2026-11-20T09:36:00.000Z\"}";
    let mut edge = Edge::new("t/#", &["t/#"]);
    edge.asked(0);
    edge.link(true);
    edge.value_of("t/0", point, Some(41));
    edge.value("t/1", point);
    edge.bus.apply_node(edge.now, Topic::new("own").unwrap(), Body::read("1".into()), true);
    assert_eq!(
        ["t/0", "t/1", "own"].map(|topic| edge.version(topic)),
        [(Some(41), true), (None, true), (Some(1), true)]
    );
    edge.link(false);
    assert_eq!(["t/0", "t/1"].map(|topic| edge.version(topic)), [(Some(41), false), (None, false)]);
    edge.link(true);
    assert_eq!(edge.version("t/0"), (Some(41), false), "it did not come again yet");
    edge.value_of("t/0", point, Some(41));
    edge.value_of("t/1", point, Some(3));
    assert_eq!(["t/0", "t/1"].map(|topic| edge.version(topic)), [(Some(41), true), (Some(3), true)]);
    edge.news(EdgeNews::Removed(Topic::new("t/0").unwrap()));
    edge.value_of("t/0", point, Some(43));
    assert_eq!(edge.version("t/0"), (Some(43), true));
}

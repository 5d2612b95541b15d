use super::tests::Edge;
use crate::bus::LockAsker;
use crate::bus::control::Callback;
use crate::bus::locks::LockRequest;
use crate::edge::{EdgeInput, EdgeNews, LinkState};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_core::Topic;
use tieline_mqtt::ReasonCode;
use tieline_topics::{LockOwner, LockScope};

/// What clients were told.
type Told = Arc<Mutex<Vec<String>>>;

struct World {
    edge: Edge,
    told: Told,
}

impl World {
    fn new() -> Self {
        let mut edge =
            Edge::of("[[edge.upstream]]\nname='west'\naddress='mqtt://w'\nprefix='west'\nprotection=['trips/#']\n");
        // The session for all topics but those of protection.
        edge.up = 1;
        edge.news(EdgeNews::Connected(1));
        edge.link(true);
        edge.asked(0);
        Self { edge, told: Told::default() }
    }

    fn told(&self) -> Vec<Json> {
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        told.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// Why the client was refused.
    fn refused(&self) -> String {
        let told = self.told();
        assert_eq!(told.len(), 1, "{told:?}");
        told[0]["reason"].as_str().unwrap().to_owned()
    }

    fn ask(&mut self, session: u64, request: &LockRequest) {
        let tell = |told: &Told| -> Callback<String> {
            let told = Arc::clone(told);
            Box::new(move |_, text| told.lock().unwrap().push(text))
        };
        let asker = LockAsker { owner: LockOwner::new(session, "c".into()), user: None };
        let up = self.edge.bus.upstream_of_lock(request.name()).unwrap();
        assert_eq!(up, 1);
        let answers = (tell(&self.told), tell(&self.told));
        self.edge.bus.lock_above(self.edge.now, up, (request, asker), answers);
    }

    fn acquire(&mut self, session: u64, scope: LockScope) -> u64 {
        let name = Topic::new("west/trips/a").unwrap();
        self.ask(session, &LockRequest::Acquire { name, scope, wait: Some(Duration::from_secs(1)) });
        let (number, text) = self.sent().unwrap();
        let scope = if scope == LockScope::Session { "session" } else { "connection" };
        assert_eq!(text, format!(r#"acquire {session} {{"lock":"trips/a","scope":"{scope}","wait":"1000ms"}}"#));
        number
    }

    /// What goes to the upstream next.
    fn sent(&mut self) -> Option<(u64, String)> {
        let EdgeInput::Publish { ticket, message, connection, .. } = self.edge.inputs[1].try_recv().ok()? else {
            panic!("no message")
        };
        assert_eq!(connection, 1);
        let session = message.properties.own_property("tieline-for-session").unwrap();
        let verb = message.topic.strip_prefix("$locks/").unwrap();
        Some((ticket, format!("{verb} {session} {}", String::from_utf8_lossy(&message.payload))))
    }

    /// The same once some time has passed.
    fn sent_after(&mut self, time: Duration) -> Option<(u64, String)> {
        self.edge.now.mono = self.edge.now.mono.max(self.edge.bus.now().mono) + time;
        self.edge.bus.ask_upstream(self.edge.now);
        self.sent()
    }

    fn reply(&mut self, request: u64, payload: &Json) {
        self.edge.news(EdgeNews::Answer { ticket: request, refused: None });
        self.edge.news(EdgeNews::Reply { request, payload: payload.to_string().into() });
    }

    fn acquired(&mut self, request: u64, number: u64) {
        self.reply(request, &json!({ "status": "acquired", "lock": "trips/a", "number": number, "scope": "session" }));
        let told = self.told();
        assert_eq!(told[0]["lock"], "west/trips/a", "{told:?}");
        assert_eq!((told.len(), self.counts()), (1, (1, 0, self.counts().2)));
    }

    fn counts(&self) -> (usize, usize, u64) {
        self.edge.seen().counts.locks
    }

    fn end_session(&mut self, session: u64) {
        self.edge.bus.end_locks_of_session(session);
    }
}

const RELEASE: &str = r#"release 7 {"lock":"trips/a"}"#;

#[test]
fn what_a_session_leaves_behind_is_given_back() {
    let mut world = World::new();
    let request = world.acquire(7, LockScope::Session);
    world.acquired(request, 41);
    world.edge.bus.end_locks_of_connection(7);
    world.end_session(8);
    assert_eq!(world.sent_after(Duration::ZERO), None);
    world.end_session(7);
    let (release, text) = world.sent_after(Duration::ZERO).unwrap();
    assert_eq!((text.as_str(), world.counts()), (RELEASE, (0, 0, 0)));
    // Until the upstream has taken it.
    world.edge.news(EdgeNews::Answer { ticket: release, refused: Some((ReasonCode::QuotaExceeded, String::new())) });
    assert_eq!(world.sent_after(Duration::ZERO), None);
    let (release, text) = world.sent_after(Duration::from_secs(1)).unwrap();
    assert_eq!(text, RELEASE);
    world.reply(release, &json!({ "status": "released", "lock": "trips/a" }));
    assert_eq!(world.sent_after(Duration::from_secs(9)), None);
    // A request that waits ends with its connection, and its late answer is nobody's.
    let request = world.acquire(7, LockScope::Connection);
    world.edge.bus.end_locks_of_connection(7);
    assert_eq!(world.refused(), "given_up");
    assert_eq!(world.sent_after(Duration::ZERO).unwrap().1, RELEASE);
    world.reply(request, &json!({ "status": "acquired", "lock": "trips/a", "number": 42 }));
    assert_eq!((world.told(), world.counts()), (Vec::new(), (0, 0, 0)));
}

#[test]
fn what_is_lost_with_the_link_is_told_and_not_given_back() {
    let mut world = World::new();
    let request = world.acquire(7, LockScope::Session);
    world.acquired(request, 41);
    world.acquire(8, LockScope::Session);
    assert_eq!(world.counts(), (1, 1, 0));
    world.edge.link(false);
    let told = world.told();
    assert_eq!(
        (&told[0]["status"], &told[0]["number"], &told[1]["reason"]),
        (&json!("lost"), &json!(41), &json!("away"))
    );
    assert_eq!((told.len(), world.counts()), (2, (0, 0, 1)));
    let name = Topic::new("west/trips/a").unwrap();
    world.ask(7, &LockRequest::Acquire { name, scope: LockScope::Session, wait: None });
    assert_eq!(world.refused(), "away");
    world.edge.link(true);
    world.end_session(7);
    world.end_session(8);
    assert_eq!(world.sent_after(Duration::from_secs(9)), None);
    // The upstream says so of its own upstream.
    let request = world.acquire(7, LockScope::Session);
    world.acquired(request, 43);
    world.reply(request, &json!({ "status": "lost", "lock": "trips/a", "number": 43 }));
    assert_eq!((&world.told()[0]["lock"], world.counts()), (&json!("west/trips/a"), (0, 0, 2)));
}

#[test]
fn in_a_circle_all_is_given_back() {
    let mut world = World::new();
    let request = world.acquire(7, LockScope::Session);
    world.acquired(request, 41);
    world.edge.news(EdgeNews::Link(LinkState::Circle { upstream: "w".to_owned(), nodes: Vec::new() }));
    assert_eq!(world.told()[0]["status"], "lost");
    assert_eq!(world.sent_after(Duration::ZERO).unwrap().1, RELEASE);
}

#[test]
fn a_lock_that_is_asked_for_again_is_one_acquisition() {
    let mut world = World::new();
    let request = world.acquire(7, LockScope::Session);
    world.acquired(request, 41);
    let again = world.acquire(7, LockScope::Connection);
    world.acquired(again, 41);
    let name = Topic::new("west/trips/a").unwrap();
    world.ask(7, &LockRequest::Release { name, number: Some(41) });
    let (release, text) = world.sent().unwrap();
    assert_eq!(text, r#"release 7 {"lock":"trips/a","number":41}"#);
    // One that does not get there leaves it what it has.
    let refused = world.acquire(7, LockScope::Session);
    world.edge.news(EdgeNews::Answer { ticket: refused, refused: Some((ReasonCode::QuotaExceeded, String::new())) });
    assert_eq!((world.refused().as_str(), world.counts()), ("away", (1, 0, 0)));
    // What it asks for before that answer is another acquisition.
    let next = world.acquire(7, LockScope::Session);
    world.reply(release, &json!({ "status": "released", "lock": "trips/a" }));
    assert_eq!((world.told()[0]["lock"].clone(), world.counts()), (json!("west/trips/a"), (0, 1, 0)));
    world.acquired(next, 42);
    let seen = world.edge.bus.list_locks(None, 10);
    let lock = (seen[0].name.as_str(), seen[0].client.as_deref(), seen[0].upstream.as_deref(), seen[0].number);
    assert_eq!((lock, seen.len()), (("west/trips/a", Some("c"), Some("west"), Some(42)), 1));
    world.end_session(7);
    assert_eq!(world.sent_after(Duration::ZERO).unwrap().1, RELEASE);
}

#[test]
fn a_lock_that_is_taken_away_does_not_stay_with_a_holder_that_asks_again() {
    for repeats in 0..3 {
        let mut world = World::new();
        let request = world.acquire(7, LockScope::Session);
        world.acquired(request, 41);
        let again: Vec<u64> = (0..repeats).map(|_| world.acquire(7, LockScope::Session)).collect();
        let next = world.acquire(8, LockScope::Session);
        let now = world.edge.now;
        assert!(world.edge.bus.revoke_lock_above(now, 1, "west/trips/a"));
        assert!(!world.edge.bus.revoke_lock_above(now, 1, "west/trips/a"), "nobody has it");
        let told = world.told();
        assert_eq!((told.len(), world.counts()), (again.len(), (0, 1, 0)), "{told:?}");
        assert!(told.iter().all(|text| text["reason"] == "given_up"), "{told:?}");
        let (release, text) = world.sent_after(Duration::ZERO).unwrap();
        assert_eq!((text.as_str(), world.sent_after(Duration::ZERO)), (RELEASE, None));
        // The upstream has taken the requests before the release.
        for number in again {
            world.reply(number, &json!({ "status": "acquired", "lock": "trips/a", "number": 41 }));
        }
        world.reply(release, &json!({ "status": "released", "lock": "trips/a" }));
        assert_eq!((world.told(), world.counts()), (Vec::new(), (0, 1, 0)));
        world.acquired(next, 42);
    }
}

#[test]
fn however_often_a_session_asks_it_is_given_back_once() {
    let mut world = World::new();
    let first = world.acquire(7, LockScope::Session);
    world.acquired(first, 41);
    let [second, third, fourth] = [(); 3].map(|()| world.acquire(7, LockScope::Session));
    assert_eq!(world.counts(), (1, 3, 0));
    // One is refused, one has it now, one is on its way.
    world.reply(second, &json!({ "status": "refused", "reason": "limit" }));
    assert_eq!((world.refused().as_str(), world.counts()), ("limit", (1, 2, 0)));
    world.reply(third, &json!({ "status": "acquired", "lock": "trips/a", "number": 41, "scope": "session" }));
    assert_eq!((world.told().len(), world.counts()), (1, (1, 1, 0)));
    world.end_session(7);
    assert_eq!((world.refused().as_str(), world.counts()), ("given_up", (0, 0, 0)));
    let (release, text) = world.sent_after(Duration::ZERO).unwrap();
    assert_eq!(text, RELEASE);
    // Answers that come late change nothing.
    world.reply(fourth, &json!({ "status": "acquired", "lock": "trips/a", "number": 41, "scope": "session" }));
    world.reply(release, &json!({ "status": "released", "lock": "trips/a" }));
    assert_eq!((world.counts(), world.sent_after(Duration::from_secs(60))), ((0, 0, 0), None));
}

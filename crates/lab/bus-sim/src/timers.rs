//! What the bus sends by timer is sent when it is due, however quiet the node is.

use crate::link::{Link, LinkBehavior};
use crate::trace::Trace;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Instant, Topic};
use tieline_mqtt::{
    Binary, ClientConfig, ClientEvent, ClientSession, Message, Properties, Property, Qos, SubscriptionOptions, Text,
    Will,
};
use tieline_net::{Clock, Counters, Limits, Owner, Session, Shard};
use tieline_node::{InProcessBroker, InProcessListener, config};
use tieline_sim::Choices;
use tokio::time::sleep;

/// Timers of each kind: views' delays, views' throttles, wills.
const TIMERS: u64 = 340;
/// What they are spread over, in milliseconds: nothing else happens for seconds before and after most of them.
const SPAN_MS: u64 = 20_000_000;
/// Timers are as exact as those of the runtime, which counts milliseconds.
const LATE_MAX: Duration = Duration::from_millis(2);
const DELAYS_MS: [u64; 4] = [20, 137, 1501, 9_003];
const THROTTLES_MS: [u64; 4] = [50, 333, 2_000, 9_999];

/// What is due, and what was heard, by topic.
type Times = Rc<RefCell<BTreeMap<String, Vec<Instant>>>>;

/// A client that subscribes to what views and wills are published to, or to nothing.
struct Listener {
    filter: Option<&'static str>,
    heard: Times,
}

impl Owner<ClientSession> for Listener {
    fn event(&mut self, session: &Session<ClientSession>, now: tieline_core::Now, event: ClientEvent) {
        match (event, self.filter) {
            (ClientEvent::Connected(_), Some(filter)) => {
                let asked = [(Filter::new(filter).unwrap(), SubscriptionOptions::default())];
                session.with(|m, _| m.subscribe_with(&asked, Properties::default())).unwrap();
            }
            (ClientEvent::Message(received), _) => {
                self.heard.borrow_mut().entry(received.message.topic.to_string()).or_default().push(now.mono);
            }
            (ClientEvent::Refused { reason, text }, _) => panic!("{reason} {text}"),
            _ => {}
        }
    }
}

struct Scene {
    shard: Rc<Shard>,
    listener: InProcessListener,
    due: Times,
    heard: Times,
    next: u64,
}

impl Scene {
    /// A client's session, and its network once it is connected.
    fn client(&mut self, filter: Option<&'static str>, will: Option<(Will, u32)>) -> (Session<ClientSession>, Link) {
        self.next += 1;
        let config = ClientConfig {
            client_id: Text::truncated(&format!("c{}", self.next)),
            session_expiry_s: will.as_ref().map_or(0, |(_, expiry_s)| *expiry_s),
            will: will.map(|(will, _)| will),
            keep_alive_s: 0,
            ..ClientConfig::default()
        };
        let session = Session::new(&self.shard, ClientSession::new(config), Limits::default());
        let (link, broker, client) = Link::new(LinkBehavior::PERFECT, self.next, (self.next, &Trace::default()));
        self.listener.enter(broker, self.next);
        let (driven, mut owner) = (session.clone(), Listener { filter, heard: Rc::clone(&self.heard) });
        tokio::task::spawn_local(async move { driven.run(client, &mut owner).await });
        (session, link)
    }

    /// From now on after so many milliseconds a topic is heard.
    fn expect(&self, topic: &str, after_ms: u64) {
        let at = self.shard.now().mono + Duration::from_millis(after_ms);
        self.due.borrow_mut().entry(topic.to_owned()).or_default().push(at);
    }
}

fn publish(session: &Session<ClientSession>, topic: &str, value: u32) {
    let payload = Bytes::from(value.to_string());
    session.with(|m, now| {
        let message = Message {
            topic: Topic::new(topic).unwrap(),
            payload,
            properties: Properties::default(),
            received: now.mono,
        };
        m.publish(message, Qos::AtMostOnce, true).unwrap();
    });
}

fn config_text() -> String {
    let view = |kind: &str, ms: &u64| {
        format!(
            "[[view]]\nname = '{kind}{ms}'\nfrom = '{kind}/{ms}/+'\nto = 'seen/{kind}/{ms}/{{1}}'\n{kind} = '{ms}ms'\n"
        )
    };
    let delays = DELAYS_MS.iter().map(|ms| view("delay", ms));
    let throttles = THROTTLES_MS.iter().map(|ms| view("throttle", ms));
    let views: String = delays.chain(throttles).collect();
    format!("[history]\nenabled = false\n{views}")
}

async fn run() {
    let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
    let config = config::from_text("timers", &config_text(), Path::new(".")).unwrap();
    let broker = InProcessBroker::open(&shard, &config, Path::new("nowhere")).unwrap();
    let (due, heard): (Times, Times) = Default::default();
    let mut scene = Scene { shard, listener: broker.listener(), due, heard, next: 0 };
    let mut choices = Choices::seeded(1);
    scene.client(Some("seen/#"), None);
    let (writer, _link) = scene.client(None, None);
    sleep(Duration::from_secs(1)).await;
    // What happens when: the topics of views are set, and clients' connections break.
    let mut acts: Vec<(u64, u64)> = (0..3 * TIMERS).map(|number| (choices.below(SPAN_MS), number)).collect();
    acts.sort_unstable();
    let mut passed = 0;
    for (at, number) in acts {
        sleep(Duration::from_millis(at.saturating_sub(passed))).await;
        passed = passed.max(at);
        match number % 3 {
            0 => {
                let ms = choices.pick(&DELAYS_MS);
                publish(&writer, &format!("delay/{ms}/{number}"), 1);
                scene.expect(&format!("seen/delay/{ms}/{number}"), ms);
            }
            1 => {
                let ms = choices.pick(&THROTTLES_MS);
                let (topic, seen) = (format!("throttle/{ms}/{number}"), format!("seen/throttle/{ms}/{number}"));
                publish(&writer, &topic, 1);
                scene.expect(&seen, 0);
                scene.expect(&seen, ms);
                let pause = choices.between(5, ms - 5).min(15);
                sleep(Duration::from_millis(pause)).await;
                passed += pause;
                publish(&writer, &topic, 2);
            }
            _ => {
                let (delay_s, expiry_s) = (choices.between(1, 30), choices.between(1, 30));
                let topic = format!("seen/will/{number}");
                let properties = [Property::WillDelay(u32::try_from(delay_s).unwrap())].into_iter().collect();
                let payload = Binary::new(Bytes::from_static(b"gone")).unwrap();
                let will =
                    Will { topic: Text::truncated(&topic), payload, qos: Qos::AtMostOnce, retain: false, properties };
                let (_, link) = scene.client(None, Some((will, u32::try_from(expiry_s).unwrap())));
                sleep(Duration::from_millis(3)).await;
                passed += 3;
                link.cut();
                scene.expect(&topic, 1000 * delay_s.min(expiry_s));
            }
        }
    }
    sleep(Duration::from_secs(60)).await;
    let (due, heard) = (scene.due.borrow(), scene.heard.borrow());
    assert_eq!(due.keys().collect::<Vec<_>>(), heard.keys().collect::<Vec<_>>());
    for (topic, due) in &*due {
        let heard = &heard[topic];
        let is_timely = |(due, at): (&Instant, &Instant)| *at >= *due && at.since(*due) <= LATE_MAX;
        let timely = due.len() == heard.len() && due.iter().zip(heard).all(is_timely);
        assert!(timely, "{topic} was due at {due:?} and heard at {heard:?}");
    }
}

#[test]
fn what_is_due_is_sent_then() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, run());
}

//! One run: who is there, what goes wrong, and the quiet time after it.

use crate::defect::{Defect, What};
use crate::invariants::{Published, check};
use crate::link::{Link, LinkBehavior};
use crate::publisher::{Desk, Publisher};
use crate::rights::Rights;
use crate::runs::in_virtual_time;
use crate::subscriber::{Kind, Subscriber, SubscriberOwner};
use crate::trace::Trace;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Filter;
use tieline_mqtt::{ClientSession, Qos};
use tieline_net::{Clock, Counters, Limits, Owner, Session, Shard};
use tieline_node::{InProcessBroker, config};
use tieline_sim::Choices;
use tokio::time::sleep;

/// Topics of each publisher.
const TOPICS: usize = 6;
/// Bytes that may wait for one client: in some runs far fewer than the values of all topics have.
const QUEUE_BYTES: [usize; 3] = [4096, 16_384, 262_144];
/// What one connection may hold besides: what is on its way to the socket.
const BESIDES_BYTES: usize = 192 * 1024;
/// What may wait for one client that is away.
const AWAY_BYTES: usize = 16 << 20;

/// What runs were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Values published.
    pub published: u64,
    /// Of these, as what changed.
    pub deltas: u64,
    /// Messages heard.
    pub heard: u64,
    /// Messages said to be lost.
    pub lost: u64,
    /// Connections that failed.
    pub faults: u64,
    /// Changes of rights.
    pub changes: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        self.published += other.published;
        self.deltas += other.deltas;
        self.heard += other.heard;
        self.lost += other.lost;
        self.faults += other.faults;
        self.changes += other.changes;
    }
}

/// One client's network: the present connection's, and how the next ones are to be.
struct ClientLink {
    link: RefCell<Option<Link>>,
    behavior: Cell<LinkBehavior>,
    choices: RefCell<Choices>,
    has_faults: bool,
}

/// A publisher, and its topics.
type Voice = (Session<ClientSession>, Rc<RefCell<Publisher>>, Vec<(String, Qos)>);

struct World {
    shard: Rc<Shard>,
    broker: InProcessBroker,
    choices: Choices,
    next_connection: Rc<Cell<u64>>,
    client_links: Vec<Rc<ClientLink>>,
    publishers: Vec<Voice>,
    subscribers: Vec<(String, Rc<RefCell<Subscriber>>)>,
    faults: u64,
    /// What the reader may not read, where clients are users.
    rights: Option<Rights>,
    queue_bytes: usize,
    defect: Option<Rc<Defect>>,
    tells: bool,
    trace: Trace,
}

/// Runs one seed, with a defect or without.
pub fn run(seed: u64, defect: Option<Rc<Defect>>, (tells, trace): (bool, &Trace)) -> Result<Summary, String> {
    in_virtual_time(async {
        let mut world = World::new(seed, defect, (tells, trace))?;
        world.run().await
    })
}

impl World {
    fn new(seed: u64, defect: Option<Rc<Defect>>, (tells, trace): (bool, &Trace)) -> Result<Self, String> {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        // A defect is found where there is room for all: then it is the defect that is found.
        let queue_bytes = match &defect {
            Some(_) => QUEUE_BYTES[QUEUE_BYTES.len() - 1],
            None => Choices::seeded(!seed).pick(&QUEUE_BYTES),
        };
        // One worker is the bus itself; more have the sockets.
        let workers = seed % 4 + 1;
        let config = format!(
            "[node]\nworkers = {workers}\n[history]\nenabled = false\n[mqtt]\nqueue_bytes_max = {queue_bytes}\n"
        );
        let config = config::from_text("bus-sim", &config, Path::new(".")).map_err(|wrong| format!("{wrong:?}"))?;
        // No command is given: nothing is written there.
        let broker = InProcessBroker::open(&shard, &config, Path::new("nowhere")).map_err(|error| error.to_string())?;
        let mut rights = (seed / 4 % 2 == 1).then(Rights::default);
        let policy = rights.as_mut().map(|rights| rights.deny(shard.now().mono, Vec::new())).transpose()?;
        let broker = match policy {
            Some(policy) => broker.with_users(policy),
            None => broker,
        };
        let mut world = Self {
            shard,
            broker,
            choices: Choices::seeded(seed),
            next_connection: Rc::default(),
            client_links: Vec::new(),
            publishers: Vec::new(),
            subscribers: Vec::new(),
            faults: 0,
            rights,
            queue_bytes,
            defect,
            tells,
            trace: trace.clone(),
        };
        let some =
            [Kind::Persistent, Kind::Once, Kind::Newest, Kind::Deltas, Kind::Gathered, Kind::All, Kind::Throttled];
        let more = (0..world.choices.below(3)).map(|_| world.choices.pick(&some)).collect::<Vec<_>>();
        for kind in [Kind::Witness, Kind::Reader].into_iter().chain(some).chain(more) {
            world.subscribe(kind);
        }
        for deltas in [None, Some(Qos::AtMostOnce), Some(Qos::AtLeastOnce)] {
            world.publish(deltas);
        }
        Ok(world)
    }

    fn subscribe(&mut self, kind: Kind) {
        let name = format!("s{}", self.subscribers.len());
        let subscriber = Rc::new(RefCell::new(Subscriber::new(kind)));
        let session = Session::new(&self.shard, kind.session(&name), Limits::default());
        let slow =
            LinkBehavior { delay_ms: self.choices.pick(&[1, 20, 200]), bytes_max: self.choices.pick(&[4096, 65_536]) };
        let behavior = match kind {
            Kind::Witness | Kind::Throttled | Kind::Reader => LinkBehavior::PERFECT,
            Kind::All => LinkBehavior { delay_ms: 20, bytes_max: 16_384 },
            Kind::Persistent | Kind::Once | Kind::Newest | Kind::Deltas | Kind::Gathered => slow,
        };
        let owner = SubscriberOwner::new(Rc::clone(&subscriber), self.defect.as_ref());
        self.connect(&session, owner, behavior, kind.has_faults());
        self.subscribers.push((name, subscriber));
    }

    /// A publisher of all QoS, or one that sends what changed at one of them.
    fn publish(&mut self, deltas: Option<Qos>) {
        let (at, has_deltas) = (self.publishers.len(), deltas.is_some());
        let publisher = Rc::new(RefCell::new(Publisher::new(has_deltas)));
        let machine = publisher.borrow().session(&format!("p{at}"));
        let session = Session::new(&self.shard, machine, Limits::default());
        let all = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];
        let qos = |topic: usize| deltas.unwrap_or(all[topic % 3]);
        let mut topics: Vec<_> = (0..TOPICS).map(|topic| (format!("p/{at}/{topic}"), qos(topic))).collect();
        if !has_deltas {
            topics.push(("bulk/0".to_owned(), Qos::AtMostOnce));
        }
        let behavior = LinkBehavior { delay_ms: self.choices.pick(&[1, 20, 200]), bytes_max: 65_536 };
        self.connect(&session, Desk(Rc::clone(&publisher)), behavior, true);
        self.publishers.push((session, publisher, topics));
    }

    /// Keeps a client connected.
    fn connect<O: Owner<ClientSession> + 'static>(
        &mut self,
        session: &Session<ClientSession>,
        mut owner: O,
        behavior: LinkBehavior,
        has_faults: bool,
    ) {
        let choices = RefCell::new(Choices::seeded(self.choices.below(u64::MAX)));
        let client_link =
            Rc::new(ClientLink { link: RefCell::default(), behavior: Cell::new(behavior), choices, has_faults });
        self.client_links.push(Rc::clone(&client_link));
        let (session, numbers) = (session.clone(), Rc::clone(&self.next_connection));
        let trace = self.trace.clone();
        let listener = self.broker.listener();
        tokio::task::spawn_local(async move {
            loop {
                let number = numbers.replace(numbers.get() + 1);
                let seed = client_link.choices.borrow_mut().below(u64::MAX);
                let (link, broker, client) = Link::new(client_link.behavior.get(), seed, (number, &trace));
                *client_link.link.borrow_mut() = Some(link);
                listener.enter(broker, number);
                session.run(client, &mut owner).await;
                let pause = client_link.choices.borrow_mut().millis(1, 4000);
                sleep(pause).await;
            }
        });
    }

    async fn run(&mut self) -> Result<Summary, String> {
        self.wait_for_all().await?;
        for _ in 0..self.choices.between(10, 60) {
            if self.rights.is_some() && self.choices.chance(30) {
                let denied = Rights::choose(&mut self.choices);
                self.deny(denied)?;
            }
            self.act();
            self.look_at_limits()?;
            let pause = self.choices.millis(1, 2000);
            sleep(pause).await;
        }
        self.note("the last fault is over");
        sleep(Duration::from_secs(300)).await;
        self.deny(Vec::new())?;
        self.look_at_last_values()?;
        self.say_all();
        sleep(Duration::from_secs(120)).await;
        let waiting = self.broker.waiting();
        if waiting.messages + waiting.bytes + waiting.away_bytes > 0 || waiting.clients != self.client_links.len() {
            return Err(format!("at rest there waits {waiting:?} of {} clients", self.client_links.len()));
        }
        self.judge()
    }

    /// Denies the reader some topics, where clients are users. A bus with a defect takes no note of it.
    fn deny(&mut self, denied: Vec<&'static str>) -> Result<(), String> {
        let Some(rights) = &mut self.rights else { return Ok(()) };
        let is_less = !denied.is_empty();
        let words = format!("the reader may not read {denied:?}");
        let policy = rights.deny(self.shard.now().mono, denied)?;
        match &self.defect {
            Some(defect) if defect.what == What::Permits && is_less => defect.permit(),
            _ => self.broker.replace_policy(policy),
        }
        self.note(&words);
        Ok(())
    }

    /// All have come, and their subscriptions are granted.
    async fn wait_for_all(&self) -> Result<(), String> {
        for _ in 0..120 {
            sleep(Duration::from_secs(1)).await;
            if self.subscribers.iter().all(|(_, subscriber)| subscriber.borrow().is_granted) {
                return Ok(());
            }
        }
        Err("not all have come in two minutes".to_owned())
    }

    fn act(&mut self) {
        let act = self.choices.below(10);
        if act < 6 {
            let count = self.choices.between(1, 30);
            (0..count).for_each(|_| self.say_one());
            return self.note(&format!("{count} values"));
        }
        let faulty: Vec<usize> = (0..self.client_links.len()).filter(|at| self.client_links[*at].has_faults).collect();
        let at = self.choices.pick(&faulty);
        let hold = self.choices.millis(100, 20_000);
        let link = self.client_links[at].link.borrow().clone();
        let Some(link) = link else { return };
        match act {
            6 | 7 => link.cut(),
            8 => link.vanish(),
            _ => link.hold(hold),
        }
        self.faults += 1;
        self.note(&format!(
            "client {at}: {}",
            ["cut", "cut", "gone without a word", "held"][usize::try_from(act - 6).unwrap_or(0)]
        ));
        // One that reads slowly, too: it is not cut, so that its gaps can be counted.
        if self.choices.chance(50) {
            let client_links = self.client_links.iter().zip(&self.subscribers);
            client_links.filter(|(_, (_, subscriber))| subscriber.borrow().kind == Kind::All).for_each(
                |(client_link, _)| {
                    client_link.link.borrow().iter().for_each(|link| link.hold(Duration::from_secs(4)));
                },
            );
        }
    }

    fn say_one(&mut self) {
        let publisher = self.choices.pick(&[0, 1, 2]);
        let (session, publisher, topics) = &self.publishers[publisher];
        let topic = usize::try_from(self.choices.below(topics.len() as u64)).unwrap_or(0);
        let (topic, qos) = &topics[topic];
        publisher.borrow_mut().say(session, topic, *qos);
    }

    /// The last value of each topic, whatever became of those before.
    fn say_all(&self) {
        for (session, publisher, topics) in &self.publishers {
            topics.iter().for_each(|(topic, qos)| publisher.borrow_mut().say(session, topic, *qos));
        }
    }

    /// At rest every connected subscriber has been sent the last value of each topic, whatever had no room in its queue.
    fn look_at_last_values(&self) -> Result<(), String> {
        for (topic, qos) in self.publishers.iter().flat_map(|(_, _, topics)| topics) {
            let expect = self.broker.value(topic);
            for (name, subscriber) in &self.subscribers {
                let subscriber = subscriber.borrow();
                let filter = subscriber.kind.filter();
                // A session that is kept gets no QoS 0 messages while its client is away.
                // A reader gets what it may read again with the next value.
                let misses = match subscriber.kind {
                    Kind::Persistent => *qos == Qos::AtMostOnce,
                    Kind::Reader => self.rights.is_some(),
                    Kind::Witness
                    | Kind::Once
                    | Kind::Newest
                    | Kind::Deltas
                    | Kind::Gathered
                    | Kind::All
                    | Kind::Throttled => false,
                };
                let wants = Filter::new(filter).is_ok_and(|filter| filter.matches(topic)) && !misses;
                if wants && subscriber.last.get(topic) != expect.as_ref() {
                    let last = subscriber.last.get(topic).map(|value| value.len());
                    return Err(format!("{name}, {:?}, has not the last value of {topic}: {last:?}", subscriber.kind));
                }
            }
        }
        Ok(())
    }

    fn look_at_limits(&self) -> Result<(), String> {
        let waiting = self.broker.waiting();
        let most = self.client_links.len() * (2 * self.queue_bytes + BESIDES_BYTES);
        if waiting.bytes > most || waiting.away_bytes > self.client_links.len() * AWAY_BYTES {
            return Err(format!("more waits than may: {waiting:?}"));
        }
        Ok(())
    }

    fn judge(&self) -> Result<Summary, String> {
        let publishers: Vec<_> =
            self.publishers.iter().map(|(_, publisher, topics)| (publisher.borrow(), topics)).collect();
        let published: Vec<_> = publishers.iter().map(|(publisher, topics)| Published { publisher, topics }).collect();
        let subscribers: Vec<_> = self.subscribers.iter().map(|(name, one)| (name.clone(), one.borrow())).collect();
        let looked: Vec<_> = subscribers.iter().map(|(name, one)| (name.clone(), &**one)).collect();
        check(&self.broker, &published, &looked)?;
        let readers = || looked.iter().filter(|(_, one)| one.kind == Kind::Reader);
        if let Some(rights) = &self.rights {
            for (topic, heard) in readers().flat_map(|(_, one)| &one.heard) {
                heard.iter().try_for_each(|heard| rights.check(topic, heard))?;
            }
        }
        let heard = || subscribers.iter().flat_map(|(_, one)| one.heard.values().flatten());
        Ok(Summary {
            published: publishers.iter().flat_map(|(one, _)| one.said.values()).map(|count| u64::from(*count)).sum(),
            deltas: publishers.iter().map(|(one, _)| one.deltas()).sum(),
            heard: heard().count() as u64,
            lost: heard().map(|heard| u64::from(heard.lost)).sum(),
            faults: self.faults,
            changes: self.rights.as_ref().map_or(0, Rights::changes),
        })
    }

    #[expect(clippy::print_stdout, reason = "a run that is looked at says what happens")]
    fn note(&self, what: &str) {
        if self.tells {
            println!("{:9.3} s  {what}", self.shard.now().mono.since(tieline_core::Instant::ZERO).as_secs_f64());
        }
    }
}

//! The bus and its ledger over a disk that refuses and takes again, in virtual time: what is acknowledged is there
//! after a power
//! cut at any moment, and once the disk goes on it holds all that the bus knows.

mod alarms;
mod hangs;

use super::handle::{BusHandle, Incoming};
use super::ledger::thread::{ALIVE_EVERY, Batch, News, Writer, limits};
use super::ledger::{LedgerBatches, LedgerState, Opened};
use super::receipts::Receipt;
use super::state::{Bus, Subscriber};
use crate::config;
use crate::control::Commands;
use crate::control::audit::AuditLog;
use crate::history::Recorder;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_core::{Body, Filter, Now, Storage, StorageError, StorageErrorKind, Timestamp, Topic, Update};
use tieline_history::Durability;
use tieline_journal::{Item, Journal, Reader, Seq};
use tieline_ledger::{Image, Kept, Record, Replay, Session};
use tieline_mqtt::{Message, Properties, Qos};
use tieline_net::{Clock, Shard};
use tieline_topics::{Limits, Snapshot};
use tokio::sync::oneshot;

/// Small enough that the ledger is compacted now and then.
const BYTES_MAX: u64 = 64 << 10;
const TOPICS: [&str; 4] = ["a/1", "a/2", "b", "c"];
/// Bytes of what is published to the topic that is pending for no session, and to the others.
const LONG_BYTES: usize = 4000;
const SHORT_BYTES: usize = 10;
/// Filters of the sessions whose clients are away, each subscribed at QoS 2.
const FILTERS: [&str; 2] = ["a/#", "b"];

/// When the sessions went.
const START: Now = Now { utc: Timestamp::from_micros(1_700_000_000_000_000), mono: tieline_core::Instant::ZERO };

/// What a disk does with what is written and synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Takes,
    /// Half of what is appended fits.
    Full,
    /// What is appended cannot be made durable.
    Unsynced,
}

/// The bytes of each file, and how many of them are durable.
type Files = BTreeMap<String, (Vec<u8>, usize)>;

/// A disk in memory.
#[derive(Clone)]
struct Disk(Arc<Mutex<(Mood, Files)>>);

impl Disk {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Mood::Takes, BTreeMap::new()))))
    }

    fn set(&self, mood: Mood) {
        self.0.lock().unwrap().0 = mood;
    }

    /// What is there after a power cut.
    fn cut(&self) -> Self {
        let mut files = self.0.lock().unwrap().1.clone();
        files.values_mut().for_each(|(bytes, durable)| bytes.truncate(*durable));
        Self(Arc::new(Mutex::new((Mood::Takes, files))))
    }

    fn with<T>(
        &self,
        name: &str,
        call: impl FnOnce(Mood, &mut (Vec<u8>, usize)) -> Result<T, StorageErrorKind>,
    ) -> Result<T, StorageError> {
        let (mood, files) = &mut *self.0.lock().unwrap();
        let done = files.get_mut(name).ok_or(StorageErrorKind::Missing).and_then(|file| call(*mood, file));
        done.map_err(|kind| StorageError { kind, message: format!("{kind:?}") })
    }
}

impl Storage for Disk {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        Ok(self.0.lock().unwrap().1.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        self.with(name, |_, (bytes, _)| Ok(bytes.len() as u64))
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        self.with(name, |_, (bytes, _)| {
            let rest = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let count = rest.len().min(out.len());
            out[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.lock().unwrap().1.entry(name.to_owned()).or_default();
        self.with(name, |mood, (file, _)| {
            let fits = if mood == Mood::Full { bytes.len() / 2 } else { bytes.len() };
            file.extend_from_slice(&bytes[..fits]);
            if mood == Mood::Full { Err(StorageErrorKind::Full) } else { Ok(()) }
        })
    }

    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        self.with(name, |mood, (bytes, durable)| {
            if mood == Mood::Unsynced {
                return Err(StorageErrorKind::Io);
            }
            *durable = bytes.len();
            Ok(())
        })
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        self.with(name, |_, (bytes, durable)| {
            bytes.truncate(usize::try_from(len).unwrap());
            *durable = bytes.len().min(*durable);
            Ok(())
        })
    }

    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        self.0.lock().unwrap().1.remove(name);
        Ok(())
    }
}

/// What the ledger says after a power cut.
fn replayed(disk: &Disk) -> Image {
    let disk = disk.cut();
    let (journal, found) = Journal::open(disk.clone(), limits(BYTES_MAX), Seq(0), Timestamp::default()).unwrap();
    let last = journal.last();
    let mut reader = Reader::new(disk, Seq(last.next().since(Seq(found.records))));
    let mut replay = Replay::default();
    while let Some(item) = reader.next(last).unwrap() {
        let Item::Record { payload, .. } = item else { panic!("the ledger is damaged: {item:?}") };
        replay.handle_record(payload).unwrap();
    }
    replay.finish()
}

/// A message, and what its publisher was told.
struct Published {
    number: u32,
    topic: &'static str,
    qos: Qos,
    retain: bool,
    /// Whether it has no bytes: it takes the topic's value away.
    clears: bool,
    hears: oneshot::Receiver<bool>,
    acknowledged: Option<bool>,
}

fn message(now: Now, topic: &str, payload: bytes::Bytes) -> Message {
    Message { topic: Topic::new(topic).unwrap(), payload, properties: Properties::default(), received: now.mono }
}

/// The bus, the ledger's thread as a machine, and the disk.
struct World {
    /// Goes first, or the bus would wait for it when it ends.
    orders: Receiver<Option<Batch>>,
    bus: Bus,
    writer: Writer<Disk>,
    /// Whether the disk says nothing at all.
    hangs: bool,
    news: Receiver<News>,
    disk: Disk,
    now: Now,
    at: std::time::Instant,
    published: Vec<Published>,
    _rest: (BusHandle, Incoming, tempfile::TempDir),
}

impl World {
    fn new() -> Self {
        Self::restored(START)
    }

    /// What was there at `START`, taken up at another time.
    fn restored(at: Now) -> Self {
        let disk = Disk::new();
        let now = START;
        let (mut journal, _) = Journal::open(disk.clone(), limits(BYTES_MAX), Seq(0), now.utc).unwrap();
        let mut bytes = Vec::new();
        Record::begin(&mut bytes);
        for (number, filter) in (1..).zip(FILTERS) {
            let (client, away_since) = (format!("c{number}"), Some(now.utc));
            let session = Session { number, client, user: None, stamp: None, expiry_s: 3600, away_since, will: None };
            Record::Session(session).emit(&mut bytes);
            let (filter, properties) = (filter.to_owned(), bytes::Bytes::new());
            Record::Subscribed { session: number, filter, options: 2, properties, due: false }.emit(&mut bytes);
        }
        journal.append(&bytes).unwrap();
        journal.sync().unwrap();
        drop(journal);
        Self::over(disk, at)
    }

    /// What a disk has, taken up.
    fn over(disk: Disk, at: Now) -> Self {
        let now = at;
        let (journal, _) = Journal::open(disk.clone(), limits(BYTES_MAX), Seq(0), now.utc).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = config::from_text("node.toml", "", folder.path()).unwrap();
        let (handle, incoming) = BusHandle::new();
        let audit = AuditLog::start(folder.path(), config.audit).unwrap();
        let commands = Commands::new(&config, [], audit, handle.tells()).unwrap();
        let recorder = Recorder::new(&config.history, None, HashSet::new(), handle.stored());
        let shard = Shard::new(Clock::start(), Arc::default());
        let mut bus = Bus::new(&shard, Limits::default(), recorder, commands);
        let (give, orders) = channel();
        bus.set_alarms(at, alarms::config(), Vec::new());
        let opened = Opened { give, bytes: journal.bytes(), bytes_max: BYTES_MAX, lost: None };
        bus.restore(at, replayed(&disk), LedgerBatches::new(Some(opened)));
        let (tell, news) = channel();
        let at = std::time::Instant::now();
        let writer = Writer {
            journal: Some(journal),
            open: Box::new(|| Err(StorageError { kind: StorageErrorKind::Io, message: "it is open".into() })),
            durability: Durability::Synced,
            log: None,
            orders: channel().1,
            tell: Box::new(move |news| tell.send(news).unwrap()),
            now: Box::new(move || now.utc),
            begun: None,
            retry_at: None,
            alive_at: at + ALIVE_EVERY,
        };
        let (published, _rest) = (Vec::new(), (handle, incoming, folder));
        Self { orders, bus, writer, hangs: false, news, disk, now, at, published, _rest }
    }

    /// Publishes as a client does. A message without bytes takes the topic's value away.
    fn publish(&mut self, topic: &'static str, qos: Qos, retain: bool, bytes: usize) {
        let Self { bus, now, published, .. } = self;
        let number = u32::try_from(published.len()).unwrap();
        let digits = number.to_string();
        let text = "0".repeat(bytes.saturating_sub(digits.len())) + if bytes == 0 { "" } else { &digits };
        let payload = bytes::Bytes::from(text);
        let message = message(*now, topic, payload);
        let update = Update { topic: message.topic.clone(), body: Body::read(message.payload.clone()) };
        bus.begin_act();
        bus.apply_message(*now, message, &update.body, qos, retain, None).unwrap();
        let batch_number = bus.end_act(*now).unwrap_or(0);
        let (answer, hears) = oneshot::channel();
        bus.record(*now, &update, Some(Receipt::Call { answer, batch_number }));
        published.push(Published { number, topic, qos, retain, clears: bytes == 0, hears, acknowledged: None });
    }

    /// A turn of the bus, and of the thread.
    fn turn(&mut self) {
        self.bus.write_ledger(self.now);
        while !self.hangs
            && let Ok(order) = self.orders.try_recv()
        {
            self.writer.handle(&order.unwrap(), self.at);
        }
        self.take_news();
    }

    fn pass(&mut self, time: Duration) {
        (self.now, self.at) = (self.now.later(time), self.at + time);
        if !self.hangs {
            self.writer.handle_timeout(self.at);
        }
        self.take_news();
    }

    fn take_news(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.bus.handle_ledger(self.now, news);
        }
        for message in &mut self.published {
            message.acknowledged = message.acknowledged.or_else(|| message.hears.try_recv().ok());
        }
    }

    /// All that was promised is there after a power cut at this moment.
    fn check_acknowledged(&self) {
        let image = replayed(&self.disk);
        let number_of = |payload: &[u8]| std::str::from_utf8(payload).unwrap().parse::<u32>().ok();
        for (session, filter) in (1..).zip(FILTERS) {
            let filter = Filter::new(filter).unwrap();
            let messages = image.sessions[&session].pending.values().filter_map(|pending| pending.message.as_ref());
            let pending: HashSet<u32> = messages.filter_map(|message| number_of(&message.payload)).collect();
            for message in self.published.iter().filter(|message| message.acknowledged == Some(true)) {
                let is_pending = filter.matches(&Topic::new(message.topic).unwrap())
                    && message.qos != Qos::AtMostOnce
                    && !message.clears;
                assert!(
                    !is_pending || pending.contains(&message.number),
                    "{} was promised to {session}",
                    message.number
                );
            }
        }
        for topic in TOPICS {
            let of_topic = || self.published.iter().filter(move |message| message.topic == topic);
            let promised =
                of_topic().rfind(|m| m.acknowledged == Some(true) && m.retain && !m.clears && m.qos != Qos::AtMostOnce);
            let Some(promised) = promised else { continue };
            let found = image.values.get(topic).and_then(|value| number_of(&value.message.payload));
            // What came later may be there, or have taken it away.
            let cleared = of_topic().any(|message| message.number > promised.number && message.clears);
            assert!(found.map_or(cleared, |number| number >= promised.number), "{topic}: {found:?}");
        }
    }

    /// What the bus knows, as the ledger would say it.
    fn truth(&mut self) -> Image {
        let bus = &mut self.bus;
        let mut all = Snapshot::new(Filter::new("#").unwrap());
        let topics: Vec<_> = bus.tree.next(&mut all, 1000).iter().map(|view| view.id).collect();
        let values = topics.into_iter().filter_map(|topic| bus.value_of(self.now, topic));
        let values = values.map(|value| (value.message.topic.clone(), value)).collect();
        let kept = |subscriber: &Subscriber| match subscriber {
            Subscriber::Away(away) => away.kept.as_deref().map(|kept: &Kept| (away.number, kept.clone())),
            Subscriber::Client(_) | Subscriber::Group(_) | Subscriber::Feed(_) => None,
        };
        let sessions = bus.subscribers.iter().filter_map(|(_, subscriber)| kept(subscriber)).collect();
        let (alarms, alarm_occurrence) = (alarms::kept(bus), bus.alarming.as_ref().unwrap().occurrence());
        let lock_numbers = bus.locks.reserved();
        Image { alive: Timestamp::default(), values, sessions, lock_numbers, alarms, alarm_occurrence }
    }

    /// The disk takes all from here on: in the end it holds what the bus knows, and promises are made.
    fn recover(&mut self) {
        self.disk.set(Mood::Takes);
        for _ in 0..20 {
            self.pass(Duration::from_millis(1100));
            self.turn();
        }
        assert_eq!(self.bus.ledger_status(self.now).state, LedgerState::Good);
        assert!(self.published.iter().all(|message| message.acknowledged.is_some()), "who waited was told");
        let held = Image { alive: Timestamp::default(), ..replayed(&self.disk) };
        assert_eq!(held, self.truth());
        self.publish("b", Qos::ExactlyOnce, true, SHORT_BYTES);
        self.turn();
        assert_eq!(self.published.last().unwrap().acknowledged, Some(true));
        self.check_acknowledged();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(&'static str, u8, bool, usize),
    Turn,
    Pass(u64),
    Mood(Mood),
}

fn any_step() -> impl Strategy<Value = Step> {
    let mood = prop_oneof![2 => Just(Mood::Takes), 1 => Just(Mood::Full), 1 => Just(Mood::Unsynced)];
    prop_oneof![
        8 => (0..TOPICS.len(), 0u8..3, any::<bool>(), 0..8).prop_map(|(topic, qos, retain, one_in)| {
            let topic = TOPICS[topic];
            let bytes = if topic == "c" { LONG_BYTES } else { SHORT_BYTES };
            let clears = one_in == 0;
            Step::Publish(topic, qos, retain || clears, if clears { 0 } else { bytes })
        }),
        8 => Just(Step::Turn),
        3 => (1u64..3000).prop_map(Step::Pass),
        1 => mood.prop_map(Step::Mood),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_was_refused_when_all_is_there_in_the_end(steps in proptest::collection::vec(any_step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Publish(topic, qos, retain, bytes) => {
                    world.publish(topic, Qos::from_bits(qos).unwrap(), retain, bytes);
                }
                Step::Turn => world.turn(),
                Step::Pass(ms) => world.pass(Duration::from_millis(ms)),
                Step::Mood(mood) => world.disk.set(mood),
            }
            world.check_acknowledged();
        }
        world.recover();
    }
}

/// What is said and refused while the disk takes nothing, and that it is over by itself.
#[test]
fn a_disk_that_refuses_and_takes_again() {
    for (mood, name) in [(Mood::Full, "disk_full"), (Mood::Unsynced, "failed")] {
        let mut world = World::new();
        let state = |world: &World| world.bus.ledger_status(world.now).state.name();
        let acknowledged =
            |world: &World| world.published.iter().map(|message| message.acknowledged).collect::<Vec<_>>();
        world.publish("a/1", Qos::AtLeastOnce, true, SHORT_BYTES);
        world.turn();
        assert_eq!((state(&world), acknowledged(&world)), ("ok", vec![Some(true)]));
        world.disk.set(mood);
        world.publish("a/1", Qos::ExactlyOnce, true, SHORT_BYTES);
        assert_eq!(acknowledged(&world)[1], None, "it waits for the disk");
        world.turn();
        world.publish("b", Qos::AtLeastOnce, false, SHORT_BYTES);
        assert_eq!((state(&world), &acknowledged(&world)[1..]), (name, &[Some(false), None][..]));
        world.take_news();
        assert_eq!(acknowledged(&world)[2], Some(false), "it is refused at once");
        assert!(world.bus.ledger_status(world.now).refused >= 2);
        // It is tried once a second, and not before.
        for _ in 0..5 {
            world.pass(Duration::from_secs(1));
            world.turn();
            assert_eq!(state(&world), name);
        }
        world.disk.set(Mood::Takes);
        world.pass(Duration::from_millis(900));
        assert_eq!(state(&world), name);
        world.pass(Duration::from_millis(200));
        assert_eq!(state(&world), "mending");
        world.publish("a/2", Qos::AtLeastOnce, true, SHORT_BYTES);
        world.take_news();
        assert_eq!(acknowledged(&world)[1..], [Some(false); 3], "nothing is promised before all is said");
        world.turn();
        assert_eq!(state(&world), "ok");
        world.recover();
        // What was refused at QoS 2 went to nobody; the rest is owed in memory, and on the disk again.
        let pending = |session: u64| replayed(&world.disk).sessions[&session].pending.len();
        assert_eq!((pending(1), pending(2)), (2, 2), "a/1, a/2; b, b");
    }
}

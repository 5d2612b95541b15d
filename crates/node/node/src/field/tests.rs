//! Shards whose tables of devices change, in virtual time: what stays is not touched, and what comes of any changes is what a
//! start with the last table gives.

use super::shard::{Settings, serve};
use super::{ChangeCounts, Changing, DeviceTable, FieldInput, FieldReport, Leaving, Positions, TableChange};
use crate::config::{DeviceConfig, Numbered, from_text};
use crate::trace::TraceDisk;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Command, CommandMode, CommandOutcome, DeviceId, Instant, PointId, Topic, Value};
use tieline_net::{Clock, Counters, Shard};
use tieline_transport::CertificateCache;
use tokio::sync::{mpsc, oneshot};

/// What a bus would see of some shards.
struct World {
    table: DeviceTable,
    inputs: Vec<mpsc::Sender<FieldInput>>,
    reports: mpsc::Receiver<FieldReport>,
    /// Values by topic; of documents their text.
    tree: BTreeMap<String, String>,
    /// Each update, in their order: its topic, when it came, and the value of a point.
    told: Vec<(String, Duration, String)>,
    began: tokio::time::Instant,
    outcomes: Vec<(u64, CommandOutcome)>,
    links: BTreeMap<DeviceId, bool>,
}

impl World {
    /// Starts shards with these devices.
    async fn start(folder: &Path, devices: &[DeviceConfig], shards: usize) -> Self {
        let TableChange { shards: parts, table, counts } = DeviceTable::default().change_to(devices, false, shards);
        assert_eq!(counts, ChangeCounts { added: devices.len(), ..ChangeCounts::default() });
        let (sender, reports) = mpsc::channel(16);
        let mut inputs = Vec::new();
        for (part, number) in parts.into_iter().zip(0..) {
            assert!(part.leave.is_empty() && part.replace.is_empty());
            let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
            let (input, incoming) = mpsc::channel(16);
            let senders = [sender.clone(), sender.clone(), sender.clone()];
            let (ready, started) = oneshot::channel();
            let traces = TraceDisk::start(folder, false).unwrap();
            let (certificates, positions) = (Arc::new(CertificateCache::default()), Positions::none());
            let set = Settings { number, certificates, traces, positions };
            tokio::task::spawn_local(async move {
                serve(shard, set, part.start, (incoming, senders), |result| drop(ready.send(result))).await;
            });
            started.await.unwrap().unwrap();
            inputs.push(input);
        }
        let (tree, told, outcomes, links) = (BTreeMap::new(), Vec::new(), Vec::new(), BTreeMap::new());
        let began = tokio::time::Instant::now();
        Self { table, inputs, reports, tree, told, began, outcomes, links }
    }

    fn take(&mut self, report: FieldReport, staying: &BTreeSet<Topic>) {
        for update in report.updates {
            let value = match &update.body {
                Body::Point(point) => format!("{:?} {:?}", point.value, point.quality),
                // What is told of many things at once has times in it.
                Body::Opaque(_) => String::new(),
                Body::Published(_) => panic!("{update:?}"),
            };
            self.tree.insert(update.topic.to_string(), value.clone());
            self.told.push((update.topic.to_string(), self.began.elapsed(), value));
        }
        for topic in report.gone.into_iter().filter(|topic| !staying.contains(topic)) {
            self.tree.remove(&topic.to_string());
        }
        self.outcomes.extend(report.outcomes.into_iter().map(|(_, id, outcome)| (id, outcome)));
        self.links.extend(report.links);
    }

    /// Lets time pass, and takes what is reported.
    async fn pass(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        loop {
            let report = tokio::select! {
                report = self.reports.recv() => report.unwrap(),
                () = tokio::time::sleep_until(end) => return,
            };
            self.take(report, &BTreeSet::new());
        }
    }

    /// Goes over to another table.
    async fn change(&mut self, devices: &[DeviceConfig]) -> ChangeCounts {
        let TableChange { shards, table, counts } = self.table.change_to(devices, false, self.inputs.len());
        let staying = topics_of(&table);
        let (barrier, mut passed) = mpsc::channel(1);
        for (input, shard) in self.inputs.iter().zip(&shards) {
            let leaving = Leaving { devices: shard.leave.clone(), barrier: barrier.clone() };
            input.send(FieldInput::Leave(leaving)).await.unwrap();
        }
        drop(barrier);
        loop {
            tokio::select! {
                biased;
                report = self.reports.recv() => self.take(report.unwrap(), &staying),
                _ = passed.recv() => break,
            }
        }
        let mut waiting = Vec::new();
        for (input, shard) in self.inputs.iter().zip(shards) {
            let (done, answer) = oneshot::channel();
            let barrier = mpsc::channel(1).0;
            let changing = Changing { replace: shard.replace, start: shard.start, done, barrier };
            input.send(FieldInput::Change(changing)).await.unwrap();
            waiting.push(answer);
        }
        for answer in &mut waiting {
            loop {
                tokio::select! {
                    biased;
                    report = self.reports.recv() => self.take(report.unwrap(), &staying),
                    failed = &mut *answer => {
                        assert_eq!(failed.unwrap(), []);
                        break;
                    }
                }
            }
        }
        self.table = table;
        counts
    }

    async fn command(&self, device: &str, revision: u32, command_id: u64, point: u32) {
        let placed = self.table.places().iter().find(|placed| placed.device.config.name == device).unwrap();
        let command = Command { point: PointId(point), value: Value::Float(7.0), mode: CommandMode::DirectOperate };
        let (device, until) = (placed.device.id, Instant(u64::MAX));
        let input = FieldInput::Command { device, revision, command_id, command, until };
        self.inputs[placed.shard].send(input).await.unwrap();
    }
}

fn topics_of(table: &DeviceTable) -> BTreeSet<Topic> {
    let topics = table.places().iter().flat_map(|placed| {
        let Numbered { config, .. } = &placed.device;
        let named = if config.publish_points { &*config.points } else { &[] };
        let all = config.publish_all.then_some("all");
        let names = named.iter().map(|point| point.name.as_str()).chain(all);
        let own: Vec<_> = names.map(|name| config.topic.join(name).unwrap()).collect();
        let system =
            ["state", "stats"].map(|leaf| Topic::new(&format!("$SYS/devices/{}/{leaf}", config.topic)).unwrap());
        own.into_iter().chain(system)
    });
    topics.collect()
}

/// Runs a test in virtual time.
fn play<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

const LISTS: [&str; 3] = [
    "name,type,value,scale,writable\na,float,5,,true\nb,float,6,,\n",
    "name,type,value,scale,writable\nb,float,6,,\na,float,5,2,true\nc,bool,true,,\n",
    "name,type,value,scale,writable\na,float,5,3,true\nb,float,6,,\n",
];

fn write_lists(folder: &Path) {
    for (list, number) in LISTS.iter().zip(0..) {
        std::fs::write(folder.join(format!("{number}.csv")), list).unwrap();
    }
}

fn read(folder: &Path, text: &str) -> Vec<DeviceConfig> {
    from_text("t.toml", text, folder).unwrap().devices
}

/// One device of any table.
#[derive(Clone, Debug)]
struct Any {
    name: u8,
    topic: u8,
    list: u8,
    every: u8,
    network: Option<u8>,
    priority: Option<u8>,
    more: u8,
}

impl Any {
    fn toml(&self) -> String {
        let Self { name, topic, list, every, network, priority, more } = self;
        let network = network.map(|network| format!("network='n{network}'\n")).unwrap_or_default();
        let priority = priority.map(|at| ["protection", "monitoring", "bulk"][usize::from(at)]);
        let priority = priority.map(|word| format!("priority='{word}'\n")).unwrap_or_default();
        let more = ["", "publish=['all']\n", "publish=['points']\n", "simulated.delay='30ms'\n"][usize::from(*more)];
        format!(
            "[device.d{name}]\nprotocol='simulated'\ntopic='t/{topic}'\npoints='{list}.csv'\n\
             poll={{every='{every}s'}}\n{network}{priority}{more}"
        )
    }
}

fn any_device() -> impl Strategy<Value = Any> {
    let parts = (0..6_u8, 0..8_u8, 0..3_u8, 1..4_u8, prop::option::of(0..2_u8), prop::option::of(0..3_u8), 0..4_u8);
    parts.prop_map(|(name, topic, list, every, network, priority, more)| Any {
        name,
        topic,
        list,
        every,
        network,
        priority,
        more,
    })
}

/// A table in which names and topics are there once.
fn any_table() -> impl Strategy<Value = String> {
    prop::collection::vec(any_device(), 0..7).prop_map(|devices| {
        let (mut names, mut topics) = (BTreeSet::new(), BTreeSet::new());
        let once = devices.into_iter().filter(|device| names.insert(device.name) && topics.insert(device.topic));
        let devices: String = once.map(|device| device.toml()).collect();
        format!("[network.n0]\n[network.n1]\nin_flight=1\n{devices}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_changes_end_as_a_start_with_the_last_table(tables in prop::collection::vec((any_table(), 0..3000_u64), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        write_lists(folder.path());
        let tables: Vec<_> = tables.iter().map(|(text, ms)| (read(folder.path(), text), *ms)).collect();
        play(async {
            let mut world = World::start(folder.path(), &tables[0].0, 2).await;
            for (devices, ms) in &tables {
                let counts = world.change(devices).await;
                assert_eq!(counts.added + counts.changed + counts.unchanged, devices.len());
                world.pass(Duration::from_millis(*ms)).await;
            }
            let (last, _) = tables.last().unwrap();
            let again = world.change(last).await;
            assert_eq!(again, ChangeCounts { unchanged: last.len(), ..ChangeCounts::default() });
            world.pass(Duration::from_secs(20)).await;
            let mut fresh = World::start(folder.path(), last, 2).await;
            fresh.pass(Duration::from_secs(20)).await;
            assert_eq!(world.tree, fresh.tree);
            let named = |world: &World| -> BTreeMap<String, bool> {
                let places = world.table.places().iter().map(|placed| &placed.device);
                places.map(|device| (device.config.name.clone(), world.links[&device.id])).collect()
            };
            assert_eq!(named(&world), named(&fresh));
        });
    }
}

/// 10,000 devices, of which ten change: all that is told of the others, and when, is what is told without the change.
#[test]
fn ten_of_ten_thousand_change_and_the_others_notice_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_lists(folder.path());
    let table = |changed: bool| {
        let device = |number: usize| {
            let is_one = changed && number % 1_000 == 7;
            // Some change in place, some are started again, and one is another device.
            let list = if is_one && number < 4_000 { 2 } else { 0 };
            let more = if is_one && number >= 4_000 { "simulated.delay='9ms'\n" } else { "" };
            let name = if is_one && number == 9_007 { "other".to_owned() } else { format!("d{number}") };
            format!("[device.{name}]\nprotocol='simulated'\npoints='{list}.csv'\npoll={{every='60s'}}\n{more}")
        };
        read(folder.path(), &(0..10_000).map(device).collect::<String>())
    };
    let (before, after) = (table(false), table(true));
    let run = |change: Option<Vec<DeviceConfig>>| {
        let mut told = Vec::new();
        play(async {
            let mut world = World::start(folder.path(), &before, 2).await;
            world.pass(Duration::from_millis(90_123)).await;
            if let Some(after) = change {
                let counts = world.change(&after).await;
                let expect = ChangeCounts { added: 1, removed: 1, changed: 9, kept_connection: 4, unchanged: 9_990 };
                assert_eq!(counts, expect);
            }
            world.pass(Duration::from_secs(120)).await;
            told = world.told;
        });
        let is_steady = |topic: &str| {
            let name = topic.trim_start_matches("$SYS/devices/d").trim_start_matches('d');
            let number: Option<usize> = name.split('/').next().and_then(|number| number.parse().ok());
            number.is_some_and(|number| number % 1_000 != 7)
        };
        // The order of different devices may be another one.
        told.retain(|(topic, ..)| is_steady(topic));
        told.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        told
    };
    let (plain, changed) = (run(None), run(Some(after)));
    assert!(plain.len() > 9_990 * 3, "{}", plain.len());
    let zipped = plain.iter().zip(&changed).find(|(a, b)| a != b);
    assert_eq!(zipped, None);
    assert_eq!(plain.len(), changed.len());
}

#[test]
fn a_command_by_another_list_is_not_sent_and_one_that_is_out_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    write_lists(folder.path());
    let table = |list: u8, more: &str| {
        let text = format!(
            "[device.d]\nprotocol='simulated'\npoints='{list}.csv'\npoll.every='1s'\nsimulated.delay='3s'\nsimulated.timeout='20s'\n"
        );
        read(folder.path(), &format!("{text}{more}"))
    };
    play(async {
        let mut world = World::start(folder.path(), &table(0, ""), 1).await;
        world.pass(Duration::from_secs(10)).await;
        world.command("d", 0, 1, 0).await;
        // In place: what is out goes on.
        let counts = world.change(&table(2, "")).await;
        assert_eq!((counts.changed, counts.kept_connection), (1, 1));
        world.command("d", 0, 2, 0).await;
        world.pass(Duration::from_secs(5)).await;
        let reasons = |world: &World| -> Vec<_> {
            let reason = |outcome: &CommandOutcome| outcome.as_ref().err().map(|why| (why.reason, why.maybe_operated));
            world.outcomes.iter().map(|(id, outcome)| (*id, reason(outcome))).collect()
        };
        assert_eq!(reasons(&world), [(2, Some(("reconfigured", false))), (1, None)]);
        world.command("d", 1, 3, 0).await;
        world.pass(Duration::from_secs(1)).await;
        // The device is another one: what is out may have been carried out.
        world.change(&table(1, "")).await;
        world.pass(Duration::from_secs(9)).await;
        assert_eq!(reasons(&world).last(), Some(&(3, Some(("reconfigured", true)))));
    });
}

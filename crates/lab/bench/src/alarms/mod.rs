//! Alarms of a node: how soon a client is told of one, and how soon of many at once.
//!
//! ```text
//!  value ─▶ bus ─▶ alarm ─▶ ledger (disk) ─▶ $alarms/TOPIC/high ─▶ subscriber        ours
//!  value, retained, QoS 1 ─▶ bus ─▶ ledger (disk) ─▶ acknowledgement                  floor
//! ```
//!
//! A node runs in this process, clients come over TCP. The floor is what the same node needs for a retained value at QoS 1, which waits for
//! the same disk and makes no alarm: both take turns, value by value. Before, the engine alone is measured: time and memory of so many quiet
//! alarms, beside a map from the same topics to their limits.
//!
//! Read first: this file, then `engine.rs`.

mod engine;

use crate::latency::{histogram, quantile_ms};
use crate::report::Progress;
use crate::rounds::{median_ratio, short};
use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::future::Future;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_client::{MqttClient, MqttOptions, Qos, Subscription};
use tieline_core::Topic;
use tieline_node::{Node, config};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("alarms", "alarms"),
    ("start s", "start_s"),
    ("bytes a quiet alarm", "bytes_per_alarm"),
    ("ns an update", "ns_per_update"),
    ("floor ns", "floor_ns_per_update"),
    ("told ms p50", "told_ms_p50"),
    ("p99", "told_ms_p99"),
    ("floor ms p50", "floor_ms_p50"),
    ("p99", "floor_ms_p99"),
    ("to floor", "ratio_to_floor"),
    ("burst", "burst"),
    ("all told ms after the last", "burst_told_ms"),
];

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Alarms that are raised one by one.
const SINGLE: usize = 500;
const RULES: &str = "topic,kind,limit,hysteresis,priority,text\nplant/+/current,high,400,10,high,overload\n";

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Quiet alarms of the engine, one row each.
    pub alarms: Vec<usize>,
    /// Alarms that are raised at once.
    pub burst: usize,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Quiet alarms of the engine.
    pub alarms: usize,
    /// Alarms that were raised at once.
    pub burst: usize,
    /// What was measured; absent where an alarm was not told.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Of the engine.
    #[serde(flatten)]
    pub engine: engine::Figures,
    /// From the publication of a value until a subscriber has the alarm; half are no longer.
    pub told_ms_p50: f64,
    /// 99 of 100.
    pub told_ms_p99: f64,
    /// Of the floor, until the acknowledgement.
    pub floor_ms_p50: f64,
    /// 99 of 100.
    pub floor_ms_p99: f64,
    /// The median of alarms over that of the floor, pair by pair.
    pub ratio_to_floor: f64,
    /// From the last value of a burst until a subscriber has all of its alarms.
    pub burst_told_ms: f64,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the node does not start.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let (alarms, burst) = (&options.alarms, options.burst);
    ensure!(alarms.iter().all(|alarms| (1..=1_000_000).contains(alarms)), "alarms are 1 to 1,000,000");
    ensure!((1..=100_000).contains(&burst), "a burst is 1 to 100,000");
    let row = |alarms: &usize| {
        progress.show(&format!("alarms: {alarms}"));
        let figures = measure(*alarms, burst);
        let invalid = figures.as_ref().err().map(|error| format!("{error:#}"));
        Row { alarms: *alarms, burst, figures: figures.ok(), invalid }
    };
    Ok(alarms.iter().map(row).collect())
}

fn measure(alarms: usize, burst: usize) -> Result<Figures> {
    let engine = engine::measure(alarms)?;
    let folder = TempDir::new().context("a folder for the node")?;
    std::fs::write(folder.path().join("alarms.csv"), RULES)?;
    let text = "[http]\nlisten = \"127.0.0.1:0\"\n[mqtt]\nlisten = \"127.0.0.1:0\"\n[alarm]\nrules = \"alarms.csv\"\n";
    let node = Node::start(&config::from_text("bench.toml", text, folder.path())?, folder.path())?;
    let address = node.mqtt().to_string();
    let (told, floor, burst_told) = block_on(async {
        let mut clients = Clients::connect(&address).await?;
        let (told, floor) = clients.one_by_one().await?;
        Ok((told, floor, clients.burst(burst).await?))
    })?;
    let (tolds, floors) = (delays(&told)?, delays(&floor)?);
    Ok(Figures {
        engine,
        told_ms_p50: quantile_ms(&tolds, 0.5),
        told_ms_p99: quantile_ms(&tolds, 0.99),
        floor_ms_p50: quantile_ms(&floors, 0.5),
        floor_ms_p99: quantile_ms(&floors, 0.99),
        ratio_to_floor: short(median_ratio(&milliseconds(&told), &milliseconds(&floor))),
        burst_told_ms: short(burst_told),
    })
}

fn delays(times: &[Duration]) -> Result<Histogram<u64>> {
    let mut delays = histogram()?;
    times.iter().for_each(|time| delays.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    Ok(delays)
}

fn milliseconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

fn block_on<T>(body: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(body)
}

struct Clients {
    publisher: MqttClient,
    /// Is kept for its subscription.
    _subscriber: MqttClient,
    alarms: Subscription,
}

impl Clients {
    async fn connect(address: &str) -> Result<Self> {
        let publisher = MqttClient::connect(&MqttOptions::new(address)).await?;
        let subscriber = MqttClient::connect(&MqttOptions::new(address)).await?;
        let alarms = subscriber.subscribe("$alarms/#", Qos::AtMostOnce).await?;
        Ok(Self { publisher, _subscriber: subscriber, alarms })
    }

    /// Alarms and floor in turns; the time of each.
    async fn one_by_one(&mut self) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let (mut told, mut floor) = (Vec::with_capacity(SINGLE), Vec::with_capacity(SINGLE));
        for number in 0..SINGLE {
            let began = Instant::now();
            self.publisher.publish(&format!("plant/s{number}/current"), "450", Qos::AtMostOnce, false).await?;
            self.next_alarm(&format!("$alarms/plant/s{number}/current/high")).await?;
            told.push(began.elapsed());
            let began = Instant::now();
            self.publisher.publish(&format!("plant/s{number}/voltage"), "11", Qos::AtLeastOnce, true).await?;
            floor.push(began.elapsed());
        }
        Ok((told, floor))
    }

    /// So many alarms at once; the milliseconds from the last value to the last of them.
    async fn burst(&mut self, count: usize) -> Result<f64> {
        let topic = |number: usize| Topic::new(&format!("plant/b{number}/current"));
        let topics: Vec<Topic> = (0..count).map(topic).collect::<Result<_, _>>()?;
        let publisher = &self.publisher;
        let publish = async {
            for topic in &topics {
                publisher.begin_publish(topic, "450", Qos::AtMostOnce, false).await?;
            }
            Ok::<_, anyhow::Error>(Instant::now())
        };
        let alarms = &mut self.alarms;
        let read = async {
            let mut got = std::collections::HashSet::new();
            while got.len() < count {
                let next = tokio::time::timeout(PATIENCE, alarms.next()).await;
                let Ok(Some(received)) = next else { bail!("{} of {count} alarms were told", got.len()) };
                got.insert(received.message.topic.clone());
            }
            Ok(Instant::now())
        };
        let (published, read) = tokio::join!(publish, read);
        ensure!(self.alarms.lost() == 0, "{} messages were lost at the subscriber", self.alarms.lost());
        Ok(read?.saturating_duration_since(published?).as_secs_f64() * 1e3)
    }

    async fn next_alarm(&mut self, topic: &str) -> Result<()> {
        let next = tokio::time::timeout(PATIENCE, self.alarms.next()).await;
        let received = next.context("no alarm came")?.context("the subscription ended")?;
        ensure!(*received.message.topic == *topic, "{} came in place of {topic}", received.message.topic);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_alarms_are_told_one_by_one_and_at_once() {
        let rows = run(&Options { alarms: vec![1000], burst: 50 }, &Progress::new(false)).unwrap();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let figures = row.figures.unwrap_or_else(|| panic!("{:?}", row.invalid));
        assert!(figures.told_ms_p99 >= figures.told_ms_p50 && figures.engine.ns_per_update > 0.0, "{figures:?}");
    }
}

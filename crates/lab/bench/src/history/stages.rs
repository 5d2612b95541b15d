//! Processor time of a point in each stage, from the payload of a message to a closed day and to another database, beside the stages
//! of VOLTTRON's historian.
//!
//! Topics have a value each ten seconds of a day that was over long ago, so that the day can be closed. The stages are threads that do
//! nothing else; capture is what the thread of the bus does for a history: it reads a payload and hands the sample over.

use super::series::{micros, topics, value};
use super::{databases, queries::history_cpu_s};
use crate::process::thread_cpu;
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Serialize;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Body, Point, Quality, Timestamp, Topic, Update};
use tieline_history::{HistoryOptions, HistoryWriter};
use tieline_journal::{Sample, Seq};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("stage", "stage"),
    ("points", "points"),
    ("CPU µs a point", "cpu_us_per_point"),
    ("VOLTTRON's stage", "volttron_stage"),
    ("its CPU µs", "volttron_cpu_us_per_point"),
];

/// Samples of a topic: one each ten seconds.
const SAMPLES: u64 = 8640;
/// Batches under way.
const WINDOW: usize = 16;
/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked how much the thread has used that closes a day.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One row: a stage.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is done.
    pub stage: &'static str,
    /// Points that went through it.
    pub points: u64,
    /// Microseconds of a processor for a point; none where there was nothing to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_point: Option<f64>,
    /// What VOLTTRON's historian does at this place: release 9, its own classes, JSON of Python's library, SQLite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volttron_stage: Option<&'static str>,
    /// What it takes for a point, by its own figures on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volttron_cpu_us_per_point: Option<f64>,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// Runs the experiment with about so many points.
///
/// # Errors
/// The disk does not have what it needs.
pub fn run(points: usize, progress: &Progress) -> Result<Vec<Row>> {
    let topics = topics((points as u64 / SAMPLES).clamp(1, 100_000).try_into()?)?;
    let points = topics.len() as u64 * SAMPLES;
    progress.show(&format!("history by stage: {points} points, record"));
    let folder = TempDir::new().context("a folder for the history")?;
    let writer = HistoryWriter::open(folder.path(), HistoryOptions::default())?;
    let capture = record(&writer, &topics)?;
    let (journal, store) = (history_cpu_s("history-journal")?, history_cpu_s("history-store")?);
    progress.show("history by stage: close the day");
    let days = close_day(&writer)? + history_cpu_s("history-store")? - store;
    drop(writer);
    progress.show("history by stage: write to PostgreSQL");
    let forward = databases::cpu_of_forwarding(usize::try_from(points)?)?;
    let row = |stage, seconds: Option<f64>, volttron: Option<(&'static str, f64)>| Row {
        stage,
        points,
        cpu_us_per_point: seconds.map(|seconds| short(seconds * 1e6 / number(points))),
        volttron_stage: volttron.map(|(stage, _)| stage),
        volttron_cpu_us_per_point: volttron.map(|(_, us)| us),
        invalid: None,
    };
    let absent = "PostgreSQL is absent: it is not installed, or this binary has no client of it";
    let invalid = forward.is_none().then(|| absent.to_owned());
    Ok(vec![
        row("capture", Some(capture.as_secs_f64()), Some(("capture", 2.9))),
        row("journal", Some(journal), Some(("insert into the cache, delete", 21.6))),
        row("store", Some(store), Some(("read the cache", 23.0))),
        row("close the day", Some(days), None),
        Row { invalid, ..row("forward to PostgreSQL", forward, Some(("publish", 26.3))) },
    ])
}

/// Records all, a message of each topic each ten seconds; the processor time of who hands them over.
fn record(writer: &HistoryWriter, topics: &[Topic]) -> Result<Duration> {
    let (tell, told) = channel();
    let (mut capture, mut last, mut under_way) = (Duration::ZERO, Seq::default(), 0);
    for second in (0..SAMPLES).map(|sample| sample * 10) {
        let payloads: Vec<(Topic, Bytes)> =
            (0..).zip(topics).map(|(number, topic)| (topic.clone(), payload(number, second))).collect();
        let tell = tell.clone();
        let began = thread_cpu();
        let received = Timestamp::from_micros(micros(0, second));
        let read = |(topic, payload)| Sample::new(received, Update { topic, body: Body::read(payload) });
        let samples = payloads.into_iter().map(read).collect();
        writer.handle().submit(samples, Box::new(move |result| drop(tell.send(result))));
        capture += thread_cpu() - began;
        under_way += 1;
        let is_last = second == (SAMPLES - 1) * 10;
        while under_way >= WINDOW || (is_last && under_way > 0) {
            last = last.max(told.recv_timeout(PATIENCE).context("no receipt came")??);
            under_way -= 1;
        }
    }
    ensure!(writer.handle().wait_stored(last, PATIENCE), "the store did not have it in time");
    Ok(capture)
}

/// A point as its publisher writes it.
pub(super) fn payload(topic: u64, second: u64) -> Bytes {
    let time = Timestamp::from_micros(micros(topic, second));
    let mut text = String::new();
    Point { value: value(topic, second), quality: Quality::GOOD, time }.write_json(&mut text);
    text.into()
}

/// Has the day be closed; the processor time of the thread that does it.
fn close_day(writer: &HistoryWriter) -> Result<f64> {
    let (began, answer) = (Instant::now(), writer.handle().close_days());
    let mut cpu_s: f64 = 0.0;
    loop {
        // The thread ends with the day.
        cpu_s = cpu_s.max(history_cpu_s("history-days")?);
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(Ok(days)) => {
                ensure!(days == 1, "{days} days were closed, expected one");
                return Ok(cpu_s);
            }
            Ok(Err(why)) => anyhow::bail!("the day was not closed: {why}"),
            Err(RecvTimeoutError::Timeout) => ensure!(began.elapsed() < PATIENCE, "the day was not closed in time"),
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the history does not close its days"),
        }
    }
}

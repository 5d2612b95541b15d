//! A day of many points: what it takes to store it, on the disk and of the processor, and how long questions about it take; in chunks,
//! and once the day is closed.
//!
//! The points are a quarter each of temperatures in steps of 0.1, powers in steps of 0.01, doubles with a full mantissa, and states that
//! change rarely; a value each second, or less often, up to 4 ms late. Files are taken out of the page cache before a question that is said to be cold.

use super::series::{DAY_S, FIRST_DAY_S, batch, topics};
use crate::process::{ThreadTimes, cpu};
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fs::File;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Filter, Timestamp, Topic};
use tieline_history::{Aggregate, HistoryOptions, HistoryQuery, HistoryReader, HistorySource, HistoryWriter};
use tieline_journal::Seq;
use tieline_store::{Answer as _, Format, HISTORY_FOLDER, export};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("topics", "topics"),
    ("days", "days"),
    ("every s", "every_s"),
    ("stored as", "form"),
    ("points", "points"),
    ("points/s", "points_per_s"),
    ("CPU s a million", "cpu_s_per_million"),
    ("bytes a point", "disk_bytes_per_point"),
    ("written", "written_bytes_per_point"),
    ("queryable ms p99", "queryable_ms_p99"),
    ("day of one, cold ms", "day_cold_ms"),
    ("warm", "day_warm_ms"),
    ("hourly means of all, one day, ms", "hourly_day_ms"),
    ("all days", "hourly_all_ms"),
    ("scan ns a sample", "scan_ns_per_sample"),
    ("as Arrow", "arrow_ns_per_sample"),
    ("all topics at an instant, ms", "instant_ms"),
    ("start ms", "start_ms"),
];

/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(600);
/// Batches under way, and points of a batch at most.
const WINDOW: usize = 16;
const BATCH_MAX: usize = 4096;
/// Questions of a kind.
const TRIES: usize = 5;
const HOUR_S: u64 = 3600;
/// How often it is looked whether all days are closed, and how soon the store goes on with the next one.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Points of a device.
    pub topics: usize,
    /// How many days.
    pub days: usize,
    /// Seconds from a value of a topic to the next; a part of an hour.
    pub every_s: u64,
}

/// One row: a form in which the days are stored.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Different topics.
    pub topics: usize,
    /// Days.
    pub days: usize,
    /// Seconds from a value of a topic to the next.
    pub every_s: u64,
    /// `chunks`, or `closed days`.
    pub form: &'static str,
    /// Points in all.
    pub points: u64,
    /// Points a second that were brought into this form.
    pub points_per_s: f64,
    /// Processor time of journal and store, or of all that closes the days, for a million points.
    pub cpu_s_per_million: f64,
    /// Bytes at rest.
    pub disk_bytes_per_point: f64,
    /// Bytes written, journal included, without the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_point: Option<f64>,
    /// From the acknowledgement until questions see the points, while they are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queryable_ms_p99: Option<f64>,
    /// All samples of a topic's day as a stream of Arrow, files not in the page cache.
    pub day_cold_ms: f64,
    /// The same again.
    pub day_warm_ms: f64,
    /// A mean for each hour of a day and each topic.
    pub hourly_day_ms: f64,
    /// The same of all days.
    pub hourly_all_ms: f64,
    /// All samples of all topics, one after the other, as they lie together.
    pub scan_ns_per_sample: f64,
    /// The same as a stream of Arrow that nobody keeps.
    pub arrow_ns_per_sample: f64,
    /// The last sample of each topic at a time within the days.
    pub instant_ms: f64,
    /// From opening a store whose memory was full when its process was killed until all can be queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<f64>,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, the disk does not have what they need, or an answer is wrong.
pub fn run(options: Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!((1..=100_000).contains(&options.topics), "topics are 1 to 100,000");
    ensure!((1..=400).contains(&options.days), "days are 1 to 400");
    ensure!(HOUR_S.is_multiple_of(options.every_s), "the seconds between two values are a part of an hour");
    let folder = TempDir::new().context("a folder for the history")?;
    let source = HistorySource::new(folder.path());
    let bench = Bench { options, topics: topics(options.topics)?, source };
    progress.show(&format!("history: {options:?}, record"));
    let (writer, recorded) = bench.record()?;
    progress.show(&format!("history: {options:?}, ask"));
    let chunks = bench.ask()?;
    drop(writer);
    progress.show(&format!("history: {options:?}, start and close the days"));
    let (_writer, closed) = bench.close()?;
    progress.show(&format!("history: {options:?}, ask"));
    let days = bench.ask()?;
    let points = bench.points();
    let Options { topics, days: count, every_s } = options;
    let row = |form, stored: &Stored, asked: &Asked| Row {
        topics,
        days: count,
        every_s,
        form,
        points,
        points_per_s: short(number(points) / stored.seconds),
        cpu_s_per_million: short(stored.cpu_s / number(points) * 1e6),
        disk_bytes_per_point: short(number(stored.disk_bytes) / number(points)),
        written_bytes_per_point: stored.written_bytes.map(|bytes| short(number(bytes) / number(points))),
        queryable_ms_p99: stored.queryable_ms_p99,
        day_cold_ms: asked.day_cold_ms,
        day_warm_ms: asked.day_warm_ms,
        hourly_day_ms: asked.hourly_day_ms,
        hourly_all_ms: asked.hourly_all_ms,
        scan_ns_per_sample: asked.scan_ns_per_sample,
        arrow_ns_per_sample: asked.arrow_ns_per_sample,
        instant_ms: asked.instant_ms,
        start_ms: stored.start_ms,
    };
    Ok(vec![row("chunks", &recorded, &chunks), row("closed days", &closed, &days)])
}

struct Bench {
    options: Options,
    topics: Vec<Topic>,
    source: HistorySource,
}

/// What it took to store all.
struct Stored {
    seconds: f64,
    cpu_s: f64,
    disk_bytes: u64,
    written_bytes: Option<u64>,
    queryable_ms_p99: Option<f64>,
    start_ms: Option<f64>,
}

/// How long questions took.
struct Asked {
    day_cold_ms: f64,
    day_warm_ms: f64,
    hourly_day_ms: f64,
    hourly_all_ms: f64,
    scan_ns_per_sample: f64,
    arrow_ns_per_sample: f64,
    instant_ms: f64,
}

impl Bench {
    /// Samples that a topic has in a day.
    const fn samples_a_day(&self) -> u64 {
        DAY_S.unsigned_abs() / self.options.every_s
    }

    fn points(&self) -> u64 {
        self.options.topics as u64 * self.options.days as u64 * self.samples_a_day()
    }

    /// Records all in batches of one time, sixteen under way.
    fn record(&self) -> Result<(HistoryWriter, Stored)> {
        let options = HistoryOptions { retain_every: PATIENCE, ..HistoryOptions::default() };
        let writer = HistoryWriter::open_guarded(&self.source, options, std::sync::Arc::new(|| true))?;
        let (tell, told) = channel();
        let times = self.options.days as u64 * self.samples_a_day();
        let mut queryable_us: Histogram<u64> = Histogram::new(3)?;
        let (began, mut last, mut under_way) = (Instant::now(), Seq::default(), 0);
        for time in 0..=times {
            // A time more, so that all others are out of the heads of their hour.
            let mut samples = batch(&self.topics, time * self.options.every_s).into_iter();
            while samples.len() > 0 {
                let (part, tell) = (samples.by_ref().take(BATCH_MAX).collect(), tell.clone());
                writer.handle().submit(part, Box::new(move |result| drop(tell.send(result))));
                under_way += 1;
                while under_way >= WINDOW || (time == times && samples.len() == 0 && under_way > 0) {
                    last = told.recv_timeout(PATIENCE).context("no receipt came")??;
                    under_way -= 1;
                    if time % 64 == 0 {
                        let acknowledged = Instant::now();
                        ensure!(writer.handle().wait_stored(last, PATIENCE), "the store did not have it in time");
                        queryable_us.record(u64::try_from(acknowledged.elapsed().as_micros())?)?;
                    }
                }
            }
        }
        ensure!(writer.handle().wait_stored(last, PATIENCE), "the store did not have it in time");
        let seconds = began.elapsed().as_secs_f64();
        let cpu_s = history_cpu_s("history-")?;
        let status = writer.handle().status();
        let written_bytes = Some(status.journal.written_bytes + status.chunk_bytes);
        let p99 = short(number(queryable_us.value_at_quantile(0.99)) / 1000.0);
        let (disk_bytes, queryable_ms_p99) = (status.store_bytes, Some(p99));
        Ok((writer, Stored { seconds, cpu_s, disk_bytes, written_bytes, queryable_ms_p99, start_ms: None }))
    }

    /// Opens it again, as after a kill: what was in memory is read from the journal. Then its days are closed.
    fn close(&self) -> Result<(HistoryWriter, Stored)> {
        let opened = Instant::now();
        let options = HistoryOptions { retain_every: LOOK_EVERY, ..HistoryOptions::default() };
        let writer = HistoryWriter::open_guarded(&self.source, options, std::sync::Arc::new(|| true))?;
        let durable = writer.handle().status().durable;
        ensure!(writer.handle().wait_stored(durable, PATIENCE), "the store did not have it in time");
        let start_ms = Some(short(opened.elapsed().as_secs_f64() * 1000.0));
        let (began, used, days) = (Instant::now(), cpu(), self.options.days as u64);
        // By itself the store would wait minutes for the last one, of which samples were read from the journal after it had looked.
        let closed = writer.handle().close_days().recv_timeout(PATIENCE);
        closed.context("the days were not closed in time")?.map_err(anyhow::Error::msg)?;
        let closed = writer.handle().status().closed_days;
        ensure!(closed >= days, "{closed} days are closed, expected {days}");
        let seconds = began.elapsed().as_secs_f64();
        let disk_bytes = writer.handle().status().store_bytes;
        let cpu_s = (cpu() - used).as_secs_f64();
        Ok((writer, Stored { seconds, cpu_s, disk_bytes, written_bytes: None, queryable_ms_p99: None, start_ms }))
    }

    fn ask(&self) -> Result<Asked> {
        let reader = || self.source.reader();
        let at = |seconds: i64| Some(Timestamp::from_micros((FIRST_DAY_S + seconds) * 1_000_000));
        let day = |filter: &str| -> Result<HistoryQuery> {
            let topics = Filter::new(filter)?;
            Ok(HistoryQuery { from: at(0), to: at(DAY_S), ..HistoryQuery::of(topics) })
        };
        let hour = Some(Duration::from_secs(3600));
        let hourly = |query| HistoryQuery { every: hour, aggregate: Aggregate::Mean, ..query };
        let days = i64::try_from(self.options.days)?;
        let (mut cold, mut warm, mut instant) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hourly_day, mut hourly_all) = (Vec::new(), Vec::new());
        for n in 0..TRIES {
            let topic = self.topics.get(n * 7919 % self.topics.len()).context("a topic")?;
            self.chill()?;
            cold.push(exported(&reader()?, day(topic)?, self.samples_a_day())?);
            warm.push(exported(&reader()?, day(topic)?, self.samples_a_day())?);
            let hours = self.topics.len() as u64 * 24;
            hourly_day.push(timed(&reader()?, hourly(day("bench/#")?), hours)?);
            let all = HistoryQuery { to: at(days * DAY_S), ..day("bench/#")? };
            hourly_all.push(timed(&reader()?, hourly(all), hours * self.options.days as u64)?);
            let middle = at(days * DAY_S / 2 + 12_345).context("a time")?;
            instant.push(stood(&reader()?, middle, self.topics.len())?);
        }
        let all = HistoryQuery { to: at(days * DAY_S), ..day("bench/#")? };
        let (scanned_ms, arrow_ms) =
            (scanned(&reader()?, all.clone(), self.points())?, exported(&reader()?, all, self.points())?);
        Ok(Asked {
            day_cold_ms: short(median(&cold)),
            day_warm_ms: short(median(&warm)),
            hourly_day_ms: short(median(&hourly_day)),
            hourly_all_ms: short(median(&hourly_all)),
            scan_ns_per_sample: short(scanned_ms * 1e6 / number(self.points())),
            arrow_ns_per_sample: short(arrow_ms * 1e6 / number(self.points())),
            instant_ms: short(median(&instant)),
        })
    }

    /// Takes the files out of the page cache.
    fn chill(&self) -> Result<()> {
        let folder = self.source.data().join(HISTORY_FOLDER);
        for entry in std::fs::read_dir(&folder)? {
            match File::open(entry?.path()) {
                Ok(file) => rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?,
                // Chunks of a day that was closed are removed meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Milliseconds until all rows of an answer were counted; as many as are expected.
pub(super) fn timed(reader: &HistoryReader, query: HistoryQuery, expect: u64) -> Result<f64> {
    let (began, mut count) = (Instant::now(), 0_u64);
    for row in reader.query(query)? {
        row?;
        count += 1;
    }
    let took = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(count == expect, "{count} rows, expected {expect}");
    Ok(took)
}

/// Milliseconds until the last sample of each topic at a time was in memory; as many as are expected.
fn stood(reader: &HistoryReader, time: Timestamp, expect: usize) -> Result<f64> {
    let (began, mut count) = (Instant::now(), 0);
    for found in reader.at(&Filter::new("bench/#")?, time, |_| true)? {
        found?;
        count += 1;
    }
    let took = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(count == expect, "{count} topics, expected {expect}");
    Ok(took)
}

/// Milliseconds until all samples of an answer were in memory, as they lie together; as many as are expected.
fn scanned(reader: &HistoryReader, query: HistoryQuery, expect: u64) -> Result<f64> {
    let (began, mut count) = (Instant::now(), 0_u64);
    let mut rows = reader.query(query)?;
    while let Some(piece) = rows.piece() {
        count += piece?.rows() as u64;
    }
    let took = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(count == expect, "{count} rows, expected {expect}");
    Ok(took)
}

/// Milliseconds until an answer was written as a stream of Arrow; as many rows as are expected.
fn exported(reader: &HistoryReader, query: HistoryQuery, expect: u64) -> Result<f64> {
    let began = Instant::now();
    let count = export(&mut reader.query(query)?, Format::Arrow, || true, std::io::sink())?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(count == expect, "{count} rows, expected {expect}");
    Ok(took)
}

/// Processor time of this process's threads of that name so far.
pub(super) fn history_cpu_s(name: &str) -> Result<f64> {
    Ok(ThreadTimes::of(std::process::id(), name)?.since(&ThreadTimes::default()).0)
}

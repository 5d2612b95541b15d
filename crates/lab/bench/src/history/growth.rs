//! Whether a history with many points takes and answers as one with few: points a second, and how long questions of a fixed length take,
//! at 10⁶, 10⁷ … points.
//!
//! One history gets a value of each topic for each second, as fast as it takes them; its days are closed meanwhile. At each mark it is
//! asked for the last samples of a topic, and for means of the last seconds of all topics; and so is, in turns, a second history that has
//! what the first mark has. Then it gets as many points as the first mark has, in turns with histories that are new.
//!
//! The topics are few, so that hours of each are closed at the first mark, too, and a mark is as far into an hour as the others: the same is
//! to be done for a point and for a question at all of them.

use super::queries::timed;
use super::series::{FIRST_DAY_S, batch, topics};
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Filter, Timestamp, Topic};
use tieline_history::{Aggregate, HistoryOptions, HistoryQuery, HistorySource, HistoryWriter, NotRecorded};
use tieline_journal::Seq;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("points", "points"),
    ("points/s", "points_per_s"),
    ("to a new one", "ratio_of_points_per_s"),
    ("one topic ms", "topic_ms"),
    ("to the first", "ratio_of_topic_ms"),
    ("means of all ms", "means_ms"),
    ("to the first", "ratio_of_means_ms"),
    ("bytes a point", "disk_bytes_per_point"),
];

/// Topics of the published rows.
pub const TOPICS: usize = 100;
/// Seconds that questions are about: those of the first mark.
const SECONDS: u64 = 10_000;
/// Points of a batch, about.
const BATCH: usize = 1000;
/// Batches under way.
const WINDOW: usize = 16;
/// Batches that are durable and not in the store yet; the journal would be full at some time.
const BEHIND_MAX: u64 = 8192;
/// Questions of a kind.
const TRIES: usize = 9;
/// Times that points are recorded in turns.
const RECORDED: usize = 3;
/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(600);

/// One row: a mark.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Points that are there.
    pub points: u64,
    /// Points a second since the mark before, until they can be queried.
    pub points_per_s: f64,
    /// Points a second that come after the mark, over those of the first mark in a new history, in turns: 1 is flat.
    pub ratio_of_points_per_s: f64,
    /// The last 10,000 samples of a topic.
    pub topic_ms: f64,
    /// The same over that of a history with what the first mark has, asked in turns.
    pub ratio_of_topic_ms: f64,
    /// Means of 100 seconds of the last 10,000, of all topics.
    pub means_ms: f64,
    /// The same over that of a history with what the first mark has, asked in turns.
    pub ratio_of_means_ms: f64,
    /// Bytes at rest.
    pub disk_bytes_per_point: f64,
}

/// Runs the experiment with so many topics up to so many points.
///
/// # Errors
/// The points are fewer than those of the first mark, the disk does not have what it needs, or an answer is wrong.
pub fn run(points: u64, count: usize, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(count > 0, "topics are 1 or more");
    let first = count as u64 * SECONDS;
    ensure!(points >= first, "points are {first} or more");
    // Machines are not equally fast at all times: what is asked at a mark is asked of a second history, too, which has what the first
    // mark has.
    progress.show("history: the first mark, to compare with");
    let (mut fewest, mut growth) = (Growth::new(count)?, Growth::new(count)?);
    fewest.record(SECONDS)?;
    let mut rows: Vec<Row> = Vec::new();
    let marks = std::iter::successors(Some(first), |mark| mark.checked_mul(10)).take_while(|mark| *mark <= points);
    for mark in marks {
        progress.show(&format!("history: up to {mark} points"));
        let (began, before) = (Instant::now(), growth.points());
        growth.record(mark / count as u64)?;
        let rate = number(mark - before) / began.elapsed().as_secs_f64();
        let [topic, means] = asked(&growth, &fewest)?;
        let disk_bytes = growth.writer.handle().status().store_bytes;
        rows.push(Row {
            points: mark,
            points_per_s: short(rate),
            ratio_of_points_per_s: short(recorded(&mut growth)?),
            topic_ms: short(topic.ms),
            ratio_of_topic_ms: short(topic.ratio),
            means_ms: short(means.ms),
            ratio_of_means_ms: short(means.ratio),
            disk_bytes_per_point: short(number(disk_bytes) / number(mark)),
        });
    }
    Ok(rows)
}

/// How long a question took, and how long to the first mark.
struct Asked {
    ms: f64,
    ratio: f64,
}

/// Asks both questions of both histories in turns.
fn asked(growth: &Growth, fewest: &Growth) -> Result<[Asked; 2]> {
    let (mut one, mut all) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for n in 0..TRIES {
        for ((history, one), all) in [growth, fewest].into_iter().zip(&mut one).zip(&mut all) {
            one.push(history.ask_one(n)?);
            all.push(history.ask_all()?);
        }
    }
    Ok([one, all].map(|[growth, fewest]| Asked { ms: median(&growth), ratio: median(&growth) / median(&fewest) }))
}

/// How fast a history takes points, over how fast a new one does.
fn recorded(growth: &mut Growth) -> Result<f64> {
    let (mut grown, mut new) = (Vec::new(), Vec::new());
    for _ in 0..RECORDED {
        let mut other = Growth::new(growth.topics.len())?;
        for (history, times) in [(&mut *growth, &mut grown), (&mut other, &mut new)] {
            let began = Instant::now();
            history.record(history.second + SECONDS)?;
            times.push(began.elapsed().as_secs_f64());
        }
    }
    Ok(median(&new) / median(&grown))
}

type Told = Result<Seq, NotRecorded>;

/// A history that grows.
struct Growth {
    source: HistorySource,
    writer: HistoryWriter,
    topics: Vec<Topic>,
    /// The next.
    second: u64,
    told: (Sender<Told>, Receiver<Told>),
    under_way: usize,
    last_receipt: Seq,
    _folder: TempDir,
}

impl Growth {
    fn new(count: usize) -> Result<Self> {
        let folder = TempDir::new().context("a folder for the history")?;
        let source = HistorySource::new(folder.path());
        let writer = HistoryWriter::open_guarded(&source, HistoryOptions::default(), std::sync::Arc::new(|| true))?;
        let (topics, told, last_receipt) = (topics(count)?, channel(), Seq::default());
        Ok(Self { source, writer, topics, second: 0, told, under_way: 0, last_receipt, _folder: folder })
    }

    const fn points(&self) -> u64 {
        self.second * self.topics.len() as u64
    }

    /// Records all seconds before this one, and waits until they can be queried.
    fn record(&mut self, upto: u64) -> Result<()> {
        let (handle, seconds) = (self.writer.handle(), (BATCH / self.topics.len()).max(1) as u64);
        while self.second < upto {
            let end = upto.min(self.second + seconds);
            let samples = (self.second..end).flat_map(|second| batch(&self.topics, second)).collect();
            let tell = self.told.0.clone();
            handle.submit(samples, Box::new(move |result| drop(tell.send(result))));
            (self.second, self.under_way) = (end, self.under_way + 1);
            let taken = Seq(self.last_receipt.0.saturating_sub(BEHIND_MAX));
            ensure!(handle.wait_stored(taken, PATIENCE), "the store did not have it in time");
            while self.under_way >= WINDOW || (self.second == upto && self.under_way > 0) {
                self.last_receipt =
                    self.last_receipt.max(self.told.1.recv_timeout(PATIENCE).context("no receipt came")??);
                self.under_way -= 1;
            }
        }
        ensure!(handle.wait_stored(self.last_receipt, PATIENCE), "the store did not have it in time");
        Ok(())
    }

    /// Milliseconds of the last samples of a topic, another one each time.
    fn ask_one(&self, n: usize) -> Result<f64> {
        let topic = self.topics.get(n * 7919 % self.topics.len()).context("a topic")?;
        timed(&self.source.reader()?, self.last(topic)?, SECONDS)
    }

    /// Milliseconds of the means of the last samples of all topics.
    fn ask_all(&self) -> Result<f64> {
        let (every, aggregate) = (Some(Duration::from_secs(100)), Aggregate::Mean);
        let query = HistoryQuery { every, aggregate, ..self.last("bench/#")? };
        timed(&self.source.reader()?, query, self.topics.len() as u64 * SECONDS / 100)
    }

    /// The last samples of topics.
    fn last(&self, filter: &str) -> Result<HistoryQuery> {
        let at = |second: u64| anyhow::Ok(Timestamp::from_micros((FIRST_DAY_S + i64::try_from(second)?) * 1_000_000));
        let (from, to) = (Some(at(self.second - SECONDS)?), Some(at(self.second)?));
        Ok(HistoryQuery { from, to, ..HistoryQuery::of(Filter::new(filter)?) })
    }
}

//! Whether a history with many points takes and answers as one with few: points a second, and how long questions of a fixed length take,
//! at 10⁶, 10⁷ … points.
//!
//! One history gets a value of each topic for each second, as fast as it takes them; its days are closed meanwhile. At each mark it is
//! asked for the last samples of a topic, and for means of the last seconds of all topics.

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
use tieline_history::{
    Aggregate, HistoryHandle, HistoryOptions, HistoryQuery, HistorySource, HistoryWriter, NotRecorded,
};
use tieline_journal::Seq;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("points", "points"),
    ("points/s", "points_per_s"),
    ("to the first", "ratio_of_points_per_s"),
    ("one topic ms", "topic_ms"),
    ("to the first", "ratio_of_topic_ms"),
    ("means of all ms", "means_ms"),
    ("to the first", "ratio_of_means_ms"),
    ("bytes a point", "disk_bytes_per_point"),
];

/// Topics of the published rows.
pub const TOPICS: usize = 1000;
/// Seconds that questions are about: those of the first mark.
const SECONDS: u64 = 1000;
/// Batches under way.
const WINDOW: usize = 16;
/// Batches that are durable and not in the store yet; the journal would be full at some time.
const BEHIND_MAX: u64 = 8192;
/// Questions of a kind.
const TRIES: usize = 9;
/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(600);

/// One row: a mark.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Points that are there.
    pub points: u64,
    /// Points a second since the mark before, until they can be queried.
    pub points_per_s: f64,
    /// The same over that of the first mark: 1 is flat.
    pub ratio_of_points_per_s: f64,
    /// The last 1,000 samples of a topic.
    pub topic_ms: f64,
    /// The same over that of the first mark.
    pub ratio_of_topic_ms: f64,
    /// Means of 100 seconds of the last 1,000, of all topics.
    pub means_ms: f64,
    /// The same over that of the first mark.
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
    let folder = TempDir::new().context("a folder for the history")?;
    let source = HistorySource::new(folder.path());
    let writer = HistoryWriter::open_guarded(&source, HistoryOptions::default(), std::sync::Arc::new(|| true))?;
    let mut growth = Growth { topics: topics(count)?, second: 0, told: channel(), under_way: 0, last: Seq::default() };
    let mut rows: Vec<Row> = Vec::new();
    let marks = std::iter::successors(Some(first), |mark| mark.checked_mul(10)).take_while(|mark| *mark <= points);
    for mark in marks {
        progress.show(&format!("history: up to {mark} points"));
        let (began, before) = (Instant::now(), growth.points());
        growth.record(writer.handle(), mark / count as u64)?;
        let rate = number(mark - before) / began.elapsed().as_secs_f64();
        let (topic_ms, means_ms) = growth.ask(&source)?;
        let disk = number(writer.handle().status().store_bytes);
        let base =
            rows.first().map_or((rate, topic_ms, means_ms), |row| (row.points_per_s, row.topic_ms, row.means_ms));
        rows.push(Row {
            points: mark,
            points_per_s: short(rate),
            ratio_of_points_per_s: short(rate / base.0),
            topic_ms: short(topic_ms),
            ratio_of_topic_ms: short(topic_ms / base.1),
            means_ms: short(means_ms),
            ratio_of_means_ms: short(means_ms / base.2),
            disk_bytes_per_point: short(disk / number(mark)),
        });
    }
    Ok(rows)
}

type Told = Result<Seq, NotRecorded>;

struct Growth {
    topics: Vec<Topic>,
    /// The next.
    second: u64,
    told: (Sender<Told>, Receiver<Told>),
    under_way: usize,
    last: Seq,
}

impl Growth {
    const fn points(&self) -> u64 {
        self.second * self.topics.len() as u64
    }

    /// Records all seconds before this one, and waits until they can be queried.
    fn record(&mut self, handle: &HistoryHandle, upto: u64) -> Result<()> {
        while self.second < upto {
            let (samples, tell) = (batch(&self.topics, self.second), self.told.0.clone());
            handle.submit(samples, Box::new(move |result| drop(tell.send(result))));
            (self.second, self.under_way) = (self.second + 1, self.under_way + 1);
            let taken = Seq(self.last.0.saturating_sub(BEHIND_MAX));
            ensure!(handle.wait_stored(taken, PATIENCE), "the store did not have it in time");
            while self.under_way >= WINDOW || (self.second == upto && self.under_way > 0) {
                self.last = self.last.max(self.told.1.recv_timeout(PATIENCE).context("no receipt came")??);
                self.under_way -= 1;
            }
        }
        ensure!(handle.wait_stored(self.last, PATIENCE), "the store did not have it in time");
        Ok(())
    }

    /// Milliseconds of both questions.
    fn ask(&self, source: &HistorySource) -> Result<(f64, f64)> {
        let at = |second: u64| anyhow::Ok(Timestamp::from_micros((FIRST_DAY_S + i64::try_from(second)?) * 1_000_000));
        let (from, to) = (Some(at(self.second - SECONDS)?), Some(at(self.second)?));
        let (mut one, mut all) = (Vec::new(), Vec::new());
        for n in 0..TRIES {
            let topic = self.topics.get(n * 7919 % self.topics.len()).context("a topic")?;
            let query = HistoryQuery { from, to, ..HistoryQuery::of(Filter::new(topic)?) };
            one.push(timed(&source.reader()?, query, SECONDS)?);
            let (every, aggregate) = (Some(Duration::from_secs(100)), Aggregate::Mean);
            let query = HistoryQuery { from, to, every, aggregate, ..HistoryQuery::of(Filter::new("bench/#")?) };
            all.push(timed(&source.reader()?, query, self.topics.len() as u64 * SECONDS / 100)?);
        }
        Ok((median(&one), median(&all)))
    }
}

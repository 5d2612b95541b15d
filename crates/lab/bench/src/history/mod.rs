//! Points a second from publish into the journal, synced, and into the store, where questions see them; bytes a
//! point in both.
//!
//! A closed loop: a window of batches is under way, and each receipt lets the next batch go. The floor is a plain file
//! behind the same loop: a thread writes the bytes of all batches that wait with one call, syncs once
//! (`fdatasync`), and answers them.

pub mod clients;
pub mod databases;
mod delayed;
mod draw;
pub mod growth;
pub mod peers;
mod plain;
pub mod queries;
mod series;
pub mod stages;

use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, take_turns};
use anyhow::{Context, Result, anyhow, bail, ensure};
use delayed::DelayedFiles;
pub use draw::{save_clients, save_curves, save_growth};
use hdrhistogram::Histogram;
use plain::PlainFile;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_history::{HistoryOptions, HistoryQuery, HistoryReader, HistorySource, HistoryWriter, NotRecorded};
use tieline_journal::{Sample, Seq};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("sync ms", "sync_ms"),
    ("points a batch", "batch_points"),
    ("batches under way", "window"),
    ("points", "points"),
    ("points/s synced", "points_per_s_synced"),
    ("floor", "floor_points_per_s_synced"),
    ("ratio to floor", "ratio_to_floor"),
    ("points/s queryable", "points_per_s_queryable"),
    ("receipt µs p50", "latency_us_p50"),
    ("p99", "latency_us_p99"),
    ("CPU s a million", "cpu_s_per_million"),
    ("journal bytes a point", "journal_bytes_per_point"),
    ("store bytes a point", "store_bytes_per_point"),
];

/// What is recorded: points a batch, batches under way, and which part of the points that is asked for.
const CASES: [Case; 3] = [
    // One device's report, each waiting for the one before.
    Case { batch_points: 18, window: 1, part: 200, sync: None },
    // The same of many devices.
    Case { batch_points: 18, window: 64, part: 10, sync: None },
    // A bus that is busy: a turn's updates together.
    Case { batch_points: 1000, window: 16, part: 1, sync: None },
];
/// What is recorded on a disk that takes long to sync: one device's reports, and those of as many devices as wait together.
const SYNC_CASES: [Case; 3] = [
    Case { batch_points: 18, window: 1, part: 1000, sync: None },
    Case { batch_points: 18, window: 8000, part: 1, sync: None },
    Case { batch_points: 1000, window: 150, part: 1, sync: None },
];
/// Different topics.
const TOPICS: usize = 9000;
/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Points of the largest row; rows of single batches record a part of them.
    pub points: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// How much longer than it takes a sync is to take; none is the disk as it is.
    pub sync_delays: Vec<Duration>,
}

/// One row. Figures are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How much longer a sync took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_ms: Option<f64>,
    /// Points of a batch.
    pub batch_points: usize,
    /// Batches under way at one time.
    pub window: usize,
    /// Points of a round.
    pub points: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Points a second whose receipt came: they survive a power cut.
    pub points_per_s_synced: f64,
    /// The plain file's.
    pub floor_points_per_s_synced: f64,
    /// The time of our points over that of the plain file's.
    pub ratio_to_floor: f64,
    /// Points a second until the last one is in the store.
    pub points_per_s_queryable: f64,
    /// From a batch to its receipt.
    pub latency_us_p50: u64,
    /// The same.
    pub latency_us_p99: u64,
    /// The plain file's.
    pub floor_latency_us_p50: u64,
    /// The plain file's.
    pub floor_latency_us_p99: u64,
    /// Processor time of journal and store together for a million points.
    pub cpu_s_per_million: f64,
    /// Batches that one sync made durable, on average.
    pub batches_per_sync: f64,
    /// Bytes written to the journal.
    pub journal_bytes_per_point: f64,
    /// Bytes of chunks and their index, where all of it is in chunks.
    pub store_bytes_per_point: f64,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the disk does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.rounds > 0, "rounds are 1 or more");
    if options.sync_delays.is_empty() {
        return CASES.iter().map(|case| case.row(options, progress)).collect();
    }
    let delayed = |delay: &Duration| SYNC_CASES.map(|case| Case { sync: Some(*delay), ..case });
    options.sync_delays.iter().flat_map(delayed).map(|case| case.row(options, progress)).collect()
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch_points: usize,
    window: usize,
    part: usize,
    /// How much longer a sync takes.
    sync: Option<Duration>,
}

/// A closed loop, done.
#[derive(Clone, Debug)]
struct Looped {
    began: Instant,
    synced: Duration,
    latency_us: Histogram<u64>,
    /// The last record.
    last: Seq,
}

/// What the history was like after a round.
#[derive(Clone, Debug)]
struct Recorded {
    looped: Looped,
    queryable: Duration,
    cpu: Duration,
    journal_bytes: u64,
    syncs: u64,
    store_bytes: u64,
}

/// Calls back with the batch's number, when, and what became of it.
type Told = (usize, Instant, Result<Seq, NotRecorded>);

impl Case {
    fn row(&self, options: &Options, progress: &Progress) -> Result<Row> {
        let batches = (options.points / self.part / self.batch_points).max(self.window);
        let points = batches * self.batch_points;
        let (mut ours, mut floor): (Vec<Recorded>, Vec<Looped>) = (Vec::new(), Vec::new());
        let what = format!("history: {self:?}, {points} points");
        let invalid = take_turns(options.rounds, progress, &what, |side| {
            match side {
                Side::Ours => ours.push(self.record(batches)?),
                Side::Floor => {
                    let bytes = ours.first().map_or(0, |recorded| recorded.journal_bytes) / batches as u64;
                    floor.push(self.write_plain(batches, bytes)?);
                }
            }
            Ok(())
        });
        let figures = invalid.is_none().then(|| figures(number(points as u64), batches, &ours, &floor));
        let Self { batch_points, window, sync, .. } = *self;
        let sync_ms = sync.map(|sync| sync.as_secs_f64() * 1000.0);
        Ok(Row { sync_ms, batch_points, window, points, rounds: options.rounds, figures, invalid })
    }

    /// Records everything in a new history, waits until it is in the store, and counts it there.
    fn record(&self, count: usize) -> Result<Recorded> {
        let folder = TempDir::new().context("a folder for the history")?;
        let mut batches = self.batches(count)?.into_iter();
        let (source, delay) = (HistorySource::new(folder.path()), self.sync.unwrap_or_default());
        let through = |files| DelayedFiles::new(files, delay);
        let writer = HistoryWriter::open_through(&source, HistoryOptions::default(), Arc::new(|| true), through)?;
        let cpu = process::cpu();
        let looped = close_loop(count, self.window, |number, tell| {
            let updates = batches.next().unwrap_or_default();
            let receipt = move |result| drop(tell.send((number, Instant::now(), result)));
            let samples = updates.into_iter().map(|update| Sample::new(Timestamp::from_micros(0), update)).collect();
            writer.handle().submit(samples, Box::new(receipt));
        })?;
        ensure!(writer.handle().wait_stored(looped.last, PATIENCE), "the store did not have it after {PATIENCE:?}");
        let (queryable, cpu) = (looped.began.elapsed(), process::cpu() - cpu);
        let found = count_stored(folder.path())?;
        ensure!(
            found == (count * self.batch_points) as u64,
            "{found} of {} points are stored",
            count * self.batch_points
        );
        let status = writer.handle().status();
        drop(writer);
        let store_bytes = status.store_bytes;
        let (journal_bytes, syncs) = (status.journal.written_bytes, status.journal.syncs);
        Ok(Recorded { looped, queryable, cpu, journal_bytes, syncs, store_bytes })
    }

    fn write_plain(&self, count: usize, bytes: u64) -> Result<Looped> {
        let folder = TempDir::new().context("a folder for the plain file")?;
        let file =
            PlainFile::create(&folder.path().join("plain"), usize::try_from(bytes)?, self.sync.unwrap_or_default())?;
        close_loop(count, self.window, |number, tell| {
            file.submit(Box::new(move |result| drop(tell.send((number, Instant::now(), result)))));
        })
    }

    /// One topic after the other gets its next value, a second later than its last.
    fn batches(&self, count: usize) -> Result<Vec<Vec<Update>>> {
        let names =
            (0..TOPICS).map(|topic| Topic::new(&format!("bench/device{:03}/point{:02}", topic / 18, topic % 18)));
        let topics = names.collect::<Result<Vec<_>, _>>()?;
        let update = |(at, topic): (usize, &Topic)| {
            let turn = (at / TOPICS) as u64;
            let value = Value::Float(230.0 + number((at * 7919 % 1000) as u64) / 100.0);
            let time = Timestamp::from_millis(1_795_167_360_000 + i64::try_from(turn).unwrap_or(0) * 1000);
            Update { topic: topic.clone(), body: Body::Point(Point { value, quality: Quality::GOOD, time }) }
        };
        let mut updates = (0..).zip(topics.iter().cycle()).map(update);
        Ok((0..count).map(|_| updates.by_ref().take(self.batch_points).collect()).collect())
    }
}

/// Keeps `window` of `count` batches under way until all receipts have come.
fn close_loop(count: usize, window: usize, mut submit: impl FnMut(usize, Sender<Told>)) -> Result<Looped> {
    let (tell, told): (Sender<Told>, Receiver<Told>) = channel();
    let began = Instant::now();
    let mut sent = Vec::with_capacity(count);
    let mut latency_us = Histogram::new(3)?;
    let mut last = Seq::default();
    let mut done = 0;
    while done < count {
        while sent.len() < count && sent.len() - done < window {
            sent.push(Instant::now());
            submit(sent.len() - 1, tell.clone());
        }
        let (number, at, result) =
            told.recv_timeout(PATIENCE).map_err(|_| anyhow!("no receipt came within {PATIENCE:?}"))?;
        match result {
            Ok(seq) => last = last.max(seq),
            Err(why) => bail!("batch {number} was not recorded: {why}"),
        }
        let began = sent.get(number).copied().context("a receipt for a batch that was not sent")?;
        latency_us.record(u64::try_from(at.saturating_duration_since(began).as_micros())?)?;
        done += 1;
    }
    Ok(Looped { began, synced: began.elapsed(), latency_us, last })
}

fn count_stored(folder: &Path) -> Result<u64> {
    let reader = HistoryReader::open(folder)?;
    let century = Duration::from_secs(100 * 365 * 86_400);
    let all = HistoryQuery { every: Some(century), ..HistoryQuery::of(Filter::new("bench/#")?) };
    let mut count = 0;
    for row in reader.query(all)? {
        count += row?.count;
    }
    Ok(count)
}

fn figures(points: f64, batches: usize, ours: &[Recorded], floor: &[Looped]) -> Figures {
    let seconds = |of: &dyn Fn(&Recorded) -> Duration| ours.iter().map(|o| of(o).as_secs_f64()).collect::<Vec<_>>();
    let (synced, queryable) = (seconds(&|o| o.looped.synced), seconds(&|o| o.queryable));
    let plain: Vec<f64> = floor.iter().map(|looped| looped.synced.as_secs_f64()).collect();
    let each = |of: &dyn Fn(&Recorded) -> u64| median(&ours.iter().map(|o| number(of(o))).collect::<Vec<_>>());
    let (ours_us, floor_us) = (merged(ours.iter().map(|o| &o.looped)), merged(floor.iter()));
    Figures {
        points_per_s_synced: short(points / median(&synced)),
        floor_points_per_s_synced: short(points / median(&plain)),
        ratio_to_floor: short(median_ratio(&synced, &plain)),
        points_per_s_queryable: short(points / median(&queryable)),
        latency_us_p50: ours_us.p50,
        latency_us_p99: ours_us.p99,
        floor_latency_us_p50: floor_us.p50,
        floor_latency_us_p99: floor_us.p99,
        cpu_s_per_million: short(median(&seconds(&|o| o.cpu)) / points * 1e6),
        batches_per_sync: short(number(batches as u64) / each(&|o| o.syncs)),
        journal_bytes_per_point: short(each(&|o| o.journal_bytes) / points),
        store_bytes_per_point: short(each(&|o| o.store_bytes) / points),
    }
}

/// All rounds' latencies, from one histogram.
fn merged<'a>(rounds: impl Iterator<Item = &'a Looped>) -> Quantiles {
    let all = rounds.map(|looped| looped.latency_us.clone()).reduce(|mut all, one| {
        all += one;
        all
    });
    let at = |quantile| all.as_ref().map_or(0, |all| all.value_at_quantile(quantile));
    Quantiles { p50: at(0.5), p99: at(0.99) }
}

#[derive(Clone, Copy, Debug)]
struct Quantiles {
    p50: u64,
    p99: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_points_are_synced_stored_and_counted() {
        let options = Options { points: 20_000, rounds: 1, sync_delays: Vec::new() };
        let mut rows = run(&options, &Progress::new(false)).unwrap();
        assert_eq!(rows.len(), CASES.len());
        let slow = Options { sync_delays: vec![Duration::from_millis(3)], ..options };
        let slow = run(&slow, &Progress::new(false)).unwrap();
        assert!(slow.iter().all(|row| row.sync_ms == Some(3.0)));
        let alone = slow[0].figures.unwrap();
        assert!(
            alone.points_per_s_synced < 18.0 / 0.003 && alone.floor_points_per_s_synced < 18.0 / 0.003,
            "{alone:?}"
        );
        rows.extend(slow);
        for row in rows {
            assert_eq!(row.invalid, None);
            let figures = row.figures.unwrap();
            assert!(figures.points_per_s_synced > 0.0 && figures.points_per_s_queryable > 0.0, "{figures:?}");
            assert!(figures.journal_bytes_per_point > 5.0 && figures.store_bytes_per_point > 5.0, "{figures:?}");
            assert!(figures.batches_per_sync >= 1.0, "{figures:?}");
        }
    }

    #[test]
    fn databases_that_are_installed_get_all_points() {
        let rows =
            databases::run(&databases::Options { points: 30_000, rounds: 1, only: Vec::new() }, &Progress::new(false))
                .unwrap();
        assert_eq!(rows.len(), 6);
        for row in rows {
            match (&row.figures, &row.invalid) {
                (Some(figures), None) => assert!(
                    figures.rows_per_s > 0.0 && figures.raw_rows_per_s.is_some() == (row.database != "FerretDB"),
                    "{row:?}"
                ),
                (None, Some(why)) => assert!(why.contains("is absent"), "{row:?}"),
                _ => panic!("{row:?}"),
            }
        }
    }

    #[test]
    fn each_stage_has_its_processor_time() {
        let rows = stages::run(20_000, &Progress::new(false)).unwrap();
        assert_eq!(rows.len(), 5);
        assert!(rows.iter().all(|row| row.cpu_us_per_point.is_some() != row.invalid.is_some()), "{rows:?}");
    }

    #[test]
    fn a_history_that_grows_is_asked_at_each_mark() {
        let rows = growth::run(100_000, 1, &Progress::new(false)).unwrap();
        assert_eq!(rows.iter().map(|row| row.points).collect::<Vec<_>>(), [10_000, 100_000]);
        assert!(rows.iter().all(|row| row.ratio_of_points_per_s > 0.0), "{rows:?}");
        let asked =
            |row: &growth::Row| row.topic_ms.min(row.means_ms).min(row.ratio_of_topic_ms).min(row.ratio_of_means_ms);
        assert!(rows[1].points_per_s > 0.0 && rows.iter().all(|row| asked(row) > 0.0), "{rows:?}");
    }

    #[test]
    fn a_day_is_in_other_stores_too() {
        let rows = peers::run(2, &Progress::new(false)).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.store).collect::<Vec<_>>(),
            ["Tieline", "SQLite", "DuckDB", "VictoriaMetrics", "floor"]
        );
        for row in rows {
            let absent = row.invalid.as_ref().is_some_and(|why| why.contains("is absent"));
            assert!(row.figures.is_some_and(|figures| figures.day_ms > 0.0) || absent, "{row:?}");
        }
    }

    #[test]
    fn points_of_clients_are_acknowledged_and_can_be_queried() {
        let options = clients::Options { points: 20_000, rounds: 1, clients: vec![1, 700] };
        let rows = clients::run(&options, &Progress::new(false)).unwrap();
        assert_eq!(rows.iter().map(|row| (row.clients, row.points)).collect::<Vec<_>>(), [(1, 27_648), (700, 25_200)]);
        for row in rows {
            assert_eq!(row.invalid, None);
            let figures = row.figures.unwrap();
            assert!(figures.points_per_s_queryable > 0.0 && figures.cpu_us_per_point > 0.0, "{figures:?}");
            assert!(figures.ratio_to_floor > 0.0 && figures.floor_cpu_us_per_point > 0.0, "{figures:?}");
        }
    }

    #[test]
    fn a_day_is_stored_closed_and_asked_for() {
        // As few batches as may be: each is synced.
        let rows = queries::run(queries::Options { topics: 100, days: 2, every_s: 60 }, &Progress::new(false)).unwrap();
        assert_eq!(rows.iter().map(|row| row.form).collect::<Vec<_>>(), ["chunks", "closed days"]);
        for row in rows {
            assert!(row.disk_bytes_per_point < 10.0 && row.points == 100 * 2 * 1440, "{row:?}");
            assert!(row.instant_ms > 0.0, "{row:?}");
        }
    }
}

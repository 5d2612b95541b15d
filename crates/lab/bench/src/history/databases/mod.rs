//! Rows a second that the journal's records reach other people's databases with, beside what the database's own client writes.
//!
//! All points are in the journal before the time begins; the forwarder reads them, and writes batches with their positions. Raw is the
//! database's own program with the same rows in the same batches, each committed, encoded before the time begins: binary COPY by psql
//! into an equal table, LOAD DATA by mariadb into an equal table, the same lines over HTTP. MongoDB's protocol, which FerretDB speaks,
//! has nothing of the kind. Servers sync what they commit, as is usual.

mod raw;
mod servers;

use super::{PATIENCE, TOPICS, close_loop};
use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, take_turns};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
pub(super) use servers::Server;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_databases::{BATCH_ROWS, BATCH_ROWS_MONGODB, Database, DatabaseError, Index, Row as DatabaseRow};
use tieline_history::{Forwarding, HistoryOptions, HistorySource, HistoryWriter};
use tieline_journal::{Limits, Sample};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("database", "database"),
    ("index", "index"),
    ("rows", "rows"),
    ("rows/s", "rows_per_s"),
    ("raw rows/s", "raw_rows_per_s"),
    ("ratio", "ratio_to_raw"),
    ("CPU s a million", "cpu_s_per_million"),
];

/// Points of a record of the journal.
const RECORD_POINTS: usize = 1000;
/// Records under way while the journal is filled.
const WINDOW: usize = 16;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of each measurement.
    pub points: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// Names of the databases, in small letters; none are all.
    pub only: Vec<String>,
}

/// One row. Figures are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The product.
    pub database: &'static str,
    /// The index on the samples.
    pub index: &'static str,
    /// Rows of a round.
    pub rows: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where there was nothing, or a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Rows a second from the journal into the database.
    pub rows_per_s: f64,
    /// Those of the database's own client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_rows_per_s: Option<f64>,
    /// Ours over raw: 1 is as fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_raw: Option<f64>,
    /// Processor time of our process for a million rows, without the server.
    pub cpu_s_per_million: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Postgres(Index),
    Mariadb,
    Victoria,
    Mongo,
}

const KINDS: [Kind; 6] = [
    Kind::Postgres(Index::Btree),
    Kind::Postgres(Index::Brin),
    Kind::Postgres(Index::None),
    Kind::Mariadb,
    Kind::Victoria,
    Kind::Mongo,
];

impl Kind {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres(Index::Btree) => ("PostgreSQL", "btree"),
            Self::Postgres(Index::Brin) => ("PostgreSQL", "brin"),
            Self::Postgres(Index::None) => ("PostgreSQL", "none"),
            Self::Mariadb => ("MariaDB", "key"),
            Self::Victoria => ("VictoriaMetrics", ""),
            Self::Mongo => ("FerretDB", ""),
        }
    }

    const fn batch_rows(self) -> usize {
        match self {
            Self::Postgres(_) | Self::Mariadb | Self::Victoria => BATCH_ROWS,
            Self::Mongo => BATCH_ROWS_MONGODB,
        }
    }

    /// Whether the database has a way of its own to load rows, to be compared with.
    const fn has_raw(self) -> bool {
        !matches!(self, Self::Mongo)
    }
}

/// Runs the experiment with each database that is installed.
///
/// # Errors
/// The options are out of range.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(
        options.rounds > 0 && options.points >= RECORD_POINTS,
        "rounds are 1 or more, points {RECORD_POINTS} or more"
    );
    let names = KINDS.map(|kind| kind.names().0.to_lowercase());
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(name)) {
        bail!("there is no database {unknown:?}, expected {}", names.join(", "));
    }
    let wanted = KINDS.iter().zip(&names).filter(|(_, name)| options.only.is_empty() || options.only.contains(name));
    Ok(wanted.map(|(kind, _)| row(*kind, options, progress)).collect())
}

fn row(kind: Kind, options: &Options, progress: &Progress) -> Row {
    let (database, index) = kind.names();
    let (records, rounds) = (options.points / RECORD_POINTS, options.rounds);
    let rows = records * RECORD_POINTS;
    let what = format!("{database} {index}: {rows} rows");
    let (mut ours, mut raw): (Vec<Forwarded>, Vec<Duration>) = (Vec::new(), Vec::new());
    let measured = Server::start(kind).map(|server| {
        server.map(|server| {
            take_turns(rounds, progress, &what, |side| {
                match side {
                    Side::Ours => ours.push(forward(&server, ours.len(), records)?),
                    Side::Floor if kind.has_raw() => raw.push(raw::write(&server, raw.len(), rows)?),
                    Side::Floor => {}
                }
                Ok(())
            })
        })
    });
    let invalid = match measured {
        Ok(Some(invalid)) => invalid,
        Ok(None) => Some(format!("{database} is absent: it is not installed, or this binary has no client of it")),
        Err(error) => Some(format!("{database} does not start: {error:#}")),
    };
    let figures = invalid.is_none().then(|| figures(number(rows as u64), &ours, &raw));
    Row { database, index, rows, rounds, figures, invalid }
}

/// Seconds of a processor that writing so many points to PostgreSQL takes; none where it is absent.
///
/// # Errors
/// The server does not start, or not all points are there.
pub(super) fn cpu_of_forwarding(points: usize) -> Result<Option<f64>> {
    let Some(server) = Server::start(Kind::Postgres(Index::Btree))? else { return Ok(None) };
    let records = points.div_ceil(RECORD_POINTS);
    let cpu = forward(&server, 0, records)?.cpu.as_secs_f64();
    Ok(Some(cpu * number(points as u64) / number((records * RECORD_POINTS) as u64)))
}

fn figures(rows: f64, ours: &[Forwarded], raw: &[Duration]) -> Figures {
    let seconds: Vec<f64> = ours.iter().map(|ours| ours.took.as_secs_f64()).collect();
    let cpu: Vec<f64> = ours.iter().map(|ours| ours.cpu.as_secs_f64()).collect();
    let raw: Vec<f64> = raw.iter().map(Duration::as_secs_f64).collect();
    Figures {
        rows_per_s: short(rows / median(&seconds)),
        raw_rows_per_s: (!raw.is_empty()).then(|| short(rows / median(&raw))),
        ratio_to_raw: (!raw.is_empty()).then(|| short(median_ratio(&raw, &seconds))),
        cpu_s_per_million: short(median(&cpu) / rows * 1e6),
    }
}

/// What forwarding took.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    took: Duration,
    cpu: Duration,
}

/// A database that is not reached before it is told, and tells what it has written.
struct Gate {
    open: Option<Receiver<()>>,
    written: Sender<(u64, Instant)>,
    database: Box<dyn Database>,
}

impl Database for Gate {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        if let Some(open) = self.open.take() {
            open.recv().map_err(|_| DatabaseError::Away("the measurement is over".to_owned()))?;
        }
        self.database.connect(journal)
    }

    fn write(&mut self, rows: &[DatabaseRow], upto: u64) -> Result<u64, DatabaseError> {
        let skipped = self.database.write(rows, upto)?;
        let _ = self.written.send((upto, Instant::now()));
        Ok(skipped)
    }
}

/// Fills a journal, and has it forwarded.
fn forward(server: &Server, round: usize, records: usize) -> Result<Forwarded> {
    let folder = TempDir::new().context("a folder for the history")?;
    let (name, source) = (format!("ours{round}"), HistorySource::new(folder.path()));
    let journal = Limits { kept_bytes: u64::MAX >> 1, ..Limits::default() };
    let options = HistoryOptions { journal, ..HistoryOptions::default() };
    let mut writer = HistoryWriter::open_guarded(&source, options, std::sync::Arc::new(|| true))?;
    let ((open, gate), (tell, written)) = (channel(), channel());
    let database = raw::prepare(server, &name, folder.path())?;
    let forwarding = Forwarding {
        name: "bench".to_owned(),
        kind: "bench",
        topics: vec![Filter::new("#")?],
        batch_rows: server.kind().batch_rows(),
        every: Duration::from_secs(1),
        timeout: PATIENCE,
        retry: Duration::from_millis(250),
        database: Box::new(Gate { open: Some(gate), written: tell, database }),
    };
    writer.forward(&source, vec![forwarding])?;
    let topics = topics()?;
    let mut points = (0..).zip(topics.iter().cycle()).map(|(at, topic)| update(topic, at));
    let looped = close_loop(records, WINDOW, |number, tell| {
        let updates = points.by_ref().take(RECORD_POINTS);
        let samples = updates.map(|update| Sample::new(Timestamp::from_micros(0), update)).collect();
        writer.handle().submit(samples, Box::new(move |result| drop(tell.send((number, Instant::now(), result)))));
    })?;
    ensure!(writer.handle().wait_stored(looped.last, PATIENCE), "the store did not have it after {PATIENCE:?}");
    server.settle()?;
    let (began, cpu) = (Instant::now(), process::cpu());
    open.send(()).context("the forwarder has ended")?;
    let ended = loop {
        let (upto, at) = written.recv_timeout(PATIENCE).context("nothing was written")?;
        if upto >= looped.last.0 {
            break at;
        }
    };
    let forwarded = Forwarded { took: ended.duration_since(began), cpu: process::cpu() - cpu };
    drop(writer);
    server.check(&name, records * RECORD_POINTS + TOPICS)?;
    server.remove(&name)?;
    Ok(forwarded)
}

fn topics() -> Result<Vec<Topic>> {
    let names = (0..TOPICS).map(|topic| Topic::new(&format!("bench/device{:03}/point{:02}", topic / 18, topic % 18)));
    Ok(names.collect::<Result<Vec<_>, _>>()?)
}

/// The time of a point, in microseconds, and its value: one topic after the other gets its next value, a second later than its last.
fn point(at: usize) -> (i64, f64) {
    let turn = i64::try_from(at / TOPICS).unwrap_or(0);
    (1_795_167_360_000_000 + turn * 1_000_000, 230.0 + number((at * 7919 % 1000) as u64) / 100.0)
}

fn update(topic: &Topic, at: usize) -> Update {
    let (micros, value) = point(at);
    let point = Point { value: Value::Float(value), quality: Quality::GOOD, time: Timestamp::from_micros(micros) };
    Update { topic: topic.clone(), body: Body::Point(point) }
}

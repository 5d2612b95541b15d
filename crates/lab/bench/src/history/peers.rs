//! A day of a value a second, in this store and in databases that are files, by the same rows and the same questions.
//!
//! | store | how |
//! |---|---|
//! | Tieline | batches of 1,000 points, sixteen under way; the day is closed before the questions |
//! | SQLite | a table with the key topic and time, without row numbers; a write-ahead log that is synced with each batch of 20,000 rows |
//! | VictoriaMetrics | lines of 20,000 rows over HTTP; it syncs what it has every few seconds, so the time ends when the last rows can be queried; questions over HTTP, times in milliseconds |
//! | DuckDB | the program `python3` with the package `duckdb`: a table that takes a file of CSV |
//! | floor | as many bytes as the journal took, synced each MiB; a copy of the rows in memory, a sum of all values |

use super::databases::{Kind, Server};
use super::queries::timed;
use super::series::{DAY_S, FIRST_DAY_S, batch, micros, topics, value};
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Context, Result, bail, ensure};
use rusqlite::Connection;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Filter, Timestamp, Topic, Value};
use tieline_history::{Aggregate, HistoryOptions, HistoryQuery, HistorySource, HistoryWriter};
use tieline_journal::Seq;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("store", "store"),
    ("points", "points"),
    ("points/s", "points_per_s"),
    ("bytes a point", "disk_bytes_per_point"),
    ("day of one point, ms", "day_ms"),
    ("hourly means of all, ms", "hourly_ms"),
];

/// Points of a batch of ours, or more.
const BATCH_POINTS: usize = 1000;
/// Rows of a transaction of SQLite.
const BATCH_ROWS: usize = 20_000;
/// Batches under way.
const WINDOW: usize = 16;
/// Questions of a kind.
const TRIES: usize = 5;
/// Bytes of the floor that are synced together.
const FLOOR_BYTES: usize = 1 << 20;
/// How long anything may take that is not the whole run.
const PATIENCE: Duration = Duration::from_secs(600);
const HOUR_US: i64 = 3_600_000_000;

/// One row: a store.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub store: &'static str,
    /// Points of the day.
    pub points: u64,
    /// What was measured; absent where there was nothing.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Points a second, durable and to be queried.
    pub points_per_s: f64,
    /// Bytes at rest.
    pub disk_bytes_per_point: f64,
    /// All samples of a topic.
    pub day_ms: f64,
    /// A mean for each hour and each topic.
    pub hourly_ms: f64,
}

/// Runs the experiment with a day of so many topics.
///
/// # Errors
/// The topics are out of range, the disk does not have what is needed, or this store fails.
pub fn run(count: usize, progress: &Progress) -> Result<Vec<Row>> {
    ensure!((1..=10_000).contains(&count), "topics are 1 to 10,000");
    let day = Day { topics: topics(count)? };
    progress.show("history: a day in Tieline");
    let (ours, bytes) = day.tieline()?;
    let mut rows = vec![Row { store: "Tieline", points: day.points(), figures: Some(ours), invalid: None }];
    let others: [(&'static str, &dyn Fn() -> Result<Figures>); 4] = [
        ("SQLite", &|| day.sqlite()),
        ("DuckDB", &|| day.duckdb()),
        ("VictoriaMetrics", &|| day.victoria()),
        ("floor", &|| day.floor(bytes)),
    ];
    for (store, measure) in others {
        progress.show(&format!("history: a day in {store}"));
        let measured = measure();
        let invalid = measured.as_ref().err().map(|why| format!("{store}: {why:#}"));
        rows.push(Row { store, points: day.points(), figures: measured.ok(), invalid });
    }
    Ok(rows)
}

struct Day {
    topics: Vec<Topic>,
}

impl Day {
    fn points(&self) -> u64 {
        self.topics.len() as u64 * DAY_S.unsigned_abs()
    }

    fn figures(&self, seconds: f64, disk_bytes: u64, [day_ms, hourly_ms]: [f64; 2]) -> Figures {
        Figures {
            points_per_s: short(number(self.points()) / seconds),
            disk_bytes_per_point: short(number(disk_bytes) / number(self.points())),
            day_ms: short(day_ms),
            hourly_ms: short(hourly_ms),
        }
    }

    /// Rows in order of time: topic, microseconds, value.
    fn rows(&self) -> impl Iterator<Item = (u64, i64, f64)> + '_ {
        let seconds = 0..DAY_S.unsigned_abs();
        let row = |topic, second| (topic, micros(topic, second), double(&value(topic, second)));
        seconds.flat_map(move |second| (0..self.topics.len() as u64).map(move |topic| row(topic, second)))
    }

    /// What it took, and the bytes of the journal.
    fn tieline(&self) -> Result<(Figures, u64)> {
        let folder = TempDir::new().context("a folder for the history")?;
        let source = HistorySource::new(folder.path());
        let writer = HistoryWriter::open_guarded(&source, HistoryOptions::default(), std::sync::Arc::new(|| true))?;
        let (tell, told) = channel();
        let (mut last, mut under_way) = (Seq::default(), 0);
        let seconds: Vec<u64> = (0..DAY_S.unsigned_abs()).collect();
        let mut batches = seconds.chunks(BATCH_POINTS.div_ceil(self.topics.len())).peekable();
        let began = Instant::now();
        while let Some(seconds) = batches.next() {
            let tell = tell.clone();
            let receipt = Box::new(move |result| drop(tell.send(result)));
            let samples = seconds.iter().flat_map(|second| batch(&self.topics, *second)).collect();
            writer.handle().submit(samples, receipt);
            under_way += 1;
            while under_way >= WINDOW || (batches.peek().is_none() && under_way > 0) {
                last = last.max(told.recv_timeout(PATIENCE).context("no receipt came")??);
                under_way -= 1;
            }
        }
        ensure!(writer.handle().wait_stored(last, PATIENCE), "the store did not have it in time");
        let seconds = began.elapsed().as_secs_f64();
        let closed = writer.handle().close_days().recv_timeout(PATIENCE).context("the day was not closed in time")?;
        closed.map_err(|why| anyhow::anyhow!("the day was not closed: {why}"))?;
        let at = |second: i64| Some(Timestamp::from_micros((FIRST_DAY_S + second) * 1_000_000));
        let day = |filter: &str| {
            anyhow::Ok(HistoryQuery { from: at(0), to: at(DAY_S), ..HistoryQuery::of(Filter::new(filter)?) })
        };
        let one = tries(|n| timed(&source.reader()?, day(self.topic(n))?, DAY_S.unsigned_abs()))?;
        let hour = Some(Duration::from_secs(3600));
        let hourly = || anyhow::Ok(HistoryQuery { every: hour, aggregate: Aggregate::Mean, ..day("bench/#")? });
        let all = tries(|_| timed(&source.reader()?, hourly()?, 24 * self.topics.len() as u64))?;
        let status = writer.handle().status();
        Ok((self.figures(seconds, status.store_bytes, [one, all]), status.journal.written_bytes))
    }

    fn topic(&self, n: usize) -> &str {
        self.topics.get(n * 7919 % self.topics.len()).map_or("", Topic::as_str)
    }

    fn sqlite(&self) -> Result<Figures> {
        let folder = TempDir::new().context("a folder for SQLite")?;
        let file = folder.path().join("day.sqlite");
        let mut database = Connection::open(&file)?;
        database.execute_batch(
            "pragma journal_mode = wal; pragma synchronous = full; create table samples \
             (topic integer, time integer, value real, primary key (topic, time)) without rowid",
        )?;
        let (began, mut rows) = (Instant::now(), self.rows().peekable());
        while rows.peek().is_some() {
            let transaction = database.transaction()?;
            {
                let mut insert = transaction.prepare_cached("insert into samples values (?1, ?2, ?3)")?;
                for (topic, time, value) in rows.by_ref().take(BATCH_ROWS) {
                    insert.execute((i64::try_from(topic)?, time, value))?;
                }
            }
            transaction.commit()?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let counted = |question: &str, expect: u64| {
            let (began, mut count) = (Instant::now(), 0);
            let mut statement = database.prepare_cached(question)?;
            let mut found = statement.query(())?;
            while let Some(row) = found.next()? {
                row.get::<_, f64>(1)?;
                count += 1;
            }
            ensure!(count == expect, "{count} rows, expected {expect}");
            Ok(began.elapsed().as_secs_f64() * 1000.0)
        };
        let one = |n: usize| format!("select time, value from samples where topic = {}", n * 7919 % self.topics.len());
        let one = tries(|n| counted(&one(n), DAY_S.unsigned_abs()))?;
        let hourly = format!("select topic, avg(value) from samples group by topic, time / {HOUR_US}");
        let all = tries(|_| counted(&hourly, 24 * self.topics.len() as u64))?;
        database.query_row("pragma wal_checkpoint(truncate)", (), |_| Ok(()))?;
        Ok(self.figures(seconds, fs::metadata(&file)?.len(), [one, all]))
    }

    fn duckdb(&self) -> Result<Figures> {
        let folder = TempDir::new().context("a folder for DuckDB")?;
        let mut csv = BufWriter::new(File::create(folder.path().join("day.csv"))?);
        for (topic, time, value) in self.rows() {
            writeln!(csv, "{topic},{time},{value}")?;
        }
        csv.into_inner().context("the file of rows")?.sync_all()?;
        let mut command = Command::new("python3");
        command.arg("-c").arg(DUCKDB).arg(folder.path()).arg(self.topics.len().to_string());
        let done = command.output().context("python3")?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            let last = said.lines().last().unwrap_or_default();
            bail!("it is absent, expected python3 with the package duckdb: {last}");
        }
        let figures: Vec<f64> = serde_json::from_slice(&done.stdout)?;
        let [seconds, rows, day_ms, hourly_ms] = figures.as_slice() else { bail!("{figures:?} are not four figures") };
        ensure!(*rows == number(self.points()), "{rows} rows, expected {}", self.points());
        let bytes = fs::metadata(folder.path().join("day.duckdb"))?.len();
        Ok(self.figures(*seconds, bytes, [*day_ms, *hourly_ms]))
    }

    fn victoria(&self) -> Result<Figures> {
        let started = Server::start(Kind::Victoria)?;
        let server = started.context("it is absent, expected the program victoria-metrics")?;
        let (agent, url) = (ureq::Agent::new_with_defaults(), server.url("/write"));
        let (mut body, mut took, mut rows) = (String::new(), Duration::ZERO, self.rows().peekable());
        while rows.peek().is_some() {
            body.clear();
            for (topic, time, value) in rows.by_ref().take(BATCH_ROWS) {
                let _ = writeln!(body, "samples,topic={topic} value={value} {}", time * 1000);
            }
            let began = Instant::now();
            agent.post(&url).send(body.as_str())?;
            took += began.elapsed();
        }
        let (began, topics) = (Instant::now(), self.topics.len() as u64);
        server.get("/internal/force_flush")?;
        let [from, to] = [FIRST_DAY_S, FIRST_DAY_S + DAY_S];
        let count = format!("/api/v1/query?query=sum(count_over_time(samples_value[{}s]))&time={to}", DAY_S + 1);
        let found = server.get(&count)?;
        ensure!(found.contains(&format!("\"{}\"", self.points())), "expected {} rows: {found}", self.points());
        took += began.elapsed();
        let one = |n: u64| format!("/api/v1/export?match[]=samples_value%7Btopic=%22{}%22%7D", n * 7919 % topics);
        let one = tries(|n| {
            let began = Instant::now();
            let found = server.get(&one(n as u64))?;
            let times = found.split_once("\"timestamps\":[").map_or(0, |(_, times)| times.split(',').count());
            ensure!(times as u64 == DAY_S.unsigned_abs(), "{times} samples, expected {DAY_S}");
            Ok(began.elapsed().as_secs_f64() * 1000.0)
        })?;
        let means = format!(
            "/api/v1/query_range?query=avg_over_time(samples_value[1h])&start={}&end={to}&step=1h&nocache=1",
            from + 3600
        );
        let all = tries(|_| {
            let began = Instant::now();
            let series = server.get(&means)?.matches("\"metric\"").count() as u64;
            ensure!(series == topics, "{series} topics, expected {topics}");
            Ok(began.elapsed().as_secs_f64() * 1000.0)
        })?;
        let disk_bytes = server.disk_bytes()?;
        Ok(self.figures(took.as_secs_f64(), disk_bytes, [one, all]))
    }

    fn floor(&self, bytes: u64) -> Result<Figures> {
        let folder = TempDir::new().context("a folder for a plain file")?;
        let (mut file, part) = (File::create(folder.path().join("plain"))?, vec![0x5a; FLOOR_BYTES]);
        let began = Instant::now();
        for _ in 0..bytes.div_ceil(FLOOR_BYTES as u64) {
            file.write_all(&part)?;
            file.sync_data()?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let day: Vec<(i64, f64)> =
            (0..DAY_S.unsigned_abs()).map(|second| (micros(0, second), double(&value(0, second)))).collect();
        let values: Vec<f64> = day.iter().map(|(_, value)| *value).cycle().take(self.points().try_into()?).collect();
        let one = tries(|_| {
            let began = Instant::now();
            let copied = std::hint::black_box(day.clone());
            ensure!(copied.len() == day.len(), "the copy is another");
            Ok(began.elapsed().as_secs_f64() * 1000.0)
        })?;
        let all = tries(|_| {
            let began = Instant::now();
            let sum = std::hint::black_box(values.iter().sum::<f64>());
            ensure!(sum.is_finite(), "the sum is none");
            Ok(began.elapsed().as_secs_f64() * 1000.0)
        })?;
        Ok(self.figures(seconds, bytes, [one, all]))
    }
}

/// Takes a folder with the file of rows and the number of topics; prints seconds, rows, and milliseconds of both questions.
const DUCKDB: &str = "
import duckdb, json, sys, time
folder, topics = sys.argv[1], int(sys.argv[2])
d = duckdb.connect(folder + '/day.duckdb')
d.execute('create table samples (topic integer, time bigint, value double)')
began = time.monotonic()
d.execute(f\"insert into samples select * from read_csv('{folder}/day.csv', header = false)\")
d.execute('checkpoint')
seconds = time.monotonic() - began
def ms(question, expect):
    took = []
    for n in range(5):
        began = time.monotonic()
        rows = d.execute(question(n)).fetchall()
        took.append((time.monotonic() - began) * 1000)
        assert len(rows) == expect, len(rows)
    return sorted(took)[2]
one = ms(lambda n: f'select time, value from samples where topic = {n * 7919 % topics}', 86400)
means = ms(lambda n: 'select topic, avg(value) from samples group by topic, time // 3600000000', topics * 24)
print(json.dumps([seconds, d.execute('select count(*) from samples').fetchone()[0], one, means]))
";

fn tries(mut ask: impl FnMut(usize) -> Result<f64>) -> Result<f64> {
    Ok(median(&(0..TRIES).map(&mut ask).collect::<Result<Vec<_>>>()?))
}

/// The value as other stores have it: true is 1.
const fn double(value: &Value) -> f64 {
    match value {
        Value::Float(x) => *x,
        Value::Bool(true) => 1.0,
        Value::Bool(false) | Value::Null | Value::Int(_) | Value::Text(_) | Value::Bytes(_) => 0.0,
    }
}

//! The thread over a real history, with a clock that is set.

use super::{DerivedNews, DerivedParts, DerivedState, DerivedWriter};
use crate::{HistoryOptions, HistoryQuery, HistoryReader, HistorySource, HistoryWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_derived::{Expression, Form, Series};
use tieline_journal::Sample;

const PATIENCE: Duration = Duration::from_secs(60);
const START: i64 = 1_795_000_000_000_000;
const SECOND: i64 = 1_000_000;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

fn series(name: &str, text: &str, every_s: Option<u64>) -> Series {
    let form = if every_s.is_some() { Form::Interval } else { Form::Change };
    let (expression, every) = (Expression::parse(text, form).unwrap(), every_s.map(Duration::from_secs));
    Series { topic: topic(name), expression, every, wait: Duration::from_secs(1), backfill: None }
}

/// A history, the thread, and its news.
struct Bench {
    writer: DerivedWriter,
    news: Receiver<DerivedNews>,
    clock: Arc<AtomicI64>,
    source: HistorySource,
    history: HistoryWriter,
}

impl Bench {
    fn start(folder: &Path, now: i64, all: Vec<Series>) -> Self {
        let source = HistorySource::new(folder);
        let options = HistoryOptions::default();
        let history = HistoryWriter::open_guarded(&source, options, Arc::new(|| true)).unwrap();
        let (tell, news) = channel();
        let clock = Arc::new(AtomicI64::new(START + now));
        let time = Arc::clone(&clock);
        let parts = DerivedParts {
            clock: Box::new(move || Timestamp::from_micros(time.load(Ordering::Relaxed))),
            tell: Box::new(move |said| drop(tell.send(said))),
        };
        let writer = DerivedWriter::start(&source, parts).unwrap();
        writer.handle().set_history(history.handle().clone());
        writer.handle().set(all);
        Self { writer, news, clock, source, history }
    }

    fn set_clock(&self, micros: i64) {
        self.clock.store(START + micros, Ordering::Relaxed);
    }

    fn record(&self, name: &str, samples: impl IntoIterator<Item = (i64, f64)>) {
        let sample = |(micros, x): (i64, f64)| {
            let point = Point { value: Value::Float(x), quality: Quality::GOOD, time: at(micros) };
            Sample::new(at(micros), Update { topic: topic(name), body: Body::Point(point) })
        };
        let (told, receipt) = channel();
        let samples = samples.into_iter().map(sample).collect();
        self.history.handle().submit(samples, Box::new(move |done| drop(told.send(done))));
        receipt.recv_timeout(PATIENCE).unwrap().unwrap();
    }

    fn wait(&self, name: &str, is_there: impl Fn(&super::DerivedStatus) -> bool) {
        let began = Instant::now();
        while !self.writer.handle().status().get(&topic(name)).is_some_and(&is_there) {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.writer.handle());
            std::thread::yield_now();
        }
    }

    /// Waits until a series is calculated up to a time.
    fn wait_upto(&self, name: &str, micros: i64) {
        self.wait(name, |status| {
            status.state == DerivedState::Live && status.span.is_some_and(|(_, upto, _)| upto >= at(micros))
        });
    }

    fn results(&self, name: &str) -> Vec<(i64, f64)> {
        let reader: HistoryReader = self.source.reader().unwrap();
        let rows = reader.query(HistoryQuery::of(Filter::new(name).unwrap())).unwrap();
        let pair = |point: Point| (point.time.micros() - START, point.value.as_f64().unwrap());
        rows.map(|row| pair(row.unwrap().point)).collect()
    }
}

#[test]
fn an_interval_has_the_same_result_whenever_it_is_calculated() {
    let folder = tempfile::tempdir().unwrap();
    let declared = || {
        let over = series("hour", "sum('minute') + count('minute')", Some(600));
        vec![over, series("minute", "integral('power') + 0 * last('power')", Some(60))]
    };
    let power = |from: i64, to: i64| (from..to).map(|n| (n * 7 * SECOND + 1, (n % 13) as f64));
    let bench = Bench::start(folder.path(), 600 * SECOND, declared());
    bench.record("power", power(0, 100));
    bench.set_clock(700 * SECOND);
    bench.wait_upto("minute", 600 * SECOND);
    // Time passes, an interval or a few at a time.
    for n in 100..190 {
        bench.record("power", power(n, n + 1));
        bench.set_clock((n * 7 + 1) * SECOND);
    }
    bench.set_clock(1400 * SECOND);
    bench.wait_upto("minute", 1340 * SECOND);
    bench.wait_upto("hour", 800 * SECOND);
    let (minutes, hours) = (bench.results("minute"), bench.results("hour"));
    assert!(minutes.len() >= 20 && !hours.is_empty(), "{minutes:?} {hours:?}");
    let newest = bench.news.try_iter().filter_map(|news| match news {
        DerivedNews::Newest { topic, point } if topic.as_str() == "minute" => Some(point.time.micros() - START),
        _ => None,
    });
    assert_eq!(newest.last(), minutes.last().map(|last| last.0));
    drop(bench);
    // In another history it is all of the past.
    let other = tempfile::tempdir().unwrap();
    let bench = Bench::start(other.path(), 0, Vec::new());
    bench.record("power", power(0, 190));
    bench.set_clock(1400 * SECOND);
    bench.writer.handle().set(declared());
    bench.wait_upto("minute", 1340 * SECOND);
    bench.wait_upto("hour", 800 * SECOND);
    let behind = |all: &[(i64, f64)], first: i64| all.iter().copied().filter(|one| one.0 >= first).collect::<Vec<_>>();
    assert_eq!(bench.results("minute"), minutes);
    let (first, all) = (hours[0].0, bench.results("hour"));
    assert_eq!(behind(&all, first), hours);
}

#[test]
fn a_restart_in_the_middle_of_a_backfill_goes_on_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let declared = || vec![series("double", "'x' * 2", None)];
    const COUNT: i64 = 30_000;
    let now = 2 * COUNT * 1000;
    let mut bench = Bench::start(folder.path(), now, Vec::new());
    for from in (0..COUNT).step_by(10_000) {
        bench.record("x", (from..from + 10_000).map(|n| (n * 1000, n as f64)));
    }
    bench.writer.handle().set(declared());
    for _ in 0..3 {
        bench.wait("double", |status| status.results > 0);
        let status = bench.writer.handle().status().remove(&topic("double")).unwrap();
        assert!(status.progress() < 1.0 && status.results < COUNT as u64, "a piece is a part of the whole");
        drop(bench);
        bench = Bench::start(folder.path(), now, declared());
    }
    bench.wait_upto("double", COUNT * 1000);
    let expect: Vec<(i64, f64)> = (0..COUNT).map(|n| (n * 1000, n as f64 * 2.0)).collect();
    assert_eq!(bench.results("double"), expect);
    // What came while nobody calculated has results too, and what there was has none again.
    drop(bench);
    let bench = Bench::start(folder.path(), now + 100 * SECOND, Vec::new());
    bench.record("x", [(now + SECOND, 1.0), (now + 2 * SECOND, 3.0)]);
    bench.record("double", [(now + SECOND, 2.0)]);
    bench.writer.handle().set(declared());
    bench.wait_upto("double", now + 50 * SECOND);
    assert_eq!(bench.results("double").split_off(expect.len()), [(now + SECOND, 2.0), (now + 2 * SECOND, 6.0)]);
}

#[test]
fn a_series_that_has_changed_is_calculated_again() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::start(folder.path(), 100 * SECOND, vec![series("y", "'x' * 2", None)]);
    bench.record("x", [(SECOND, 1.0), (2 * SECOND, 2.0)]);
    bench.set_clock(200 * SECOND);
    bench.writer.handle().set(vec![series("y", "'x' * 3", None), series("z", "'y' + 1", None)]);
    bench.wait_upto("z", 90 * SECOND);
    let results = |name: &str, expect: [f64; 2]| {
        assert_eq!(bench.results(name), [(SECOND, expect[0]), (2 * SECOND, expect[1])], "{name}");
    };
    results("y", [3.0, 6.0]);
    results("z", [4.0, 7.0]);
    // What takes it is calculated again too.
    bench.writer.handle().set(vec![series("y", "'x' * 4", None), series("z", "'y' + 1", None)]);
    bench.wait("z", |status| status.state != DerivedState::Live);
    bench.wait_upto("z", 90 * SECOND);
    results("y", [4.0, 8.0]);
    results("z", [5.0, 9.0]);
    let held = bench.news.try_iter().filter_map(|news| match news {
        DerivedNews::Seed { topic, held, .. } if topic.as_str() == "z" => Some(held[0].unwrap().1.value),
        _ => None,
    });
    assert_eq!(held.last(), Some(Some(tieline_derived::Scalar::Number(8.0))));
}

//! Prometheus remote write 1.0 over HTTP: protobuf, compressed by snappy.
//!
//! ```text
//!  WriteRequest  1 timeseries ─┬─ 1 label    1 name, 2 value     __name__, q, topic: in this order
//!                              └─ 2 sample   1 value (double), 2 milliseconds
//! ```
//!
//! A topic has one series for each validity. When its validity changes, the series that it had ends with a stale marker, so that a query
//! finds one of them. A null ends it, too.
//!
//! Receivers refuse samples that are older than the last of their series, or than an hour, or of the future; some write nothing of a
//! request with one of those. What a receiver may refuse is sent after the rest, in requests of its own. A request that is refused is
//! divided, and what is still refused alone is counted.

use crate::http::{Credentials, Writes};
use crate::position::PositionFile;
use crate::{Database, DatabaseError, Row, time_for};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tieline_core::{Topic, Validity, Value};

/// Samples of one request, as many as Prometheus sends.
const REQUEST_SAMPLES: usize = 2000;
/// Requests of one batch beyond those that it needs, to find what is refused.
const DIVISIONS_MAX: usize = 128;
/// Topics whose last sample is known; above it all are forgotten.
const TOPICS_MAX: usize = 1_000_000;
/// Receivers refuse what is so much older than the newest sample.
const OLD: i64 = 3_600_000;
/// They refuse what is so far in the future.
const FUTURE: i64 = 600_000;
/// The number, not a number, that ends a series.
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// The number for all others that are none.
const NOT_A_NUMBER: u64 = 0x7ff8_0000_0000_0001;

/// How a receiver is reached, and what it is given.
#[derive(Clone, Debug)]
pub struct RemoteWriteOptions {
    /// The whole address of writes, as in `http://host:9090/api/v1/write`.
    pub url: String,
    /// Who writes; a token is a bearer token.
    pub credentials: Option<Credentials>,
    /// More headers of each request.
    pub headers: Vec<(String, String)>,
    /// The name of the metric.
    pub metric: String,
    /// The longest time for a request.
    pub timeout: Duration,
    /// The file of the position.
    pub position: PathBuf,
}

/// A receiver of Prometheus remote write.
pub struct RemoteWrite {
    options: RemoteWriteOptions,
    writes: Writes,
    position: PositionFile,
    authorization: Option<String>,
    journal: String,
    /// The last sample of each topic that was taken.
    last: HashMap<Topic, Last>,
    newest: i64,
    rejected: u64,
    snappy: snap::raw::Encoder,
    message: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Last {
    millis: i64,
    validity: Validity,
    /// Where it stands in the batch.
    at: usize,
}

/// A sample of a series.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    topic: Topic,
    validity: Validity,
    millis: i64,
    /// The bits of the number: those of the stale marker must stay as they are.
    bits: u64,
}

/// A batch as it is sent.
#[derive(Debug, Default, PartialEq)]
struct Prepared {
    /// In the order of their series.
    plain: Vec<Sample>,
    /// What a receiver may refuse.
    doubtful: Vec<Sample>,
    last: HashMap<Topic, Last>,
    newest: i64,
    skipped: u64,
}

impl RemoteWrite {
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(options: RemoteWriteOptions) -> Self {
        Self {
            writes: Writes::new(&options.url),
            position: PositionFile::new(options.position.clone()),
            options,
            authorization: None,
            journal: String::new(),
            last: HashMap::new(),
            newest: i64::MIN,
            rejected: 0,
            snappy: snap::raw::Encoder::new(),
            message: Vec::new(),
            body: Vec::new(),
        }
    }

    fn prepare(&self, rows: &[Row], now: i64) -> Prepared {
        let mut all = Prepared { newest: self.newest, ..Prepared::default() };
        for row in rows {
            let last = all.last.get(&row.topic).or_else(|| self.last.get(&row.topic)).copied();
            let validity = row.quality.validity();
            let (validity, bits) = match &row.value {
                Value::Float(x) if x.is_nan() => (validity, NOT_A_NUMBER),
                Value::Float(x) => (validity, x.to_bits()),
                #[expect(clippy::cast_precision_loss, reason = "a receiver has doubles")]
                Value::Int(n) => (validity, (*n as f64).to_bits()),
                Value::Bool(truth) => (validity, f64::from(u8::from(*truth)).to_bits()),
                Value::Null => (last.map_or(validity, |last| last.validity), STALE),
                Value::Text(_) | Value::Bytes(_) => {
                    all.skipped += 1;
                    continue;
                }
            };
            let sample = Sample { topic: row.topic.clone(), validity, millis: row.time.millis(), bits };
            all.add(sample, last, now);
        }
        all
    }

    /// Sends samples, and divides what is refused. With `gives_up`, what is beyond the limit of requests counts as refused.
    fn send(
        &mut self,
        samples: &[Sample],
        left: &mut usize,
        gives_up: bool,
        limit: Duration,
    ) -> Result<(), DatabaseError> {
        self.message.clear();
        encode(samples, &self.options.metric, &mut self.message);
        let error = match self.post(limit) {
            Err(error @ DatabaseError::Rejected(_)) => error,
            other => return other,
        };
        match samples {
            [] => Ok(()),
            [one] => {
                self.rejected += u64::from(one.bits != STALE);
                Ok(())
            }
            _ if *left < 2 && gives_up => {
                self.rejected += samples.iter().filter(|sample| sample.bits != STALE).count() as u64;
                Ok(())
            }
            _ if *left < 2 => Err(error),
            _ => {
                *left -= 2;
                let (first, rest) = samples.split_at(samples.len() / 2);
                self.send(first, left, gives_up, limit)?;
                self.send(rest, left, gives_up, limit)
            }
        }
    }

    fn post(&mut self, limit: Duration) -> Result<(), DatabaseError> {
        self.body.resize(snap::raw::max_compress_len(self.message.len()), 0);
        let compressed = self.snappy.compress(&self.message, &mut self.body);
        let length = compressed.map_err(|error| DatabaseError::Rejected(error.to_string()))?;
        let mut headers = vec![
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "snappy"),
            ("x-prometheus-remote-write-version", "0.1.0"),
        ];
        headers.extend(self.options.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        headers.extend(self.authorization.as_deref().map(|words| ("authorization", words)));
        self.writes.send(&headers, self.body.get(..length).unwrap_or_default(), limit)
    }
}

impl Prepared {
    /// Adds a sample of a topic whose sample before it was `last`.
    fn add(&mut self, sample: Sample, last: Option<Last>, now: i64) {
        let millis = sample.millis;
        let is_late = last.is_some_and(|last| millis <= last.millis);
        // Of different samples of one millisecond a series has one: the last.
        let same = last.filter(|last| (last.millis, last.validity) == (millis, sample.validity));
        if let Some(same) = same
            .and_then(|same| self.plain.get_mut(same.at))
            .filter(|same| (&same.topic, same.millis, same.validity) == (&sample.topic, sample.millis, sample.validity))
        {
            same.bits = sample.bits;
            return;
        }
        if is_late || millis < self.newest.saturating_sub(OLD) || millis > now.saturating_add(FUTURE) {
            self.doubtful.push(sample);
            return;
        }
        if let Some(before) = last.filter(|last| last.validity != sample.validity) {
            self.plain.push(Sample { validity: before.validity, bits: STALE, ..sample.clone() });
        }
        let last = Last { millis, validity: sample.validity, at: self.plain.len() };
        self.newest = self.newest.max(millis);
        self.last.insert(sample.topic.clone(), last);
        self.plain.push(sample);
    }
}

impl Database for RemoteWrite {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        let refused = |error: &io::Error| DatabaseError::Refused(error.to_string());
        journal.clone_into(&mut self.journal);
        self.authorization = match &self.options.credentials {
            Some(credentials) => Some(credentials.authorization("Bearer").map_err(|error| refused(&error))?),
            None => None,
        };
        // An empty request shows whether somebody is there who takes it.
        self.message.clear();
        match self.post(self.options.timeout) {
            Ok(()) | Err(DatabaseError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
        self.position.read(journal).map_err(|error| refused(&error))
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let prepared = self.prepare(rows, i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let limit = self.options.timeout + time_for(rows);
        self.rejected = 0;
        let mut left = DIVISIONS_MAX;
        for samples in prepared.plain.chunks(REQUEST_SAMPLES) {
            self.send(samples, &mut left, false, limit)?;
        }
        let mut left = DIVISIONS_MAX;
        for samples in prepared.doubtful.chunks(REQUEST_SAMPLES) {
            self.send(samples, &mut left, true, limit)?;
        }
        let written = self.position.write(&self.journal, upto);
        written.map_err(|error| DatabaseError::Refused(format!("the position cannot be kept: {error}")))?;
        if self.last.len() + prepared.last.len() > TOPICS_MAX {
            self.last.clear();
        }
        self.last.extend(prepared.last.into_iter().map(|(topic, last)| (topic, Last { at: usize::MAX, ..last })));
        self.newest = prepared.newest;
        Ok(prepared.skipped)
    }

    fn take_rejected(&mut self) -> u64 {
        std::mem::take(&mut self.rejected)
    }
}

/// Appends a request with these samples, those of one series together.
fn encode(samples: &[Sample], metric: &str, out: &mut Vec<u8>) {
    let mut order: Vec<&Sample> = samples.iter().collect();
    order.sort_by(|a, b| (&*a.topic, a.validity).cmp(&(&*b.topic, b.validity)));
    let (mut series, mut part) = (Vec::new(), Vec::new());
    for samples in order.chunk_by(|a, b| (&a.topic, a.validity) == (&b.topic, b.validity)) {
        series.clear();
        let Some(first) = samples.first() else { continue };
        for (name, value) in [("__name__", metric), ("q", first.validity.name()), ("topic", &*first.topic)] {
            part.clear();
            push_bytes(&mut part, 1, name.as_bytes());
            push_bytes(&mut part, 2, value.as_bytes());
            push_bytes(&mut series, 1, &part);
        }
        for sample in samples {
            part.clear();
            part.push(1 << 3 | 1);
            part.extend(sample.bits.to_le_bytes());
            part.push(2 << 3);
            push_varint(&mut part, sample.millis.cast_unsigned());
            push_bytes(&mut series, 2, &part);
        }
        push_bytes(out, 1, &series);
    }
}

/// Appends a field that has a length.
fn push_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    push_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::serve;
    use tieline_core::{Quality, Timestamp};

    const NOW: i64 = 1_700_000_000_000;

    fn row(topic: &str, millis: i64, value: Value) -> Row {
        let (topic, time) = (Topic::new(topic).unwrap(), Timestamp::from_millis(NOW + millis));
        Row { topic, time, value, quality: Quality::GOOD, again: false }
    }

    fn receiver(url: String, folder: &std::path::Path) -> RemoteWrite {
        let headers = vec![("X-Scope-OrgID".to_owned(), "plant".to_owned())];
        let position = folder.join("x.position");
        let timeout = Duration::from_secs(20);
        RemoteWrite::new(RemoteWriteOptions {
            url,
            credentials: None,
            headers,
            metric: "m".to_owned(),
            timeout,
            position,
        })
    }

    #[test]
    fn a_request_is_protobuf() {
        let topic = Topic::new("a/b").unwrap();
        let sample = Sample { topic, validity: Validity::Good, millis: 300, bits: 1.5_f64.to_bits() };
        let mut out = Vec::new();
        encode(&[sample], "m", &mut out);
        let expect = [
            b"\x0a\x36".as_slice(),
            b"\x0a\x0d\x0a\x08__name__\x12\x01m",
            b"\x0a\x09\x0a\x01q\x12\x04good",
            b"\x0a\x0c\x0a\x05topic\x12\x03a/b",
            b"\x12\x0c\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02",
        ];
        assert_eq!(out, expect.concat());
    }

    #[test]
    fn series_are_in_order_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut receiver = receiver(String::new(), folder.path());
        let bad = |row: Row| Row { quality: Quality::AWAY, ..row };
        let check = |receiver: &RemoteWrite, rows: &[Row], plain: &[(i64, Validity, u64)], doubtful: &[i64]| {
            let found = receiver.prepare(rows, NOW);
            let shown = |s: &Sample| (s.millis - NOW, s.validity, s.bits);
            assert_eq!(found.plain.iter().map(shown).collect::<Vec<_>>(), plain);
            assert_eq!(found.doubtful.iter().map(|s| s.millis - NOW).collect::<Vec<_>>(), doubtful);
            found
        };
        let (good, not) = (Validity::Good, Validity::Bad);
        let bits = |x: f64| x.to_bits();
        let rows = [row("a", 1, Value::Int(7)), row("a", 1, Value::Int(8)), bad(row("a", 5, Value::Bool(true)))];
        check(&receiver, &rows, &[(1, good, bits(8.0)), (5, good, STALE), (5, not, bits(1.0))], &[]);
        let rows =
            [row("a", 1, Value::Float(f64::NAN)), row("a", 2, Value::Null), row("a", 3, Value::Text("x".into()))];
        let found = check(&receiver, &rows, &[(1, good, NOT_A_NUMBER), (2, good, STALE)], &[]);
        assert_eq!(found.skipped, 1);
        // What goes back, is of yesterday or of tomorrow goes by itself.
        let rows = [10, 9, -OLD, 11, FUTURE + 1].map(|at| row("a", at, Value::Int(0)));
        check(&receiver, &rows, &[(10, good, 0), (11, good, 0)], &[9, -OLD, FUTURE + 1]);
        receiver.newest = NOW + 1;
        receiver.last.insert(Topic::new("a").unwrap(), Last { millis: NOW + 20, validity: good, at: usize::MAX });
        let rows = [row("a", 20, Value::Int(0)), row("b", -OLD, Value::Int(0))];
        check(&receiver, &rows, &[], &[20, -OLD]);
    }

    #[test]
    fn what_is_refused_is_found_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        // The probe; four samples, refused; both halves, of which the second is refused; each of the rest.
        let (url, server) = serve(&[204, 400, 204, 409, 204, 400, 503]);
        let mut receiver = receiver(url, folder.path());
        assert_eq!(receiver.connect("j"), Ok(None));
        let rows = ["a", "b", "c", "d"].map(|topic| row(topic, 1, Value::Int(1)));
        assert_eq!((receiver.write(&rows, 7), receiver.take_rejected()), (Ok(0), 1));
        assert!(matches!(receiver.write(&rows[..1], 8), Err(DatabaseError::Away(_))));
        let bodies = server.join().unwrap();
        let sizes: Vec<usize> = bodies.iter().map(|body| snap::raw::decompress_len(body).unwrap()).collect();
        assert_eq!((sizes[0], sizes[1], sizes[2], sizes[4]), (0, sizes[2] * 2, sizes[3], sizes[5]));
        assert_eq!(receiver.position.read("j").unwrap(), Some(7));
    }
}

//! Line protocol over HTTP, as InfluxDB and VictoriaMetrics take it: `measurement,topic=T,q=good value=1.5 TIME`.
//!
//! A number and a truth (1 or 0) are the field `value`, a text the field `text`. The validity of the sample is the tag `q`. There are
//! no transactions: the position is in a file that is written once a second at most, and when the connection ends. Batches that were
//! written just before the process was killed are written again.
//!
//! A batch of more than one part is sent in chunks, while it is made: the server reads the first lines while the last are made.

use crate::http::{Credentials, Writes};
use crate::position::PositionFile;
use crate::{Database, DatabaseError, Row, time_for};
use memchr::{memchr2, memchr3};
use std::io::{self, Read};
use std::path::PathBuf;
use std::slice;
use std::time::{Duration, Instant};
use tieline_core::Value;

/// How often the position is kept: syncing a file takes as long as a batch.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Bytes of a part that is made at once, give or take a line.
const PART_BYTES: usize = 64 << 10;

/// How a database that takes line protocol is reached, and what it is given.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// The whole address of writes, as in `http://host:8086/write?db=plant`.
    pub url: String,
    /// Who writes.
    pub credentials: Option<Credentials>,
    /// The measurement of all samples.
    pub measurement: String,
    /// Whether texts are written; VictoriaMetrics has none.
    pub texts: bool,
    /// The longest time for a batch.
    pub timeout: Duration,
    /// The file of the position.
    pub position: PathBuf,
}

/// A database that takes line protocol.
pub struct Line {
    options: LineOptions,
    writes: Writes,
    position: PositionFile,
    /// The position that is not in the file yet.
    pending: Option<u64>,
    /// When the file was written.
    kept: Option<Instant>,
    authorization: Option<String>,
    journal: String,
    /// What every line begins with.
    begin: String,
    part: String,
}

impl Line {
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(options: LineOptions) -> Self {
        let position = PositionFile::new(options.position.clone());
        let (journal, part, mut begin) = (String::new(), String::new(), String::new());
        escape(&mut begin, &options.measurement, |text| memchr2(b',', b' ', text));
        begin.push_str(",topic=");
        let (writes, authorization, pending, kept) = (Writes::new(&options.url), None, None, None);
        Self { options, writes, position, pending, kept, authorization, journal, begin, part }
    }

    /// Sends rows as lines; how many there are no lines for.
    fn send(&mut self, rows: &[Row], limit: Duration) -> Result<u64, DatabaseError> {
        let mut headers = vec![("content-type", "text/plain; charset=utf-8")];
        headers.extend(self.authorization.as_deref().map(|words| ("authorization", words)));
        let (begin, texts, part) = (self.begin.as_str(), self.options.texts, &mut self.part);
        let mut lines = Lines { begin, texts, rows: rows.iter(), skipped: 0, part, sent: 0 };
        lines.fill();
        if lines.rows.as_slice().is_empty() {
            // An empty batch that was given rows needs nobody.
            if rows.is_empty() || !lines.part.is_empty() {
                self.writes.send(&headers, lines.part.as_bytes(), limit)?;
            }
        } else {
            self.writes.stream(&headers, &mut lines, limit)?;
        }
        Ok(lines.skipped)
    }

    fn keep_position(&mut self) -> io::Result<()> {
        let Some(seq) = self.pending else { return Ok(()) };
        self.position.write(&self.journal, seq)?;
        (self.pending, self.kept) = (None, Some(Instant::now()));
        Ok(())
    }
}

/// Rows that become lines as they are read.
struct Lines<'a> {
    begin: &'a str,
    texts: bool,
    rows: slice::Iter<'a, Row>,
    /// Rows that there are no lines for.
    skipped: u64,
    part: &'a mut String,
    /// How much of the part was read.
    sent: usize,
}

impl Lines<'_> {
    /// Makes the next part.
    fn fill(&mut self) {
        self.part.clear();
        self.sent = 0;
        while self.part.len() < PART_BYTES {
            let Some(row) = self.rows.next() else { break };
            self.skipped += u64::from(!push(self.part, self.begin, self.texts, row));
        }
    }
}

impl Read for Lines<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.sent == self.part.len() {
            self.fill();
        }
        let read = self.part.as_bytes().get(self.sent..).unwrap_or_default().read(out)?;
        self.sent += read;
        Ok(read)
    }
}

/// Appends the line of a row; false where the protocol, or the database, has none for it.
fn push(out: &mut String, begin: &str, texts: bool, row: &Row) -> bool {
    let Some(nanos) = row.time.micros().checked_mul(1000) else { return false };
    let length = out.len();
    out.push_str(begin);
    escape(out, &row.topic, |text| memchr3(b',', b' ', b'=', text));
    out.push_str(",q=");
    out.push_str(row.quality.validity().name());
    let has_field = match &row.value {
        Value::Float(x) if x.is_finite() => {
            out.push_str(" value=");
            out.push_str(zmij::Buffer::new().format_finite(*x));
            true
        }
        Value::Int(n) => {
            out.push_str(" value=");
            out.push_str(itoa::Buffer::new().format(*n));
            true
        }
        Value::Bool(truth) => {
            out.push_str(if *truth { " value=1" } else { " value=0" });
            true
        }
        Value::Text(text) if texts => {
            out.push_str(" text=\"");
            escape(out, text, |text| memchr2(b'"', b'\\', text));
            out.push('"');
            true
        }
        Value::Float(_) | Value::Text(_) | Value::Bytes(_) | Value::Null => false,
    };
    // A backslash at the end of a tag would escape what comes after it, and a line ends with the first line feed of a name.
    let is_line = has_field && !row.topic.ends_with('\\') && !row.topic.contains('\n');
    if is_line {
        out.push(' ');
        out.push_str(itoa::Buffer::new().format(nanos));
        out.push('\n');
    } else {
        out.truncate(length);
    }
    is_line
}

impl Database for Line {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        let refused = |error: &io::Error| DatabaseError::Refused(error.to_string());
        self.keep_position().map_err(|error| refused(&error))?;
        journal.clone_into(&mut self.journal);
        self.authorization = match &self.options.credentials {
            Some(credentials) => Some(credentials.authorization("Token").map_err(|error| refused(&error))?),
            None => None,
        };
        // An empty batch shows whether somebody is there who takes it; some answer that it is empty.
        match self.send(&[], self.options.timeout) {
            Ok(_) | Err(DatabaseError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
        self.position.read(journal).map_err(|error| refused(&error))
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let skipped = if rows.is_empty() { 0 } else { self.send(rows, self.options.timeout + time_for(rows))? };
        self.pending = Some(upto);
        if self.kept.is_none_or(|kept| kept.elapsed() >= KEEP_EVERY) {
            let refused = |error| DatabaseError::Refused(format!("the position cannot be kept: {error}"));
            self.keep_position().map_err(refused)?;
        }
        Ok(skipped)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Err(error) = self.keep_position() {
            tracing::warn!(%error, "the position of a database cannot be kept: its last batches are sent again");
        }
    }
}

/// Puts a backslash before special characters, which `find` finds, and which are of ASCII.
fn escape(out: &mut String, text: &str, find: impl Fn(&[u8]) -> Option<usize>) {
    let mut rest = text;
    while let Some(at) = find(rest.as_bytes()) {
        let (plain, from) = rest.split_at(at);
        let (one, after) = from.split_at(1);
        out.push_str(plain);
        out.push('\\');
        out.push_str(one);
        rest = after;
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::serve;
    use tieline_core::{Quality, Timestamp, Topic};

    fn row(topic: &str, value: Value) -> Row {
        let (topic, time) = (Topic::new(topic).unwrap(), Timestamp::from_micros(1_700_000_000_000_001));
        Row { topic, time, value, quality: Quality::GOOD, again: false }
    }

    fn line(url: String, texts: bool, folder: &std::path::Path) -> Line {
        let (measurement, timeout) = ("a b".to_owned(), Duration::from_secs(20));
        let position = folder.join("x.position");
        Line::new(LineOptions { url, credentials: None, measurement, texts, timeout, position })
    }

    #[test]
    fn each_row_is_a_line_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(String::new(), true, folder.path());
        let check = |row: Row, expect: &str| {
            let mut text = String::new();
            assert_eq!(push(&mut text, &line.begin, true, &row), !expect.is_empty());
            assert_eq!(text, expect);
        };
        const AT: &str = "1700000000000001000\n";
        check(row("x/y", Value::Float(1.5)), &format!("a\\ b,topic=x/y,q=good value=1.5 {AT}"));
        check(row("x", Value::Int(-3)), &format!("a\\ b,topic=x,q=good value=-3 {AT}"));
        check(row("x", Value::Bool(true)), &format!("a\\ b,topic=x,q=good value=1 {AT}"));
        check(row("x y,z=1", Value::Int(0)), &format!("a\\ b,topic=x\\ y\\,z\\=1,q=good value=0 {AT}"));
        let text = Value::Text("say \"\\o\"\n".into());
        check(row("x", text.clone()), &format!("a\\ b,topic=x,q=good text=\"say \\\"\\\\o\\\"\n\" {AT}"));
        let bad = Row { quality: Quality::AWAY, ..row("x", Value::Int(1)) };
        check(bad, &format!("a\\ b,topic=x,q=bad value=1 {AT}"));
        for none in [Value::Null, Value::Float(f64::NAN), Value::Float(f64::INFINITY), Value::Bytes([1].into())] {
            check(row("x", none), "");
        }
        check(row("x\\", Value::Int(1)), "");
        check(Row { time: Timestamp::from_micros(i64::MAX), ..row("x", Value::Int(1)) }, "");
        assert!(!push(&mut String::new(), &line.begin, false, &row("x", text)));
        check(row("x", Value::Float(-1e-7)), &format!("a\\ b,topic=x,q=good value=-1e-7 {AT}"));
        check(row("x", Value::Float(f64::MAX)), &format!("a\\ b,topic=x,q=good value=1.7976931348623157e+308 {AT}"));
    }

    #[test]
    fn a_long_batch_is_sent_in_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let (url, server) = serve(&[200, 200, 400]);
        let mut line = line(url, true, folder.path());
        let rows: Vec<Row> = (0..10_000).map(|n| row(&format!("x/{n}"), Value::Int(n))).collect();
        let with_null = [rows.as_slice(), &[row("x", Value::Null)]].concat();
        assert_eq!((line.write(&rows, 7), line.write(&with_null, 8)), (Ok(0), Ok(1)));
        assert!(matches!(line.write(&rows, 9), Err(DatabaseError::Rejected(_))));
        let mut expect = String::new();
        rows.iter().for_each(|row| assert!(push(&mut expect, &line.begin, true, row)));
        assert!(expect.len() > 8 * PART_BYTES);
        assert_eq!(server.join().unwrap(), [&expect; 3].map(|text| text.clone().into_bytes()));
    }

    #[test]
    fn the_position_moves_with_what_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (url, server) = serve(&[200, 200, 500, 400, 403, 200]);
        let mut line = line(url, true, folder.path());
        assert_eq!(line.connect("j"), Ok(None));
        let rows = [row("x", Value::Int(1)), row("x", Value::Null)];
        assert_eq!(line.write(&rows, 7), Ok(1));
        let words = |status: &str| format!("it answers {status} x: why").replace(" x:", ":");
        let said = |error: DatabaseError| error.words().to_owned();
        let errors: Vec<DatabaseError> = (0..3).map(|_| line.write(&rows, 9).unwrap_err()).collect();
        assert!(matches!(
            errors.as_slice(),
            [DatabaseError::Away(_), DatabaseError::Rejected(_), DatabaseError::Refused(_)]
        ));
        assert!(said(errors[0].clone()).ends_with(": why"), "{} {}", errors[0], words("500"));
        // Nothing to write needs nobody. The file is written once a second, and before another connection.
        assert_eq!(line.write(&[row("x", Value::Null)], 8), Ok(1));
        assert_eq!(line.position.read("j").unwrap(), Some(7));
        assert_eq!((line.connect("j"), line.position.read("k").unwrap()), (Ok(Some(8)), None));
        let bodies: Vec<String> =
            server.join().unwrap().into_iter().map(|body| String::from_utf8(body).unwrap()).collect();
        assert!(bodies[0].is_empty() && bodies[1].ends_with("value=1 1700000000000001000\n"), "{bodies:?}");
        assert!(matches!(line.connect("j"), Err(DatabaseError::Away(_))));
        assert_eq!(line.write(&[row("x", Value::Null)], 9), Ok(1));
        drop(line);
        assert_eq!(PositionFile::new(folder.path().join("x.position")).read("j").unwrap(), Some(9));
    }
}

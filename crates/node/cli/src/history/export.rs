//! `tieline history export`: recorded values as files, one for each day and topic.
//!
//! ```text
//! DIR/export.jsonl                     what is exported, then each (day, topic) up to which all files are whole
//! DIR/2026-11-20/site/relay.parquet    the samples of one topic and one day, UTC
//! ```
//!
//! A file has its name once it is whole, and a line of `export.jsonl` follows: an export that is begun again goes on behind the
//! last line.

use super::args::ExportArgs;
use super::{ANSWER, PIECE_BYTES, ROWS_MAX, filter, folder_reader, meaning, open_span};
use crate::answer::say;
use crate::api::now;
use crate::exit::Exit;
use crate::progress::{Progress, size};
use crate::{uri, who};
use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::HttpClient;
use tieline_core::{Filter, Timestamp, Topic, Words as _};
use tieline_history::{HistoryQuery, HistoryReader};
use tieline_store::{Answer, DAY_US, Extras, Format, Piece, Place, Row, StoreError, export_with, import};

/// What is exported, and how far.
const STATE_FILE: &str = "export.jsonl";
/// Bytes of a level in the name of a file; file systems take 255.
const LEVEL_BYTES_MAX: usize = 200;
/// A file that is shorter has fewer rows than a node gives in an answer.
const FEW_BYTES: u64 = 1 << 20;
/// Topics of one export from a node.
const TOPICS_MAX: u64 = 1_000_000;

/// Writes the files that are not there yet.
pub fn export(args: &ExportArgs) -> Result<ExitCode> {
    let filter = filter(&args.filter)?;
    let mut work = Work::begin(args)?;
    let source = match &args.source.data {
        Some(folder) => Source::Folder(folder_reader(folder)?.or_raw(args.raw)),
        None => Source::Node(who::http(&args.source.node, Some(ANSWER))?),
    };
    let topics = source.topics(&filter)?;
    let first = topics.iter().map(|(_, (first, _))| *first).min();
    let last = topics.iter().map(|(_, (_, last))| *last).max();
    if let Some((first, last)) = first.zip(last) {
        let from = work.from.map_or(first, |from| from.max(first));
        let to = work.to.min(Timestamp::from_micros(last.micros().saturating_add(1)));
        let mut day = day_of(from);
        while day < to {
            let part = (from.max(day), to.min(Timestamp::from_micros(day.micros().saturating_add(DAY_US))));
            match &source {
                Source::Folder(reader) => work.read_day(reader, &filter, day, part)?,
                Source::Node(client) => work.fetch_day(client, &topics, day, part)?,
            }
            day = Timestamp::from_micros(day.micros().saturating_add(DAY_US));
        }
    }
    work.finish(args)
}

/// Topics with the times of their first and last samples, by name.
type Topics = Vec<(Topic, (Timestamp, Timestamp))>;

/// Where values come from.
enum Source {
    Folder(HistoryReader),
    Node(HttpClient),
}

impl Source {
    fn topics(&self, filter: &Filter) -> Result<Topics> {
        let mut topics: Topics = match self {
            Self::Folder(reader) => {
                let stats = reader.stats(filter, usize::MAX)?;
                stats.topics.into_iter().filter_map(|(topic, taken)| Some((topic, taken.span?))).collect()
            }
            Self::Node(client) => {
                let limit = TOPICS_MAX.to_string();
                let parameters = [("topic", Some(filter.as_str())), ("limit", Some(limit.as_str()))];
                let answer: Json = client.get(&uri::path("/v1/history/stats", &parameters))?;
                if answer["topic_count"].as_u64() > Some(TOPICS_MAX) {
                    bail!("{} topics, expected at most {TOPICS_MAX}: export parts of them", answer["topic_count"]);
                }
                let time = |json: &Json| json.as_str().and_then(|text| text.parse().ok());
                let topic = |json: &Json| {
                    let topic = json["topic"].as_str().and_then(|name| Topic::new(name).ok())?;
                    Some((topic, time(&json["first"]).zip(time(&json["last"]))?))
                };
                answer["topics"].as_array().into_iter().flatten().filter_map(topic).collect()
            }
        };
        topics.sort();
        Ok(topics)
    }
}

/// An export under way.
struct Work {
    folder: PathBuf,
    format: Format,
    from: Option<Timestamp>,
    to: Timestamp,
    state: File,
    /// The day and the topic up to which all is there.
    done: Option<(String, Topic)>,
    files: u64,
    bytes: u64,
    damaged: u64,
    is_raw: bool,
    progress: Progress,
}

impl Work {
    /// Begins, or goes on with one that asks for the same.
    fn begin(args: &ExportArgs) -> Result<Self> {
        let folder = args.output.clone();
        if folder.exists() && !folder.is_dir() {
            bail!("{} is a file, expected a folder for the files of the export", folder.display());
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(STATE_FILE);
        let mut asked = json!({
            "filter": args.filter, "from": args.from, "to": args.to, "format": meaning::<Format>(args.format).word(),
        });
        if args.raw {
            asked["raw"] = true.into();
        }
        let lines = lines_of(&path).with_context(|| path.display().to_string())?;
        let (from, to) = match lines.first() {
            Some(first) if first["asked"] == asked => {
                let time = |name: &str| first[name].as_i64().map(Timestamp::from_micros);
                (time("from_us"), time("to_us").with_context(|| format!("{} has no to_us", path.display()))?)
            }
            Some(first) => bail!(
                "{} has an export of {}, expected another folder, or the same command",
                folder.display(),
                first["asked"]
            ),
            None => {
                let now = now();
                let (from, to) = open_span(args.from.as_deref(), args.to.as_deref(), now)?;
                (from, to.unwrap_or(now))
            }
        };
        let done = lines.iter().rev().find_map(|line| {
            let topic = Topic::new(line["topic"].as_str()?).ok()?;
            Some((line["day"].as_str()?.to_owned(), topic))
        });
        let mut whole: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        if lines.is_empty() {
            let first = json!({ "asked": asked, "from_us": from.map(Timestamp::micros), "to_us": to.micros() });
            whole = format!("{first}\n").into_bytes();
        }
        // Without a line that was cut off.
        let next = folder.join(format!("{STATE_FILE}.part"));
        let named = || path.display().to_string();
        fs::write(&next, whole).and_then(|()| fs::rename(&next, &path)).with_context(named)?;
        let state = OpenOptions::new().append(true).open(&path).with_context(named)?;
        let (files, bytes, damaged) = (0, 0, 0);
        let progress = Progress::new("written");
        let (format, is_raw) = (meaning(args.format), args.raw);
        Ok(Self { folder, format, from, to, state, done, files, bytes, damaged, is_raw, progress })
    }

    /// Writes a day from a data folder: the whole filter at a time, so that the journal is read once.
    fn read_day(
        &mut self,
        reader: &HistoryReader,
        filter: &Filter,
        day: Timestamp,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<()> {
        let name = day_name(day);
        let after = match &self.done {
            Some((done, _)) if *done > name => return Ok(()),
            // Behind all samples of the last topic.
            Some((done, topic)) if *done == name => {
                Some(Place { time_us: i64::MAX, number: u64::MAX, topic: topic.clone() })
            }
            Some(_) | None => None,
        };
        let query = HistoryQuery { from: Some(from), to: Some(to), after, ..HistoryQuery::of(filter.clone()) };
        let mut rows = reader.query(query)?;
        let mut ahead = rows.next().transpose()?;
        while let Some(first) = ahead.take() {
            let topic = first.topic.clone();
            let mut of_topic = Some(Ok(first));
            let of_topic = std::iter::from_fn(|| {
                of_topic.take().or_else(|| match rows.next()? {
                    Ok(row) if row.topic != topic => {
                        ahead = Some(row);
                        None
                    }
                    row => Some(row),
                })
            });
            // The first row of the next topic ends the file.
            let (of_topic, format) = (of_topic.fuse(), self.format);
            self.write(&name, &topic, |file| {
                let out = BufWriter::with_capacity(PIECE_BYTES, file);
                Ok(export_with(&mut OfTopic(of_topic), format, Extras::KINDS, || true, out).map(|_| true)?)
            })?;
        }
        self.damaged += rows.damaged();
        Ok(())
    }

    /// Writes a day that a node gives, topic by topic.
    fn fetch_day(
        &mut self,
        client: &HttpClient,
        topics: &Topics,
        day: Timestamp,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<()> {
        let name = day_name(day);
        let (from_text, to_text, limit) = (from.to_string(), to.to_string(), ROWS_MAX.to_string());
        for (topic, (first, last)) in topics {
            let is_done = self.done.as_ref().is_some_and(|(done, upto)| (done, upto) >= (&name, topic));
            if is_done || *first >= to || *last < from {
                continue;
            }
            let parameters = [
                ("topic", Some(topic.as_str())),
                ("from", Some(from_text.as_str())),
                ("to", Some(to_text.as_str())),
                ("limit", Some(limit.as_str())),
                ("format", Some(self.format.word())),
                ("kinds", Some("true")),
                ("raw", self.is_raw.then_some("true")),
            ];
            let media_type = self.format.media_type();
            let mut answer = client.stream(&uri::path("/v1/history", &parameters), media_type)?;
            self.write(&name, topic, |file| {
                io::copy(&mut answer, file).context("the answer broke off")?;
                Ok(false)
            })?;
        }
        Ok(())
    }

    /// Writes a file and notes it. `fill` says whether it is known to have rows.
    fn write(&mut self, day: &str, topic: &Topic, fill: impl FnOnce(&mut File) -> Result<bool>) -> Result<()> {
        let end = self.format.word();
        let path = self.folder.join(day).join(format!("{}.{end}", encoded(topic)));
        let part = path.with_extension(format!("part.{end}"));
        let above = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(above).with_context(|| above.display().to_string())?;
        let named = || part.display().to_string();
        let mut file = File::create(&part).with_context(named)?;
        let is_known = fill(&mut file).with_context(named)?;
        file.sync_data().with_context(named)?;
        let bytes = file.metadata()?.len();
        let has_rows = is_known || has_all_rows(&part, bytes).with_context(|| format!("{topic} on {day}"))?;
        self.bytes += bytes;
        if has_rows {
            fs::rename(&part, &path)?;
            self.files += 1;
        } else {
            fs::remove_file(&part)?;
        }
        writeln!(self.state, "{}", json!({ "day": day, "topic": topic.as_str() })).context(STATE_FILE)?;
        self.done = Some((day.to_owned(), topic.clone()));
        let (files, bytes) = (self.files, self.bytes);
        self.progress.say(|| format!("{day}: {files} files, {}", size(bytes)));
        Ok(())
    }

    fn finish(self, args: &ExportArgs) -> Result<ExitCode> {
        self.state.sync_all()?;
        self.progress.finish();
        let words = format!("{} files, {} written to {}", self.files, size(self.bytes), self.folder.display());
        let object = json!({
            "folder": self.folder, "files": self.files, "bytes": self.bytes, "damaged_samples": self.damaged,
            "from": self.from.map(|from| from.to_string()), "to": self.to.to_string(),
        });
        say(args.json, &words, &object)?;
        if self.damaged > 0 {
            eprintln!("{} samples are missing: their chunks are damaged", self.damaged);
            return Ok(Exit::Incomplete.into());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a file has rows, from a node that ends an answer at [`ROWS_MAX`].
fn has_all_rows(file: &Path, bytes: u64) -> Result<bool> {
    let mut rows = import(file)?;
    if bytes < FEW_BYTES {
        return Ok(rows.next().transpose()?.is_some());
    }
    let mut count = 0;
    for row in rows {
        row?;
        count += 1;
    }
    if count >= ROWS_MAX {
        bail!(
            "the node gives {ROWS_MAX} samples at most, expected fewer in a day: export from its data folder with --data"
        );
    }
    Ok(count > 0)
}

/// Rows of one topic, as they are read.
struct OfTopic<I>(I);

impl<I: Iterator<Item = Result<Row, StoreError>>> Iterator for OfTopic<I> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<I: Iterator<Item = Result<Row, StoreError>>> Answer for OfTopic<I> {
    fn topics(&self) -> Vec<Topic> {
        Vec::new()
    }

    fn piece(&mut self) -> Option<Result<Piece, StoreError>> {
        self.0.next().map(|row| row.map(Piece::Row))
    }
}

/// The lines of a state file that are whole.
fn lines_of(path: &Path) -> io::Result<Vec<Json>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut lines = Vec::new();
    for line in BufReader::new(file).lines() {
        let Ok(line) = serde_json::from_str(&line?) else { break };
        lines.push(line);
    }
    Ok(lines)
}

const fn day_of(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.micros().div_euclid(DAY_US).saturating_mul(DAY_US))
}

/// A day as `2026-11-20`.
fn day_name(day: Timestamp) -> String {
    day.to_string().split('T').next().unwrap_or_default().to_owned()
}

/// A topic as a path below a folder: levels are folders, and what is not a letter, a digit, `-` or `_` is percent-encoded.
fn encoded(topic: &Topic) -> String {
    let level = |level: &str| {
        let mut out = String::new();
        for byte in level.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
                other => drop(write!(out, "%{other:02X}")),
            }
        }
        if out.len() > LEVEL_BYTES_MAX {
            // The rows have the whole name; the number keeps two of one beginning apart.
            let number = out
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            out.truncate(LEVEL_BYTES_MAX - 17);
            let _ = write!(out, "~{number:016x}");
        }
        if out.is_empty() { "%".to_owned() } else { out }
    };
    topic.split('/').map(level).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_path_of_its_own() {
        let check = |topic: &str, expect: &str| assert_eq!(encoded(&Topic::new(topic).unwrap()), expect);
        check("site/relay-1/power_A", "site/relay-1/power_A");
        check("a.csv/../b", "a%2Ecsv/%2E%2E/b");
        check("a//\u{e9}", "a/%/%C3%A9");
        check("$SYS/x y", "%24SYS/x%20y");
        let [one, other] = ["x", "y"].map(|end| encoded(&Topic::new(&format!("{}{end}", "l".repeat(300))).unwrap()));
        assert!(one != other && one.len() == LEVEL_BYTES_MAX, "{one}");
    }

    #[test]
    fn a_line_that_was_cut_off_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert_eq!(lines_of(&path).unwrap(), Vec::<Json>::new());
        fs::write(&path, "{\"a\":1}\n{\"b\":2}\n{\"c").unwrap();
        assert_eq!(lines_of(&path).unwrap(), [json!({ "a": 1 }), json!({ "b": 2 })]);
    }
}

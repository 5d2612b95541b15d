//! `tieline history`: recorded values, from a node or from its folder, and what looks after their store.

pub mod args;
mod delete;
mod edits;
mod export;
mod import;
mod states;
mod stats;
mod tail;
mod upkeep;

use crate::api::now;
use crate::args::HttpArgs;
use crate::progress::size;
use crate::{uri, who};
use anyhow::{Context, Result, anyhow, bail};
use args::{HistoryArgs, HistoryVerb};
use clap::ValueEnum;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tieline_core::{Filter, Timestamp, Words};
use tieline_history::{Aggregate, Fill, HistoryQuery, HistoryReader, Order, calendar};
use tieline_node::config::{Moment, parse_duration};
use tieline_store::{Extras, Format, HISTORY_FOLDER, OLDER_FILE, export_with};

/// The most rows that a node gives.
const ROWS_MAX: u64 = 10_000_000;
/// How long the first row may take: the node reads up to it.
const ANSWER: Duration = Duration::from_secs(300);
/// Bytes that are moved at one time.
const PIECE_BYTES: usize = 64 * 1024;

/// Reads a history, or looks after it.
pub fn history(verb: &HistoryVerb) -> Result<ExitCode> {
    match verb {
        HistoryVerb::Query(args) => query(args)?,
        HistoryVerb::States(args) => states::states(args)?,
        HistoryVerb::Edit(args) => return edits::edit(args),
        HistoryVerb::Annotate(args) => return edits::annotate(args),
        HistoryVerb::Edits(args) => return edits::edits(args),
        HistoryVerb::Undo(args) => return edits::undo(args),
        HistoryVerb::Delete(args) => return delete::delete(args),
        HistoryVerb::Export(args) => return export::export(args),
        HistoryVerb::Import(args) => return import::import(args),
        HistoryVerb::Stats(args) => return stats::stats(args),
        HistoryVerb::Compact(args) => return upkeep::compact(args),
        HistoryVerb::Verify(args) => return upkeep::verify(args),
        HistoryVerb::Repair(args) => return upkeep::repair(args),
        HistoryVerb::Tail(args) => tail::tail(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn query(args: &HistoryArgs) -> Result<()> {
    let format = format_of(args);
    let is_binary = matches!(format, Format::Parquet | Format::Arrow);
    if is_binary && args.output.is_none() && io::stdout().is_terminal() {
        bail!("{} is not for a terminal, expected --output FILE or a pipe", format.word());
    }
    match &args.source.data {
        Some(folder) => read(folder, args),
        None => ask(args),
    }
}

fn ask(args: &HistoryArgs) -> Result<()> {
    let limit = args.limit.unwrap_or(ROWS_MAX).to_string();
    let format = format_of(args);
    let mut parameters: Vec<_> = args.topics.iter().map(|topic| ("topic", Some(topic.as_str()))).collect();
    parameters.extend([
        ("from", Some(args.from.as_str())),
        ("to", args.to.as_deref()),
        ("every", args.every.as_deref()),
        ("tz", args.tz.as_deref()),
        ("fill", args.fill.map(|fill| meaning::<Fill>(fill).word())),
        ("agg", args.agg.map(|aggregate| meaning::<Aggregate>(aggregate).word())),
        ("order", Some(meaning::<Order>(args.order).word())),
        ("limit", Some(&limit)),
        ("format", Some(format.word())),
        ("edited", args.edited.then_some("true")),
        ("raw", args.raw.then_some("true")),
    ]);
    fetch(&args.source.node, "/v1/history", &parameters, format, args.output.as_deref())
}

/// Writes what a node answers.
fn fetch(
    node: &HttpArgs,
    path: &str,
    parameters: &[(&str, Option<&str>)],
    format: Format,
    output: Option<&Path>,
) -> Result<()> {
    let client = who::http(node, Some(ANSWER))?;
    let mut answer = client.stream(&uri::path(path, parameters), format.media_type())?;
    let mut out = Output::open(output)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match answer.read(&mut piece).context("the answer broke off")? {
            0 => break,
            count => out.put(piece.get(..count).unwrap_or_default())?,
        }
    }
    out.finish()
}

fn read(folder: &Path, args: &HistoryArgs) -> Result<()> {
    let question = question(args, now())?;
    let reader = folder_reader(folder)?.or_raw(args.raw);
    let extras = Extras { edited: args.edited, ..Extras::default() };
    let mut rows = reader.query(question)?;
    let mut out = Output::open(args.output.as_deref())?;
    let written = BufWriter::with_capacity(PIECE_BYTES, &mut out);
    match export_with(&mut rows, format_of(args), extras, || true, written) {
        Ok(_) => {
            if rows.damaged() > 0 {
                eprintln!("{} samples are missing: their chunks are damaged", rows.damaged());
            }
            out.finish()
        }
        // The cause as it is, so that a closed pipe is known for one.
        Err(tieline_store::ExportError::Write(error)) => Err(out.failed(error)),
        Err(error) => Err(error.into()),
    }
}

/// Opens the history of a data folder.
fn folder_reader(folder: &Path) -> Result<HistoryReader> {
    expect_history(folder)?;
    HistoryReader::open(folder).with_context(|| folder.display().to_string())
}

/// Goes on only where a folder has a history.
fn expect_history(folder: &Path) -> Result<()> {
    match folder.join(HISTORY_FOLDER).metadata() {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    }
    if folder.join(OLDER_FILE).exists() {
        bail!(
            "{} has a history of an earlier release, expected one that a node of this release has opened",
            folder.display()
        );
    }
    bail!("{} holds no {HISTORY_FOLDER}, expected the data folder of a node", folder.display());
}

fn filters(topics: &[String]) -> Result<Vec<Filter>> {
    topics.iter().map(|text| filter(text)).collect()
}

fn filter(text: &str) -> Result<Filter> {
    Filter::new(text).map_err(|error| anyhow!("the topic is {text:?}: {error}"))
}

/// From when to when is asked for.
fn span(from: &str, to: Option<&str>, now: Timestamp) -> Result<(Timestamp, Option<Timestamp>)> {
    let (from, to) = open_span(Some(from), to, now)?;
    Ok((from.unwrap_or(now), to))
}

/// The same question that the node would understand.
fn question(args: &HistoryArgs, now: Timestamp) -> Result<HistoryQuery> {
    let (from, to) = span(&args.from, args.to.as_deref(), now)?;
    let end = to.unwrap_or(now);
    let fill = args.fill.map(meaning).unwrap_or_default();
    let mut question = HistoryQuery {
        from: Some(from),
        to,
        fill,
        limit: args.limit,
        ..HistoryQuery::of_several(filters(&args.topics)?)
    };
    if let Some(text) = &args.every {
        let buckets = calendar::buckets(text, parse_duration(text), args.tz.as_deref(), from, end);
        question = question.in_buckets(buckets.map_err(|words| anyhow!("--{words}"))?, end);
    }
    let aggregate = args.agg.map(meaning).unwrap_or_default();
    Ok(HistoryQuery { aggregate, order: meaning(args.order), ..question })
}

fn wrong(name: &str, found: &str, expected: &str) -> anyhow::Error {
    anyhow!("{name} is {found:?}, expected {expected}")
}

/// The same, where there may be no beginning.
fn open_span(from: Option<&str>, to: Option<&str>, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
    let moment = |name, text: &str| Moment::parse(text).ok_or_else(|| wrong(name, text, Moment::EXPECTED));
    let to = to.map(|text| moment("--to", text)).transpose()?.map(|to| to.resolve(now, now));
    let from = from.map(|text| moment("--from", text)).transpose()?.map(|from| from.resolve(to.unwrap_or(now), now));
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        bail!("--from is {from}, expected a time before --to, which is {to}");
    }
    Ok((from, to))
}

fn format_of(args: &HistoryArgs) -> Format {
    if args.json { Format::Json } else { meaning(args.format) }
}

/// What a choice means: the value of the same word.
fn meaning<T: Words + Default>(choice: impl ValueEnum) -> T {
    choice.to_possible_value().and_then(|choice| T::of_word(choice.get_name())).unwrap_or_default()
}

/// How often progress is told, and from when on.
const PROGRESS: Duration = Duration::from_millis(500);

/// A file or standard output, with progress on standard error where somebody looks at it and at nothing else.
struct Output {
    out: Box<dyn Write + Send>,
    /// Where it is, if it is a file.
    file: Option<PathBuf>,
    watched: bool,
    bytes: u64,
    told_at: Instant,
    told: bool,
}

impl Output {
    fn open(file: Option<&Path>) -> Result<Self> {
        let hidden = file.is_some() || !io::stdout().is_terminal();
        let out: Box<dyn Write + Send> = match file {
            Some(path) => Box::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?),
            None => Box::new(io::stdout()),
        };
        let watched = hidden && io::stderr().is_terminal();
        let file = file.map(Path::to_path_buf);
        Ok(Self { out, file, watched, bytes: 0, told_at: Instant::now(), told: false })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|error| self.failed(error))
    }

    /// An error with the place. That of a pipe stays as it is, so that a closed one is known for one.
    fn failed(&self, error: io::Error) -> anyhow::Error {
        match &self.file {
            Some(file) => anyhow::Error::from(error).context(format!("cannot write {}", file.display())),
            None => error.into(),
        }
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(|error| self.failed(error))?;
        if self.told {
            eprintln!("\r{} written", size(self.bytes));
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        if self.watched && self.told_at.elapsed() >= PROGRESS {
            eprint!("\r{} ", size(self.bytes));
            (self.told_at, self.told) = (Instant::now(), true);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;

    fn check(words: &[&str], expect: Result<(&str, Option<&str>, Option<Duration>), &str>) {
        let cli = Cli::try_parse_from([&["tieline", "history", "query", "a/#"], words].concat()).unwrap();
        let Verb::History(HistoryVerb::Query(args)) = cli.verb else { panic!("{words:?}") };
        let found = question(&args, "2026-11-20T12:00:00Z".parse().unwrap());
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let found = found.map(|q| (time(q.from).unwrap(), time(q.to), q.every)).map_err(|error| error.to_string());
        let expect = expect.map(|(from, to, every)| (from.to_owned(), to.map(str::to_owned), every));
        assert_eq!(found, expect.map_err(str::to_owned), "{words:?}");
    }

    /// Each choice is a word of the node, and each word of the node is a choice.
    fn check_choices<C: ValueEnum, T: Words>() {
        let choices = C::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let mut choices: Vec<String> = choices.map(|choice| choice.get_name().to_owned()).collect();
        let mut words: Vec<&str> = T::words().collect();
        choices.sort_unstable();
        words.sort_unstable();
        assert_eq!(choices, words);
    }

    #[test]
    fn choices_are_the_words_of_the_node() {
        check_choices::<args::Aggregate, Aggregate>();
        check_choices::<args::Filling, Fill>();
        check_choices::<args::Format, Format>();
        check_choices::<args::RowOrder, Order>();
    }

    #[test]
    fn questions_are_read_or_say_what_is_wrong() {
        check(&[], Ok(("2026-11-19T12:00:00.000Z", None, None)));
        let day = ["--from", "1h", "--to", "2026-11-20T00:00:00Z"];
        check(&day, Ok(("2026-11-19T23:00:00.000Z", Some("2026-11-20T00:00:00.000Z"), None)));
        let minute = Some(Duration::from_secs(60));
        let means = ["--from", "2026-11-20T00:00:00Z", "--every", "1m", "--agg", "mean"];
        check(&means, Ok(("2026-11-20T00:00:00.000Z", None, minute)));
        let ago = ["--from", "-1h", "--to", "5m"];
        check(&ago, Ok(("2026-11-20T11:00:00.000Z", Some("2026-11-20T11:55:00.000Z"), None)));
        let day = ["--from", "2026-11-19", "--to", "2026-11-20"];
        check(&day, Ok(("2026-11-19T00:00:00.000Z", Some("2026-11-20T00:00:00.000Z"), None)));
        check(&["--to", "today"], Err(&format!("--to is \"today\", expected {}", Moment::EXPECTED)));
        check(&["--from", "x"], Err(&format!("--from is \"x\", expected {}", Moment::EXPECTED)));
        let expected =
            "--from is 2026-11-20T11:55:00.000Z, expected a time before --to, which is 2026-11-20T11:00:00.000Z";
        check(&["--from", "-5m", "--to", "-1h"], Err(expected));
        check(&["--every", "0s", "--agg", "max"], Err(&format!("--every is \"0s\", expected {}", calendar::EXPECTED)));
    }
}

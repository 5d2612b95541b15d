//! `tieline import volttron-history`: what a VOLTTRON historian has stored, into a history.
//!
//! ```text
//!  historian's database ──page──▶ topics and values ──▶ node, or folder of a stopped node
//!                                        │                        │
//!                                     report               file of the place ◀─┘
//! ```
//!
//! A page is stored, then its end is written to the file of the place. A page that is stored twice counts once: equal samples of one topic
//! and time are one in a history.

mod names;
mod place;
mod report;
mod target;
mod values;

use super::args::VolttronHistoryArgs;
use crate::answer;
use crate::exit::Exit;
use anyhow::{Context as _, Result, bail};
use names::{Names, Topics};
use place::Place;
use report::Report;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use target::{Sample, Target};
use tieline_core::{Body, Point, Quality};
use tieline_databases::historian::{Historian, HistorianRow, Page, SqliteHistorian, TableNames};
use values::{Read, read};

/// Values of one page.
const PAGE_ROWS: usize = 20_000;
/// How often it is said how far it is.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Moves all values.
pub fn import(args: &VolttronHistoryArgs) -> Result<ExitCode> {
    let mut historian = open(args)?;
    let survey = historian.survey()?;
    let topics = Topics::new(&survey.topics, &Names::new(&args.map));
    let mut report = Report::new(&survey, &topics);
    let mut place = Place::open(args, &survey)?;
    let mut target = if args.dry_run { None } else { Some(Target::open(args)?) };
    let mut progress = Progress::new(survey.rows, place.rows());
    report.resumed = place.rows();
    loop {
        let page = historian.page(place.after(), PAGE_ROWS)?;
        let samples = samples_of(&page, &topics, &mut report);
        if let Some(target) = &mut target {
            target
                .store(samples)
                .context("the samples cannot be stored; a repeated import goes on behind those that are")?;
        }
        let Page { rows, next } = page;
        place.move_on(next.as_deref(), rows.len() as u64)?;
        progress.tell(place.rows());
        if next.is_none() {
            break;
        }
    }
    if let Some(target) = target {
        target.close()?;
    }
    progress.finish();
    match args.json {
        true => answer::say(true, "", &report.as_json(args.dry_run))?,
        false => {
            let mut out = std::io::stdout().lock();
            for line in report.lines(args.dry_run) {
                writeln!(out, "{}", crate::terminal::lines(&line))?;
            }
        }
    }
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { Exit::Incomplete.into() })
}

fn open(args: &VolttronHistoryArgs) -> Result<Box<dyn Historian>> {
    let names = TableNames {
        prefix: args.table_prefix.clone(),
        data: args.data_table.clone(),
        topics: args.topics_table.clone(),
        meta: args.meta_table.clone(),
    };
    match args.from.split_once("://").map(|(scheme, _)| scheme) {
        None => Ok(Box::new(SqliteHistorian::open(Path::new(&args.from), names)?)),
        Some("postgresql" | "postgres") => postgres(args, names),
        Some("mongodb") => mongo(args, names),
        Some("mysql" | "mariadb") => {
            bail!(
                "a MySQL historian cannot be read directly, expected a copy of its tables in SQLite: docs/volttron.md says how"
            )
        }
        Some(other) => bail!("{other} is no database of a historian, expected a file, postgresql:// or mongodb://"),
    }
}

#[cfg(feature = "postgres")]
fn postgres(args: &VolttronHistoryArgs, names: TableNames) -> Result<Box<dyn Historian>> {
    use tieline_databases::historian::PostgresHistorian;
    let secret = args.source_password_file.as_deref();
    Ok(Box::new(PostgresHistorian::connect(&args.from, secret, load(args), names)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &VolttronHistoryArgs, _: TableNames) -> Result<Box<dyn Historian>> {
    bail!("this binary was built without PostgreSQL, expected one with the feature postgres")
}

#[cfg(feature = "mongodb")]
fn mongo(args: &VolttronHistoryArgs, names: TableNames) -> Result<Box<dyn Historian>> {
    use tieline_databases::historian::MongoHistorian;
    let secret = args.source_password_file.as_deref();
    Ok(Box::new(MongoHistorian::connect(&args.from, secret, load(args), names)?))
}

#[cfg(not(feature = "mongodb"))]
fn mongo(_: &VolttronHistoryArgs, _: TableNames) -> Result<Box<dyn Historian>> {
    bail!("this binary was built without MongoDB, expected one with the feature mongodb")
}

/// Reads what TLS needs.
#[cfg(any(feature = "mongodb", feature = "postgres"))]
fn load(args: &VolttronHistoryArgs) -> tieline_databases::LoadTls {
    let authorities = args.source_authorities.clone();
    std::sync::Arc::new(move || {
        let loaded = tieline_net::tls::ClientTls::load(authorities.as_deref(), None);
        loaded.map(|tls| tls.config()).map_err(|error| error.to_string())
    })
}

/// The samples of a page; what is none is counted.
fn samples_of(page: &Page, topics: &Topics, report: &mut Report<'_>) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(page.rows.len());
    for HistorianRow { topic, time, value } in &page.rows {
        let at = match topic {
            Ok(at) => *at,
            Err(id) => {
                report.orphan(id);
                continue;
            }
        };
        // A topic that cannot be one was reported once; its values are counted.
        let Some(topic) = topics.get(at) else {
            report.leave_out(at, "its topic is left out", "");
            continue;
        };
        let Ok(time) = time else {
            report.leave_out(at, "no time", time.as_ref().err().map_or("", String::as_str));
            continue;
        };
        let body = match read(value) {
            Ok(Read::Value(value)) => Body::Point(Point { value, quality: Quality::GOOD, time: *time }),
            Ok(Read::Payload(bytes)) => Body::Opaque(bytes),
            Err(why) => {
                report.leave_out(at, why, value);
                continue;
            }
        };
        report.take(at, *time);
        samples.push(Sample { topic: topic.clone(), time: *time, body });
    }
    samples
}

/// How far it is, on standard error, where somebody looks at it.
struct Progress {
    total: u64,
    begun: u64,
    started: Instant,
    told: Option<Instant>,
    is_watched: bool,
}

impl Progress {
    fn new(total: u64, begun: u64) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        Self { total, begun, started: Instant::now(), told: None, is_watched }
    }

    fn tell(&mut self, rows: u64) {
        if !self.is_watched || self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        const CELLS: u64 = 30;
        let done = (rows * CELLS / self.total.max(1)).min(CELLS);
        let bar: String = (0..CELLS).map(|cell| if cell < done { '#' } else { '.' }).collect();
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "it is shown")]
        let rate = (rows - self.begun) as f64 / seconds;
        #[expect(clippy::cast_precision_loss, reason = "it is shown")]
        let left = (self.total.saturating_sub(rows)) as f64 / rate.max(1.0);
        eprint!("\r[{bar}] {rows} of {} values, {rate:.0} a second, {left:.0} s left \x1b[K", self.total);
    }

    fn finish(&self) {
        if self.told.is_some() {
            eprintln!();
        }
    }
}

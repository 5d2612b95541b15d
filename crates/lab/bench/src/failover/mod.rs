//! A core with standbys whose leader is killed, or frozen, again and again: when the next one writes, and what is lost.
//!
//! ```text
//!  publisher, QoS 1 ─▶ balancer ─▶ leader ══ log ══▶ nats-server ══▶ standbys
//!  kept session     ◀─   asks /healthz
//! ```
//!
//! Everything is a process of its own. A publisher sends numbers at QoS 1, one at a time, each retained and recorded; a client with a kept
//! session subscribes to them. Both connect to a balancer, which asks each member whether it leads, as one of an installation does. At
//! each event the time is taken until the record of the next term is in the log, and until the next number is acknowledged. Afterwards each
//! acknowledged number is looked for in the history of the last leader and among what the kept session got.
//!
//! Read first: `members.rs`, then `clients.rs`.

mod balancer;
mod charts;
mod clients;
mod members;
#[cfg(test)]
mod tests;

pub use charts::charts;

use crate::report::Progress;
use anyhow::{Result, ensure};
use balancer::Balancer;
use clients::{Publisher, Watcher};
use members::Core;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("event", "event"),
    ("members", "members"),
    ("times", "times"),
    ("term record s, median", "term_s_median"),
    ("longest", "term_s_max"),
    ("acknowledged again s, median", "acknowledged_s_median"),
    ("longest", "acknowledged_s_max"),
    ("acknowledged", "acknowledged"),
    ("lost", "lost"),
    ("missed", "missed"),
    ("twice", "twice"),
];

/// How long a takeover may take; then the run is not valid.
const TAKEOVER_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long numbers flow before an event.
const CALM: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Members of the core.
    pub members: usize,
    /// How often the leader is killed.
    pub kills: usize,
    /// How often it is frozen.
    pub freezes: usize,
    /// How long a standby waits for a sign of the leader.
    pub silence: Duration,
    /// The program that nodes are run with.
    pub program: PathBuf,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What becomes of the leader: `kill` or `freeze`.
    pub event: &'static str,
    /// Members of the core.
    pub members: usize,
    /// How often.
    pub times: usize,
    /// How long a standby waits for a sign of the leader.
    pub silence_s: f64,
    /// What was measured; absent where the run was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// From the event until the record of the next term is in the log, each.
    pub term_s: Vec<f64>,
    /// The median of these.
    pub term_s_median: f64,
    /// The longest.
    pub term_s_max: f64,
    /// From the event until the next number is acknowledged, each: it has the way of the clients to the next leader.
    pub acknowledged_s: Vec<f64>,
    /// The median of these.
    pub acknowledged_s_median: f64,
    /// The longest.
    pub acknowledged_s_max: f64,
    /// Numbers that were acknowledged.
    pub acknowledged: usize,
    /// Of these, numbers that the history of the last leader does not have.
    pub lost: usize,
    /// Of these, numbers that the kept session did not get.
    pub missed: usize,
    /// Numbers that were not under way at an event, and that history has more than once.
    pub twice: usize,
}

/// What becomes of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Kill,
    Freeze,
}

/// Runs the events.
///
/// # Errors
/// The options are out of range, or the system does not have what is needed.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!((2..=3).contains(&options.members), "{} members, expected 2 or 3", options.members);
    let events = [(Event::Kill, "kill", options.kills), (Event::Freeze, "freeze", options.freezes)];
    let events = events.into_iter().filter(|(.., times)| *times > 0);
    events
        .map(|(event, name, times)| {
            progress.show(&format!("{name}: {times} times"));
            let row = Row {
                event: name,
                members: options.members,
                times,
                silence_s: options.silence.as_secs_f64(),
                figures: None,
                invalid: None,
            };
            Ok(match measure(options, event, times) {
                Ok(figures) => Row { invalid: wrong(&figures), figures: Some(figures), ..row },
                Err(error) => Row { invalid: Some(format!("{error:#}")), ..row },
            })
        })
        .map(|row: Result<Row>| row.map(|row| Row { figures: row.figures.filter(|_| row.invalid.is_none()), ..row }))
        .collect()
}

/// Why figures are none.
fn wrong(figures: &Figures) -> Option<String> {
    let Figures { lost, missed, twice, acknowledged, .. } = figures;
    let is_whole = lost + missed + twice == 0;
    let said = || format!("of {acknowledged} acknowledged numbers, {lost} are lost, {missed} missed, {twice} twice");
    (!is_whole).then(said)
}

fn measure(options: &Options, event: Event, times: usize) -> Result<Figures> {
    let mut core = Core::start(&options.program, options.members, options.silence)?;
    let balancer = Balancer::start(core.addresses())?;
    let watcher = Watcher::start(&balancer.address())?;
    let publisher = Publisher::start(&balancer.address())?;
    let (mut term_s, mut acknowledged_s, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times {
        let leader = core.wait_ready(TAKEOVER_MAX)?;
        publisher.wait_more(Instant::now() + CALM, TAKEOVER_MAX)?;
        let terms = core.terms();
        let at = Instant::now();
        events.push(at);
        match event {
            Event::Kill => core.kill(leader)?,
            Event::Freeze => core.freeze(leader)?,
        }
        let begun = core.wait_term(terms, leader, at + TAKEOVER_MAX)?;
        let acknowledged = publisher.wait_more(begun, TAKEOVER_MAX)?;
        term_s.push((begun - at).as_secs_f64());
        acknowledged_s.push((acknowledged - at).as_secs_f64());
        match event {
            Event::Kill => core.again(leader)?,
            Event::Freeze => core.thaw(leader)?,
        }
    }
    let leader = core.wait_ready(TAKEOVER_MAX)?;
    let sent = publisher.stop()?;
    let recorded = core.recorded(leader, clients::TOPIC)?;
    let got = watcher.stop(&sent)?;
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    recorded.iter().for_each(|number| *counts.entry(*number).or_default() += 1);
    let acknowledged: Vec<_> = sent.iter().filter(|sent| sent.acknowledged.is_some()).collect();
    let count = |is_so: &dyn Fn(&clients::Sent) -> bool| acknowledged.iter().filter(|sent| is_so(sent)).count();
    Ok(Figures {
        term_s_median: median(&term_s),
        term_s_max: term_s.iter().copied().fold(0.0, f64::max),
        acknowledged_s_median: median(&acknowledged_s),
        acknowledged_s_max: acknowledged_s.iter().copied().fold(0.0, f64::max),
        acknowledged: acknowledged.len(),
        lost: count(&|sent| !counts.contains_key(&sent.number)),
        missed: count(&|sent| !got.contains(&sent.number)),
        twice: count(&|sent| !sent.was_under_way(&events) && counts.get(&sent.number).is_some_and(|count| *count > 1)),
        term_s,
        acknowledged_s,
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

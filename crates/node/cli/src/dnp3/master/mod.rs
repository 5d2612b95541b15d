//! `tieline dnp3 master`: polls an outstation and prints what it reports, or asks one thing of it.

pub mod args;
pub mod ask;

use super::{measured, objects};
use crate::args::SecureArgs;
use crate::{log, signals};
use anyhow::{Context, Result, anyhow, bail};
use args::MasterArgs;
use ask::{Ask, OperateArgs};
use serde_json::json;
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Error, Stdout, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::Classes;
use tieline_dnp3::app::Found;
use tieline_dnp3::endpoint::LinkService;
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::master::{Answer, Master, MasterConfig, MasterEvent, Request, TaskOutcome, TimeSync};
use tieline_dnp3::secure::{AuthError, MasterSecurityConfig, SecurityEvent};
use tieline_net::{Clock, Closed, Counters, Limits, Owner, Peer, Session, Shard, ShardThread};
use tieline_transport::secure::{master_machine, read_key};
use tieline_transport::{CertificateCache, Route, Transport};
use tokio::sync::oneshot;

/// What the master is to do.
#[derive(Clone, Debug, PartialEq)]
enum Plan {
    /// Go on until a signal; ask for events so often.
    Follow { poll: Option<Duration> },
    /// Send one request, and print what comes of it.
    Once {
        request: Request,
        /// Whether success needs no word.
        reads: bool,
    },
}

/// Connections of an outstation that connects to us: one, and those that take the place of a dead one.
const LISTEN_SESSIONS_MAX: usize = 4;
/// How long a request may wait, and a selection take.
const WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a request at most: what most outstations take, and every one that takes many controls.
const REQUEST_BYTES_MAX: u16 = 2048;
/// The names of the two kinds of tasks.
const POLL: u64 = 0;
const PLANNED: u64 = 1;

/// Reads, or operates, until the plan is done or a signal comes.
pub fn master(args: &MasterArgs) -> Result<ExitCode> {
    log::start("warn", false);
    let plan = match asked(args)? {
        Some(ask) => Plan::Once { request: ask.request(args.to)?, reads: ask.reads() },
        None => Plan::Follow { poll: args.poll },
    };
    let link = LinkService { confirms: args.link_confirms, ..LinkService::default() };
    let secure = args.secure.update_key.as_deref().map(|file| security(file, &args.secure)).transpose()?;
    let transport = args.transport.transport(&args.address, args.listen)?;
    let config = config(args, &plan, &transport);
    let (route, json) = (transport.route(&CertificateCache::default(), LISTEN_SESSIONS_MAX)?, args.json);
    let (end, ended) = oneshot::channel();
    let thread = ShardThread::spawn("master", Clock::start(), Arc::new(Counters::default()), move |shard| {
        let mut master = Master::new(config);
        master.set_link_service(Some(link));
        master.vary(RandomState::new().build_hasher().finish());
        if let Some(secure) = secure {
            master.set_security(master_machine(&secure));
        }
        run(shard, route, master, Printer { plan, json, out: std::io::stdout(), end: Some(end) })
    })?;
    let outcome = signals::until_done(ended)?;
    drop(thread);
    match outcome {
        None => Ok(ExitCode::SUCCESS),
        Some(outcome) => {
            let outcome = outcome.map_err(|_| anyhow!("the master ended"))?;
            outcome.with_context(|| format!("{} at {}", args.to.words(args.outstation), args.address))
        }
    }
}

/// What is asked once; none where the master follows.
fn asked(args: &MasterArgs) -> Result<Option<Ask>> {
    let flags = args.once || args.poll.is_some() || args.operate.is_some() || args.no_unsolicited;
    match (&args.ask, args.operate) {
        (Some(_), _) if flags => bail!("--once, --poll, --operate and --no-unsolicited do not go with a verb"),
        (Some(ask), _) => Ok(Some(ask.clone())),
        (None, Some(operation)) => Ok(Some(Ask::Operate(OperateArgs::one(operation, args.mode)))),
        (None, None) => Ok(args.once.then(|| Ask::Scan { objects: Vec::new() })),
    }
}

/// One exchange does nothing else to the outstation: no start-up, no time, no unsolicited reporting, and IIN1.7 stays.
fn config(args: &MasterArgs, plan: &Plan, transport: &Transport) -> MasterConfig {
    let carrier = transport.carrier().filter(|_| args.lean);
    let lean = carrier.map(|carrier| LeanConfig { side: transport.side(), carrier });
    let given = MasterConfig { address: args.master, outstation: args.outstation, lean, ..MasterConfig::default() };
    let given = MasterConfig { response_timeout: args.timeout, request_bytes_max: REQUEST_BYTES_MAX, ..given };
    let none = Classes::NONE;
    match plan {
        Plan::Follow { .. } if args.no_unsolicited => MasterConfig { enable_unsolicited: none, ..given },
        Plan::Follow { .. } => given,
        Plan::Once { .. } => MasterConfig {
            disable_unsolicited: none,
            integrity: none,
            enable_unsolicited: none,
            time_sync: TimeSync::Never,
            clear_restart: false,
            ..given
        },
    }
}

async fn run(shard: Rc<Shard>, route: Route, master: Master, printer: Printer) {
    let session = Session::new(&shard, master, Limits::default());
    if let Plan::Follow { poll: Some(every) } = printer.plan {
        let polled = session.clone();
        tokio::task::spawn_local(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // Away, or so slow that polls wait already: the next tick tries again.
                if polled.look(Master::is_online) {
                    let _ = polled.with(|master, now| master.poll(now, Classes::EVENTS, POLL));
                }
            }
        });
    }
    let seed = shard.now().utc.micros().unsigned_abs();
    let shared = Shared(Rc::new(RefCell::new(printer)));
    match route.start(session.clone(), seed, shared.clone()).await {
        Ok(kept) => kept.address().iter().for_each(|address| eprintln!("tieline: listening on {address}")),
        Err(error) => shared.0.borrow_mut().end(&session, Err(error.into())),
    }
    std::future::pending().await
}

/// One printer for all connections.
#[derive(Clone)]
struct Shared(Rc<RefCell<Printer>>);

impl Owner<Master> for Shared {
    fn event(&mut self, session: &Session<Master>, now: Now, event: MasterEvent) {
        self.0.borrow_mut().event(session, now, event);
    }

    fn connected(&mut self, session: &Session<Master>, now: Now, peer: &Peer) {
        self.0.borrow_mut().connected(session, now, peer);
    }

    fn closed(&mut self, session: &Session<Master>, now: Now, why: Closed) {
        self.0.borrow_mut().closed(session, now, why);
    }

    fn connect_failed(&mut self, session: &Session<Master>, now: Now, error: &Error, retry: Duration) {
        self.0.borrow_mut().connect_failed(session, now, error, retry);
    }
}

fn security(file: &Path, args: &SecureArgs) -> Result<MasterSecurityConfig> {
    let update_key = read_key(file).with_context(|| format!("update key {}", file.display()))?;
    Ok(MasterSecurityConfig { user: args.user, ..MasterSecurityConfig::new(update_key) })
}

struct Printer {
    plan: Plan,
    json: bool,
    out: Stdout,
    end: Option<oneshot::Sender<Result<ExitCode>>>,
}

impl Printer {
    /// The plan is done, or cannot be.
    fn end(&mut self, session: &Session<Master>, outcome: Result<ExitCode>) {
        if let Some(end) = self.end.take() {
            let _ = end.send(outcome);
        }
        session.close();
    }

    /// What must come to pass at once, did not.
    fn fail(&mut self, session: &Session<Master>, why: &str) {
        match self.plan {
            Plan::Follow { .. } => eprintln!("tieline: {why}"),
            Plan::Once { .. } => self.end(session, Err(anyhow!("{why}"))),
        }
    }

    fn print(&mut self, session: &Session<Master>, line: std::fmt::Arguments<'_>) {
        if let Err(error) = writeln!(self.out, "{line}") {
            self.end(session, Err(error.into()));
        }
    }

    /// Asks for what the plan says.
    fn submit(&mut self, session: &Session<Master>) {
        let Plan::Once { request, .. } = &self.plan else { return };
        let request = request.clone();
        let submit = |master: &mut Master, now: Now| master.submit(now, request.until(now.mono + WITHIN), PLANNED);
        if let Err(error) = session.with(submit) {
            self.fail(session, &error.to_string());
        }
    }

    fn note_security(&self, event: &SecurityEvent) {
        match event {
            SecurityEvent::KeyChangeFailed { user } => {
                eprintln!("tieline: session keys of user {user} could not be changed");
            }
            SecurityEvent::ErrorReceived { user, error } => {
                let error = error.map_or("unknown error", AuthError::name);
                eprintln!("tieline: the outstation refuses user {user}: {error}");
            }
            SecurityEvent::KeysChanged { user } if matches!(self.plan, Plan::Follow { .. }) => {
                eprintln!("tieline: session keys of user {user} changed");
            }
            SecurityEvent::KeysChanged { .. }
            | SecurityEvent::KeysLost { .. }
            | SecurityEvent::Refused { .. }
            | SecurityEvent::UpdateKeyChanged { .. }
            | SecurityEvent::UserRemoved { .. }
            | SecurityEvent::StatusSequence(_)
            | SecurityEvent::Statistic { .. } => {}
        }
    }

    fn done(&mut self, session: &Session<Master>, outcome: TaskOutcome) {
        match self.plan {
            Plan::Follow { .. } => {}
            Plan::Once { reads: true, .. } if outcome == TaskOutcome::Done => self.end(session, Ok(ExitCode::SUCCESS)),
            Plan::Once { reads: true, .. } => self.end(session, Err(anyhow!("{outcome}"))),
            Plan::Once { .. } => {
                let (status, code) = match outcome {
                    TaskOutcome::Done => ("success", ExitCode::SUCCESS),
                    TaskOutcome::Sent => (outcome.name(), ExitCode::SUCCESS),
                    _ => (outcome.name(), ExitCode::FAILURE),
                };
                if self.json {
                    self.print(session, format_args!("{}", json!({ "status": status, "detail": outcome.to_string() })));
                } else {
                    self.print(session, format_args!("{status}"));
                    if code == ExitCode::FAILURE {
                        eprintln!("tieline: {outcome}");
                    }
                }
                self.end(session, Ok(code));
            }
        }
    }

    fn found(&mut self, session: &Session<Master>, found: &Found, unsolicited: bool) {
        match (found, self.json) {
            (Found::Measurement { measurement, event, .. }, true) => {
                self.print(session, format_args!("{}", measured::json(measurement, *event, unsolicited)));
            }
            (Found::Measurement { measurement, event, .. }, false) => {
                self.print(session, format_args!("{}", measured::line(measurement, *event, unsolicited)));
            }
            (Found::Object { object, event }, true) => {
                self.print(session, format_args!("{}", objects::json(object, *event, unsolicited)));
            }
            (Found::Object { object, event }, false) => {
                self.print(session, format_args!("{}", objects::line(object, *event, unsolicited)));
            }
        }
    }

    fn answered(&mut self, session: &Session<Master>, answer: &Answer) {
        if self.json {
            return self.print(session, format_args!("{}", objects::answer_json(answer)));
        }
        for line in objects::answer_lines(answer) {
            self.print(session, format_args!("{line}"));
        }
    }
}

impl Owner<Master> for Printer {
    fn event(&mut self, session: &Session<Master>, _now: Now, event: MasterEvent) {
        match event {
            MasterEvent::Values { values, unsolicited } => {
                values.iter().for_each(|found| self.found(session, &found, unsolicited));
            }
            MasterEvent::Answer { token: PLANNED, answer } => self.answered(session, &answer),
            MasterEvent::Ready => self.submit(session),
            MasterEvent::TaskDone { token: PLANNED, outcome } => self.done(session, outcome),
            MasterEvent::Offline(reason) if matches!(self.plan, Plan::Follow { .. }) => {
                eprintln!("tieline: offline: {}", reason.name());
            }
            MasterEvent::Restarted if matches!(self.plan, Plan::Follow { .. }) => {
                eprintln!("tieline: the outstation restarted")
            }
            MasterEvent::EventsLost => eprintln!("tieline: the outstation lost events"),
            // The end of the task tells of it.
            MasterEvent::Offline(_)
            | MasterEvent::Online
            | MasterEvent::Restarted
            | MasterEvent::LinkAlive
            | MasterEvent::Indications(_)
            | MasterEvent::FragmentEnd { .. }
            | MasterEvent::Answer { .. }
            | MasterEvent::Files(_)
            | MasterEvent::TaskDone { .. } => {}
            MasterEvent::Security(event) => self.note_security(&event),
        }
    }

    fn connected(&mut self, _session: &Session<Master>, _now: Now, peer: &Peer) {
        if matches!(self.plan, Plan::Follow { .. }) {
            eprintln!("tieline: connected to {peer}");
        }
    }

    fn closed(&mut self, session: &Session<Master>, _now: Now, why: Closed) {
        if self.end.is_some() {
            self.fail(session, &why.to_string());
        }
    }

    fn connect_failed(&mut self, session: &Session<Master>, _now: Now, error: &Error, retry: Duration) {
        match self.plan {
            Plan::Follow { .. } => eprintln!("tieline: {error}; again in {:.1} s", retry.as_secs_f64()),
            Plan::Once { .. } => self.end(session, Err(anyhow!("{error}"))),
        }
    }
}

//! `tieline dnp3 outstation`: a database behind a port, changed by lines on standard input.

use super::args::OutstationArgs;
use super::transport::Medium;
use crate::args::SecureArgs;
use crate::{log, signals};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use tieline_core::{Now, Timestamp};
use tieline_dnp3::app::{Attribute, CommandStatus, attribute_name};
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::outstation::{FileConfig, Group, Operate, Outstation, OutstationEvent};
use tieline_dnp3::secure::{AuthError, OutstationSecurityConfig, Role, SecurityEvent, User};
use tieline_dnp3::{AnalogCommand, Classes, Control};
use tieline_net::{Clock, Counters, Session, Shard, ShardThread};
use tieline_node::config::outstation::{MasterFile, OutstationFile, load};
use tieline_node::config::secure::StationSecurity;
use tieline_node::secure::{UserStore, read_key};
use tieline_node::station::{
    Folder, GroupTeller, Happening, Line, Masters, SESSIONS_MAX, Station, TableControls, Teller, state_after,
};
use tieline_node::transport::{Route, TlsShelf, Transport};
use tokio::sync::{mpsc, oneshot};

/// Octets of the longest line.
const LINE_OCTETS_MAX: u64 = 4096;

/// A line, and where its answer goes.
type Asked = (Line, blocking::SyncSender<Result<(), String>>);

/// Serves until SIGINT, SIGTERM or the line `quit`.
pub fn outstation(args: &OutstationArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let file = match load(&args.config) {
        Ok(file) => file,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut file = with_user(file, &args.secure)?;
    let files = file.files.as_ref().map(|files| {
        let folder = Folder::open(files).with_context(|| format!("cannot serve {}", files.root.display()))?;
        anyhow::Ok((files.limits, folder))
    });
    let files = files.transpose()?;
    let (lines, asked) = mpsc::channel(1);
    let (report, reported) = blocking::sync_channel(1);
    let transport = transport(args)?;
    let carrier = transport.carrier().filter(|_| file.config.lean.is_some());
    file.config.lean = carrier.map(|carrier| LeanConfig { side: transport.side(), carrier });
    if !file.masters.is_empty() && (args.connect.is_some() || args.transport.over != Medium::Tcp) {
        bail!("with several masters an outstation listens on TCP: leave --connect and --over out");
    }
    let listen = args.listen;
    let (route, json) = (transport.route(&TlsShelf::default(), SESSIONS_MAX)?, args.json);
    let _thread = ShardThread::spawn("outstation", Clock::start(), Arc::new(Counters::default()), move |shard| {
        serve(shard, (route, listen), (file, files), json, asked, report)
    })?;
    let address = reported.recv().map_err(|_| anyhow!("the outstation ended before it began"))?;
    let address = address.with_context(|| format!("cannot serve, {transport}"))?;
    let mut out = std::io::stdout().lock();
    match (args.connect.is_some(), json) {
        (false, true) => writeln!(out, "{}", json!({ "listen": address.to_string() }))?,
        (false, false) => writeln!(out, "listening on {address}")?,
        (true, true) => writeln!(out, "{}", json!({ "connect": transport.to_string() }))?,
        (true, false) => writeln!(out, "connecting to {transport}")?,
    }
    out.flush()?;
    drop(out);
    let (quit, quitted) = oneshot::channel();
    std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
        if read_lines(&mut std::io::stdin().lock(), &mut std::io::stdout(), &lines) {
            let _ = quit.send(());
        }
    })?;
    signals::until_done(async {
        // Without an operator the outstation goes on.
        if quitted.await.is_err() {
            std::future::pending::<()>().await;
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The file's security, and the user of the command line besides: one that may do everything.
fn with_user(mut file: OutstationFile, args: &SecureArgs) -> Result<OutstationFile> {
    let Some(path) = &args.update_key else { return Ok(file) };
    let update_key = read_key(path).with_context(|| format!("update key {}", path.display()))?;
    let secure = file.secure.get_or_insert_with(|| StationSecurity {
        config: OutstationSecurityConfig::default(),
        users: Vec::new(),
        store: None,
    });
    secure.users.retain(|user| user.number != args.user);
    let name = format!("user {}", args.user);
    secure.users.push(User { number: args.user, name, role: Role::SingleUser, until_day: None, update_key });
    Ok(file)
}

fn transport(args: &OutstationArgs) -> Result<Transport> {
    match &args.connect {
        Some(address) => args.transport.transport(address, false),
        None if args.transport.over == Medium::Serial => {
            bail!("--over serial needs --connect with the line's device file")
        }
        None => args.transport.transport(&args.listen.to_string(), true),
    }
}

/// Answers each line by one; whether the last was `quit`.
fn read_lines(input: &mut impl BufRead, out: &mut impl Write, lines: &mpsc::Sender<Asked>) -> bool {
    loop {
        let mut octets = Vec::new();
        match input.take(LINE_OCTETS_MAX).read_until(b'\n', &mut octets) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let whole = octets.ends_with(b"\n") || octets.len() < usize::try_from(LINE_OCTETS_MAX).unwrap_or(0);
        if !whole && input.skip_until(b'\n').is_err() {
            return false;
        }
        let text = String::from_utf8_lossy(&octets);
        let line = match whole {
            true => Line::parse(text.trim()),
            false => Err(format!("the line is longer than {LINE_OCTETS_MAX} octets")),
        };
        let quit = line == Ok(Line::Quit);
        let done = line.and_then(|line| {
            let (answer, answered) = blocking::sync_channel(1);
            let gone = || "the outstation has ended".to_owned();
            lines.blocking_send((line, answer)).map_err(|_| gone())?;
            answered.recv().map_err(|_| gone())?
        });
        let told = match done {
            Ok(()) => writeln!(out, "ok"),
            Err(error) => writeln!(out, "error: {error}"),
        };
        if told.and_then(|()| out.flush()).is_err() {
            return false;
        }
        if quit {
            return true;
        }
    }
}

async fn serve(
    shard: Rc<Shard>,
    (route, listen): (Route, SocketAddr),
    (file, files): (OutstationFile, Option<(FileConfig, Folder)>),
    json: bool,
    mut asked: mpsc::Receiver<Asked>,
    report: blocking::SyncSender<std::io::Result<SocketAddr>>,
) {
    let served = if file.masters.is_empty() {
        serve_one(&shard, route, &file, json).await.map(Served::One)
    } else {
        serve_several(&shard, listen, &file, json).await.map(Served::Several)
    };
    let served = match served {
        Ok(served) => served,
        Err(error) => return drop(report.send(Err(error))),
    };
    if let (Some((limits, folder)), Served::One(station)) = (files, &served) {
        station.session().with(|station, _| station.serve_files(limits, Box::new(folder)));
    }
    let _ = report.send(Ok(match &served {
        Served::One(station) => station.address(),
        Served::Several(masters) => masters.address(),
    }));
    while let Some((line, answer)) = asked.recv().await {
        let _ = answer.send(match &served {
            Served::One(station) => station.apply(line),
            Served::Several(masters) => masters.apply(line),
        });
    }
    // No more lines come; the station goes on.
    std::future::pending::<()>().await;
}

/// Keeps what the authority changed.
fn keep(store: Option<&mut UserStore>, happening: &Happening) {
    let (Some(store), Happening::Event(OutstationEvent::Security(event))) = (store, happening) else { return };
    if let Err(error) = store.note(event) {
        eprintln!("tieline: what the authority changed is lost with the next restart: {error}");
    }
}

/// By how many masters.
enum Served {
    One(Station),
    Several(Masters),
}

async fn serve_one(shard: &Rc<Shard>, route: Route, file: &OutstationFile, json: bool) -> std::io::Result<Station> {
    let mut store = file.secure.as_ref().and_then(|secure| secure.store.clone());
    let tell: Teller = Rc::new(RefCell::new(move |session: &_, now, happening| {
        keep(store.as_mut(), &happening);
        happened(session, now, &happening, json);
    }));
    let outstation = file.outstation(file.config.master, Box::new(TableControls::of(&file.points)));
    Station::serve(shard, route, outstation, tell).await
}

async fn serve_several(
    shard: &Rc<Shard>,
    listen: SocketAddr,
    file: &OutstationFile,
    json: bool,
) -> std::io::Result<Masters> {
    let association = |master: &MasterFile| {
        let controls = Box::new(TableControls::of(&file.points));
        file.outstation(master.address, controls)
    };
    let group = Group::new(file.masters.iter().map(association));
    let tell: GroupTeller = Rc::new(RefCell::new(move |masters: &Masters, now, master, happening| {
        tell_of(now, &happening, master, json);
        match happening {
            Happening::Event(OutstationEvent::Operated { index, control, status: CommandStatus::Success, .. }) => {
                if let Some(state) = state_after(index, &control) {
                    // Only points that exist are operated.
                    let _ = masters.update(&state);
                }
            }
            Happening::Event(OutstationEvent::RestartRequested { .. }) => {
                // The answer to the request is written first: the task runs when the session has had its turn.
                let masters = masters.clone();
                tokio::task::spawn_local(async move { masters.restart() });
            }
            _ => {}
        }
    }));
    Masters::start(shard, listen, group, file.masters.clone(), tell).await
}

/// A line of the log, with the master where there are several.
fn tell_of(now: Now, happening: &Happening, master: Option<u16>, json: bool) {
    let mut told = describe(happening);
    if let Some(master) = master {
        told["master"] = master.into();
    }
    // Nobody may read the log; the station goes on.
    let _ = match json {
        true => {
            told["time"] = now.utc.to_string().into();
            writeln!(std::io::stderr(), "{told}")
        }
        false => writeln!(std::io::stderr(), "{} {}", now.utc, words(&told)),
    };
}

/// Tells of it, and does what a device would do.
fn happened(session: &Session<Outstation>, now: Now, happening: &Happening, json: bool) {
    tell_of(now, happening, None, json);
    let Happening::Event(event) = happening else { return };
    match event {
        OutstationEvent::Operated { index, control, status: CommandStatus::Success, .. } => {
            if let Some(state) = state_after(*index, control) {
                // Only points that exist are operated.
                let _ = session.with(|outstation, now| outstation.update(now, state));
            }
        }
        OutstationEvent::RestartRequested { .. } => {
            // The answer to the request is written first: the task runs when the session has had its turn.
            let session = session.clone();
            tokio::task::spawn_local(async move {
                session.with(Outstation::restart);
                if session.is_connected() {
                    session.close();
                }
            });
        }
        _ => {}
    }
}

fn describe(happening: &Happening) -> Json {
    let event = match happening {
        Happening::Connected(peer) => return json!({ "event": "connected", "peer": peer.to_string() }),
        Happening::Disconnected(why) => return json!({ "event": "disconnected", "why": why.name() }),
        Happening::Event(event) => event,
    };
    match event {
        OutstationEvent::Operated { index, control, how, status } => {
            let (kind, value) = match control {
                Control::Crob(crob) => ("binary-output", json!(format!("0x{:02x}", crob.code))),
                Control::Analog(AnalogCommand::Int32(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Int16(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Float32(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Float64(x)) => ("analog-output", json!(x)),
            };
            let how = match how {
                Operate::Selected => "selected",
                Operate::Direct => "direct",
                Operate::DirectNoAck => "direct-no-ack",
            };
            json!({ "event": "operated", "type": kind, "index": index, "value": value, "how": how, "status": status.name() })
        }
        OutstationEvent::RestartRequested { cold } => json!({ "event": "restart-requested", "cold": cold }),
        OutstationEvent::ClockSet { time } => {
            json!({ "event": "clock-set", "to": Timestamp::from(*time).to_string() })
        }
        OutstationEvent::RestartCleared => json!({ "event": "restart-cleared" }),
        OutstationEvent::UnsolicitedEnabled(classes) => {
            let known = [(Classes::CLASS_1, 1), (Classes::CLASS_2, 2), (Classes::CLASS_3, 3)];
            let classes: Vec<_> = known.iter().filter(|(one, _)| classes.contains(*one)).map(|(_, n)| n).collect();
            json!({ "event": "unsolicited-enabled", "classes": classes })
        }
        OutstationEvent::Written(measurement) => {
            json!({ "event": "written", "type": measurement.point_type.name(), "index": measurement.index })
        }
        OutstationEvent::AttributeWritten(Attribute { set, variation, value }) => {
            let name = attribute_name(*variation).filter(|_| *set == 0).unwrap_or("attribute");
            let shown = value.to_string();
            json!({ "event": "attribute-written", "set": set, "variation": variation, "name": name, "value": shown })
        }
        OutstationEvent::DeadBandsWritten => json!({ "event": "dead-bands-written" }),
        OutstationEvent::Frozen { cleared } => json!({ "event": "frozen", "cleared": cleared }),
        OutstationEvent::ClassAssigned => json!({ "event": "class-assigned" }),
        OutstationEvent::UnsolicitedGivenUp => json!({ "event": "unsolicited-given-up" }),
        OutstationEvent::Security(event) => describe_security(event),
    }
}

fn describe_security(event: &SecurityEvent) -> Json {
    match event {
        SecurityEvent::KeysChanged { user } => json!({ "event": "session-keys-changed", "user": user }),
        SecurityEvent::KeysLost { user } => json!({ "event": "session-keys-lost", "user": user }),
        SecurityEvent::KeyChangeFailed { user } => json!({ "event": "session-key-change-failed", "user": user }),
        SecurityEvent::Refused { user, error } => {
            json!({ "event": "authentication-refused", "user": user, "why": error.name() })
        }
        SecurityEvent::ErrorReceived { user, error } => {
            json!({ "event": "authentication-error", "user": user, "why": error.map_or("unknown", AuthError::name) })
        }
        SecurityEvent::UpdateKeyChanged { user, name, role, .. } => {
            json!({ "event": "update-key-changed", "user": user, "name": name, "role": role.name() })
        }
        SecurityEvent::UserRemoved { user } => json!({ "event": "user-removed", "user": user }),
        SecurityEvent::StatusSequence(next) => json!({ "event": "status-sequence", "next": next }),
        SecurityEvent::Statistic { statistic, count } => {
            json!({ "event": "security-statistic", "statistic": statistic.name(), "count": count })
        }
    }
}

/// The event's name, and its members as `name=value`.
fn words(told: &Json) -> String {
    let mut text = told["event"].as_str().unwrap_or_default().to_owned();
    for (name, value) in told.as_object().into_iter().flatten().filter(|(name, _)| *name != "event") {
        text.push_str(&match value.as_str() {
            Some(value) => format!(" {name}={value}"),
            None => format!(" {name}={value}"),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_dnp3::Crob;

    fn check(event: OutstationEvent, expect: &str) {
        assert_eq!(words(&describe(&Happening::Event(event))), expect);
    }

    #[test]
    fn events_are_told() {
        let control = Control::Crob(Crob { code: 3, count: 1, on_ms: 0, off_ms: 0 });
        let (how, status) = (Operate::Selected, CommandStatus::Success);
        let operated = OutstationEvent::Operated { index: 3, control, how, status };
        check(operated, "operated how=selected index=3 status=success type=binary-output value=0x03");
        check(OutstationEvent::UnsolicitedEnabled(Classes::EVENTS), "unsolicited-enabled classes=[1,2,3]");
        check(OutstationEvent::RestartRequested { cold: true }, "restart-requested cold=true");
    }

    #[test]
    fn lines_end_with_the_input() {
        let (lines, mut asked) = mpsc::channel::<Asked>(1);
        let operator = std::thread::spawn(move || {
            let check = |input: &str, quit: bool, expect: &str| {
                let mut out = Vec::new();
                assert_eq!(read_lines(&mut input.as_bytes(), &mut out, &lines), quit);
                assert_eq!(String::from_utf8(out).unwrap(), expect);
            };
            let long = "x".repeat(10_000) + "\nlocal on";
            check(&long, false, "error: the line is longer than 4096 octets\nok\n");
            check(
                "remove binry\nquit\nlocal on\n",
                true,
                &format!("error: {}\nok\n", Line::parse("remove binry").unwrap_err()),
            );
        });
        let mut seen = Vec::new();
        while let Some((line, answer)) = asked.blocking_recv() {
            seen.push(line);
            answer.send(Ok(())).unwrap();
        }
        operator.join().unwrap();
        assert_eq!(seen, [Line::Local(true), Line::Quit]);
    }
}

//! `tieline dnp3 outstation`: a database behind a port, changed by lines on standard input.

mod serve;
mod told;

use super::args::OutstationArgs;
use super::transport::Medium;
use crate::args::SecureArgs;
use crate::lines::{Done, obey_until_quit, tell_listening};
use crate::log;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::secure::{OutstationSecurityConfig, Role, User};
use tieline_net::{Clock, Counters, ShardThread};
use tieline_outstation::config::{OutstationFile, load_all};
use tieline_outstation::server::{AddressedLine, Folder, Line, SESSIONS_MAX, Served, connections_max};
use tieline_transport::secure::StationSecurity;
use tieline_transport::secure::read_key;
use tieline_transport::{CertificateCache, Transport};
use tokio::sync::mpsc;

/// A line, and where its answer goes.
type Asked = (AddressedLine, blocking::SyncSender<Result<(), String>>);

/// Serves until SIGINT, SIGTERM or the line `quit`.
pub fn outstation(args: &OutstationArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let files = load_all(&args.config)?;
    let (lines, asked) = mpsc::channel(1);
    let (report, reported) = blocking::sync_channel(1);
    let transport = transport(args)?;
    let several = files.len() > 1 || files.iter().any(|file| !file.masters.is_empty());
    let sessions_max = if several { connections_max(&files) } else { SESSIONS_MAX };
    let served: Result<Vec<_>> = files.into_iter().map(|file| served(file, args, &transport)).collect();
    let (served, json) = (served?, args.json);
    let route = transport.route(&CertificateCache::default(), sessions_max)?;
    let _thread = ShardThread::spawn("outstation", Clock::start(), Arc::new(Counters::default()), move |shard| {
        serve::serve(shard, route, served, json, asked, report)
    })?;
    let address = reported.recv().map_err(|_| anyhow!("the outstation ended before it began"))?;
    let address = address.with_context(|| format!("cannot serve, {transport}"))?;
    match (args.connect.is_some(), json) {
        (false, _) => tell_listening(json, address)?,
        (true, true) => writeln!(io::stdout(), "{}", json!({ "connect": transport.to_string() }))?,
        (true, false) => writeln!(io::stdout(), "connecting to {transport}")?,
    }
    obey_until_quit(move |text| obey(text, &lines))?;
    Ok(ExitCode::SUCCESS)
}

/// One outstation, as the file and the flags have it.
fn served(file: OutstationFile, args: &OutstationArgs, transport: &Transport) -> Result<Served> {
    let mut file = with_user(file, &args.secure)?;
    let carrier = transport.carrier().filter(|_| file.config.lean.is_some());
    file.config.lean = carrier.map(|carrier| LeanConfig { side: transport.side(), carrier });
    let folder = file
        .files
        .as_ref()
        .map(|files| Folder::open(files).with_context(|| format!("cannot serve {}", files.root.display())));
    Ok(Served { folder: folder.transpose()?, file })
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

/// Does what a line says.
fn obey(text: &str, lines: &mpsc::Sender<Asked>) -> Result<Done, String> {
    let line = AddressedLine::parse(text)?;
    let is_last = line.line == Line::Quit;
    let (answer, answered) = blocking::sync_channel(1);
    let gone = || "the outstation has ended".to_owned();
    let sent = lines.blocking_send((line, answer)).map_err(|_| gone());
    let done = sent.and_then(|()| answered.recv().map_err(|_| gone())?);
    if is_last { Ok(Done::Quit) } else { done.map(|()| Done::Obeyed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::read_lines;

    #[test]
    fn lines_end_with_the_input() {
        let (lines, mut asked) = mpsc::channel::<Asked>(1);
        let operator = std::thread::spawn(move || {
            let check = |input: &str, quit: bool, expect: &str| {
                let mut out = Vec::new();
                assert_eq!(read_lines(&mut input.as_bytes(), &mut out, |text| obey(text, &lines)), quit);
                assert_eq!(String::from_utf8(out).unwrap(), expect);
            };
            let long = "x".repeat(10_000) + "\nlocal on";
            check(&long, false, "error: the line is longer than 4096 bytes\nok\n");
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
        let asked = |line| AddressedLine { outstation: None, line };
        assert_eq!(seen, [asked(Line::Local(true)), asked(Line::Quit)]);
    }
}

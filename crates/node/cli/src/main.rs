//! The binary: reads the command line, calls the rooms, prints.
//!
//! Exit codes: `exit.rs`. Reasons stand on standard error.

#![expect(clippy::print_stderr, reason = "to print is what a command line is for")]

mod access;
mod answer;
mod api;
mod args;
mod backup;
mod bench;
mod boards;
mod bus;
mod command;
mod config;
mod consent;
mod context;
mod control;
mod delta;
mod diagram;
mod discover;
mod dnp3;
mod examples;
mod exit;
#[cfg(feature = "fabric")]
mod fabric;
mod goose;
mod history;
mod import;
#[cfg(feature = "fabric")]
mod join;
mod lines;
mod log;
mod login;
mod man;
mod progress;
mod reload;
mod replay;
mod rules;
mod run;
mod seal;
mod serve;
mod signals;
mod site;
mod terminal;
mod tls;
mod top;
mod trace;
mod uri;
mod values;
mod views;
mod who;

use anyhow::Result;
use args::{Cli, Verb};
use clap::FromArgMatches;
use exit::Exit;
use serve::args::{BacnetVerb, Iec104Verb, ModbusVerb};
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = examples::command().get_matches();
    let json = answer::wants_json(&matches);
    let parsed = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match dispatch(parsed.verb) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            answer::complain(json, &error);
            Exit::of(&error).into()
        }
    }
}

fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Run(args) => run::run(&args),
        Verb::Config(verb) => config::config(&verb),
        Verb::Import(verb) => import::import_all(&verb),
        Verb::Sub(args) => bus::sub(&args),
        Verb::Pub(args) => bus::publish(&args),
        Verb::Get(args) => values::get(&args),
        Verb::Topics(args) => values::topics(&args),
        Verb::Put(args) => api::put(&args),
        Verb::Delete(args) => api::delete(&args),
        Verb::Status(args) => api::status(&args),
        Verb::Health(args) => api::health(&args),
        Verb::Devices(args) => api::devices(&args),
        Verb::Points(args) => api::points(&args),
        Verb::Sessions(args) => api::sessions(&args),
        Verb::Alarms(args) => api::alarms::alarms(&args),
        Verb::Notify(args) => api::notify::notify(&args),
        Verb::Locks(args) => api::locks::locks(&args),
        Verb::Cluster(args) => api::cluster(&args),
        Verb::Sites(args) => api::sites(&args),
        Verb::Busiest(args) => api::busiest(&args),
        Verb::Derived(args) => api::derived(&args),
        Verb::Audit(args) => api::audit(&args),
        Verb::Clock(args) => api::clock::clock(&args),
        Verb::Whoami(args) => api::whoami(&args),
        Verb::Login(args) => login::login(&args),
        Verb::Logout(args) => login::logout(&args),
        Verb::Metrics(args) => api::metrics(&args),
        Verb::Top(args) => top::top(&args),
        Verb::Trace(args) => trace::trace(&args),
        Verb::History(verb) => history::history(&verb),
        Verb::Replay(args) => replay::replay(&args),
        Verb::Backup(args) => backup::backup(&args),
        Verb::Restore(args) => backup::restore(&args),
        Verb::Command(args) => command::command(&args),
        Verb::Set(args) => control::set(&args),
        Verb::Revert(args) => control::revert(&args),
        Verb::Reserve(args) => control::reserve(&args),
        Verb::Reservations(args) => control::reservations(&args),
        Verb::Renew(args) => control::renew(&args),
        Verb::Release(args) => control::release(&args),
        Verb::Override(verb) => control::override_verb(&verb),
        Verb::Tag(verb) => control::tags::tag(&verb),
        Verb::Views(verb) => views::views(&verb),
        Verb::Rules(verb) => rules::rules(&verb),
        Verb::Diagram(verb) => diagram::diagram(&verb),
        Verb::Boards(verb) => boards::boards(&verb),
        Verb::Reload(args) => reload::reload(&args),
        Verb::Context(verb) => context::context(&verb),
        Verb::Access(verb) => access::access(&verb),
        Verb::Delta(verb) => delta::delta(&verb),
        Verb::Discover(verb) => discover::discover(&verb),
        Verb::Dnp3(verb) => dnp3::dnp3(&verb),
        Verb::Modbus(ModbusVerb::Server(args)) => serve::modbus::server(&args),
        Verb::Bacnet(BacnetVerb::Server(args)) => serve::bacnet::server(&args),
        Verb::Iec104(Iec104Verb::Server(args)) => serve::iec104::server(&args),
        Verb::Goose(verb) => goose::goose(&verb),
        Verb::Site(verb) => site::site(&verb),
        #[cfg(feature = "fabric")]
        Verb::Join(args) => join::join(&args),
        #[cfg(feature = "fabric")]
        Verb::Fabric(verb) => fabric::fabric(&verb),
        Verb::Completion { shell } => completion(shell),
        Verb::Man { out } => man::man(&out),
        Verb::Seal(verb) => seal::seal(&verb),
        Verb::Bench(verb) => bench::bench(verb),
    }
}

fn completion(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut examples::command(), "tieline", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a reader has had enough, as in `tieline topics | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    // What sockets say is inside the errors of the clients.
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

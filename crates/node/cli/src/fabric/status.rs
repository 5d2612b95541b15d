//! `tieline fabric status`: servers by their monitoring addresses.

use super::start::MONITOR;
use crate::api::table::{self, Align};
use crate::exit::Exit;
use crate::terminal;
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::{HttpClient, HttpError};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are asked for, those with the most bytes waiting first.
const CONNECTIONS_MAX: usize = 1024;
/// Of these, as many are shown to people.
const SHOWN_MAX: usize = 40;

/// `tieline fabric status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Monitoring address of a server; repeat it for each server of a cluster
    #[arg(long, value_name = "ADDR", default_value = MONITOR)]
    pub monitor: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What a server says of itself.
#[derive(Debug, Serialize)]
struct ServerShown {
    monitor: String,
    name: String,
    version: String,
    /// `ok`, or why not.
    health: String,
    uptime: String,
    connections: u64,
    routes: u64,
    /// Clients that were closed because they did not take their messages.
    slow_consumers: u64,
    memory_bytes: u64,
    /// The server that decides about streams, as this one knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Varz {
    server_name: String,
    version: String,
    uptime: String,
    connections: u64,
    #[serde(default)]
    routes: u64,
    #[serde(default)]
    slow_consumers: u64,
    mem: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Jsz {
    meta_cluster: Option<Meta>,
    account_details: Vec<Account>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    leader: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Account {
    name: String,
    stream_detail: Vec<Stream>,
}

#[derive(Debug, Deserialize)]
struct Stream {
    name: String,
    cluster: Option<Group>,
    state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    leader: Option<String>,
    replicas: Vec<Replica>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Replica {
    name: String,
    #[serde(default)]
    current: bool,
    #[serde(default)]
    offline: bool,
    #[serde(default)]
    lag: u64,
}

#[derive(Debug, Deserialize)]
struct State {
    messages: u64,
    bytes: u64,
}

/// A stream, as its leader tells it.
#[derive(Debug, Serialize)]
struct StreamShown {
    account: String,
    name: String,
    leader: Option<String>,
    replicas: Vec<Replica>,
    messages: u64,
    bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Connz {
    connections: Vec<Connection>,
}

#[derive(Debug, Deserialize)]
struct Connection {
    #[serde(default)]
    name: String,
    ip: String,
    port: u16,
    #[serde(default)]
    pending_bytes: u64,
    #[serde(default)]
    subscriptions: u64,
    #[serde(default)]
    rtt: String,
    #[serde(default)]
    uptime: String,
}

/// A connection and its server.
#[derive(Debug, Serialize)]
struct ConnectionShown {
    server: String,
    name: String,
    address: String,
    pending_bytes: u64,
    subscriptions: u64,
    round_trip: String,
    uptime: String,
}

/// All that was found.
#[derive(Debug, Default, Serialize)]
struct Found {
    servers: Vec<ServerShown>,
    streams: Vec<StreamShown>,
    connections: Vec<ConnectionShown>,
    /// Addresses where no server answers, and why.
    away: Vec<serde_json::Value>,
}

/// Asks all, and shows what they say.
pub fn status(args: &StatusArgs) -> Result<ExitCode> {
    let mut found = Found::default();
    let mut last = None;
    for monitor in &args.monitor {
        if let Err(error) = ask(monitor, &mut found) {
            found.away.push(json!({ "monitor": monitor, "error": error.to_string() }));
            last = Some(error);
        }
    }
    if let (true, Some(error)) = (found.servers.is_empty(), last) {
        return Err(error.into());
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", terminal::json(&serde_json::to_string(&found)?))?,
        false => show(&found, &mut out)?,
    }
    let is_healthy = found.servers.iter().all(|server| server.health == "ok");
    Ok(match (found.away.is_empty(), is_healthy) {
        (false, _) => Exit::Incomplete.into(),
        (true, false) => Exit::Failed.into(),
        (true, true) => ExitCode::SUCCESS,
    })
}

fn ask(monitor: &str, found: &mut Found) -> Result<(), HttpError> {
    let client = HttpClient::patient(monitor, PATIENCE);
    let varz: Varz = client.get("/varz")?;
    let (_, health): (u16, serde_json::Value) = client.get_with_status("/healthz")?;
    let jsz: Jsz = client.get("/jsz?accounts=true&streams=true")?;
    let connz: Connz = client.get(&format!("/connz?limit={CONNECTIONS_MAX}&sort=pending"))?;
    let word = |key: &str| health.get(key).and_then(serde_json::Value::as_str);
    found.servers.push(ServerShown {
        monitor: monitor.to_owned(),
        name: varz.server_name.clone(),
        version: varz.version,
        health: word("error").or_else(|| word("status")).unwrap_or("unknown").to_owned(),
        uptime: varz.uptime,
        connections: varz.connections,
        routes: varz.routes,
        slow_consumers: varz.slow_consumers,
        memory_bytes: varz.mem,
        leader: jsz.meta_cluster.and_then(|meta| meta.leader).filter(|leader| !leader.is_empty()),
    });
    for Account { name: account, stream_detail } in jsz.account_details {
        for stream in stream_detail {
            take_stream(&mut found.streams, &account, &varz.server_name, stream);
        }
    }
    found.connections.extend(connz.connections.into_iter().map(|one| ConnectionShown {
        server: varz.server_name.clone(),
        name: one.name,
        address: address(&one.ip, one.port),
        pending_bytes: one.pending_bytes,
        subscriptions: one.subscriptions,
        round_trip: one.rtt,
        uptime: one.uptime,
    }));
    Ok(())
}

/// An address as it is written with its port.
fn address(ip: &str, port: u16) -> String {
    ip.parse().map_or_else(|_| format!("{ip}:{port}"), |ip| SocketAddr::new(ip, port).to_string())
}

/// Each server tells of a stream what it knows; what its leader says is kept.
fn take_stream(streams: &mut Vec<StreamShown>, account: &str, server: &str, stream: Stream) {
    let Group { leader, replicas } = stream.cluster.unwrap_or_default();
    // A stream of one server names no leader: it is that server.
    let leader = leader.filter(|leader| !leader.is_empty()).or_else(|| replicas.is_empty().then(|| server.to_owned()));
    let is_of_leader = leader.as_deref() == Some(server);
    let State { messages, bytes } = stream.state;
    let shown = StreamShown { account: account.to_owned(), name: stream.name, leader, replicas, messages, bytes };
    match streams.iter_mut().find(|known| known.account == shown.account && known.name == shown.name) {
        Some(known) if is_of_leader => *known = shown,
        Some(_) => {}
        None => streams.push(shown),
    }
}

fn show(found: &Found, out: &mut impl std::io::Write) -> Result<()> {
    use Align::{Left, Right};
    let text = |text: &str| text.replace(terminal::is_active, " ");
    let head = [
        ("server", Left),
        ("version", Left),
        ("health", Left),
        ("uptime", Right),
        ("connections", Right),
        ("routes", Right),
        ("slow consumers", Right),
        ("memory", Right),
        ("leader", Left),
    ];
    let rows = found.servers.iter().map(|server| {
        [
            text(&server.name),
            text(&server.version),
            text(&server.health),
            text(&server.uptime),
            server.connections.to_string(),
            server.routes.to_string(),
            server.slow_consumers.to_string(),
            format!("{} MB", server.memory_bytes / 1_000_000),
            server.leader.as_deref().map_or_else(|| "-".to_owned(), text),
        ]
    });
    table::write(head, &rows.collect::<Vec<_>>(), out)?;
    for away in &found.away {
        writeln!(out, "{}: {}", table::plain(&away["monitor"]), table::plain(&away["error"]))?;
    }
    if !found.streams.is_empty() {
        writeln!(out)?;
        let head = [("stream", Left), ("leader", Left), ("replicas", Left), ("messages", Right), ("bytes", Right)];
        let rows = found.streams.iter().map(|stream| {
            [
                text(&stream.name),
                stream.leader.as_deref().map_or_else(|| "none".to_owned(), text),
                text(&stream.replicas.iter().map(of_replica).collect::<Vec<_>>().join(", ")),
                stream.messages.to_string(),
                stream.bytes.to_string(),
            ]
        });
        table::write(head, &rows.collect::<Vec<_>>(), out)?;
    }
    show_connections(&found.connections, out)
}

fn show_connections(connections: &[ConnectionShown], out: &mut impl std::io::Write) -> Result<()> {
    use Align::{Left, Right};
    if connections.is_empty() {
        return Ok(());
    }
    let text = |text: &str| text.replace(terminal::is_active, " ");
    writeln!(out)?;
    let head = [
        ("connection", Left),
        ("address", Left),
        ("server", Left),
        ("waiting bytes", Right),
        ("subscriptions", Right),
        ("round trip", Right),
        ("uptime", Right),
    ];
    let rows = connections.iter().take(SHOWN_MAX).map(|one| {
        [
            text(&one.name),
            text(&one.address),
            text(&one.server),
            one.pending_bytes.to_string(),
            one.subscriptions.to_string(),
            text(&short(&one.round_trip)),
            text(&one.uptime),
        ]
    });
    table::write(head, &rows.collect::<Vec<_>>(), out)?;
    if let Some(more) = connections.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        writeln!(out, "and {more} more, with --json")?;
    }
    Ok(())
}

/// A duration of one unit as Go writes it, with three digits; `-` where the server has not measured it yet.
fn short(duration: &str) -> String {
    let Some((whole, rest)) = duration.split_once('.') else {
        return if duration.is_empty() { "-".to_owned() } else { duration.to_owned() };
    };
    let unit = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match format!("{whole}.{}", rest.strip_suffix(unit).unwrap_or_default()).parse::<f64>() {
        Ok(number) => format!("{number:.*}{unit}", 3_usize.saturating_sub(whole.len())),
        Err(_) => duration.to_owned(),
    }
}

fn of_replica(replica: &Replica) -> String {
    let Replica { name, current, offline, lag } = replica;
    match (offline, current) {
        (true, _) => format!("{name} offline"),
        (false, true) => format!("{name} current"),
        (false, false) => format!("{name} {lag} behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(leader: &str, lag: u64, messages: u64) -> Stream {
        let replicas = json!([{ "name": "n2", "current": lag == 0, "lag": lag }]);
        let cluster = json!({ "leader": leader, "replicas": replicas });
        let state = json!({ "messages": messages, "bytes": 10 });
        serde_json::from_value(json!({ "name": "LOG", "cluster": cluster, "state": state })).unwrap()
    }

    #[test]
    fn a_round_trip_has_three_digits() {
        let cases = [
            ("", "-"),
            ("1.234567ms", "1.23ms"),
            ("210.5µs", "210µs"),
            ("42.25µs", "42.2µs"),
            ("210µs", "210µs"),
            ("1m2.5s", "1m2.5s"),
        ];
        for (said, shown) in cases {
            assert_eq!(short(said), shown, "{said}");
        }
    }

    #[test]
    fn a_stream_is_what_its_leader_says() {
        let mut streams = Vec::new();
        take_stream(&mut streams, "TIELINE", "n2", stream("n1", 0, 3));
        take_stream(&mut streams, "TIELINE", "n1", stream("n1", 2, 5));
        take_stream(&mut streams, "TIELINE", "n3", stream("n1", 0, 4));
        let [one] = &streams[..] else { panic!("{streams:?}") };
        assert_eq!((one.messages, of_replica(&one.replicas[0]).as_str()), (5, "n2 2 behind"));
        let alone = serde_json::from_value(json!({ "name": "KV", "state": { "messages": 0, "bytes": 0 } })).unwrap();
        take_stream(&mut streams, "TIELINE", "n1", alone);
        assert_eq!(streams[1].leader.as_deref(), Some("n1"));
    }
}

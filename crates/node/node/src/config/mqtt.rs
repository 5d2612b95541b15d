//! `[mqtt]`: the listeners, and the limits of sessions and queues.

use super::checked::{Reach, check_reach};
use super::parse;
use super::reader::{Document, Section};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tieline_core::Filter;
use tieline_history::Durability;
use tieline_net::tls::{TlsFiles, Trust};
use tieline_net::{Block, Trusted};
use tieline_service::tls::{self, Peers};
use toml::de::DeValue;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The MQTT server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Clients at once, of all addresses; one more is refused.
    pub sessions_max: usize,
    /// The longest packet taken, in bytes.
    pub packet_bytes_max: u32,
    /// Bytes that may wait for one subscriber; a QoS 0 message beyond them is dropped and counted.
    pub queue_bytes_max: usize,
    /// Topics in the tree; one more is refused.
    pub topics_max: usize,
    /// Bytes of all last values with the names of their topics and of filters; an update beyond them is refused.
    pub values_bytes_max: usize,
    /// Bytes of the events that topics keep; a topic that has no more room gives up its oldest.
    pub series_bytes_max: usize,
    /// The longest that a session outlives its connection.
    pub session_expiry_max: Duration,
    /// Sessions whose clients are away; beyond them the one that would expire first ends.
    pub away_sessions_max: usize,
    /// Messages that may wait for a client that is away; beyond them the oldest is dropped.
    pub away_messages_max: usize,
    /// Bytes that may wait for a client that is away, and never fewer than `queue_bytes_max`; beyond them the oldest
    /// message is dropped.
    pub away_queue_bytes_max: usize,
    /// Bytes that may wait for all clients that are away; a message beyond them is dropped.
    pub away_bytes_max: usize,
    /// The longest keep alive; 5.0 clients that ask for more, or for none, are told this. Zero leaves it to them.
    pub keep_alive_max: Duration,
    /// What of last values, sessions and their messages is kept over restarts, and when it is acknowledged; none keeps them in
    /// memory.
    pub durability: Option<Durability>,
    /// Bytes of the ledger that keeps them; at twice as many, nothing more is promised.
    pub ledger_bytes_max: u64,
    /// How often `$SYS` is published; zero is never.
    pub sys_interval: Duration,
    /// Topics that pass all others wherever they wait, beside those of devices of that priority.
    pub protection: Vec<Filter>,
    /// Topics that all others pass, beside those of devices of that priority.
    pub bulk: Vec<Filter>,
    /// Proxies that say with the PROXY protocol who connects; others cannot.
    pub proxy_protocol_from: Trusted,
    /// `[mqtt.tls]`: a second address, for TLS.
    pub tls: Option<MqttTls>,
    /// `[mqtt.websocket]`: another, for WebSocket.
    pub websocket: Option<MqttWebSocket>,
}

/// Where clients come over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttTls {
    /// The address.
    pub listen: SocketAddr,
    /// Clients at once that come here; none leaves it to the limit of all.
    pub sessions_max: Option<usize>,
    /// Who we are, and which clients we trust.
    pub files: TlsFiles,
}

/// Where clients come over WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttWebSocket {
    /// The address.
    pub listen: SocketAddr,
    /// Clients at once that come here; none leaves it to the limit of all.
    pub sessions_max: Option<usize>,
    /// The path of the handshake.
    pub path: String,
    /// Hosts whose pages may connect, besides those of this machine.
    pub hosts: Vec<String>,
    /// Who we are, where it is WebSocket over TLS.
    pub tls: Option<TlsFiles>,
}

impl MqttConfig {
    pub(super) fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            sessions_max: 10_000,
            packet_bytes_max: 1 << 20,
            queue_bytes_max: 1 << 20,
            topics_max: 1_000_000,
            values_bytes_max: 1 << 30,
            series_bytes_max: 256 << 20,
            session_expiry_max: 7 * DAY,
            away_sessions_max: 10_000,
            away_messages_max: 10_000,
            away_queue_bytes_max: 16 << 20,
            away_bytes_max: 256 << 20,
            keep_alive_max: Duration::ZERO,
            durability: Some(Durability::Synced),
            ledger_bytes_max: 1 << 30,
            sys_interval: Duration::from_secs(10),
            proxy_protocol_from: Trusted::default(),
            tls: None,
            websocket: None,
            protection: Vec::new(),
            bulk: Vec::new(),
        }
    }
}

pub(super) fn read_mqtt(
    mut s: Section<'_>,
    doc: &mut Document<'_>,
    default: MqttConfig,
    reach: Reach,
    folder: &Path,
) -> MqttConfig {
    let tls = if s.has("tls") { read_tls(&mut s, doc, reach, folder) } else { None };
    let websocket = if s.has("websocket") { read_websocket(&mut s, doc, reach, folder) } else { None };
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let config = MqttConfig {
        listen: s.or(doc, "listen", default.listen, parse::listen_address),
        sessions_max: s.or(doc, "sessions_max", default.sessions_max, |v| count(v, 1..=1_000_000)),
        packet_bytes_max: s.or(doc, "packet_bytes_max", default.packet_bytes_max, |v| {
            parse::bytes(1024..=256 << 20)(v).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        }),
        queue_bytes_max: s
            .or(doc, "queue_bytes_max", default.queue_bytes_max, |v| parse::bytes(4096..=1 << 30)(v).map(size)),
        topics_max: s.or(doc, "topics_max", default.topics_max, |v| count(v, 1..=100_000_000)),
        values_bytes_max: s
            .or(doc, "values_bytes_max", default.values_bytes_max, |v| parse::bytes(1 << 20..=1 << 40)(v).map(size)),
        series_bytes_max: s
            .or(doc, "series_bytes_max", default.series_bytes_max, |v| parse::bytes(4096..=1 << 40)(v).map(size)),
        session_expiry_max: s.or(
            doc,
            "session_expiry_max",
            default.session_expiry_max,
            parse::duration(Duration::ZERO..=36_500 * DAY),
        ),
        away_sessions_max: s.or(doc, "away_sessions_max", default.away_sessions_max, |v| count(v, 0..=1_000_000)),
        away_messages_max: s.or(doc, "away_messages_max", default.away_messages_max, |v| count(v, 1..=1_000_000)),
        away_queue_bytes_max: s.or(doc, "away_queue_bytes_max", default.away_queue_bytes_max, |v| {
            parse::bytes(4096..=1 << 30)(v).map(size)
        }),
        away_bytes_max: s
            .or(doc, "away_bytes_max", default.away_bytes_max, |v| parse::bytes(4096..=1 << 40)(v).map(size)),
        keep_alive_max: s.or(doc, "keep_alive_max", default.keep_alive_max, |v| seconds_or_zero(v, "18h", 18 * HOUR)),
        sys_interval: s.or(doc, "sys_interval", default.sys_interval, |v| seconds_or_zero(v, "1d", DAY)),
        durability: s.or(
            doc,
            "durability",
            default.durability,
            parse::word(&[
                ("synced", Some(Durability::Synced)),
                ("written", Some(Durability::Written)),
                ("memory", None),
            ]),
        ),
        ledger_bytes_max: s.or(doc, "ledger_bytes_max", default.ledger_bytes_max, parse::bytes(1 << 20..=1 << 40)),
        proxy_protocol_from: proxies(&mut s, doc, "proxy_protocol_from"),
        tls,
        websocket,
        protection: s.or(doc, "protection", default.protection, parse::filters),
        bulk: s.or(doc, "bulk", default.bulk, parse::filters),
    };
    check_reach(doc, &s, config.listen, reach);
    s.finish(doc);
    config
}

/// Addresses and networks of proxies.
pub(super) fn proxies(s: &mut Section<'_>, doc: &mut Document<'_>, key: &'static str) -> Trusted {
    let block = |text: &str| text.parse::<Block>().map_err(str::to_owned);
    Trusted(s.each_text(doc, key, "addresses and networks, as in [\"10.0.0.5\", \"10.1.0.0/16\"]", block))
}

fn read_tls(s: &mut Section<'_>, doc: &mut Document<'_>, reach: Reach, folder: &Path) -> Option<MqttTls> {
    let (at, mut s) = (s.value_at("tls"), s.section(doc, "tls"));
    let listen = s.required(doc, "listen", "where to listen, as in \"127.0.0.1:8883\"", parse::listen_address);
    let files = tls::read_files(&mut s, doc, folder, Peers::AnyClient, at);
    if let (Some(listen), Some(files)) = (listen, &files) {
        check_reach(doc, &s, listen, reach.over_tls(knows_clients(files)));
    }
    let sessions_max = s.optional(doc, "sessions_max", |v| count(v, 1..=1_000_000));
    s.finish(doc);
    Some(MqttTls { listen: listen?, sessions_max, files: files? })
}

/// Whether nobody comes in without a certificate.
fn knows_clients(files: &TlsFiles) -> bool {
    match files.trust {
        Trust::Authorities(_) | Trust::Pinned(_) => true,
        Trust::AnyClient => false,
    }
}

fn read_websocket(s: &mut Section<'_>, doc: &mut Document<'_>, reach: Reach, folder: &Path) -> Option<MqttWebSocket> {
    let mut s = s.section(doc, "websocket");
    let listen = s.required(doc, "listen", "where to listen, as in \"127.0.0.1:8083\"", parse::listen_address);
    let sessions_max = s.optional(doc, "sessions_max", |v| count(v, 1..=1_000_000));
    let path = s.or(doc, "path", "/mqtt".to_owned(), path_text);
    let hosts = s.or(doc, "hosts", Vec::new(), parse::texts);
    let wants_tls = s.has("tls");
    let tls = if wants_tls {
        let (at, mut inner) = (s.value_at("tls"), s.section(doc, "tls"));
        let files = tls::read_files(&mut inner, doc, folder, Peers::AnyClient, at);
        inner.finish(doc);
        files
    } else {
        None
    };
    if let Some(listen) = listen {
        let reach = tls.as_ref().map_or(reach, |files| reach.over_tls(knows_clients(files)));
        check_reach(doc, &s, listen, reach);
    }
    s.finish(doc);
    (tls.is_some() == wants_tls).then_some(MqttWebSocket { listen: listen?, sessions_max, path, hosts, tls })
}

fn path_text(value: &DeValue<'_>) -> Result<String, String> {
    let text = parse::text(value)?;
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?');
    if is_path { Ok(text) } else { Err("a path that begins with / and has no ?, as in \"/mqtt\"".to_owned()) }
}

/// A second or more, or zero for never.
fn seconds_or_zero(value: &DeValue<'_>, most: &str, max: Duration) -> Result<Duration, String> {
    let words = || format!("a duration from 1s to {most}, or \"0s\" for never");
    let found = parse::duration(Duration::ZERO..=max)(value).map_err(|_| words())?;
    if found.is_zero() || found >= Duration::from_secs(1) { Ok(found) } else { Err(words()) }
}

fn count(value: &DeValue<'_>, range: RangeInclusive<u32>) -> Result<usize, String> {
    parse::integer(range)(value).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

//! `[mqtt]`: the listeners, and the limits of sessions and queues.

use super::checked::{DURABILITIES, Reach, check_reach};
use super::parse;
use super::reader::{Document, Section};
use super::settings::{
    MQTT_AWAY_BYTES_MAX, MQTT_AWAY_MESSAGES_MAX, MQTT_AWAY_QUEUE_BYTES_MAX, MQTT_AWAY_SESSIONS_MAX, MQTT_DURABILITY,
    MQTT_KEEP_ALIVE_MAX, MQTT_LEDGER_BYTES_MAX, MQTT_LISTEN, MQTT_PACKET_BYTES_MAX, MQTT_QUEUE_BYTES_MAX,
    MQTT_SERIES_BYTES_MAX, MQTT_SESSION_EXPIRY_MAX, MQTT_SESSIONS_MAX, MQTT_SYS_INTERVAL, MQTT_TLS_SESSIONS_MAX,
    MQTT_TOPICS_MAX, MQTT_VALUES_BYTES_MAX, MQTT_WEBSOCKET_SESSIONS_MAX,
};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tieline_core::Filter;
use tieline_history::Durability;
use tieline_net::tls::{TlsFiles, Trust};
use tieline_net::{Block, Trusted};
use tieline_service::tls::{self, Peers};
use toml::de::DeValue;

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

impl Default for MqttConfig {
    fn default() -> Self {
        Self {
            listen: MQTT_LISTEN.default_listen(),
            sessions_max: MQTT_SESSIONS_MAX.default_size(),
            packet_bytes_max: in_32_bits(MQTT_PACKET_BYTES_MAX.default),
            queue_bytes_max: MQTT_QUEUE_BYTES_MAX.default_size(),
            topics_max: MQTT_TOPICS_MAX.default_size(),
            values_bytes_max: MQTT_VALUES_BYTES_MAX.default_size(),
            series_bytes_max: MQTT_SERIES_BYTES_MAX.default_size(),
            session_expiry_max: MQTT_SESSION_EXPIRY_MAX.default,
            away_sessions_max: MQTT_AWAY_SESSIONS_MAX.default_size(),
            away_messages_max: MQTT_AWAY_MESSAGES_MAX.default_size(),
            away_queue_bytes_max: MQTT_AWAY_QUEUE_BYTES_MAX.default_size(),
            away_bytes_max: MQTT_AWAY_BYTES_MAX.default_size(),
            keep_alive_max: MQTT_KEEP_ALIVE_MAX.default,
            durability: MQTT_DURABILITY.default(durabilities()),
            ledger_bytes_max: MQTT_LEDGER_BYTES_MAX.default,
            sys_interval: MQTT_SYS_INTERVAL.default,
            proxy_protocol_from: Trusted::default(),
            tls: None,
            websocket: None,
            protection: Vec::new(),
            bulk: Vec::new(),
        }
    }
}

/// What the words of `mqtt.durability` mean.
const fn durabilities() -> [Option<Durability>; 3] {
    let [synced, written] = DURABILITIES;
    [Some(synced), Some(written), None]
}

fn in_32_bits(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
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
    let config = MqttConfig {
        listen: MQTT_LISTEN.read_listen(&mut s, doc),
        sessions_max: MQTT_SESSIONS_MAX.read_size(&mut s, doc),
        packet_bytes_max: in_32_bits(MQTT_PACKET_BYTES_MAX.read(&mut s, doc)),
        queue_bytes_max: MQTT_QUEUE_BYTES_MAX.read_size(&mut s, doc),
        topics_max: MQTT_TOPICS_MAX.read_size(&mut s, doc),
        values_bytes_max: MQTT_VALUES_BYTES_MAX.read_size(&mut s, doc),
        series_bytes_max: MQTT_SERIES_BYTES_MAX.read_size(&mut s, doc),
        session_expiry_max: MQTT_SESSION_EXPIRY_MAX.read(&mut s, doc),
        away_sessions_max: MQTT_AWAY_SESSIONS_MAX.read_size(&mut s, doc),
        away_messages_max: MQTT_AWAY_MESSAGES_MAX.read_size(&mut s, doc),
        away_queue_bytes_max: MQTT_AWAY_QUEUE_BYTES_MAX.read_size(&mut s, doc),
        away_bytes_max: MQTT_AWAY_BYTES_MAX.read_size(&mut s, doc),
        keep_alive_max: MQTT_KEEP_ALIVE_MAX.read(&mut s, doc),
        sys_interval: MQTT_SYS_INTERVAL.read(&mut s, doc),
        durability: MQTT_DURABILITY.read(&mut s, doc, durabilities()),
        ledger_bytes_max: MQTT_LEDGER_BYTES_MAX.read(&mut s, doc),
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
    let sessions_max = MQTT_TLS_SESSIONS_MAX.optional_size(&mut s, doc);
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
    let sessions_max = MQTT_WEBSOCKET_SESSIONS_MAX.optional_size(&mut s, doc);
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

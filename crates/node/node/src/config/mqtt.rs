//! `[mqtt]`: where clients come from, and what may be kept for them.

use super::checked::{Reach, check_reach};
use super::parse;
use super::reader::{Document, Section};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

const DAY: Duration = Duration::from_secs(86_400);

/// The MQTT server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Clients at once; one more is refused.
    pub sessions_max: usize,
    /// The longest packet taken, in octets.
    pub packet_octets_max: u32,
    /// Octets that may wait for one subscriber; a QoS 0 message beyond them is dropped and counted.
    pub queue_octets_max: usize,
    /// Topics in the tree; one more is refused.
    pub topics_max: usize,
    /// The longest that a session outlives its connection.
    pub session_expiry_max: Duration,
    /// Sessions whose clients are away; beyond them the one that would expire first ends.
    pub away_sessions_max: usize,
    /// Messages that may wait for a client that is away; beyond them the oldest is dropped.
    pub away_messages_max: usize,
    /// Octets that may wait for all clients that are away; a message beyond them is dropped.
    pub away_octets_max: usize,
}

impl MqttConfig {
    pub(super) fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            sessions_max: 10_000,
            packet_octets_max: 1 << 20,
            queue_octets_max: 1 << 20,
            topics_max: 1_000_000,
            session_expiry_max: 7 * DAY,
            away_sessions_max: 10_000,
            away_messages_max: 1000,
            away_octets_max: 256 << 20,
        }
    }
}

pub(super) fn read_mqtt(mut s: Section<'_>, doc: &mut Document<'_>, default: MqttConfig, reach: Reach) -> MqttConfig {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let config = MqttConfig {
        listen: s.or(doc, "listen", default.listen, parse::listen_address),
        sessions_max: s.or(doc, "sessions_max", default.sessions_max, |v| count(v, 1..=1_000_000)),
        packet_octets_max: s.or(doc, "packet_octets_max", default.packet_octets_max, |v| {
            parse::octets(1024..=256 << 20)(v).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        }),
        queue_octets_max: s
            .or(doc, "queue_octets_max", default.queue_octets_max, |v| parse::octets(4096..=1 << 30)(v).map(size)),
        topics_max: s.or(doc, "topics_max", default.topics_max, |v| count(v, 1..=100_000_000)),
        session_expiry_max: s.or(
            doc,
            "session_expiry_max",
            default.session_expiry_max,
            parse::duration(Duration::ZERO..=36_500 * DAY),
        ),
        away_sessions_max: s.or(doc, "away_sessions_max", default.away_sessions_max, |v| count(v, 0..=1_000_000)),
        away_messages_max: s.or(doc, "away_messages_max", default.away_messages_max, |v| count(v, 1..=1_000_000)),
        away_octets_max: s
            .or(doc, "away_octets_max", default.away_octets_max, |v| parse::octets(4096..=1 << 40)(v).map(size)),
    };
    check_reach(doc, &s, config.listen, reach);
    s.finish(doc);
    config
}

fn count(value: &DeValue<'_>, range: RangeInclusive<u32>) -> Result<usize, String> {
    parse::integer(range)(value).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

//! Limits of persistent sessions whose clients are away.

use crate::config::MqttConfig;
use tieline_mqtt::AwayLimits;

/// What is kept for clients that are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLimits {
    /// The longest that a session outlives its connection, in seconds; who asks for more is told this.
    pub expiry_s_max: u32,
    /// Sessions whose clients are away; beyond them, of the user whose session is one more the one ends that would
    /// expire first.
    pub sessions_max: usize,
    /// What may wait for one of them; beyond it the oldest message is dropped and counted.
    pub each: AwayLimits,
    /// Bytes that may wait for all of them; beyond it a new message is dropped and counted.
    pub bytes_max: usize,
}

impl Default for KeptLimits {
    fn default() -> Self {
        Self {
            expiry_s_max: 7 * 86_400,
            sessions_max: 10_000,
            each: AwayLimits { messages: 10_000, bytes: 16 << 20 },
            bytes_max: 256 << 20,
        }
    }
}

impl KeptLimits {
    /// Those of a configuration.
    #[must_use]
    pub fn of(config: &MqttConfig) -> Self {
        Self {
            expiry_s_max: u32::try_from(config.session_expiry_max.as_secs()).unwrap_or(u32::MAX),
            sessions_max: config.away_sessions_max,
            each: AwayLimits {
                messages: config.away_messages_max,
                bytes: config.away_queue_bytes_max.max(config.queue_bytes_max),
            },
            bytes_max: config.away_bytes_max,
        }
    }
}

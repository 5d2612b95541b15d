//! Reasons why clients were refused or disconnected.

use super::state::Bus;
use std::collections::BTreeMap;
use tieline_mqtt::{EndCause, ReasonCode};

/// What was counted, beside [`super::BusCounters`].
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Connections that the node ended, by their reason; at most as many as MQTT has reasons.
    pub by_reason: BTreeMap<ReasonCode, u64>,
    /// Connections that ended before their client was let in.
    pub unauthenticated_ended: u64,
    /// Connections that broke a rule of WebSocket.
    pub websocket_faults: u64,
    /// Subscriptions that were refused.
    pub subscriptions_refused: u64,
}

impl Bus {
    /// Counts the end of a client that was let in, where the node ended it.
    pub fn count_end(&mut self, cause: &EndCause) {
        let reason = match cause {
            EndCause::Server(reason) | EndCause::Broken { reason, .. } => *reason,
            EndCause::Silent => ReasonCode::KeepAliveTimeout,
            EndCause::Client(_) | EndCause::Lost => return,
        };
        *self.ends.by_reason.entry(reason).or_default() += 1;
    }

    /// Counts a connection that ended.
    pub const fn count_closed(&mut self, entered: bool, is_faulty: bool) {
        self.ends.unauthenticated_ended += if entered { 0 } else { 1 };
        self.ends.websocket_faults += if is_faulty { 1 } else { 0 };
    }

    /// Counts subscriptions that were refused, among the answers to a SUBSCRIBE.
    pub fn count_refused_subscriptions(&mut self, reasons: &[ReasonCode]) {
        self.ends.subscriptions_refused += reasons.iter().filter(|reason| reason.is_error()).count() as u64;
    }

    /// Why clients did not come in, or had to go.
    #[must_use]
    pub const fn ends(&self) -> &Ends {
        &self.ends
    }
}

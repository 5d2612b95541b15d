//! Reasons why clients were refused or disconnected.

use super::state::{Bus, Subscriber};
use std::collections::BTreeMap;
use tieline_mqtt::{EndCause, ReasonCode, Text};

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

    /// Sends all clients to another server, with its address where that is known.
    pub fn send_elsewhere(&self, reference: Option<&str>) {
        let reference = reference.map(Text::truncated);
        for (_, subscriber) in &self.subscribers {
            let Subscriber::Client(client) = subscriber else { continue };
            match &reference {
                Some(reference) => client.session.send(|wire, _| wire.mqtt.redirect(reference, false)),
                None => client.disconnect(ReasonCode::UseAnotherServer, "this node leads no longer"),
            }
        }
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

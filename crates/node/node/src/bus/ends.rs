//! Reasons why clients were refused or disconnected.

use super::state::{Bus, Subscriber};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::Sender;
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

/// Clients that were sent to another server.
#[derive(Debug)]
pub(super) struct Leaving {
    connections: usize,
    /// Dropped with the last of them.
    _gone: Sender<Infallible>,
}

impl Leaving {
    fn without_one(self) -> Option<Self> {
        let connections = self.connections.saturating_sub(1);
        (connections > 0).then_some(Self { connections, ..self })
    }
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

    /// Sends all clients to another server, with its address where that is known; `gone` is dropped once they have closed their
    /// connections.
    pub fn send_elsewhere(&mut self, reference: Option<&str>, gone: Sender<Infallible>) {
        let reference = reference.map(Text::truncated);
        let mut leaving = Leaving { connections: 0, _gone: gone };
        for (_, subscriber) in &self.subscribers {
            let Subscriber::Client(client) = subscriber else { continue };
            leaving.connections += 1;
            match &reference {
                Some(reference) => client.session.send(|wire, _| wire.mqtt.redirect(reference, false)),
                None => client.disconnect(ReasonCode::UseAnotherServer, "this node leads no longer"),
            }
        }
        self.leaving = Some(leaving).filter(|leaving| leaving.connections > 0);
    }

    /// Counts a connection that ended.
    pub fn count_closed(&mut self, entered: bool, is_faulty: bool) {
        self.ends.unauthenticated_ended += u64::from(!entered);
        self.ends.websocket_faults += u64::from(is_faulty);
        if entered {
            self.leaving = self.leaving.take().and_then(Leaving::without_one);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use std::sync::mpsc::{TryRecvError, channel};

    #[test]
    fn who_waits_for_clients_to_leave_is_told_when_the_last_one_has_closed() {
        let (mut bus, _rest) = alone();
        let (gone, all_gone) = channel();
        bus.leaving = Some(Leaving { connections: 2, _gone: gone });
        for (entered, expect) in [
            (true, TryRecvError::Empty),
            // It was no client.
            (false, TryRecvError::Empty),
            (true, TryRecvError::Disconnected),
        ] {
            bus.count_closed(entered, false);
            assert_eq!(all_gone.try_recv(), Err(expect));
        }
        let (gone, all_gone) = channel();
        bus.send_elsewhere(None, gone);
        assert_eq!(all_gone.try_recv(), Err(TryRecvError::Disconnected), "there is none");
    }
}

//! Refusal of a client beyond the limit of clients, in the MQTT version that it speaks.

use crate::bus::Wire;
use crate::bus::reasons;
use tieline_core::Now;
use tieline_mqtt::{ReasonCode, ServerEvent};
use tieline_net::{Owner, Session};

/// Answers CONNECT, and nothing else.
pub struct Refusal;

impl Owner<Wire> for Refusal {
    fn event(&mut self, session: &Session<Wire>, _: Now, event: ServerEvent) {
        if let ServerEvent::Connect(_) = event {
            session.with(|wire, _| wire.mqtt.refuse(ReasonCode::QuotaExceeded, reasons::SESSIONS_FULL));
        }
    }
}

//! What the events of a connection mean for the devices behind it.

use super::line::Line;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Now;
use tieline_modbus::{Client, ClientEvent};
use tieline_net::{Closed, Owner, Peer, Session};

/// Learns of a connection.
#[derive(Clone)]
pub(super) struct LineOwner(Rc<Line>);

impl LineOwner {
    pub(super) fn new(line: &Rc<Line>) -> Self {
        Self(Rc::clone(line))
    }

    fn away(&self, now: Now, why: &str) {
        self.0.members().for_each(|member| member.disconnected(now, why));
    }
}

impl Owner<Client> for LineOwner {
    fn event(&mut self, _session: &Session<Client>, now: Now, event: ClientEvent) {
        match event {
            ClientEvent::Answer { id, response } => {
                if let Some(member) = self.0.member(id) {
                    member.answered(now, id, &response);
                }
            }
            ClientEvent::Exception { id, code } => {
                if let Some(member) = self.0.member(id) {
                    member.refused(now, id, code);
                }
            }
            ClientEvent::Failed { id, reason, sent } => {
                if let Some(member) = self.0.member(id) {
                    member.failed(now, id, reason, sent);
                }
            }
            // No device of ours has unit 0 of a serial line.
            ClientEvent::Sent { .. } => {}
            ClientEvent::WindowReduced { from } => {
                let device = self.0.members().next().map(|member| member.topic.to_string()).unwrap_or_default();
                let found = "an answer was lost among several: one request at a time from now on";
                tracing::warn!(device, in_flight = from, "{found}");
            }
            // The end of the connection, which follows, says it.
            ClientEvent::Closing => {}
        }
    }

    fn connected(&mut self, _session: &Session<Client>, now: Now, _peer: &Peer) {
        self.0.members().for_each(|member| member.connected(now));
    }

    fn closed(&mut self, _session: &Session<Client>, now: Now, why: Closed) {
        self.away(now, &why.to_string());
    }

    fn connect_failed(&mut self, _session: &Session<Client>, now: Now, error: &std::io::Error, _retry: Duration) {
        self.away(now, &error.to_string());
    }
}

//! Packets of a client that was let in.

use super::{
    EndCause, PublishRequest, ServerEvent, ServerSession, SessionState, SharedFilter, SubscribeRequest,
    UnsubscribeRequest,
};
use crate::flow::Arrival;
use crate::message::{Broken, wrong};
use crate::{
    Ack, Disconnect, Frame, Message, PROPERTIES_MAX, Packet, Publish, ReasonCode, Subscribe, Text, Unsubscribe, Version,
};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use tieline_core::{Filter, Now};

impl ServerSession {
    pub(super) fn handle_frame(&mut self, now: Now, frame: &Frame) {
        let version = self.link.version;
        let packet = match Packet::parse(version, frame) {
            Ok(packet) => packet,
            Err(e) => return self.broken_bytes(e),
        };
        if let Err((reason, detail)) = check_properties(&packet) {
            return self.broken(reason, detail);
        }
        let done = match packet {
            Packet::Publish(publish) => self.handle_publish(now, publish),
            Packet::Subscribe(subscribe) => self.handle_subscribe(subscribe),
            Packet::Unsubscribe(unsubscribe) => self.handle_unsubscribe(&unsubscribe),
            Packet::Pingreq => {
                self.send(&Packet::Pingresp);
                Ok(())
            }
            Packet::Disconnect(disconnect) => self.handle_disconnect(&disconnect),
            Packet::Puback(Ack { packet_id, reason, .. }) => {
                self.state.get_or_insert_default().outgoing.acknowledged(packet_id, reason).map(drop)
            }
            Packet::Pubrec(Ack { packet_id, reason, .. }) => {
                let state = self.state.get_or_insert_default();
                state.outgoing.received(version, packet_id, reason, &mut self.control).map(drop)
            }
            Packet::Pubcomp(Ack { packet_id, reason, .. }) => {
                self.state.get_or_insert_default().outgoing.completed(packet_id, reason).map(drop)
            }
            Packet::Pubrel(Ack { packet_id, .. }) => {
                let SessionState { outgoing, incoming, .. } = &mut **self.state.get_or_insert_default();
                incoming.release(version, packet_id, &mut outgoing.changes, &mut self.control)
            }
            Packet::Connect(_) => Err(wrong("a second CONNECT [MQTT-3.1.0-2]")),
            Packet::Auth(auth) => self.handle_auth(auth),
            Packet::Connack(_) | Packet::Suback(_) | Packet::Unsuback(_) | Packet::Pingresp => {
                Err(wrong("a packet that only a server sends"))
            }
        };
        if let Err((reason, detail)) = done {
            self.broken(reason, detail);
        }
    }

    fn handle_publish(&mut self, now: Now, publish: Publish) -> Result<(), Broken> {
        self.counters.get_or_insert_default().publishes_in += 1;
        if publish.properties.subscription_id().is_some() {
            return Err(wrong("a client's message with a subscription identifier [MQTT-3.3.4-6]"));
        }
        let topic = self.link.aliases.get_or_insert_default().resolve(&publish, self.config.topic_alias_max)?;
        let version = self.link.version;
        let max = match version {
            Version::V311 => self.config.receive_max_v311,
            Version::V5 => self.config.receive_max,
        };
        let incoming = &mut self.state.get_or_insert_default().incoming;
        let arrival = incoming.receive(version, publish.guarantee, usize::from(max.max(1)), &mut self.control);
        match arrival {
            Arrival::New | Arrival::Again => {}
            Arrival::Duplicate => return Ok(()),
            Arrival::TooMany => {
                let words = "more unacknowledged messages than the receive maximum [MQTT-3.3.4-7]".to_owned();
                return Err((ReasonCode::ReceiveMaximumExceeded, words));
            }
        }
        let properties = publish.properties.travelling();
        self.event = Some(Box::new(ServerEvent::Publish(PublishRequest {
            message: Message { topic, payload: publish.payload, properties, received: now.mono },
            qos: publish.guarantee.qos(),
            packet_id: publish.guarantee.packet_id(),
            retain: publish.retain,
            dup: publish.guarantee.dup(),
            again: arrival == Arrival::Again,
        })));
        Ok(())
    }

    fn handle_subscribe(&mut self, subscribe: Subscribe) -> Result<(), Broken> {
        let subscription = |wanted: crate::SubscriptionFilter| {
            let filter = shared_filter(&wanted.filter)?;
            if filter.share.is_some() && wanted.options.no_local {
                return Err(wrong("no local on a shared subscription [MQTT-3.8.3-4]"));
            }
            Ok((filter, wanted.options))
        };
        let subscriptions = subscribe.filters.into_iter().map(subscription).collect::<Result<_, _>>()?;
        self.event = Some(Box::new(ServerEvent::Subscribe(SubscribeRequest {
            packet_id: subscribe.packet_id,
            subscriptions,
            subscription_id: subscribe.properties.subscription_id(),
            properties: subscribe.properties,
        })));
        Ok(())
    }

    fn handle_unsubscribe(&mut self, unsubscribe: &Unsubscribe) -> Result<(), Broken> {
        let filters = unsubscribe.filters.iter().map(shared_filter).collect::<Result<_, _>>()?;
        self.event =
            Some(Box::new(ServerEvent::Unsubscribe(UnsubscribeRequest { packet_id: unsubscribe.packet_id, filters })));
        Ok(())
    }

    fn handle_disconnect(&mut self, disconnect: &Disconnect) -> Result<(), Broken> {
        let expiry_s = disconnect.properties.session_expiry_s();
        // Section 3.14.2.2.2: a session that was to end with the connection cannot be kept after all.
        if self.link.session_expiry_s == 0 && expiry_s.is_some_and(|s| s > 0) {
            return Err(wrong("a session expiry in DISCONNECT after none in CONNECT"));
        }
        self.end(EndCause::Client(disconnect.reason), None);
        if let Some(ended) = &mut self.ended {
            ended.session_expiry_s = expiry_s;
        }
        Ok(())
    }
}

/// Whether a packet has no more properties than are taken.
pub(super) fn check_properties(packet: &Packet) -> Result<(), Broken> {
    let (found, max) = (packet.property_count(), PROPERTIES_MAX);
    let words = || format!("{found} properties in one packet, at most {max} are taken");
    if found <= max { Ok(()) } else { Err((ReasonCode::QuotaExceeded, words())) }
}

/// Takes `$share/NAME/FILTER` apart (section 4.8.2), and checks the filter.
fn shared_filter(text: &Text) -> Result<SharedFilter, Broken> {
    let invalid = |words: String| (ReasonCode::TopicFilterInvalid, words);
    let (share, filter) = match text.strip_prefix("$share/") {
        None => (None, text.as_str()),
        Some(rest) => {
            let (name, filter) = rest.split_once('/').unwrap_or((rest, ""));
            if name.is_empty() || name.contains(['+', '#']) {
                return Err(invalid("a share name is empty or holds a wildcard [MQTT-4.8.2-1]".to_owned()));
            }
            (Some(Text::truncated(name)), filter)
        }
    };
    Ok(SharedFilter { share, filter: Filter::new(filter).map_err(|e| invalid(e.to_string()))? })
}

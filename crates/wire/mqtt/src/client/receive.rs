//! Packets of the server.

use super::{ClientEnd, ClientEvent, ClientSession, Connected, Phase, Received};
use crate::flow::{Allowed, Arrival, OutgoingLimits, Request};
use crate::message::{Broken, wrong};
use crate::{Ack, Connack, Frame, Message, Packet, Property, Publish, Qos, ReasonCode, Version};
use alloc::borrow::ToOwned;
use alloc::string::ToString;
use core::num::{NonZeroU16, NonZeroU32};
use tieline_core::Now;

impl ClientSession {
    pub(super) fn handle_frame(&mut self, now: Now, frame: &Frame) {
        let packet = match Packet::parse(self.config.version, frame) {
            Ok(packet) => packet,
            Err(e) => return self.broken(e.reason(), e.to_string()),
        };
        let done = match self.phase {
            Phase::Greeting { .. } => match packet {
                Packet::Connack(connack) => {
                    self.handle_connack(connack);
                    Ok(())
                }
                _ => Err(wrong("the first packet of a server is not CONNACK [MQTT-3.2.0-1]")),
            },
            Phase::Open => self.handle_packet(now, packet),
            Phase::Idle | Phase::Closed => Ok(()),
        };
        if let Err((reason, detail)) = done {
            self.broken(reason, detail);
        }
    }

    fn handle_connack(&mut self, connack: Connack) {
        let properties = connack.properties;
        if connack.reason != ReasonCode::Success {
            let text = properties.reason_string().map(|t| t.to_string()).unwrap_or_default();
            self.events.push_back(ClientEvent::Refused { reason: connack.reason, text });
            self.phase = Phase::Closed;
            return;
        }
        if connack.session_present && self.config.clean_start {
            let (reason, detail) = wrong("a session that this client does not have [MQTT-3.2.2-4]");
            return self.broken(reason, detail);
        }
        self.phase = Phase::Open;
        self.peer_bytes_max = properties.packet_bytes_max().map_or(u32::MAX, NonZeroU32::get);
        self.allowed = Allowed {
            qos_max: match properties.qos1_max() {
                None => Qos::ExactlyOnce,
                Some(true) => Qos::AtLeastOnce,
                Some(false) => Qos::AtMostOnce,
            },
            retain: properties.retain_available().unwrap_or(true),
        };
        self.keep_alive_s = properties.server_keep_alive_s().unwrap_or(self.config.keep_alive_s);
        let window = properties.receive_max().map_or(u16::MAX, NonZeroU16::get);
        self.outgoing.open(window.min(self.config.in_flight_max).max(1));
        if connack.session_present {
            // Its owner hears of a full queue with the message, and waits: no more than the queue has room.
            self.outgoing.resume(OutgoingLimits { messages: 0, bytes: 0 });
        } else {
            self.abandon();
        }
        let client_id = properties.assigned_client_id().unwrap_or_else(|| self.config.client_id.clone());
        let session_present = connack.session_present;
        self.events.push_back(ClientEvent::Connected(Connected { session_present, client_id, properties }));
    }

    fn handle_packet(&mut self, now: Now, packet: Packet) -> Result<(), Broken> {
        let version = self.config.version;
        match packet {
            Packet::Publish(publish) => return self.handle_publish(now, publish),
            Packet::Puback(Ack { packet_id, reason, properties }) => {
                let done = self.outgoing.acknowledged(packet_id, reason)?;
                self.completed(done, &properties);
            }
            Packet::Pubrec(Ack { packet_id, reason, properties }) => {
                let done = self.outgoing.received(version, packet_id, reason, &mut self.control)?;
                self.completed(done, &properties);
            }
            Packet::Pubcomp(Ack { packet_id, reason, properties }) => {
                let done = self.outgoing.completed(packet_id, reason)?;
                self.completed(done, &properties);
            }
            Packet::Pubrel(Ack { packet_id, .. }) => {
                self.incoming.release(version, packet_id, &mut self.outgoing.changes, &mut self.control)?;
            }
            Packet::Suback(suback) if self.outgoing.answered(suback.packet_id, Request::Subscribe) => {
                let (packet_id, reasons, properties) = (suback.packet_id, suback.reasons, suback.properties);
                self.events.push_back(ClientEvent::Subscribed { packet_id, reasons, properties });
            }
            Packet::Unsuback(unsuback) if self.outgoing.answered(unsuback.packet_id, Request::Unsubscribe) => {
                let (packet_id, reasons) = (unsuback.packet_id, unsuback.reasons);
                self.events.push_back(ClientEvent::Unsubscribed { packet_id, reasons });
            }
            Packet::Pingresp => {}
            Packet::Disconnect(disconnect) if version == Version::V5 => {
                let text = disconnect.properties.reason_string().map(|t| t.to_string()).unwrap_or_default();
                self.end(ClientEnd::Server { reason: disconnect.reason, text });
            }
            Packet::Suback(_) | Packet::Unsuback(_) => return Err(wrong("an answer to nothing that was asked")),
            Packet::Connack(_) => return Err(wrong("a second CONNACK [MQTT-3.2.0-2]")),
            Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::Pingreq
            | Packet::Disconnect(_)
            | Packet::Auth(_) => return Err(wrong("a packet that a server does not send here")),
        }
        Ok(())
    }

    fn handle_publish(&mut self, now: Now, publish: Publish) -> Result<(), Broken> {
        let topic = self.aliases.resolve(&publish, self.config.topic_alias_max)?;
        // 3.1.1 has no receive maximum; its packet identifiers are the bound.
        let max = if self.config.version == Version::V5 { self.config.receive_max.max(1) } else { u16::MAX };
        match self.incoming.receive(self.config.version, publish.guarantee, usize::from(max), &mut self.control) {
            Arrival::New | Arrival::Again => {}
            Arrival::Duplicate => return Ok(()),
            Arrival::TooMany => {
                let words = "more unacknowledged messages than the receive maximum [MQTT-3.3.4-9]".to_owned();
                return Err((ReasonCode::ReceiveMaximumExceeded, words));
            }
        }
        let id_of = |property| if let Property::SubscriptionIdentifier(id) = property { Some(id) } else { None };
        let subscription_ids = publish.properties.iter().filter_map(id_of).collect();
        let alias = publish.properties.topic_alias();
        let properties = publish.properties.travelling();
        self.events.push_back(ClientEvent::Message(Received {
            message: Message { topic, payload: publish.payload, properties, received: now.mono },
            qos: publish.guarantee.qos(),
            retain: publish.retain,
            subscription_ids,
            alias,
            packet_id: publish.guarantee.packet_id(),
        }));
        Ok(())
    }
}

//! CONNECT and its answer (MQTT 5.0 sections 3.1 and 3.2).

use super::auth::Method;
use super::receive::check_properties;
use super::{AwayLimits, ConnectRequest, Phase, ServerEvent, ServerSession, SessionState};
use crate::flow::OutgoingLimits;
use crate::message::Numbered;
use crate::{Binary, Connack, Connect, DecodeError, Frame, Packet, Properties, Property, ReasonCode, Text, Version};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroU32};
use tieline_core::Now;

/// How a client is let in.
#[derive(Debug, Default)]
pub struct Accept {
    /// A session of before that goes on: the client is told so, and what was under way is sent again.
    pub resume: Option<SessionState>,
    /// How long the session will outlive the connection, in seconds; all ones is for ever. A 5.0 client that asked
    /// for something else is told.
    pub session_expiry_s: u32,
    /// The last word of the authentication that CONNECT asked for.
    pub authentication_data: Option<Binary>,
    /// What the client may make response topics from; told where it asked ([MQTT-3.1.2-28]).
    pub response_information: Option<Text>,
    /// A user property of CONNACK, told where the client takes a packet with it ([MQTT-3.2.2-20]).
    pub agreed: Option<(Text, Text)>,
}

impl ServerSession {
    pub(super) fn handle_connect(&mut self, frame: &Frame) {
        self.link.packet_bytes_max = u32::MAX;
        let packet = match Packet::parse(Version::V5, frame) {
            Ok(packet) => packet,
            Err(e) => return self.turn_away_malformed(Connect::version_of(&frame.body), e),
        };
        let checked = check_properties(&packet);
        let Packet::Connect(connect) = packet else { return self.close() };
        if let Err((reason, detail)) = checked {
            return self.turn_away(reason, &detail);
        }
        let connect = *connect;
        self.agree(&connect);
        // [MQTT-3.1.3-8] of 3.1.1: a session that stays needs a name that stays.
        if connect.client_id.is_empty() && connect.version == Version::V311 && !connect.clean_start {
            let words = "a client without an identifier needs a clean session [MQTT-3.1.3-8]";
            return self.turn_away(ReasonCode::ClientIdentifierNotValid, words);
        }
        let client_id_assigned = connect.client_id.is_empty();
        let client_id = if client_id_assigned {
            let made_up = Text::truncated(&format!("tieline-{:016x}", self.random));
            self.link.assigned = Some(Box::new(made_up.clone()));
            made_up
        } else {
            connect.client_id
        };
        self.phase = Phase::Deciding;
        self.event = Some(Box::new(ServerEvent::Connect(Box::new(ConnectRequest {
            version: connect.version,
            client_id,
            client_id_assigned,
            clean_start: connect.clean_start,
            keep_alive_s: connect.keep_alive_s,
            session_expiry_s: self.link.session_expiry_s,
            will: connect.will,
            user_name: connect.user_name,
            password: connect.password,
            properties: connect.properties,
        }))));
    }

    /// A CONNECT that breaks a rule: before the close, 5.0 may be told which ([MQTT-3.1.4-1]). What speaks 3.1.1, or nothing
    /// that is known, is closed without CONNACK ([MQTT-3.1.4-1] of 3.1.1), unless it is the version that is refused.
    fn turn_away_malformed(&mut self, version: Option<Version>, error: DecodeError) {
        let version = match error {
            // Bridges set the highest bit; what came before 5.0 understands the form of 3.1.1.
            DecodeError::ProtocolVersion(level) if level & 0x7F < 5 => Some(Version::V311),
            DecodeError::ProtocolVersion(_) => Some(Version::V5),
            _ => version.filter(|version| *version == Version::V5),
        };
        let Some(version) = version else { return self.close() };
        self.link.version = version;
        self.turn_away(error.reason(), &error.to_string());
    }

    fn agree(&mut self, connect: &Connect) {
        let (link, max_s) = (&mut self.link, self.config.keep_alive_s_max);
        link.version = connect.version;
        link.keep_alive_imposed =
            max_s > 0 && connect.version == Version::V5 && (connect.keep_alive_s == 0 || connect.keep_alive_s > max_s);
        link.keep_alive_s = if link.keep_alive_imposed { max_s } else { connect.keep_alive_s };
        let properties = &connect.properties;
        link.packet_bytes_max = properties.packet_bytes_max().map_or(u32::MAX, NonZeroU32::get);
        link.receive_max = properties.receive_max().map_or(u16::MAX, NonZeroU16::get);
        link.problem_information = properties.request_problem_information().unwrap_or(true);
        link.response_information = properties.request_response_information().unwrap_or(false);
        link.alias_max = properties.topic_alias_max().unwrap_or(0);
        let alias_max = link.alias_max.min(self.config.topic_alias_out_max);
        link.numbered = (alias_max > 0).then(|| Box::new(Numbered::new(alias_max)));
        link.method = Method::of(properties.authentication_method());
        link.session_expiry_s = match connect.version {
            Version::V5 => properties.session_expiry_s().unwrap_or(0),
            Version::V311 if connect.clean_start => 0,
            Version::V311 => u32::MAX,
        };
    }

    /// Lets the client in, and says whether it is in: not unless a Connect event waited for its answer (the
    /// transport may be gone by now), and not where the client takes no packet as long as CONNACK. `take_state` gives
    /// the session back then.
    pub fn accept(&mut self, now: Now, mut options: Accept) -> bool {
        if self.is_open() {
            return false;
        }
        let (session_present, reason) = (options.resume.is_some(), ReasonCode::Success);
        self.state = options.resume.take().map(Box::new);
        if self.phase != Phase::Deciding {
            return false;
        }
        let properties = self.connack_properties(&options);
        let connack = |properties| Packet::Connack(Connack { session_present, reason, properties });
        let agreed = options.agreed.map(|pair| connack(properties.with(&Property::UserProperty(pair))));
        let connack = agreed.filter(|connack| self.fits(connack)).unwrap_or_else(|| connack(properties));
        // [MQTT-3.1.2-24]: a client that takes no CONNACK can be told nothing.
        if !self.fits(&connack) {
            self.close();
            return false;
        }
        self.link.window = self.config.in_flight_max.min(self.link.receive_max).max(1);
        if let Some(state) = &mut self.state {
            state.outgoing.open(self.link.window);
            let AwayLimits { messages, bytes } = self.config.away;
            state.outgoing.resume(OutgoingLimits { messages, bytes });
        }
        self.decoder.limit(self.config.packet_bytes_max);
        self.phase = Phase::Open { greeted: false };
        // Keep alive counts from the answer: the client could not speak before it.
        self.link.last_packet = now.mono;
        self.send(&connack);
        true
    }

    /// Turns the client away, with the nearest code that its version has, and closes. 5.0 clients are told the text
    /// too. No effect unless a Connect event waits for its answer.
    pub fn refuse(&mut self, reason: ReasonCode, text: &str) {
        if self.phase == Phase::Deciding {
            self.turn_away(reason, text);
        }
    }

    pub(super) fn turn_away(&mut self, reason: ReasonCode, text: &str) {
        self.turn_away_with(reason, self.reason_text(text, 0));
    }

    pub(super) fn turn_away_with(&mut self, reason: ReasonCode, properties: Properties) {
        let connack = Connack { session_present: false, reason, properties };
        // A reason and at most one short text: never longer than MQTT can say.
        let _ = Packet::Connack(connack).emit(self.link.version, &mut self.control);
        self.close();
    }

    fn connack_properties(&mut self, options: &Accept) -> Properties {
        let (config, session_expiry_s) = (&self.config, options.session_expiry_s);
        let mut told = Vec::new();
        if session_expiry_s != self.link.session_expiry_s {
            told.push(Property::SessionExpiry(session_expiry_s));
        }
        told.extend(NonZeroU16::new(config.receive_max).map(Property::ReceiveMaximum));
        told.extend(NonZeroU32::new(config.packet_bytes_max).map(Property::MaximumPacketSize));
        told.extend(self.link.assigned.take().map(|name| Property::AssignedClientIdentifier(*name)));
        told.push(Property::TopicAliasMaximum(config.topic_alias_max));
        if !config.shared_available {
            told.push(Property::SharedSubscriptionAvailable(false));
        }
        if self.link.keep_alive_imposed {
            told.push(Property::ServerKeepAlive(self.link.keep_alive_s));
        }
        told.extend(self.link.method.properties(options.authentication_data.clone()));
        let wanted = options.response_information.clone().filter(|_| self.link.response_information);
        told.extend(wanted.map(Property::ResponseInformation));
        told.into_iter().collect()
    }
}

impl ServerSession {
    /// Closes on a peer whose first bytes are no CONNECT; one that speaks HTTP is told so.
    pub(super) fn turn_away_foreign(&mut self, bytes: &[u8]) -> usize {
        self.is_http = is_http(bytes);
        if self.is_http {
            self.control.extend_from_slice(&self.config.http_answer);
        }
        self.close();
        bytes.len()
    }
}

/// Whether bytes begin a request of HTTP. None of its methods begins like a CONNECT of MQTT.
fn is_http(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"PRI * HTTP/2"];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

//! Enhanced authentication (MQTT 5.0 section 4.12): the machine keeps the order of AUTH packets and the method that
//! they name; what the data says, and who is who, is its owner's.
//!
//! ```text
//!  CONNECT with a method ──▶ Deciding ── challenge ──▶ Authenticating ── AUTH ──▶ Deciding ── accept, refuse
//!  Open: AUTH 0x19 ──▶ event ── challenge, AUTH 0x18 … ── authenticated, disconnect
//! ```

use super::receive::check_properties;
use super::{EndCause, Phase, ServerEvent, ServerSession};
use crate::message::{Broken, wrong};
use crate::{Auth, Binary, Frame, PROPERTIES_MAX, Packet, Properties, Property, ReasonCode, Text, Version};
use alloc::boxed::Box;
use alloc::string::ToString;
use tieline_core::Now;

/// A step of the client in an authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRequest {
    /// `ContinueAuthentication`, or `ReAuthenticate` where a client that is in begins again.
    pub reason: ReasonCode,
    /// What the method says.
    pub data: Option<Binary>,
    /// All properties of the packet.
    pub properties: Properties,
}

/// How far an authentication has come.
#[derive(Debug, Default)]
pub(super) struct Method {
    /// The method that CONNECT named ([MQTT-4.12.0-5]).
    name: Option<Box<Text>>,
    /// Whether a client that is in proves itself again.
    again: bool,
}

impl Method {
    pub(super) fn of(name: Option<Text>) -> Self {
        Self { name: name.map(Box::new), again: false }
    }

    pub(super) const fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// The properties of a packet of this authentication.
    pub(super) fn properties(&self, data: Option<Binary>) -> impl Iterator<Item = Property> + use<> {
        let name = self.name.as_deref().cloned().map(Property::AuthenticationMethod);
        let data = data.filter(|_| self.name.is_some()).map(Property::AuthenticationData);
        name.into_iter().chain(data)
    }

    fn check(&self, auth: &Auth) -> Result<(), Broken> {
        match (&self.name, auth.properties.authentication_method()) {
            (None, _) => Err(wrong("AUTH without an authentication method in CONNECT [MQTT-4.12.0-7]")),
            (Some(name), Some(given)) if **name == given => Ok(()),
            (Some(_), _) => Err(wrong("AUTH does not name the method of CONNECT [MQTT-4.12.0-5]")),
        }
    }
}

impl ServerSession {
    /// Asks the client for more (AUTH 0x18): after a Connect event that names a method, or an Auth event. The answer
    /// is an Auth event. No effect at any other time.
    pub fn challenge(&mut self, now: Now, data: Option<Binary>) {
        let deciding = self.phase == Phase::Deciding && self.event.is_none();
        if !self.link.method.is_named() || !(deciding || self.link.method.again) {
            return;
        }
        self.emit_auth(ReasonCode::ContinueAuthentication, data);
        if deciding {
            self.phase = Phase::Authenticating { deadline: now.mono + self.config.connect_timeout };
        }
    }

    /// A client that was let in has proved itself again (AUTH 0x00). No effect unless it asked for that.
    pub fn authenticated(&mut self, data: Option<Binary>) {
        if self.is_open() && core::mem::take(&mut self.link.method.again) {
            self.emit_auth(ReasonCode::Success, data);
        }
    }

    fn emit_auth(&mut self, reason: ReasonCode, data: Option<Binary>) {
        let properties = self.link.method.properties(data).collect();
        // Two fields of 65,535 bytes at most: never longer than MQTT can say.
        let _ = Packet::Auth(Auth { reason, properties }).emit(Version::V5, &mut self.control);
    }

    /// A packet between CONNECT and CONNACK: AUTH, or DISCONNECT ([MQTT-3.1.2-30]).
    pub(super) fn handle_authenticating(&mut self, frame: &Frame) {
        let step = match Packet::parse(Version::V5, frame) {
            Ok(packet) if packet.property_count() > PROPERTIES_MAX => check_properties(&packet),
            Ok(Packet::Auth(auth)) => self.step(auth, ReasonCode::ContinueAuthentication),
            Ok(Packet::Disconnect(_)) => return self.close(),
            Ok(_) => Err(wrong("another packet than AUTH before CONNACK [MQTT-3.1.2-30]")),
            Err(e) => Err((e.reason(), e.to_string())),
        };
        match step {
            Ok(()) => self.phase = Phase::Deciding,
            Err((reason, detail)) => self.turn_away(reason, &detail),
        }
    }

    /// AUTH of a client that is in: it begins again, or goes on with that.
    pub(super) fn handle_auth(&mut self, auth: Auth) -> Result<(), Broken> {
        let again = self.link.method.again;
        let due = if again { ReasonCode::ContinueAuthentication } else { ReasonCode::ReAuthenticate };
        self.step(auth, due)?;
        self.link.method.again = true;
        Ok(())
    }

    fn step(&mut self, auth: Auth, due: ReasonCode) -> Result<(), Broken> {
        self.link.method.check(&auth)?;
        if auth.reason != due {
            return Err(wrong("AUTH with a reason that is not due [MQTT-4.12.0-3]"));
        }
        let Auth { reason, properties } = auth;
        let data = properties.authentication_data();
        self.event = Some(Box::new(ServerEvent::Auth(AuthRequest { reason, data, properties })));
        Ok(())
    }

    /// Sends the client elsewhere (section 4.11), for good or for a time: a refusal before CONNACK, a disconnection
    /// after it. Clients of 3.1.1 are told that the server is not available, or nothing.
    pub fn redirect(&mut self, reference: &Text, for_good: bool) {
        let reason = if for_good { ReasonCode::ServerMoved } else { ReasonCode::UseAnotherServer };
        let told: Properties = core::iter::once(Property::ServerReference(reference.clone())).collect();
        match self.phase {
            Phase::Deciding => self.turn_away_with(reason, told),
            Phase::Open { .. } => self.end_with(EndCause::Server(reason), Some((reason, told))),
            Phase::Idle | Phase::Greeting { .. } | Phase::Authenticating { .. } | Phase::Closed => {}
        }
    }
}

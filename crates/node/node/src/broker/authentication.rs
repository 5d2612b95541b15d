//! Authentication of one MQTT connection, and what its client may do afterwards.

use super::unauthenticated::UnauthenticatedConnection;
use crate::access::jwt::looks_like_token;
use crate::access::scram::{Exchange, METHOD};
use crate::access::{Authenticator, DeliveryFilter, Entrance, Peer, ReadFilter, Shown, Wrong, denial};
use crate::bus::{Bus, SharedBus, Wire, wake};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::{Identity, Reach, Refused, Rules, SessionKey, Verb};
use tieline_core::{Filter, Now};
use tieline_mqtt::{AuthRequest, Binary, ConnectRequest, ReasonCode};
use tieline_net::Session;

/// The result of a check of credentials, until the connection takes it.
type CheckResult = Rc<RefCell<Option<Result<Identity, Wrong>>>>;

/// The authentication state of one connection. Where no users are configured, every client may do everything.
#[derive(Debug)]
pub struct Authentication {
    unauthenticated: Option<UnauthenticatedConnection>,
    guarded: Option<Box<Guarded>>,
}

/// The state of a client that has to authenticate.
#[derive(Debug)]
struct Guarded {
    /// None where each client is the user that it names, in a process of its own.
    authenticator: Option<Authenticator>,
    peer: SocketAddr,
    checked: CheckResult,
    pass: Option<SessionKey>,
    /// An exchange of SCRAM and the CONNECT that began it; no CONNECT when an authenticated client re-authenticates.
    exchange: Option<(Exchange, Option<Box<ConnectRequest>>)>,
    /// The last server message of an exchange, for CONNACK.
    answer: Option<Binary>,
}

impl Authentication {
    /// Creates the state of a connection that has sent nothing yet.
    #[must_use]
    pub fn new(entrance: &Entrance, peer: SocketAddr, unauthenticated: UnauthenticatedConnection) -> Self {
        let guarded = entrance.authenticator().map(|authenticator| Guarded::new(Some(authenticator.clone()), peer));
        Self { unauthenticated: Some(unauthenticated), guarded }
    }

    /// The same where the client is the user that it names: for clients that the program which runs the bus has made.
    #[must_use]
    pub fn believing(peer: SocketAddr, unauthenticated: UnauthenticatedConnection) -> Self {
        Self { unauthenticated: Some(unauthenticated), guarded: Some(Guarded::new(None, peer)) }
    }

    /// Takes the client's address from a proxy (PROXY protocol).
    pub fn comes_from(&mut self, peer: SocketAddr) {
        if let Some(guarded) = &mut self.guarded {
            guarded.peer = peer;
        }
    }

    /// Takes a CONNECT. None when the client was refused, or while its credentials are being checked: in that case the
    /// owner gets the request a second time.
    pub fn admit(
        &mut self,
        session: &Session<Wire>,
        now: Now,
        bus: &SharedBus,
        request: ConnectRequest,
    ) -> Option<ConnectRequest> {
        match &mut self.guarded {
            Some(guarded) => guarded.admit(session, now, bus, request),
            None if bus.borrow().belongs_to_a_user(&request.client_id) => {
                let words = "the client identifier is a user's";
                session.with(|wire, _| wire.mqtt.refuse(ReasonCode::ClientIdentifierNotValid, words));
                None
            }
            None => Some(request),
        }
    }

    /// Takes a step of an enhanced authentication (MQTT 5.0 section 4.12). Gives the CONNECT to go on with once it is
    /// done.
    pub fn step(
        &mut self,
        session: &Session<Wire>,
        now: Now,
        bus: &SharedBus,
        step: &AuthRequest,
    ) -> Option<ConnectRequest> {
        self.guarded.as_mut()?.step(session, now, bus, step)
    }

    /// The authentication data of CONNACK after an enhanced authentication.
    #[must_use]
    pub fn answer(&mut self) -> Option<Binary> {
        self.guarded.as_mut()?.answer.take()
    }

    /// Whether a method of enhanced authentication is supported.
    #[must_use]
    pub fn knows(&self, method: &str) -> bool {
        self.guarded.is_some() && method == METHOD
    }

    /// The client has its session on the bus.
    pub fn joined(&mut self, bus: &SharedBus, key: usize, generation: u64, resumed: bool) {
        self.unauthenticated = None;
        if let Some(pass) = self.pass() {
            bus.borrow_mut().place_session(pass, key, generation, resumed);
        }
    }

    /// Whether the client has not been authenticated.
    #[must_use]
    pub const fn is_unauthenticated(&self) -> bool {
        self.unauthenticated.is_some()
    }

    /// The client is gone.
    pub fn leave(&mut self, bus: &SharedBus) {
        if let Some(pass) = self.guarded.as_mut().and_then(|guarded| guarded.pass.take())
            && let Some(guard) = bus.borrow_mut().guard_mut()
        {
            guard.leave(pass);
        }
    }

    fn pass(&self) -> Option<SessionKey> {
        self.guarded.as_ref()?.pass
    }

    /// How much of what a filter selects the client may read.
    #[must_use]
    pub fn reads(&self, bus: &Bus, filter: &Filter) -> Reach {
        let Some(guarded) = &self.guarded else { return Reach::All };
        match (guarded.pass, bus.guard()) {
            (Some(pass), Some(guard)) => guard.reach(pass, filter),
            _ => Reach::Nothing,
        }
    }

    /// What the client may read from now on, however its rights change; none where it may read all. For a request that is
    /// answered later, when the client may be gone.
    #[must_use]
    pub fn read_filter(&self, bus: &SharedBus, client: &str) -> Option<Rc<DeliveryFilter>> {
        let guarded = self.guarded.as_ref()?;
        let mut bus = bus.borrow_mut();
        let read_filter = guarded.pass.and_then(|pass| bus.guard_mut()?.read_filter(pass, client));
        let nothing = || ReadFilter::new(Arc::new(Rules::new(Vec::new())), "", client);
        Some(read_filter.unwrap_or_else(|| Rc::new(DeliveryFilter::new(nothing()))))
    }

    /// Whether the client may do something; a denial is counted and written down.
    #[must_use]
    pub fn may(&self, bus: &SharedBus, now: Now, client: &str, verb: Verb, topic: &str) -> bool {
        self.guarded.as_ref().is_none_or(|guarded| guarded.may(bus, now, client, verb, topic))
    }

    /// Whether the client is within its rates; a message over them is counted.
    #[must_use]
    pub fn spend(&self, bus: &SharedBus, now: Now, bytes: usize) -> bool {
        self.guarded.is_none()
            || self.pass().is_some_and(|pass| {
                bus.borrow_mut().guard_mut().is_some_and(|guard| guard.spend(now.mono, pass, bytes))
            })
    }

    /// The user, as the audit log names who asks.
    #[must_use]
    pub fn user(&self, bus: &SharedBus) -> Option<String> {
        self.user_on(&bus.borrow())
    }

    /// The same for who has the bus.
    #[must_use]
    pub fn user_on(&self, bus: &Bus) -> Option<String> {
        self.pass().and_then(|pass| bus.guard()?.user(pass)).map(str::to_owned)
    }

    /// What the client is told of a subscription that it may not have; none of one that it may.
    #[must_use]
    pub fn refuses(&self, bus: &SharedBus, now: Now, at: usize, client: &str, filter: &Filter) -> Option<ReasonCode> {
        self.guarded.as_ref()?.refuses(bus, now, at, client, filter)
    }
}

impl Guarded {
    fn new(authenticator: Option<Authenticator>, peer: SocketAddr) -> Box<Self> {
        let checked = CheckResult::default();
        Box::new(Self { authenticator, peer, checked, pass: None, exchange: None, answer: None })
    }

    fn admit(
        &mut self,
        session: &Session<Wire>,
        now: Now,
        bus: &SharedBus,
        request: ConnectRequest,
    ) -> Option<ConnectRequest> {
        let Some(authenticator) = &self.authenticator else {
            let user = request.user_name.as_deref().unwrap_or_default().into();
            return self.let_in(
                session,
                now,
                bus,
                request,
                Identity { user, roles: None, expires: None, credential: 0 },
            );
        };
        if request.properties.authentication_method().is_some() {
            self.begin(session, now, bus, request);
            return None;
        }
        let checked = self.checked.borrow_mut().take();
        match checked {
            Some(Ok(identity)) => self.let_in(session, now, bus, request, identity),
            Some(Err(why)) => {
                self.turn_away(session, now, bus, &request, &why);
                None
            }
            None => {
                if let Some(known) = self.by_certificate(session, &request) {
                    return match known {
                        Ok(identity) => self.let_in(session, now, bus, request, identity),
                        Err(why) => {
                            self.turn_away(session, now, bus, &request, &why);
                            None
                        }
                    };
                }
                let Some(shown) = shown(&request) else {
                    let why = Wrong::Refused("no credentials".to_owned());
                    self.turn_away(session, now, bus, &request, &why);
                    return None;
                };
                let (answer, answered) = tokio::sync::oneshot::channel();
                let shows = self.shows(Some(&request.client_id));
                authenticator.ask(shows, shown, move |checked| drop(answer.send(checked)));
                let (session, checked) = (session.clone(), Rc::clone(&self.checked));
                tokio::task::spawn_local(async move {
                    // A thread that is gone checks nothing: the node is ending.
                    *checked.borrow_mut() = Some(answered.await.unwrap_or(Err(Wrong::Busy)));
                    session.with(|wire, _| wire.ask_again(request));
                });
                None
            }
        }
    }

    fn authenticator(&self) -> Result<&Authenticator, Wrong> {
        self.authenticator.as_ref().ok_or_else(|| Wrong::Refused("nothing is checked here".to_owned()))
    }

    /// Who shows something here.
    fn shows<'a>(&self, client: Option<&'a str>) -> Peer<'a> {
        Peer { address: self.peer.ip(), client }
    }

    /// Who a client is that shows a certificate and no password; none where that says nothing.
    fn by_certificate(&self, session: &Session<Wire>, request: &ConnectRequest) -> Option<Result<Identity, Wrong>> {
        if request.password.is_some() {
            return None;
        }
        let user = request.user_name.as_deref();
        self.authenticator.as_ref()?.know_certificate(user, &session.certificate()?)
    }

    /// Takes the first message of SCRAM, which CONNECT brings.
    fn begin(&mut self, session: &Session<Wire>, now: Now, bus: &SharedBus, request: ConnectRequest) {
        let data = request.properties.authentication_data();
        let missing = || Wrong::Refused("SCRAM without its first message".to_owned());
        let begun = data
            .ok_or_else(missing)
            .and_then(|data| self.authenticator()?.begin_scram(self.shows(Some(&request.client_id)), &data.bytes()));
        match begun {
            Ok((exchange, answer)) => {
                self.exchange = Some((exchange, Some(Box::new(request))));
                session.with(|wire, now| wire.mqtt.challenge(now, Binary::new(answer.into_bytes()).ok()));
            }
            Err(why) => self.turn_away(session, now, bus, &request, &why),
        }
    }

    fn step(
        &mut self,
        session: &Session<Wire>,
        now: Now,
        bus: &SharedBus,
        step: &AuthRequest,
    ) -> Option<ConnectRequest> {
        let data = step.data.as_ref().map(Binary::bytes).unwrap_or_default();
        let Some((exchange, request)) = self.exchange.take() else {
            self.begin_again(session, now, bus, &data);
            return None;
        };
        let client = request.as_ref().map(|request| &*request.client_id);
        let finished = self.authenticator().and_then(|known| known.finish_scram(self.shows(client), exchange, &data));
        match (finished, request) {
            (Ok((identity, answer)), Some(request)) => {
                self.answer = Binary::new(answer.into_bytes()).ok();
                self.let_in(session, now, bus, *request, identity)
            }
            (Ok((identity, answer)), None) if self.is(bus, &identity.user) => {
                let answer = Binary::new(answer.into_bytes()).ok();
                session.with(|wire, _| wire.mqtt.authenticated(answer));
                None
            }
            (Err(why), Some(request)) => {
                self.turn_away(session, now, bus, &request, &why);
                None
            }
            (Ok(_) | Err(_), None) => {
                self.cast_out(session, now, bus);
                None
            }
        }
    }

    /// A client that is in proves itself again (AUTH 0x19).
    fn begin_again(&mut self, session: &Session<Wire>, now: Now, bus: &SharedBus, data: &[u8]) {
        match self.authenticator().and_then(|known| known.begin_scram(self.shows(None), data)) {
            Ok((exchange, answer)) => {
                self.exchange = Some((exchange, None));
                session.with(|wire, now| wire.mqtt.challenge(now, Binary::new(answer.into_bytes()).ok()));
            }
            Err(_) => self.cast_out(session, now, bus),
        }
    }

    fn is(&self, bus: &SharedBus, user: &str) -> bool {
        let bus = bus.borrow();
        self.pass.and_then(|pass| bus.guard()?.user(pass)) == Some(user)
    }

    /// Section 4.12.1: a client that fails to prove itself again is disconnected.
    fn cast_out(&self, session: &Session<Wire>, now: Now, bus: &SharedBus) {
        let who = self.who(bus, "");
        let words = "the client has not proved itself again".to_owned();
        session.with(|wire, _| wire.mqtt.disconnect(ReasonCode::NotAuthorized, &words));
        let line = denial(now, &who, "session_ended", "", "", "reauthentication", words);
        bus.borrow_mut().note_refused(self.peer.ip(), line);
    }

    fn let_in(
        &mut self,
        session: &Session<Wire>,
        now: Now,
        bus: &SharedBus,
        request: ConnectRequest,
        identity: Identity,
    ) -> Option<ConnectRequest> {
        let user = identity.user.clone();
        let admitted = {
            let mut bus = bus.borrow_mut();
            let taken = bus.belongs_to_another(&request.client_id, &user);
            let guard = bus.guard_mut()?;
            let pass = if taken { Ok(None) } else { guard.admit(now.mono, identity, &request.client_id).map(Some) };
            if matches!(pass, Ok(Some(_))) {
                bus.end_unclaimed(now, &request.client_id);
            }
            pass
        };
        let (reason, words) = match admitted {
            Ok(Some(pass)) => {
                self.pass = Some(pass);
                return Some(request);
            }
            Ok(None) => (ReasonCode::ClientIdentifierNotValid, "the client identifier is another user's".to_owned()),
            Err(why @ Refused::TooMany) => (ReasonCode::QuotaExceeded, why.to_string()),
            Err(why) => (ReasonCode::NotAuthorized, why.to_string()),
        };
        let who = format!("mqtt {} {user}", self.peer);
        let line = denial(now, &who, "login_refused", "", "", "refused", words.clone());
        bus.borrow_mut().note_refused(self.peer.ip(), line);
        session.with(|wire, _| wire.mqtt.refuse(reason, &words));
        None
    }

    /// The client learns one word; the log, why.
    fn turn_away(&self, session: &Session<Wire>, now: Now, bus: &SharedBus, request: &ConnectRequest, why: &Wrong) {
        let (reason, words) = match why {
            Wrong::Refused(_)
                if request.user_name.is_none()
                    && request.password.is_none()
                    && request.properties.authentication_method().is_none() =>
            {
                (ReasonCode::NotAuthorized, "a user and a password, a token, or the certificate of a user is needed")
            }
            Wrong::Refused(_) => (ReasonCode::BadUserNameOrPassword, ""),
            Wrong::TooOften => (ReasonCode::ConnectionRateExceeded, "too many attempts have failed"),
            Wrong::Busy => (ReasonCode::ServerBusy, "too many wait to be checked"),
        };
        let detail = match why {
            Wrong::Refused(detail) => detail.clone(),
            Wrong::TooOften | Wrong::Busy => String::new(),
        };
        let who = format!("mqtt {} {}", self.peer, &*request.client_id);
        let line = denial(now, &who, "login_refused", "", "", why.word(), detail);
        bus.borrow_mut().note_refused(self.peer.ip(), line);
        session.with(|wire, _| wire.mqtt.refuse(reason, words));
    }

    fn who(&self, bus: &SharedBus, client: &str) -> String {
        let bus = bus.borrow();
        let user = self.pass.and_then(|pass| bus.guard()?.user(pass)).unwrap_or("-");
        format!("mqtt {} {user} {client}", self.peer)
    }

    fn deny(&self, bus: &SharedBus, now: Now, client: &str, verb: Verb, topic: &str) {
        let who = self.who(bus, client);
        let user = self.pass.and_then(|pass| Some(bus.borrow().guard()?.user(pass)?.to_owned())).unwrap_or_default();
        bus.borrow_mut().deny(now, &user, &who, verb, topic);
    }

    fn may(&self, bus: &SharedBus, now: Now, client: &str, verb: Verb, topic: &str) -> bool {
        let Some(pass) = self.pass else { return false };
        if bus.borrow().guard().is_some_and(|guard| guard.decide(pass, verb, topic)) {
            return true;
        }
        self.deny(bus, now, client, verb, topic);
        wake(&bus.borrow());
        false
    }

    fn refuses(&self, bus: &SharedBus, now: Now, at: usize, client: &str, filter: &Filter) -> Option<ReasonCode> {
        let Some(pass) = self.pass else { return Some(ReasonCode::NotAuthorized) };
        let (reach, room) = {
            let bus = bus.borrow();
            let guard = bus.guard()?;
            (guard.reach(pass, filter), guard.may_subscribe(bus.subscriptions_of(at)))
        };
        match (reach, room) {
            (Reach::Nothing, _) => {
                self.deny(bus, now, client, Verb::Read, filter);
                Some(ReasonCode::NotAuthorized)
            }
            (Reach::All | Reach::Some, false) => Some(ReasonCode::QuotaExceeded),
            (Reach::Some, true) => {
                bus.borrow_mut().put_read_filter(pass, at);
                None
            }
            (Reach::All, true) => None,
        }
    }
}

/// What a CONNECT shows. A token may stand in the place of the password.
fn shown(request: &ConnectRequest) -> Option<Shown> {
    let user = request.user_name.as_ref().map(ToString::to_string);
    let password = request.password.as_ref()?.bytes();
    if looks_like_token(&password) {
        return Some(Shown::Token { user, token: password.to_vec() });
    }
    Some(Shown::Password { user: user?, password: password.to_vec() })
}

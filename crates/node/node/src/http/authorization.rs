//! Authorization of routes, as types: who may call a route is its handler's first argument.
//!
//! ```text
//! Visitor         anybody, nobody looks who it is: the login
//! Public          anybody, authenticated or not: health, the console's files
//! Authenticated   a caller that is known. It reaches nothing of the node until a right was checked:
//!   └ must, reads, each ─▶ Authorized   the node, for a caller that may do what was named
//! ```
//!
//! [`Routes`] adds a route only with a handler whose first argument is one of the first three, and no handler gets [`App`]
//! in another way: a route without an authorization does not compile.

use super::access::{Caller, ask_who};
use super::arguments::illegal;
use super::problem::Problem;
use super::topics::reserved_problem;
use super::{App, BODY_BYTES_MAX, not_allowed};
use crate::bus::Asked;
use crate::bus::reasons;
use crate::bus::reserved::REPLAY_PREFIX;
use crate::control::{Call, holder_of};
use axum::Router;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tieline_access::{Reach, Verb};
use tieline_core::{Filter, Now, Topic};
use tieline_service::http::openapi::{Authorization, Described, Input, Operation, Schemas};
use tieline_service::http::places::Slot;
use tieline_service::http::routes::Routes;

/// A route that is answered in the reserve, too: monitoring goes on while all places for connections are taken.
const METRICS: &str = "/metrics";

/// The node, within no handler's reach.
#[derive(Clone)]
pub struct Protected(App);

/// Any caller of a route to which nobody has to show anything; what it shows is not looked at.
pub struct Visitor;

/// The caller of a route.
pub struct Public {
    /// The node.
    pub app: App,
    /// Who it is, where that is known.
    pub caller: Caller,
}

/// A caller that is known, or a node where nobody has to be.
pub struct Authenticated {
    app: App,
    caller: Caller,
    peer: SocketAddr,
}

/// A caller that may do what was named.
pub struct Authorized {
    /// The node.
    pub app: App,
    /// Who it is.
    pub caller: Caller,
    peer: SocketAddr,
}

impl Authenticated {
    /// The time, which is no secret.
    pub fn now(&self) -> Now {
        self.app.about.clock.now()
    }

    /// A topic that clients may publish to. Where they may not is documented.
    ///
    /// # Errors
    /// It is none, or the node's own.
    pub fn client_topic(&self, text: &str) -> Result<Topic, Problem> {
        // What is replayed goes with the session that published it, and here is none.
        if text.starts_with(REPLAY_PREFIX) || self.app.known.reserved().contains(text) {
            return Err(reserved_problem(text));
        }
        if self.app.about.sites.is_of_site(text) {
            return Err(Problem::bad_request(format!("topic is {text:?}: {}", reasons::OF_SITE)));
        }
        Topic::new(text).map_err(|error| illegal("topic", text, &error))
    }

    /// Goes on only where the caller may do something; a denial is counted and written to the audit log.
    ///
    /// # Errors
    /// It may not.
    pub async fn must(self, verb: Verb, topic: &str) -> Result<Authorized, Problem> {
        let authorized = self.each();
        authorized.must(verb, topic).await?;
        Ok(authorized)
    }

    /// Goes on only where the caller may read something of what each filter selects; says whether it may read all of it.
    ///
    /// # Errors
    /// It may read nothing of one.
    pub async fn reads(self, filters: &[Filter]) -> Result<(Authorized, Reach), Problem> {
        let authorized = self.each();
        let mut all = Reach::All;
        for filter in filters {
            match authorized.caller.reach(filter) {
                Reach::All => {}
                Reach::Some => all = Reach::Some,
                Reach::Nothing => return Err(authorized.denied(Verb::Read, filter).await),
            }
        }
        Ok((authorized, all))
    }

    /// Goes on: the answer has only what the caller may have, each part of it judged by itself ([`Caller::may`]).
    pub fn each(self) -> Authorized {
        let Self { app, caller, peer } = self;
        Authorized { app, caller, peer }
    }
}

impl Authorized {
    /// Goes on only where the caller may do something besides; a denial is counted and written to the audit log.
    ///
    /// # Errors
    /// It may not.
    pub async fn must(&self, verb: Verb, topic: &str) -> Result<(), Problem> {
        if self.caller.may(verb, topic) { Ok(()) } else { Err(self.denied(verb, topic).await) }
    }

    async fn denied(&self, verb: Verb, topic: &str) -> Problem {
        let user = self.caller.user().unwrap_or("-").to_owned();
        let (who, what) = (format!("http {user}"), topic.to_owned());
        let name = user.clone();
        match self.app.bus.call(move |bus, now| bus.deny(now, &name, &who, verb, &what)).await {
            Ok(()) => Problem::new(StatusCode::FORBIDDEN, format!("the user {user:?} may not {verb} {topic:?}")),
            Err(stopped) => stopped.into(),
        }
    }

    /// Whose turn the caller's requests have.
    pub fn share(&self) -> Arc<str> {
        self.caller.share(self.peer)
    }

    /// The caller's name in the audit log.
    pub fn who(&self) -> String {
        self.caller.who(self.peer)
    }

    /// The caller of control, under the name that it gives itself.
    pub fn call(&self, name: Option<&str>) -> Asked {
        let requester = holder_of(self.caller.user(), name).unwrap_or_else(|| "http".into());
        Asked { by: Call { requester, who: self.who().into() }, session: None }
    }
}

impl FromRequestParts<Protected> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &Protected) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

impl FromRequestParts<Protected> for Public {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, Protected(app): &Protected) -> Result<Self, Infallible> {
        Ok(Self { app: app.clone(), caller: caller(parts) })
    }
}

impl FromRequestParts<Protected> for Authenticated {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, Protected(app): &Protected) -> Result<Self, Response> {
        let caller = caller(parts);
        if let Caller::Unauthenticated = caller {
            return Err(ask_who(&parts.headers));
        }
        if let Some(slot) = parts.extensions.get::<Slot>()
            && let Err(words) = slot.claim(parts.uri.path() != METRICS)
        {
            return Err(Problem::unavailable(words).into_response());
        }
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let peer = peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(Self { app: app.clone(), caller, peer })
    }
}

/// Who calls, as [`super::access::authenticate`] found out; unauthenticated where it did not look.
fn caller(parts: &Parts) -> Caller {
    parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Unauthenticated)
}

impl Authorization for Visitor {}
impl Authorization for Public {}
impl Authorization for Authenticated {}

impl Input for Visitor {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.may_fail(403, "A foreign page asked");
        operation.may_fail(503, "The node is stopping, or too much is under way");
    }
}

impl Input for Public {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.may_fail(401, "What the caller shows to say who it is is wrong");
        operation.may_fail(429, "Too many attempts to log in have failed");
        Visitor::describe(operation, schemas);
    }
}

impl Input for Authenticated {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let words = "Users are configured, and the caller has not shown who it is, or what it showed is wrong";
        operation.may_fail(401, words);
        operation.may_fail(403, "The user may not; or a foreign page asked");
        Public::describe(operation, schemas);
    }
}

/// No routes yet; where nothing is found at a path, this answers.
pub fn routes<H, T>(fallback: H) -> Routes<Protected>
where
    H: Handler<T, Protected> + Described<T>,
    T: 'static,
{
    let fallback = on(MethodFilter::GET, fallback).fallback(not_allowed);
    Routes::over(Router::new().fallback(fallback)).bodies_at_most(BODY_BYTES_MAX)
}

/// The routes of a node, as a service without layers.
pub fn with_node(routes: Routes<Protected>, app: App) -> Router {
    // For the routes that are there by now alone.
    routes.into_router().method_not_allowed_fallback(not_allowed).with_state(Protected(app))
}

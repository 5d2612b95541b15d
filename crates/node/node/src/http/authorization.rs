//! Authorization of routes, as types: who may call a route is its handler's first argument.
//!
//! ```text
//! Public          anybody, authenticated or not: health, the console's files, the login
//! Authenticated   a caller that is known. It reaches nothing of the node until a right was checked:
//!   └ must, reads, each ─▶ Authorized   the node, for a caller that may do what was named
//! ```
//!
//! [`Routes`] adds a route only with a handler whose first argument is one of the first two, and no handler gets [`App`]
//! in another way: a route without an authorization does not compile.

use super::access::{Caller, ask_who};
use super::problem::Problem;
use super::query::illegal;
use super::topics::reserved_problem;
use super::{App, not_allowed};
use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tieline_access::{Reach, Verb};
use tieline_core::{Filter, Now, Topic};
use tieline_service::http::places::Slot;

/// A route that is answered in the reserve, too: monitoring goes on while all places for connections are taken.
const METRICS: &str = "/metrics";

/// The node, within no handler's reach.
#[derive(Clone)]
pub struct Protected(App);

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
        if self.app.reserved.contains(text) {
            return Err(reserved_problem(text));
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

/// An argument that says who may call a route.
pub trait Authorization {}

impl Authorization for Public {}
impl Authorization for Authenticated {}

/// Arguments of a handler, the first of which says who may call its route.
pub trait Arguments {}

impl<M, A: Authorization> Arguments for (M, A) {}
impl<M, A: Authorization, B> Arguments for (M, A, B) {}
impl<M, A: Authorization, B, C> Arguments for (M, A, B, C) {}
impl<M, A: Authorization, B, C, D> Arguments for (M, A, B, C, D) {}

/// Routes, each with an authorization.
pub struct Routes {
    router: Router<Protected>,
    #[cfg(test)]
    pub(super) added: Vec<(String, &'static str)>,
}

impl Routes {
    /// None yet; where nothing is found at a path, this answers.
    pub fn new<H, T>(fallback: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        let router = Router::new().fallback(on(MethodFilter::GET, fallback).fallback(not_allowed));
        Self {
            router,
            #[cfg(test)]
            added: Vec::new(),
        }
    }

    /// Answers GET and HEAD at a path.
    pub fn get<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        self.add("get", path, on(MethodFilter::GET, handler))
    }

    /// Answers POST at a path.
    pub fn post<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        self.add("post", path, on(MethodFilter::POST, handler))
    }

    /// The same with a limit of its own for the body.
    pub fn post_at_most<H, T>(self, bytes_max: usize, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        self.add("post", path, on(MethodFilter::POST, handler).layer(DefaultBodyLimit::max(bytes_max)))
    }

    /// Answers PUT at a path.
    pub fn put<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        self.add("put", path, on(MethodFilter::PUT, handler))
    }

    /// Answers DELETE at a path.
    pub fn delete<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Protected>,
        T: Arguments + 'static,
    {
        self.add("delete", path, on(MethodFilter::DELETE, handler))
    }

    #[cfg_attr(not(test), expect(unused_variables, reason = "tests compare the routes with the document"))]
    fn add(mut self, method: &'static str, path: &'static str, route: MethodRouter<Protected>) -> Self {
        #[cfg(test)]
        self.added.push((path.replace("{*", "{"), method));
        self.router = self.router.route(path, route);
        self
    }

    /// The routes of a node, as a service without layers.
    pub fn of(self, app: App) -> Router {
        // For the routes that are there by now alone.
        self.router.method_not_allowed_fallback(not_allowed).with_state(Protected(app))
    }
}

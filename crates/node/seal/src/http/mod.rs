//! HTTP: the API under `/v1/seal`, `/metrics`, `/healthz`.
//!
//! In: requests with a bearer token. Out: what workers answer. `routes` is the table of what is served and what the
//! OpenAPI document describes.

mod change;
mod keys;
mod operate;

use crate::access::{Action, Client, digest};
use crate::metrics::Kind;
use crate::pool::Shared;
use crate::protocol::Reason;
use crate::public_refusal::PublicRefusal;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json as object;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use tieline_service::exposition::Exposition;
use tieline_service::http::body::{Answer, Written};
use tieline_service::http::guard::{Guard, guard};
use tieline_service::http::listen::{Limited, TlsSource};
use tieline_service::http::openapi::{Authorization, Input, Operation, Output, Schemas};
use tieline_service::http::places::{Limits, Places, Slot};
use tieline_service::http::problem::Problem;
use tieline_service::http::routes::Routes;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let base = object!({
            "openapi": "3.1.0",
            "info": { "title": "Tieline seal server", "version": "1", "description": DESCRIPTION },
            "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
            "security": [{ "token": [] }],
        });
        routes().into_document().into_json(base).to_string()
    });
    &TEXT
}

const DESCRIPTION: &str =
    "Packs and unpacks security envelopes of RSFN. Errors are application/problem+json (RFC 9457).";

/// What a JSON body may have besides content in base64, in bytes.
const JSON_BYTES: usize = 4096;

/// What every handler may use.
#[derive(Clone)]
pub struct App(Arc<Shared>, Places);

impl App {
    /// The client whose token the request bears, if it may do `action` in `domain`.
    fn client(&self, headers: &HeaderMap, action: Action, domain: &str) -> Result<Arc<Client>, Problem> {
        let client = self.known(headers)?;
        let refused = || Problem::new(StatusCode::FORBIDDEN, format!("this client may not {} there", action.word()));
        if client.may(action, domain) {
            return Ok(client);
        }
        match action {
            Action::Pack => self.0.metrics.turn_away(Kind::Pack, Reason::Right),
            Action::Unpack => self.0.metrics.turn_away(Kind::Unpack, Reason::Right),
            Action::Admin => {}
        }
        Err(refused())
    }

    fn known(&self, headers: &HeaderMap) -> Result<Arc<Client>, Problem> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let client = token.and_then(|token| self.0.config().clients.get(&digest(token)).cloned());
        let words = "a known token is expected, as in \"Authorization: Bearer TOKEN\"";
        client.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, words))
    }
}

/// Bytes of a body at most.
fn body_bytes_max(shared: &Shared) -> usize {
    let content = usize::try_from(shared.config().content_bytes_max).unwrap_or(usize::MAX / 2);
    content.saturating_add(1024).div_ceil(3).saturating_mul(4).saturating_add(JSON_BYTES)
}

/// Any caller.
pub struct Public(App);

impl FromRequestParts<App> for Public {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self(app.clone()))
    }
}

impl Authorization for Public {}

impl Input for Public {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.public();
    }
}

/// A client that has shown its token.
pub struct Identified {
    app: App,
    client: Arc<Client>,
}

impl FromRequestParts<App> for Identified {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Self { app: app.clone(), client: app.known(&parts.headers)? })
    }
}

impl Authorization for Identified {}

impl Input for Identified {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.may_fail(401, "A known token is expected");
        operation.may_fail(403, "A foreign page asked");
        operation.may_fail(503, "Too much is under way");
    }
}

/// Each route: its handler's first argument says who may call it, its words are what its types do not say.
fn routes() -> Routes<App> {
    use Operation as Op;
    let refused = "The message is refused; whether its key, its tag or its signature is wrong is told by the audit log \
                   only";
    Routes::over(Router::new())
        .post(
            "/v1/seal/pack",
            operate::pack,
            Op::new("pack", "Sign and encrypt content").says(200, "The message").about(
                "Content as bytes with parameters in the query, or JSON with everything in the body. The answer has \
                 the form of the request.",
            ),
        )
        .post(
            "/v1/seal/unpack",
            operate::unpack,
            Op::new("unpack", "Decrypt a message and verify its signature")
                .says(200, "The content, and who signed it")
                .problem(422, refused),
        )
        .get(
            "/v1/seal/keys",
            keys::keys,
            Op::new("keys", "Keys and certificates of the domains that the client may administer"),
        )
        .post(
            "/v1/seal/keys",
            change::import_key,
            Op::new("import_key", "Add a key").about(
                "Needs the right to administer the domain. The key and its certificate are written beside the \
                 configuration, and named in it.",
            ),
        )
        .post("/v1/seal/keys/activate", change::activate, Op::new("activate", "Let a key sign"))
        .post("/v1/seal/keys/retire", change::retire, Op::new("retire", "Let a key neither sign nor open any more"))
        .post("/v1/seal/peers", change::import_peer, Op::new("import_peer", "Add another institution's certificate"))
        .get("/v1/seal/openapi.json", document, Op::new("openapi", "This document").says(200, "OpenAPI"))
        .get("/metrics", metrics, Op::new("metrics", "Metrics for Prometheus").says(200, "Text"))
        .get(
            "/healthz",
            health,
            Op::new("healthz", "Whether the server works")
                .says(200, "It does")
                .says(503, "The audit log cannot be written"),
        )
}

fn router(app: App, hosts: Vec<String>) -> Router {
    let body_bytes_max = body_bytes_max(&app.0);
    routes()
        .into_router()
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(axum::middleware::from_fn_with_state(app.clone(), authenticate))
        .layer(axum::middleware::from_fn_with_state(Guard(hosts.into()), guard))
        .with_state(app)
}

async fn document(_: Public) -> Written<serde_json::Value> {
    Written::new(openapi())
}

/// Serves until the server closes, then until all requests are answered.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, hosts: Vec<String>, mut closing: watch::Receiver<bool>) {
    let source = Arc::clone(&shared);
    let tls: TlsSource = Arc::new(move || {
        let mut config = (*source.config().tls.as_ref()?.server()).clone();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Some(Arc::new(config))
    });
    let limits = shared.config().http_limits;
    // A body and its answer fit, whatever else is said.
    let pending_bytes_max = limits.pending_bytes_max.max(body_bytes_max(&shared).saturating_mul(4));
    let places = Places::new(Limits { pending_bytes_max, ..limits });
    let listener = Limited::new(listener, places.clone()).with_tls(tls);
    let closed = async move { drop(closing.wait_for(|closing| *closing).await) };
    tieline_service::http::serve::serve(listener, router(App(shared, places), hosts), closed).await;
}

/// Nothing is read of a request's body before it is known whose it is.
async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_for_all = !path.starts_with("/v1/") || path == "/v1/seal/openapi.json";
    match (app.known(request.headers()), request.extensions().get::<Slot>()) {
        (Err(problem), _) if !is_for_all => return problem.into_response(),
        // Metrics and health are given in the reserve, too.
        (Ok(_), Some(slot)) => {
            if let Err(words) = slot.claim(!is_for_all) {
                return Problem::unavailable(words).into_response();
            }
        }
        (Ok(_) | Err(_), _) => {}
    }
    next.run(request).await
}

/// Metrics in the text format of Prometheus.
struct Metrics(String);

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/plain; version=0.0.4");
        ([(header::CONTENT_TYPE, kind)], self.0).into_response()
    }
}

impl Output for Metrics {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.content(200, "text/plain", serde_json::Value::Null);
    }
}

async fn metrics(Public(App(shared, places)): Public) -> Metrics {
    let mut e = Exposition::default();
    shared.metrics.expose(&mut e);
    places.expose("tieline_seal_http", &mut e);
    e.gauge("tieline_seal_waiting", "Queued operations.", shared.waiting());
    let reloads = shared.reloads.load(Ordering::Relaxed);
    e.counter("tieline_seal_reloads_total", "Reloads of the configuration.", reloads);
    let failures = shared.audit.failures();
    e.counter("tieline_seal_audit_failures_total", "Writes of the audit log that failed.", failures);
    let help = "Files of the audit log that were renamed because they were full.";
    e.counter("tieline_seal_audit_rotations_total", help, shared.audit.rotations());
    let help = "Old files of the audit log that were removed because there were too many.";
    e.counter("tieline_seal_audit_removed_total", help, shared.audit.removed());
    keys::expose(&shared.config(), &mut e);
    Metrics(e.into_text())
}

/// Whether the server works.
#[derive(JsonSchema, Serialize)]
struct Health {
    ok: bool,
    /// Whether the audit log can be written
    audit: bool,
    /// Operations that wait
    waiting: usize,
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        let status = if self.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Answer(self)).into_response()
    }
}

impl Output for Health {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let schema = schemas.written::<Self>();
        operation.content(200, "application/json", schema.clone());
        operation.content(503, "application/json", schema);
    }
}

async fn health(Public(App(shared, _)): Public) -> Health {
    let audit = shared.audit.failures() == 0;
    Health { ok: audit, audit, waiting: shared.waiting() }
}

impl From<PublicRefusal> for Problem {
    fn from(told: PublicRefusal) -> Self {
        let status = match told.reason {
            Reason::Request => StatusCode::BAD_REQUEST,
            Reason::Right => StatusCode::FORBIDDEN,
            Reason::Message => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Reason::Busy | Reason::Closing => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, told.text)
    }
}

#[cfg(test)]
mod tests;

//! HTTP: the API under `/v1/seal`, `/metrics`, `/healthz`.
//!
//! In: requests with a bearer token. Out: what workers answer. The API is described by `openapi.json`, which a test
//! holds against the routes.

mod change;
mod keys;
mod operate;

use crate::access::{Action, Client, digest};
use crate::metrics::Kind;
use crate::pool::Shared;
use crate::protocol::Reason;
use crate::public_refusal::PublicRefusal;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline_service::exposition::Exposition;
use tieline_service::http::guard::{Guard, guard};
use tieline_service::http::listen::{Limited, TlsSource};
use tieline_service::http::places::{Limits, Places, Slot};
use tieline_service::http::problem::Problem;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The OpenAPI document.
pub const OPENAPI: &str = include_str!("openapi.json");

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

fn router(app: App, hosts: Vec<String>) -> Router {
    let body_bytes_max = body_bytes_max(&app.0);
    Router::new()
        .route("/v1/seal/pack", post(operate::pack))
        .route("/v1/seal/unpack", post(operate::unpack))
        .route("/v1/seal/keys", get(keys::keys).post(change::import_key))
        .route("/v1/seal/keys/activate", post(change::activate))
        .route("/v1/seal/keys/retire", post(change::retire))
        .route("/v1/seal/peers", post(change::import_peer))
        .route("/v1/seal/openapi.json", get(|| async { json(OPENAPI.to_owned()) }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(axum::middleware::from_fn_with_state(app.clone(), authenticate))
        .layer(axum::middleware::from_fn_with_state(Guard(hosts.into()), guard))
        .with_state(app)
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

async fn metrics(State(App(shared, places)): State<App>) -> Response {
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
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    ([(header::CONTENT_TYPE, kind)], Body::from(e.into_text())).into_response()
}

async fn health(State(App(shared, _)): State<App>) -> Response {
    let audit = shared.audit.failures() == 0;
    let mut response =
        json(serde_json::json!({ "ok": audit, "audit": audit, "waiting": shared.waiting() }).to_string());
    if !audit {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// A JSON text as a response.
fn json(text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], Body::from(text)).into_response()
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

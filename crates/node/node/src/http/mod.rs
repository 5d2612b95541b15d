//! HTTP on one port: the API under `/v1`, `/metrics`, `/healthz`, and the console.
//!
//! In: requests. Out: what the bus, the store and the configuration say. Never: a decision of its own.
//!
//! The API is described by `openapi.json`, which a test holds against the routes.

mod access;
mod authorization;
mod clock;
mod command;
mod compress;
mod console;
mod devices;
mod field;
mod forwarded;
mod history;
mod logins;
mod metrics;
mod query;
mod recalls;
mod sessions;
mod socket_metrics;
mod status;
mod topics;
mod trace;
mod values;
mod views;
mod wrong_port;

pub(crate) use status::state_of;

use self::authorization::{Public, Routes};
use self::recalls::Recalls;
use self::status::KnownHealth;
use crate::access::{Authenticator, Entrance};
use crate::bus::BusHandle;
use crate::bus::reserved::Reserved;
use crate::config::{DeviceConfig, HttpConfig, Source};
use crate::trace::TraceDisk;
use crate::wall_clock::WallClock;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tieline_core::Timestamp;
use tieline_net::tls::Tls;
use tieline_net::{Clock, Counters};
use tieline_service::http::guard::Guard;
use tieline_service::http::listen::{ForeignAnswer, Limited, TlsSource};
use tieline_service::http::places::Places;
use tieline_service::http::problem::Problem;
use tieline_service::http::{body, guard, problem};
use tieline_transport::CertificateCache;
use tokio::net::TcpListener;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What every handler may use.
#[derive(Clone)]
pub struct App {
    /// The bus.
    pub bus: BusHandle,
    /// What is configured.
    pub devices: Arc<[DeviceConfig]>,
    /// Where only the node publishes.
    pub reserved: Arc<Reserved>,
    /// Where the configuration came from.
    pub source: Source,
    /// Who this is.
    pub about: Arc<About>,
    /// Whether they come over TLS.
    pub has_tls: bool,
    /// How requests are let in.
    pub entrance: Entrance,
    /// Where users are checked, be it here or at MQTT alone.
    pub authenticator: Option<Authenticator>,
}

/// Who this node is, and what it counts beside the bus.
#[derive(Debug)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Where HTTP and MQTT listen.
    pub addresses: (SocketAddr, SocketAddr),
    /// When it started.
    pub started: Timestamp,
    /// The clock.
    pub clock: Clock,
    /// Whether its wall clock is believed.
    pub wall: WallClock,
    /// Where history is kept; none where it is off.
    pub history: Option<PathBuf>,
    /// Sockets of the field.
    pub field: Arc<Counters>,
    /// Connections of HTTP.
    pub http: Places,
    /// Answers from history that are under way.
    pub recalls: Recalls,
    /// What health said last.
    pub health: KnownHealth,
    /// Sockets of MQTT.
    pub mqtt: Arc<Counters>,
    /// Traces of devices, on the disk.
    pub traces: TraceDisk,
    /// TLS files in use.
    pub tls: Arc<CertificateCache>,
}

/// The document that describes the API.
pub const OPENAPI: &str = include_str!("openapi.json");

fn router(app: App, guard: Guard, proxies: forwarded::Proxies) -> Router {
    let authentication = access::HttpAuthentication::new(app.entrance.clone(), app.clone());
    routes()
        .of(app)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(authentication.clone(), access::authenticate))
        .layer(Extension(authentication))
        .layer(axum::middleware::from_fn_with_state(compress::Readers::default(), compress::compress))
        .layer(axum::middleware::from_fn_with_state(guard, guard::guard))
        .layer(axum::middleware::from_fn_with_state(proxies, forwarded::forwarded))
}

/// Each route; its handler's first argument says who may call it.
fn routes() -> Routes {
    Routes::new(console::file)
        .get("/v1/status", status::status)
        .get("/v1/topics", topics::list)
        .get("/v1/topics/{*topic}", values::one)
        .put("/v1/topics/{*topic}", values::put)
        .delete("/v1/topics/{*topic}", values::remove)
        .get("/v1/live", topics::live)
        .post("/v1/publish", topics::publish)
        .get("/v1/devices", devices::list)
        .get("/v1/devices/{*topic}", devices::one)
        .get("/v1/points", devices::points)
        .get("/v1/history", history::query)
        .get("/v1/trace/{*device}", trace::trace)
        .post("/v1/command", command::command)
        .get("/v1/audit", command::audit)
        .get("/v1/me", access::me)
        .get("/v1/sessions", sessions::sessions)
        .get("/v1/busiest", sessions::busiest)
        .post("/v1/views/reload", views::reload)
        .get("/v1/clock", clock::show)
        .post("/v1/clock", clock::confirm)
        .get("/v1/openapi.json", document)
        .get("/metrics", metrics::metrics)
        .get("/healthz", status::health)
        .get("/login", access::login_page)
        .post_at_most(access::FORM_BYTES_MAX, "/login", access::login)
        .post("/logout", access::logout)
}

async fn document(_: Public) -> Response {
    json(OPENAPI.to_owned())
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, app: App, config: &HttpConfig, tls: Option<Arc<Tls>>) {
    let guard = Guard(config.hosts.clone().into());
    let proxies =
        forwarded::Proxies { trusted: Arc::new(config.forwarded_from.clone()), header: config.forwarded_header };
    // Asked for each handshake: files may have been renewed.
    let source: TlsSource = Arc::new(move || {
        let mut server = (*tls.as_ref()?.server()).clone();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Some(Arc::new(server))
    });
    let mqtt = app.about.addresses.1;
    let foreign: ForeignAnswer = Arc::new(move |first| wrong_port::mqtt_answer(first, mqtt));
    let listener = Limited::new(listener, app.about.http.clone()).with_tls(source).with_foreign_answer(foreign);
    tieline_service::http::serve::serve(listener, router(app, guard, proxies), std::future::pending()).await;
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not for {}; /v1/openapi.json says what is", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// A JSON text as a response.
fn json(text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], Body::from(text)).into_response()
}

impl From<crate::bus::AskError> for Problem {
    fn from(error: crate::bus::AskError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<crate::bus::Stopped> for Problem {
    fn from(stopped: crate::bus::Stopped) -> Self {
        Self::unavailable(stopped.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_route() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let described = document["paths"].as_object().unwrap().iter();
        let methods = |path: &serde_json::Value| path.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut described: Vec<(String, String)> = described
            .flat_map(|(path, operations)| methods(operations).into_iter().map(|method| (path.clone(), method)))
            .collect();
        let mut routes: Vec<_> = routes().added.into_iter().map(|(path, method)| (path, method.to_owned())).collect();
        routes.sort();
        described.sort();
        assert_eq!(routes, described);
    }
}

//! HTTP on one port: the API under `/v1`, `/metrics`, `/healthz`, and the console.
//!
//! In: requests. Out: what the bus, the store and the configuration say. Never: a decision of its own.
//!
//! `routes.rs` is the table of all of them: what is served and what the OpenAPI document describes. Schemas, parameters
//! and errors in the document come from the types of the handlers.

mod access;
mod access_metrics;
mod alarms;
mod arguments;
mod authorization;
mod backups;
mod board_changes;
mod boards;
mod clock;
mod cluster;
mod command;
mod compress;
mod console;
mod control;
mod databases;
mod derived;
mod device_metrics;
mod devices;
mod diagrams;
mod durations;
mod edge;
mod field;
mod forwarded;
mod graphite;
mod held_logins;
mod history;
mod history_compaction;
mod history_deletion;
mod history_edits;
mod history_import;
mod history_states;
mod history_stats;
mod history_tail;
mod identity;
mod instant;
mod joining;
mod locks;
mod login;
mod logins;
mod metrics;
mod notify;
mod on_call;
mod pieces;
mod recalls;
mod reload;
mod roles;
mod routes;
mod sessions;
mod site_calls;
mod sites;
mod socket_metrics;
mod status;
mod tags;
mod topics;
mod trace;
mod upstream;
mod users;
mod values;
mod wrong_port;

pub use cluster::serve_standby;
pub use history_edits::{history_edit_of, shown_history_edit};
pub use history_stats::shown_history_stats;
pub(crate) use identity::Identities;
pub(crate) use logins::Logins;
pub use routes::openapi;
pub(crate) use status::state_of;

use self::durations::RequestDurations;
use self::recalls::Recalls;
use self::status::KnownHealth;
use crate::access::{Authenticator, Entrance};
use crate::bus::BusHandle;
use crate::bus::alarms::Notifications;
use crate::bus::reload::{KnownDevices, Reloader};
use crate::cluster::ClusterBoard;
use crate::config::HttpConfig;
use crate::sites::SitesBoard;
use crate::sites::joining::Joining;
use crate::trace::TraceDisk;
use crate::wall_clock::WallClock;
use axum::http::{Method, StatusCode, Uri};
use axum::{Extension, Router};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tieline_core::Timestamp;
use tieline_history::HistorySource;
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
    /// The devices that there are.
    pub known: KnownDevices,
    /// What reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// Who this is.
    pub about: Arc<About>,
    /// Whether they come over TLS.
    pub has_tls: bool,
    /// How requests are let in.
    pub entrance: Entrance,
    /// Who is told of alarms.
    pub notifications: Arc<Notifications>,
    /// The sites that may join; none where the node is no centre.
    pub joining: Option<Arc<Joining>>,
    /// Where users are checked, be it here or at MQTT alone.
    pub authenticator: Option<Authenticator>,
    /// The identity provider; none where there is none.
    pub identities: Option<Arc<Identities>>,
    /// Logins at the console and of the command line.
    pub logins: Logins,
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
    /// The data folder.
    pub data: PathBuf,
    /// Where history is kept; none where it is off.
    pub history: Option<HistorySource>,
    /// Sockets of the field.
    pub field: Arc<Counters>,
    /// Connections of HTTP.
    pub http: Places,
    /// Tails of history that are under way.
    pub tails: Recalls,
    /// Answers from history that are under way.
    pub recalls: Recalls,
    /// How long requests take.
    pub requests: RequestDurations,
    /// What health said last.
    pub health: KnownHealth,
    /// Sockets of MQTT.
    pub mqtt: Arc<Counters>,
    /// Traces of devices, on the disk.
    pub traces: TraceDisk,
    /// TLS files in use.
    pub tls: Arc<CertificateCache>,
    /// Whether it has an upstream.
    pub is_edge: bool,
    /// What the sockets to its upstreams count.
    pub edge: Option<Arc<Counters>>,
    /// What is shown of sites and the centre.
    pub sites: Arc<SitesBoard>,
    /// What is shown of the core that it leads; none where it is alone.
    pub cluster: Option<Arc<ClusterBoard>>,
}

fn router(app: App, guard: Guard, proxies: forwarded::Proxies) -> Router {
    let authentication = access::HttpAuthentication::new(app.entrance.clone(), app.clone());
    let requests = app.about.requests.clone();
    authorization::with_node(routes::routes(), app)
        .layer(axum::middleware::from_fn_with_state(authentication.clone(), access::authenticate))
        .layer(Extension(authentication.clone()))
        .layer(axum::middleware::from_fn_with_state(compress::Readers::default(), compress::compress))
        .layer(axum::middleware::from_fn_with_state(guard, guard::guard))
        .layer(axum::middleware::from_fn_with_state(proxies, forwarded::forwarded))
        // It looks at the address of the connection, before that of the client stands in its place.
        .layer(axum::middleware::from_fn_with_state(authentication, identity::proxy::named))
        .layer(axum::middleware::from_fn_with_state(requests, durations::measure))
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

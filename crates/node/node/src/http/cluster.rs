//! The core that this node is a member of: `/v1/cluster`, in `/healthz` and `/metrics`, and all that a standby serves.

use super::App;
use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use crate::cluster::{ClusterBoard, ClusterRole, ClusterSeen, MemberSeen};
use crate::config::HttpConfig;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;
use tieline_access::Verb;
use tieline_core::Words as _;
use tieline_net::tls::Tls;
use tieline_service::exposition::Exposition;
use tieline_service::http::guard::{self, Guard};
use tieline_service::http::listen::{Limited, TlsSource};
use tieline_service::http::places::Places;
use tokio::net::TcpListener;

/// A member of a core with standbys
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Cluster")]
pub struct ClusterShown {
    /// Name of the core
    cluster: String,
    /// Name of this node
    node: String,
    #[schemars(extend("enum" = ClusterRole::words().collect::<Vec<_>>()))]
    role: &'static str,
    /// Highest term that this node knows
    term: u64,
    /// Name of the node that leads; absent where none is heard
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    /// Where MQTT clients reach the leader; absent where it does not say so
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// Last message of the log that this node has
    applied: u64,
    /// Last message of the log that this node has heard of
    last: u64,
    /// Messages of the log that this node does not have
    lag: u64,
    /// Seconds since this node heard of the oldest message that it does not have; absent where it does not know
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_s: Option<f64>,
    /// All members that this node has heard since its start, this one too, by name
    members: Vec<MemberShown>,
    /// What a person has to see to; empty where there is nothing
    trouble: String,
    /// Messages that this node has appended to the log since its start
    appends: u64,
    /// Bytes that wait for the log
    waiting_bytes: usize,
    /// Times that this node was elected since its start
    elections: u64,
    /// Times that this node had to step down since its start
    depositions: u64,
}

/// How a member of a core does
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ClusterMember")]
pub struct MemberShown {
    /// Name of its node
    name: String,
    /// `unknown` where it was not heard for 5 s: what else is said is of then
    #[schemars(extend("enum" = ClusterRole::words().chain(["unknown"]).collect::<Vec<_>>()))]
    role: &'static str,
    /// Highest term that it knows
    term: u64,
    /// Last message of the log that it has
    applied: u64,
    /// Messages of the log that it does not have; absent where that is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// Age in seconds of the oldest message that it does not have; absent where that is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_s: Option<f64>,
    /// Seconds since it was heard
    heard_s: f64,
    /// Where MQTT clients reach it when it leads; absent where it does not say so
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
}

impl MemberShown {
    fn of(name: String, seen: MemberSeen, last: u64) -> Self {
        let is_heard = seen.is_heard();
        Self {
            name,
            role: if is_heard { seen.role.word() } else { "unknown" },
            term: seen.term,
            applied: seen.applied,
            lag: is_heard.then(|| last.saturating_sub(seen.applied)),
            behind_s: seen.behind.filter(|_| is_heard).map(|behind| behind.as_secs_f64()),
            heard_s: seen.heard.elapsed().as_secs_f64(),
            reference: seen.reference,
        }
    }

    /// All members.
    fn all(seen: &ClusterSeen) -> Vec<Self> {
        let ClusterSeen { role, term, applied, behind, .. } = *seen;
        let leader = seen.leader.as_ref().filter(|leader| leader.name == seen.node);
        let reference = leader.and_then(|leader| leader.reference.clone());
        let own = MemberSeen { role, term, applied, behind, reference, heard: Instant::now() };
        let mut all = seen.members.clone();
        all.insert(seen.node.clone(), own);
        all.into_iter().map(|(name, member)| Self::of(name, member, seen.last)).collect()
    }
}

impl From<ClusterSeen> for ClusterShown {
    fn from(seen: ClusterSeen) -> Self {
        let (lag, members) = (seen.lag(), MemberShown::all(&seen));
        let (leader, reference) = seen.leader.map(|leader| (leader.name, leader.reference)).unzip();
        Self {
            cluster: seen.cluster,
            node: seen.node,
            role: seen.role.word(),
            term: seen.term,
            leader,
            reference: reference.flatten(),
            applied: seen.applied,
            last: seen.last,
            lag,
            behind_s: seen.behind.map(|behind| behind.as_secs_f64()),
            members,
            trouble: seen.trouble,
            appends: seen.appends,
            waiting_bytes: seen.waiting_bytes,
            elections: seen.elections,
            depositions: seen.depositions,
        }
    }
}

/// How this node does as a member of a core.
pub async fn cluster(authenticated: Authenticated) -> Result<Answer<ClusterShown>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/cluster").await?;
    let board = authorized.app.about.cluster.as_ref();
    let board = board.ok_or_else(|| Problem::not_found("this node is no member of a core: it has no [cluster]"))?;
    Ok(Answer(board.look().into()))
}

/// What of it is in the status of a node.
pub(super) fn shown(app: &App) -> Option<ClusterShown> {
    app.about.cluster.as_ref().map(|board| board.look().into())
}

pub(super) fn metrics(e: &mut Exposition, board: Option<&Arc<ClusterBoard>>) {
    let Some(seen) = board.map(|board| board.look()) else { return };
    let roles = ClusterRole::WORDS.iter().map(|(word, role)| (*word, u8::from(*role == seen.role)));
    e.labelled(("tieline_cluster_role", "Role of this node in its core.", "gauge"), "role", roles);
    e.gauge("tieline_cluster_term", "Highest term that this node knows.", seen.term);
    e.gauge(
        "tieline_cluster_leader_heard",
        "Whether a leader is heard, or leads here.",
        u8::from(seen.leader.is_some()),
    );
    e.gauge("tieline_cluster_log_applied", "Last message of the log that this node has.", seen.applied);
    e.gauge("tieline_cluster_log_lag", "Messages of the log that this node does not have.", seen.lag());
    let members = MemberShown::all(&seen);
    let lags = members.iter().filter_map(|member| Some((&member.name, member.lag?)));
    let lag = "Messages of the log that a member does not have; absent where that is not known.";
    e.labelled(("tieline_cluster_member_lag", lag, "gauge"), "member", lags);
    let behinds = members.iter().filter_map(|member| Some((&member.name, member.behind_s?)));
    let behind = "Age of the oldest message that a member does not have; absent where that is not known.";
    e.labelled(("tieline_cluster_member_behind_seconds", behind, "gauge"), "member", behinds);
    let heard = members.iter().map(|member| (&member.name, member.heard_s));
    let silent = "How long ago a member was heard.";
    e.labelled(("tieline_cluster_member_heard_seconds", silent, "gauge"), "member", heard);
    e.gauge("tieline_cluster_waiting_bytes", "Bytes that wait for the log.", seen.waiting_bytes);
    e.counter("tieline_cluster_appends_total", "Messages that this node appended to the log.", seen.appends);
    e.counter("tieline_cluster_elections_total", "Times that this node was elected.", seen.elections);
    e.counter("tieline_cluster_depositions_total", "Times that this node had to step down.", seen.depositions);
    let took = "How long the log took to acknowledge a message, last.";
    e.gauge("tieline_cluster_append_seconds", took, seen.append_time.as_secs_f64());
}

/// What a balancer is told of a standby
#[derive(Serialize)]
struct StandbyHealth {
    status: &'static str,
    #[serde(flatten)]
    shown: ClusterShown,
}

/// Serves what a standby serves until the future is dropped. Nobody can show who they are here: where they would have to, only health and
/// the leader's address are told.
pub async fn serve_standby(
    listener: TcpListener,
    config: &HttpConfig,
    tls: Option<Arc<Tls>>,
    (board, is_open): (Arc<ClusterBoard>, bool),
) {
    let source: TlsSource = Arc::new(move || {
        let mut server = (*tls.as_ref()?.server()).clone();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Some(Arc::new(server))
    });
    let listener = Limited::new(listener, Places::new(config.limits)).with_tls(source);
    let router = router(board, is_open)
        .layer(axum::middleware::from_fn_with_state(Guard(config.hosts.clone().into()), guard::guard));
    tieline_service::http::serve::serve(listener, router, std::future::pending()).await;
}

fn router(board: Arc<ClusterBoard>, is_open: bool) -> Router {
    let health = Arc::clone(&board);
    let health = move || async move { health_of(&health) };
    let elsewhere = Arc::clone(&board);
    let mut router = Router::new().route("/healthz", get(health));
    if is_open {
        let (shown, measured) = (Arc::clone(&board), board);
        router = router
            .route("/v1/cluster", get(move || async move { Answer(ClusterShown::from(shown.look())) }))
            .route("/metrics", get(move || async move { exposed(&measured) }));
    }
    router.fallback(move || async move { refused(&elsewhere.look()) })
}

fn health_of(board: &ClusterBoard) -> Response {
    let shown = ClusterShown::from(board.look());
    (StatusCode::SERVICE_UNAVAILABLE, Answer(StandbyHealth { status: "standby", shown })).into_response()
}

fn exposed(board: &Arc<ClusterBoard>) -> Response {
    let mut e = Exposition::default();
    metrics(&mut e, Some(board));
    ([(header::CONTENT_TYPE, e.media_type())], e.into_text()).into_response()
}

fn refused(seen: &ClusterSeen) -> Problem {
    let leader = match &seen.leader {
        None => "no leader is heard".to_owned(),
        Some(leader) => match &leader.reference {
            None => format!("the leader is {}", leader.name),
            Some(reference) => format!("the leader is {}, for MQTT at {reference}", leader.name),
        },
    };
    Problem::unavailable(format!("this node is a member of the core {} and does not lead; {leader}", seen.cluster))
}

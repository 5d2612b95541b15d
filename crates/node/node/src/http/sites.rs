//! Sites and the centre: `/v1/sites`, in `/v1/status`, `/healthz` and `/metrics`.

use super::App;
use super::arguments::ListOrder;
use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use crate::bus::{SiteCallsSeen, SiteEventsSeen};
use crate::sites::{Behind, CentreSeen, FabricLink, SiteRow, SiteSeen, SitesBoard};
use crate::sites::{EventPeer, EventsSeen};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{Instant, Timestamp};
use tieline_service::exposition::Exposition;
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;

/// Sites that are named in `/healthz` for one reason.
const SHOWN_MAX: usize = 10;
/// Sites with a series of their own in `/metrics`; the others are in the sums alone.
const LABELS_MAX: usize = 1000;

/// Sites whose history comes to this node
#[derive(JsonSchema, Serialize)]
pub struct SiteList {
    sites: Vec<SiteShown>,
    /// Sites of this node; more than are listed where there is a limit
    total: usize,
    /// Of these, sites that are away
    away: usize,
}

parameters! {
    /// Which sites are asked for.
    pub struct SitesAsked {
        /// Which site comes first
        order: ListOrder = "plain",
        /// Sites of the answer
        limit: Whole<1, 100_000> = "100000",
    }
}

/// A site
#[derive(JsonSchema, Serialize)]
struct SiteShown {
    name: String,
    #[schemars(extend("enum" = ["up", "away"]))]
    state: &'static str,
    /// When the state began
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// When the site was heard last; absent where it was not since the start
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    heard: Option<String>,
    /// Age of the first live record that waits at the site
    lag_s: f64,
    /// Records that wait at the site
    waiting: u64,
    /// Records that the site has lost, since the start of this node
    lost: u64,
    /// Records stored since the start of this node
    records: u64,
    /// Samples of them
    samples: u64,
    /// Clock of the centre minus that of the site; absent where it is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_s: Option<f64>,
    /// Time on the link, both ways; absent where it is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_s: Option<f64>,
    /// Whether two nodes send as this site
    doubled: bool,
    /// Sites behind it, as it says; absent where it is no centre
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<BehindShown>,
    events: EventsShown,
}

/// Messages between sites on one link, since the start of this node
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "SiteMessages")]
struct EventsShown {
    /// Filters that are asked of the other end
    wanted: usize,
    /// Filters that the other end asks for
    asked: usize,
    /// Messages that wait for the other end
    waiting: usize,
    waiting_bytes: usize,
    /// Messages that the other end has taken
    sent: u64,
    /// Messages that it will never get
    lost: u64,
    /// Messages with QoS 0 that were published while it was away
    not_kept: u64,
    /// Messages that came from it
    received: u64,
    /// Messages that came once more, and were left out
    repeated: u64,
}

/// Sites behind a site
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Behind")]
struct BehindShown {
    sites: u64,
    /// Of these, sites that are away or behind one that is
    away: u64,
    /// Longest age of a live record on its way from there to the site
    lag_s: f64,
    /// Topics of this node below which the values of sites that are away are; not all where they are very many
    away_topics: Vec<String>,
}

/// The link of a site to its centre
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Site")]
pub(super) struct LinkShown {
    /// Its name at the centre
    name: String,
    #[schemars(extend("enum" = FabricLink::NAMES))]
    state: &'static str,
    /// Why the centre is away, or what it refuses
    why: String,
    /// When the state began
    #[schemars(extend("format" = "date-time"))]
    since: String,
    lag_s: f64,
    /// Records that the centre does not have
    waiting: u64,
    /// Records that it will never get
    lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_s: Option<f64>,
    events: EventsShown,
}

/// A centre
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Centre")]
pub(super) struct CentreShown {
    #[schemars(extend("enum" = FabricLink::NAMES))]
    state: &'static str,
    /// Why the servers are away
    why: String,
    /// When the state began
    #[schemars(extend("format" = "date-time"))]
    since: String,
    sites: usize,
    /// Of these, sites that are away
    away: usize,
}

/// All sites by name, or the worst of them.
pub async fn list(
    authenticated: Authenticated,
    Query(SitesAsked { order, limit: Whole(limit) }): Query<SitesAsked>,
) -> Result<Answer<SiteList>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/sites").await?;
    let seen = authorized.app.about.sites.centre().unwrap_or_default();
    let now = authorized.app.about.clock.now().mono;
    let board = &authorized.app.about.sites;
    let prefix = board.prefix().unwrap_or_default();
    let mut rows: Vec<_> = seen.sites.iter().collect();
    if order == ListOrder::Worst {
        rows.sort_by_key(|(_, row)| worst_first(row));
    }
    let sites = rows.into_iter().take(limit).map(|(name, row)| {
        let events = board.events(&Some(std::sync::Arc::clone(name)));
        shown(now, prefix, (name, row), events)
    });
    Ok(Answer(SiteList { sites: sites.collect(), total: seen.sites.len(), away: away(&seen) }))
}

/// The place of a site in the order worst first: those that are away, then by whole seconds of lag, then those that lost records.
fn worst_first(row: &SiteRow) -> (bool, Reverse<u64>, Reverse<u64>) {
    (row.is_up, Reverse(row.lag.as_secs()), Reverse(row.lost))
}

fn shown(now: Instant, prefix: &str, (name, row): (&str, &SiteRow), events: EventsSeen) -> SiteShown {
    SiteShown {
        name: name.to_owned(),
        state: if row.is_up { "up" } else { "away" },
        since: row.since.to_string(),
        heard: row.heard.as_ref().map(Timestamp::to_string),
        lag_s: row.lag.as_secs_f64(),
        waiting: row.waiting,
        lost: row.lost,
        records: row.records,
        samples: row.samples,
        clock_offset_s: row.clock_offset.map(seconds),
        round_trip_s: row.round_trip.map(|time| time.as_secs_f64()),
        doubled: row.runs.is_doubled(now),
        behind: row.behind.as_ref().map(|behind| behind_of(&format!("{prefix}{name}/"), behind)),
        events: events_of(events),
    }
}

const fn events_of(seen: EventsSeen) -> EventsShown {
    let EventsSeen { wanted, asked, waiting, waiting_bytes, sent, lost, not_kept, received, repeated } = seen;
    EventsShown { wanted, asked, waiting, waiting_bytes, sent, lost, not_kept, received, repeated }
}

fn behind_of(above: &str, behind: &Behind) -> BehindShown {
    BehindShown {
        sites: behind.sites,
        away: behind.away,
        lag_s: Duration::from_millis(behind.lag_ms).as_secs_f64(),
        away_topics: behind.away_topics.iter().map(|topic| format!("{above}{topic}")).collect(),
    }
}

pub(super) fn link_of(app: &App) -> Option<LinkShown> {
    let seen = app.about.sites.site()?;
    Some(LinkShown {
        state: seen.link.name(),
        why: if seen.refused.is_empty() { seen.link.why().to_owned() } else { seen.refused },
        name: seen.name,
        since: seen.since.to_string(),
        lag_s: seen.lag.as_secs_f64(),
        waiting: seen.waiting,
        lost: seen.lost,
        clock_offset_s: seen.clock_offset.map(|(micros, _)| seconds(micros)),
        events: events_of(app.about.sites.events(&None)),
    })
}

pub(super) fn centre_of(app: &App) -> Option<CentreShown> {
    let seen = app.about.sites.centre()?;
    Some(CentreShown {
        state: seen.link.name(),
        why: seen.link.why().to_owned(),
        since: seen.since.to_string(),
        sites: seen.sites.len(),
        away: away(&seen),
    })
}

fn away(seen: &CentreSeen) -> usize {
    seen.sites.values().filter(|row| !row.is_up).count()
}

/// What a person may have to see to.
pub(super) fn trouble(app: &App) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(site) = app.about.sites.site() {
        match &site.link {
            FabricLink::Up => {}
            FabricLink::Connecting => found.push("site: the centre has not answered yet".to_owned()),
            FabricLink::Away(why) => {
                found.push(format!("site: the centre is away, {} records wait: {why}", site.waiting))
            }
        }
        if !site.refused.is_empty() {
            found.push(format!("site: the centre refuses {}", site.refused));
        }
        if site.lost > 0 {
            found.push(format!("site: {} records are lost to the centre", site.lost));
        }
        let lost = app.about.sites.events(&None).lost;
        if lost > 0 {
            found.push(format!("site: {lost} messages for other sites are lost since the start of this node"));
        }
    }
    if let Some(centre) = app.about.sites.centre() {
        for (site, lost) in lost_events(&app.about.sites, &centre) {
            found.push(format!("centre: {lost} messages for the site {site} are lost since the start of this node"));
        }
        match &centre.link {
            FabricLink::Up => {}
            FabricLink::Connecting => found.push("centre: the servers have not answered yet".to_owned()),
            FabricLink::Away(why) => found.push(format!("centre: the servers are away: {why}")),
        }
        let away = away(&centre);
        if away > 0 {
            found.push(format!("centre: {away} sites are away"));
        }
        for (site, row) in centre.sites.iter().filter(|(_, row)| row.is_up) {
            let behind = row.behind.as_ref().map_or(0, |behind| behind.away);
            if behind > 0 {
                found.push(format!("centre: {behind} sites behind {site} are away"));
            }
        }
        let now = app.about.clock.now().mono;
        for (site, _) in centre.sites.iter().filter(|(_, row)| row.runs.is_doubled(now)) {
            found.push(format!("centre: two nodes send as the site {site}: give one of them another name"));
        }
        let (sites, records) = centre
            .sites
            .values()
            .filter(|row| row.lost > 0)
            .fold((0, 0), |(sites, records), row| (sites + 1, records + row.lost));
        if sites > 0 {
            found.push(format!("centre: {sites} sites have given up {records} records since the start of this node"));
        }
    }
    found
}

/// Sites that will never get some messages of others.
fn lost_events(board: &SitesBoard, centre: &CentreSeen) -> Vec<(String, u64)> {
    let lost = |site: &EventPeer| board.events(site).lost;
    let sites = centre.sites.keys().map(|site| (site.to_string(), lost(&Some(std::sync::Arc::clone(site)))));
    sites.filter(|(_, lost)| *lost > 0).take(SHOWN_MAX).collect()
}

/// What the bus has of sites.
pub(super) struct SitesOnBus {
    /// Topics that have values of sites, and values of sites that were left out.
    pub(super) topics: (usize, u64),
    pub(super) to_sites: Option<SiteCallsSeen>,
    /// Calls of the centre that were taken, and others.
    pub(super) of_centre: Option<(u64, u64)>,
    /// Messages between sites.
    pub(super) events: Option<SiteEventsSeen>,
}

pub(super) fn metrics(e: &mut Exposition, app: &App, seen: &SitesOnBus) {
    let (topics, own) = seen.topics;
    if let Some(site) = app.about.sites.site() {
        site_metrics(e, &site);
    }
    if let Some((taken, refused)) = seen.of_centre {
        let outcomes = [("taken", taken), ("refused", refused)];
        e.labelled(("tieline_site_calls_total", "Calls of the centre by outcome.", "counter"), "outcome", outcomes);
    }
    if let Some(calls) = seen.to_sites {
        let outcomes = [("answered", calls.answered), ("refused", calls.refused), ("unknown", calls.unknown)];
        e.labelled(("tieline_centre_calls_total", "Calls to sites by outcome.", "counter"), "outcome", outcomes);
        e.gauge("tieline_centre_calls_waiting", "Calls to sites that wait for answers.", calls.waiting);
    }
    if let Some(events) = seen.events {
        event_metrics(e, app, &events);
    }
    if let Some(joining) = &app.joining {
        let counts = &joining.counts;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let up = u8::from(counts.is_up.load(Ordering::Relaxed));
        e.gauge("tieline_joining_up", "1 once servers can ask who may connect.", up);
        let outcomes = [
            ("admitted", get(&counts.admitted)),
            ("refused", get(&counts.refused)),
            ("unreadable", get(&counts.unreadable)),
        ];
        let words = "Connections that servers asked about, by outcome.";
        e.labelled(("tieline_joining_connections_total", words, "counter"), "outcome", outcomes);
    }
    if let Some(centre) = app.about.sites.centre() {
        centre_metrics(e, &centre, app.about.clock.now().mono);
        e.gauge("tieline_centre_topics", "Topics that have values of sites.", topics);
        let words = "Values of sites left out because the topic is this node's own.";
        e.counter("tieline_centre_own_topics_total", words, own);
    }
}

/// Messages between sites: those of the bus, and those of each link.
fn event_metrics(e: &mut Exposition, app: &App, seen: &SiteEventsSeen) {
    let filters = "Filters below $sites/ that clients of this node have.";
    e.gauge("tieline_site_events_filters", filters, seen.filters);
    e.gauge("tieline_site_events_topics", "Last values of other sites below $sites/.", seen.topics);
    e.counter("tieline_site_events_published_total", "Messages of other sites that were published here.", seen.shown);
    let outcomes = [("full", seen.full), ("denied", seen.denied), ("left_out", seen.left_out)];
    e.labelled(
        ("tieline_site_events_dropped_total", "Messages between sites that went no further, by cause.", "counter"),
        "cause",
        outcomes,
    );
    let board = &app.about.sites;
    let sites = board.centre().map(|centre| centre.sites.into_keys().map(Some).collect::<Vec<_>>());
    let peers = board.site().map(|_| None).into_iter().chain(sites.into_iter().flatten().take(LABELS_MAX));
    let links: Vec<(String, EventsSeen)> =
        peers.map(|peer: EventPeer| (peer.as_deref().unwrap_or("centre").to_owned(), board.events(&peer))).collect();
    type Figure = (&'static str, &'static str, &'static str, fn(&EventsSeen) -> f64);
    let figures: [Figure; 9] = [
        ("tieline_site_events_wanted", "Filters asked of the other end.", "gauge", |seen| seen.wanted as f64),
        ("tieline_site_events_asked", "Filters that the other end asks for.", "gauge", |seen| seen.asked as f64),
        ("tieline_site_events_waiting", "Messages that wait for the other end.", "gauge", |seen| seen.waiting as f64),
        ("tieline_site_events_waiting_bytes", "Their bytes.", "gauge", |seen| seen.waiting_bytes as f64),
        ("tieline_site_events_sent_total", "Messages that the other end took.", "counter", |seen| seen.sent as f64),
        ("tieline_site_events_lost_total", "Messages that it will never get.", "counter", |seen| seen.lost as f64),
        ("tieline_site_events_not_kept_total", "Messages with QoS 0 while it was away.", "counter", |seen| {
            seen.not_kept as f64
        }),
        ("tieline_site_events_received_total", "Messages that came from it.", "counter", |seen| seen.received as f64),
        ("tieline_site_events_repeated_total", "Messages that came once more.", "counter", |seen| seen.repeated as f64),
    ];
    for (name, help, kind, of) in figures {
        e.labelled((name, help, kind), "peer", links.iter().map(|(peer, seen)| (peer, of(seen))));
    }
}

fn site_metrics(e: &mut Exposition, seen: &SiteSeen) {
    e.gauge("tieline_site_up", "1 while the centre answers.", u8::from(seen.link == FabricLink::Up));
    let lag = "Age of the first live record that the centre does not have.";
    e.gauge("tieline_site_lag_seconds", lag, seen.lag.as_secs_f64());
    e.gauge("tieline_site_waiting_records", "Journal records that the centre does not have.", seen.waiting);
    e.gauge("tieline_site_waiting_live_records", "Of these, live ones.", seen.waiting_live);
    e.counter("tieline_site_lost_records_total", "Journal records that the centre will never get.", seen.lost);
    e.counter("tieline_site_batches_total", "Batches and questions sent to the centre.", seen.sent);
    e.counter("tieline_site_bytes_total", "Bytes of them.", seen.sent_bytes);
    e.counter("tieline_site_silences_total", "Times that no answer came in time.", seen.silences);
    if let Some((micros, error)) = seen.clock_offset {
        e.gauge("tieline_site_clock_offset_seconds", "Clock of the centre minus that of this node.", seconds(micros));
        e.gauge("tieline_site_clock_offset_error_seconds", "Its error at most.", seconds(error));
    }
    if let Some(round_trip) = seen.round_trip {
        e.gauge("tieline_site_round_trip_seconds", "Time on the link, both ways.", round_trip.as_secs_f64());
    }
}

fn centre_metrics(e: &mut Exposition, seen: &CentreSeen, now: Instant) {
    e.gauge("tieline_centre_up", "1 while sites can be served.", u8::from(seen.link == FabricLink::Up));
    e.gauge("tieline_centre_sites", "Sites that are known.", seen.sites.len());
    e.gauge("tieline_centre_sites_away", "Of these, sites that are away.", away(seen));
    e.gauge("tieline_centre_waiting_bytes", "Bytes of records that wait for the disk.", seen.waiting_bytes);
    let outcomes =
        [("stored", seen.stored), ("not_stored", seen.not_stored), ("busy", seen.busy), ("refused", seen.refused)];
    e.labelled(("tieline_centre_batches_total", "Batches by outcome.", "counter"), "outcome", outcomes);
    e.counter("tieline_centre_failed_total", "Transactions that failed.", seen.failed);
    let unreadable = "Records and samples of sites that cannot be stored: a newer format, a topic that is too long.";
    e.counter("tieline_centre_unreadable_total", unreadable, seen.unreadable);
    type Figure = (&'static str, &'static str, &'static str, fn(&SiteRow) -> Option<f64>);
    let figures: [Figure; 11] = [
        ("tieline_centre_site_up", "1 while the site is heard.", "gauge", |row| Some(f64::from(u8::from(row.is_up)))),
        ("tieline_centre_site_lag_seconds", "Age of the first live record that waits at the site.", "gauge", |row| {
            Some(row.lag.as_secs_f64())
        }),
        ("tieline_centre_site_waiting_records", "Records that wait at the site.", "gauge", |row| {
            Some(row.waiting as f64)
        }),
        ("tieline_centre_site_clock_offset_seconds", "Clock of this node minus that of the site.", "gauge", |row| {
            row.clock_offset.map(seconds)
        }),
        ("tieline_centre_site_round_trip_seconds", "Time on the link to the site, both ways.", "gauge", |row| {
            row.round_trip.map(|time| time.as_secs_f64())
        }),
        ("tieline_centre_site_lost_records_total", "Records that the site has lost.", "counter", |row| {
            Some(row.lost as f64)
        }),
        ("tieline_centre_site_records_total", "Records of the site that were stored.", "counter", |row| {
            Some(row.records as f64)
        }),
        ("tieline_centre_site_samples_total", "Samples of them.", "counter", |row| Some(row.samples as f64)),
        ("tieline_centre_site_behind", "Sites behind the site.", "gauge", |row| {
            Some(row.behind.as_ref()?.sites as f64)
        }),
        ("tieline_centre_site_behind_away", "Of these, sites that are away.", "gauge", |row| {
            Some(row.behind.as_ref()?.away as f64)
        }),
        ("tieline_centre_site_behind_lag_seconds", "Age of a live record on its way to the site.", "gauge", |row| {
            Some(row.behind.as_ref()?.lag_ms as f64 / 1e3)
        }),
    ];
    let doubled = ("tieline_centre_site_doubled", "1 while two nodes send as this site.", "gauge");
    let rows = seen.sites.iter().take(LABELS_MAX);
    e.labelled(doubled, "site", rows.map(|(site, row)| (site, f64::from(u8::from(row.runs.is_doubled(now))))));
    for (name, help, kind, of) in figures {
        let rows = seen.sites.iter().take(LABELS_MAX);
        e.labelled((name, help, kind), "site", rows.filter_map(|(site, row)| Some((site, of(row)?))));
    }
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

//! A centre: takes the batches of sites, stores each record once below the topics of its site, and answers once that is on the disk.

use super::board::{CentreSeen, SiteRow, SitesBoard};
use super::calling::{SharedFabric, send_calls};
use super::events::{Exchange, Side};
use super::loaded::{load_marks, load_values};
use super::marks::{self, Marks};
use super::names::Names;
use super::served::serve;
use super::told::{self, Above, Told};
use super::values::Values;
use super::{Behind, SitesNews, SitesParts, SitesReport};
use crate::config::{CentreConfig, is_site_name};
use futures_util::future::LocalBoxFuture;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Instant, Now, Point, Quality, Timestamp, Topic, Value};
use tieline_fabric::{Request, subject};
use tieline_history::{HistoryHandle, JournalFeed, Noted};
use tieline_journal::{Sample, Seq};
use tieline_net::Shard;
use tieline_relay::{Mark, Part, Receiver, ReceiverLimits, Reply, Stream};
use tokio::sync::{mpsc, oneshot};

/// The file of marks.
pub(super) const MARKS: &str = "marks";
/// Bytes of records of all sites that wait.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of records of a transaction. Samples take ten times as much in memory while they are stored, however many sites there are.
const TRANSACTION_BYTES_MAX: usize = 256 << 10;
const TICK: Duration = Duration::from_millis(500);
/// A centre that is a site of another one must send its records on: they are not much longer than that.
const SITE_PIECE_BYTES: usize = 128 << 10;
/// How often marks are written, and what is shown of sites published.
const SAVE_EVERY: Duration = Duration::from_secs(1);
const SHOW_EVERY: Duration = Duration::from_secs(5);
/// Marks that cannot be written for so long: nothing more is taken, or the journal would have to keep all for them.
const UNSAVED_MAX: Duration = Duration::from_secs(30);

/// What became of the parts of a transaction: each with its place in the journal, where it is there.
type Done = Vec<Option<Seq>>;

/// Runs until the node stops.
pub async fn run<I: From<SitesReport> + Send + 'static>(
    shard: Rc<Shard>,
    mut parts: SitesParts,
    (config, is_site): (CentreConfig, bool),
    reports: mpsc::Sender<I>,
) {
    let since = shard.now().utc;
    parts.board.set_centre(CentreSeen { since, ..CentreSeen::default() });
    let shared = SharedFabric::default();
    let calls = std::mem::replace(&mut parts.calls, mpsc::channel(1).1);
    tokio::task::spawn_local(send_calls(shard.clock(), shared.clone(), calls, reports.clone()));
    let events = std::mem::replace(&mut parts.events, mpsc::channel(1).1);
    let (to_events, events_asked) = mpsc::channel(256);
    let side = Side::Centre(config.events_bytes_max, config.events_keep, config.silence);
    let about = (shard.clock(), Arc::clone(&parts.board), shared.clone());
    tokio::task::spawn_local(Exchange::run(side, about, (events, events_asked), reports.clone()));
    let Some((handle, feed)) = parts.opened.recv().await else { return };
    let path = parts.folder.join(MARKS);
    let (feed, marks) = load_marks(feed, &path).await;
    let mut loaded = load_values(parts.source.clone(), &config.prefix);
    let mut centre = Centre::new(shard.now(), &parts, config, (handle, feed, marks, path));
    centre.piece_bytes = if is_site { SITE_PIECE_BYTES } else { usize::MAX };
    let (requests, mut asked) = mpsc::channel(256);
    let (fabric, board) = ((parts.fabric.clone(), parts.member.clone()), Arc::clone(&parts.board));
    tokio::task::spawn_local(serve(shard.clock(), fabric, board, (requests, to_events), shared));
    let mut tick = tokio::time::interval(TICK);
    let mut storing: Option<LocalBoxFuture<'static, Done>> = None;
    loop {
        if storing.is_none() {
            storing = centre.begin_store(shard.now());
        }
        tokio::select! {
            request = asked.recv() => {
                let Some(request) = request else { return };
                centre.handle(shard.now(), request).await;
            }
            done = poll(&mut storing) => {
                storing = None;
                centre.stored(shard.now(), done).await;
            }
            Some((topic, time, body)) = loaded.recv() => centre.restore(topic, time, body),
            permit = reports.reserve(), if !centre.values.is_empty() => {
                let Ok(permit) = permit else { return };
                permit.send(SitesReport(centre.values.take()).into());
            }
            _ = tick.tick() => centre.tick(shard.now()),
        }
    }
}

async fn poll(storing: &mut Option<LocalBoxFuture<'static, Done>>) -> Done {
    match storing {
        Some(storing) => storing.await,
        None => std::future::pending().await,
    }
}

/// A record of the journal that has some records of a site.
struct Piece {
    site: Arc<str>,
    stream: Stream,
    /// How far the site is on the disk with it.
    mark: Mark,
    records: u64,
    samples: u64,
    /// Numbers that are lost before it.
    lost: u64,
}

/// Values of one record, with their topics and the times of their samples.
type TakenValues = Vec<(Topic, Timestamp, Body)>;

struct Centre {
    config: CentreConfig,
    path: PathBuf,
    offset_max: Duration,
    handle: HistoryHandle,
    feed: JournalFeed,
    marks: Marks,
    saved: Marks,
    saved_at: Instant,
    shown_at: Option<Instant>,
    receiver: Receiver<Request>,
    names: HashMap<Arc<str>, Names>,
    sites: BTreeMap<Arc<str>, SiteRow>,
    /// A record of the journal has no further record of a site from so many bytes on.
    piece_bytes: usize,
    /// What is at the disk: the parts in pieces, and the values of each site.
    pieces: Vec<Piece>,
    taken: Vec<(Arc<str>, TakenValues)>,
    values: Values,
    unreadable: u64,
    board: Arc<SitesBoard>,
}

impl Centre {
    fn new(
        now: Now,
        parts: &SitesParts,
        config: CentreConfig,
        (handle, feed, marks, path): (HistoryHandle, JournalFeed, Marks, PathBuf),
    ) -> Self {
        let streams = Stream::ALL.len();
        let mut receiver = Receiver::new(ReceiverLimits {
            streams_max: config.sites_max.saturating_mul(streams),
            waiting_bytes_max: WAITING_BYTES_MAX,
            // Live and back-fill.
            stream_bytes_max: config.site_bytes_max / 2,
            waiting_max: config.requests_max,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
        });
        receiver.handle_marks(marks.all());
        let row = || SiteRow { since: now.utc, ..SiteRow::default() };
        let sites: BTreeMap<_, _> = marks.all().map(|(site, ..)| (site, row())).collect();
        let mut values = Values::default();
        sites.keys().for_each(|site| values.push(SitesNews::State { site: Arc::clone(site), is_up: false }));
        Self {
            config,
            path,
            offset_max: parts.fabric.clock_offset_max,
            handle,
            feed,
            saved: marks.clone(),
            marks,
            saved_at: now.mono,
            shown_at: None,
            receiver,
            names: HashMap::new(),
            sites,
            piece_bytes: usize::MAX,
            pieces: Vec::new(),
            taken: Vec::new(),
            values,
            unreadable: 0,
            board: Arc::clone(&parts.board),
        }
    }

    async fn handle(&mut self, now: Now, request: Request) {
        let site = subject::site_of(&request.subject).filter(|site| is_site_name(site));
        let Some(site) = site else { return };
        if request.subject.ends_with(told::SUBJECT) {
            if self.told(now, &site, &request.body) {
                let above = Above::below(self.board.run(), &self.board.above());
                let above = Above { heard_us: Some(now.utc.micros()), ..above };
                answer([(request, serde_json::to_vec(&above).unwrap_or_default())]).await;
            }
            return;
        }
        let body = request.body.clone();
        let reply = self.receiver.handle_batch(now, &site, request, &body);
        if self.receiver.mark(&site, Stream::Live).is_some() || self.sites.contains_key(site.as_str()) {
            self.heard(now, &site);
        }
        answer(reply.map(|Reply { request, body }| (request, body))).await;
    }

    /// What a site says of itself; whether the site is one of those that are taken.
    fn told(&mut self, now: Now, site: &str, body: &[u8]) -> bool {
        if !self.sites.contains_key(site) && self.sites.len() >= self.config.sites_max {
            return false;
        }
        let Ok(told) = serde_json::from_slice(body) else { return false };
        let Told { waiting, lag_ms, clock_offset_us, round_trip_us, run, behind, is_closed } = told;
        // It asks who is above, and counts as away.
        if is_closed {
            return true;
        }
        self.heard(now, site);
        let limit = self.offset_max.as_micros();
        let Some(row) = self.sites.get_mut(site) else { return false };
        let is_off = |offset: Option<i64>| offset.is_some_and(|micros| u128::from(micros.unsigned_abs()) > limit);
        if is_off(clock_offset_us) && !is_off(row.clock_offset) {
            tracing::warn!(
                site,
                micros = clock_offset_us,
                "the clock of a site differs by more than fabric.clock_offset_max"
            );
        }
        if row.runs.heard(now.mono, run) {
            tracing::warn!(
                site,
                "two nodes send as this site: what they send takes turns, and one of them needs another name"
            );
        }
        (row.waiting, row.lag, row.clock_offset) = (waiting, Duration::from_millis(lag_ms), clock_offset_us);
        row.round_trip = round_trip_us.map(Duration::from_micros);
        let away =
            |behind: &Option<Behind>| behind.as_ref().map(|behind| behind.away_topics.clone()).unwrap_or_default();
        let away_now = away(&behind);
        if away_now != away(&row.behind) {
            self.values.push(SitesNews::Behind { site: site.into(), away: away_now });
        }
        row.behind = behind;
        true
    }

    fn heard(&mut self, now: Now, site: &str) {
        let row = match self.sites.get_mut(site) {
            Some(row) => row,
            None => self.sites.entry(site.into()).or_default(),
        };
        (row.heard, row.heard_at) = (Some(now.utc), Some(now.mono));
        if !row.is_up {
            (row.is_up, row.since) = (true, now.utc);
            tracing::info!(site, "a site is there");
            self.values.push(SitesNews::State { site: site.into(), is_up: true });
        }
    }

    /// Begins the next transaction, where there is one.
    fn begin_store(&mut self, now: Now) -> Option<LocalBoxFuture<'static, Done>> {
        if self.marks != self.saved && now.mono.since(self.saved_at) > UNSAVED_MAX {
            return None;
        }
        let parts = self.receiver.poll_store()?;
        let (mut noted, mut receipts) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        self.pieces.clear();
        for part in &parts {
            for (piece, samples) in self.pieces_of(part) {
                let (sender, receipt) = oneshot::channel();
                receipts.push(receipt);
                noted.push(Noted {
                    note: marks::note(&piece.site, piece.stream, piece.mark),
                    samples,
                    receipt: Box::new(move |stored| {
                        let _ = sender.send(stored.ok());
                    }),
                });
                self.pieces.push(piece);
            }
        }
        self.handle.submit_noted(noted);
        Some(Box::pin(async move {
            let done = futures_util::future::join_all(receipts).await;
            done.into_iter().map(|seq| seq.ok().flatten()).collect()
        }))
    }

    /// A part as records of the journal, each with its mark: more than one where the next centre could not take so long a record.
    fn pieces_of(&mut self, part: &Part) -> Vec<(Piece, Vec<Sample>)> {
        let piece = |number: u64, lost: u64| Piece {
            site: Arc::clone(&part.site),
            stream: part.stream,
            mark: Mark { number, ..part.mark },
            records: 0,
            samples: 0,
            lost,
        };
        let mut pieces = Vec::new();
        let (mut open, mut samples, mut bytes) = (piece(part.mark.number, lost_of(part)), Vec::new(), 0);
        let last = part.first + part.records.count();
        for (number, record) in (part.first..).zip(part.records.iter()) {
            if bytes >= self.piece_bytes && number < last {
                open.mark.number = number - 1;
                let full = std::mem::replace(&mut open, piece(part.mark.number, 0));
                pieces.push((full, std::mem::take(&mut samples)));
                bytes = 0;
            }
            bytes += record.len();
            let found = self.samples_of(&part.site, &record);
            (open.records, open.samples) = (open.records + 1, open.samples + found.len() as u64);
            samples.extend(found);
        }
        pieces.push((open, samples));
        pieces
    }

    /// The samples of a record, with the topics that they have here.
    fn samples_of(&mut self, site: &Arc<str>, record: &[u8]) -> Vec<Sample> {
        let found = self.names_of(site).samples(record);
        let Ok((samples, left_out)) = found else {
            self.unreadable += 1;
            return Vec::new();
        };
        self.unreadable += left_out;
        let value = |Sample { time, update, .. }: &Sample| (update.topic.clone(), *time, update.body.clone());
        self.taken.push((Arc::clone(site), samples.iter().map(value).collect()));
        samples
    }

    fn names_of(&mut self, site: &Arc<str>) -> &mut Names {
        let prefix = &self.config.prefix;
        self.names.entry(Arc::clone(site)).or_insert_with(|| Names::new(format!("{prefix}{site}/")))
    }

    /// The transaction is over.
    async fn stored(&mut self, now: Now, done: Done) {
        let pieces = std::mem::take(&mut self.pieces);
        let is_whole = done.iter().all(Option::is_some);
        for (piece, seq) in pieces.into_iter().zip(done) {
            let Some(seq) = seq else { continue };
            let Piece { site, stream, mark, records, samples, lost } = piece;
            if lost > 0 {
                tracing::warn!(site = &*site, records = lost, "a site has given records up: they never come");
            }
            let row =
                self.sites.entry(Arc::clone(&site)).or_insert_with(|| SiteRow { since: now.utc, ..SiteRow::default() });
            (row.records, row.samples, row.lost) = (row.records + records, row.samples + samples, row.lost + lost);
            self.marks.set(site, stream, mark);
            self.marks.seq = self.marks.seq.max(seq);
        }
        let replies = if is_whole {
            for (site, values) in std::mem::take(&mut self.taken) {
                values.into_iter().for_each(|(topic, time, body)| self.values.put(&site, topic, time, body));
            }
            self.receiver.handle_stored(now)
        } else {
            tracing::warn!("history does not take what sites send: they are told to send it later");
            self.taken.clear();
            let replies = self.receiver.handle_failed(now);
            self.receiver.handle_marks(self.marks.all());
            replies
        };
        answer(replies.into_iter().map(|Reply { request, body }| (request, body))).await;
    }

    /// A last value from before the start.
    fn restore(&mut self, topic: Topic, time: Timestamp, body: Body) {
        let below = topic.strip_prefix(self.config.prefix.as_str());
        let Some((site, there)) = below.and_then(|below| below.split_once('/')) else { return };
        let site = self.sites.get_key_value(site).map_or_else(|| site.into(), |(site, _)| Arc::clone(site));
        if let Ok(topic) = self.names_of(&site).here(there) {
            self.values.put(&site, topic, time, body);
        }
    }

    fn tick(&mut self, now: Now) {
        for (site, row) in &mut self.sites {
            let is_silent = row.heard_at.is_none_or(|heard| now.mono.since(heard) > self.config.silence);
            if row.is_up && is_silent {
                tracing::warn!(site = &**site, "a site is away");
                (row.is_up, row.since) = (false, now.utc);
                self.values.push(SitesNews::State { site: Arc::clone(site), is_up: false });
            }
        }
        // The file must not be ahead of the journal.
        let is_durable = self.marks.seq <= self.feed.place().durable;
        let is_due = now.mono.since(self.saved_at) >= SAVE_EVERY && is_durable;
        if is_due && self.marks != self.saved {
            match self.marks.save(&self.path) {
                Ok(()) => {
                    self.feed.want(self.marks.seq.next());
                    (self.saved, self.saved_at) = (self.marks.clone(), now.mono);
                }
                Err(error) => tracing::warn!(%error, "the marks of sites cannot be written"),
            }
        } else if self.marks == self.saved {
            self.saved_at = now.mono;
        }
        self.show(now);
    }

    fn show(&mut self, now: Now) {
        let stats = self.receiver.stats();
        let seen = self.board.centre().unwrap_or_default();
        self.board.set_centre(CentreSeen {
            sites: self.sites.clone(),
            stored: stats.stored,
            not_stored: stats.not_stored,
            busy: stats.busy,
            refused: stats.refused,
            failed: stats.failed,
            unreadable: self.unreadable,
            waiting_bytes: self.receiver.waiting_bytes(),
            ..seen
        });
        if self.shown_at.is_some_and(|at| now.mono.since(at) < SHOW_EVERY) {
            return;
        }
        self.shown_at = Some(now.mono);
        for (site, row) in &self.sites {
            let quality = if row.is_up { Quality::GOOD } else { Quality::AWAY };
            let whole = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
            let members = [
                ("waiting", Some(whole(row.waiting))),
                ("lost", Some(whole(row.lost))),
                ("lag", Some(Value::Float(row.lag.as_secs_f64()))),
                ("clock_offset", row.clock_offset.map(|micros| Value::Float(micros as f64 / 1e6))),
                ("round_trip", row.round_trip.map(|time| Value::Float(time.as_secs_f64()))),
                ("doubled", Some(Value::Bool(row.runs.is_doubled(now.mono)))),
                ("behind", row.behind.as_ref().map(|behind| whole(behind.sites))),
                ("behind_away", row.behind.as_ref().map(|behind| whole(behind.away))),
            ];
            for (member, value) in members.into_iter().filter_map(|(member, value)| Some((member, value?))) {
                let body = Body::Point(Point { value, quality, time: now.utc });
                if let Ok(topic) = Topic::new(&format!("$SYS/sites/{site}/{member}")) {
                    self.values.push(SitesNews::System(topic, body));
                }
            }
        }
    }
}

/// Numbers that the batch says are lost.
fn lost_of(part: &Part) -> u64 {
    let before = if part.before.epoch == part.mark.epoch { part.before } else { Mark::default() };
    (part.first - 1).saturating_sub(before.number)
}

async fn answer(replies: impl IntoIterator<Item = (Request, Vec<u8>)>) {
    for (request, body) in replies {
        // The site asks again.
        if let Err(error) = request.answer(body.into()).await {
            tracing::debug!(%error, "an answer cannot be sent");
        }
    }
}

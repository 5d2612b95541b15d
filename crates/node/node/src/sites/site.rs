//! A site: reads its journal, and sends what the centre does not have.
//!
//! New records are live while the centre answers and what is live goes up at once. Otherwise they are back-fill, from there on until the live
//! ones are through: so what happens now never waits behind what is owed. Which record is which number, `numbers.rs` says.

use super::asked::take_calls;
use super::begun::{load, watch_journal};
use super::board::{FabricLink, SiteSeen, SitesBoard};
use super::calling::SharedFabric;
use super::connect::{connect, is_away};
use super::events::{Exchange, Side};
use super::files;
use super::numbers::Numbers;
use super::selected::selected;
use super::told::{self, Above, Told};
use super::{SitesParts, SitesReport};
use crate::config::SiteConfig;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Now, Timestamp};
use tieline_fabric::{Fabric, FabricError, subject};
use tieline_history::{JournalFeed, JournalPlace};
use tieline_journal::{Decoder, Seq};
use tieline_net::Shard;
use tieline_relay::{Read, Stream, Upward, UpwardEvent, UpwardLimits};
use tokio::sync::{mpsc, watch};

/// The file of numbers.
const NUMBERS: &str = "numbers";
/// Longer than an answer is waited for.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the centre may take to answer what the site tells of itself.
const STATE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the site says how it is, and all is looked at.
const STATE_EVERY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
/// How often acknowledged numbers are saved: they say what the journal may let go of.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Where the first live record waits for longer, what follows is back-fill until it is through.
const LIVE_AGE_MAX: Duration = Duration::from_secs(5);
/// A link that is down for less is no cut.
const CUT_MIN: Duration = Duration::from_secs(1);
/// Records that are looked at for a batch, at most, where no record is sent of most of them.
const SKIPS_MAX: usize = 64;

type Call = LocalBoxFuture<'static, (u64, Result<Bytes, FabricError>)>;

/// Runs until the journal is closed.
pub async fn run<I: From<SitesReport> + Send + 'static>(
    shard: Rc<Shard>,
    mut parts: SitesParts,
    config: SiteConfig,
    reports: mpsc::Sender<I>,
) {
    let board = Arc::clone(&parts.board);
    board.set_site(SiteSeen { name: config.name.clone(), since: shard.now().utc, ..SiteSeen::default() });
    let (shared, events) = (SharedFabric::default(), std::mem::replace(&mut parts.events, mpsc::channel(1).1));
    let (to_events, asked) = mpsc::channel(64);
    let side = Side::Site(config.name.clone(), config.events_bytes_max);
    let about = (shard.clock(), Arc::clone(&board), shared.clone());
    tokio::task::spawn_local(Exchange::run(side, about, (events, asked), reports.clone()));
    let Some((_, feed)) = parts.opened.recv().await else { return };
    let Some(mut site) = open(&shard, &parts, config, feed).await else { return };
    let (fabric, mut connected) = mpsc::channel(1);
    let (config, name, failed) = (parts.fabric.clone(), site.config.name.clone(), Arc::clone(&board));
    tokio::task::spawn_local(async move {
        let away = |why| {
            if let Some(seen) = failed.site() {
                failed.set_site(SiteSeen { link: FabricLink::Away(why), ..seen });
            }
        };
        let _ = fabric.send(connect(&config, &name, away).await).await;
    });
    let mut places = watch_journal(&site.feed);
    let mut tick = tokio::time::interval(TICK);
    let mut calls: FuturesUnordered<Call> = FuturesUnordered::new();
    let mut states: FuturesUnordered<LocalBoxFuture<'static, Result<Bytes, FabricError>>> = FuturesUnordered::new();
    let mut is_up: Option<watch::Receiver<bool>> = None;
    loop {
        site.work(shard.now(), &calls);
        let due = site.upward.timeout().map(|at| shard.clock().at(at));
        tokio::select! {
            Some(fabric) = connected.recv(), if site.fabric.is_none() => {
                is_up = Some(fabric.is_up());
                let (name, board) = (site.config.name.clone(), Arc::clone(&site.board));
                *shared.borrow_mut() = Some(fabric.clone());
                let about = (name, board, to_events.clone());
                tokio::task::spawn_local(take_calls(shard.clock(), fabric.clone(), about, reports.clone()));
                site.fabric = Some(fabric);
                site.link_changed();
            }
            _ = changed(&mut is_up) => site.link_changed(),
            Some((id, answer)) = calls.next(), if !calls.is_empty() => site.answered(shard.now(), id, answer),
            Some(answer) = states.next(), if !states.is_empty() => site.state_answered(shard.now(), answer),
            changed = places.changed() => {
                if changed.is_err() {
                    return;
                }
                site.place = *places.borrow_and_update();
            }
            () = sleep_until(due), if due.is_some() => site.upward.handle_timeout(shard.now().mono),
            _ = tick.tick() => {
                if let Some(call) = site.tick(shard.now(), states.is_empty()) {
                    states.push(call);
                }
            }
        }
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

/// Whether the link is up, when that has changed.
async fn changed(is_up: &mut Option<watch::Receiver<bool>>) -> bool {
    if let Some(is_up) = is_up
        && is_up.changed().await.is_ok()
    {
        return *is_up.borrow_and_update();
    }
    std::future::pending().await
}

/// Reads the numbers of the site, or begins some.
async fn open(shard: &Shard, parts: &SitesParts, config: SiteConfig, feed: JournalFeed) -> Option<Site> {
    let path = parts.folder.join(NUMBERS);
    let now = shard.now();
    let place = feed.place();
    let numbers = loop {
        match load(&path, &parts.folder, &feed, now) {
            Ok(numbers) => break numbers,
            Err(error) => {
                tracing::warn!(%error, "the numbers of the site cannot be read or written; it is tried again");
                tokio::time::sleep(STATE_EVERY).await;
            }
        }
    };
    let seed = parts.board.run();
    let mut upward = Upward::new(&config.name, numbers.epoch(), UpwardLimits::default(), seed);
    upward.handle_link(false);
    tracing::info!(
        site = config.name,
        epoch = numbers.epoch(),
        waiting = owed(&numbers, place),
        "the site sends what it records"
    );
    Some(Site {
        state_subject: subject::up(&config.name, told::SUBJECT).ok()?,
        seen: SiteSeen { name: config.name.clone(), since: now.utc, ..SiteSeen::default() },
        config,
        offset_max: parts.fabric.clock_offset_max,
        path,
        feed,
        place,
        numbers,
        upward,
        fabric: None,
        decoder: Decoder::default(),
        down_since: Some(now.mono),
        stamps: VecDeque::new(),
        told_at: None,
        saved_at: now.mono,
        is_changed: false,
        above: None,
        read_failed: false,
        warned_of_clock: false,
        lost: 0,
        // A node that is no centre is in no circle.
        is_open: parts.board.prefix().is_none(),
        board: Arc::clone(&parts.board),
    })
}

fn owed(numbers: &Numbers, place: JournalPlace) -> u64 {
    place.durable.next().since(numbers.wanted(place.durable))
}

struct Site {
    config: SiteConfig,
    offset_max: Duration,
    state_subject: String,
    path: PathBuf,
    feed: JournalFeed,
    place: JournalPlace,
    numbers: Numbers,
    upward: Upward,
    fabric: Option<Fabric>,
    decoder: Decoder,
    /// Since when the centre does not answer.
    down_since: Option<Instant>,
    /// When live numbers were recorded, from the first that is not acknowledged on.
    stamps: VecDeque<(u64, Instant)>,
    /// When the site last said how it is.
    told_at: Option<Now>,
    saved_at: Instant,
    /// Whether acknowledged numbers are not saved.
    is_changed: bool,
    /// The epoch that the centre knows, where another one must begin.
    above: Option<u64>,
    read_failed: bool,
    warned_of_clock: bool,
    lost: u64,
    /// Whether it may send, by what is above it: a centre learns that first.
    is_open: bool,
    seen: SiteSeen,
    board: Arc<SitesBoard>,
}

impl Site {
    /// Offers what is durable, reads, and sends.
    fn work(&mut self, now: Now, calls: &FuturesUnordered<Call>) {
        self.offer(now);
        loop {
            let mut is_idle = true;
            while let Some(read) = self.upward.poll_read() {
                self.read(now, read);
                is_idle = false;
            }
            while let Some(out) = self.upward.poll_transmit(now) {
                is_idle = false;
                let Some(fabric) = self.fabric.clone() else { continue };
                let Ok(subject) = subject::up(&self.config.name, out.stream.name()) else { continue };
                let call = async move { (out.id, fabric.call(&subject, out.body.into(), CALL_TIMEOUT).await) };
                calls.push(Box::pin(call));
            }
            if is_idle {
                break;
            }
        }
        while let Some(event) = self.upward.poll_event() {
            self.handle_event(now, event);
        }
    }

    fn offer(&mut self, now: Now) {
        let durable = self.place.durable;
        for stream in [Stream::Live, Stream::BackFill] {
            self.upward.handle_durable(stream, self.numbers.last(stream, durable));
        }
        let last = self.numbers.last(Stream::Live, durable);
        if self.stamps.back().is_none_or(|(number, _)| *number < last) && last > self.upward.acknowledged(Stream::Live)
        {
            match self.stamps.back_mut() {
                // One for each tick is exact enough.
                Some((number, at)) if now.mono.since(*at) < TICK => *number = last,
                Some(_) | None => self.stamps.push_back((last, now.mono)),
            }
        }
    }

    fn lag(&self, now: Instant) -> Duration {
        self.stamps.front().map_or(Duration::ZERO, |(_, at)| now.since(*at))
    }

    fn read(&mut self, now: Now, read: Read) {
        let (mut from, mut records) = (read.from, Vec::new());
        let mut first = from;
        for _ in 0..SKIPS_MAX {
            let Some(range) = self.numbers.range(read.stream, from, self.place.durable) else { break };
            let upto = Seq(range.last.0.min(range.first.0.saturating_add(read.records_max as u64 - 1)));
            let (decoder, topics, mut bytes) = (&mut self.decoder, &self.config.topics, 0);
            let found = self.feed.read(range.first, upto, |_, payload| {
                let record = selected(decoder, topics, payload);
                bytes += record.len();
                records.push(record);
                records.len() < read.records_max && bytes < read.bytes_max
            });
            match found {
                Ok(seq) => first = range.number_of(seq),
                Err(error) => {
                    if !std::mem::replace(&mut self.read_failed, true) {
                        tracing::warn!(%error, "the journal cannot be read: it is tried again");
                    }
                    records.clear();
                    break;
                }
            }
            self.read_failed = false;
            if !records.is_empty() {
                break;
            }
            // What the piece had is gone.
            from = first.max(from + 1);
        }
        self.upward.handle_records(now.mono, read, first.max(read.from), &records);
    }

    fn answered(&mut self, now: Now, id: u64, answer: Result<Bytes, FabricError>) {
        match answer {
            Ok(body) => self.upward.handle_answer(now, id, &body),
            Err(error) => {
                if !is_away(&error) {
                    tracing::warn!(%error, "a batch cannot be sent");
                }
                self.upward.handle_away(now.mono, id);
            }
        }
    }

    fn link_changed(&mut self) {
        let is_up = self.fabric.as_ref().is_some_and(|fabric| *fabric.is_up().borrow());
        self.upward.handle_link(is_up && self.is_open);
    }

    /// What the centre says of what is above: whether this node may be its site.
    fn learned(&mut self, now: Now, answer: &[u8]) -> FabricLink {
        // A centre of an earlier release says nothing.
        let above: Above = serde_json::from_slice(answer).unwrap_or_default();
        let exchange = self.told_at.zip(above.heard_us.map(Timestamp::from_micros));
        exchange.into_iter().for_each(|(asked, heard)| self.upward.handle_clock(asked, heard, now));
        let refusal = self.board.prefix().and_then(|_| above.refusal(self.board.run()));
        self.board.set_above(above.runs);
        let was_open = std::mem::replace(&mut self.is_open, refusal.is_none());
        if was_open != self.is_open {
            self.link_changed();
        }
        refusal.map_or(FabricLink::Up, FabricLink::Away)
    }

    fn state_answered(&mut self, now: Now, answer: Result<Bytes, FabricError>) {
        let link = match answer {
            Ok(answer) => self.learned(now, &answer),
            Err(FabricError::Nobody) => FabricLink::Away("no centre serves this site".to_owned()),
            Err(error) => FabricLink::Away(error.to_string()),
        };
        match &link {
            FabricLink::Up => self.down_since = None,
            FabricLink::Away(_) | FabricLink::Connecting => {
                self.down_since.get_or_insert(now.mono);
            }
        }
        if link == FabricLink::Up && matches!(self.seen.link, FabricLink::Away(_)) {
            // Pauses that have grown end.
            self.upward.handle_link(false);
            self.link_changed();
        }
        if link.name() != self.seen.link.name() {
            self.seen.since = now.utc;
            match &link {
                FabricLink::Away(why) => tracing::warn!(why, "the centre is away"),
                FabricLink::Up | FabricLink::Connecting => tracing::info!("the centre is there"),
            }
        }
        self.seen.link = link;
        self.show(now);
    }

    fn handle_event(&mut self, now: Now, event: UpwardEvent) {
        match event {
            UpwardEvent::Acknowledged { stream, upto } => {
                self.numbers.set_acknowledged(stream, upto);
                if stream == Stream::Live {
                    while self.stamps.pop_front_if(|(number, _)| *number <= upto).is_some() {}
                }
                self.seen.refused.clear();
                self.feed.want(self.numbers.wanted(self.place.durable));
                self.is_changed = true;
            }
            UpwardEvent::Lost { stream, first, last } => {
                self.lost += last - first + 1;
                tracing::warn!(
                    stream = stream.name(),
                    first,
                    last,
                    "the centre does not get these records: the journal has them no more, or they are too long"
                );
            }
            UpwardEvent::WentBack { stream, from, to } => {
                tracing::warn!(
                    stream = stream.name(),
                    from,
                    to,
                    "the centre has less than it had: it gets the rest again"
                );
                self.numbers.set_acknowledged(stream, to);
                self.is_changed = true;
            }
            UpwardEvent::EpochNeeded { above } => {
                self.above = Some(above);
                self.begin_epoch(now);
            }
            UpwardEvent::Refused { stream, outcome } => {
                let words = format!("{}: {outcome:?}", stream.name());
                if self.seen.refused != words {
                    tracing::warn!(stream = stream.name(), ?outcome, "the centre refuses what this site sends");
                }
                self.seen.refused = words;
            }
        }
    }

    /// Begins another epoch, where one is needed: the centre knows numbers that this site does not.
    fn begin_epoch(&mut self, now: Now) {
        let Some(above) = self.above else { return };
        let time = u64::try_from(now.utc.micros()).unwrap_or(0);
        let epoch = time.max(above.saturating_add(1)).max(self.numbers.epoch() + 1);
        let numbers = self.numbers.begin_again(epoch);
        if self.save(&numbers) {
            tracing::warn!(epoch, above, "the centre knows other numbers of this site: they begin again");
            (self.numbers, self.above) = (numbers, None);
            self.stamps.clear();
            self.upward.begin_epoch(epoch);
        }
    }

    /// What is due now and then; says how the site is, where that is due and no answer is waited for.
    fn tick(&mut self, now: Now, may_tell: bool) -> Option<LocalBoxFuture<'static, Result<Bytes, FabricError>>> {
        self.begin_epoch(now);
        self.choose_stream(now);
        if self.is_changed && now.mono.since(self.saved_at) >= SAVE_EVERY {
            let mut numbers = self.numbers.clone();
            numbers.trim();
            if self.save(&numbers) {
                self.numbers = numbers;
            }
            (self.saved_at, self.is_changed) = (now.mono, false);
        }
        if !may_tell || self.told_at.is_some_and(|at| now.mono.since(at.mono) < STATE_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        self.show(now);
        let fabric = self.fabric.clone()?;
        let told = Told {
            waiting: self.seen.waiting,
            lag_ms: u64::try_from(self.seen.lag.as_millis()).unwrap_or(u64::MAX),
            clock_offset_us: self.seen.clock_offset.map(|(micros, _)| micros),
            round_trip_us: self.seen.round_trip.and_then(|time| u64::try_from(time.as_micros()).ok()),
            run: self.board.run(),
            behind: self.board.behind(),
            // What is not known yet is no reason to count as away.
            is_closed: !self.is_open && matches!(self.seen.link, FabricLink::Away(_)),
        };
        let (subject, body) = (self.state_subject.clone(), serde_json::to_vec(&told).ok()?);
        Some(Box::pin(async move { fabric.call(&subject, body.into(), STATE_TIMEOUT).await }))
    }

    fn choose_stream(&mut self, now: Now) {
        let durable = self.place.durable;
        let is_cut = self.down_since.is_some_and(|since| now.mono.since(since) >= CUT_MIN);
        let owes_live = self.numbers.last(Stream::Live, durable) > self.upward.acknowledged(Stream::Live);
        let stream = match self.numbers.open_stream() {
            Stream::Live if is_cut || self.lag(now.mono) > LIVE_AGE_MAX => Stream::BackFill,
            Stream::BackFill | Stream::Bulk if self.down_since.is_none() && !owes_live => Stream::Live,
            Stream::Live | Stream::BackFill | Stream::Bulk => return,
        };
        if !self.numbers.has_room() {
            return;
        }
        let mut numbers = self.numbers.clone();
        numbers.switch(stream, durable);
        numbers.trim();
        // Nothing of the new piece is offered before.
        if self.save(&numbers) {
            self.numbers = numbers;
        }
    }

    fn save(&self, numbers: &Numbers) -> bool {
        let saved = files::replace(&self.path, &numbers.to_text());
        saved.inspect_err(|error| tracing::warn!(%error, "the numbers of the site cannot be written")).is_ok()
    }

    fn show(&mut self, now: Now) {
        let (durable, stats) = (self.place.durable, self.upward.stats());
        let owed = |stream| self.numbers.last(stream, durable).saturating_sub(self.upward.acknowledged(stream));
        let offset = self.upward.clock_offset(now.mono);
        let lag = self.lag(now.mono);
        let seen = &mut self.seen;
        (seen.waiting_live, seen.waiting, seen.lag) =
            (owed(Stream::Live), owed(Stream::Live) + owed(Stream::BackFill), lag);
        (seen.sent, seen.sent_bytes, seen.silences, seen.lost) =
            (stats.sent, stats.sent_bytes, stats.silences, self.lost);
        seen.clock_offset = offset.map(|offset| (offset.micros, offset.error_micros));
        seen.round_trip = self.upward.round_trip();
        let is_off = offset.is_some_and(|offset| {
            let at_least = offset.micros.abs().saturating_sub(offset.error_micros);
            u128::from(at_least.unsigned_abs()) > self.offset_max.as_micros()
        });
        if is_off && !self.warned_of_clock {
            let micros = offset.map(|offset| offset.micros);
            tracing::warn!(
                micros,
                "the clock of this site differs from that of the centre by more than fabric.clock_offset_max"
            );
        }
        self.warned_of_clock = is_off;
        self.board.set_site(self.seen.clone());
    }
}

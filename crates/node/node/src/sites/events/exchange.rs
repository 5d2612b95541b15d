//! The links of a node, at work: one to the centre, or one to each site.

use super::link::{EventLink, Sent};
use super::{EventInput, EventPeer, SUBJECT};
use crate::config::is_site_name;
use crate::sites::board::SitesBoard;
use crate::sites::calling::SharedFabric;
use crate::sites::{SitesNews, SitesReport};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Instant, Now, Point, Quality, Topic, Value};
use tieline_fabric::{FabricError, Request, subject};
use tieline_net::Clock;
use tieline_relay::{EventAnswer, EventBatch, EventInbox, EventMessage, EventOutcome, OutboxLimits};
use tokio::sync::mpsc;

/// How soon something that waits for a time is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often a site says what it wants, and a centre.
const TELL_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// A centre takes no messages for so long after it was asked first: until then its sites say what they want. One that asked the process
/// before waits for the answer first.
const SETTLE: Duration = Duration::from_secs(5);
/// A centre that says nothing for so long is away.
const SILENCE: Duration = Duration::from_secs(10);
/// How often the state of links is published.
const SHOW_EVERY: Duration = Duration::from_secs(5);
/// Sites of which a site takes messages.
const SOURCES_MAX: usize = 10_000;

type Call = LocalBoxFuture<'static, (EventPeer, Sent, Result<Bytes, FabricError>)>;

/// Which end of the links a node is.
#[derive(Clone, Debug)]
pub enum Side {
    /// A site of this name, which keeps so many bytes for the centre.
    Site(String, usize),
    /// The centre, which keeps so many bytes for each site, for so long. A site that says nothing for the last time is away.
    Centre(usize, Duration, Duration),
}

impl Side {
    /// How long the other end may say nothing.
    const fn silence(&self) -> Duration {
        match self {
            Self::Site(..) => SILENCE,
            Self::Centre(.., silence) => *silence,
        }
    }
}

/// The links, and what came by them.
pub struct Exchange {
    side: Side,
    board: Arc<SitesBoard>,
    links: BTreeMap<EventPeer, EventLink>,
    inbox: EventInbox,
    /// When the first request came.
    began: Option<Instant>,
    shown_at: Instant,
}

impl Exchange {
    /// Works until the bus is gone.
    pub async fn run<I: From<SitesReport> + 'static>(
        side: Side,
        (clock, board, fabric): (Clock, Arc<SitesBoard>, SharedFabric),
        (mut inputs, mut requests): (mpsc::Receiver<EventInput>, mpsc::Receiver<Request>),
        reports: mpsc::Sender<I>,
    ) {
        let shown_at = clock.now().mono;
        let inbox = EventInbox::new(board.run(), SOURCES_MAX);
        let mut exchange = Self { side, board, links: BTreeMap::new(), inbox, began: None, shown_at };
        let mut calls: FuturesUnordered<Call> = FuturesUnordered::new();
        let mut tick = tokio::time::interval(TICK);
        loop {
            exchange.transmit(clock.now().mono, &fabric, &calls);
            let mut news = Vec::new();
            tokio::select! {
                input = inputs.recv() => {
                    let Some(input) = input else { return };
                    exchange.handle_input(clock.now().mono, input);
                }
                Some(request) = requests.recv() => {
                    let answer = exchange.handle_request(clock.now().mono, &request, &mut news);
                    if !news.is_empty() && reports.send(SitesReport(news).into()).await.is_err() {
                        return;
                    }
                    // The other end sends it again, and this one knows it then.
                    if let (Some(answer), false) = (answer, reports.is_closed()) {
                        let _ = request.answer(answer.emit().into()).await;
                    }
                }
                Some((peer, sent, answer)) = calls.next(), if !calls.is_empty() => {
                    if let Some(link) = exchange.links.get_mut(&peer) {
                        link.handle_answer(clock.now().mono, sent, answer);
                    }
                }
                _ = tick.tick() => {
                    exchange.tick(clock.now(), &mut news);
                    if !news.is_empty() && reports.send(SitesReport(news).into()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn link(&mut self, now: Instant, peer: &EventPeer) -> &mut EventLink {
        let Self { side, board, links, .. } = self;
        links.entry(peer.clone()).or_insert_with(|| {
            let [site, centre] = TELL_EVERY;
            let (limits, every) = match side {
                // Sites behind the centre know what came to them before it was started again.
                Side::Site(_, bytes_max) => (OutboxLimits { bytes_max: *bytes_max, sends_again: true }, site),
                Side::Centre(bytes_max, ..) => (OutboxLimits { bytes_max: *bytes_max, sends_again: false }, centre),
            };
            EventLink::new(now, board.run(), limits, every)
        })
    }

    fn handle_input(&mut self, now: Instant, input: EventInput) {
        match input {
            EventInput::Send(peer, events) => match peer {
                None => self.link(now, &None).push_own(events),
                peer => self.link(now, &peer).push(events),
            },
            EventInput::Want(peer, filters) => self.link(now, &peer).want(now, filters),
        }
    }

    fn transmit(&mut self, now: Instant, fabric: &SharedFabric, calls: &FuturesUnordered<Call>) {
        let Some(fabric) = fabric.borrow().clone() else { return };
        for (peer, link) in &mut self.links {
            while let Some((sent, body)) = link.poll_transmit(now) {
                let subject = match (&self.side, peer) {
                    (Side::Site(name, _), _) => subject::up(name, SUBJECT),
                    (Side::Centre(..), peer) => subject::call(peer.as_deref().unwrap_or_default(), SUBJECT),
                };
                let (fabric, peer) = (fabric.clone(), peer.clone());
                calls.push(Box::pin(async move {
                    let answer = match subject {
                        Ok(subject) => fabric.call(&subject, body.into(), ANSWER_WITHIN).await,
                        Err(error) => Err(error),
                    };
                    (peer, sent, answer)
                }));
            }
        }
    }

    /// Takes what the other end sends; the answer, where there is one.
    fn handle_request(&mut self, now: Instant, request: &Request, news: &mut Vec<SitesNews>) -> Option<EventAnswer> {
        let peer: EventPeer = match &self.side {
            Side::Site(..) => None,
            Side::Centre(..) => {
                let site = subject::site_of(&request.subject).filter(|site| is_site_name(site))?;
                // A site that is refused is one too many.
                Some(Arc::clone(self.board.centre()?.sites.get_key_value(site.as_str())?.0))
            }
        };
        let settled = *self.began.get_or_insert(now) + SETTLE;
        let run = self.board.run();
        let answer = |outcome| EventAnswer { outcome, run };
        match EventMessage::parse(&request.body) {
            Ok(EventMessage::Interest(interest)) => {
                if let Some((filters, is_again)) = self.link(now, &peer).handle_interest(now, interest) {
                    news.push(SitesNews::EventsWanted { by: peer, filters, is_again });
                }
                Some(answer(EventOutcome::Taken))
            }
            Ok(EventMessage::Batch(_)) if peer.is_some() && now < settled => Some(answer(EventOutcome::Later)),
            Ok(EventMessage::Batch(batch)) => Some(self.take_batch(now, peer, batch, news)),
            Err(error) => {
                tracing::warn!(%error, site = peer.as_deref(), "messages of other sites cannot be read");
                Some(answer(EventOutcome::Refused))
            }
        }
    }

    fn take_batch(
        &mut self,
        now: Instant,
        peer: EventPeer,
        batch: EventBatch,
        news: &mut Vec<SitesNews>,
    ) -> EventAnswer {
        let (run, before) = (batch.run, self.inbox.stats().repeated);
        let (answer, events) = self.inbox.handle_batch(peer.as_ref(), batch);
        let repeated = usize::try_from(self.inbox.stats().repeated - before).unwrap_or(usize::MAX);
        let silence = self.side.silence();
        let link = self.link(now, &peer);
        link.handle_heard(now, run);
        link.count(events.len(), repeated);
        // What comes is not in doubt.
        if link.poll_doubt(now, silence) {
            news.push(SitesNews::EventsDoubted(peer.clone()));
        }
        if !events.is_empty() {
            news.push(SitesNews::Events(events));
        }
        answer
    }

    fn tick(&mut self, now: Now, news: &mut Vec<SitesNews>) {
        if let Side::Centre(_, keep, _) = self.side {
            let seen = self.board.centre().unwrap_or_default();
            for (site, _) in seen.sites.iter().filter(|(_, row)| row.is_up) {
                self.link(now.mono, &Some(Arc::clone(site)));
            }
            for (peer, link) in &mut self.links {
                if link.asked() > 0 && now.mono.since(link.heard_at()) > keep {
                    tracing::warn!(site = peer.as_deref(), "the site was away for too long: its messages are given up");
                    link.give_up();
                    news.push(SitesNews::EventsWanted { by: peer.clone(), filters: Vec::new(), is_again: false });
                }
            }
            if now.mono.since(self.shown_at) >= SHOW_EVERY {
                self.shown_at = now.mono;
                self.publish(now, news);
            }
        }
        let silence = self.side.silence();
        for (peer, link) in &mut self.links {
            if link.poll_doubt(now.mono, silence) {
                news.push(SitesNews::EventsDoubted(peer.clone()));
            }
        }
        self.board.set_events(self.links.iter().map(|(peer, link)| (peer.clone(), link.seen())));
    }

    /// Publishes how the links of sites are, as far as they are used.
    fn publish(&self, now: Now, news: &mut Vec<SitesNews>) {
        for (peer, link) in self.links.iter().filter(|(_, link)| link.asked() + link.wanted() > 0) {
            let (site, seen) = (peer.as_deref().unwrap_or_default(), link.seen());
            let waiting = u64::try_from(seen.waiting).unwrap_or(u64::MAX);
            for (member, count) in [("events_waiting", waiting), ("events_lost", seen.lost)] {
                let value = Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
                let body = Body::Point(Point { value, quality: Quality::GOOD, time: now.utc });
                if let Ok(topic) = Topic::new(&format!("$SYS/sites/{site}/{member}")) {
                    news.push(SitesNews::System(topic, body));
                }
            }
        }
    }
}

//! A member: drives who leads, the writer of a term, and the reader of the log.
//!
//! ```text
//!            the folder is open       all is read that was there      elected, and all before the term is read
//!  Opening ─────────────────▶ Reading ──────────────────▶ Reading ──────────────▶ Closing ─▶ Led ─▶ Opening …
//!     ▲      servers, disk  ◀──┘   does not stand             stands                            (the node has stopped)
//! ```
//!
//! A member stands for election only while it reads the log and has once had all of it.

mod asking;
mod following;
mod members;

use super::board::{ClusterRole, LeaderSeen};
use super::commits::{Commit, Waiting};
use super::parts::{TERM, place};
use super::places::Places;
use super::replica::Replica;
use super::{ClusterEvent, ClusterOrder, ClusterParts};
use crate::sites::connect::connect;
use bytes::Bytes;
use following::{changed, read, taken, written};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use members::Told;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_fabric::{Fabric, FabricError, Leases, Log, Reader, Subscription};
use tieline_net::Shard;
use tieline_relay::{
    AppendError, Last, Lead, LeadEvent, LeadLimits, Lease, LeaseError, Writer, WriterEvent, WriterLimits,
};
use tokio::sync::{mpsc, oneshot, watch};

/// How soon what failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What was asked of the servers or of the disk.
enum Done {
    Lease(u64, Result<Option<Lease>, LeaseError>),
    LeaseWritten(u64, Result<u64, LeaseError>),
    Last(u64, u64, Result<Last, AppendError>),
    Appended(u64, u64, Result<u64, AppendError>),
    /// The folder is open, from where the log is to be read.
    Opened(Option<Places>),
    /// The log is read from a message on; with the first and the last that there were.
    Reading(Result<(Box<Reader>, u64, u64), FabricError>),
    /// The folder is closed, and how far it is.
    Closed(Result<Places, String>),
    /// It is time to try again.
    Again,
}

/// What the member does with its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    /// It is not open yet, or it is being closed because something failed.
    Opening,
    /// It is open.
    Open,
    /// It is being closed for a node.
    Closing,
    /// A node has it.
    Led,
}

struct Member {
    shard: Rc<Shard>,
    parts: ClusterParts,
    events: mpsc::UnboundedSender<ClusterEvent>,
    fabric: Fabric,
    log: Log,
    leases: Leases,
    beat: String,
    lead: Lead,
    asked: FuturesUnordered<LocalBoxFuture<'static, Done>>,
    follow: Follow,
    replica: Option<Replica>,
    /// The last message that is in the folder.
    applied: Option<watch::Receiver<u64>>,
    reader: Option<Box<Reader>>,
    /// The message that is to be read next.
    next: u64,
    /// The last message when the log was opened: the member stands once it has that.
    stands_from: Option<u64>,
    stands: bool,
    /// Whether the node stops.
    stops: bool,
    writer: Option<Writer>,
    /// The term that this member has begun, and the message that began it.
    begun: Option<(u64, u64)>,
    commits: Option<mpsc::UnboundedReceiver<Commit>>,
    /// Parts that the writer has not taken.
    backlog: VecDeque<(Bytes, Option<Waiting>)>,
    /// Records that the writer took, and that wait: which, and who waits.
    waiting: VecDeque<(u64, Waiting)>,
    /// Places of records that the log has, which wait until a file has an earlier one.
    placed: VecDeque<(u64, Waiting)>,
    /// Ends when that file has it.
    held: Option<oneshot::Receiver<()>>,
    /// Parts that the writer took, and those that are acknowledged.
    given: u64,
    acknowledged: u64,
    sent_at: Instant,
    told: Told,
}

/// Runs a member until it is told to leave.
pub(super) async fn run(
    shard: Rc<Shard>,
    parts: ClusterParts,
    events: mpsc::UnboundedSender<ClusterEvent>,
    mut orders: mpsc::UnboundedReceiver<ClusterOrder>,
) {
    let board = Arc::clone(&parts.board);
    let failed = |why: String| board.note(|seen| seen.trouble = format!("the servers are not reached: {why}"));
    let joined = async {
        // The name is the inbox's, too: answers of one member are not those of another, and no site can have a name with a slash.
        let name = format!("/{}-{}", parts.config.name, parts.node);
        let fabric = connect(&parts.fabric, &name, failed).await;
        let (log, leases) = asking::open_log(&fabric, &parts).await;
        (fabric, log, leases)
    };
    let (fabric, log, leases) = tokio::select! {
        joined = joined => joined,
        () = left(&mut orders) => return,
    };
    let beat = format!("tl.cluster.{}.leader", parts.config.name);
    let now = shard.now();
    // A name of this run alone: what an earlier run wrote into the lease is not this one's.
    let name = format!("{} {}", parts.node, now.utc.micros());
    let lead = Lead::new(now.mono, &name, limits(&parts), now.utc.micros().cast_unsigned());
    let mut member = Member {
        shard,
        parts,
        events,
        fabric,
        log,
        leases,
        beat,
        lead,
        asked: FuturesUnordered::new(),
        follow: Follow::Opening,
        replica: None,
        applied: None,
        reader: None,
        next: 1,
        stands_from: None,
        stands: false,
        stops: false,
        writer: None,
        begun: None,
        commits: None,
        backlog: VecDeque::new(),
        waiting: VecDeque::new(),
        placed: VecDeque::new(),
        held: None,
        given: 0,
        acknowledged: 0,
        sent_at: Instant::now(),
        told: Told::default(),
    };
    member.open();
    member.serve(&mut orders).await;
}

/// Waits for the order to leave.
async fn left(orders: &mut mpsc::UnboundedReceiver<ClusterOrder>) {
    while orders.recv().await.is_some_and(|order| order != ClusterOrder::Leave) {}
}

fn limits(parts: &ClusterParts) -> LeadLimits {
    let silence = parts.config.silence;
    LeadLimits { heartbeat: silence / 4, silence, ..LeadLimits::default() }
}

impl Member {
    async fn serve(&mut self, orders: &mut mpsc::UnboundedReceiver<ClusterOrder>) {
        let beats = self.beat.clone();
        let (mut beats, mut members) = (self.hear(&beats).await, self.hear(&self.members_subject()).await);
        loop {
            self.drain().await;
            self.show();
            self.tell().await;
            let pause = self.pause();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(ClusterOrder::Fail) => self.fail(),
                    Some(ClusterOrder::Stop) => self.stop(),
                    Some(ClusterOrder::Follow) => {
                        self.follow = Follow::Opening;
                        self.open();
                    }
                    Some(ClusterOrder::Leave) | None => return self.leave().await,
                },
                Some(done) = self.asked.next(), if !self.asked.is_empty() => self.handle_done(done),
                message = beats.next() => match message {
                    Some(message) => self.handle_beat(&message),
                    // The client makes its connection again by itself; a subscription that ends is the end of the client.
                    None => return tracing::error!("heartbeats are heard no longer: the member ends"),
                },
                Some(message) = members.next() => self.handle_member(&message),
                Some(commit) = taken(&mut self.commits) => self.handle_commit(commit),
                () = written(&mut self.held), if self.held.is_some() => self.place(),
                entry = read(&mut self.reader, self.replica.as_ref()), if self.reader.is_some() => self.handle_entry(entry),
                () = changed(self.applied.as_mut()) => {}
                () = tokio::time::sleep(pause) => {}
            }
            let now = self.shard.now().mono;
            if self.stands || self.is_elected() {
                self.lead.handle_timeout(now);
            }
            self.writer.iter_mut().for_each(|writer| writer.handle_timeout(now));
        }
    }

    /// Subscribes; tried until it is done.
    async fn hear(&self, subject: &str) -> Subscription {
        loop {
            match self.fabric.subscribe(subject).await {
                Ok(subscription) => return subscription,
                Err(error) => tracing::warn!(%error, "other members cannot be heard; it is tried again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn pause(&self) -> Duration {
        let stands = self.stands || self.is_elected();
        let timeouts = [self.lead.timeout().filter(|_| stands), self.writer.as_ref().and_then(Writer::timeout)];
        let now = self.shard.now().mono;
        timeouts.into_iter().flatten().map(|at| at.since(now)).min().unwrap_or(RETRY).min(RETRY)
    }

    /// Whether a term of its own is claimed or led.
    const fn is_elected(&self) -> bool {
        self.writer.is_some()
    }

    fn applied(&self) -> u64 {
        self.applied.as_ref().map_or(0, |applied| *applied.borrow())
    }

    async fn drain(&mut self) {
        loop {
            let now = self.shard.now().mono;
            self.give();
            if let Some(event) = self.writer.as_mut().and_then(Writer::poll_event) {
                self.handle_written(event);
            } else if let Some(event) = self.lead.poll_event() {
                self.handle_lead(event);
            } else if let Some(action) = self.lead.poll_action() {
                self.act(action).await;
            } else if let Some(action) = self.writer.as_mut().and_then(|writer| writer.poll_action(now)) {
                self.append(action);
            } else {
                break;
            }
        }
        self.stand();
        self.take_over();
    }

    /// Gives the writer what it takes.
    fn give(&mut self) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.begun.is_some()) else { return };
        while let Some((part, done)) = self.backlog.pop_front() {
            if writer.handle_record(part.clone()).is_err() {
                return self.backlog.push_front((part, done));
            }
            self.given += 1;
            let number = self.given;
            self.waiting.extend(done.map(|done| (number, done)));
        }
    }

    fn handle_commit(&mut self, Commit { parts, waiting }: Commit) {
        let mut done = Some(waiting);
        let count = parts.len();
        let last = |index: usize| index + 1 == count;
        let parts = parts.into_iter().enumerate();
        self.backlog.extend(parts.map(|(index, part)| (part, done.take_if(|_| last(index)))));
    }

    fn handle_written(&mut self, event: WriterEvent) {
        let (now, Some(writer)) = (self.shard.now().mono, &self.writer) else { return };
        let (term, waiting_bytes) = (writer.term(), writer.pending_bytes());
        match event {
            WriterEvent::Begun { sequence } => {
                self.begun = Some((term, sequence));
                self.lead.handle_begun(now, term);
                tracing::info!(term, sequence, "the term has begun in the log");
            }
            WriterEvent::Acknowledged { count, sequence } => {
                self.lead.handle_acknowledged(now);
                while self.waiting.front().is_some_and(|(number, _)| *number <= count) {
                    let Some((number, waiting)) = self.waiting.pop_front() else { break };
                    self.placed.push_back((place(sequence, number - self.acknowledged - 1), waiting));
                }
                self.acknowledged = count;
                self.place();
                let took = self.sent_at.elapsed();
                self.parts.board.note(|seen| {
                    (seen.applied, seen.last, seen.append_time) = (sequence, sequence, took);
                    (seen.appends, seen.waiting_bytes) = (seen.appends + 1, waiting_bytes);
                });
            }
            WriterEvent::Fenced { term } => self.lead.handle_fenced(now, term),
            WriterEvent::WentBack => {
                tracing::error!("the log has less than it acknowledged: it was restored, or is another one");
                self.lead.handle_resignation(now);
            }
        }
    }

    fn handle_lead(&mut self, event: LeadEvent) {
        match event {
            LeadEvent::Claim { term } => {
                let limits = WriterLimits::default();
                self.writer = Some(Writer::new(term, TERM, limits));
                (self.begun, self.given, self.acknowledged) = (None, 0, 0);
                self.fail();
                self.parts.board.note(|seen| (seen.term, seen.elections) = (term, seen.elections + 1));
                tracing::info!(term, "this node has the lease: it begins the term");
            }
            LeadEvent::Lead { term } => {
                tracing::info!(term, "this node leads: it reads the log to its end, and starts")
            }
            LeadEvent::StepDown { term, reason } => {
                tracing::warn!(term, ?reason, "this node leads no longer");
                (self.writer, self.begun) = (None, None);
                self.parts.board.note(|seen| seen.depositions += 1);
                self.stands = false;
                if self.follow == Follow::Led && !self.stops {
                    // What waits is told once no client can be told anything any more.
                    let _ = self.events.send(ClusterEvent::Deposed);
                } else {
                    self.fail();
                }
            }
        }
    }

    /// Tells the places of records, up to one that a file must have before the next is told.
    fn place(&mut self) {
        while self.held.is_none()
            && let Some((place, waiting)) = self.placed.pop_front()
        {
            // Who has gone needs none.
            let _ = waiting.done.send(place);
            self.held = waiting.held;
        }
    }

    /// The node stops: nobody asks for [`ClusterOrder::Fail`] any more.
    fn stop(&mut self) {
        self.stops = true;
        if !self.is_elected() {
            self.fail();
        }
    }

    /// Lets all go who wait for the log.
    fn fail(&mut self) {
        self.commits = None;
        self.backlog.clear();
        self.waiting.clear();
        self.placed.clear();
        self.held = None;
    }

    fn show(&self) {
        let (applied, follow, is_elected) = (self.applied(), self.follow, self.is_elected());
        self.parts.board.note(|seen| {
            seen.role = match follow {
                Follow::Led if is_elected && seen.serves => ClusterRole::Leader,
                Follow::Closing => ClusterRole::Starting,
                Follow::Open | Follow::Led if is_elected => ClusterRole::Starting,
                Follow::Open if self.stands => ClusterRole::Standby,
                Follow::Open if self.reader.is_some() => ClusterRole::CatchingUp,
                Follow::Open if seen.role == ClusterRole::Behind => ClusterRole::Behind,
                Follow::Open | Follow::Opening | Follow::Led => ClusterRole::Connecting,
            };
            if follow == Follow::Open {
                seen.applied = applied;
            }
            if is_elected && self.begun.is_some() {
                let reference = self.parts.config.reference.clone();
                seen.leader = Some(LeaderSeen { name: self.parts.node.clone(), reference, heard: Instant::now() });
            }
        });
    }
}

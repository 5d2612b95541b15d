//! What a member asks of the servers, and what it hears from them and from other members.

use super::super::ClusterParts;
use super::super::board::ClusterRole;
use super::super::board::LeaderSeen;
use super::{Done, Follow, Member, RETRY};
use futures_util::future::FutureExt as _;
use std::time::{Duration, Instant};
use tieline_fabric::{self as fabric, Fabric, FabricError, Leases, Log, LogOptions, Message};
use tieline_relay::{AppendError, Last, LeadAction, Lease, LeaseError, Writer, WriterAction};

/// The key of the lease.
const KEY: &str = "leader";
/// An append that is not answered in this time is one whose fate is not known.
const APPEND_TIMEOUT: Duration = Duration::from_secs(1);
/// The first word of a heartbeat, and of what a leader says when it leaves.
const BEAT: &str = "beat";
pub(super) const BYE: &str = "bye";

/// Opens the log and the bucket of the lease, or makes them; tried until it is done.
pub(super) async fn open_log(fabric: &Fabric, parts: &ClusterParts) -> (Log, Leases) {
    let name = &parts.config.name;
    let replicas = match parts.fabric.servers.len() {
        0..=2 => 1,
        3 | 4 => 3,
        _ => 5,
    };
    let options = LogOptions {
        name: format!("TIELINE_{name}"),
        subject: format!("tl.cluster.{name}.log"),
        replicas,
        bytes_max: Some(parts.config.stream_bytes_max),
    };
    let mut known = String::new();
    loop {
        let opened = async {
            let log = fabric.log(options.clone()).await?;
            Ok::<_, FabricError>((log, fabric.leases(&format!("TIELINE_{name}"), replicas).await?))
        };
        match opened.await {
            Ok(opened) => return opened,
            Err(error) => {
                let why = error.to_string();
                parts.board.note(|seen| seen.trouble = format!("the log cannot be opened: {why}"));
                if why != known {
                    tracing::warn!(why, replicas, "the log of the core cannot be opened; it is tried again");
                    known = why;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl Member {
    pub(super) async fn act(&mut self, action: LeadAction) {
        let (leases, name) = (self.leases.clone(), self.lead.name().to_owned());
        match action {
            LeadAction::Heartbeat { term } => self.say(BEAT, term).await,
            LeadAction::ReadLease { request } => self.asked.push(
                async move {
                    let lease = leases.read(KEY).await;
                    let holder = |lease: &fabric::Lease| String::from_utf8_lossy(&lease.value).as_ref().into();
                    let lease = lease.map(|lease| lease.map(|l| Lease { revision: l.revision, holder: holder(&l) }));
                    Done::Lease(request, lease.map_err(|_| LeaseError::Unknown))
                }
                .boxed_local(),
            ),
            LeadAction::WriteLease { request, expected } => self.asked.push(
                async move {
                    let written = leases.write(KEY, name.into(), expected).await;
                    let written = written.map_err(|error| match error {
                        fabric::LeaseError::Changed => LeaseError::Changed,
                        fabric::LeaseError::Unknown(_) | fabric::LeaseError::Misused(_) => LeaseError::Unknown,
                    });
                    Done::LeaseWritten(request, written)
                }
                .boxed_local(),
            ),
        }
    }

    /// Tells all others something of its term.
    pub(super) async fn say(&mut self, what: &str, term: u64) {
        let last = self.parts.board.look().last;
        let reference = self.parts.config.reference.as_deref().unwrap_or_default();
        let text = format!("{what}\n{term}\n{last}\n{reference}\n{}\n{}", self.parts.node, self.lead.name());
        // One that is lost is followed by another.
        let _ = self.fabric.publish(&self.beat, text.into()).await;
    }

    pub(super) fn append(&mut self, action: WriterAction) {
        let (log, own) = (self.log.clone(), self.writer.as_ref().map_or(0, Writer::term));
        self.asked.push(match action {
            WriterAction::AskLast { request } => async move {
                let last = log.last().await.map(|last| Last { sequence: last.sequence, term: last.term });
                Done::Last(own, request, last.map_err(|_| AppendError::Unknown))
            }
            .boxed_local(),
            WriterAction::Append { request, expected, term, body } => {
                self.sent_at = Instant::now();
                async move {
                    let appended = log.append_if(expected, term, body, APPEND_TIMEOUT).await;
                    let appended = appended.map_err(|error| match error {
                        fabric::AppendError::WrongLast => AppendError::WrongLast,
                        fabric::AppendError::Unknown(_) => AppendError::Unknown,
                        fabric::AppendError::Refused(why) => {
                            tracing::error!(why, "the log refuses a message");
                            AppendError::Unknown
                        }
                    });
                    Done::Appended(own, request, appended)
                }
                .boxed_local()
            }
        });
    }

    pub(super) fn handle_beat(&mut self, message: &Message) {
        let Ok(text) = std::str::from_utf8(&message.body) else { return };
        let mut lines = text.split('\n');
        let mut line = || lines.next().unwrap_or_default();
        let (what, term, last, reference, node, name) = (line(), line(), line(), line(), line(), line());
        let (Ok(term), Ok(last)) = (term.parse::<u64>(), last.parse::<u64>()) else { return };
        if name == self.lead.name() {
            return;
        }
        let now = self.shard.now().mono;
        let leader = LeaderSeen {
            name: node.to_owned(),
            reference: Some(reference.to_owned()).filter(|reference| !reference.is_empty()),
            heard: Instant::now(),
        };
        self.parts.board.note(|seen| {
            if term >= seen.term {
                (seen.term, seen.last) = (term, seen.last.max(last));
                seen.leader = Some(leader).filter(|_| what == BEAT);
            }
        });
        match what {
            BEAT => self.lead.handle_heartbeat(now, term),
            BYE if self.stands => self.lead.handle_leader_left(now, term),
            _ => {}
        }
    }

    pub(super) fn handle_done(&mut self, done: Done) {
        let now = self.shard.now().mono;
        match done {
            Done::Lease(request, lease) => self.lead.handle_lease(now, request, lease),
            Done::LeaseWritten(request, written) => self.lead.handle_lease_written(now, request, written),
            Done::Last(term, request, last) => {
                let own = self.writer.as_mut().filter(|writer| writer.term() == term);
                own.into_iter().for_each(|own| own.handle_last(now, request, last));
            }
            Done::Appended(term, request, appended) => {
                let own = self.writer.as_mut().filter(|writer| writer.term() == term);
                own.into_iter().for_each(|own| own.handle_appended(now, request, appended));
            }
            Done::Opened(Some(places)) => {
                self.next = places.sequence().max(1);
                self.follow = Follow::Open;
                self.read_log();
            }
            // Its end says why.
            Done::Opened(None) => {}
            Done::Reading(Ok((reader, first, last))) => self.handle_reader(reader, first, last),
            Done::Reading(Err(error)) => {
                self.trouble(ClusterRole::Connecting, format!("the log cannot be read: {error}"));
                self.again();
            }
            Done::Closed(closed) => self.handle_closed(closed),
            Done::Again if self.follow == Follow::Opening => self.open(),
            Done::Again if self.follow == Follow::Open && self.reader.is_none() => self.read_log(),
            Done::Again => {}
        }
    }
}

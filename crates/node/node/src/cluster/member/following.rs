//! The folder of a member that does not lead, and the log that is read into it.

use super::super::ClusterEvent;
use super::super::board::ClusterRole;
use super::super::commits::{Commit, Commits};
use super::super::places::Places;
use super::super::replica::Replica;
use super::asking::BYE;
use super::{Done, Follow, Lead, Member, RETRY, limits};
use futures_util::future::FutureExt as _;
use futures_util::stream::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tieline_fabric::{Entry, FabricError, Reader};
use tieline_history::Replication;
use tieline_relay::Writer;
use tokio::sync::{mpsc, oneshot, watch};

/// How long it may take to say that this node leaves.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

impl Member {
    /// Opens the folder as that of a standby.
    pub(super) fn open(&mut self) {
        (self.stands, self.reader, self.replica, self.stands_from) = (false, None, None, None);
        match Replica::start(self.parts.clone(), self.shard.clock()) {
            Ok((replica, replicating)) => {
                self.replica = Some(replica);
                let (opened, ended) = (replicating.opened, replicating.ended);
                self.applied = Some(replicating.applied);
                self.asked.push(opened.map(|opened| Done::Opened(opened.ok())).boxed_local());
                let gone = || Err("the thread of the folder panicked".to_owned());
                self.asked.push(ended.map(move |ended| Done::Closed(ended.unwrap_or_else(|_| gone()))).boxed_local());
            }
            Err(error) => {
                self.trouble(ClusterRole::Connecting, format!("the system gives no thread: {error}"));
                self.again();
            }
        }
    }

    pub(super) fn again(&mut self) {
        self.asked.push(tokio::time::sleep(RETRY).map(|()| Done::Again).boxed_local());
    }

    pub(super) fn trouble(&self, role: ClusterRole, why: String) {
        self.parts.board.note(|seen| {
            if seen.trouble != why {
                tracing::warn!(why, "this member does not stand for election");
            }
            (seen.role, seen.trouble) = (role, why);
        });
    }

    /// Reads the log from the next message on.
    pub(super) fn read_log(&mut self) {
        let (log, next) = (self.log.clone(), self.next);
        self.asked.push(
            async move {
                let read = async {
                    let (first, last) = log.range().await?;
                    Ok((Box::new(log.read_from(next).await?), first, last))
                };
                Done::Reading(read.await)
            }
            .boxed_local(),
        );
    }

    pub(super) fn handle_reader(&mut self, reader: Box<Reader>, first: u64, last: u64) {
        if self.follow != Follow::Open {
            return;
        }
        let applied = self.applied();
        let why = if self.next < first {
            format!(
                "the log begins with message {first}, and this node has it up to {applied}: take a backup of the leader \
                 (tieline backup), restore it here (tieline restore), and start this node again"
            )
        } else if last < applied {
            format!(
                "the log ends with message {last}, and this node has message {applied}: the servers have lost it, or these \
                 are other servers; start the node with the newest data alone without [cluster], or restore its backup here"
            )
        } else {
            self.reader = Some(reader);
            self.stands_from.get_or_insert(last);
            self.parts.board.note(|seen| (seen.last, seen.trouble) = (seen.last.max(last), String::new()));
            return;
        };
        self.stands = false;
        self.trouble(ClusterRole::Behind, why);
        self.again();
    }

    pub(super) fn handle_entry(&mut self, entry: Result<u64, FabricError>) {
        match entry {
            Ok(sequence) => self.next = sequence + 1,
            Err(error) => {
                tracing::info!(%error, "the log is read again");
                self.reader = None;
                if self.follow == Follow::Open {
                    self.again();
                }
            }
        }
    }

    pub(super) fn handle_closed(&mut self, closed: Result<Places, String>) {
        (self.replica, self.reader) = (None, None);
        match (closed, self.follow) {
            (Ok(places), Follow::Closing) if self.begun.is_some() => {
                let (sender, commits) = mpsc::unbounded_channel();
                (self.commits, self.follow) = (Some(commits), Follow::Led);
                let (log, place) = (Some(Arc::new(Commits(sender)) as _), places.history.unwrap_or_default());
                let _ = self.events.send(ClusterEvent::Elected(Replication { log, place }));
            }
            (Ok(_), _) => {
                self.follow = Follow::Opening;
                self.open();
            }
            (Err(why), _) => {
                self.follow = Follow::Opening;
                self.trouble(ClusterRole::Connecting, format!("the data folder cannot be written: {why}"));
                if self.is_elected() {
                    self.lead.handle_resignation(self.shard.now().mono);
                }
                self.stands = false;
                self.again();
            }
        }
    }

    /// Stands for election once it has what the log had when it was opened.
    pub(super) fn stand(&mut self) {
        let is_there = self.stands_from.is_some_and(|from| self.applied() >= from);
        if self.stands || self.follow != Follow::Open || !is_there || self.reader.is_none() {
            return;
        }
        self.stands = true;
        let now = self.shard.now().mono;
        if !self.is_elected() {
            let name = self.lead.name().to_owned();
            let seed = self.shard.now().utc.micros().cast_unsigned();
            self.lead = Lead::new(now, &name, limits(&self.parts), seed);
        }
        tracing::info!(applied = self.applied(), "this member has the log, and stands for election");
    }

    /// Closes the folder once all is in it that was before its term.
    pub(super) fn take_over(&mut self) {
        let Some((term, sequence)) = self.begun else { return };
        if self.follow == Follow::Open && self.applied() >= sequence {
            tracing::info!(term, sequence, "all before the term is read");
            self.follow = Follow::Closing;
            (self.reader, self.replica) = (None, None);
        }
    }

    /// Says that it goes, so that nobody waits for its silence.
    pub(super) async fn leave(&mut self) {
        let now = self.shard.now().mono;
        let term = self.writer.as_ref().map(Writer::term);
        self.lead.handle_resignation(now);
        if let Some(term) = term {
            self.say(BYE, term).await;
            let _ = tokio::time::timeout(LEAVE_WITHIN, self.fabric.flush()).await;
        }
        self.fail();
        // The folder is closed before the process ends.
        self.replica = None;
        if self.follow != Follow::Led {
            let closed = async {
                while let Some(done) = self.asked.next().await {
                    if matches!(done, Done::Closed(_)) {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(RETRY, closed).await;
        }
    }
}

/// The next record of a leader.
pub(super) async fn taken(commits: &mut Option<mpsc::UnboundedReceiver<Commit>>) -> Option<Commit> {
    match commits {
        Some(commits) => commits.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits until a file has what its record says, and none is waited for any more.
pub(super) async fn written(held: &mut Option<oneshot::Receiver<()>>) {
    if let Some(until) = held.as_mut() {
        // Nothing is sent: it is dropped.
        let _ = until.await;
    }
    *held = None;
}

/// Reads the next message and gives it to the folder, once that has room; its sequence.
pub(super) async fn read(reader: &mut Option<Box<Reader>>, replica: Option<&Replica>) -> Result<u64, FabricError> {
    let (Some(reader), Some(replica)) = (reader, replica) else { return std::future::pending().await };
    let Ok(room) = replica.entries.reserve().await else { return std::future::pending().await };
    let entry: Entry = reader.next().await?;
    let sequence = entry.sequence;
    room.send(entry);
    Ok(sequence)
}

/// Waits until the folder has more.
pub(super) async fn changed(applied: Option<&mut watch::Receiver<u64>>) {
    if let Some(applied) = applied
        && applied.changed().await.is_ok()
    {
        return;
    }
    // Its end is told in another way.
    std::future::pending().await
}

//! The way of a leader's records to the log: who has one waits until the log has it.

use super::parts::split;
use bytes::Bytes;
use std::sync::mpsc::{SyncSender, sync_channel};
use tieline_history::{ReplicaKind, Replicate};
use tokio::sync::mpsc;

/// A record on its way.
#[derive(Debug)]
pub struct Commit {
    /// Its parts.
    pub parts: Vec<Bytes>,
    /// Takes its place; dropped where it gets none.
    pub done: SyncSender<u64>,
}

/// Takes records of a leader. The ledger and the journal have one each under way, so that what waits is bounded.
#[derive(Debug)]
pub struct Commits(pub mpsc::UnboundedSender<Commit>);

impl Replicate for Commits {
    fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
        let (done, placed) = sync_channel(1);
        let over = || "this node does not lead any longer".to_owned();
        self.0.send(Commit { parts: split(kind, record), done }).map_err(|_| over())?;
        placed.recv().map_err(|_| over())
    }
}

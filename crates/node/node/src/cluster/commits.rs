//! The way of a leader's records to the log: who has one waits until the log has it.

use super::parts::split;
use bytes::Bytes;
use std::sync::mpsc::{SyncSender, sync_channel};
use tieline_history::{ReplicaFile, ReplicaKind, Replicate, Withheld};
use tokio::sync::{mpsc, oneshot};

/// A record on its way.
#[derive(Debug)]
pub struct Commit {
    /// Its parts.
    pub parts: Vec<Bytes>,
    /// Who waits for it.
    pub waiting: Waiting,
}

/// Who waits for a place in the log.
#[derive(Debug)]
pub struct Waiting {
    /// Takes the place; dropped where there is none.
    pub done: SyncSender<u64>,
    /// Ends when later records may have their places; none where they may at once.
    pub held: Option<oneshot::Receiver<()>>,
}

/// Takes records of a leader. The ledger and the journal have one each under way, so that what waits is bounded.
#[derive(Debug)]
pub struct Commits(pub mpsc::UnboundedSender<Commit>);

impl Replicate for Commits {
    fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
        self.commit(kind, record, None)
    }

    fn replicate_file(&self, file: ReplicaFile, replaces: bool, record: &[u8]) -> Result<Withheld, String> {
        let (until, held) = oneshot::channel::<()>();
        self.commit(ReplicaKind::File { file, replaces }, record, Some(held))?;
        Ok(Withheld::until(until))
    }

    fn leads(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Commits {
    fn commit(&self, kind: ReplicaKind, record: &[u8], held: Option<oneshot::Receiver<()>>) -> Result<u64, String> {
        let (done, placed) = sync_channel(1);
        let over = || "this node does not lead any longer".to_owned();
        self.0.send(Commit { parts: split(kind, record), waiting: Waiting { done, held } }).map_err(|_| over())?;
        placed.recv().map_err(|_| over())
    }
}

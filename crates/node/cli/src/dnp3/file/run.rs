//! One job of a master with a file.

use super::args::PeerArgs;
use super::local::{Source, Target};
use super::progress::Progress;
use crate::signals;
use anyhow::{Context, Error, Result, anyhow, bail};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::Classes;
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::master::{
    FileEvent, FileFailure, FileJob, FileTransfer, FileTransferConfig, Master, MasterConfig, MasterEvent, TimeSync,
};
use tieline_dnp3::outstation::FileEntry;
use tieline_net::{
    Clock, Closed, Counters, Limits, Owner, Session, Shard, ShardThread, Target as Peer, keep_connected,
};
use tieline_transport::{CertificateCache, Route};
use tokio::sync::oneshot;

/// The name of the job's requests.
const TOKEN: u64 = 1;
/// Bytes around the data of a block in a request.
const AROUND: u16 = 18;

/// What is to be done, and with what on this side.
pub enum Task {
    /// Ask, and tell.
    Tell { job: FileJob },
    /// Store what is read.
    Get { job: FileJob, target: Target, progress: Progress },
    /// Send what is stored.
    Put { job: FileJob, source: Source, progress: Progress },
}

/// How it ended, where the outstation was reached.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was told of files.
    pub entries: Vec<FileEntry>,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// Why it failed.
    pub failure: Option<FileFailure>,
}

/// Connects, does it, and disconnects. A signal ends it; what was read stays.
pub fn ask(peer: &PeerArgs, task: Task) -> Result<Outcome> {
    let transport = peer.transport.transport(&peer.address, false)?;
    let carrier = transport.carrier().filter(|_| peer.lean);
    let config = MasterConfig {
        response_timeout: peer.timeout,
        lean: carrier.map(|carrier| LeanConfig { side: transport.side(), carrier }),
        address: peer.master,
        outstation: peer.outstation,
        request_bytes_max: peer.block + AROUND,
        disable_unsolicited: Classes::NONE,
        integrity: Classes::NONE,
        enable_unsolicited: Classes::NONE,
        time_sync: TimeSync::Never,
        clear_restart: false,
        ..MasterConfig::default()
    };
    let credentials = match (&peer.user, &peer.password_file) {
        (Some(user), Some(file)) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some((user.clone(), text.lines().next().unwrap_or_default().to_owned()))
        }
        (_, _) => None,
    };
    let transfer = FileTransferConfig { block_bytes: peer.block, credentials, ..FileTransferConfig::default() };
    let (job, task) = match task {
        Task::Tell { job } => (job, Local::Nothing),
        Task::Get { job, target, progress } => (job, Local::Target(target, progress)),
        Task::Put { job, source, progress } => (job, Local::Source(source, progress)),
    };
    let transfer = FileTransfer::new(transfer, job, TOKEN);
    let Route::Connect(to) = transport.route(&CertificateCache::default(), 1)? else {
        bail!("files are asked for by who connects")
    };
    let (end, ended) = oneshot::channel();
    let worker = Worker { transfer, local: Some(task), size: 0, outcome: Outcome::default(), end: Some(end) };
    let thread = ShardThread::spawn("files", Clock::start(), Arc::new(Counters::default()), move |shard| {
        run(shard, to, config, worker)
    })?;
    let outcome = signals::until_done(ended)?;
    drop(thread);
    match outcome {
        Some(outcome) => outcome
            .map_err(|_| anyhow!("the master ended"))?
            .with_context(|| format!("outstation {} at {}", peer.outstation, peer.address)),
        None => Ok(Outcome { failure: Some(FileFailure::Aborted), ..Outcome::default() }),
    }
}

/// What the job works with on this side.
enum Local {
    Nothing,
    Target(Target, Progress),
    Source(Source, Progress),
}

struct Worker {
    transfer: FileTransfer,
    local: Option<Local>,
    size: u64,
    outcome: Outcome,
    end: Option<oneshot::Sender<Result<Outcome>>>,
}

async fn run(shard: Rc<Shard>, to: Peer, config: MasterConfig, mut worker: Worker) {
    let mut master = Master::new(config);
    let seed = shard.now().utc.micros().unsigned_abs();
    master.vary(RandomState::new().build_hasher().finish());
    let session = Session::new(&shard, master, Limits::default());
    keep_connected(&session, &to, seed, &mut worker).await;
}

impl Worker {
    fn end(&mut self, session: &Session<Master>, outcome: Result<Outcome>) {
        // What is there of a file stays, for another time.
        match self.local.take() {
            Some(Local::Target(target, progress)) => {
                progress.end();
                target.leave();
            }
            Some(Local::Source(_, progress)) => progress.end(),
            Some(Local::Nothing) | None => {}
        }
        if let Some(end) = self.end.take() {
            let _ = end.send(outcome);
        }
        session.close();
    }

    /// Acts on what the job says, until it waits for the outstation.
    fn work(&mut self, session: &Session<Master>) {
        loop {
            while let Some(event) = self.transfer.poll_event() {
                if let Err(error) = self.hear(session, event) {
                    return self.end(session, Err(error));
                }
            }
            let transfer = &mut self.transfer;
            session.with(|master, now| transfer.drive(now, master));
            let Some(event) = self.transfer.poll_event() else { return };
            if let Err(error) = self.hear(session, event) {
                return self.end(session, Err(error));
            }
        }
    }

    fn hear(&mut self, session: &Session<Master>, event: FileEvent) -> Result<()> {
        match event {
            FileEvent::Opened { size, .. } => self.size = size.into(),
            FileEvent::Entry(entry) | FileEvent::Described(entry) => self.outcome.entries.push(entry),
            FileEvent::Block { offset, bytes, .. } => {
                if let Some(Local::Target(target, progress)) = &mut self.local {
                    target.store(offset, &bytes)?;
                    self.outcome.bytes = offset + u64::try_from(bytes.len())?;
                    progress.show(self.outcome.bytes, self.size);
                }
            }
            FileEvent::Wanted { offset, bytes_max } => {
                if let Some(Local::Source(source, progress)) = &mut self.local {
                    let (block, last) = source.block(offset, bytes_max)?;
                    self.outcome.bytes = offset + u64::try_from(block.len())?;
                    progress.show(self.outcome.bytes, source.size.into());
                    self.transfer.write_block(&block, last);
                }
            }
            FileEvent::Done(how) => {
                self.outcome.failure = how.err();
                if how.is_ok()
                    && let Some(Local::Target(..)) = self.local
                    && let Some(Local::Target(target, progress)) = self.local.take()
                {
                    progress.end();
                    target.finish()?;
                }
                let outcome = std::mem::take(&mut self.outcome);
                self.end(session, Ok(outcome));
            }
        }
        Ok(())
    }
}

impl Owner<Master> for Worker {
    fn event(&mut self, session: &Session<Master>, now: Now, event: MasterEvent) {
        match event {
            MasterEvent::Ready => self.work(session),
            event => {
                self.transfer.handle_event(now, &event);
                self.work(session);
            }
        }
    }

    fn closed(&mut self, session: &Session<Master>, _now: Now, why: Closed) {
        self.work(session);
        if self.end.is_some() {
            self.end(session, Err(anyhow!("{why}")));
        }
    }

    fn connect_failed(&mut self, session: &Session<Master>, _now: Now, error: &io::Error, _retry: Duration) {
        self.end(session, Err(Error::msg(error.to_string())));
    }
}

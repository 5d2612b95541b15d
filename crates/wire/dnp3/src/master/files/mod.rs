//! File transfer of a master (IEEE 1815 functions 25 to 30, group 70): one job at a time, beside the machine.
//!
//! ```text
//! [authenticate] ── open ── read 0, 1, … ── close ── Done        list: the blocks of a directory, as entries
//!                     └──── Wanted · write ──┘                   info, delete: one request
//! ```
//!
//! A [`FileTransfer`] makes requests for its [`Master`], which sends them when it has nothing more urgent to do, and
//! learns the answers from the master's events:
//!
//! ```text
//! loop { transfer.handle_event(now, &event); while let Some(e) = transfer.poll_event() { … } transfer.drive(now,
//! &mut master); }
//! ```
//!
//! One block is in memory at a time: the next one is asked for by [`FileTransfer::drive`], once the events were taken, so
//! an owner that stores slowly is waited for. A request without an answer is sent again; the outstation does nothing twice.

mod event;
mod step;
#[cfg(test)]
mod tests;

pub use event::{FileEvent, FileFailure};

use super::{Answer, Master, MasterEvent, SubmitError, TaskOutcome};
use crate::DnpTime;
use crate::app::{FileStatus, Headers, Permissions};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use step::{Found, Step};
use tieline_core::{Instant, Now};

/// What is to be done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileJob {
    /// Read a file.
    Read {
        /// Which, with its path.
        name: String,
        /// Bytes that are there already: reading begins at the block that holds this offset, and
        /// [`FileEvent::Block`] tells where that is. An outstation that reads only from the beginning is read so.
        offset: u32,
    },
    /// Write a file.
    Write {
        /// Which, with its path.
        name: String,
        /// To its end; what it holds stays.
        append: bool,
        /// Bytes that will be written, where that is known: the outstation can see that all came.
        size: Option<u32>,
        /// When it was made.
        created: DnpTime,
        /// Who may do what with it.
        permissions: Permissions,
    },
    /// Read a directory.
    List {
        /// Which.
        name: String,
    },
    /// Ask about a file or a directory.
    Info {
        /// Which.
        name: String,
    },
    /// Delete a file.
    Delete {
        /// Which.
        name: String,
    },
}

/// How files are transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTransferConfig {
    /// Bytes of data in one block at most; the outstation may want fewer. Blocks that are written must fit
    /// [`MasterConfig::request_bytes_max`](super::MasterConfig::request_bytes_max) with 16 more. Default 1024.
    pub block_bytes: u16,
    /// A user and a password, which travel in the clear; none does not authenticate. Default none.
    pub credentials: Option<(String, String)>,
    /// How often a request is sent again after the master's own repetitions went unanswered. Default 2.
    pub retries: u8,
    /// How long an outstation may take that acknowledges a request and answers later, with its events. Default 30 s.
    pub answer_timeout: Duration,
    /// Entries of a directory; more are a failure. Default 10,000.
    pub entries_max: u32,
}

impl Default for FileTransferConfig {
    fn default() -> Self {
        Self {
            block_bytes: 1024,
            credentials: None,
            retries: 2,
            answer_timeout: Duration::from_secs(30),
            entries_max: 10_000,
        }
    }
}

/// A job with one file of an outstation.
#[derive(Debug)]
pub struct FileTransfer {
    config: FileTransferConfig,
    job: FileJob,
    token: u64,
    step: Step,
    sent: Sent,
    tries_left: u8,
    /// Comes back in answers; each request of a command has its own.
    request_id: u16,
    key: u32,
    handle: u32,
    block_bytes: u16,
    /// The block that is asked for or sent, and where it begins.
    block: u32,
    offset: u64,
    /// What the owner gave to be written.
    data: Option<(Box<[u8]>, bool)>,
    /// Whether the owner was asked for it.
    wanted: bool,
    /// Bytes of a directory that do not make a whole descriptor yet.
    rest: Vec<u8>,
    entries: u32,
    /// What the job ends with once the file is closed.
    failure: Option<FileFailure>,
    events: VecDeque<FileEvent>,
}

/// Where the request of the step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    No,
    /// With the master.
    Yes,
    /// Answered by itself.
    Answered,
    /// Acknowledged; the answer comes with events, until then.
    Later(Instant),
}

impl FileTransfer {
    /// A job whose requests bear `token`, which no other task of its master may.
    #[must_use]
    pub fn new(config: FileTransferConfig, job: FileJob, token: u64) -> Self {
        let step = if config.credentials.is_some() { Step::Authenticate } else { Step::first(&job) };
        let offset = if let FileJob::Read { offset, .. } = &job { u64::from(*offset) } else { 0 };
        Self {
            tries_left: config.retries,
            block_bytes: config.block_bytes,
            config,
            job,
            token,
            step,
            sent: Sent::No,
            request_id: 0,
            key: 0,
            handle: 0,
            block: 0,
            offset,
            data: None,
            wanted: false,
            rest: Vec::new(),
            entries: 0,
            failure: None,
            events: VecDeque::new(),
        }
    }

    /// The next thing that the owner must know.
    pub fn poll_event(&mut self) -> Option<FileEvent> {
        self.events.pop_front()
    }

    /// Whether [`FileEvent::Done`] was given, or waits to be.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Gives the master the next request, if one is due and all events were taken. To be called after
    /// [`FileTransfer::poll_event`] gave none; again later where the master was full.
    pub fn drive(&mut self, now: Now, master: &mut Master) {
        if self.sent != Sent::No || !self.events.is_empty() {
            return;
        }
        if self.step == Step::Write && self.data.is_none() {
            if !core::mem::replace(&mut self.wanted, true) {
                let bytes_max = self.block_bytes;
                self.events.push_back(FileEvent::Wanted { offset: self.offset, bytes_max });
            }
            return;
        }
        if self.request_id == 0 {
            // Another job with the same file must not look like a repetition of this one.
            self.request_id = u16::try_from(now.utc.millis() & 0x7FFF).unwrap_or(0) | 1;
        }
        let Some(request) = self.request() else { return };
        match master.submit(now, request, self.token) {
            Ok(()) => self.sent = Sent::Yes,
            Err(SubmitError::Full) => {}
            Err(error @ (SubmitError::NotConnected | SubmitError::TooLong | SubmitError::Unanswerable)) => {
                self.end(Err(FileFailure::Refused(error)));
            }
        }
    }

    /// Gives the block that [`FileEvent::Wanted`] asked for: as many bytes as it says unless it is the `last`, which may be
    /// empty. Longer ones are cut.
    pub fn write_block(&mut self, bytes: &[u8], last: bool) {
        if self.step == Step::Write && self.wanted && self.data.is_none() {
            let bytes = bytes.get(..usize::from(self.block_bytes)).unwrap_or(bytes);
            self.data = Some((bytes.into(), last));
        }
    }

    /// Gives up: the outstation closes the file, and throws away what was written.
    pub fn abort(&mut self) {
        match self.step {
            // A file that is being closed is there.
            Step::Done | Step::Abort | Step::Close => {}
            Step::Read | Step::List | Step::Write if self.sent != Sent::Yes => {
                self.fail(FileFailure::Aborted);
            }
            // What is out comes back first.
            Step::Read | Step::List | Step::Write | Step::Open => {
                self.failure.get_or_insert(FileFailure::Aborted);
            }
            Step::Authenticate | Step::Info | Step::Delete => self.end(Err(FileFailure::Aborted)),
        }
    }

    /// Looks at an event of the master; says whether it was for this job alone.
    pub fn handle_event(&mut self, now: Now, event: &MasterEvent) -> bool {
        match event {
            MasterEvent::Answer { token, answer } if *token == self.token => {
                if let Answer::Objects(objects) = answer
                    && self.sent == Sent::Yes
                {
                    match self.find(objects, false) {
                        Some(found) => self.take(found),
                        None => {
                            self.sent = Sent::Answered;
                            self.fail(FileFailure::Unexpected);
                        }
                    }
                }
                true
            }
            MasterEvent::TaskDone { token, outcome } if *token == self.token => {
                self.handle_outcome(now, *outcome);
                true
            }
            MasterEvent::Files(objects) => {
                if let Sent::Later(_) = self.sent
                    && let Some(found) = self.find(objects, true)
                {
                    self.take(found);
                    self.go_on();
                }
                false
            }
            _ => false,
        }
    }

    /// When [`FileTransfer::handle_timeout`] has something to do.
    #[must_use]
    pub const fn timeout(&self) -> Option<Instant> {
        if let Sent::Later(until) = self.sent { Some(until) } else { None }
    }

    /// Gives up waiting for a late answer.
    pub fn handle_timeout(&mut self, now: Now) {
        if let Sent::Later(until) = self.sent
            && until <= now.mono
        {
            self.sent = Sent::No;
            self.fail(FileFailure::Task(TaskOutcome::Timeout { maybe_operated: false }));
        }
    }

    /// The master is done with the request.
    fn handle_outcome(&mut self, now: Now, outcome: TaskOutcome) {
        match (self.sent, outcome) {
            // Its answer was taken before.
            (Sent::Answered, _) => self.go_on(),
            (Sent::No | Sent::Later(_), _) => {}
            (Sent::Yes, TaskOutcome::Done) => self.sent = Sent::Later(now.mono + self.config.answer_timeout),
            (Sent::Yes, TaskOutcome::Timeout { .. }) if self.tries_left > 0 => {
                self.tries_left -= 1;
                self.sent = Sent::No;
            }
            (Sent::Yes, TaskOutcome::ConnectionLost { .. } | TaskOutcome::Timeout { .. }) => {
                // Nobody is there to close it; the outstation does by itself.
                let why = self.failure.take().unwrap_or(FileFailure::Task(outcome));
                self.end(Err(why));
            }
            (Sent::Yes, outcome) => self.fail(FileFailure::Task(outcome)),
        }
    }

    /// The object of an answer that fits the step.
    fn find(&self, objects: &[u8], late: bool) -> Option<Found> {
        let headers = Headers::new(crate::app::Function::Response, objects).flatten();
        let mut files = headers.flat_map(|header| crate::app::FileObject::all(&header).flatten());
        files.find_map(|object| self.step.take(self, &object, late))
    }

    /// Ends the job with the file closed, if it is open.
    fn fail(&mut self, why: FileFailure) {
        let answered = self.sent == Sent::Answered;
        let why = self.failure.take().unwrap_or(why);
        match self.step {
            Step::Read | Step::Write | Step::List => {
                self.failure = Some(why);
                self.begin(Step::Abort);
                // The master is not done with what was answered.
                self.sent = if answered { Sent::Answered } else { Sent::No };
            }
            Step::Authenticate | Step::Open | Step::Close | Step::Info | Step::Delete | Step::Abort => {
                self.end(Err(why));
            }
            Step::Done => {}
        }
    }

    fn end(&mut self, how: Result<(), FileFailure>) {
        if self.step != Step::Done {
            self.begin(Step::Done);
            (self.data, self.rest) = (None, Vec::new());
            self.events.push_back(FileEvent::Done(how));
        }
    }

    /// Takes up a step, whose request is to be made.
    fn begin(&mut self, step: Step) {
        (self.step, self.sent, self.tries_left) = (step, Sent::No, self.config.retries);
        self.request_id = self.request_id.wrapping_add(1);
    }

    fn is_refused(&mut self, status: FileStatus) -> bool {
        let refused = status != FileStatus::Success;
        if refused {
            self.fail(FileFailure::Status(status));
        }
        refused
    }
}

//! The steps of a job: what each asks, and what follows its answer.

use super::{FileEvent, FileFailure, FileJob, FileTransfer, Sent};
use crate::DnpTime;
use crate::app::{
    DESCRIPTOR_BYTES, FileAuthentication, FileCommand, FileCommandStatus, FileDescriptor, FileKind, FileMode,
    FileObject, FileStatus, FileTransport, Function, Permissions,
};
use crate::master::task::Request;
use crate::outstation::FileEntry;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the longest name of a directory's entry.
const NAME_BYTES_MAX: usize = 4096;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Authenticate,
    Open,
    Read,
    List,
    Write,
    Close,
    Abort,
    Info,
    Delete,
    Done,
}

/// An answer, without what it borrowed.
#[derive(Debug)]
pub(super) enum Found {
    Key(u32),
    Status { handle: u32, size: u32, block_bytes: u16, status: FileStatus },
    Data(Box<[u8]>, bool),
    Written,
    BlockRefused(FileStatus),
    Described(FileEntry),
}

impl Step {
    /// The step after authentication.
    pub(super) const fn first(job: &FileJob) -> Self {
        match job {
            FileJob::Read { .. } | FileJob::Write { .. } | FileJob::List { .. } => Self::Open,
            FileJob::Info { .. } => Self::Info,
            FileJob::Delete { .. } => Self::Delete,
        }
    }

    /// What an object says to this step; None where it is not the answer. With events, what is not of this very request
    /// may come too.
    pub(super) fn take(self, job: &FileTransfer, object: &FileObject<'_>, late: bool) -> Option<Found> {
        match (self, object) {
            (Self::Authenticate, FileObject::Authentication(x)) => Some(Found::Key(x.key)),
            (Self::Open | Self::Delete | Self::Info, FileObject::CommandStatus(x)) => {
                (!late || x.request_id == job.request_id).then_some(status_of(x))
            }
            (Self::Close | Self::Abort, FileObject::CommandStatus(x)) => {
                (!late || x.handle == job.handle).then_some(status_of(x))
            }
            (Self::Info, FileObject::Descriptor(x)) => {
                (!late || x.request_id == job.request_id).then(|| Found::Described(entry_of(x)))
            }
            (Self::Read | Self::List, FileObject::Transport(x)) if (x.handle, x.block) == (job.handle, job.block) => {
                Some(Found::Data(x.data.into(), x.last))
            }
            (Self::Read | Self::List | Self::Write, FileObject::TransportStatus(x)) if x.handle == job.handle => {
                match (self, x.status) {
                    (Self::Write, FileStatus::Success) if x.block == job.block => Some(Found::Written),
                    (_, FileStatus::Success) => None,
                    (_, status) => Some(Found::BlockRefused(status)),
                }
            }
            _ => None,
        }
    }
}

const fn status_of(x: &FileCommandStatus<'_>) -> Found {
    Found::Status { handle: x.handle, size: x.size, block_bytes: x.block_bytes, status: x.status }
}

fn entry_of(x: &FileDescriptor<'_>) -> FileEntry {
    let FileDescriptor { name, kind, size, created, permissions, .. } = *x;
    FileEntry { name: String::from_utf8_lossy(name).into_owned(), kind, size, created, permissions }
}

impl FileJob {
    fn name(&self) -> &[u8] {
        match self {
            Self::Read { name, .. }
            | Self::Write { name, .. }
            | Self::List { name }
            | Self::Info { name }
            | Self::Delete { name } => name.as_bytes(),
        }
    }
}

impl FileTransfer {
    /// The request of the step; none once the job is done.
    pub(super) fn request(&self) -> Option<Request> {
        let status = FileCommandStatus {
            handle: self.handle,
            size: 0,
            block_bytes: 0,
            request_id: self.request_id,
            status: FileStatus::Success,
            text: &[],
        };
        let (handle, block) = (self.handle, self.block);
        let (function, object) = match self.step {
            Step::Authenticate => {
                let (user, password) = self.config.credentials.as_ref()?;
                let (user, password) = (user.as_bytes(), password.as_bytes());
                let asked = FileAuthentication { user, password, key: 0 };
                (Function::AuthenticateFile, FileObject::Authentication(asked))
            }
            Step::Open => (Function::OpenFile, FileObject::Command(self.command())),
            Step::Delete => (Function::DeleteFile, FileObject::Command(self.command())),
            Step::Read | Step::List => {
                let asked = FileTransport { handle, block, last: false, data: &[] };
                (Function::Read, FileObject::Transport(asked))
            }
            Step::Write => {
                let (data, last) = self.data.as_ref()?;
                (Function::Write, FileObject::Transport(FileTransport { handle, block, last: *last, data }))
            }
            Step::Close => (Function::CloseFile, FileObject::CommandStatus(status)),
            Step::Abort => (Function::AbortFile, FileObject::CommandStatus(status)),
            Step::Info => {
                let name = self.job.name();
                let (kind, size, created) = (FileKind::DIRECTORY, 0, DnpTime::from_millis(0));
                let (permissions, request_id) = (Permissions::default(), self.request_id);
                let asked = FileDescriptor { name, kind, size, created, permissions, request_id };
                (Function::FileInfo, FileObject::Descriptor(asked))
            }
            Step::Done => return None,
        };
        Some(Request::file(function, &object))
    }

    fn command(&self) -> FileCommand<'_> {
        let read = FileCommand {
            name: self.job.name(),
            created: DnpTime::from_millis(0),
            permissions: Permissions::default(),
            key: self.key,
            size: 0,
            mode: FileMode::READ,
            block_bytes: self.config.block_bytes,
            request_id: self.request_id,
        };
        match &self.job {
            FileJob::Read { .. } | FileJob::List { .. } => read,
            FileJob::Write { append, size, created, permissions, .. } => FileCommand {
                created: *created,
                permissions: *permissions,
                size: size.unwrap_or(u32::MAX),
                mode: if *append { FileMode::APPEND } else { FileMode::WRITE },
                ..read
            },
            FileJob::Delete { .. } | FileJob::Info { .. } => {
                FileCommand { mode: FileMode::NULL, block_bytes: 0, ..read }
            }
        }
    }

    /// Takes the answer to the step; the next one begins with [`FileTransfer::go_on`], when the master is done with this
    /// one.
    pub(super) fn take(&mut self, found: Found) {
        self.sent = Sent::Answered;
        match (self.step, found) {
            (Step::Authenticate, Found::Key(0)) => self.fail(FileFailure::NotAuthenticated),
            (Step::Authenticate, Found::Key(key)) => {
                self.key = key;
                self.answered(Step::first(&self.job));
            }
            (Step::Abort, _) => {
                let why = self.failure.take().unwrap_or(FileFailure::Aborted);
                self.end(Err(why));
            }
            (_, Found::Status { status, .. } | Found::BlockRefused(status)) if status != FileStatus::Success => {
                self.refused(status);
            }
            (Step::Open, Found::Status { handle, size, block_bytes, .. }) => self.opened(handle, size, block_bytes),
            (Step::Read, Found::Data(bytes, last)) => self.read(bytes, last),
            (Step::List, Found::Data(bytes, last)) => self.list(&bytes, last),
            (Step::Write, Found::Written) => self.written(),
            (Step::Info, Found::Described(entry)) => {
                self.events.push_back(FileEvent::Described(entry));
                self.end(Ok(()));
            }
            (Step::Close | Step::Delete, Found::Status { .. }) => {
                let how = self.failure.take().map_or(Ok(()), Err);
                self.end(how);
            }
            _ => self.fail(FileFailure::Unexpected),
        }
    }

    /// The step has its answer; `next` begins when the master is done with the request.
    fn answered(&mut self, next: Step) {
        self.begin(next);
        self.sent = Sent::Answered;
    }

    pub(super) fn go_on(&mut self) {
        if self.sent == Sent::Answered || matches!(self.sent, Sent::Later(_)) {
            self.sent = Sent::No;
        }
        // The owner gave up while the request was out.
        if self.failure.is_some() && matches!(self.step, Step::Read | Step::List | Step::Write) {
            self.fail(FileFailure::Aborted);
        }
    }

    fn refused(&mut self, status: FileStatus) {
        // An outstation that does not go to the middle of a file is read from its beginning.
        if (self.step, status) == (Step::Read, FileStatus::BlockSequence) && self.block > 0 && self.entries == 0 {
            (self.block, self.offset) = (0, 0);
            return self.answered(Step::Read);
        }
        self.is_refused(status);
    }

    fn opened(&mut self, handle: u32, size: u32, block_bytes: u16) {
        self.handle = handle;
        let wanted = self.config.block_bytes.max(1);
        // An outstation that allows none has not thought of it.
        self.block_bytes = if block_bytes == 0 { wanted } else { wanted.min(block_bytes) };
        self.events.push_back(FileEvent::Opened { size, block_bytes: self.block_bytes });
        let step = match &self.job {
            FileJob::Write { .. } => Step::Write,
            FileJob::List { .. } => Step::List,
            FileJob::Read { .. } | FileJob::Info { .. } | FileJob::Delete { .. } => Step::Read,
        };
        self.block = u32::try_from(self.offset / u64::from(self.block_bytes)).unwrap_or(0);
        self.offset = u64::from(self.block) * u64::from(self.block_bytes);
        self.answered(step);
    }

    fn read(&mut self, bytes: Box<[u8]>, last: bool) {
        let offset = self.offset;
        self.offset += u64::try_from(bytes.len()).unwrap_or(0);
        // Counts blocks: see `refused`.
        self.entries = self.entries.saturating_add(1);
        self.events.push_back(FileEvent::Block { offset, bytes, last });
        self.next_block(last);
    }

    fn next_block(&mut self, last: bool) {
        self.block = self.block.wrapping_add(1);
        // After an abort there is nothing to close: see `go_on`.
        self.answered(if last && self.failure.is_none() { Step::Close } else { self.step });
    }

    fn list(&mut self, bytes: &[u8], last: bool) {
        let mut all = core::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        loop {
            match FileDescriptor::take_from(rest) {
                Ok(Some((descriptor, used))) => {
                    self.entries = self.entries.saturating_add(1);
                    if self.entries > self.config.entries_max {
                        return self.fail(FileFailure::TooManyEntries);
                    }
                    self.events.push_back(FileEvent::Entry(entry_of(&descriptor)));
                    rest = rest.get(used..).unwrap_or_default();
                }
                Ok(None) if rest.is_empty() || (!last && rest.len() <= DESCRIPTOR_BYTES + NAME_BYTES_MAX) => break,
                Ok(None) | Err(_) => return self.fail(FileFailure::Unexpected),
            }
        }
        self.rest = Vec::from(rest);
        self.next_block(last);
    }

    fn written(&mut self) {
        let Some((bytes, last)) = self.data.take() else { return };
        self.wanted = false;
        self.offset += u64::try_from(bytes.len()).unwrap_or(0);
        self.next_block(last);
    }
}

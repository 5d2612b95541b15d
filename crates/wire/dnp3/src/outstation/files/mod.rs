//! File transfer of an outstation (IEEE 1815 functions 25 to 30, group 70): who decides, and what is open.
//!
//! ```text
//! open ──▶ handle ── read block 0, 1, … ──┐            directory: the blocks are descriptors, whole ones in each
//!            │    └─ write block 0, 1, … ─┴─ close ──▶ gone
//!            └── silence for idle_timeout, abort, restart ──▶ closed as aborted: what was written is thrown away
//! ```
//!
//! One block is in memory at a time. A block that is asked for or written again is answered again, and so is a command
//! that is repeated because its answer was lost: nothing is done twice. Blocks of a file may be read from anywhere, those
//! of a directory and those that are written only in order.
//!
//! Files never delay events: an unsolicited response that is due goes ahead of the answer to a file request.

mod request;
mod service;

#[cfg(test)]
pub(crate) mod tests;

pub(super) use request::is_file_request;
pub(super) use service::Files;

use crate::DnpTime;
use crate::app::{FileKind, FileMode, FileStatus, Permissions};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::Poll;
use core::time::Duration;

/// What a handler answers: at once, or pending: it is asked the same again from
/// [`Outstation::poll_files`](super::Outstation::poll_files) or by the master's repetition, and the master waits.
pub type FileAnswer<T> = Poll<Result<T, FileStatus>>;

/// The files of an outstation. Names are the master's: the handler must not let them lead out of what it serves.
///
/// A handle is a number that the outstation gave to an open file; it is given to no other before that one was closed.
pub trait FileHandler {
    /// The key for a user, not 0; None refuses. Commands bring the key: what it allows is the handler's to say.
    fn authenticate(&mut self, _user: &str, _password: &str) -> Poll<Option<u32>> {
        Poll::Ready(None)
    }

    /// Opens a file or a directory.
    fn open(&mut self, handle: u32, request: &FileOpen<'_>) -> FileAnswer<FileOpened>;

    /// Appends at most `bytes_max` bytes of an open file from `offset` on to `out`; true when the file ends there. Fewer
    /// bytes only at its end.
    fn read(&mut self, handle: u32, offset: u64, bytes_max: usize, out: &mut Vec<u8>) -> FileAnswer<bool>;

    /// The entry of an open directory at a position; None behind the last. Positions keep their entries while it is open.
    fn list(&mut self, handle: u32, position: u32) -> FileAnswer<Option<FileEntry>>;

    /// Writes to an open file, `offset` bytes after where writing began. Blocks come in order, each once.
    fn write(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> FileAnswer<()>;

    /// Closes a file. Only after [`FileClose::Done`] may what was written replace what was there. A handle is gone after the
    /// answer, whatever it is.
    fn close(&mut self, handle: u32, how: FileClose) -> FileAnswer<()>;

    /// Deletes a file.
    fn delete(&mut self, name: &str, key: u32) -> FileAnswer<()>;

    /// Describes a file or a directory.
    fn info(&mut self, name: &str) -> FileAnswer<FileEntry>;
}

/// The owner's files.
pub type BoxedFileHandler = Box<dyn FileHandler + Send>;

/// What is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOpen<'a> {
    /// Which file, with its path.
    pub name: &'a str,
    /// What for: read, write or append; other modes were refused before.
    pub mode: FileMode,
    /// Bytes that will be written; None when the master does not know.
    pub size: Option<u32>,
    /// When it was made, where one is written.
    pub created: DnpTime,
    /// Of a file that is written.
    pub permissions: Permissions,
    /// From [`FileHandler::authenticate`]; 0 without.
    pub key: u32,
}

/// A file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOpened {
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file, entries of a directory.
    pub size: u32,
}

/// A file or a directory, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name; without its path in a directory.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file, entries of a directory.
    pub size: u32,
    /// When it was made or changed last.
    pub created: DnpTime,
    /// Who may do what.
    pub permissions: Permissions,
}

/// How a file comes to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileClose {
    /// The master closed it, and all of it was written where it was written.
    Done,
    /// The master aborted the transfer, or closed the file too early, or the outstation restarted.
    Aborted,
    /// Nothing was asked of it for too long.
    Expired,
}

/// How an outstation serves files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Files that may be open at a time; one more is refused with status 5. Default 4.
    pub handles_max: u8,
    /// Bytes of data in one block at most; no more than fit a fragment. Default 1024: on a slow line, a block is what an
    /// event waits for at most.
    pub block_bytes_max: u16,
    /// How long an open file may be left alone before it is closed. Default 60 s.
    pub idle_timeout: Duration,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self { handles_max: 4, block_bytes_max: 1024, idle_timeout: Duration::from_secs(60) }
    }
}

/// What an outstation's files have seen. Gauges say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounters {
    /// Files and directories opened.
    pub opened: u64,
    /// Commands and blocks refused, by this library or by the owner.
    pub refused: u64,
    /// Blocks sent, repetitions included.
    pub blocks_read: u64,
    /// Blocks written, repetitions not counted.
    pub blocks_written: u64,
    /// Commands and blocks that came again and were answered as before.
    pub repeated: u64,
    /// Files closed because nothing was asked of them.
    pub expired: u64,
    /// Gauge: open files.
    pub open: u64,
}

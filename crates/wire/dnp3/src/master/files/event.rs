//! What the owner of a file job learns.

use crate::app::{FileKind, FileStatus};
use crate::master::{SubmitError, TaskOutcome};
use crate::outstation::FileEntry;
use alloc::boxed::Box;
use core::fmt;

/// What the owner of a file job learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// The file is open.
    Opened {
        /// Bytes of a file, entries of a directory; what the outstation says before it reads it.
        size: u32,
        /// Bytes of data in one block.
        block_bytes: u16,
    },
    /// A block of a file that is read.
    Block {
        /// Where it begins, in bytes from the beginning of the file.
        offset: u64,
        /// What it holds.
        bytes: Box<[u8]>,
        /// Whether the file ends with it.
        last: bool,
    },
    /// An entry of a directory.
    Entry(FileEntry),
    /// What was asked about.
    Described(FileEntry),
    /// The next block to be written: [`FileTransfer::write_block`](super::FileTransfer::write_block) takes it.
    Wanted {
        /// Where it begins, in bytes from where writing began.
        offset: u64,
        /// How many bytes it has, unless it is the last.
        bytes_max: u16,
    },
    /// The job has come to an end.
    Done(Result<(), FileFailure>),
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFailure {
    /// The outstation says so.
    Status(FileStatus),
    /// The user and the password have no key.
    NotAuthenticated,
    /// It is a directory where a file was to be, or the other way round.
    Kind(FileKind),
    /// The answer is not what was asked for.
    Unexpected,
    /// The directory has more entries than are taken.
    TooManyEntries,
    /// The request had another end than an answer.
    Task(TaskOutcome),
    /// The master did not take the request.
    Refused(SubmitError),
    /// The owner gave up.
    Aborted,
}

impl FileFailure {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status(status) => status.name(),
            Self::NotAuthenticated => "not_authenticated",
            Self::Kind(FileKind::DIRECTORY) => "is_directory",
            Self::Kind(_) => "is_no_directory",
            Self::Unexpected => "unexpected_answer",
            Self::TooManyEntries => "too_many_entries",
            Self::Task(outcome) => outcome.name(),
            Self::Refused(error) => error.name(),
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{} ({})", status.meaning(), status.name()),
            Self::NotAuthenticated => f.write_str("the outstation gave no key for this user and password"),
            Self::Kind(FileKind::DIRECTORY) => f.write_str("it is a directory"),
            Self::Kind(_) => f.write_str("it is no directory"),
            Self::Unexpected => f.write_str("the answer is not what was asked for"),
            Self::TooManyEntries => f.write_str("the directory has more entries than are taken"),
            Self::Task(outcome) => outcome.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Aborted => f.write_str("aborted"),
        }
    }
}

impl core::error::Error for FileFailure {}

//! What history needs of a store of samples.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::Duration;
use tieline_core::{Body, Filter, Timestamp, Topic};
use tieline_journal::Seq;
use tieline_series::Keep;

/// One topic's state at one time, and the journal record that it came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Which record.
    pub(crate) seq: Seq,
    /// Whose.
    pub(crate) topic: Topic,
    /// When.
    pub(crate) time: Timestamp,
    /// What. A point's own time is not looked at.
    pub(crate) body: Body,
}

/// How long and how much a store keeps. None: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Older samples are removed.
    pub age: Option<Duration>,
    /// The oldest samples are removed beyond this many bytes.
    pub bytes: Option<u64>,
}

/// How long the samples of some topics are kept, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which topics: those that one of these selects, and no rule before.
    pub topics: Vec<Filter>,
    /// Older samples are removed. None: no bound.
    pub keep: Option<Duration>,
    /// When fewer samples stand for them, in ascending order of age.
    pub downsample: Vec<Stage>,
}

/// From a certain age on, fewer samples stand for those of each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// From this age on.
    pub after: Duration,
    /// How long an interval is.
    pub every: Duration,
    /// What stands for its samples.
    pub keep: Keep,
}

/// What one step of retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    /// Samples removed.
    pub(crate) removed: u64,
    /// Whether there is more to remove: another step is wanted soon.
    pub(crate) more: bool,
}

/// How far what an earlier release stored was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// Topics that there are.
    pub topics: usize,
    /// Topics of which all samples were moved.
    pub topics_done: usize,
    /// Samples that were moved since the start.
    pub samples: u64,
}

/// Which samples are to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Of which topics.
    pub topics: Filter,
    /// Not before this.
    pub from: Timestamp,
    /// Before this.
    pub to: Timestamp,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Samples.
    pub samples: u64,
    /// Chunks, and parts of day files, that are gone or were written again without them.
    pub chunks: u64,
    /// Samples that cannot be read, and are left with the file that has them. What was deleted of that file may be in its bytes.
    pub damaged: u64,
    /// Edits that were ended, as their samples were deleted.
    pub edits: u64,
}

/// A deletion under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deleting {
    /// What was done so far.
    pub(crate) done: Deleted,
    /// Closed days that are left; none before the first step.
    pub(crate) days: Option<VecDeque<i32>>,
    /// Topics that are left, by number.
    pub(crate) topics: VecDeque<u32>,
    /// Files whose bytes that are no samples any more are left to be overwritten; none before all else is done.
    pub(crate) files: Option<VecDeque<u32>>,
}

/// How far something is that is done in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The next step can be taken.
    More,
    /// Another thread is to be done first.
    Waits,
    /// It is done.
    Done,
}

/// A store of samples: one writer. What it takes can be read at once. The journal keeps its records until [`Store::position`] has
/// passed them: up to there the store survives a power cut by itself.
pub(crate) trait Store: Send {
    /// The journal record up to which the store needs the journal no longer; 0 before the first.
    fn position(&self) -> Seq;

    /// A topic that it knows, by its name: it finds samples of this very topic sooner than of an equal one.
    fn topic(&self, name: &str) -> Option<&Topic>;

    /// Takes samples, of whole records and in their order, all or nothing, and the record up to which they reach. Equal samples of
    /// one topic and time are one: records that it may have taken before a crash are given to it again.
    ///
    /// # Errors
    /// `Full`, or it failed; nothing of the samples is taken then.
    fn append(&mut self, entries: &[Entry], upto: Seq) -> Result<(), StoreError>;

    /// It has taken all that the journal had when it was opened: from here on what it has can be read without the journal.
    fn caught_up(&mut self);

    /// The journal is long: the store is to need less of it from here on.
    ///
    /// # Errors
    /// `Full`, or it failed.
    fn relieve_journal(&mut self) -> Result<(), StoreError>;

    /// Removes about `samples_max` samples at most that are too old or too many. One step: call again soon while there is more.
    ///
    /// # Errors
    /// It failed.
    fn retain(&mut self, retention: &Retention, now: Timestamp, samples_max: u64) -> Result<Retained, StoreError>;

    /// Goes on to bring what is complete into its final form. Says whether there is something to do: call again soon then.
    ///
    /// # Errors
    /// `Full`, or it failed; it is tried again.
    fn compact(&mut self, now: Timestamp) -> Result<bool, StoreError>;

    /// Moves some of what an earlier release stored; none where nothing is left to be moved.
    ///
    /// # Errors
    /// It failed.
    fn migrate(&mut self) -> Result<Option<Migration>, StoreError>;

    /// Deletes samples, so that their bytes are gone. One step: call again with the same until it says that none are left.
    ///
    /// # Errors
    /// `Full`, or it failed; it can be called again.
    fn delete(&mut self, what: &Deletion, deleting: &mut Deleting, now: Timestamp) -> Result<Progress, StoreError>;

    /// Has days be closed whose samples are all before a time, without waiting for late ones.
    ///
    /// # Errors
    /// `Full`, or it failed.
    fn close_days(&mut self, now: Timestamp) -> Result<(), StoreError>;

    /// What it holds and takes.
    fn size(&self) -> Size;
}

/// What a store takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// On disk, in bytes.
    pub(crate) disk_bytes: u64,
    /// Samples in memory, in bytes.
    pub(crate) memory_bytes: u64,
    /// Chunks written since the start.
    pub(crate) chunks: u64,
    /// Bytes written to the disk since the start, without the index.
    pub(crate) written_bytes: u64,
    /// Days closed since the start.
    pub(crate) closed_days: u64,
    /// What rules did since the start.
    pub(crate) rules: ByRules,
}

/// What rules of retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByRules {
    /// Samples in the place of which others stand.
    pub downsampled: u64,
    /// Days that were written again.
    pub days: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Why a store did not do what it was asked to, by blame; in the store's words.
#[derive(Debug)]
pub enum StoreError {
    /// No space is left; passes.
    Full(Box<dyn Error + Send + Sync>),
    /// A newer release wrote it.
    Newer(Box<dyn Error + Send + Sync>),
    /// It is damaged, or it or the system failed.
    Failed(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    const fn words(&self) -> &(dyn Error + Send + Sync + 'static) {
        match self {
            Self::Full(error) | Self::Newer(error) | Self::Failed(error) => &**error,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.words(), f)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.words().source()
    }
}

impl From<tieline_store::StoreError> for StoreError {
    fn from(error: tieline_store::StoreError) -> Self {
        use tieline_store::StoreError::{Damaged, Failed, Files, Full, Newer, Question, States};
        match &error {
            Full => Self::Full(error.into()),
            Newer(..) => Self::Newer(error.into()),
            Question(_) | States(..) | Damaged(_) | Failed(_) | Files(_) => Self::Failed(error.into()),
        }
    }
}

//! Edits of a history: made and undone durably, and known to all that read.
//!
//! ```text
//! make, undo, erase, retire ─▶ edits.db, committed ─▶ ActiveEdits, another one ─▶ readers that begin from here on
//! ```
//!
//! What was recorded stays as it is: readers change what they give. A process that writes a history is the only one that makes edits of it:
//! what it knows of them is what the file has.

use crate::columns::{Cutoffs, folder_of};
use crate::queue::lock;
use crate::replicate::{ReplicaFile, Replicate, Withheld};
use crate::store::Deletion;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tieline_core::{Body, Filter, Point, StorageError, StorageErrorKind, Timestamp, Topic, Value, Words as _};
use tieline_series::{Change, Datum, Edits, Sample};
use tieline_store::{
    EDITS_FILE, EditCounts, EditFile, EditKind, EditQuery, EditRecord, Ended, NewEdit, Row, StoreError, TRAIL_MAX,
};

/// Bytes of a reason.
pub const WHY_BYTES_MAX: usize = 1024;
/// Bytes of a value, and of the text of an annotation.
pub const TEXT_BYTES_MAX: usize = 4096;

/// How many edits may be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditLimits {
    /// Of one topic.
    pub of_topic: usize,
    /// Of all topics.
    pub of_all: usize,
}

impl Default for EditLimits {
    fn default() -> Self {
        Self { of_topic: 10_000, of_all: 100_000 }
    }
}

/// Why an edit was not made or undone.
#[derive(Debug)]
pub enum EditError {
    /// It is none; what is wrong, and what was expected.
    Wrong(String),
    /// There are enough.
    Full(String),
    /// There is none of that number.
    Unknown(u64),
    /// It is undone already.
    Over(u64, Ended),
    /// The file.
    Store(StoreError),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) | Self::Full(what) => f.write_str(what),
            Self::Unknown(id) => write!(f, "there is no edit {id}"),
            Self::Over(id, Ended { who, time, .. }) => write!(f, "edit {id} was undone by {who} at {time}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EditError {}

impl From<StoreError> for EditError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The edits that are not undone, by topic.
#[derive(Clone, Debug, Default)]
pub struct ActiveEdits {
    topics: BTreeMap<Topic, OfTopic>,
    count: usize,
}

#[derive(Clone, Debug, Default)]
struct OfTopic {
    edits: Arc<Edits>,
    /// Annotations among them.
    count: usize,
}

impl ActiveEdits {
    /// The edits of a topic; none where nothing of it is changed.
    pub(crate) fn of(&self, topic: &Topic) -> Option<Arc<Edits>> {
        if self.topics.is_empty() {
            return None;
        }
        self.topics.get(topic).filter(|of| !of.edits.is_empty()).map(|of| Arc::clone(&of.edits))
    }

    /// How many a topic has, annotations among them.
    pub(crate) fn count_of(&self, topic: &Topic) -> usize {
        self.topics.get(topic).map_or(0, |of| of.count)
    }

    /// Topics that have edits or annotations: how many, and the times of the first and the last sample added.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Topic, u64, Option<(Timestamp, Timestamp)>)> {
        self.topics.iter().map(|(topic, of)| (topic, of.count as u64, of.edits.added_span()))
    }

    /// Topics that have samples added, with the times of the first and the last.
    pub(crate) fn adding(&self) -> impl Iterator<Item = (&Topic, (Timestamp, Timestamp))> {
        self.topics.iter().filter_map(|(topic, of)| Some((topic, of.edits.added_span()?)))
    }

    /// A row that was recorded as it is shown; none where it is left out.
    pub(crate) fn shown(&self, row: Row) -> Option<Row> {
        let Some(edits) = self.of(&row.topic) else { return Some(row) };
        let body = match (&row.point.value, row.is_payload) {
            (Value::Text(text), true) => Body::Opaque(text.as_bytes().to_vec().into()),
            (Value::Bytes(bytes), true) => Body::Opaque(bytes.to_vec().into()),
            _ => Body::Point(row.point.clone()),
        };
        match edits.edited(Sample::new(row.point.time, &body))? {
            (sample, Some(id)) => Some(row_of(row.topic, sample, Some(id))),
            (_, None) => Some(row),
        }
    }

    /// The rows that are added from a time on, in order of time, those of one time by topic.
    pub(crate) fn added(&self, topics: &[Filter], from: Timestamp) -> VecDeque<Row> {
        let is_meant = |topic: &Topic| topics.iter().any(|filter| filter.matches(topic));
        let of_topic = |(topic, of): (&Topic, &OfTopic)| {
            let added: Vec<_> = of.edits.added_before(Timestamp::from_micros(i64::MAX)).collect();
            let topic = topic.clone();
            added.into_iter().map(move |(sample, id)| row_of(topic.clone(), sample, Some(id)))
        };
        let mut rows: Vec<Row> = self.topics.iter().filter(|(topic, _)| is_meant(topic)).flat_map(of_topic).collect();
        rows.retain(|row| row.point.time >= from);
        rows.sort_by(|one, other| (one.point.time, &one.topic).cmp(&(other.point.time, &other.topic)));
        rows.into()
    }

    fn add(&mut self, EditRecord { id, edit, .. }: EditRecord) {
        self.count += 1;
        let of = self.topics.entry(edit.topic.clone()).or_default();
        of.count += 1;
        if let Some(change) = change(&edit) {
            Arc::make_mut(&mut of.edits).push(id, edit.from, edit.to, change);
        }
    }
}

/// A sample as a row.
pub(crate) fn row_of(topic: Topic, sample: Sample, edited: Option<u64>) -> Row {
    let Sample { time, datum, quality } = sample;
    let is_payload = matches!(datum, Datum::Opaque(_));
    let point = Point { value: datum.into_value(), quality, time };
    Row { topic, point, is_payload, count: 1, number: 0, edited }
}

/// What an edit does to samples; none of an annotation.
fn change(edit: &NewEdit) -> Option<Change> {
    let value = edit.value.clone();
    let datum = value.map(|value| {
        let point = Point { value, quality: tieline_core::Quality::GOOD, time: edit.from };
        Sample::new(edit.from, &Body::Point(point)).datum
    });
    Some(match edit.kind {
        EditKind::Value | EditKind::Quality => Change::Set { datum, quality: edit.quality },
        EditKind::Exclude => Change::Exclude,
        EditKind::Insert => Change::Insert(datum.unwrap_or(Datum::Null), edit.quality.unwrap_or_default()),
        EditKind::Annotation => return None,
    })
}

/// The edits of a history, shared by the threads of a process.
#[derive(Clone, Default)]
pub(crate) struct SharedEdits(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Held while an edit is made.
    file: Mutex<Option<EditFile>>,
    /// None before they were read.
    active: Mutex<Option<Arc<ActiveEdits>>>,
    /// Has each change first, where there is one.
    log: Mutex<Option<Arc<dyn Replicate>>>,
    /// Edits that were refused because there were enough.
    refused: AtomicU64,
}

impl SharedEdits {
    /// The edits of a data folder that are not undone.
    pub(crate) fn active(&self, data: &Path) -> Result<Arc<ActiveEdits>, StoreError> {
        if let Some(known) = &*lock(&self.0.active) {
            return Ok(Arc::clone(known));
        }
        // Who makes one meanwhile has it known when it is done.
        let _file = lock(&self.0.file);
        if let Some(known) = &*lock(&self.0.active) {
            return Ok(Arc::clone(known));
        }
        let mut active = ActiveEdits::default();
        if let Some(file) = reading(data)? {
            file.each_active(None, |record| active.add(record))?;
        }
        let active = Arc::new(active);
        *lock(&self.0.active) = Some(Arc::clone(&active));
        Ok(active)
    }

    /// Makes an edit.
    pub(crate) fn make(&self, data: &Path, new: NewEdit, limits: EditLimits) -> Result<EditRecord, EditError> {
        check(&new)?;
        self.with(data, |file, active| {
            check_room(file, active, &new.topic, limits).inspect_err(|_| {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
            })?;
            let mut held = Withheld::default();
            let id = file.make(&new, |row| self.replicate(row).map(|until| held = until))?;
            drop(held);
            let record = EditRecord { id, edit: new, ended: None, is_erased: false };
            active.add(record.clone());
            Ok(record)
        })
    }

    /// Each edit that is made or ended goes to this log first; without one to none.
    pub(crate) fn set_log(&self, log: Option<Arc<dyn Replicate>>) {
        *lock(&self.0.log) = log;
    }

    fn replicate(&self, row: &str) -> Result<Withheld, StoreError> {
        let Some(log) = lock(&self.0.log).clone() else { return Ok(Withheld::default()) };
        let failed = |message| StoreError::Files(StorageError { kind: StorageErrorKind::Io, message });
        log.replicate_file(ReplicaFile::Edits, false, row.as_bytes()).map_err(failed)
    }

    /// Takes the row of an edit that was made or ended elsewhere.
    pub(crate) fn take(&self, data: &Path, row: &[u8]) -> Result<(), StoreError> {
        let row = str::from_utf8(row).map_err(|_| StoreError::Damaged("a row of an edit is no text".to_owned()))?;
        let mut file = lock(&self.0.file);
        let taken = open(&mut file, data)?.take(row);
        if taken.is_err() {
            *file = None;
        }
        // They are read again when they are asked for.
        *lock(&self.0.active) = None;
        taken
    }

    /// How many are active, and how many were refused because there were enough.
    pub(crate) fn counters(&self, data: &Path) -> (u64, u64) {
        let active = self.active(data).map_or(0, |active| active.count as u64);
        (active, self.0.refused.load(Ordering::Relaxed))
    }

    /// Ends an edit.
    pub(crate) fn undo(&self, data: &Path, id: u64, end: Ended) -> Result<EditRecord, EditError> {
        check_why(&end.why)?;
        if !data.join(tieline_store::HISTORY_FOLDER).join(EDITS_FILE).exists() {
            return Err(EditError::Unknown(id));
        }
        self.with(data, |file, active| {
            let found = file.get(id)?.ok_or(EditError::Unknown(id))?;
            if let Some(ended) = found.ended {
                return Err(EditError::Over(id, ended));
            }
            let mut held = Withheld::default();
            file.end(id, &end, |row| self.replicate(row).map(|until| held = until))?;
            drop(held);
            let topic = found.edit.topic.clone();
            active.count -= active.topics.remove(&topic).map_or(0, |of| of.count);
            file.each_active(Some(&topic), |record| active.add(record))?;
            Ok(EditRecord { ended: Some(end), ..found })
        })
    }

    /// Ends the edits of what was deleted, and erases what they give. Returns how many were active.
    pub(crate) fn erase(&self, data: &Path, what: &Deletion, now: Timestamp) -> Result<u64, StoreError> {
        if reading(data)?.is_none() {
            return Ok(0);
        }
        let why = format!("samples were deleted from {} to {}", what.from, what.to);
        let end = Ended { who: "history delete".to_owned(), time: now, why };
        self.ending(data, |file| file.erase(&what.topics, (what.from, what.to), &end))
    }

    /// Ends the edits whose samples are too old, and erases what they give. Returns how many were active.
    pub(crate) fn retire(&self, data: &Path, cutoffs: &Cutoffs, now: Timestamp) -> Result<u64, StoreError> {
        let Some((file, latest)) = reading(data)?.zip(cutoffs.highest()) else { return Ok(0) };
        if !file.has_before(latest)? {
            return Ok(0);
        }
        let why = "the samples of this time are not kept any longer".to_owned();
        let end = Ended { who: "history retention".to_owned(), time: now, why };
        self.ending(data, |file| file.erase_before(latest, |topic| cutoffs.of(topic), &end))
    }

    /// Has edits ended, whose number is known then.
    fn ending(
        &self,
        data: &Path,
        end: impl FnOnce(&mut EditFile) -> Result<u64, StoreError>,
    ) -> Result<u64, StoreError> {
        let done = self.with(data, |file, active| {
            let ended = end(file)?;
            if ended > 0 {
                *active = ActiveEdits::default();
                file.each_active(None, |record| active.add(record))?;
            }
            Ok(ended)
        });
        done.map_err(|error| match error {
            EditError::Store(error) => error,
            other => StoreError::Damaged(other.to_string()),
        })
    }

    /// Changes the file and what is known of it. Where that fails, what is known is read again.
    fn with<T>(
        &self,
        data: &Path,
        change: impl FnOnce(&mut EditFile, &mut ActiveEdits) -> Result<T, EditError>,
    ) -> Result<T, EditError> {
        let mut active = (*self.active(data)?).clone();
        let mut file = lock(&self.0.file);
        if let Some(known) = &*lock(&self.0.active) {
            active = (**known).clone();
        }
        let done = change(open(&mut file, data)?, &mut active);
        match &done {
            Ok(_) => *lock(&self.0.active) = Some(Arc::new(active)),
            Err(EditError::Store(_)) => {
                *file = None;
                *lock(&self.0.active) = None;
            }
            Err(_) => {}
        }
        done
    }
}

/// The database of a data folder, to be written.
fn open<'f>(file: &'f mut Option<EditFile>, data: &Path) -> Result<&'f mut EditFile, StoreError> {
    match file {
        Some(open) => Ok(open),
        none => Ok(none.insert(EditFile::open(&path_of(data))?)),
    }
}

/// The database of a data folder, to be read; none before the first edit.
pub(crate) fn reading(data: &Path) -> Result<Option<EditFile>, StoreError> {
    let path = path_of(data);
    if path.exists() { EditFile::reading(&path).map(Some) } else { Ok(None) }
}

pub(crate) fn path_of(data: &Path) -> std::path::PathBuf {
    folder_of(data).join(EDITS_FILE)
}

/// How many edits a data folder has.
pub(crate) fn counts(data: &Path) -> Result<EditCounts, StoreError> {
    reading(data)?.map_or(Ok(EditCounts::default()), |file| file.counts())
}

/// A page of edits: see [`EditFile::page`].
pub(crate) fn page(data: &Path, query: &EditQuery) -> Result<(Vec<EditRecord>, Option<u64>), StoreError> {
    let read = || reading(data)?.map_or(Ok((Vec::new(), None)), |file| file.page(query));
    read().map_err(of_edits)
}

/// An error with the name of the file, and what to do.
pub(crate) fn of_edits(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(what) => {
            let named = if what.starts_with(EDITS_FILE) { what } else { format!("{EDITS_FILE}: {what}") };
            let advice =
                "tieline history repair keeps the edits that can be read; --raw (raw=true) answers without them";
            StoreError::Damaged(format!("{named}; {advice}"))
        }
        other => other,
    }
}

/// An edit.
pub(crate) fn get(data: &Path, id: u64) -> Result<Option<EditRecord>, StoreError> {
    reading(data)?.map_or(Ok(None), |file| file.get(id))
}

/// Whether there is room for another edit of a topic.
fn check_room(file: &EditFile, active: &ActiveEdits, topic: &Topic, limits: EditLimits) -> Result<(), EditError> {
    let EditLimits { of_topic, of_all } = limits;
    let full = |words: String| Err(EditError::Full(words));
    if active.count_of(topic) >= of_topic {
        return full(format!("{topic} has {of_topic} active edits, expected fewer: history.edits_per_topic_max"));
    }
    if active.count >= of_all {
        return full(format!("there are {of_all} active edits, expected fewer: history.edits_max"));
    }
    if file.counts()?.all >= TRAIL_MAX {
        return full(format!("{TRAIL_MAX} edits were made, expected fewer: none is ever removed"));
    }
    Ok(())
}

fn check(new: &NewEdit) -> Result<(), EditError> {
    let NewEdit { kind, from, to, value, quality, text, made, why, .. } = new;
    let wrong = |words: String| Err(EditError::Wrong(words));
    check_why(why)?;
    if from >= to {
        return wrong(format!("from is {from}, expected a time before to, which is {to}"));
    }
    let last = Timestamp::from_micros(to.micros().saturating_sub(1));
    if *kind != EditKind::Annotation && last > *made {
        return wrong(format!("the edit ends at {to}, expected the present at the latest, which is {made}"));
    }
    if *kind == EditKind::Insert && last != *from {
        return wrong("an insert has from and to, expected at: one sample is added".to_owned());
    }
    let gives_value = matches!(kind, EditKind::Value | EditKind::Insert);
    if gives_value != value.is_some() {
        return wrong(match gives_value {
            true => format!("v is missing, expected the value of the {}", kind.word()),
            false => format!("v is given, expected none: the kind is {}", kind.word()),
        });
    }
    match (kind, quality) {
        (EditKind::Quality, None) => return wrong("q is missing, expected good, uncertain or bad".to_owned()),
        (EditKind::Exclude | EditKind::Annotation, Some(_)) => {
            return wrong(format!("q is given, expected none: the kind is {}", kind.word()));
        }
        _ => {}
    }
    let bytes = match value {
        Some(Value::Text(text)) => text.len(),
        Some(Value::Bytes(bytes)) => bytes.len(),
        Some(Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)) | None => 0,
    };
    if bytes > TEXT_BYTES_MAX {
        return wrong(format!("v has {bytes} bytes, expected at most {TEXT_BYTES_MAX}"));
    }
    match (kind, text.as_deref()) {
        (EditKind::Annotation, None | Some("")) => {
            wrong("text is missing, expected what the annotation says".to_owned())
        }
        (EditKind::Annotation, Some(text)) if text.len() > TEXT_BYTES_MAX => {
            wrong(format!("text has {} bytes, expected at most {TEXT_BYTES_MAX}", text.len()))
        }
        (EditKind::Annotation, Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => wrong(format!("text is given, expected none: the kind is {}", kind.word())),
    }
}

fn check_why(why: &str) -> Result<(), EditError> {
    match why.trim().len() {
        0 => Err(EditError::Wrong("why is missing, expected the reason".to_owned())),
        bytes if bytes > WHY_BYTES_MAX => {
            Err(EditError::Wrong(format!("why has {bytes} bytes, expected at most {WHY_BYTES_MAX}")))
        }
        _ => Ok(()),
    }
}

/// The name of a topic as a filter that selects it alone.
pub(crate) fn alone(topic: &Topic) -> Option<Filter> {
    Filter::new(topic).ok()
}

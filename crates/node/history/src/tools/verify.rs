//! Whether a history is what was written: the check of each chunk and of each day file, what they and the index say of their samples,
//! hour by hour in day files, and the files.

use super::Watch;
use crate::columns::parts;
use crate::columns::reader::HistoryReader;
use crate::columns::source::{Loaded, Loader};
use crate::edits;
use std::collections::HashMap;
use std::fmt;
use tieline_core::{Storage, StorageErrorKind, Timestamp, Topic};
use tieline_series::{Chunk, Column, Summary};
use tieline_store::{
    ChunkRow, DAY_US, EDITS_FILE, FileRow, FolderStorage, KnownFile, StoreError, WrittenDay, day_file_check, file_name,
    read_chunk, read_names,
};

/// Faults that are listed; more are counted.
const FAULTS_MAX: usize = 10_000;

/// Something that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The chunk; none where the fault is of a file or of the index.
    pub chunk: Option<ChunkRow>,
    /// The topic of the chunk.
    pub topic: Option<Topic>,
    /// What is wrong, and where.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.chunk, &self.topic) {
            (Some(chunk), topic) => {
                let ChunkRow { extent, day, samples, .. } = chunk;
                write!(f, "{}", file_name(extent.file, *day))?;
                if day.is_none() {
                    write!(f, " at {}, {} bytes", extent.offset, extent.bytes)?;
                }
                let of = topic.as_ref().map(|topic| format!(" of {topic}")).unwrap_or_default();
                write!(f, ": {samples} samples{of}: {}", self.what)
            }
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// What a look at a whole history came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedHistory {
    /// Topics.
    pub topics: u64,
    /// Chunks, and parts of day files, that were looked at.
    pub chunks: u64,
    /// Their samples.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of chunks.
    pub files: u64,
    /// Day files.
    pub day_files: u64,
    /// Those whose check is not known, as an earlier release wrote them. This is no fault.
    pub unchecked_files: u64,
    /// Chunks that begin before an earlier one of their topic ends: data that came late. This is no fault.
    pub overlaps: u64,
    /// Bytes behind the last chunk of a file, which were never committed. This is no fault.
    pub uncommitted_bytes: u64,
    /// Edits and annotations, those that were undone among them.
    pub edits: u64,
    /// Samples that cannot be read.
    pub lost_samples: u64,
    /// How many faults there are.
    pub fault_count: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
}

impl VerifiedHistory {
    /// Whether it is what was written.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.fault_count == 0
    }

    fn fault(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

impl HistoryReader {
    fn verify_edits(&self, seen: &mut VerifiedHistory) {
        let found = edits::reading(self.data()).and_then(|file| {
            let Some(file) = file else { return Ok(Vec::new()) };
            let faults = file.faults()?;
            seen.edits = if faults.is_empty() { file.counts()?.all } else { 0 };
            Ok(faults)
        });
        for what in found.unwrap_or_else(|error| vec![error.to_string()]) {
            seen.fault(Fault { chunk: None, topic: None, what: format!("{EDITS_FILE}: {what}") });
        }
    }

    /// Reads everything, and compares it with what is said of it. A node may run meanwhile.
    ///
    /// # Errors
    /// A file failed. Damage is no error.
    pub fn verify(&self, watch: Watch<'_>) -> Result<VerifiedHistory, StoreError> {
        let mut seen = VerifiedHistory::default();
        for what in self.index.faults()? {
            seen.fault(Fault { chunk: None, topic: None, what: format!("the index: {what}") });
        }
        self.verify_edits(&mut seen);
        let lost = self.index.without_file()?;
        if lost > 0 {
            let what = format!("the index: {lost} chunks are of files that it does not know");
            seen.fault(Fault { chunk: None, topic: None, what });
        }
        let topics: HashMap<u32, Topic> = self.index.every_topic()?.into_iter().collect();
        seen.topics = topics.len() as u64;
        let files = self.index.files()?;
        // Day files are read twice: as they are, and topic by topic.
        let weight = |file: &KnownFile| if file.row.day.is_some() { file.row.bytes } else { 0 } + file.live_bytes;
        let mut watched = Watched { done: 0, total: files.iter().map(weight).sum(), watch };
        self.verify_files(&files, &topics, &mut seen, &mut watched)?;
        let (mut storage, mut loader) = (self.files(), self.loader());
        let mut numbers: Vec<&u32> = topics.keys().collect();
        numbers.sort_unstable();
        let all = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
        for number in numbers {
            let mut rows = self.index.chunks(*number, all.0, all.1)?;
            rows.sort_by_key(|row| row.first);
            let mut reached: Option<Timestamp> = None;
            for row in rows {
                seen.overlaps += u64::from(reached.is_some_and(|reached| row.first <= reached));
                reached = reached.max(Some(row.last));
                let what = match verify_chunk(&mut storage, &mut loader, &row)? {
                    Some(_) if !self.is_there(&row)? => continue,
                    what => what,
                };
                seen.chunks += 1;
                seen.samples += row.samples;
                seen.bytes += u64::from(row.extent.bytes);
                watched.add(u64::from(row.extent.bytes));
                if let Some(what) = what {
                    seen.lost_samples += row.samples;
                    seen.fault(Fault { chunk: Some(row), topic: topics.get(number).cloned(), what });
                }
            }
        }
        Ok(seen)
    }

    /// Compares files with what the index knows of them.
    fn verify_files(
        &self,
        files: &[KnownFile],
        topics: &HashMap<u32, Topic>,
        seen: &mut VerifiedHistory,
        watched: &mut Watched<'_>,
    ) -> Result<(), StoreError> {
        let mut storage = self.files();
        for known in files {
            let FileRow { number, bytes, day } = known.row;
            let name = file_name(number, day);
            let length = match storage.len(&name) {
                Ok(length) => length,
                Err(error) if error.kind == StorageErrorKind::Missing => {
                    if known.live_bytes > 0 && self.is_known(known)? {
                        seen.fault(Fault { chunk: None, topic: None, what: format!("{name} is lost") });
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut what = (length < bytes).then(|| format!("{name} has {length} bytes, expected {bytes}"));
            if day.is_some() {
                seen.day_files += 1;
                seen.unchecked_files += u64::from(known.check.is_none());
                let found = day_file_check(&self.path_of(&name), |count| watched.add(count))?;
                let is_other = known.check.is_some_and(|check| found != Some(WrittenDay { bytes, check }));
                // One that was replaced is removed while it is read.
                if is_other && found.is_some() && self.is_known(known)? {
                    what = what.or_else(|| Some(format!("{name} is not what was written: its CRC-32 is another one")));
                }
            } else {
                seen.files += 1;
                for (number, name_there) in read_names(&mut storage, number)?.names {
                    if let Some(topic) = topics.get(&number).filter(|topic| **topic != name_there) {
                        let what = format!("{name} names topic {number} {name_there}, the index names it {topic}");
                        seen.fault(Fault { chunk: None, topic: None, what });
                    }
                }
                seen.uncommitted_bytes += length.saturating_sub(bytes);
            }
            if let Some(what) = what {
                seen.fault(Fault { chunk: None, topic: None, what });
            }
        }
        Ok(())
    }

    /// Whether the index still has chunks in a file.
    fn is_known(&self, file: &KnownFile) -> Result<bool, StoreError> {
        let there = self.index.files()?;
        Ok(there.iter().any(|other| other.row.number == file.row.number && other.live_bytes > 0))
    }
}

/// Bytes that were looked at, told.
struct Watched<'w> {
    done: u64,
    total: u64,
    watch: Watch<'w>,
}

impl Watched<'_> {
    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        self.total = self.total.max(self.done);
        (self.watch)(self.done, self.total);
    }
}

/// What is wrong with a chunk, or with a topic's part of a day file.
fn verify_chunk(
    storage: &mut FolderStorage,
    loader: &mut Loader,
    row: &ChunkRow,
) -> Result<Option<String>, StoreError> {
    if row.day.is_some() {
        return Ok(match loader.chunk(row)? {
            Loaded::Missing => Some("its bytes are not there".to_owned()),
            Loaded::Damaged(what) => Some(what),
            Loaded::Column(column) if !parts::says(&row.summary, &column) => {
                Some("the summaries of hours in the index are not those of its samples".to_owned())
            }
            Loaded::Column(_) => None,
        });
    }
    let Some(bytes) = read_chunk(storage, row.extent)? else {
        return Ok(Some("its bytes are not there".to_owned()));
    };
    Ok(match Chunk::parse(&bytes.into()).and_then(|chunk| Ok((chunk.samples()?, chunk))) {
        Ok((column, chunk)) => difference(row, &chunk, &column).map(str::to_owned),
        Err(error) => Some(error.to_string()),
    })
}

/// What a chunk or the index says of samples that is not so.
fn difference(row: &ChunkRow, chunk: &Chunk, column: &Column) -> Option<&'static str> {
    let words = |summary: &Summary| {
        let mut words = Vec::new();
        summary.put(&mut words);
        words
    };
    let found = words(&Summary::of(column));
    let checks = [
        (column.ends() == Some((chunk.first, chunk.last)), "its first or last time is not that of its samples"),
        ((chunk.first, chunk.last) == (row.first, row.last), "it is another chunk than the index says"),
        (column.len() as u64 == row.samples, "it has another number of samples than the index says"),
        (words(&chunk.summary) == found, "its summary is not that of its samples"),
        (row.summary == found, "the summary in the index is not that of its samples"),
        (row.first.micros().div_euclid(DAY_US) == row.last.micros().div_euclid(DAY_US), "it has samples of two days"),
    ];
    checks.into_iter().find(|(is_so, _)| !is_so).map(|(_, what)| what)
}

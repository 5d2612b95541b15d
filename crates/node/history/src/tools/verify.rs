//! Whether a history is what was written: each chunk's check, what it and the index say of its samples, and the files.

use super::Watch;
use crate::columns::reader::{HistoryReader, Read};
use std::collections::HashMap;
use std::fmt;
use tieline_core::{Storage, StorageErrorKind, Timestamp, Topic};
use tieline_series::{Chunk, Column, Summary};
use tieline_store::{ChunkRow, DAY_US, StoreError, chunk_file_name, read_names};

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
            (Some(chunk), Some(topic)) => {
                write!(f, "{}: {} samples of {topic}: {}", chunk.extent, chunk.samples, self.what)
            }
            (Some(chunk), None) => write!(f, "{}: {}", chunk.extent, self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// What a look at a whole history came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedHistory {
    /// Topics.
    pub topics: u64,
    /// Chunks that were looked at.
    pub chunks: u64,
    /// Their samples.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of chunks.
    pub files: u64,
    /// Chunks that begin before an earlier one of their topic ends: data that came late. This is no fault.
    pub overlaps: u64,
    /// Bytes behind the last chunk of a file, which were never committed. This is no fault.
    pub uncommitted_bytes: u64,
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
    /// Reads everything, and compares it with what is said of it. A node may run meanwhile.
    ///
    /// # Errors
    /// A file failed. Damage is no error.
    pub fn verify(&self, watch: Watch<'_>) -> Result<VerifiedHistory, StoreError> {
        let mut seen = VerifiedHistory::default();
        for what in self.index.faults()? {
            seen.fault(Fault { chunk: None, topic: None, what: format!("the index: {what}") });
        }
        let topics: HashMap<u32, Topic> = self.index.every_topic()?.into_iter().collect();
        seen.topics = topics.len() as u64;
        let total = self.verify_files(&topics, &mut seen)?;
        let mut storage = self.files();
        let mut numbers: Vec<&u32> = topics.keys().collect();
        numbers.sort_unstable();
        for number in numbers {
            let mut rows =
                self.index.chunks(*number, Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX))?;
            rows.sort_by_key(|row| row.first);
            let mut reached: Option<Timestamp> = None;
            for row in rows {
                seen.overlaps += u64::from(reached.is_some_and(|reached| row.first <= reached));
                reached = reached.max(Some(row.last));
                let what = match self.read(&mut storage, &row)? {
                    Read::Gone => continue,
                    Read::Damaged(what) => Some(what),
                    Read::Whole(chunk, column) => difference(&row, &chunk, &column).map(str::to_owned),
                };
                seen.chunks += 1;
                seen.samples += row.samples;
                seen.bytes += u64::from(row.extent.bytes);
                if let Some(what) = what {
                    seen.lost_samples += row.samples;
                    seen.fault(Fault { chunk: Some(row), topic: topics.get(number).cloned(), what });
                }
                watch(seen.bytes, total);
            }
        }
        Ok(seen)
    }

    /// Compares files with what the index knows of them; returns the bytes of all chunks.
    fn verify_files(&self, topics: &HashMap<u32, Topic>, seen: &mut VerifiedHistory) -> Result<u64, StoreError> {
        let (mut storage, mut total) = (self.files(), 0);
        for row in self.index.files()? {
            seen.files += 1;
            total += row.live_bytes;
            let name = chunk_file_name(row.file);
            let mut fault = |what: String| seen.fault(Fault { chunk: None, topic: None, what });
            let length = match storage.len(&name) {
                Ok(length) => length,
                Err(error) if error.kind == StorageErrorKind::Missing => {
                    if row.live_bytes > 0 && self.index.files()?.contains(&row) {
                        fault(format!("{name} is lost"));
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if length < row.bytes {
                fault(format!("{name} has {length} bytes, expected {}", row.bytes));
            }
            for (number, name_there) in read_names(&mut storage, row.file)?.names {
                if let Some(topic) = topics.get(&number).filter(|topic| **topic != name_there) {
                    fault(format!("{name} names topic {number} {name_there}, the index names it {topic}"));
                }
            }
            seen.uncommitted_bytes += length.saturating_sub(row.bytes);
        }
        Ok(total)
    }
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
        (column.len() as u64 == row.samples, "it has another number of samples than the index says"),
        (words(&chunk.summary) == found, "its summary is not that of its samples"),
        (row.summary == found, "the summary in the index is not that of its samples"),
        (row.first.micros().div_euclid(DAY_US) == row.last.micros().div_euclid(DAY_US), "it has samples of two days"),
    ];
    checks.into_iter().find(|(is_so, _)| !is_so).map(|(_, what)| what)
}

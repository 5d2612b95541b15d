//! Files of chunks: bytes behind bytes, durable before anybody knows of them. A record in front of the chunks of each write says whose
//! they are (`names.rs`).

use crate::index::{DAY_US, FileRow};
use crate::{StoreError, names};
use std::collections::{HashMap, HashSet};
use std::fmt;
use tieline_core::{Storage, StorageError, StorageErrorKind, Timestamp, Topic};

/// How the name of a file of chunks ends.
const SUFFIX: &str = ".chunks";
/// How the name of a day file ends, and that of one that is not whole.
const DAY_SUFFIX: &str = ".parquet";
const PART_SUFFIX: &str = ".part";

/// Where the bytes of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of the file.
    pub file: u32,
    /// Where they begin in it.
    pub offset: u64,
    /// How many they are.
    pub bytes: u32,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} at {}, {} bytes", self.file, self.offset, self.bytes)
    }
}

/// The name of a file: of a day file with its day.
#[must_use]
pub fn file_name(number: u32, day: Option<i32>) -> String {
    match day {
        None => format!("{number:010}{SUFFIX}"),
        Some(day) => {
            let start = Timestamp::from_micros(i64::from(day).saturating_mul(DAY_US)).to_string();
            let date = start.split('T').next().unwrap_or_default();
            format!("{date}-{number:010}{DAY_SUFFIX}")
        }
    }
}

/// The number of a file of chunks or of a day file, and the day of that; none of other names.
fn meaning_of(name: &str) -> Option<(u32, Option<i32>)> {
    if let Some(stem) = name.strip_suffix(SUFFIX) {
        return Some((stem.parse().ok()?, None));
    }
    let (date, number) = name.strip_suffix(DAY_SUFFIX)?.rsplit_once('-')?;
    let start: Timestamp = format!("{date}T00:00:00Z").parse().ok()?;
    Some((number.parse().ok()?, Some(i32::try_from(start.micros().div_euclid(DAY_US)).ok()?)))
}

/// The files of chunks and the day files of a folder, by number; of these with the day.
///
/// # Errors
/// The folder failed.
pub fn history_files<S: Storage>(storage: &mut S) -> Result<Vec<(u32, Option<i32>)>, StorageError> {
    let names = storage.list()?;
    let meaning = |name: &String| meaning_of(name).filter(|(number, day)| file_name(*number, *day) == *name);
    let mut files: Vec<_> = names.iter().filter_map(meaning).collect();
    files.sort_unstable();
    Ok(files)
}

/// The file that is written, and its folder.
pub struct ChunkFiles<S> {
    storage: S,
    /// The file that is written, and how many of its bytes are durable.
    current: Option<(u32, u64)>,
    /// Topics of which the file that is written has the name.
    named: HashSet<u32>,
    /// A file ends with the write that reaches this, in bytes.
    file_bytes_max: u64,
}

impl<S: Storage> ChunkFiles<S> {
    /// Goes on with the last of the files that the index knows. What is behind their chunks was never committed and is removed, and
    /// so are files that it does not know. `given` is the last number that the index gave to a file.
    ///
    /// # Errors
    /// The folder failed, or has a file that this index never gave a number to: then the index was lost, and nothing is removed.
    pub fn open(mut storage: S, known: &[FileRow], given: u32, file_bytes_max: u64) -> Result<Self, StoreError> {
        let names = storage.list()?;
        if let Some(name) = names.iter().find(|name| meaning_of(name).is_some_and(|(number, _)| number > given)) {
            return Err(StoreError::Damaged(format!(
                "{name} is not of this index, expected the index that it was made with; tieline history repair makes it again"
            )));
        }
        let known_names: HashSet<String> = known.iter().map(|file| file_name(file.number, file.day)).collect();
        let is_ours = |name: &&String| [SUFFIX, DAY_SUFFIX, PART_SUFFIX].iter().any(|suffix| name.ends_with(suffix));
        for name in names.iter().filter(is_ours).filter(|name| !known_names.contains(*name)) {
            storage.remove(name)?;
        }
        let mut files = Self { storage, current: None, named: HashSet::new(), file_bytes_max };
        let Some(FileRow { number, bytes, .. }) = known.iter().rfind(|file| file.day.is_none()).copied() else {
            return Ok(files);
        };
        let name = file_name(number, None);
        match files.storage.len(&name) {
            Ok(found) if found >= bytes && bytes < file_bytes_max => {
                if found > bytes {
                    files.storage.truncate(&name, bytes)?;
                }
                files.current = Some((number, bytes));
            }
            // One that is shorter is damaged: nothing is written behind a hole.
            Ok(_) => {}
            Err(error) if error.kind == StorageErrorKind::Missing => {}
            Err(error) => return Err(error.into()),
        }
        Ok(files)
    }

    /// Writes chunks behind what is there, and syncs them: their bytes, one behind the other, and the topic and the length of each.
    /// A file that begins gets its number from `fresh`; `names` gives the names of topics. Says in which file the first is, and where.
    ///
    /// # Errors
    /// `Full`, or the folder, `fresh` or `names` failed: nothing was written then as far as anybody has to know.
    pub fn append(
        &mut self,
        chunks: &[(u32, u32)],
        bytes: &[u8],
        fresh: impl FnOnce() -> Result<u32, StoreError>,
        names: impl FnOnce(&[u32]) -> Result<HashMap<u32, Topic>, StoreError>,
    ) -> Result<(u32, u64), StoreError> {
        let (number, offset) = match self.current.filter(|(_, bytes)| *bytes < self.file_bytes_max) {
            Some(current) => current,
            None => {
                self.named.clear();
                (fresh()?, 0)
            }
        };
        let mut unnamed: Vec<u32> = chunks.iter().map(|(topic, _)| *topic).collect();
        unnamed.retain(|topic| !self.named.contains(topic));
        let names = names(&unnamed)?;
        let mut written = Vec::with_capacity(bytes.len() + 16 * chunks.len());
        names::put(chunks, &mut self.named, &names, &mut written);
        let start = offset + written.len() as u64;
        written.extend_from_slice(bytes);
        let name = file_name(number, None);
        let done = self.storage.append(&name, &written).and_then(|()| self.storage.sync(&name));
        if let Err(error) = done {
            // A file whose sync failed is not written again; the next one is another. It makes room at once where it can.
            let cut = if offset == 0 { self.storage.remove(&name) } else { self.storage.truncate(&name, offset) };
            let _ = cut;
            self.current = None;
            return Err(error.into());
        }
        self.current = Some((number, offset + written.len() as u64));
        Ok((number, start))
    }

    /// Overwrites bytes of a file with zeros, durably. One that is not there has none.
    ///
    /// # Errors
    /// The folder failed.
    pub fn erase(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), StorageError> {
        match self.storage.erase(name, offset, bytes) {
            Err(error) if error.kind != StorageErrorKind::Missing => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The folder.
    pub const fn storage(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Removes files of which no chunk is left. The one that is written is left then, too.
    ///
    /// # Errors
    /// The folder failed.
    pub fn remove(&mut self, files: &[FileRow]) -> Result<(), StorageError> {
        for FileRow { number, day, .. } in files {
            if self.current.is_some_and(|(current, _)| current == *number) {
                self.current = None;
            }
            match self.storage.remove(&file_name(*number, *day)) {
                Err(error) if error.kind != StorageErrorKind::Missing => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Reads the bytes of a chunk; none where its file has them no longer.
///
/// # Errors
/// The folder failed.
pub fn read_chunk<S: Storage>(storage: &mut S, extent: Extent) -> Result<Option<Vec<u8>>, StorageError> {
    let mut bytes = vec![0; usize::try_from(extent.bytes).unwrap_or(0)];
    let (name, mut done) = (file_name(extent.file, None), 0);
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match storage.read(&name, extent.offset + done as u64, rest) {
            Ok(0) => return Ok(None),
            Ok(count) => done += count,
            Err(error) if error.kind == StorageErrorKind::Missing => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FolderStorage;

    fn row(number: u32, bytes: u64) -> FileRow {
        FileRow { number, bytes, day: None }
    }

    fn append(files: &mut ChunkFiles<FolderStorage>, bytes: &[u8], fresh: u32) -> (u32, u64) {
        let names = |topics: &[u32]| Ok(topics.iter().map(|topic| (*topic, Topic::new("a").unwrap())).collect());
        files.append(&[(1, u32::try_from(bytes.len()).unwrap())], bytes, || Ok(fresh), names).unwrap()
    }

    #[test]
    fn what_was_not_committed_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            |known: &[FileRow]| ChunkFiles::open(FolderStorage::open(folder.path()).unwrap(), known, 6, 50).unwrap();
        let mut files = open(&[]);
        // A record with the name takes 16 bytes, one without it 15.
        assert_eq!(append(&mut files, b"abcd", 1), (1, 16));
        assert_eq!(append(&mut files, b"efgh", 9), (1, 35));
        // The first alone was committed.
        let mut files = open(&[row(1, 20)]);
        assert_eq!(append(&mut files, b"0123456789ijklmnop", 9), (1, 36));
        assert_eq!(append(&mut files, b"q", 3), (3, 16));
        let mut storage = FolderStorage::open(folder.path()).unwrap();
        let mut read = |file, offset, bytes| read_chunk(&mut storage, Extent { file, offset, bytes }).unwrap();
        assert_eq!((read(1, 46, 8).unwrap(), read(3, 16, 1).unwrap()), (b"ijklmnop".to_vec(), b"q".to_vec()));
        assert_eq!((read(1, 46, 9), read(7, 0, 1)), (None, None));
        // Files that the index does not know are removed; one that was lost is not written again.
        let day = folder.path().join(file_name(4, Some(20_783)));
        let others = [folder.path().join("x.part"), folder.path().join("notes.txt")];
        [&day, &others[0], &others[1]].iter().for_each(|path| std::fs::write(path, b"x").unwrap());
        assert_eq!(history_files(&mut storage), Ok(vec![(1, None), (3, None), (4, Some(20_783))]));
        let mut files = open(&[row(1, 54), FileRow { day: Some(20_783), ..row(4, 1) }]);
        assert!(day.ends_with("2026-11-26-0000000004.parquet"));
        assert_eq!((day.exists(), others[0].exists(), others[1].exists()), (true, false, true));
        assert_eq!(append(&mut files, b"r", 5), (5, 16));
        std::fs::remove_file(folder.path().join(file_name(5, None))).unwrap();
        let mut files = open(&[row(1, 54), row(5, 1)]);
        assert_eq!((append(&mut files, b"s", 6), day.exists()), ((6, 16), false));
        files.remove(&[row(1, 0), row(9, 0)]).unwrap();
        // Another index than that of the files is not theirs, and removes none.
        let lost = ChunkFiles::open(FolderStorage::open(folder.path()).unwrap(), &[], 5, 50);
        assert!(matches!(lost.map(drop), Err(StoreError::Damaged(_))));
        assert!(folder.path().join(file_name(6, None)).exists());
    }
}

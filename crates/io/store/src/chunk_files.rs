//! Files of chunks: bytes behind bytes, durable before anybody knows of them. A record in front of the chunks of each write says whose
//! they are (`names.rs`).

use crate::{StoreError, names};
use std::collections::{HashMap, HashSet};
use std::fmt;
use tieline_core::{Storage, StorageError, StorageErrorKind, Topic};

/// How the name of a file of chunks ends.
const SUFFIX: &str = ".chunks";

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
        write!(f, "{} at {}, {} bytes", file_name(self.file), self.offset, self.bytes)
    }
}

/// The name of a file of chunks.
#[must_use]
pub fn file_name(number: u32) -> String {
    format!("{number:010}{SUFFIX}")
}

/// The file that is written, and its folder.
pub struct ChunkFiles<S> {
    storage: S,
    /// The file that is written, and how many of its bytes are durable.
    current: Option<(u32, u64)>,
    next: u32,
    /// Topics of which the file that is written has the name.
    named: HashSet<u32>,
    /// A file ends with the write that reaches this, in bytes.
    file_bytes_max: u64,
}

impl<S: Storage> ChunkFiles<S> {
    /// Goes on with the last of the files that the index knows. What is behind their chunks was never committed and is removed, and
    /// so are files that it does not know.
    ///
    /// # Errors
    /// The folder failed.
    pub fn open(mut storage: S, known: &[(u32, u64)], file_bytes_max: u64) -> Result<Self, StorageError> {
        let names = storage.list()?;
        let known_names: HashSet<String> = known.iter().map(|(number, _)| file_name(*number)).collect();
        for name in names.iter().filter(|name| name.ends_with(SUFFIX) && !known_names.contains(*name)) {
            storage.remove(name)?;
        }
        let mut files = Self { storage, current: None, next: 1, named: HashSet::new(), file_bytes_max };
        let Some((number, bytes)) = known.last().copied() else { return Ok(files) };
        files.next = number.saturating_add(1);
        match files.storage.len(&file_name(number)) {
            Ok(found) if found >= bytes && bytes < file_bytes_max => {
                if found > bytes {
                    files.storage.truncate(&file_name(number), bytes)?;
                }
                files.current = Some((number, bytes));
            }
            // One that is shorter is damaged: nothing is written behind a hole.
            Ok(_) => {}
            Err(error) if error.kind == StorageErrorKind::Missing => {}
            Err(error) => return Err(error),
        }
        Ok(files)
    }

    /// Writes chunks behind what is there, and syncs them: their bytes, one behind the other, and the topic and the length of each.
    /// `names` gives the names of topics. Says in which file the first is, and where.
    ///
    /// # Errors
    /// `Full`, or the folder or `names` failed: nothing was written then as far as anybody has to know.
    pub fn append(
        &mut self,
        chunks: &[(u32, u32)],
        bytes: &[u8],
        names: impl FnOnce(&[u32]) -> Result<HashMap<u32, Topic>, StoreError>,
    ) -> Result<(u32, u64), StoreError> {
        let (number, offset) = match self.current.take().filter(|(_, bytes)| *bytes < self.file_bytes_max) {
            Some(current) => current,
            None => {
                self.named.clear();
                (self.next, 0)
            }
        };
        self.next = self.next.max(number.saturating_add(1));
        let mut fresh: Vec<u32> = chunks.iter().map(|(topic, _)| *topic).collect();
        fresh.retain(|topic| !self.named.contains(topic));
        let names = names(&fresh).inspect_err(|_| self.current = Some((number, offset)))?;
        let mut written = Vec::with_capacity(bytes.len() + 16 * chunks.len());
        names::put(chunks, &mut self.named, &names, &mut written);
        let start = offset + written.len() as u64;
        written.extend_from_slice(bytes);
        let name = file_name(number);
        let done = self.storage.append(&name, &written).and_then(|()| self.storage.sync(&name));
        if let Err(error) = done {
            // A file whose sync failed is not written again; the next one is another. It makes room at once where it can.
            let cut = if offset == 0 { self.storage.remove(&name) } else { self.storage.truncate(&name, offset) };
            let _ = cut;
            self.named.clear();
            return Err(error.into());
        }
        self.current = Some((number, offset + written.len() as u64));
        Ok((number, start))
    }

    /// The folder.
    pub const fn storage(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Removes files of which no chunk is left. The one that is written is left then, too.
    ///
    /// # Errors
    /// The folder failed.
    pub fn remove(&mut self, files: &[u32]) -> Result<(), StorageError> {
        for number in files {
            if self.current.is_some_and(|(current, _)| current == *number) {
                self.current = None;
            }
            match self.storage.remove(&file_name(*number)) {
                Err(error) if error.kind != StorageErrorKind::Missing => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The numbers of the files of chunks in a folder, in order.
///
/// # Errors
/// The folder failed.
pub fn chunk_files<S: Storage>(storage: &mut S) -> Result<Vec<u32>, StorageError> {
    let number = |name: &String| name.strip_suffix(SUFFIX)?.parse().ok().filter(|number| file_name(*number) == *name);
    let mut numbers: Vec<u32> = storage.list()?.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the bytes of a chunk; none where its file has them no longer.
///
/// # Errors
/// The folder failed.
pub fn read_chunk<S: Storage>(storage: &mut S, extent: Extent) -> Result<Option<Vec<u8>>, StorageError> {
    let mut bytes = vec![0; usize::try_from(extent.bytes).unwrap_or(0)];
    let (name, mut done) = (file_name(extent.file), 0);
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

    fn append(files: &mut ChunkFiles<FolderStorage>, bytes: &[u8]) -> (u32, u64) {
        let names = |topics: &[u32]| Ok(topics.iter().map(|topic| (*topic, Topic::new("a").unwrap())).collect());
        files.append(&[(1, u32::try_from(bytes.len()).unwrap())], bytes, names).unwrap()
    }

    #[test]
    fn what_was_not_committed_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            |known: &[(u32, u64)]| ChunkFiles::open(FolderStorage::open(folder.path()).unwrap(), known, 50).unwrap();
        let mut files = open(&[]);
        // A record with the name takes 16 bytes, one without it 15.
        assert_eq!(append(&mut files, b"abcd"), (1, 16));
        assert_eq!(append(&mut files, b"efgh"), (1, 35));
        // The first alone was committed.
        let mut files = open(&[(1, 20)]);
        assert_eq!(append(&mut files, b"0123456789ijklmnop"), (1, 36));
        assert_eq!(append(&mut files, b"q"), (2, 16));
        let mut storage = FolderStorage::open(folder.path()).unwrap();
        let mut read = |file, offset, bytes| read_chunk(&mut storage, Extent { file, offset, bytes }).unwrap();
        assert_eq!((read(1, 46, 8).unwrap(), read(2, 16, 1).unwrap()), (b"ijklmnop".to_vec(), b"q".to_vec()));
        assert_eq!((read(1, 46, 9), read(7, 0, 1)), (None, None));
        assert_eq!(chunk_files(&mut storage), Ok(vec![1, 2]));
        // A file that the index does not know is removed; one that was lost is not written again.
        let mut files = open(&[(1, 54)]);
        assert_eq!(append(&mut files, b"r"), (2, 16));
        std::fs::remove_file(folder.path().join(file_name(2))).unwrap();
        assert_eq!(append(&mut open(&[(1, 54), (2, 17)]), b"s"), (3, 16));
        files.remove(&[1, 9]).unwrap();
    }
}

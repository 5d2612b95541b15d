//! Records of names: whose the chunks are that follow in their file, so that a lost index can be made of the files again.
//!
//! ```text
//!  +------+---------+- - - - - -+---------+ +---------+ +---------+
//!  | TLNM | length  | entries   | CRC-32  | | chunk 1 | | chunk 2 | …
//!  | 4    | 4 bytes |           | 4 bytes | +---------+ +---------+
//!  +------+---------+- - - - - -+---------+
//!           of entries, low byte first   of all before it
//!
//!  entry, one for each chunk of the write      topic number · bytes of the chunk · bytes of the name · name
//! ```
//!
//! Numbers are varints. The name of a topic is in its first entry of a file (a writer that was started again repeats it); later
//! entries have a name of 0 bytes.

use crate::chunk_files::{Extent, file_name};
use std::collections::{HashMap, HashSet};
use tieline_core::{Cursor, Storage, StorageError, StorageErrorKind, Topic, varint};

const MAGIC: &[u8; 4] = b"TLNM";
/// Magic and length.
const FRONT_BYTES: usize = 8;
const CHECK_BYTES: usize = 4;
/// Bytes of a file that are looked at; a writer ends files far before.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A chunk of which its file says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedChunk {
    /// The number of its topic.
    pub topic: u32,
    /// Where its bytes are.
    pub extent: Extent,
}

/// What a file says of its chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFile {
    /// Its chunks, in order.
    pub chunks: Vec<NamedChunk>,
    /// Names of topics, by number.
    pub names: HashMap<u32, Topic>,
    /// Bytes before its end of which no record of names says what they are.
    pub unnamed_bytes: u64,
}

/// Appends a record for chunks that are written together, each with its topic and its bytes. `name` gives the name of a topic where the
/// file has none for it yet.
pub(crate) fn put(chunks: &[(u32, u32)], named: &mut HashSet<u32>, names: &HashMap<u32, Topic>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(MAGIC);
    out.extend([0; FRONT_BYTES - 4]);
    for (topic, bytes) in chunks {
        varint::put(out, u64::from(*topic));
        varint::put(out, u64::from(*bytes));
        let name = names.get(topic).filter(|_| named.insert(*topic)).map_or("", |name| name.as_str());
        varint::put_len(out, name.len());
        out.extend_from_slice(name.as_bytes());
    }
    let length = u32::try_from(out.len() - start - FRONT_BYTES).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 4..).and_then(<[u8]>::first_chunk_mut) {
        *place = length.to_le_bytes();
    }
    let check = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend(check.to_le_bytes());
}

/// Reads what a file says of its chunks. What is damaged is passed over up to the next record.
///
/// # Errors
/// The folder failed.
pub fn read_names<S: Storage>(storage: &mut S, file: u32) -> Result<NamedFile, StorageError> {
    let name = file_name(file, None);
    let length = storage.len(&name)?.min(FILE_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match storage.read(&name, done as u64, rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind == StorageErrorKind::Missing => break,
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(scan(&bytes, file))
}

fn scan(bytes: &[u8], file: u32) -> NamedFile {
    let (mut found, mut at) = (NamedFile::default(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((entries, size)) = record(rest) else {
            // The next place where a record may begin.
            let skipped = rest.windows(MAGIC.len()).skip(1).position(|four| four == MAGIC);
            let skipped = skipped.map_or(rest.len(), |place| place + 1);
            found.unnamed_bytes += skipped as u64;
            at += skipped;
            continue;
        };
        at += size;
        for Entry { topic, bytes: length, name } in entries {
            if let Some(name) = name {
                found.names.insert(topic, name);
            }
            let end = at.saturating_add(length as usize);
            if end > bytes.len() {
                // Torn: the rest was never committed.
                return found;
            }
            found.chunks.push(NamedChunk { topic, extent: Extent { file, offset: at as u64, bytes: length } });
            at = end;
        }
    }
    found
}

struct Entry {
    topic: u32,
    bytes: u32,
    name: Option<Topic>,
}

/// The record that bytes begin with, and its size; none where there is none.
fn record(bytes: &[u8]) -> Option<(Vec<Entry>, usize)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let length = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    let size = FRONT_BYTES.checked_add(length)?.checked_add(CHECK_BYTES)?;
    let (body, check) = bytes.get(..size)?.split_last_chunk()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*check) {
        return None;
    }
    let (mut cursor, mut entries) = (Cursor::new(body.get(FRONT_BYTES..)?), Vec::new());
    while !cursor.is_empty() {
        let mut number = || u32::try_from(varint::get(&mut cursor).ok()?).ok();
        let (topic, bytes) = (number()?, number()?);
        let length = varint::get_len(&mut cursor).ok()?;
        let name = str::from_utf8(cursor.take(length).ok()?).ok()?;
        entries.push(Entry { topic, bytes, name: Topic::new(name).ok() });
    }
    Some((entries, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(writes: &[Vec<(u32, Vec<u8>)>]) -> (Vec<u8>, Vec<NamedChunk>) {
        let (mut out, mut named, mut chunks) = (Vec::new(), HashSet::new(), Vec::new());
        for write in writes {
            let lengths: Vec<(u32, u32)> = write.iter().map(|(topic, bytes)| (*topic, bytes.len() as u32)).collect();
            let names = write.iter().map(|(topic, _)| (*topic, Topic::new(&format!("t/{topic}")).unwrap())).collect();
            put(&lengths, &mut named, &names, &mut out);
            for (topic, bytes) in write {
                let extent = Extent { file: 3, offset: out.len() as u64, bytes: bytes.len() as u32 };
                chunks.push(NamedChunk { topic: *topic, extent });
                out.extend(bytes);
            }
        }
        (out, chunks)
    }

    fn writes() -> impl Strategy<Value = Vec<Vec<(u32, Vec<u8>)>>> {
        let bytes = prop::collection::vec(any::<u8>(), 1..40);
        prop::collection::vec(prop::collection::vec((0..300_u32, bytes), 1..6), 0..6)
    }

    proptest! {
        #[test]
        fn a_file_says_whose_its_chunks_are(writes in writes(), cut in any::<prop::sample::Index>()) {
            let (bytes, chunks) = file(&writes);
            let found = scan(&bytes, 3);
            prop_assert_eq!((&found.chunks, found.unnamed_bytes), (&chunks, 0));
            let topics: HashSet<u32> = chunks.iter().map(|chunk| chunk.topic).collect();
            let is_right = |(number, name): (&u32, &Topic)| name.as_str() == format!("t/{number}");
            prop_assert!(found.names.iter().all(is_right));
            prop_assert_eq!(topics.len(), found.names.len());
            // A file that ends early says as much as is there.
            let cut = cut.index(bytes.len() + 1);
            let early = scan(&bytes[..cut], 3).chunks;
            prop_assert_eq!(&early[..], &chunks[..early.len()]);
        }

        #[test]
        fn damage_costs_what_its_record_names(writes in writes(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let (mut bytes, chunks) = file(&writes);
            prop_assume!(!bytes.is_empty());
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let found = scan(&bytes, 3).chunks;
            let lost = chunks.iter().filter(|chunk| !found.contains(chunk)).count();
            prop_assert!(lost <= writes.iter().map(Vec::len).max().unwrap_or(0));
        }

        #[test]
        fn any_bytes_are_passed_over(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let found = scan(&bytes, 1);
            prop_assert!(found.chunks.is_empty() && found.unnamed_bytes == bytes.len() as u64);
            scan(&[&MAGIC[..], &bytes].concat(), 1);
        }
    }
}

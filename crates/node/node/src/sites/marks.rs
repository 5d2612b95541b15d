//! How far the streams of sites are on the disk of the centre.
//!
//! The mark of a batch is the note of the record that has its samples: both are on the disk, or neither is. A file has all marks as they
//! were after a record of the journal; at a start, notes of the records behind it are read. The journal keeps these records until the file
//! has their marks.
//!
//! A note is: the length of the site's name (varint), the name, the stream (1 byte: 0 live, 1 back-fill, 2 bulk), epoch and number
//! (8 bytes each, low byte first).

use super::files;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tieline_core::{Cursor, varint};
use tieline_journal::Seq;
use tieline_relay::{Mark, Stream};

const VERSION: &str = "tieline-marks 1";

/// All marks, after a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The record.
    pub seq: Seq,
    marks: BTreeMap<(Arc<str>, Stream), Mark>,
}

impl Marks {
    /// Reads the file; nothing where there is none, or it is not whole.
    ///
    /// # Errors
    /// It is there, and cannot be read.
    pub fn load(path: &Path) -> io::Result<Self> {
        let Some(text) = files::read(path)? else { return Ok(Self::default()) };
        let marks = Self::of_text(&text);
        if marks.is_none() {
            tracing::warn!(file = %path.display(), "the marks of sites cannot be read: they are taken from the journal");
        }
        Ok(marks.unwrap_or_default())
    }

    /// Replaces the file durably.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("{VERSION}\nseq {}\n", self.seq.0);
        for ((site, stream), Mark { epoch, number }) in &self.marks {
            text.push_str(&format!("mark {} {epoch} {number} {site}\n", stream.name()));
        }
        text.push_str("end\n");
        files::replace(path, &text)
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != VERSION {
            return None;
        }
        let mut marks = Self { seq: Seq(lines.next()?.strip_prefix("seq ")?.parse().ok()?), marks: BTreeMap::new() };
        for line in lines {
            if line == "end" {
                return Some(marks);
            }
            let mut words = line.strip_prefix("mark ")?.splitn(4, ' ');
            let name = words.next()?;
            let stream = Stream::ALL.into_iter().find(|stream| stream.name() == name)?;
            let (epoch, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            marks.set(words.next()?.into(), stream, Mark { epoch, number });
        }
        None
    }

    /// A stream is that far.
    pub fn set(&mut self, site: Arc<str>, stream: Stream, mark: Mark) {
        self.marks.insert((site, stream), mark);
    }

    /// Takes the note of a record, where it is one.
    pub fn take(&mut self, note: &[u8]) {
        if let Some((site, stream, mark)) = read_note(note) {
            self.set(site, stream, mark);
        }
    }

    /// All.
    pub fn all(&self) -> impl Iterator<Item = (Arc<str>, Stream, Mark)> {
        self.marks.iter().map(|((site, stream), mark)| (Arc::clone(site), *stream, *mark))
    }
}

const fn number_of(stream: Stream) -> u8 {
    match stream {
        Stream::Live => 0,
        Stream::BackFill => 1,
        Stream::Bulk => 2,
    }
}

/// The note of a batch.
#[must_use]
pub fn note(site: &str, stream: Stream, mark: Mark) -> Vec<u8> {
    let mut out = Vec::with_capacity(site.len() + 20);
    varint::put_len(&mut out, site.len());
    out.extend_from_slice(site.as_bytes());
    out.push(number_of(stream));
    out.extend(mark.epoch.to_le_bytes());
    out.extend(mark.number.to_le_bytes());
    out
}

fn read_note(note: &[u8]) -> Option<(Arc<str>, Stream, Mark)> {
    let mut cursor = Cursor::new(note);
    let len = varint::get_len(&mut cursor).ok()?;
    let site = core::str::from_utf8(cursor.take(len).ok()?).ok()?.into();
    let number = cursor.u8().ok()?;
    let stream = Stream::ALL.into_iter().find(|stream| number_of(*stream) == number)?;
    let mark = Mark { epoch: cursor.u64_le().ok()?, number: cursor.u64_le().ok()? };
    cursor.is_empty().then_some((site, stream, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        assert_eq!(Marks::load(&path).unwrap(), Marks::default());
        let mut marks = Marks { seq: Seq(77), ..Marks::default() };
        for (site, stream, epoch, number) in
            [("north", Stream::Live, 5, 9), ("north", Stream::BackFill, 5, 1), ("a b", Stream::Bulk, u64::MAX, 0)]
        {
            marks.take(&note(site, stream, Mark { epoch, number }));
        }
        assert_eq!(marks.all().count(), 3);
        marks.save(&path).unwrap();
        assert_eq!(Marks::load(&path).unwrap(), marks);
        // A file that is not whole is none, and what is no note says nothing.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert_eq!(Marks::load(&path).unwrap(), Marks::default());
        let before = marks.clone();
        marks.take(b"north");
        marks.take(&[note("x", Stream::Live, Mark::default()), vec![0]].concat());
        assert_eq!(marks, before);
    }
}

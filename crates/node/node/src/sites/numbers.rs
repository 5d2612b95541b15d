//! Which record of the journal is which number of which stream.
//!
//! ```text
//!  journal   41 … 57 │ 58 ……… 300 │ 301 …………▶
//!  pieces    live 1-17│ backfill 1-243│ live 18 …
//! ```
//!
//! A record belongs to the stream of the piece that it lies in, for as long as the epoch lasts: so a number always has the same content. The
//! last piece is open. It is ended, and one of the other stream begun, only behind all that was offered, and nothing of the new
//! piece is offered before the table is on the disk.
//!
//! The table is a text of a line for the epoch, a line for each stream with its acknowledged number and the last one that was let go, and a line for each piece.

use std::collections::VecDeque;
use std::fmt::Write as _;
use tieline_journal::Seq;
use tieline_relay::Stream;

/// Pieces at most; with as many, the last one stays open.
pub const PIECES_MAX: usize = 1024;
const VERSION: &str = "tieline-site 1";

/// Consecutive records of the journal in one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    stream: Stream,
    /// Of its first record.
    seq: Seq,
    number: u64,
    /// How many records; none of the last piece, which is open.
    records: Option<u64>,
}

impl Piece {
    /// How many records it has in a journal that ends with `durable`.
    const fn len(&self, durable: Seq) -> u64 {
        let there = durable.next().since(self.seq);
        match self.records {
            Some(records) if records < there => records,
            Some(_) | None => there,
        }
    }
}

/// Records that can be read in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The number of the first: above what was asked for, where the pieces before were let go.
    pub number: u64,
    /// The first.
    pub first: Seq,
    /// The last.
    pub last: Seq,
}

impl Range {
    /// The number of a record of the range, or of what follows it.
    #[must_use]
    pub fn number_of(self, seq: Seq) -> u64 {
        self.number + seq.min(self.last.next()).since(self.first)
    }
}

/// The numbers of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    epoch: u64,
    pieces: VecDeque<Piece>,
    /// Of live and back-fill, as far as is known.
    acknowledged: [u64; 2],
    /// The last numbers of pieces that were let go: no number is given twice.
    used: [u64; 2],
}

const STREAMS: [Stream; 2] = [Stream::Live, Stream::BackFill];

const fn place(stream: Stream) -> usize {
    match stream {
        Stream::Live => 0,
        Stream::BackFill | Stream::Bulk => 1,
    }
}

impl Numbers {
    /// A new epoch: what the journal has from `first` on is back-fill.
    #[must_use]
    pub fn begin(epoch: u64, first: Seq) -> Self {
        let open = Piece { stream: Stream::BackFill, seq: first.max(Seq(1)), number: 1, records: None };
        Self { epoch, pieces: [open].into(), acknowledged: [0; 2], used: [0; 2] }
    }

    /// Of the numbers.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same records that are not acknowledged, with new numbers, all as back-fill.
    #[must_use]
    pub fn begin_again(&self, epoch: u64) -> Self {
        let mut again = Self { epoch, pieces: VecDeque::new(), acknowledged: [0; 2], used: [0; 2] };
        let mut number = 1;
        for piece in &self.pieces {
            let done = (self.acknowledged[place(piece.stream)] + 1).saturating_sub(piece.number);
            let done = piece.records.map_or(done, |records| done.min(records));
            let records = piece.records.map(|records| records - done);
            if records == Some(0) {
                continue;
            }
            let seq = Seq(piece.seq.0 + done);
            again.pieces.push_back(Piece { stream: Stream::BackFill, seq, number, records });
            number += records.unwrap_or_default();
        }
        again
    }

    /// The stream of what is recorded next.
    #[must_use]
    pub fn open_stream(&self) -> Stream {
        self.pieces.back().map_or(Stream::BackFill, |piece| piece.stream)
    }

    /// Whether another piece may begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pieces.len() < PIECES_MAX
    }

    /// What is recorded behind `durable` belongs to another stream. Nothing behind it was offered, and nothing is before this is on the disk.
    pub fn switch(&mut self, stream: Stream, durable: Seq) {
        let seq = durable.next();
        if self.open_stream() == stream {
            return;
        }
        if let Some(open) = self.pieces.back_mut() {
            open.records = Some(open.len(durable));
        }
        let number = self.last(stream, durable) + 1;
        self.pieces.push_back(Piece { stream, seq, number, records: None });
    }

    /// The last number of a stream in a journal that ends with `durable`.
    #[must_use]
    pub fn last(&self, stream: Stream, durable: Seq) -> u64 {
        let of_stream = self.pieces.iter().rev().find(|piece| piece.stream == stream);
        let last = of_stream.map_or(0, |piece| piece.number - 1 + piece.len(durable));
        last.max(self.used[place(stream)])
    }

    /// Where the records from a number on are, as far as they lie together.
    #[must_use]
    pub fn range(&self, stream: Stream, number: u64, durable: Seq) -> Option<Range> {
        let mut pieces = self.pieces.iter().filter(|piece| piece.stream == stream);
        let piece = pieces.find(|piece| piece.len(durable) > 0 && number < piece.number + piece.len(durable))?;
        let number = number.max(piece.number);
        let first = Seq(piece.seq.0 + number - piece.number);
        Some(Range { number, first, last: Seq(piece.seq.0 + piece.len(durable) - 1) })
    }

    /// The centre has all of a stream up to a number; or fewer than it had.
    pub fn set_acknowledged(&mut self, stream: Stream, number: u64) {
        self.acknowledged[place(stream)] = number;
    }

    /// Lets go of pieces that are acknowledged.
    pub fn trim(&mut self) {
        let Self { acknowledged, used, pieces, .. } = self;
        pieces.retain(|piece| {
            let Some(records) = piece.records else { return true };
            let (last, place) = (piece.number - 1 + records, place(piece.stream));
            let stays = last > acknowledged[place];
            if !stays {
                used[place] = used[place].max(last);
            }
            stays
        });
    }

    /// Whether they know records that a journal which ends with `durable` does not have: it is another journal.
    #[must_use]
    pub fn reach_beyond(&self, durable: Seq) -> bool {
        self.pieces.back().is_some_and(|open| {
            let acknowledged = (self.acknowledged[place(open.stream)] + 1).saturating_sub(open.number);
            open.seq.0.saturating_add(acknowledged) > durable.next().0
        })
    }

    /// The first record that is not acknowledged, or comes next.
    #[must_use]
    pub fn wanted(&self, durable: Seq) -> Seq {
        let owed = STREAMS.into_iter().filter_map(|stream| {
            self.range(stream, self.acknowledged[place(stream)] + 1, durable).map(|range| range.first)
        });
        owed.min().unwrap_or(durable.next())
    }

    /// As a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{VERSION}\nepoch {}\n", self.epoch);
        for stream in STREAMS {
            let (acknowledged, used) = (self.acknowledged[place(stream)], self.used[place(stream)]);
            let _ = writeln!(text, "stream {} {acknowledged} {used}", stream.name());
        }
        for Piece { stream, seq, number, records } in &self.pieces {
            let records = records.map_or("-".to_owned(), |records| records.to_string());
            let _ = writeln!(text, "piece {} {} {number} {records}", stream.name(), seq.0);
        }
        text.push_str("end\n");
        text
    }

    /// Reads a file; none where it is not whole.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != VERSION {
            return None;
        }
        let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
        let mut numbers = Self { epoch, pieces: VecDeque::new(), acknowledged: [0; 2], used: [0; 2] };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let stream_of = |name: &str| STREAMS.into_iter().find(|stream| stream.name() == name);
            match words.as_slice() {
                ["stream", stream, acknowledged, used] => {
                    let place = place(stream_of(stream)?);
                    numbers.acknowledged[place] = acknowledged.parse().ok()?;
                    numbers.used[place] = used.parse().ok()?;
                }
                ["piece", stream, seq, number, records] => {
                    let records = if *records == "-" { None } else { Some(records.parse().ok()?) };
                    let (stream, seq) = (stream_of(stream)?, Seq(seq.parse().ok()?));
                    numbers.pieces.push_back(Piece { stream, seq, number: number.parse().ok()?, records });
                }
                ["end"] => return numbers.is_whole().then_some(numbers),
                _ => return None,
            }
        }
        None
    }

    /// Whether the last piece alone is open, and each lies behind the one before it.
    fn is_whole(&self) -> bool {
        let ends = self.pieces.iter().map(|piece| piece.records.map(|records| piece.seq.0.saturating_add(records)));
        let next = self.pieces.iter().skip(1).map(|piece| piece.seq.0);
        let is_ordered = ends.zip(next).all(|(end, next)| end.is_some_and(|end| end <= next));
        let counts_from_1 = self.pieces.iter().all(|piece| piece.number > 0 && piece.seq > Seq(0));
        is_ordered && counts_from_1 && self.pieces.back().is_some_and(|piece| piece.records.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn what_is_owed_at_the_start_is_back_fill_and_what_follows_is_live() {
        let mut numbers = Numbers::begin(7, Seq(41));
        numbers.switch(Stream::Live, Seq(57));
        assert_eq!(numbers.last(Stream::BackFill, Seq(60)), 17);
        assert_eq!(numbers.last(Stream::Live, Seq(60)), 3);
        numbers.switch(Stream::BackFill, Seq(60));
        numbers.switch(Stream::Live, Seq(300));
        assert_eq!(numbers.range(Stream::Live, 2, Seq(302)), Some(Range { number: 2, first: Seq(59), last: Seq(60) }));
        assert_eq!(
            numbers.range(Stream::Live, 4, Seq(302)),
            Some(Range { number: 4, first: Seq(301), last: Seq(302) })
        );
        assert_eq!(numbers.range(Stream::BackFill, 18, Seq(302)).unwrap().first, Seq(61));
        assert_eq!(numbers.range(Stream::Live, 6, Seq(302)), None);
        numbers.set_acknowledged(Stream::BackFill, 20);
        numbers.set_acknowledged(Stream::Live, 3);
        numbers.trim();
        assert_eq!(numbers.wanted(Seq(302)), Seq(64));
        // What was let go of is not there any more.
        assert_eq!(numbers.range(Stream::Live, 1, Seq(302)).unwrap().number, 4);
        assert_eq!(Numbers::of_text(&numbers.to_text()), Some(numbers.clone()));
        assert!(numbers.reach_beyond(Seq(299)) && !numbers.reach_beyond(Seq(300)));
        let again = numbers.begin_again(9);
        assert_eq!(
            again.range(Stream::BackFill, 1, Seq(302)),
            Some(Range { number: 1, first: Seq(64), last: Seq(300) })
        );
        assert_eq!(again.last(Stream::BackFill, Seq(302)), 300 - 63 + 2);
    }

    #[test]
    fn a_file_that_is_not_whole_is_none() {
        let text = Numbers::begin(7, Seq(41)).to_text();
        for end in 0..text.len() - 1 {
            assert_eq!(Numbers::of_text(&text[..end]), None, "{end}");
        }
        assert_eq!(Numbers::of_text(&text.replace("piece backfill 41 1 -", "piece backfill 41 0 -")), None);
    }

    proptest! {
        /// Whatever is switched, let go of and read from the disk: a number is one record, and each record has one.
        #[test]
        fn a_number_is_always_the_same_record(steps in prop::collection::vec((0..4_u8, 0..9_u64), 1..60)) {
            let (mut numbers, mut durable) = (Numbers::begin(1, Seq(1)), Seq(0));
            let mut known: HashMap<(Stream, u64), Seq> = HashMap::new();
            for (step, size) in steps {
                match step {
                    0 | 1 => durable = Seq(durable.0 + size),
                    2 => {
                        let other = match numbers.open_stream() {
                            Stream::Live => Stream::BackFill,
                            Stream::BackFill | Stream::Bulk => Stream::Live,
                        };
                        numbers.switch(other, durable);
                        numbers = Numbers::of_text(&numbers.to_text()).unwrap();
                    }
                    _ => {
                        for stream in STREAMS {
                            numbers.set_acknowledged(stream, numbers.last(stream, durable).saturating_sub(size));
                        }
                        numbers.trim();
                    }
                }
                for stream in STREAMS {
                    let mut next = 1;
                    while let Some(range) = numbers.range(stream, next, durable) {
                        for seq in range.first.0..=range.last.0 {
                            let number = range.number + seq - range.first.0;
                            let before = known.insert((stream, number), Seq(seq));
                            prop_assert!(before.is_none_or(|before| before == Seq(seq)));
                        }
                        next = range.number + range.last.next().since(range.first);
                    }
                }
            }
            let mut records: Vec<u64> = known.values().map(|seq| seq.0).collect();
            records.sort_unstable();
            let count = records.len();
            records.dedup();
            prop_assert_eq!(records.len(), count);
        }
    }
}

//! Rows as an Arrow IPC stream: a schema, dictionaries of topics and qualities, then batches of rows.
//!
//! ```text
//!  +--------------+----------------+- - - - - - -+- - - - -+
//!  | 0xFFFFFFFF   | metadata bytes | metadata    | body    |   each message; the last: 0xFFFFFFFF, 0
//!  +--------------+----------------+- - - - - - -+- - - - -+
//!                                    flatbuffer    buffers, each at a multiple of 8
//! ```
//!
//! Arrow's `Message.fbs` and `Schema.fbs` say which slot of which table has what.

use crate::export::ExportError;
use crate::table::{Table, VALIDITIES};
use crate::{Piece, StoreError};
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, TableFinishedWIPOffset, TableUnfinishedWIPOffset, WIPOffset};
use std::collections::HashMap;
use std::io::{self, Write};
use std::iter;
use tieline_core::{Quality, Topic};

/// Rows of a batch, give or take a piece.
const BATCH_ROWS: usize = 64 * 1024;
const CONTINUED: [u8; 4] = [0xff; 4];
/// Metadata version 5.
const VERSION: i16 = 4;

/// What a message is.
#[derive(Clone, Copy)]
enum Header {
    Schema = 1,
    Dictionary = 2,
    Batch = 3,
}

/// A column's type, by its number in the union.
#[derive(Clone, Copy)]
enum Type {
    Int { bits: i32, is_signed: bool },
    Double,
    Text,
    Time,
}

/// A column of the schema.
struct Column {
    name: &'static str,
    kind: Type,
    is_nullable: bool,
    /// The number of its dictionary, and how many bits an index of it has.
    dictionary: Option<(i64, i32)>,
}

const TOPICS: i64 = 0;
const QUALITIES: i64 = 1;
const COLUMNS: [Column; 7] = [
    Column { name: "topic", kind: Type::Text, is_nullable: false, dictionary: Some((TOPICS, 32)) },
    Column { name: "time", kind: Type::Time, is_nullable: false, dictionary: None },
    Column { name: "value", kind: Type::Double, is_nullable: true, dictionary: None },
    Column { name: "text", kind: Type::Text, is_nullable: true, dictionary: None },
    Column { name: "quality", kind: Type::Text, is_nullable: false, dictionary: Some((QUALITIES, 8)) },
    Column { name: "why", kind: Type::Int { bits: 16, is_signed: false }, is_nullable: false, dictionary: None },
    Column { name: "count", kind: Type::Int { bits: 64, is_signed: true }, is_nullable: false, dictionary: None },
];

/// Writes rows of such topics, and says how many rows.
pub(crate) fn write<W: Write>(
    pieces: impl Iterator<Item = Result<Piece, StoreError>>,
    topics: &[Topic],
    out: &mut W,
) -> Result<u64, ExportError> {
    let numbers: HashMap<&Topic, i32> = topics.iter().zip(0..).collect();
    schema(out)?;
    dictionary(TOPICS, topics.iter().map(|topic| &**topic), out)?;
    dictionary(QUALITIES, VALIDITIES.iter().map(|validity| validity.name()), out)?;
    let (mut table, mut body, mut count) = (Table::default(), Body::default(), 0);
    for piece in pieces {
        let piece = piece?;
        count += piece.rows() as u64;
        table.push(piece);
        if table.is_full(BATCH_ROWS) {
            batch(&table, &numbers, &mut body, out)?;
            table.clear();
        }
    }
    batch(&table, &numbers, &mut body, out)?;
    out.write_all(&CONTINUED)?;
    out.write_all(&[0; 4])?;
    Ok(count)
}

type Builder = FlatBufferBuilder<'static>;
type Finished = WIPOffset<TableFinishedWIPOffset>;

/// Adds the fields of a table.
fn table(builder: &mut Builder, fill: impl FnOnce(&mut Builder)) -> Finished {
    let start: WIPOffset<TableUnfinishedWIPOffset> = builder.start_table();
    fill(builder);
    builder.end_table(start)
}

/// Where a table has its field of that number.
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

fn schema(out: &mut impl Write) -> io::Result<()> {
    let mut builder = Builder::new();
    let fields: Vec<Finished> = COLUMNS.iter().map(|column| field(&mut builder, column)).collect();
    let fields = builder.create_vector(&fields);
    let schema = table(&mut builder, |builder| {
        builder.push_slot_always(slot(0), 0_i16);
        builder.push_slot_always(slot(1), fields);
    });
    message(builder, Header::Schema, schema, &Body::default(), out)
}

fn field(builder: &mut Builder, column: &Column) -> Finished {
    let name = builder.create_string(column.name);
    let (number, kind) = column.kind.put(builder);
    let dictionary = column.dictionary.map(|(id, bits)| {
        let (_, index) = Type::Int { bits, is_signed: true }.put(builder);
        table(builder, |builder| {
            builder.push_slot_always(slot(0), id);
            builder.push_slot_always(slot(1), index);
        })
    });
    let children = builder.create_vector::<ForwardsUOffset<Finished>>(&[]);
    table(builder, |builder| {
        builder.push_slot_always(slot(0), name);
        builder.push_slot_always(slot(1), column.is_nullable);
        builder.push_slot_always(slot(2), number);
        builder.push_slot_always(slot(3), kind);
        if let Some(dictionary) = dictionary {
            builder.push_slot_always(slot(4), dictionary);
        }
        builder.push_slot_always(slot(5), children);
    })
}

impl Type {
    /// The type's number, and its table.
    fn put(self, builder: &mut Builder) -> (u8, Finished) {
        match self {
            Self::Int { bits, is_signed } => {
                let fill = |builder: &mut Builder| {
                    builder.push_slot_always(slot(0), bits);
                    builder.push_slot_always(slot(1), is_signed);
                };
                (2, table(builder, fill))
            }
            Self::Double => (3, table(builder, |builder| builder.push_slot_always(slot(0), 2_i16))),
            Self::Text => (5, table(builder, |_| {})),
            Self::Time => {
                let zone = builder.create_string("UTC");
                let fill = |builder: &mut Builder| {
                    // Microseconds.
                    builder.push_slot_always(slot(0), 2_i16);
                    builder.push_slot_always(slot(1), zone);
                };
                (10, table(builder, fill))
            }
        }
    }
}

/// The buffers of a batch, and what the metadata says of them.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    /// Rows and nulls of each column.
    nodes: Vec<(i64, i64)>,
    /// Place and length of each buffer.
    buffers: Vec<(i64, i64)>,
}

impl Body {
    fn clear(&mut self) {
        self.bytes.clear();
        self.nodes.clear();
        self.buffers.clear();
    }

    fn column(&mut self, rows: usize, nulls: usize) {
        self.nodes.push((length(rows), length(nulls)));
    }

    fn buffer(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        fill(&mut self.bytes);
        self.buffers.push((length(start), length(self.bytes.len() - start)));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Which rows have a value; nothing where all have.
    fn validity(&mut self, is_there: impl ExactSizeIterator<Item = bool>) {
        let (rows, mut bits) = (is_there.len(), vec![0_u8; is_there.len().div_ceil(8)]);
        let mut there = 0;
        for (row, _) in is_there.enumerate().filter(|(_, is_there)| *is_there) {
            bits.get_mut(row / 8).into_iter().for_each(|bits| *bits |= 1 << (row % 8));
            there += 1;
        }
        self.column(rows, rows - there);
        self.buffer(|out| out.extend(if there == rows { Vec::new() } else { bits }));
    }

    fn no_nulls(&mut self, rows: usize) {
        self.column(rows, 0);
        self.buffer(|_| {});
    }

    /// As many numbers as there are rows.
    fn numbers<const N: usize>(&mut self, rows: usize, numbers: impl Iterator<Item = [u8; N]>) {
        self.buffer(|out| {
            let start = out.len();
            out.resize(start + rows * N, 0);
            let (room, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut();
            room.iter_mut().zip(numbers).for_each(|(room, number)| *room = number);
        });
    }

    /// Texts: where each ends, and all of them together.
    fn texts<'t>(&mut self, texts: impl ExactSizeIterator<Item = &'t str> + Clone) {
        let mut end: i32 = 0;
        let ends = texts.clone().map(|text| {
            end = end.saturating_add(i32::try_from(text.len()).unwrap_or(i32::MAX));
            end.to_le_bytes()
        });
        self.numbers(texts.len() + 1, iter::once([0; 4]).chain(ends));
        self.buffer(|out| texts.for_each(|text| out.extend(text.as_bytes())));
    }

    /// The table of the metadata.
    fn put(&self, builder: &mut Builder) -> Finished {
        let rows = self.nodes.first().map_or(0, |(rows, _)| *rows);
        let (nodes, buffers) = (pairs(builder, &self.nodes), pairs(builder, &self.buffers));
        table(builder, |builder| {
            builder.push_slot_always(slot(0), rows);
            builder.push_slot_always(slot(1), nodes);
            builder.push_slot_always(slot(2), buffers);
        })
    }
}

/// A vector of structs of two integers.
fn pairs(builder: &mut Builder, pairs: &[(i64, i64)]) -> WIPOffset<flatbuffers::Vector<'static, i64>> {
    builder.start_vector::<i64>(2 * pairs.len());
    for (one, other) in pairs.iter().rev() {
        builder.push(*other);
        builder.push(*one);
    }
    builder.end_vector(pairs.len())
}

fn dictionary<'t>(
    number: i64,
    texts: impl ExactSizeIterator<Item = &'t str> + Clone,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut body = Body::default();
    body.no_nulls(texts.len());
    body.texts(texts);
    let mut builder = Builder::new();
    let data = body.put(&mut builder);
    let header = table(&mut builder, |builder| {
        builder.push_slot_always(slot(0), number);
        builder.push_slot_always(slot(1), data);
    });
    message(builder, Header::Dictionary, header, &body, out)
}

/// Writes rows; the body is room for them.
fn batch(rows: &Table, numbers: &HashMap<&Topic, i32>, body: &mut Body, out: &mut impl Write) -> io::Result<()> {
    let count = rows.rows();
    if count == 0 {
        return Ok(());
    }
    body.clear();
    let number = |topic: &Topic| numbers.get(topic).copied().unwrap_or(-1).to_le_bytes();
    body.no_nulls(count);
    body.numbers(count, rows.topics.iter().flat_map(|(topic, times)| iter::repeat_n(number(topic), *times)));
    body.no_nulls(count);
    body.numbers(count, rows.times.iter().map(|time| time.to_le_bytes()));
    body.validity(rows.value_there.iter().copied());
    body.numbers(count, rows.values.iter().map(|value| value.to_le_bytes()));
    let mut texts = vec![None; count];
    for (row, text) in &rows.texts {
        texts.get_mut(*row).into_iter().for_each(|place| *place = Some(text.as_str()));
    }
    body.validity(texts.iter().map(Option::is_some));
    body.texts(texts.iter().map(|text| text.unwrap_or_default()));
    let place = |quality: &Quality| VALIDITIES.iter().zip(0_u8..).find(|(of, _)| **of == quality.validity());
    let place = |quality: &Quality| [place(quality).map_or(0, |(_, place)| place)];
    body.no_nulls(count);
    body.numbers(count, rows.qualities.iter().flat_map(|(quality, times)| iter::repeat_n(place(quality), *times)));
    let reasons = |quality: &Quality| quality.reason_bits().to_le_bytes();
    body.no_nulls(count);
    body.numbers(count, rows.qualities.iter().flat_map(|(quality, times)| iter::repeat_n(reasons(quality), *times)));
    body.no_nulls(count);
    body.numbers(count, rows.counts.iter().map(|count| count.to_le_bytes()));
    let mut builder = Builder::new();
    let header = body.put(&mut builder);
    message(builder, Header::Batch, header, body, out)
}

fn message(mut builder: Builder, kind: Header, header: Finished, body: &Body, out: &mut impl Write) -> io::Result<()> {
    let root = table(&mut builder, |builder| {
        builder.push_slot_always(slot(0), VERSION);
        builder.push_slot_always(slot(1), kind as u8);
        builder.push_slot_always(slot(2), header);
        builder.push_slot_always(slot(3), length(body.bytes.len()));
    });
    builder.finish_minimal(root);
    let metadata = builder.finished_data();
    // The body begins at a multiple of 8.
    let padded = metadata.len().next_multiple_of(8);
    out.write_all(&CONTINUED)?;
    out.write_all(&i32::try_from(padded).unwrap_or(i32::MAX).to_le_bytes())?;
    out.write_all(metadata)?;
    out.write_all(PADDING.get(..padded - metadata.len()).unwrap_or_default())?;
    out.write_all(&body.bytes)
}

const PADDING: [u8; 8] = [0; 8];

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

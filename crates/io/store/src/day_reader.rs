//! Samples of a day file, read by where they are.

use crate::StoreError;
use crate::day_file::{
    BITS, BOOL, BYTES, DayPlace, FLOAT, Fields, INT, INTEGER, KIND, NULL, TEXT, TIME, TOPIC, VALUE, guarded, io,
};
use crate::day_pages::Pages;
use bytes::Bytes;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// A day file that is read. Who reads it forward, place by place, has each page decoded once.
pub struct DayFile {
    pages: Pages,
    times: Forward<Int64Type>,
    values: Forward<DoubleType>,
    integers: Forward<Int64Type>,
    texts: Forward<ByteArrayType>,
    others: Forward<ByteArrayType>,
    kinds: Forward<Int32Type>,
    bits: Forward<Int32Type>,
}

impl DayFile {
    /// Opens the file; none where it is not there.
    ///
    /// # Errors
    /// It is damaged, or the folder failed.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self::new(guarded(|| Pages::new(file))?))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io(error)),
        }
    }

    const fn new(pages: Pages) -> Self {
        Self {
            pages,
            times: Forward::new(TIME),
            values: Forward::new(VALUE),
            integers: Forward::new(INTEGER),
            texts: Forward::new(TEXT),
            others: Forward::new(BYTES),
            kinds: Forward::new(KIND),
            bits: Forward::new(BITS),
        }
    }

    /// The samples at a place.
    ///
    /// # Errors
    /// The file is damaged, or failed.
    pub fn read(&mut self, place: DayPlace) -> Result<Fields, StoreError> {
        guarded(|| self.fields(place))
    }

    /// The topics, each with where its samples are, in the order of the file: pieces of `rows_max` rows at most.
    ///
    /// # Errors
    /// The file is damaged, or failed.
    pub fn topics(&self, rows_max: usize) -> Result<Vec<(String, DayPlace)>, StoreError> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut found = Vec::new();
        for group in 0..self.pages.groups() {
            let names = guarded(|| self.names(number(group)))?;
            let mut row = 0;
            for run in names.chunk_by(|one, next| one == next) {
                for piece in run.chunks(rows_max.max(1)) {
                    let place = DayPlace { group: number(group), row: number(row), rows: number(piece.len()) };
                    let name = piece.first().map(|name| String::from_utf8_lossy(name.data()).into_owned());
                    found.push((name.unwrap_or_default(), place));
                    row += piece.len();
                }
            }
        }
        Ok(found)
    }

    fn names(&self, group: u32) -> Result<Vec<ByteArray>, ParquetError> {
        let rows = u32::try_from(self.pages.rows(group)?).unwrap_or(u32::MAX);
        Ok(Forward::<ByteArrayType>::new(TOPIC).records(&self.pages, DayPlace { group, row: 0, rows })?.0)
    }

    fn fields(&mut self, place: DayPlace) -> Result<Fields, ParquetError> {
        let pages = &self.pages;
        let (times, _) = self.times.records(pages, place)?;
        let (kinds, _) = self.kinds.records(pages, place)?;
        let (bits, _) = self.bits.records(pages, place)?;
        let (kinds, qualities) = (runs(&kinds), runs(&bits));
        let has = |wanted: fn(u8) -> bool| kinds.iter().any(|(kind, _)| wanted(*kind));
        let (mut values, mut integers, mut texts, mut others) =
            (Vec::new(), Vec::new(), Blobs::default(), Blobs::default());
        if has(|kind| kind <= BOOL) {
            (values, _) = self.values.records(pages, place)?;
        }
        if has(|kind| kind == INT) {
            (integers, _) = self.integers.records(pages, place)?;
        }
        if has(|kind| kind > BOOL && kind != NULL) {
            texts = Blobs::new(self.texts.records(pages, place)?);
            others = Blobs::new(self.others.records(pages, place)?);
        }
        join(times, kinds, qualities, values, integers, (texts, others))
    }
}

/// Values of a column by row, where there are some.
#[derive(Default)]
struct Blobs {
    values: std::vec::IntoIter<ByteArray>,
    there: Vec<i16>,
}

impl Blobs {
    fn new((values, there): (Vec<ByteArray>, Vec<i16>)) -> Self {
        Self { values: values.into_iter(), there }
    }

    fn at(&mut self, row: usize) -> Option<Bytes> {
        let is_there = self.there.get(row).is_some_and(|level| *level > 0);
        self.values.by_ref().take(usize::from(is_there)).next().map(|blob| Bytes::copy_from_slice(blob.data()))
    }
}

fn join(
    times: Vec<i64>,
    kinds: Vec<(u8, usize)>,
    qualities: Vec<(u16, usize)>,
    values: Vec<f64>,
    exact: Vec<i64>,
    (mut texts, mut others): (Blobs, Blobs),
) -> Result<Fields, ParquetError> {
    let damaged = || ParquetError::General("columns of a day file do not fit together".to_owned());
    let rows: usize = kinds.iter().map(|(_, count)| count).sum();
    if rows != times.len() || qualities.iter().map(|(_, count)| count).sum::<usize>() != rows {
        return Err(damaged());
    }
    let is_all_floats = kinds.iter().all(|(kind, _)| *kind == FLOAT);
    if is_all_floats {
        let fits = values.len() == rows;
        let fields = Fields { times, kinds, qualities, floats: values, ..Fields::default() };
        return if fits { Ok(fields) } else { Err(damaged()) };
    }
    let (mut floats, mut integers, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut exact, mut row) = (values.as_slice(), exact.as_slice(), 0);
    for (kind, count) in &kinds {
        // Every number has a double.
        let doubles = if *kind <= BOOL { values.split_off(..*count).ok_or_else(damaged)? } else { &[] };
        match *kind {
            FLOAT => floats.extend_from_slice(doubles),
            INT => integers.extend_from_slice(exact.split_off(..*count).ok_or_else(damaged)?),
            BOOL => integers.extend(doubles.iter().map(|value| i64::from(*value != 0.0))),
            NULL => {}
            _ => {
                for row in row..row + count {
                    let (text, other) = (texts.at(row), others.at(row));
                    blobs.push(text.or(other).ok_or_else(damaged)?);
                }
            }
        }
        row += count;
    }
    Ok(Fields { times, kinds, qualities, floats, integers, blobs })
}

fn runs<T: TryFrom<i32> + Copy + PartialEq + Default>(values: &[i32]) -> Vec<(T, usize)> {
    let runs = values.chunk_by(|one, next| one == next);
    let first = |run: &[i32]| run.first().and_then(|value| T::try_from(*value).ok()).unwrap_or_default();
    runs.map(|run| (first(run), run.len())).collect()
}

/// A column that is read forward: its reader is kept, with the page that it is in.
struct Forward<T: DataType> {
    column: usize,
    open: Option<Open<T>>,
}

struct Open<T: DataType> {
    reader: ColumnReaderImpl<T>,
    group: u32,
    /// The row of the row group that comes next.
    row: u32,
}

impl<T: DataType> Forward<T> {
    const fn new(column: usize) -> Self {
        Self { column, open: None }
    }

    /// The values at a place, and which rows have one.
    fn records(&mut self, pages: &Pages, place: DayPlace) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
        let DayPlace { group, row, rows } = place;
        let too_early = || ParquetError::General("a day file ends too early".to_owned());
        // One that fails is not kept.
        let mut open = match self.open.take().filter(|open| open.group == group && open.row <= row) {
            Some(open) => open,
            None => Open { reader: reader(pages, group, self.column)?, group, row: 0 },
        };
        let skipped = (row - open.row) as usize;
        if open.reader.skip_records(skipped)? != skipped {
            return Err(too_early());
        }
        let rows = rows as usize;
        let (mut values, mut levels, mut read) = (Vec::with_capacity(rows), Vec::with_capacity(rows), 0);
        while read < rows {
            let (records, ..) = open.reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
            if records == 0 {
                return Err(too_early());
            }
            read += records;
        }
        open.row = place.row.saturating_add(place.rows);
        self.open = Some(open);
        Ok((values, levels))
    }
}

fn reader<T: DataType>(pages: &Pages, group: u32, column: usize) -> Result<ColumnReaderImpl<T>, ParquetError> {
    let other = || ParquetError::General("a column of a day file has another type".to_owned());
    T::get_column_reader(pages.column(group, column)?).ok_or_else(other)
}

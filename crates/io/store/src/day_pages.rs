//! The pages of a day file, read from where they are: those before them cost nothing.

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::page_index::index_reader::decode_offset_index;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// The pages of a file, and where those of the row group are that was read last.
pub(crate) struct Pages {
    file: Arc<PlacedFile>,
    metadata: ParquetMetaData,
    found: RefCell<Found>,
}

/// Where the pages of a row group are, by column; none where that was not looked up, or the file does not say it.
#[derive(Default)]
struct Found {
    group: u32,
    columns: Vec<Option<Vec<PageLocation>>>,
}

impl Pages {
    pub(crate) fn new(file: File) -> Result<Self, ParquetError> {
        let file = PlacedFile { length: file.metadata()?.len(), file: Arc::new(file) };
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
        Ok(Self { file: Arc::new(file), metadata, found: RefCell::default() })
    }

    /// How many row groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// How many rows a row group has.
    pub(crate) fn rows(&self, group: u32) -> Result<usize, ParquetError> {
        Ok(usize::try_from(self.group(group)?.num_rows()).unwrap_or(0))
    }

    /// Values of a column, from the first row of a row group on.
    pub(crate) fn column(&self, group: u32, column: usize) -> Result<ColumnReader, ParquetError> {
        let chunk = self.group(group)?.columns().get(column).ok_or_else(|| absent("column", column))?;
        let pages = self.locations(group, column, chunk)?;
        let reader = SerializedPageReader::new(Arc::clone(&self.file), chunk, self.rows(group)?, pages)?;
        Ok(get_column_reader(chunk.column_descr_ptr(), Box::new(reader)))
    }

    fn group(&self, group: u32) -> Result<&RowGroupMetaData, ParquetError> {
        self.metadata.row_groups().get(group as usize).ok_or_else(|| absent("row group", group as usize))
    }

    fn locations(
        &self,
        group: u32,
        column: usize,
        chunk: &ColumnChunkMetaData,
    ) -> Result<Option<Vec<PageLocation>>, ParquetError> {
        let mut found = self.found.borrow_mut();
        if found.group != group || found.columns.is_empty() {
            *found = Found { group, columns: vec![None; self.metadata.file_metadata().schema_descr().num_columns()] };
        }
        let Some(known) = found.columns.get_mut(column) else { return Ok(None) };
        if known.is_none()
            && let (Some(offset), Some(length)) = (chunk.offset_index_offset(), chunk.offset_index_length())
        {
            let (offset, length) = (u64::try_from(offset)?, usize::try_from(length)?);
            *known = Some(decode_offset_index(&self.file.get_bytes(offset, length)?)?.page_locations);
        }
        Ok(known.clone())
    }
}

fn absent(what: &str, number: usize) -> ParquetError {
    ParquetError::General(format!("a day file has no {what} {number}"))
}

/// A file that is read by place, so that no reader moves another.
struct PlacedFile {
    file: Arc<File>,
    length: u64,
}

impl Length for PlacedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for PlacedFile {
    type T = BufReader<FromPlace>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(FromPlace { file: Arc::clone(&self.file), place: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Before memory is taken: a damaged file may say any length.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            let (end, length) = (self.length, length);
            return Err(ParquetError::EOF(format!("a day file has {end} bytes, expected {length} from {start} on")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// Bytes of a file from a place on.
struct FromPlace {
    file: Arc<File>,
    place: u64,
}

impl Read for FromPlace {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(bytes, self.place)?;
        self.place += count as u64;
        Ok(count)
    }
}

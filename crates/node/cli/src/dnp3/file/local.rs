//! The files on this side.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tieline_dnp3::DnpTime;
use tieline_dnp3::outstation::FileEntry;

/// Where a file that is read goes.
#[derive(Debug)]
pub struct Target {
    file: File,
    part: PathBuf,
    to: PathBuf,
    bytes: u64,
    /// What the outstation said of its size.
    size: Option<u32>,
}

impl Target {
    /// Beside `to`: what is there of this very file, or an empty one.
    pub fn open(to: &Path, entry: Option<&FileEntry>, restart: bool) -> Result<Self> {
        let name = to.file_name().and_then(|name| name.to_str()).context("where to store the file is no name")?;
        let version = entry.map_or("unknown".to_owned(), |e| format!("{}-{}", e.size, e.created.millis()));
        let part = to.with_file_name(format!(".{name}.{version}.part"));
        let wrong = || format!("cannot write {}", part.display());
        let fresh = restart || entry.is_none();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(fresh).open(&part).with_context(wrong)?;
        let bytes = file.metadata().with_context(wrong)?.len();
        Ok(Self { file, part, to: to.to_owned(), bytes, size: entry.map(|entry| entry.size) })
    }

    /// Bytes that are there.
    pub fn offset(&self) -> u32 {
        u32::try_from(self.bytes).unwrap_or(0)
    }

    /// Stores a block; what is behind its beginning was stored before, and goes.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        anyhow::ensure!(offset <= self.bytes, "the outstation left bytes out before {offset}");
        if offset < self.bytes {
            self.file.set_len(offset)?;
        }
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.part.display()))?;
        self.bytes = offset + u64::try_from(bytes.len())?;
        Ok(())
    }

    /// Takes its place, once it is whole.
    pub fn finish(self) -> Result<()> {
        if let Some(size) = self.size
            && u64::from(size) != self.bytes
        {
            let _ = std::fs::remove_file(&self.part);
            anyhow::bail!("the file has {} bytes, {size} were expected: it changed while it was read", self.bytes);
        }
        self.file.sync_all()?;
        std::fs::rename(&self.part, &self.to).with_context(|| format!("cannot write {}", self.to.display()))
    }

    /// An empty part is of no use.
    pub fn leave(self) {
        if self.bytes == 0 || self.size.is_none() {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Where a file that is written comes from.
#[derive(Debug)]
pub struct Source {
    file: File,
    /// Bytes when it was opened.
    pub size: u32,
    /// When it was changed last.
    pub created: DnpTime,
}

impl Source {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let metadata = file.metadata()?;
        anyhow::ensure!(metadata.is_file(), "{} is no file", path.display());
        let size = u32::try_from(metadata.len()).ok().filter(|size| *size != u32::MAX);
        let size = size.with_context(|| format!("{} is longer than 4 GB", path.display()))?;
        let age = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let created = DnpTime::from_millis(u64::try_from(age.as_millis()).unwrap_or(0));
        Ok(Self { file, size, created })
    }

    /// The next block, and whether it is the last: never more than the size that was told.
    pub fn block(&mut self, offset: u64, bytes_max: u16) -> Result<(Vec<u8>, bool)> {
        let left = u64::from(self.size).saturating_sub(offset);
        let bytes = u64::from(bytes_max).min(left);
        let mut block = Vec::new();
        (&mut self.file).take(bytes).read_to_end(&mut block)?;
        anyhow::ensure!(u64::try_from(block.len())? == bytes, "the file became shorter while it was sent");
        Ok((block, bytes == left))
    }
}

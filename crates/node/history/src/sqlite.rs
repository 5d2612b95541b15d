//! The embedded store: SQLite, in a file of the data folder.

use crate::store::{Store, StoreError};
use std::path::Path;
use tieline_core::Timestamp;
use tieline_journal::Seq;
use tieline_store::{Retained, Retention, STORE_FILE, Sample};

/// The writing side of a SQLite file.
pub(crate) struct Sqlite(tieline_store::Store);

impl Store for Sqlite {
    fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self(tieline_store::Store::open(&data.join(STORE_FILE))?))
    }

    fn position(&self) -> Result<Seq, StoreError> {
        Ok(Seq(self.0.position()?))
    }

    fn append(&mut self, samples: &[Sample], upto: Seq) -> Result<bool, StoreError> {
        Ok(self.0.insert(samples, upto.0)?)
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp, rows_max: u64) -> Result<Retained, StoreError> {
        Ok(self.0.retain(retention, now, rows_max)?)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        Ok(self.0.bytes()?)
    }
}

impl From<tieline_store::StoreError> for StoreError {
    fn from(error: tieline_store::StoreError) -> Self {
        use tieline_store::StoreError::{Damaged, Failed, Full, Newer, Question};
        match &error {
            Full => Self::Full(error.into()),
            Newer(..) => Self::Newer(error.into()),
            Question(_) | Damaged(_) | Failed(_) => Self::Failed(error.into()),
        }
    }
}

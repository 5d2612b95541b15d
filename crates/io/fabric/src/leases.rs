//! Values of which each change has a higher revision, and is made only by who knows the last one.

use crate::log::of_jetstream;
use crate::{Fabric, FabricError};
use async_nats::jetstream::kv::{Config, EntryErrorKind, Operation, Store, UpdateErrorKind};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::fmt;

/// The leases of one bucket.
#[derive(Clone, Debug)]
pub struct Leases {
    store: Store,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Of the bucket: each change of any key has a higher one.
    pub revision: u64,
    /// What its holder wrote.
    pub value: Bytes,
}

/// Why a lease is not known to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseError {
    /// It has another revision than the caller knew: it was not written.
    Changed,
    /// No answer, or an election: it may be written, or be yet.
    Unknown(String),
    /// The key is none.
    Misused(String),
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("the lease has another revision"),
            Self::Unknown(words) => write!(f, "it is not known whether the lease is written: {words}"),
            Self::Misused(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for LeaseError {}

impl Fabric {
    /// Opens a bucket of leases, or makes it where there is none.
    ///
    /// # Errors
    /// The servers do not answer, or refuse.
    pub async fn leases(&self, bucket: &str, replicas: usize) -> Result<Leases, FabricError> {
        let config = Config { bucket: bucket.to_owned(), history: 1, num_replicas: replicas, ..Config::default() };
        let store = self.jetstream.create_key_value(config).await;
        let store = store.map_err(|error| {
            let source = std::error::Error::source(&error);
            let cause = source.and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
            cause.map_or_else(|| FabricError::Away(error.to_string()), of_jetstream)
        })?;
        Ok(Leases { store })
    }
}

impl Leases {
    /// A lease, none where it was never written. It may be an earlier one: a write says whether it was.
    ///
    /// # Errors
    /// The servers do not answer, or the key is none.
    pub async fn read(&self, key: &str) -> Result<Option<Lease>, FabricError> {
        let entry = self.store.entry(key.to_owned()).await.map_err(|error| match error.kind() {
            EntryErrorKind::InvalidKey => FabricError::Misused(error.to_string()),
            EntryErrorKind::TimedOut | EntryErrorKind::Other => FabricError::Away(error.to_string()),
        })?;
        Ok(entry.map(|entry| Lease { revision: entry.revision, value: entry.value }))
    }

    /// Writes a lease, only where it has the revision `expected`; none: where it was never written. Returns its new revision.
    ///
    /// # Errors
    /// It is not written, or that is not known.
    pub async fn write(&self, key: &str, value: Bytes, expected: Option<u64>) -> Result<u64, LeaseError> {
        let written = self.store.update(key, value, expected.unwrap_or(0)).await;
        written.map_err(|error| match error.kind() {
            UpdateErrorKind::WrongLastRevision => LeaseError::Changed,
            UpdateErrorKind::InvalidKey => LeaseError::Misused(error.to_string()),
            UpdateErrorKind::TimedOut | UpdateErrorKind::Other => LeaseError::Unknown(error.to_string()),
        })
    }

    /// Watches a lease from its current value on.
    ///
    /// # Errors
    /// The servers do not answer, or the key is none.
    pub async fn watch(&self, key: &str) -> Result<Watch, FabricError> {
        let watch = self.store.watch_with_history(key).await;
        watch.map(Watch).map_err(|error| FabricError::Away(error.to_string()))
    }
}

/// Changes of a lease.
pub struct Watch(async_nats::jetstream::kv::Watch);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// The next value.
    ///
    /// # Errors
    /// The watch must be made again.
    pub async fn next(&mut self) -> Result<Lease, FabricError> {
        loop {
            let ended = || FabricError::Away("the watch has ended".into());
            let entry = self.0.next().await.ok_or_else(ended)?;
            let entry = entry.map_err(|error| FabricError::Away(error.to_string()))?;
            match entry.operation {
                Operation::Put => return Ok(Lease { revision: entry.revision, value: entry.value }),
                // Nobody of ours deletes a lease: its revisions would begin again with nothing.
                Operation::Delete | Operation::Purge => {}
            }
        }
    }
}

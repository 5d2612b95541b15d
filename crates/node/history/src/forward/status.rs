//! How a database is doing, for health and metrics.

use crate::running::RunningInstant;
use std::time::Duration;
use tieline_journal::Seq;

/// A snapshot. Counts begin with the process.
#[derive(Clone, Debug, Default)]
pub struct DatabaseStatus {
    /// Its name here.
    pub name: String,
    /// What it is, in a word.
    pub kind: &'static str,
    /// Why nothing is written; none while it is.
    pub trouble: Option<String>,
    /// For how long nothing has been written because of it.
    pub away: Duration,
    /// The last journal record that it has; none while that is not known.
    pub position: Option<Seq>,
    /// Journal records that wait for it; none while its position is not known.
    pub backlog_records: Option<u64>,
    /// Samples written.
    pub written_points: u64,
    /// Batches written.
    pub batches: u64,
    /// Samples that it has no place for.
    pub skipped_points: u64,
    /// Samples that it refused for their values.
    pub rejected_points: u64,
    /// Journal records that were gone, or could not be read, when their turn came.
    pub missing_records: u64,
    /// Journal records that were given up while it was away, and are not counted as missing yet.
    pub given_up_records: u64,
    /// Connections made.
    pub connects: u64,
    /// Attempts to connect or to write that failed.
    pub failures: u64,
    /// How long the last batch took.
    pub last_batch: Duration,
}

/// What a forwarder notes for others.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForwardNotes {
    pub(crate) status: DatabaseStatus,
    /// Since when nothing was written.
    pub(crate) away_since: Option<RunningInstant>,
    /// The first journal record that it wants.
    pub(crate) wanted: Seq,
}

impl ForwardNotes {
    /// A snapshot beside a journal that has the records from `first` to `durable`.
    pub(crate) fn look(&self, first: Seq, durable: Seq) -> DatabaseStatus {
        let next = self.status.position.map(Seq::next);
        DatabaseStatus {
            away: self.away_since.map(RunningInstant::elapsed).unwrap_or_default(),
            backlog_records: next.map(|next| durable.next().since(next)),
            given_up_records: next.map_or(0, |next| first.since(next)),
            ..self.status.clone()
        }
    }
}

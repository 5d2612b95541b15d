//! What came of the reloads of a node.

use crate::field::ChangeCounts;
use tieline_core::Timestamp;

/// What came of the reloads of a node, since its start.
#[derive(Clone, Debug, Default)]
pub struct ReloadStatus {
    /// Reloads that were carried out.
    pub done: u64,
    /// Reloads that were refused: nothing had changed then.
    pub refused: u64,
    /// Devices that were touched, of all reloads; of those that were not, what the last one counted.
    pub counts: ChangeCounts,
    /// Devices of the table that could not be started, with the reason.
    pub not_started: Vec<NotStarted>,
    /// Settings of the file that hold after a restart only.
    pub restart_needed: Vec<&'static str>,
    /// Why the last reload was refused; none where it was not.
    pub error: Option<(Timestamp, String)>,
}

/// A device that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// Its name in the file.
    pub name: String,
    /// Why.
    pub why: String,
}

impl ReloadStatus {
    /// What a person should see to; the node does its work.
    #[must_use]
    pub fn trouble(&self) -> Vec<String> {
        let mut trouble = Vec::new();
        if let Some((at, error)) = &self.error {
            let first = error.lines().next().unwrap_or_default();
            trouble.push(format!("reload: the configuration of {at} was refused, and nothing has changed: {first}"));
        }
        for NotStarted { name, why } in &self.not_started {
            trouble.push(format!("reload: device.{name} could not be started: {why}"));
        }
        if !self.restart_needed.is_empty() {
            trouble.push(format!("reload: restart needed for {}", self.restart_needed.join(", ")));
        }
        trouble
    }
}

//! A bus that nobody else uses, for tests of one of its parts.

use super::handle::{BusHandle, Incoming};
use super::state::Bus;
use crate::config;
use crate::control::Commands;
use crate::control::audit::AuditLog;
use crate::history::Recorder;
use std::collections::HashSet;
use std::sync::Arc;
use tempfile::TempDir;
use tieline_net::{Clock, Shard};
use tieline_topics::Limits;

/// A bus without devices, history and doors, and what has to stay while it does.
pub fn alone() -> (Bus, (Incoming, TempDir)) {
    let folder = tempfile::tempdir().unwrap();
    let config = config::from_text("node.toml", "", folder.path()).unwrap();
    let (handle, incoming) = BusHandle::new();
    let audit = AuditLog::start(folder.path(), config.audit).unwrap();
    let commands = Commands::new(&config, [], audit, handle.tells()).unwrap();
    let recorder = Recorder::new(&config.history, None, HashSet::new(), handle.stored());
    let shard = Shard::new(Clock::start(), Arc::default());
    (Bus::new(&shard, Limits::default(), recorder, commands), (incoming, folder))
}

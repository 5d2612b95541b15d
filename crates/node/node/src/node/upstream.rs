//! The parts of an edge, where the node is one: its thread, and its place on the bus.

use super::StartError;
use crate::bus::{BusHandle, Mirror};
use crate::config::EdgeConfig;
use crate::edge::{EdgeHandle, EdgeInput, EdgeThread, GivenWay, Way, run_here};
use std::rc::Rc;
use tieline_net::{Clock, Shard};
use tokio::sync::mpsc;

/// An edge that has not started.
pub(super) struct EdgeParts {
    config: EdgeConfig,
    handle: EdgeHandle,
    asked: mpsc::Receiver<EdgeInput>,
}

impl EdgeParts {
    /// The parts, where the configuration has an upstream.
    pub(super) fn of(config: &Option<EdgeConfig>) -> Option<Self> {
        let config = config.clone()?;
        let (handle, asked) = EdgeHandle::new();
        Some(Self { config, handle, asked })
    }

    /// What the bus has of it.
    pub(super) fn mirror(&self) -> Mirror {
        let EdgeConfig { topics, keep, linger, .. } = &self.config;
        Mirror::new(topics.clone(), keep, *linger, self.handle.clone())
    }

    /// Starts the thread; its news goes to the bus.
    pub(super) fn start(self, clock: Clock, bus: &BusHandle) -> Result<EdgeThread, StartError> {
        let Self { config, handle, asked } = self;
        let [_, monitoring, _] = bus.lanes();
        EdgeThread::start(&config, clock, &handle, asked, monitoring).map_err(StartError::Thread)
    }

    /// The same as a task of the present thread, over connections that it is given.
    pub(super) fn start_here(self, shard: &Rc<Shard>, bus: &BusHandle, way: GivenWay) {
        let Self { config, handle, asked } = self;
        let [_, monitoring, _] = bus.lanes();
        run_here(Rc::clone(shard), (&config, Way::Given(way)), &handle, asked, monitoring);
    }
}

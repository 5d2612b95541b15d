//! The parts of an edge, where the node is one: a thread for each session, and their places on the bus.

use super::StartError;
use crate::bus::{BusHandle, BusInput, Mirror};
use crate::config::{EdgeConfig, Priority, UpstreamConfig};
use crate::edge::{EdgeHandle, EdgeInput, EdgeLink, EdgeThread, GivenWay, Way, node_of, run_here};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard};
use tokio::sync::mpsc;

/// An edge that has not started.
pub(super) struct EdgeParts {
    links: Vec<(EdgeLink, EdgeHandle, mpsc::Receiver<EdgeInput>)>,
    linger: Duration,
    sockets: Arc<Counters>,
}

impl EdgeParts {
    /// The parts, where the configuration has upstreams; the number is one that no other node has.
    pub(super) fn of(config: &Option<EdgeConfig>, number: u64) -> Option<Self> {
        let EdgeConfig { node_name, upstreams, linger, retry_max, window, silence } = config.clone()?;
        let node = node_of(&node_name, number);
        let sockets = Arc::<Counters>::default();
        let link = |(at, (upstream, priority))| {
            let (handle, asked) = EdgeHandle::new(&sockets);
            // What is urgent waits for nothing.
            let window = if priority == Priority::Protection { Duration::ZERO } else { window };
            (EdgeLink { at, upstream, priority, node: node.clone(), retry_max, window, silence }, handle, asked)
        };
        let links = upstreams.iter().flat_map(UpstreamConfig::sessions).enumerate().map(link).collect();
        Some(Self { links, linger, sockets })
    }

    /// What the sockets of all upstreams count.
    pub(super) fn sockets(&self) -> Arc<Counters> {
        Arc::clone(&self.sockets)
    }

    /// What the bus has of them.
    pub(super) fn mirrors(&self) -> Vec<Mirror> {
        let mirror = |(link, handle, _): &(EdgeLink, EdgeHandle, _)| {
            Mirror::new(&link.upstream, &link.node, self.linger, handle.clone())
        };
        self.links.iter().map(mirror).collect()
    }

    /// Starts the threads; their news go to the bus.
    pub(super) fn start(self, clock: Clock, bus: &BusHandle) -> Result<Vec<EdgeThread>, StartError> {
        let lanes = bus.lanes();
        let start = |(link, handle, asked): (EdgeLink, EdgeHandle, _)| {
            let lane = lane_of(&lanes, &link);
            EdgeThread::start(link, clock, &handle, asked, lane)
        };
        self.links.into_iter().map(start).collect::<Result<_, _>>().map_err(StartError::Thread)
    }

    /// The same as tasks of the present thread, over connections that they are given.
    pub(super) fn start_here(self, shard: &Rc<Shard>, bus: &BusHandle, way: &GivenWay) {
        let lanes = bus.lanes();
        for (link, handle, asked) in self.links {
            let lane = lane_of(&lanes, &link);
            run_here(Rc::clone(shard), (link, Way::Given(way.clone())), &handle, asked, lane);
        }
    }
}

/// What takes the news of a session.
fn lane_of([protection, monitoring, bulk]: &[mpsc::Sender<BusInput>; 3], link: &EdgeLink) -> mpsc::Sender<BusInput> {
    match link.priority {
        Priority::Protection => protection.clone(),
        Priority::Monitoring => monitoring.clone(),
        Priority::Bulk => bulk.clone(),
    }
}

//! The part of a node that is joined to others as a site or as the centre, where it is.

use super::StartError;
use crate::bus::{Bus, BusHandle, CentreRights, JoinedSites, SiteCalls, way_to_sites};
use crate::config::Config;
use crate::history::Joined;
use crate::sites::{CallToSite, Role, SitesBoard, SitesParts, SitesThread};
use std::path::Path;
use std::sync::Arc;
use tieline_history::{HistorySource, SITES_FOLDER};
use tieline_net::Clock;
use tokio::sync::mpsc;

/// Records of a site are at most so long, roughly: a batch must take each.
const SITE_RECORD_BYTES: usize = 512 << 10;
/// The same of a node that is none.
const RECORD_BYTES: usize = 1 << 20;
/// The journal of a centre keeps records until their marks are written, which takes a second: more than enough for that.
const CENTRE_KEPT_BYTES: u64 = 1 << 30;

/// A site or a centre that has not started.
pub(super) struct JoinedParts {
    parts: SitesParts,
    joined: Joined,
    calls: mpsc::Sender<CallToSite>,
}

/// What the bus has of it.
pub(super) struct JoinedOnBus {
    sites: Option<(JoinedSites, SiteCalls)>,
    rights: Option<CentreRights>,
}

impl JoinedOnBus {
    pub(super) fn put(self, bus: &mut Bus) {
        let Self { sites, rights } = self;
        if let Some((sites, calls)) = sites {
            bus.set_sites(sites);
            bus.set_site_calls(calls);
        }
        if let Some(rights) = rights {
            bus.set_centre_rights(rights);
        }
    }
}

impl JoinedParts {
    /// The parts, where the configuration joins the node to others.
    pub(super) fn of(config: &Config, folder: &Path, board: &Arc<SitesBoard>) -> Option<Self> {
        let fabric = config.fabric.clone()?;
        let site = config.site.clone().map(Role::Site);
        let role = site.or_else(|| config.centre.clone().map(Role::Centre))?;
        let (is_held, kept_bytes, record_bytes) = match &role {
            Role::Site(site) => (false, site.waiting_bytes_max, SITE_RECORD_BYTES),
            Role::Centre(_) => (true, CENTRE_KEPT_BYTES, RECORD_BYTES),
        };
        if let Role::Centre(centre) = &role {
            board.set_prefix(centre.prefix.clone());
        }
        let (sender, opened) = mpsc::unbounded_channel();
        let joined = Joined { opened: sender, is_held, kept_bytes, record_bytes };
        let source = HistorySource::new(folder);
        let folder = folder.join(SITES_FOLDER);
        let (calls, asked) = way_to_sites();
        let member = fabric.cluster.is_some().then(|| config.node.name.clone());
        let parts = SitesParts { fabric, role, folder, source, opened, calls: asked, board: Arc::clone(board), member };
        Some(Self { parts, joined, calls })
    }

    /// What history has of it.
    pub(super) fn joined(&self) -> Joined {
        self.joined.clone()
    }

    /// What the bus has of it.
    pub(super) fn on_bus(&self) -> JoinedOnBus {
        match &self.parts.role {
            Role::Site(site) => JoinedOnBus { sites: None, rights: Some(CentreRights::of(site)) },
            Role::Centre(centre) => {
                let (sites, calls) = (JoinedSites::new(centre.prefix.clone()), SiteCalls::new(self.calls.clone()));
                JoinedOnBus { sites: Some((sites, calls)), rights: None }
            }
        }
    }

    /// Starts the thread, which reads history through `source`; its news goes to the bus.
    pub(super) fn start(
        self,
        clock: Clock,
        source: &HistorySource,
        bus: &BusHandle,
    ) -> Result<SitesThread, StartError> {
        let [_, monitoring, _] = bus.lanes();
        let parts = SitesParts { source: source.clone(), ..self.parts };
        SitesThread::start(parts, clock, monitoring).map_err(StartError::Thread)
    }
}

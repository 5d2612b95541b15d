//! The part of a node that is joined to others as a site or as the centre, where it is.

use super::StartError;
use crate::bus::{Bus, BusHandle, CentreRights, JoinedSites, SiteCalls, SiteEvents, way_to_sites};
use crate::config::{Config, FabricConfig};
use crate::history::Joined;
use crate::sites::{CallToSite, EventInput, Role, SitesBoard, SitesParts, SitesThread, way_of_events};
use std::path::Path;
use std::sync::Arc;
use tieline_history::{HistorySource, SITES_FOLDER};
use tieline_net::Clock;
use tokio::sync::mpsc;

/// Records of a site are at most so long, roughly: a batch must take each, and that of a higher centre, where names are longer, too.
const SITE_RECORD_BYTES: usize = 256 << 10;
/// The same of a node that is none.
const RECORD_BYTES: usize = 1 << 20;
/// The journal of a centre keeps records until their marks are written, which takes a second: more than enough for that.
const CENTRE_KEPT_BYTES: u64 = 1 << 30;

/// The site and the centre that a node is, which have not started.
pub(super) struct JoinedParts(Vec<OneRole>);

struct OneRole {
    parts: SitesParts,
    joined: Joined,
    calls: mpsc::Sender<CallToSite>,
    events: mpsc::Sender<EventInput>,
}

/// What the bus has of it.
pub(super) struct JoinedOnBus {
    sites: Option<(JoinedSites, SiteCalls)>,
    rights: Option<CentreRights>,
    events: Option<SiteEvents>,
}

impl JoinedOnBus {
    pub(super) fn put(self, bus: &mut Bus) {
        let Self { sites, rights, events } = self;
        if let Some(events) = events {
            bus.set_site_events(events);
        }
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
    /// The parts, as far as the configuration joins the node to others.
    pub(super) fn of(config: &Config, folder: &Path, board: &Arc<SitesBoard>) -> Self {
        let site = config.site.clone().map(|site| (site.fabric.clone(), Role::Site(site)));
        let is_site = site.is_some();
        let centre = config.centre.clone().map(|centre| (None, Role::Centre(centre, is_site)));
        let of = |(fabric, role): (Option<FabricConfig>, Role)| {
            let fabric = fabric.or_else(|| config.fabric.clone())?;
            let member = fabric.cluster.is_some().then(|| config.node.name.clone());
            Some(OneRole::of((fabric, member), role, folder, board))
        };
        Self([site, centre].into_iter().flatten().filter_map(of).collect())
    }

    /// What history has of it.
    pub(super) fn joined(&self) -> Vec<Joined> {
        self.0.iter().map(|role| role.joined.clone()).collect()
    }

    /// What the bus has of it.
    pub(super) fn on_bus(&self) -> JoinedOnBus {
        let mut on_bus = JoinedOnBus { sites: None, rights: None, events: None };
        for OneRole { parts, calls, events, .. } in &self.0 {
            match &parts.role {
                Role::Site(site) => {
                    on_bus.rights = Some(CentreRights::of(site));
                    on_bus.events.get_or_insert_with(|| SiteEvents::of_site(&site.share, events.clone()));
                }
                Role::Centre(centre, _) => {
                    let sites = JoinedSites::new(centre.prefix.clone());
                    on_bus.events = Some(SiteEvents::of_centre(events.clone()));
                    on_bus.sites = Some((sites, SiteCalls::new(calls.clone())));
                }
            }
        }
        on_bus
    }

    /// Starts the threads, which read history through `source`; their news goes to the bus.
    pub(super) fn start(
        self,
        clock: Clock,
        source: &HistorySource,
        bus: &BusHandle,
    ) -> Result<Vec<SitesThread>, StartError> {
        let start = |role: OneRole| {
            let [_, monitoring, _] = bus.lanes();
            let parts = SitesParts { source: source.clone(), ..role.parts };
            SitesThread::start(parts, clock, monitoring).map_err(StartError::Thread)
        };
        self.0.into_iter().map(start).collect()
    }
}

impl OneRole {
    fn of(
        (fabric, member): (FabricConfig, Option<String>),
        role: Role,
        folder: &Path,
        board: &Arc<SitesBoard>,
    ) -> Self {
        let (is_held, kept_bytes, record_bytes) = match &role {
            Role::Site(site) => (false, site.waiting_bytes_max, SITE_RECORD_BYTES),
            Role::Centre(..) => (true, CENTRE_KEPT_BYTES, RECORD_BYTES),
        };
        if let Role::Centre(centre, _) = &role {
            board.set_prefix(centre.prefix.clone());
        }
        let (sender, opened) = mpsc::unbounded_channel();
        let joined = Joined { opened: sender, is_held, kept_bytes, record_bytes };
        let source = HistorySource::new(folder);
        let folder = folder.join(SITES_FOLDER);
        let ((calls, asked), (events, inputs)) = (way_to_sites(), way_of_events());
        let board = Arc::clone(board);
        let parts = SitesParts { fabric, role, folder, source, opened, calls: asked, events: inputs, board, member };
        Self { parts, joined, calls, events }
    }
}

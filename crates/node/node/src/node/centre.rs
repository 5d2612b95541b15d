//! What lets sites in, where the node is a centre with keys of its own.

use super::StartError;
use crate::config::Config;
use crate::sites::joining::{CentreAddress, FabricFiles, Joining, SiteList};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tieline_history::Replication;

/// The list of sites; none where the node is no centre, or has no keys, so that somebody else lets sites in.
pub(super) fn joining(
    config: &Config,
    data: &Path,
    replication: &Replication,
) -> Result<Option<Arc<Joining>>, StartError> {
    let files = FabricFiles::of(data);
    let (Some(centre), Some(fabric)) = (&config.centre, &config.fabric) else { return Ok(None) };
    if !files.issuer().exists() {
        tracing::info!("no keys of tieline fabric config are in the data folder: others let sites in");
        return Ok(None);
    }
    // The inboxes of these are the centre's own, and the subjects of a core are below `tl.cluster`.
    let reserved = [config.node.name.as_str(), "centre", "cluster"];
    let unusable = |error: &dyn std::fmt::Display| StartError::Data { folder: data.to_owned(), why: error.to_string() };
    let sites = SiteList::open(&files.sites(), centre.sites_max, &reserved).map_err(|error| unusable(&error))?;
    let sites = sites.replicated(replication.clone());
    let about = CentreAddress {
        servers: centre.join_servers.clone().unwrap_or_else(|| fabric.servers.clone()),
        authorities: centre.join_authorities.clone().or_else(|| fabric.authorities.clone()),
    };
    Ok(Some(Arc::new(Joining { sites: Arc::new(Mutex::new(sites)), about, counts: Arc::default() })))
}

#[cfg(feature = "fabric")]
pub(super) use with_fabric::{Door, door};

#[cfg(feature = "fabric")]
mod with_fabric {
    use super::{Arc, Config, FabricFiles, Joining, Path, StartError};
    use crate::access::denial;
    use crate::bus::{Bus, BusHandle};
    use crate::config::FabricConfig;
    use crate::sites::joining::{DoorParts, DoorThread, SiteEvent};
    use tieline_fabric::{FabricOptions, KeyKind, Keys};
    use tieline_net::Clock;
    use tieline_net::tls::ClientTls;

    /// The thread that is asked who may connect.
    pub type Door = DoorThread;

    /// Starts the door, where the node is a centre with keys.
    pub fn door(
        config: &Config,
        data: &Path,
        joining: &Option<Arc<Joining>>,
        clock: Clock,
        bus: &BusHandle,
    ) -> Result<Option<Door>, StartError> {
        let (Some(joining), Some(fabric)) = (joining, &config.fabric) else { return Ok(None) };
        let files = FabricFiles::of(data);
        let unusable =
            |error: &dyn std::fmt::Display| StartError::Data { folder: data.to_owned(), why: error.to_string() };
        let key = |path: &Path, kind| Keys::read(path, kind).map_err(|error| unusable(&error));
        let issuer = key(&files.issuer(), KeyKind::Account)?;
        // They are read again for each connection; what is wrong with them is said before.
        key(&files.door(), KeyKind::User)?;
        key(&files.centre(), KeyKind::User)?;
        let told = bus.clone();
        let tell = move |SiteEvent { who, phase, detail }| {
            let told = told.clone();
            // The door does not wait for the audit log: servers wait for the door.
            tokio::task::spawn_local(async move {
                let note = move |bus: &mut Bus, now| {
                    bus.note_access(denial(now, &who, phase, "", "$access/sites", "", detail));
                };
                let _ = told.call(note).await;
            });
        };
        let parts = DoorParts {
            options: options(&config.node.name, fabric)?,
            issuer,
            door: files.door(),
            centre: files.centre(),
            sites: Arc::clone(&joining.sites),
            counts: Arc::clone(&joining.counts),
            tell: Box::new(tell),
        };
        DoorThread::start(parts, clock).map(Some).map_err(StartError::Thread)
    }

    fn options(name: &str, fabric: &FabricConfig) -> Result<FabricOptions, StartError> {
        let mut options = FabricOptions::new(name, fabric.servers.clone());
        if fabric.is_tls {
            let identity = fabric.identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
            let tls = ClientTls::load(fabric.authorities.as_deref(), identity);
            let tls = tls.map_err(|error| StartError::Tls(error.to_string()))?;
            options.tls = Some((*tls.config()).clone());
        }
        Ok(options)
    }
}

#[cfg(not(feature = "fabric"))]
pub(super) use without_fabric::{Door, door};

#[cfg(not(feature = "fabric"))]
mod without_fabric {
    use super::{Arc, Config, Joining, Path, StartError};
    use crate::bus::BusHandle;
    use tieline_net::Clock;

    /// There is none.
    #[derive(Debug)]
    pub enum Door {}

    impl Door {
        pub const fn is_finished(&self) -> bool {
            match *self {}
        }
    }

    /// A binary without the fabric is no centre: its configuration is refused before.
    pub fn door(
        _: &Config,
        _: &Path,
        _: &Option<Arc<Joining>>,
        _: Clock,
        _: &BusHandle,
    ) -> Result<Option<Door>, StartError> {
        Ok(None)
    }
}

//! Sites of a centre: which there are, who may join, with which key each connects.
//!
//! ```text
//! HTTP: add, token, revoke ─┐                       ┌─▶ sites.json, before it is answered
//! HTTP: join (token, key) ──┼─▶ SiteList, one lock ─┤
//! Door: may this key in? ───┘                       └─▶ changed: the door ends connections whose key is none any more
//! ```
//!
//! In: names, tokens, public keys. Out: who a key belongs to. Never: a seed of a site; a token, after it was given out.
//!
//! Read first: `list.rs`, then `door.rs`.

#[cfg(feature = "fabric")]
mod door;
mod folder;
mod list;

#[cfg(feature = "fabric")]
pub use door::{DoorParts, DoorThread, offer_key};
pub use folder::{FABRIC_FOLDER, FabricFiles};
pub use list::{JoinError, Joined, Site, SiteList, SiteState, Token};

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// What happened to a site, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteEvent {
    /// Who did it: an address, or the site.
    pub who: String,
    /// What, as a stable word.
    pub phase: &'static str,
    /// In words.
    pub detail: String,
}

/// Whether a text is the public key of a user.
#[cfg(feature = "fabric")]
#[must_use]
pub fn is_site_key(text: &str) -> bool {
    tieline_fabric::is_public(text, tieline_fabric::KeyKind::User)
}

/// A binary that cannot let sites in takes no key.
#[cfg(not(feature = "fabric"))]
#[must_use]
pub const fn is_site_key(_text: &str) -> bool {
    false
}

/// What a centre knows about joining.
#[derive(Debug)]
pub struct Joining {
    /// The sites.
    pub sites: Arc<Mutex<SiteList>>,
    /// What sites are told.
    pub about: CentreAddress,
    /// What the door has counted.
    pub counts: Arc<DoorCounts>,
}

/// Connections that servers asked about, since the start.
#[derive(Debug, Default)]
pub struct DoorCounts {
    /// Whether servers can ask.
    pub is_up: AtomicBool,
    /// Connections of sites.
    pub admitted: AtomicU64,
    /// Others.
    pub refused: AtomicU64,
    /// Requests that could not be read.
    pub unreadable: AtomicU64,
}

/// Where sites find the servers of a centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CentreAddress {
    /// The servers.
    pub servers: Vec<String>,
    /// The file of the authorities of their certificates, where sites do not know them by themselves.
    pub authorities: Option<PathBuf>,
}

impl Joining {
    /// Does something with the list of sites; it waits for the disk.
    ///
    /// # Errors
    /// What was done fails.
    pub fn with<T>(&self, act: impl FnOnce(&mut SiteList) -> Result<T, JoinError>) -> Result<T, JoinError> {
        act(&mut self.sites.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

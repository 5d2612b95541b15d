//! The devices that there are, for who shows them on other threads than the bus.

use crate::bus::reserved::Reserved;
use crate::config::Numbered;
use std::sync::{Arc, PoisonError, RwLock};

/// The devices that there are. Copies are of the same. Changed by a reload alone; nothing on a data path looks.
#[derive(Clone, Debug)]
pub struct KnownDevices(Arc<RwLock<Known>>);

#[derive(Debug)]
struct Known {
    devices: Arc<[Numbered]>,
    reserved: Arc<Reserved>,
}

impl KnownDevices {
    /// Of a node that starts.
    #[must_use]
    pub fn of(devices: Arc<[Numbered]>) -> Self {
        let reserved = Arc::new(Reserved::of(devices.iter()));
        Self(Arc::new(RwLock::new(Known { devices, reserved })))
    }

    /// All, in the order of the file.
    #[must_use]
    pub fn all(&self) -> Arc<[Numbered]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).devices)
    }

    /// Where only the node publishes.
    #[must_use]
    pub fn reserved(&self) -> Arc<Reserved> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).reserved)
    }

    /// There are other devices, or other topics that only the node publishes to.
    pub fn set(&self, devices: Arc<[Numbered]>, reserved: Arc<Reserved>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { devices, reserved };
    }
}

//! What few outstations have: behind one pointer, so that the others do not pay for it.

use super::application::Application;
use super::attributes::DeviceAttributes;
use super::freeze::Freezes;
use super::management::BoxedManagementHandler;
use super::sharing::Sharing;

/// All of it; each part is off until its owner asks for it.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// Group 0.
    pub(super) attributes: Option<DeviceAttributes>,
    /// Freezes at a time.
    pub(super) freezes: Freezes,
    /// Functions 16 to 19 and 31.
    pub(super) management: Option<BoxedManagementHandler>,
    /// Other masters.
    pub(super) sharing: Option<Sharing>,
}

impl Extras {
    /// As after a power cycle: what masters asked for is forgotten, what the owner gave stays.
    pub(super) fn restart(&mut self) {
        self.freezes = Freezes::default();
    }
}

impl Application {
    pub(super) fn attributes(&self) -> Option<&DeviceAttributes> {
        self.extras.as_ref()?.attributes.as_ref()
    }

    pub(super) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

//! Views that are read again from the configuration file while the node runs.

use crate::bus::BusHandle;
use crate::config::{self, ConfigError};
use std::fmt;
use std::path::PathBuf;
use tieline_views::{View, ViewError};

/// Where the configuration came from; nowhere where the node runs without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source(pub Option<PathBuf>);

/// Why views were not taken; those that were there go on.
#[derive(Debug)]
pub enum ReloadError {
    /// There is no file to read.
    NoFile,
    /// The file, or one that it names, is wrong.
    Config(ConfigError),
    /// The views cannot live together.
    Views(ViewError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("the node runs without a configuration file: there is nothing to read again"),
            Self::Config(error) => error.fmt(f),
            Self::Views(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

impl From<ViewError> for ReloadError {
    fn from(error: ViewError) -> Self {
        Self::Views(error)
    }
}

impl Source {
    /// The views of the file. All of it has to be right, or a node could not start with it.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn read_views(&self) -> Result<Vec<View>, ReloadError> {
        let file = self.0.as_deref().ok_or(ReloadError::NoFile)?;
        Ok(config::load(file).map_err(ReloadError::Config)?.views)
    }

    /// Reads the views and lets the bus take them; what is wrong is logged.
    pub async fn reload(&self, bus: &BusHandle) {
        match self.read_views() {
            // What is wrong with them the bus logs; one that has stopped needs none.
            Ok(views) => drop(bus.call(move |bus, now| bus.reload_views(now, views, "SIGHUP")).await),
            Err(ReloadError::NoFile) => {}
            Err(error) => tracing::warn!(%error, "the views stay as they are"),
        }
    }
}

//! Where the keys and files of joining are in a data folder.

use std::path::{Path, PathBuf};

/// The folder, below the data folder. Its owner alone may read it.
pub const FABRIC_FOLDER: &str = "fabric";

/// The files of joining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricFiles(PathBuf);

impl FabricFiles {
    /// Those of a data folder.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        Self(data.join(FABRIC_FOLDER))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The seed that signs decisions of a centre about who may connect.
    #[must_use]
    pub fn issuer(&self) -> PathBuf {
        self.0.join("issuer.nk")
    }

    /// The seed with which a centre connects to be asked who may connect.
    #[must_use]
    pub fn door(&self) -> PathBuf {
        self.0.join("door.nk")
    }

    /// The seed with which a centre connects for the data of sites.
    #[must_use]
    pub fn centre(&self) -> PathBuf {
        self.0.join("centre.nk")
    }

    /// The list of sites of a centre.
    #[must_use]
    pub fn sites(&self) -> PathBuf {
        self.0.join("sites.json")
    }

    /// The seed of a site.
    #[must_use]
    pub fn site(&self) -> PathBuf {
        self.0.join("site.nk")
    }

    /// The seed that takes its place.
    #[must_use]
    pub fn site_next(&self) -> PathBuf {
        self.0.join("site.next.nk")
    }

    /// The authorities of the centre's servers, as a site has got them.
    #[must_use]
    pub fn authorities(&self) -> PathBuf {
        self.0.join("authorities.pem")
    }

    /// The settings that a site has got.
    #[must_use]
    pub fn joined(&self) -> PathBuf {
        self.0.join("joined.toml")
    }
}

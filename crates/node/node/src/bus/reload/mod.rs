//! The configuration file, with all that a node looks at in it, and what of it is read again while the node runs: devices with
//! all that they name, and views.
//!
//! Read first: `reloader.rs`.

mod known;
mod reloader;
mod shards;
mod shown;
mod status;

pub use known::KnownDevices;
pub use reloader::{Reloaded, Reloader};
pub use shards::{FieldShards, ShardParts};
pub use shown::KnownFiles;
pub use status::ReloadStatus;

use crate::access;
use crate::config::{self, Checks, Config, ConfigError};
use std::fmt;
use std::path::Path;
use tieline_derived::Series;
use tieline_views::{Limits, View, ViewError, Views};

/// Why a configuration was not taken; what was there goes on.
#[derive(Debug)]
pub enum ReloadError {
    /// There is no file to read.
    NoFile,
    /// The file, or one that it names, is wrong.
    Config(ConfigError),
    /// TLS files of devices cannot be used.
    Tls(String),
    /// The views cannot live together.
    Views(ViewError),
    /// The node cannot take it, or is stopping.
    Node(String),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("the node runs without a configuration file: there is nothing to read again"),
            Self::Config(error) => error.fmt(f),
            Self::Views(error) => error.fmt(f),
            Self::Tls(why) | Self::Node(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReloadError {}

impl ReloadError {
    /// Why, as a stable word.
    const fn reason(&self) -> &'static str {
        match self {
            Self::NoFile => "no_file",
            Self::Config(_) => "config",
            Self::Tls(_) => "tls",
            Self::Views(_) => "views",
            Self::Node(_) => "node",
        }
    }

    /// The same in one line, for a record: of many errors the first, and how many there are.
    fn line(&self) -> String {
        let Self::Config(ConfigError(findings)) = self else { return self.to_string().replace('\n', "; ") };
        let first = findings.first().map(ToString::to_string).unwrap_or_default();
        match findings.len() {
            0 | 1 => first,
            count => format!("{count} errors, the first: {first}"),
        }
    }
}

impl From<ViewError> for ReloadError {
    fn from(error: ViewError) -> Self {
        Self::Views(error)
    }
}

/// Reads a node's configuration: the point lists it names and the files of its users and roles too, and whether its views
/// can live together.
///
/// # Errors
/// Everything that is wrong in any of the files.
pub fn load_config(path: &Path) -> Result<Config, ConfigError> {
    let views = |views: &[View]| Views::new(views.to_vec(), Limits::default()).map(drop).map_err(|e| e.to_string());
    let derived = |all: &[Series]| tieline_derived::order(all).map(drop);
    config::load(path, Checks { access: access::check_files, views, derived })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_users_and_views_are_looked_at_with_the_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.toml");
        let view = "[[view]]\nname='a'\nfrom='x/+'\nto='y/{1}'\n";
        std::fs::write(&file, format!("nod = 1\n{view}{view}[access]\nusers='none.toml'\n")).unwrap();
        let found = load_config(&file).unwrap_err().to_string();
        for words in ["found the unknown key \"nod\"", "expected names of their own", "none.toml"] {
            assert!(found.contains(words), "{words} is not in:\n{found}");
        }
        std::fs::write(&file, view).unwrap();
        assert_eq!(load_config(&file).unwrap().views.len(), 1);
    }
}

//! The configuration file, with all that a node looks at in it, and its views, which are read again while the node runs.

use super::BusHandle;
use crate::access;
use crate::config::{self, Checks, Config, ConfigError, Source};
use std::fmt;
use std::path::Path;
use tieline_views::{Limits, View, ViewError, Views};

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

/// Reads a node's configuration: the point lists it names and the files of its users and roles too, and whether its views
/// can live together.
///
/// # Errors
/// Everything that is wrong in any of the files.
pub fn load_config(path: &Path) -> Result<Config, ConfigError> {
    let views = |views: &[View]| Views::new(views.to_vec(), Limits::default()).map(drop).map_err(|e| e.to_string());
    config::load(path, Checks { access: access::check_files, views })
}

/// The views of a configuration file. All of it has to be right, or a node could not start with it.
///
/// # Errors
/// Everything that is wrong.
pub fn read_views(source: &Source) -> Result<Vec<View>, ReloadError> {
    let file = source.0.as_deref().ok_or(ReloadError::NoFile)?;
    Ok(load_config(file).map_err(ReloadError::Config)?.views)
}

/// Reads the views and lets the bus take them; what is wrong is logged.
pub async fn reload_views(source: &Source, bus: &BusHandle) {
    match read_views(source) {
        // What is wrong with them the bus logs; one that has stopped needs none.
        Ok(views) => drop(bus.call(move |bus, now| bus.reload_views(now, views, "SIGHUP")).await),
        Err(ReloadError::NoFile) => {}
        Err(error) => tracing::warn!(%error, "the views stay as they are"),
    }
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

//! The configuration of a node: TOML, one table a device, one CSV file a point list.
//!
//! In: files. Out: a [`Config`] that holds only legal values, or every error at once with file, line, key, what was
//! found and what was expected.
//!
//! Read first: `checked.rs`.

mod access;
mod audit;
mod checked;
mod device;
mod dnp3;
mod mqtt;

pub mod outstation;
mod points;
pub mod secure;
mod topics;
mod views;

#[cfg(test)]
mod tests;

pub use access::{AccessConfig, load_access};
pub use checked::{CommandConfig, Config, HistoryConfig, HttpConfig, NodeConfig};
pub use device::{DeviceConfig, Priority, Protocol, SharedChannel};
pub use dnp3::{Dnp3Config, FreezeClock, FreezePlan, LaneConfig, LinkConfirms, TimeSync};
pub use mqtt::{MqttConfig, MqttTls, MqttWebSocket};
pub use points::{ControlConfig, Operate, PointConfig, States, read_points};
pub use tieline_service::moment::Moment;
pub use tieline_service::parse::{parse_address, parse_duration, resolve};
pub use tieline_service::reader::{ConfigError, Finding, Findings};
pub use topics::{TopicKind, TopicRule};

use crate::reload::Source;
use std::path::Path;
use tieline_service::reader::Document;
use tieline_service::{parse, reader};

/// The commented file that equals the defaults.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// Reads a configuration file and the point lists it names.
///
/// # Errors
/// Everything that is wrong in any of the files.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = reader::read_text(path)?;
    let config = from_text(&path.display().to_string(), &text, path.parent().unwrap_or(Path::new(".")))?;
    Ok(Config { source: Source(Some(path.to_owned())), ..config })
}

/// Reads a configuration from text; point lists are found beside `folder`.
///
/// # Errors
/// Everything that is wrong.
pub fn from_text(file: &str, text: &str, folder: &Path) -> Result<Config, ConfigError> {
    let mut findings = Findings::default();
    let config = Document::read(file, text, &mut findings, |doc, root| checked::read_config(doc, root, folder));
    if findings.is_empty() { Ok(config) } else { Err(ConfigError(findings.sorted())) }
}

//! The configuration of a node: TOML, one table a device, one CSV file a point list.
//!
//! In: files. Out: a [`Config`] that holds only legal values, or every error at once with file, line, key, what was
//! found and what was expected.
//!
//! Read first: `checked.rs`.

mod access;
mod alarms;
mod audit;
mod bacnet;
mod checked;
mod collection;
mod control;
mod database;
mod derived;
mod device;
mod dnp3;
mod edge;
mod fabric;
mod goose;
mod hub;
mod identity;
mod iec104;
mod modbus;
mod mqtt;
mod names;
mod notify;
mod points;
mod prefix;
mod protocol;
mod restart;
mod retention;
mod settings;
mod simulated;
mod topics;
mod trace;
mod upstream;
mod views;

#[cfg(test)]
mod secure_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transport_tests;

pub use access::{AccessConfig, CertificateConfig, JwtConfig, NameKind, load_access};
pub use alarms::AlarmConfig;
pub use audit::AuditConfig;
pub use bacnet::{BacnetConfig, BacnetSocket, ClockSync};
pub use checked::{CommandConfig, Config, ForwardedHeader, HistoryConfig, HttpConfig, NodeConfig};
pub use collection::{CollectionConfig, HeartbeatConfig, NetworkConfig, rarely};
pub use control::CoordinationConfig;
pub use database::{DatabaseConfig, DatabaseServer, ServerAccess, VICTORIA};
pub use device::{DeviceConfig, Numbered, Priority, SharedChannel};
pub use dnp3::{Dnp3Config, FreezeClock, FreezePlan, LaneConfig, LinkConfirms, TimeSync};
pub use edge::EdgeConfig;
pub use fabric::{CentreConfig, ClusterConfig, FabricAccess, FabricConfig, SiteCommands, SiteConfig, is_site_name};
pub use goose::{GooseConfig, GooseRole, values_of};
pub use hub::{BacnetHub, HubUrl};
pub use identity::{OidcConfig, ProxyConfig};
pub use iec104::Iec104Config;
pub use modbus::{ModbusConfig, ModbusLine};
pub use mqtt::{MqttConfig, MqttTls, MqttWebSocket};
pub use points::{
    BacnetPoint, ControlConfig, Dnp3Output, Dnp3Point, GooseKind, GoosePoint, Iec104Command, Iec104Kind, Iec104Output,
    Iec104Point, Iec104Served, ModbusPoint, Operate, PointAddress, PointConfig, RulesConfig, ServedPoints,
    SimulatedPoint, States, Takes, ValueKind, WriteAs, model_of, read_points, read_served_points,
};
pub use prefix::TopicPrefix;
pub use protocol::{Protocol, ProtocolName};
pub use restart::{Source, restart_needed};
pub use simulated::{ServedFaults, SimulatedConfig, read_served_faults};
pub use tieline_drawings::{ConsoleConfig, load_drawing, load_svg};
pub use tieline_service::moment::Moment;
pub use tieline_service::parse::{parse_address, parse_duration, resolve};
pub use tieline_service::reader::{ConfigError, Finding, Findings};
pub use topics::{TopicKind, TopicRule};
pub use trace::TraceConfig;
pub use upstream::{UpstreamAddress, UpstreamConfig};

use std::path::Path;
use tieline_core::Topic;
use tieline_derived::{Series, SetError};
use tieline_service::reader::Document;
use tieline_service::{parse, reader};
use tieline_views::View;

/// The commented file that equals the defaults.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// What is looked at besides the words of a configuration, by those who use them.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// Looks into the files that `[access]` names.
    pub access: fn(&AccessConfig) -> Result<(), ConfigError>,
    /// Says why views cannot live together, where they cannot.
    pub views: fn(&[View]) -> Result<(), String>,
    /// Says which series cannot live with the others, and why.
    pub derived: fn(&[Series]) -> Result<(), SetError>,
}

impl Checks {
    /// Words alone.
    pub const NONE: Self = Self { access: |_| Ok(()), views: |_| Ok(()), derived: |_| Ok(()) };
}

/// Reads a configuration file and the point lists it names.
///
/// # Errors
/// Everything that is wrong in any of the files.
pub fn load(path: &Path, checks: Checks) -> Result<Config, ConfigError> {
    let text = reader::read_text(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let config = from_text_with(&path.display().to_string(), &text, folder, checks)?;
    let listen = Some((config.http.listen, config.mqtt.listen));
    let source = Source { file: Some(path.to_owned()), devices_of: None, listen, is_joined: false, has_role: false };
    Ok(Config { source, ..config })
}

/// The topics of the devices that keep their own past, among those that are recorded.
pub fn keep_past<'a>(devices: impl IntoIterator<Item = (&'a DeviceConfig, bool)>) -> Vec<Topic> {
    let keep_past = devices.into_iter().filter(|(device, is_recorded)| *is_recorded && device.keeps_past());
    keep_past.map(|(device, _)| device.topic.clone()).collect()
}

/// Reads a configuration from text, its words alone; point lists are found beside `folder`.
///
/// # Errors
/// Everything that is wrong.
pub fn from_text(file: &str, text: &str, folder: &Path) -> Result<Config, ConfigError> {
    from_text_with(file, text, folder, Checks::NONE)
}

/// The same with checks.
///
/// # Errors
/// Everything that is wrong.
pub fn from_text_with(file: &str, text: &str, folder: &Path, checks: Checks) -> Result<Config, ConfigError> {
    let mut findings = Findings::default();
    let read = |doc: &mut Document<'_>, root: reader::Section<'_>| checked::read_config(doc, root, folder, checks);
    let config = Document::read(file, text, &mut findings, read);
    if findings.is_empty() { Ok(config) } else { Err(ConfigError(findings.sorted())) }
}

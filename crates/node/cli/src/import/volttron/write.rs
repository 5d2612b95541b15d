//! The configuration and the point lists as text, with the line of every key.

use super::{Connection, Device, Imported, List, Point, Spec};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// The first line of a configuration.
const HEADING: &str = "# From the configuration of a VOLTTRON platform driver. docs/devices.md has all keys.";
/// Keys that are different for devices of one template.
const OWN: [&str; 4] = ["modbus.unit", "bacnet.instance", "bacnet.network", "bacnet.mac"];
const OWN_DNP3: &str = "dnp3.outstation";

/// The configuration.
#[derive(Debug, Default)]
pub struct Written {
    pub text: String,
    /// The line of a key of a device.
    lines: HashMap<(usize, &'static str), usize>,
    /// The protocol of each line, where it is of a device or of a template.
    pub protocols: Vec<Option<&'static str>>,
}

impl Written {
    /// The line of a key, or of what the key is in.
    pub fn line(&self, device: usize, key: &'static str) -> usize {
        let group = key.split('.').next().unwrap_or(key);
        let line = |key| self.lines.get(&(device, key)).copied();
        line(key).or_else(|| line(group)).or_else(|| line("topic")).unwrap_or(1)
    }

    fn push(&mut self, protocol: Option<&'static str>, line: &str) -> usize {
        self.text.push_str(line);
        self.text.push('\n');
        self.protocols.push(protocol);
        self.protocols.len()
    }
}

/// The text of a list: its columns are those that a row has.
pub fn list_text(list: &List) -> String {
    let always = ["name", "type", "index"];
    let used = |column: &&&'static str| {
        (always.contains(*column)) || list.points.iter().any(|point| !point.cell(column).is_empty())
    };
    let columns: Vec<&'static str> = list.driver.columns().iter().filter(used).copied().collect();
    rows_text(&columns, &list.points)
}

/// Points with these columns.
pub fn rows_text(columns: &[&'static str], points: &[Point]) -> String {
    let mut text = columns.join(",");
    text.push('\n');
    for point in points {
        let cells: Vec<String> = columns.iter().map(|column| quoted(point.cell(column))).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) || cell.starts_with('#') {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// A name with the letters that tables and files may have.
pub fn plain_name(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

fn quote(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// The configuration of all devices. Several of one kind have a template, several on one connection a channel.
pub fn config(imported: &Imported) -> Written {
    let devices = &imported.devices;
    let names = device_names(devices);
    let channels = channels(devices);
    let templates = templates(imported);
    let mut written = Written::default();
    written.push(None, HEADING);
    let mut channel_lines = HashMap::new();
    for (connection, name) in &channels.tables {
        written.push(None, "");
        let line = written.push(Some("modbus"), &format!("[channel.{name}]")) + 1;
        written.push(Some("modbus"), &connection_line(connection));
        channel_lines.insert(name.clone(), line);
    }
    let mut template_lines: HashMap<String, Vec<(&'static str, usize)>> = HashMap::new();
    for template in &templates {
        let Some(device) = template.devices.first().and_then(|at| devices.get(*at)) else { continue };
        written.push(None, "");
        let protocol = device.spec.driver.protocol();
        written.push(Some(protocol), &format!("[template.{}]", template.name));
        let lines = write_shared(&mut written, device, imported, &|_| false);
        template_lines.insert(template.name.clone(), lines);
    }
    for (at, (device, name)) in devices.iter().zip(&names).enumerate() {
        let protocol = device.spec.driver.protocol();
        written.push(None, "");
        written.push(Some(protocol), &format!("[device.{name}]"));
        let line = written.push(Some(protocol), &format!("topic = {}", quote(&device.spec.topic)));
        written.lines.insert((at, "topic"), line);
        let line = match channels.of.get(&at) {
            Some(channel) => {
                written.push(Some(protocol), &format!("channel = {}", quote(channel)));
                channel_lines.get(channel).copied().unwrap_or_default()
            }
            None if device.spec.connection == Connection::None => line,
            None => written.push(Some(protocol), &connection_line(&device.spec.connection)),
        };
        written.lines.insert((at, "address"), line);
        written.lines.insert((at, "serial"), line);
        let template = templates.iter().find(|template| template.devices.contains(&at));
        let lines = match template {
            Some(template) => {
                written.push(Some(protocol), &format!("template = {}", quote(&template.name)));
                template_lines.get(&template.name).cloned().unwrap_or_default()
            }
            None => write_shared(&mut written, device, imported, &|_| true),
        };
        written.lines.extend(lines.into_iter().map(|(key, line)| ((at, key), line)));
        if template.is_some() {
            let own = |key: &str| is_own(key);
            for (key, line) in write_groups(&mut written, &device.spec, &own) {
                let key = own_key(key);
                written.lines.insert((at, key), line);
            }
        }
    }
    written
}

fn is_own(key: &str) -> bool {
    OWN.contains(&key) || key == OWN_DNP3
}

/// The key that stands for those which a device has beside its template.
fn own_key(group: &'static str) -> &'static str {
    match group {
        "modbus" => "modbus.unit",
        "bacnet" => "bacnet.instance",
        "dnp3" => OWN_DNP3,
        other => other,
    }
}

fn connection_line(connection: &Connection) -> String {
    match connection {
        Connection::Address(address) => format!("address = {}", quote(address)),
        Connection::Serial { table, .. } => format!("serial = {table}"),
        Connection::None => String::new(),
    }
}

/// Writes the keys that devices of one template have in common, and others if they are wanted.
fn write_shared(
    written: &mut Written,
    device: &Device,
    imported: &Imported,
    wants_own: &dyn Fn(&str) -> bool,
) -> Vec<(&'static str, usize)> {
    let protocol = device.spec.driver.protocol();
    let mut lines = vec![("protocol", written.push(Some(protocol), &format!("protocol = {}", quote(protocol))))];
    let file = imported.lists.get(device.list).map(|list| list.file.as_str()).unwrap_or_default();
    lines.push(("points", written.push(Some(protocol), &format!("points = {}", quote(file)))));
    lines.extend(write_groups(written, &device.spec, &|key| !is_own(key) || wants_own(key)));
    lines
}

/// Writes the wanted keys, those of one table in one line.
fn write_groups(written: &mut Written, spec: &Spec, wanted: &dyn Fn(&str) -> bool) -> Vec<(&'static str, usize)> {
    const GROUPS: [&str; 8] = ["poll", "publish", "all_every", "stale_after", "modbus", "bacnet", "dnp3", "simulated"];
    let mut lines = Vec::new();
    for group in GROUPS {
        let keys = spec.keys.iter().filter(|(key, _)| wanted(key) && key.split('.').next() == Some(group));
        let keys: Vec<(&str, &str)> = keys.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let line = match keys.as_slice() {
            [] => continue,
            [(key, value)] if *key == group => format!("{group} = {value}"),
            all => {
                let mut inner = String::new();
                for (at, (key, value)) in all.iter().enumerate() {
                    let name = key.split_once('.').map_or(*key, |(_, name)| name);
                    // Into memory it cannot fail.
                    let _ = write!(inner, "{}{name} = {value}", if at == 0 { "" } else { ", " });
                }
                format!("{group} = {{ {inner} }}")
            }
        };
        lines.push((group, written.push(Some(spec.driver.protocol()), &line)));
    }
    lines
}

/// The last level of the topic, or as many as make it unique.
fn device_names(devices: &[Device]) -> Vec<String> {
    /// Levels of a name.
    const LEVELS_MAX: usize = 16;
    let last = |topic: &str, levels: usize| -> String {
        let all: Vec<&str> = topic.split('/').collect();
        plain_name(&all.get(all.len().saturating_sub(levels)..).unwrap_or_default().join("-"))
    };
    let mut counts: HashMap<(usize, String), usize> = HashMap::new();
    for device in devices {
        for levels in 1..=device.spec.topic.split('/').count().min(LEVELS_MAX) {
            *counts.entry((levels, last(&device.spec.topic, levels))).or_default() += 1;
        }
    }
    let (mut names, mut taken) = (Vec::new(), HashSet::new());
    for device in devices {
        let topic = &device.spec.topic;
        let is_unique = |levels: &usize| counts.get(&(*levels, last(topic, *levels))) == Some(&1);
        let levels = (1..=topic.split('/').count().min(LEVELS_MAX)).find(is_unique).unwrap_or(usize::MAX);
        let name = last(topic, levels);
        let mut all = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") });
        names.extend(all.find(|name| taken.insert(name.clone())));
    }
    names
}

/// Connections that several devices use.
#[derive(Debug, Default)]
struct Channels {
    tables: Vec<(Connection, String)>,
    /// By device.
    of: HashMap<usize, String>,
}

/// Devices of Modbus behind one address share it, each unit once.
fn channels(devices: &[Device]) -> Channels {
    let mut by: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let unit = |at: usize| {
        let keys = devices.get(at).map(|device| device.spec.keys.as_slice()).unwrap_or_default();
        keys.iter().find(|(key, _)| key == "modbus.unit").map(|(_, unit)| unit.as_str())
    };
    for (at, device) in devices.iter().enumerate() {
        if device.spec.driver.protocol() == "modbus" {
            let all = by.entry(connection_line(&device.spec.connection)).or_default();
            if !all.iter().any(|other| unit(*other) == unit(at)) {
                all.push(at);
            }
        }
    }
    let mut channels = Channels::default();
    for all in by.into_values().filter(|all| all.len() > 1) {
        let Some(device) = all.first().and_then(|at| devices.get(*at)) else { continue };
        let base = match &device.spec.connection {
            Connection::Address(address) => plain_name(address),
            Connection::Serial { port, .. } => plain_name(port.rsplit('/').next().unwrap_or(port)),
            Connection::None => continue,
        };
        let mut names = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") });
        let Some(name) = names.find(|name| !channels.tables.iter().any(|(_, other)| other == name)) else { continue };
        channels.tables.push((device.spec.connection.clone(), name.clone()));
        channels.of.extend(all.iter().map(|at| (*at, name.clone())));
    }
    channels
}

/// Devices with the same keys, but for their own.
#[derive(Debug)]
struct TemplateOf {
    name: String,
    devices: Vec<usize>,
}

fn templates(imported: &Imported) -> Vec<TemplateOf> {
    struct Group<'a> {
        list: usize,
        keys: Vec<&'a (String, String)>,
        devices: Vec<usize>,
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (at, device) in imported.devices.iter().enumerate() {
        let keys: Vec<&(String, String)> = device.spec.keys.iter().filter(|(key, _)| !is_own(key)).collect();
        // A list is of one protocol.
        match groups.iter_mut().find(|group| group.list == device.list && group.keys == keys) {
            Some(group) => group.devices.push(at),
            None => groups.push(Group { list: device.list, keys, devices: vec![at] }),
        }
    }
    let mut templates: Vec<TemplateOf> = Vec::new();
    for Group { list, devices, .. } in groups.into_iter().filter(|group| group.devices.len() > 1) {
        let file = imported.lists.get(list).map(|list| list.file.as_str()).unwrap_or_default();
        let base = plain_name(file.strip_suffix(".csv").unwrap_or(file));
        let mut names = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") });
        let name = names.find(|name| !templates.iter().any(|template| template.name == *name));
        templates.extend(name.map(|name| TemplateOf { name, devices }));
    }
    templates
}

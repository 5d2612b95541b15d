//! Configurations of VOLTTRON's platform driver become devices and point lists.
//!
//! In: a folder with registries (CSV) and devices (JSON with comments), or the store of VOLTTRON's configurations. Out: devices, lists,
//! and a report in which every line of a registry and every key of a device is once. Never: a connection to anything.
//!
//! Read first: `device.rs`, then `modbus.rs`, the registries of one driver.

mod bacnet;
mod device;
mod dnp3;
mod driver;
mod fake;
mod jsonc;
mod leaves;
mod modbus;
mod modbus_tk;
pub mod point;
mod registry;
mod source;
mod table;
pub mod write;

pub use device::Spec;
pub use driver::{Connection, Driver};
pub use point::Point;
pub use source::Sources;

use super::report::{Outcome, Place, Report};
use device::{Defaults, Reader, Refused, Uses, finish_defaults, is_defaults, read_defaults, read_device, refuse};
use driver::{MIN_PRIORITY, STYLE};
use jsonc::{Json, Value};
use leaves::Leaves;
use modbus_tk::Style;
use registry::{Named, convert, guess, report_header};
use source::Content;
use std::collections::{BTreeMap, HashMap, HashSet};
use table::Table;

/// A point list, and the name of the registry from which it came.
#[derive(Debug)]
pub struct List {
    pub driver: Driver,
    pub points: Vec<Point>,
    /// The name of its file.
    pub file: String,
    /// Whether a device uses it.
    pub is_used: bool,
}

/// A device with its list.
#[derive(Debug)]
pub struct Device {
    pub spec: Spec,
    pub list: usize,
}

/// Everything that is to be written.
#[derive(Debug, Default)]
pub struct Imported {
    pub devices: Vec<Device>,
    pub lists: Vec<List>,
}

/// Imports all. `routers` are those to networks of BACnet, by number.
pub fn import(sources: &Sources, routers: &BTreeMap<u16, String>, report: &mut Report) -> Imported {
    let mut import = Import {
        sources,
        routers,
        report,
        imported: Imported::default(),
        used: HashSet::new(),
        styles: HashMap::new(),
        lines: HashSet::new(),
    };
    let mut files: Vec<(&source::Input, &Json)> = Vec::new();
    let (mut defaults, mut all_defaults) = (Defaults::default(), Vec::new());
    for input in &sources.inputs {
        let Content::Json(json) = &input.content else { continue };
        let mut leaves = Leaves::new(&input.file, json);
        if leaves.get("driver_type").is_some() {
            files.push((input, json));
        } else if input.topic.is_sure {
            leaves.refuse("driver_config", "no driver_type", import.report);
        } else if is_defaults(&leaves) || input.name == "config" {
            defaults = read_defaults(&mut leaves);
            all_defaults.push(leaves);
        } else {
            let whole = Place { file: input.file.clone(), line: 0, last_line: 0, key: String::new() };
            let why = "JSON without a driver_type, and not of the platform driver";
            import.report.add(&whole, Outcome::NotNeeded(why.to_owned()));
        }
    }
    let mut uses = Vec::new();
    for (input, json) in files {
        uses.extend(import.device(input, json, &defaults));
    }
    for mut leaves in all_defaults {
        finish_defaults(&mut leaves, &uses);
        leaves.finish(import.report);
    }
    import.others();
    import.imported
}

struct Import<'a> {
    sources: &'a Sources,
    routers: &'a BTreeMap<u16, String>,
    report: &'a mut Report,
    imported: Imported,
    /// Inputs whose rows are reported.
    used: HashSet<usize>,
    /// What devices that were left out say of their registries.
    styles: HashMap<usize, (Driver, Style, u8)>,
    /// Ports of serial lines with their units and settings.
    lines: HashSet<(String, String)>,
}

/// A registry: an input, or rows within a device.
enum Registry {
    Input(usize),
    Inline(Table),
}

impl Registry {
    fn named<'n>(&'n self, input: &'n source::Input, sources: &'n Sources) -> Option<Named<'n>> {
        match self {
            Self::Inline(table) => Some(Named { file: &input.file, table }),
            Self::Input(at) => named(sources, *at),
        }
    }
}

impl<'a> Import<'a> {
    /// Its place among the devices, and what it takes from the platform driver's configuration; none where it is left out.
    fn device(&mut self, input: &'a source::Input, json: &'a Json, defaults: &Defaults) -> Option<(usize, Uses)> {
        let mut leaves = Leaves::new(&input.file, json);
        let device = self.imported.devices.len();
        let registry = self.registry(input, &leaves, "registry_config");
        let mut reader = Reader { leaves: &mut leaves, device, keys: Vec::new(), routers: self.routers };
        let spec = read_device(&mut reader, &input.topic, defaults);
        let done = match (spec, &registry) {
            (Ok(spec), Ok(registry)) => self.finish_device(input, &leaves, spec, registry),
            (Ok(_), Err(why)) => refuse("registry_config", why.clone()),
            (Err(refused), _) => Err(refused),
        };
        match done {
            Ok(uses) => {
                if let Ok(Registry::Inline(_)) = registry {
                    leaves.mark("registry_config", Outcome::Note("the rows follow".to_owned()));
                }
                leaves.finish(self.report);
                Some((device, uses))
            }
            Err(Refused { path, why }) => {
                self.refuse(input, &leaves, registry.ok(), &why);
                leaves.refuse(path, &why, self.report);
                None
            }
        }
    }

    /// The registry or the register map that a key names.
    fn registry(&self, input: &source::Input, leaves: &Leaves<'_>, path: &str) -> Result<Registry, String> {
        let Some(json) = leaves.get(path) else { return Err(format!("no {path}")) };
        match &json.value {
            Value::Array(rows) => Ok(Registry::Inline(Table::from_json(rows, path))),
            Value::Text(link) => {
                let at = self.sources.find(link, &input.name)?;
                match self.sources.inputs.get(at).map(|input| &input.content) {
                    Some(Content::Registry(_)) => Ok(Registry::Input(at)),
                    _ => Err(format!("{link:?} is no registry")),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Err(format!("{path} is neither a link nor rows"))
            }
        }
    }

    /// Converts the registry of a device and adds both.
    fn finish_device(
        &mut self,
        input: &source::Input,
        leaves: &Leaves<'_>,
        spec: Spec,
        registry: &Registry,
    ) -> Result<Uses, Refused> {
        let map = match leaves.get("driver_config.register_map") {
            Some(_) if spec.driver == Driver::ModbusTk => {
                match self.registry(input, leaves, "driver_config.register_map") {
                    Ok(map) => Some(map),
                    Err(why) => return refuse("driver_config.register_map", why),
                }
            }
            _ => None,
        };
        self.check_line(&spec)?;
        let sources = self.sources;
        let (Some(rows), map_rows) =
            (registry.named(input, sources), map.as_ref().and_then(|map| map.named(input, sources)))
        else {
            return refuse("registry_config", "it is no registry");
        };
        if !rows.table.has("volttron point name") {
            return refuse("registry_config", "the registry has no column \"Volttron Point Name\"");
        }
        let converted = convert(rows.table, map_rows.map(|map| map.table), spec.driver, spec.style, spec.min_priority);
        let place = rows.header().map_or_else(|| spec.topic.clone(), |header| header.file);
        let list = self.list(spec.driver, &converted.points, &place, true);
        converted.report(rows, map_rows, list.unwrap_or_default(), self.report);
        for (registry, named) in [(Some(registry), Some(rows)), (map.as_ref(), map_rows)] {
            let (Some(registry), Some(named)) = (registry, named) else { continue };
            let Registry::Input(at) = registry else { continue };
            self.used.insert(*at);
            let encoding = sources.inputs.get(*at).and_then(|input| input.encoding);
            match list {
                Some(list) => report_header(named, spec.driver, list, encoding, self.report),
                None => named.header().iter().for_each(|place| {
                    self.report.add(place, Outcome::LeftOut("none of its rows became a point".to_owned()));
                }),
            }
        }
        let Some(list) = list else { return refuse("registry_config", "none of its rows became a point") };
        let uses = spec.uses;
        self.imported.devices.push(Device { spec, list });
        Ok(uses)
    }

    /// On a serial line each unit is one device, and all have the same settings.
    fn check_line(&mut self, spec: &Spec) -> Result<(), Refused> {
        let Connection::Serial { port, table } = &spec.connection else { return Ok(()) };
        let unit = spec.keys.iter().find(|(key, _)| key == "modbus.unit").map(|(_, unit)| unit.clone());
        let mut others = self.imported.devices.iter().filter_map(|device| match &device.spec.connection {
            Connection::Serial { port: other, table } if other == port => Some(table),
            Connection::Serial { .. } | Connection::Address(_) | Connection::None => None,
        });
        if others.any(|other| other != table) {
            return refuse("driver_config.port", format!("another device has {port} with other settings"));
        }
        if !self.lines.insert((port.clone(), unit.unwrap_or_default())) {
            return refuse("driver_config.slave_id", format!("another device has this unit on {port}"));
        }
        Ok(())
    }

    /// What becomes of the registry of a device that is left out: it is a list without a device, where its driver is known.
    fn refuse(&mut self, input: &source::Input, leaves: &Leaves<'_>, registry: Option<Registry>, why: &str) {
        let driver = leaves.get("driver_type").and_then(Json::text).and_then(Driver::of);
        let is_outstation = leaves.get("driver_config.dnp3_agent_id").is_some();
        if let (Some(Registry::Input(at)), Some(driver), false) = (&registry, driver, is_outstation) {
            self.styles.insert(*at, (driver, STYLE, MIN_PRIORITY));
            return;
        }
        let why = format!("{}: {why}", input.file);
        match registry {
            Some(Registry::Input(at)) => {
                self.used.insert(at);
                if let Some(named) = named(self.sources, at) {
                    named.refuse(&why, self.report);
                }
            }
            Some(Registry::Inline(table)) => Named { file: &input.file, table: &table }.refuse(&why, self.report),
            None => {}
        }
    }

    /// Registries that no device uses.
    fn others(&mut self) {
        let sources = self.sources;
        for at in (0..sources.inputs.len()).filter(|at| !self.used.contains(at)).collect::<Vec<_>>() {
            let Some(rows) = named(sources, at) else { continue };
            let known = self.styles.get(&at).copied().filter(|_| rows.table.has("volttron point name"));
            let found = known.map_or_else(|| guess(rows.table).map(|driver| (driver, STYLE, MIN_PRIORITY)), Ok);
            let (driver, style, min_priority) = match found {
                Ok(found) => found,
                Err(why) => {
                    rows.refuse(&why, self.report);
                    continue;
                }
            };
            let converted = convert(rows.table, None, driver, style, min_priority);
            let Some(list) = self.list(driver, &converted.points, rows.file, false) else {
                converted.report(rows, None, 0, self.report);
                if let Some(place) = rows.header() {
                    self.report.add(&place, Outcome::LeftOut("none of its rows became a point".to_owned()));
                }
                continue;
            };
            converted.report(rows, None, list, self.report);
            let encoding = sources.inputs.get(at).and_then(|input| input.encoding);
            report_header(rows, driver, list, encoding, self.report);
            if let Some(place) = rows.header() {
                let note = format!("no device uses this list of {}", driver.protocol());
                self.report.add(&place, Outcome::Note(note));
            }
        }
    }

    /// The list with these points: one that is there already, or a new one. None where there are no points.
    fn list(&mut self, driver: Driver, points: &[Point], from: &str, is_used: bool) -> Option<usize> {
        let lists = &mut self.imported.lists;
        let same = |list: &List| list.driver.protocol() == driver.protocol() && list.points == points;
        if points.is_empty() {
            return None;
        }
        if let Some(at) = lists.iter().position(same) {
            if let Some(list) = lists.get_mut(at) {
                list.is_used |= is_used;
            }
            return Some(at);
        }
        let name = from.rsplit('/').next().unwrap_or(from);
        let stem = name.strip_suffix(".csv").or_else(|| name.strip_suffix(".CSV")).unwrap_or(name);
        let stem = write::plain_name(stem);
        let taken = |file: &String| lists.iter().any(|list| list.file.eq_ignore_ascii_case(file));
        let mut names = (1..).map(|n| if n == 1 { format!("{stem}.csv") } else { format!("{stem}-{n}.csv") });
        let file = names.find(|file| !taken(file))?;
        lists.push(List { driver, points: points.to_vec(), file, is_used });
        Some(lists.len() - 1)
    }
}

fn named(sources: &Sources, at: usize) -> Option<Named<'_>> {
    let input = sources.inputs.get(at)?;
    match &input.content {
        Content::Registry(table) => Some(Named { file: &input.file, table }),
        Content::Json(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::report::Status;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The lines of a registry, as often as the report has them.
    fn lines(report: &Report, file: &str) -> HashMap<usize, usize> {
        let mut lines = HashMap::new();
        for entry in report.entries.iter().filter(|entry| entry.place.file == file && entry.place.line > 0) {
            for line in entry.place.line..=entry.place.last_line {
                *lines.entry(line).or_default() += 1;
            }
        }
        lines
    }

    const HEADERS: [&str; 5] = [
        "Point Name,Volttron Point Name,Units,BACnet Object Type,Property,Writable,Index,Write Priority",
        "Volttron Point Name,Units,Modbus Register,Writable,Point Address,Mixed Endian",
        "Volttron Point Name,Register Name,Address,Type,Writable,Transform,Table",
        "Point Name,Volttron Point Name,Group,Variation,Index,Scaling,Writable",
        "Point Name,Volttron Point Name,Writable,Starting Value,Type",
    ];
    const DRIVERS: [&str; 5] = ["bacnet", "modbus", "modbus_tk", "dnp3", "fakedriver"];

    fn cell() -> impl Strategy<Value = String> {
        let words = [
            "",
            "a",
            "b/c",
            "TRUE",
            "false",
            "1",
            "65535",
            "-1",
            ">f",
            "<H",
            "BOOL",
            "uint32",
            "string[3]",
            "30",
            "analogInput",
            "scale(0.1)",
            "mod10k48(True)",
            "#",
            "\"",
            "\"\n\"",
            "+",
            "all",
            "float",
            "presentValue",
        ];
        prop_oneof![4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => "[\\PC\n\r]{0,6}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_registry_is_accounted_for_line_by_line_and_what_is_written_is_legal(
            driver in 0..5_usize,
            rows in prop::collection::vec(prop::collection::vec(cell(), 0..9), 0..8),
            config in "[\\PC]{0,20}",
        ) {
            let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
            let registry = format!("{}\n{}", HEADERS[driver], rows.join("\n"));
            let address = serde_json::Value::from(config.as_str());
            let device = format!(
                "{{\"driver_type\": \"{}\", \"registry_config\": \"config://r.csv\", \"driver_config\": {{\"device_address\": {address}, \
                 \"outstation_ip\": \"10.0.0.1\", \"device_id\": 7, \"port\": 502}}}}",
                DRIVERS[driver]
            );
            let mut report = Report::default();
            let sources = Sources::of(&[("devices/a/b", &device), ("r.csv", &registry)], &mut report);
            let imported = import(&sources, &BTreeMap::new(), &mut report);
            let Content::Registry(table) = &sources.inputs[1].content else { panic!() };
            let last = table.rows.last().map_or(1, |row| row.last_line);
            prop_assert_eq!(lines(&report, "r.csv"), (1..=last).map(|line| (line, 1)).collect::<HashMap<_, _>>());
            let mapped = report.entries.iter().filter(|entry| entry.place.file == "r.csv" && entry.place.line > 1);
            let mapped = mapped.filter(|entry| entry.status() == Status::Mapped).count();
            for list in &imported.lists {
                prop_assert_eq!(list.points.len(), mapped);
                let text = write::list_text(list);
                prop_assert_eq!(text.lines().count(), mapped + 1);
                let protocol = tieline_node::config::ProtocolName::ALL.into_iter();
                let Some(protocol) = protocol.into_iter().find(|one| one.word() == list.driver.protocol()) else { continue };
                let mut findings = tieline_node::config::Findings::default();
                tieline_node::config::read_points(&mut findings, "r.csv", &text, protocol);
                prop_assert!(findings.is_empty(), "{text}\n{:?}", findings.sorted());
            }
        }
    }
}

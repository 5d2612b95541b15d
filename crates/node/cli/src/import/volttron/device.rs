//! The JSON of a device: what is the same for all drivers.

use super::driver::{Connection, Driver, read_driver};
use super::leaves::Leaves;
use super::modbus_tk::Style;
use super::point::seconds;
use crate::import::report::{Outcome, Target};
use std::collections::BTreeMap;

/// The interval of a device that does not say, in seconds.
const INTERVAL: f64 = 60.0;
/// Flags of topics, each with what it publishes; those that have no word have no counterpart.
const PUBLISH: [(&str, Option<&str>); 10] = [
    ("publish_depth_first_all", Some("all")),
    ("publish_all_depth", Some("all")),
    ("publish_multi_depth", Some("all")),
    ("publish_depth_first", Some("points")),
    ("publish_single_depth", Some("points")),
    ("publish_breadth_first_all", None),
    ("publish_breadth_first", None),
    ("publish_all_breadth", None),
    ("publish_single_breadth", None),
    ("publish_multi_breadth", None),
];
const BREADTH: &str = "Tieline has no breadth-first topics; subscribe to +/POINT, or rename topics with a view";

/// A device of Tieline, but for its point list.
#[derive(Clone, Debug)]
pub struct Spec {
    pub driver: Driver,
    /// Keys below the device with their values in TOML, as in `modbus.unit` and `3`; not those of the connection.
    pub keys: Vec<(String, String)>,
    pub connection: Connection,
    pub topic: String,
    /// What `modbus_tk` says of its registers.
    pub style: Style,
    /// The least priority of BACnet.
    pub min_priority: u8,
    /// What it takes from the configuration of the platform driver.
    pub uses: Uses,
}

/// What a device takes from the configuration of the platform driver.
#[derive(Clone, Copy, Debug)]
pub struct Uses {
    pub flags: bool,
    pub interval: bool,
}

/// What the configuration of the platform driver says for all devices.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// Flags of topics.
    pub flags: BTreeMap<String, bool>,
    /// In seconds.
    pub interval: Option<f64>,
}

/// Why a device is left out, and the key that says so.
#[derive(Debug)]
pub struct Refused {
    pub path: &'static str,
    pub why: String,
}

pub fn refuse<T>(path: &'static str, why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { path, why: why.into() })
}

/// A device whose keys are being read.
pub struct Reader<'r, 'a> {
    pub leaves: &'r mut Leaves<'a>,
    pub device: usize,
    pub keys: Vec<(String, String)>,
    /// Routers to networks of BACnet, by number.
    pub routers: &'r BTreeMap<u16, String>,
}

impl Reader<'_, '_> {
    pub const fn target(&self, key: &'static str) -> Target {
        Target::Key { device: self.device, key }
    }

    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.keys.push((key.to_owned(), value.into()));
    }

    pub fn not_needed(&mut self, path: &str, why: &str) {
        self.leaves.mark(path, Outcome::NotNeeded(why.to_owned()));
    }

    pub fn left_out(&mut self, path: &str, why: &str) {
        self.leaves.mark(path, Outcome::LeftOut(why.to_owned()));
    }

    pub fn note(&mut self, path: &str, note: &str) {
        self.leaves.mark(path, Outcome::Note(note.to_owned()));
    }

    /// A text or a number; none where it is not there.
    pub fn plain(&self, path: &str) -> Option<String> {
        let json = self.leaves.get(path)?;
        json.plain().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A whole number of a range, or the default.
    pub fn integer(&self, path: &'static str, default: u32, most: u32) -> Result<u32, Refused> {
        let Some(text) = self.plain(path) else { return Ok(default) };
        match text.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && (0.0..=f64::from(most)).contains(&number) => {
                Ok(format!("{number:.0}").parse().unwrap_or(default))
            }
            _ => refuse(path, format!("it is {text:?}, expected a whole number from 0 to {most}")),
        }
    }

    /// Seconds as a duration.
    pub fn duration(&self, path: &str) -> Option<String> {
        self.plain(path)?.parse().ok().and_then(seconds)
    }
}

/// Reads a device. `own_topic` is what the name of its file says.
pub fn read_device(r: &mut Reader<'_, '_>, own_topic: &Topic, defaults: &Defaults) -> Result<Spec, Refused> {
    let Some(name) = r.plain("driver_type") else { return refuse("driver_type", "no driver_type") };
    let driver = match Driver::of(&name) {
        Some(driver) => driver,
        None => return refuse("driver_type", format!("Tieline has no driver for {name}")),
    };
    if r.leaves.get("active").is_some_and(|json| !json.is_true()) {
        return refuse("active", "it is not active");
    }
    let topic = topic(r, own_topic)?;
    let (device, protocol) = (r.device, r.target("protocol"));
    r.leaves.map(&["driver_type"], protocol);
    r.leaves.map(&["registry_config"], Target::Key { device, key: "points" });
    r.not_needed("active", "every device in the configuration is polled");
    let uses = Uses { interval: interval(r, driver, defaults), flags: publish(r, defaults) };
    if let Some(every) = r.duration("all_publish_interval") {
        r.set("all_every", format!("{every:?}"));
        let target = r.target("all_every");
        r.leaves.map(&["all_publish_interval"], target);
    }
    if let Some(after) = r.duration("stale_timeout") {
        r.set("stale_after", format!("{after:?}"));
        let target = r.target("stale_after");
        r.leaves.map(&["stale_timeout"], target);
    }
    r.not_needed("timezone", "times are UTC");
    r.not_needed("group", "the node spreads the polls of devices by itself");
    r.left_out("heart_beat_point", "if the point is writable, name it in heartbeat of the device");
    let (connection, style, min_priority) = read_driver(r, driver)?;
    let keys = std::mem::take(&mut r.keys);
    Ok(Spec { driver, keys, connection, topic, style, min_priority, uses })
}

/// What the name of a file says of the topic of a device.
#[derive(Clone, Debug)]
pub struct Topic {
    pub text: String,
    /// Whether the file is in a folder `devices` or in a store, so that its name is the topic.
    pub is_sure: bool,
}

fn topic(r: &mut Reader<'_, '_>, own: &Topic) -> Result<String, Refused> {
    const NAMES: [&str; 4] = ["campus", "building", "unit", "path"];
    let levels: Vec<String> = NAMES.iter().filter_map(|name| r.plain(name)).collect();
    let text = if own.is_sure || levels.is_empty() { own.text.clone() } else { levels.join("/") };
    for name in NAMES {
        if own.is_sure {
            r.not_needed(name, "the name of the configuration is the topic");
        } else {
            let target = r.target("topic");
            r.leaves.map(&[name], target);
        }
    }
    let text = text.trim_matches('/').to_owned();
    match tieline_core::Topic::new(&text) {
        Ok(_) if !text.starts_with('$') => Ok(text),
        _ => refuse("driver_type", format!("{text:?} cannot be a topic")),
    }
}

/// Sets the interval of polls; says whether it is the platform driver's.
fn interval(r: &mut Reader<'_, '_>, driver: Driver, defaults: &Defaults) -> bool {
    let default = defaults.interval.and_then(seconds).or_else(|| seconds(INTERVAL)).unwrap_or_default();
    let path = ["polling_interval", "interval"].into_iter().find(|path| r.leaves.get(path).is_some());
    let found = path.and_then(|path| r.duration(path));
    let key = driver.poll_key();
    if let Some(path) = path {
        let target = r.target("poll");
        r.leaves.map(&[path], target);
        if found.is_none() {
            r.note(path, "no number of seconds from 0.1 to 604800: 60 s, as in VOLTTRON");
        }
    }
    for path in ["polling_interval", "interval"].into_iter().filter(|other| Some(*other) != path) {
        r.not_needed(path, "polling_interval goes before it");
    }
    r.set(key, format!("{:?}", found.unwrap_or(default)));
    path.is_none() && defaults.interval.is_some()
}

/// Sets `publish` where a flag is given; says whether one is the platform driver's.
fn publish(r: &mut Reader<'_, '_>, defaults: &Defaults) -> bool {
    let own = |name| Some((name, r.leaves.get(name)?.is_true()));
    let own: BTreeMap<&str, bool> = PUBLISH.iter().filter_map(|(name, _)| own(*name)).collect();
    if own.is_empty() && defaults.flags.is_empty() {
        return false;
    }
    let default = |name: &str| defaults.flags.get(name).copied();
    let words = ["points", "all"].into_iter().filter(|word| {
        let flags = PUBLISH.iter().filter(|(_, of)| *of == Some(*word));
        let mut said = flags.filter_map(|(name, _)| own.get(name).copied().or_else(|| default(name))).peekable();
        // Without a flag VOLTTRON publishes all points together.
        if said.peek().is_none() { *word == "all" } else { said.any(|is| is) }
    });
    let words: Vec<&str> = words.collect();
    for (name, of) in PUBLISH {
        match (of, own.get(name)) {
            (Some(_), Some(_)) => {
                let target = r.target("publish");
                r.leaves.map(&[name], target);
            }
            (None, Some(true)) => r.left_out(name, BREADTH),
            (None, Some(false)) => r.not_needed(name, "there are no breadth-first topics"),
            (_, None) => {}
        }
    }
    r.set("publish", format!("{words:?}"));
    PUBLISH.iter().any(|(name, of)| of.is_some() && !own.contains_key(name) && default(name).is_some())
}

/// Reads the configuration of the platform driver. Its flags are reported when devices have used them.
pub fn read_defaults(leaves: &mut Leaves<'_>) -> Defaults {
    let mut defaults = Defaults::default();
    for (name, of) in PUBLISH {
        let Some(is) = leaves.get(name).map(super::jsonc::Json::is_true) else { continue };
        match of {
            Some(_) => drop(defaults.flags.insert(name.to_owned(), is)),
            None if is => leaves.mark(name, Outcome::LeftOut(BREADTH.to_owned())),
            None => leaves.mark(name, Outcome::NotNeeded("there are no breadth-first topics".to_owned())),
        }
    }
    defaults.interval = leaves.get("default_polling_interval").and_then(|json| json.plain()?.parse().ok());
    let spread = "the node spreads the polls of devices by itself";
    let sockets = "the node has limits of its own: docs/limits.md";
    let not_needed = [
        ("driver_scrape_interval", spread),
        ("minimum_polling_interval", spread),
        ("group_offset_interval", spread),
        ("max_open_sockets", sockets),
        ("max_concurrent_publishes", sockets),
        ("scalability_test", "a test of VOLTTRON"),
        ("scalability_test_iterations", "a test of VOLTTRON"),
        ("allow_duplicate_remotes", "two devices may have the same address"),
        ("remote_heartbeat_interval", "the node watches its devices by itself"),
        ("timezone", "times are UTC"),
        ("breadth_first_base", "there are no breadth-first topics"),
        ("depth_first_base", "topics begin with the campus"),
    ];
    for (name, why) in not_needed {
        leaves.mark(name, Outcome::NotNeeded(why.to_owned()));
    }
    leaves.mark_below("groups.", &Outcome::NotNeeded(spread.to_owned()));
    let is_empty = leaves.get("override_patterns").is_some_and(|json| !json.is_true());
    let overrides = Outcome::LeftOut("a node has no overrides of points".to_owned());
    leaves.mark(
        "override_patterns",
        if is_empty { Outcome::NotNeeded("it is empty".to_owned()) } else { overrides.clone() },
    );
    leaves.mark_below("override_patterns.", &overrides);
    defaults
}

/// The flags and the interval that devices took from the configuration of the platform driver.
pub fn finish_defaults(leaves: &mut Leaves<'_>, uses: &[(usize, Uses)]) {
    for (name, _) in PUBLISH.iter().filter(|(_, of)| of.is_some()) {
        for (device, _) in uses.iter().filter(|(_, uses)| uses.flags) {
            leaves.mark(name, Outcome::Mapped(Target::Key { device: *device, key: "publish" }));
        }
        leaves.mark(name, Outcome::NotNeeded("every device says it itself".to_owned()));
    }
    for (device, _) in uses.iter().filter(|(_, uses)| uses.interval) {
        leaves.mark("default_polling_interval", Outcome::Mapped(Target::Key { device: *device, key: "poll" }));
    }
    leaves.mark("default_polling_interval", Outcome::NotNeeded("no device uses it".to_owned()));
}

/// Whether a file is the configuration of the platform driver.
pub fn is_defaults(leaves: &Leaves<'_>) -> bool {
    let names = ["driver_scrape_interval", "minimum_polling_interval", "group_offset_interval", "max_open_sockets"];
    let flags = PUBLISH.iter().map(|(name, _)| *name);
    names.into_iter().chain(flags).any(|name| leaves.get(name).is_some())
}

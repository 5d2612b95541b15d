//! From XML to what an outstation's file, or a device's table and point list, say.

use super::map::{ATTRIBUTES, CLASSES, Form, LISTS, NAMESPACES, POINT_SETTINGS, SETTINGS, STATION};
use super::tree::{Element, parse};
use std::collections::BTreeSet;
use std::fmt::Write;
use tieline_dnp3::PointType;
use tieline_service::reader::{ConfigError, Finding};

/// What a device profile says, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Keys of an outstation's file, with their values in TOML.
    pub settings: Vec<(&'static str, String)>,
    /// What the device says of itself, by key.
    pub attributes: Vec<(&'static str, String)>,
    /// Its points, in the order of the document.
    pub points: Vec<ProfilePoint>,
    /// Elements that were not read, each path once.
    pub unread: Vec<String>,
}

/// A point of a device profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePoint {
    /// Its type.
    pub point_type: PointType,
    /// Its index.
    pub index: u16,
    /// Its name; empty without one.
    pub name: String,
    /// Its class, 0 for none; None where the profile does not say.
    pub class: Option<u8>,
    /// Unit, scale, offset and words for people, as they stand there; empty without.
    pub unit: String,
    /// value = raw × scale + offset.
    pub scale: String,
    /// See `scale`.
    pub offset: String,
    /// Words for people.
    pub description: String,
    /// Keys of a point of an outstation's file, with their values in TOML.
    pub settings: Vec<(&'static str, String)>,
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    findings: Vec<Finding>,
    points: BTreeSet<(&'static str, u16)>,
}

/// Reads a device profile.
///
/// # Errors
/// Everything that is wrong in it, each with its line and what was expected.
pub fn read(file: &str, text: &str) -> Result<Profile, ConfigError> {
    let mut reader = Reader { file, text, findings: Vec::new(), points: BTreeSet::new() };
    let mut profile = Profile::default();
    match parse(text) {
        Err((at, found)) => reader.report(at, "(syntax)", &found, "an XML document"),
        Ok(root) => reader.read(&root, &mut profile),
    }
    if reader.findings.is_empty() { Ok(profile) } else { Err(ConfigError(reader.findings)) }
}

impl Reader<'_> {
    fn report(&mut self, at: usize, key: &str, found: &str, expected: &str) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let (file, key) = (self.file.to_owned(), key.to_owned());
        let (found, expected) = (found.chars().take(80).collect(), expected.to_owned());
        self.findings.push(Finding { file, line, column, key, found, expected });
    }

    fn read(&mut self, root: &Element, profile: &mut Profile) {
        let namespace = root.attributes.iter().find(|(key, _)| key == "xmlns" || key.starts_with("xmlns:"));
        let known = |(_, value): &(String, String)| NAMESPACES.iter().any(|begin| value.starts_with(begin));
        if root.name != "DNP3DeviceProfileDocument" || !root.attributes.iter().any(known) {
            let found = namespace.map_or(root.name.clone(), |(_, value)| format!("{} of {value}", root.name));
            self.report(root.at, "(root)", &found, "DNP3DeviceProfileDocument of the DNP users group");
            return;
        }
        // Some vendors leave the device out and begin with its configuration.
        let device = root.child("referenceDevice").unwrap_or(root);
        if let Some(configuration) = device.child("configuration") {
            self.read_configuration(configuration, profile);
        }
        let lists = device.child("dataPointsList").or_else(|| device.child("dataPoints"));
        for (point_type, list, point, class) in LISTS {
            let Some(list) = lists.and_then(|lists| lists.child(list)) else { continue };
            let points = list.child("dataPoints").unwrap_or(list);
            for element in points.all(point) {
                self.read_point(element, point_type, class, profile);
            }
        }
        let mut unread = BTreeSet::new();
        collect_unread(root, &root.name, &mut unread);
        profile.unread = unread.into_iter().collect();
    }

    fn read_configuration(&mut self, configuration: &Element, profile: &mut Profile) {
        for (section, name, key, form) in STATION {
            let element = configuration.child(section).and_then(|section| section.child(name));
            let Some(current) = element.and_then(|element| element.child("currentValue")) else { continue };
            self.read_current(current, key, form, profile);
        }
        let user_data = configuration.child("applConfig").and_then(|section| section.child("userData"));
        if let Some(user_data) = user_data {
            profile.settings.extend(self.read_settings(user_data, &SETTINGS));
        }
    }

    fn read_current(&mut self, current: &Element, key: &'static str, form: Form, profile: &mut Profile) {
        let value = current.child("value");
        match (form, value) {
            (Form::Text, Some(value)) if !value.text.is_empty() => {
                profile.attributes.push((key, value.text.clone()));
            }
            (Form::Text, _) => {}
            (Form::Words(yes, no), _) => match (current.child(yes), current.child(no)) {
                (Some(_), None) => profile.settings.push((key, "true".to_owned())),
                (None, Some(_)) => profile.settings.push((key, "false".to_owned())),
                (_, _) => {}
            },
            (Form::Number | Form::Millis, Some(value)) => match value.text.parse::<u32>() {
                Ok(number) if form == Form::Millis => profile.settings.push((key, format!("\"{number}ms\""))),
                Ok(number) => profile.settings.push((key, number.to_string())),
                Err(_) => self.report(value.at, key, &format!("{:?}", value.text), "a whole number"),
            },
            // Another choice of the schema, as "infinite" or "notUsedToTriggerEvents": the default says the same.
            (Form::Number | Form::Millis, None) => current.children.iter().for_each(|child| child.seen.set(true)),
        }
    }

    /// Our own elements; their values are TOML, and nothing else.
    fn read_settings(&mut self, user_data: &Element, known: &[&'static str]) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        for element in user_data.all("setting") {
            let key = element.attribute("key").and_then(|key| known.iter().copied().find(|known| *known == key));
            let is_value = format!("x = {}", element.text).parse::<toml::Table>().is_ok_and(|table| table.len() == 1);
            match key {
                Some(key) if is_value && !element.text.contains('\n') => settings.push((key, element.text.clone())),
                Some(key) => self.report(element.at, key, &format!("{:?}", element.text), "a value as in TOML"),
                None => {
                    let found = format!("{:?}", element.attribute("key").unwrap_or_default());
                    self.report(element.at, "setting", &found, &format!("one of {}", known.join(", ")));
                }
            }
        }
        settings
    }

    fn read_point(&mut self, element: &Element, point_type: PointType, class: &str, profile: &mut Profile) {
        let text = |name: &str| element.child(name).map(|child| child.text.clone()).unwrap_or_default();
        let Ok(index) = text("index").parse::<u16>() else {
            let at = element.child("index").map_or(element.at, |index| index.at);
            return self.report(at, "index", &format!("{:?}", text("index")), "a whole number from 0 to 65535");
        };
        if !self.points.insert((point_type.name(), index)) {
            let found = format!("{} {index} a second time", point_type.name());
            return self.report(element.at, "index", &found, "each point once");
        }
        let class = element.child(class).and_then(|class| {
            let number = CLASSES.iter().position(|word| *word == class.text).and_then(|n| u8::try_from(n).ok());
            if number.is_none() {
                self.report(class.at, &class.name, &format!("{:?}", class.text), "none, one, two or three");
            }
            number
        });
        let settings = element.child("userData").map(|data| self.read_settings(data, &POINT_SETTINGS));
        profile.points.push(ProfilePoint {
            point_type,
            index,
            name: text("name"),
            class,
            unit: text("units"),
            scale: text("scaleFactor"),
            offset: text("scaleOffset"),
            description: text("description"),
            settings: settings.unwrap_or_default(),
        });
    }
}

/// The paths of elements that nobody looked at, without what is below them.
fn collect_unread(element: &Element, path: &str, unread: &mut BTreeSet<String>) {
    for child in &element.children {
        let path = format!("{path}/{}", child.name);
        // What a device could be is not what it is.
        let is_aside = matches!(child.name.as_str(), "capabilities" | "methods" | "note" | "documentHeader");
        if child.seen.get() {
            collect_unread(child, &path, unread);
        } else if !is_aside {
            unread.insert(path);
        }
    }
}

impl Profile {
    /// The file of an outstation that serves these points.
    #[must_use]
    pub fn to_outstation(&self) -> String {
        let mut out = String::new();
        for (key, value) in &self.settings {
            let _ = writeln!(out, "{key} = {value}");
        }
        let known: Vec<_> =
            self.attributes.iter().filter(|(key, _)| ATTRIBUTES.iter().any(|(k, _)| k == key)).collect();
        if !known.is_empty() {
            out.push_str("\n[attributes]\n");
            for (key, text) in known {
                let _ = writeln!(out, "{key} = {}", quoted(text));
            }
        }
        for point in &self.points {
            let _ = write!(out, "\n[[point]]\ntype = \"{}\"\nindex = {}\n", point.point_type.name(), point.index);
            if let Some(class) = point.class {
                let _ = writeln!(out, "class = {class}");
            }
            for (key, value) in &point.settings {
                let _ = writeln!(out, "{key} = {value}");
            }
        }
        out
    }

    /// The device's table of a node's file; `points` is where its list will be.
    #[must_use]
    pub fn to_device(&self, name: &str, points: &str) -> String {
        let number =
            |wanted: &str| self.settings.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.as_str());
        let mut out = format!(
            "[device.{name}]\nprotocol = \"dnp3\"\naddress = \"192.0.2.1:20000\" # where it listens: no part of a profile\n"
        );
        let _ = writeln!(out, "points = {}\n\n[device.{name}.dnp3]", quoted(points));
        for (key, wanted) in [("outstation", "address"), ("master", "master")] {
            if let Some(value) = number(wanted) {
                let _ = writeln!(out, "{key} = {value}");
            }
        }
        out
    }

    /// The point list of a device, as CSV.
    #[must_use]
    pub fn to_points(&self) -> String {
        let mut csv = csv::Writer::from_writer(Vec::new());
        let _ = csv.write_record(["name", "type", "index", "unit", "scale", "offset", "description"]);
        let mut taken = BTreeSet::new();
        for point in &self.points {
            let index = point.index.to_string();
            let mut name = topic_of(&point.name);
            if name.is_empty() || taken.contains(&name) {
                name = format!("{}/{index}", point.point_type.name());
            }
            taken.insert(name.clone());
            let number = |text: &str| {
                if text.parse::<f64>().is_ok_and(f64::is_finite) { text.to_owned() } else { String::new() }
            };
            let _ = csv.write_record([
                name.as_str(),
                point.point_type.name(),
                &index,
                &point.unit,
                &number(&point.scale),
                &number(&point.offset),
                &point.description,
            ]);
        }
        csv.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// A name as a part of a topic.
fn topic_of(name: &str) -> String {
    let part = |c: char| if c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.') { c } else { '_' };
    let parts: Vec<String> = name.split('/').map(|text| text.trim().chars().map(part).collect()).collect();
    let filled: Vec<&str> = parts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    filled.join("/")
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

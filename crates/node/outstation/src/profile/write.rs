//! From an outstation's file to XML.

use super::map::{ATTRIBUTES, CLASSES, Form, LISTS, NAMESPACE, OURS, STATION};
use crate::config::{OutstationFile, OutstationPoint};
use std::fmt::Write;
use tieline_dnp3::app::{AttributeValue, CommandStatus};
use tieline_dnp3::objects::{Kind, Layout};
use tieline_dnp3::outstation::{PointConfig, UnsolicitedConfig};
use tieline_dnp3::{DoubleBit, EventClass, Flags, Measured, PointType};

/// Writes an element around what `inner` writes.
fn within(out: &mut String, depth: usize, name: &str, inner: impl FnOnce(&mut String)) {
    let _ = writeln!(out, "{:1$}<{name}>", "", depth * 2);
    inner(out);
    let _ = writeln!(out, "{:1$}</{name}>", "", depth * 2);
}

fn leaf(out: &mut String, depth: usize, name: &str, text: &str) {
    let text = quick_xml::escape::escape(text);
    let _ = writeln!(out, "{:1$}<{name}>{text}</{name}>", "", depth * 2);
}

fn setting(out: &mut String, depth: usize, key: &str, value: &str) {
    let value = quick_xml::escape::escape(value);
    let _ = writeln!(out, "{:1$}<t:setting key=\"{key}\">{value}</t:setting>", "", depth * 2);
}

/// The device profile of an outstation.
#[must_use]
pub fn write(file: &OutstationFile) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n".to_owned();
    let _ =
        writeln!(out, "<DNP3DeviceProfileDocument schemaVersion=\"2.11.00\" xmlns=\"{NAMESPACE}\" xmlns:t=\"{OURS}\">");
    within(&mut out, 1, "documentHeader", |out| {
        leaf(out, 2, "documentName", "Tieline outstation");
        leaf(out, 2, "documentDescription", "Written from the configuration of the outstation");
    });
    within(&mut out, 1, "referenceDevice", |out| {
        within(out, 2, "configuration", |out| write_configuration(file, out));
        within(out, 2, "implementationTable", |out| within(out, 3, "table", write_objects));
        within(out, 2, "dataPointsList", |out| {
            for (point_type, list, point, class) in LISTS {
                let of_type = || file.points.iter().filter(move |p| p.start.point_type == point_type);
                if of_type().next().is_some() {
                    within(out, 3, list, |out| {
                        within(out, 4, "dataPoints", |out| {
                            of_type().for_each(|p| within(out, 5, point, |out| write_point(p, class, out)));
                        });
                    });
                }
            }
        });
    });
    out.push_str("</DNP3DeviceProfileDocument>\n");
    out
}

/// What a profile has no place for, as the file names it.
#[must_use]
pub fn left_out(file: &OutstationFile) -> Vec<&'static str> {
    let unsolicited = file.config.unsolicited.unwrap_or_default();
    let usual = UnsolicitedConfig::default();
    let is_listed = |point: &OutstationPoint| LISTS.iter().any(|(listed, ..)| *listed == point.start.point_type);
    let is_text = |point: &OutstationPoint| matches!(&point.start.value, Measured::Bytes(bytes) if **bytes != [0]);
    [
        (file.files.is_some(), "[files]"),
        (file.secure.is_some(), "[secure]"),
        (!file.masters.is_empty(), "[[master]]"),
        (unsolicited.events_before_hold_ends != usual.events_before_hold_ends, "unsolicited_hold_events"),
        (unsolicited.protection != usual.protection, "unsolicited_protection"),
        (!file.points.iter().all(is_listed), "points of frozen counters and frozen analogs"),
        (file.points.iter().any(is_text), "the initial values of octet strings"),
    ]
    .into_iter()
    .filter_map(|(is_there, name)| is_there.then_some(name))
    .collect()
}

fn write_configuration(file: &OutstationFile, out: &mut String) {
    let mut sections: Vec<&str> = Vec::new();
    STATION.iter().for_each(|(section, ..)| {
        if !sections.contains(section) {
            sections.push(section);
        }
    });
    for section in sections {
        within(out, 3, section, |out| {
            if section == "deviceConfig" {
                within(out, 4, "deviceFunction", |out| {
                    let _ = writeln!(out, "          <currentValue><outstation/></currentValue>");
                });
            }
            for (_, element, key, form) in STATION.iter().filter(|(of, ..)| *of == section) {
                if let Some(value) = value_of(file, key, *form) {
                    within(out, 4, element, |out| {
                        let _ = writeln!(out, "          <currentValue>{value}</currentValue>");
                    });
                }
            }
            if section == "applConfig" {
                within(out, 4, "userData", |out| write_settings(file, out));
            }
        });
    }
}

fn write_settings(file: &OutstationFile, out: &mut String) {
    let config = &file.config;
    setting(out, 5, "select_timeout", &format!("\"{}ms\"", config.select_timeout.as_millis()));
    if let Some(every) = config.need_time_every {
        setting(out, 5, "need_time_every", &format!("\"{}ms\"", every.as_millis()));
    }
    setting(out, 5, "events_max", &config.event_limits.of(PointType::Binary).to_string());
    if let Some(unsolicited) = &config.unsolicited {
        setting(out, 5, "unsolicited_events_max", &unsolicited.events_max.to_string());
    }
    setting(out, 5, "lean", &config.lean.is_some().to_string());
}

/// What stands within `currentValue`.
fn value_of(file: &OutstationFile, key: &str, form: Form) -> Option<String> {
    let config = &file.config;
    let unsolicited = config.unsolicited.as_ref();
    let number = match key {
        "address" => u128::from(config.address),
        "master" => u128::from(config.master),
        "controls_max" => u128::from(config.controls_max),
        "confirm_timeout" => config.confirm_timeout.as_millis(),
        "unsolicited_confirm_timeout" => unsolicited?.confirm_timeout.as_millis(),
        "unsolicited_hold_time" => unsolicited?.hold_time.as_millis(),
        "unsolicited_retries_max" => match unsolicited?.retries_max {
            Some(retries) => u128::from(retries),
            None => return Some("<infinite/>".to_owned()),
        },
        "self_address" => u128::from(config.answers_self_address),
        "unsolicited" => u128::from(unsolicited.is_some()),
        _ => 0,
    };
    match form {
        Form::Number | Form::Millis => Some(format!("<value>{number}</value>")),
        Form::Words(yes, no) => Some(format!("<{}/>", if number == 0 { no } else { yes })),
        Form::Text => {
            let (_, variation) = ATTRIBUTES.into_iter().find(|(name, _)| *name == key)?;
            let Some(AttributeValue::Text(text)) = file.attributes.get(0, variation) else { return None };
            let text = String::from_utf8_lossy(text).into_owned();
            Some(format!("<value>{}</value>", quick_xml::escape::escape(text.as_str())))
        }
    }
}

/// The objects that our outstations know, with functions and qualifiers.
fn write_objects(out: &mut String) {
    for layout in Layout::all().filter(|layout| layout.point_type.is_some() || layout.kind == Kind::Command) {
        let request: (&[u8], &[u8]) = match layout.kind {
            Kind::Static => (&[1, 22], &[0, 1, 6, 7, 8, 23, 40]),
            Kind::Event => (&[1], &[6, 7, 8]),
            Kind::Command => (&[3, 4, 5, 6], &[23, 40]),
            Kind::Other => continue,
        };
        let response: (&[u8], &[u8]) = match layout.kind {
            Kind::Static => (&[129], &[0, 1]),
            Kind::Event => (&[129, 130], &[23, 40]),
            Kind::Command | Kind::Other => (&[129], &[23, 40]),
        };
        within(out, 4, "supportedVariation", |out| {
            leaf(out, 5, "objectGroup", &layout.object.group.to_string());
            leaf(out, 5, "variation", &layout.object.variation.to_string());
            leaf(out, 5, "description", layout.name);
            for (name, (functions, qualifiers)) in [("request", request), ("response", response)] {
                within(out, 5, name, |out| {
                    functions.iter().for_each(|code| leaf(out, 6, "functionCode", &code.to_string()));
                    qualifiers.iter().for_each(|code| leaf(out, 6, "qualifierCode", &code.to_string()));
                });
            }
        });
    }
}

fn write_point(point: &OutstationPoint, class: &str, out: &mut String) {
    let point_type = point.start.point_type;
    leaf(out, 6, "index", &point.start.index.to_string());
    leaf(out, 6, "name", &format!("{} {}", point_type.name(), point.start.index));
    let number = |class: Option<EventClass>| match class {
        None => 0,
        Some(EventClass::Class1) => 1,
        Some(EventClass::Class2) => 2,
        Some(EventClass::Class3) => 3,
    };
    leaf(out, 6, class, CLASSES.get(number(point.config.class)).copied().unwrap_or_default());
    within(out, 6, "userData", |out| {
        let (config, default) = (&point.config, PointConfig::of(point_type));
        let mut differ = |key, differs: bool, value: String| {
            if differs {
                setting(out, 7, key, &value);
            }
        };
        differ("in_class_0", !config.in_class_0, config.in_class_0.to_string());
        differ("static", config.static_variation != default.static_variation, config.static_variation.to_string());
        differ("event", config.event_variation != default.event_variation, config.event_variation.to_string());
        differ("dead_band", config.dead_band > 0.0, format!("{:?}", config.dead_band));
        differ("command_class", config.command_class.is_some(), number(config.command_class).to_string());
        let command = config.command_variation;
        differ("command", command != default.command_variation, command.to_string());
        differ("flags", point.start.flags != Flags::ONLINE, point.start.flags.0.to_string());
        differ("operate", point.operate != CommandStatus::Success, format!("\"{}\"", point.operate.name()));
        if let Some(value) = literal(&point.start.value) {
            differ("value", true, value);
        }
    });
}

/// A value as TOML writes it; none for bytes that are no text.
fn literal(value: &Measured) -> Option<String> {
    Some(match value {
        Measured::Bit(bit) => bit.to_string(),
        Measured::DoubleBit(state) => match state {
            DoubleBit::Intermediate => "\"intermediate\"",
            DoubleBit::Off => "\"off\"",
            DoubleBit::On => "\"on\"",
            DoubleBit::Indeterminate => "\"indeterminate\"",
        }
        .to_owned(),
        Measured::Count(count) => count.to_string(),
        Measured::Analog(number) => format!("{number:?}"),
        Measured::Bytes(_) => return None,
    })
}

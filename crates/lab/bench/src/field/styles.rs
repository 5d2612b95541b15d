//! What publishing the 18 points of a device once takes, in messages and bytes at a subscriber: ours counted from the MQTT
//! packets that a node sends, beside VOLTTRON's four ways, computed from the format of its messages.
//!
//! Of VOLTTRON, topic, headers and message are counted as its router sends them, as JSON with the separators of Python's
//! `json.dumps`; the frames of its bus around them (peer, protocol, user, number, subsystem, lengths) and encryption are
//! not, so its figures are lower bounds. Of ours, whole MQTT packets are.
//!
//! ```text
//! devices/CAMPUS/BUILDING/UNIT/POINT   [value, meta]                  depth first, single
//! devices/CAMPUS/BUILDING/UNIT/all     [{POINT: value, …}, {POINT: meta, …}]   depth first, all
//! devices/POINT/UNIT/BUILDING/CAMPUS, devices/all/UNIT/BUILDING/CAMPUS         breadth first, the same messages
//! ```

use super::devices::{Generator, Kind, Protocol};
use super::node::Under;
use super::watch::{Check, ROOT, Watch};
use super::{Experiment, Figures, Options, Row};
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The points of an air handling unit: name and unit.
const POINTS: [(&str, &str); 18] = [
    ("SupplyFanStatus", "On/Off"),
    ("SupplyFanSpeed", "percent"),
    ("ReturnFanStatus", "On/Off"),
    ("OutdoorAirTemperature", "degreesFahrenheit"),
    ("OutdoorAirHumidity", "percent"),
    ("ReturnAirTemperature", "degreesFahrenheit"),
    ("MixedAirTemperature", "degreesFahrenheit"),
    ("DischargeAirTemperature", "degreesFahrenheit"),
    ("DischargeAirSetPoint", "degreesFahrenheit"),
    ("DuctStaticPressure", "inchesOfWater"),
    ("DuctStaticSetPoint", "inchesOfWater"),
    ("OutdoorAirDamper", "percent"),
    ("CoolingValve", "percent"),
    ("HeatingValve", "percent"),
    ("FilterPressure", "inchesOfWater"),
    ("OccupancyMode", "state"),
    ("AlarmStatus", "state"),
    ("EnergyMeter", "kilowattHours"),
];
/// The device, in both systems.
const CAMPUS: &str = "campus";
const BUILDING: &str = "building1";
const UNIT: &str = "ahu1";
/// Publications that are counted.
const READS: u32 = 4;
/// A read may come between two looks.
const ATTEMPTS: u32 = 5;
/// Time of a publication, and headers as the platform driver writes them.
const TIME: &str = "2026-11-23T12:00:01.000000+00:00";
const VERSIONS: (&str, &str) = ("3.0", "");

/// What a row counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StyleFigures {
    /// Messages of one publication.
    pub messages: f64,
    /// Their bytes.
    pub bytes: f64,
    /// The bytes of VOLTTRON's four ways together, over these.
    pub four_ways_to_this: f64,
}

/// Ours: what is published.
const OURS: [(&str, &str); 3] =
    [("points and all (default)", "[\"points\", \"all\"]"), ("points", "[\"points\"]"), ("all", "[\"all\"]")];

/// The rows of the experiment.
pub fn rows(options: &Options, progress: &Progress) -> Vec<Row> {
    let four: Vec<(&'static str, Vec<Message>)> = volttron();
    let bytes_of = |messages: &[Message]| messages.iter().map(Message::bytes).sum::<usize>() as u64;
    let four_bytes = four.iter().map(|(_, messages)| bytes_of(messages)).sum::<u64>();
    let four_messages = four.iter().map(|(_, messages)| messages.len() as u64).sum::<u64>();
    let figures = |messages: f64, bytes: f64| {
        let four_ways_to_this = short(number(four_bytes) / bytes);
        Some(Figures::Styles(StyleFigures { messages: short(messages), bytes: short(bytes), four_ways_to_this }))
    };
    let row = |publish, counted| Row {
        publish: Some(publish),
        counted: Some(counted),
        points: Some(POINTS.len()),
        ..Row::new(Experiment::Styles)
    };
    let mut rows = Vec::new();
    for (publish, words) in OURS {
        progress.show(&format!("field: bytes of {publish}"));
        let (figures, invalid) = match count(options, words) {
            Ok((messages, bytes)) => (figures(messages, bytes), None),
            Err(why) => (None, Some(format!("{publish}: {why:#}"))),
        };
        rows.push(Row { figures, invalid, ..row(publish, "sent") });
    }
    for (name, messages) in &four {
        let figures = figures(number(messages.len() as u64), number(bytes_of(messages)));
        rows.push(Row { figures, ..row(name, "computed") });
    }
    let figures = figures(number(four_messages), number(four_bytes));
    rows.push(Row { figures, ..row("VOLTTRON, all four ways", "computed") });
    rows
}

/// Messages and bytes of one publication, as a subscriber gets them from a node in this process.
fn count(options: &Options, publish: &str) -> Result<(f64, f64)> {
    let kind = Kind { protocol: Protocol::Modbus, devices: 1, every: options.every };
    let mut generator = Generator::start(None, kind)?;
    let folder = TempDir::new().context("a folder for the node")?;
    let mut list = "name,type,index,scale\n".to_owned();
    for ((name, _), address) in POINTS.iter().zip(3..) {
        let _ = writeln!(list, "{name},holding-register,{address},0.1");
    }
    std::fs::write(folder.path().join("points.csv"), list)?;
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[history]\nenabled = false\n[mqtt]\nlisten = \"127.0.0.1:0\"\n[device.ahu1]\n\
         topic = \"{ROOT}/{CAMPUS}/{BUILDING}/{UNIT}\"\npoints = \"points.csv\"\npublish = {publish}\nall_every = \"{}ms\"\n{}",
        options.every.as_millis() / 2,
        Protocol::Modbus.table(0, generator.port(), options.every),
    );
    let node = Under::start(None, folder.path(), &text)?;
    let watch = Watch::start(node.mqtt, Check::Nothing)?;
    watch.await_devices(1)?;
    // The first round of all points, and what it leaves to publish.
    std::thread::sleep(2 * options.every);
    for _ in 0..ATTEMPTS {
        await_message(&watch, options.every)?;
        // Halfway between two reads, so that those that are counted are whole.
        std::thread::sleep(options.every / 2);
        watch.forget()?;
        generator.begin()?;
        std::thread::sleep(options.every * READS);
        let (taken, seen) = (watch.look()?, generator.end(options.every)?);
        let messages = taken.points + taken.alls;
        if seen.reads > 0 && messages.is_multiple_of(seen.reads) {
            return Ok((number(messages / seen.reads), number(taken.bytes) / number(seen.reads)));
        }
    }
    bail!("no {READS} intervals had whole publications only")
}

/// Waits until something is published.
fn await_message(watch: &Watch, every: Duration) -> Result<()> {
    let (began, before) = (Instant::now(), watch.look()?);
    while watch.look()?.bytes == before.bytes {
        ensure!(began.elapsed() < 10 * every + Duration::from_secs(5), "nothing is published");
    }
    Ok(())
}

/// A message on VOLTTRON's bus.
struct Message {
    topic: String,
    json: String,
}

impl Message {
    fn bytes(&self) -> usize {
        self.topic.len() + self.json.len()
    }
}

/// VOLTTRON's four ways.
fn volttron() -> Vec<(&'static str, Vec<Message>)> {
    let one = |meta: &str, value: f64| envelope(&format!("[{value}, {meta}]"));
    let singles = |topic: &dyn Fn(&str) -> String| -> Vec<Message> {
        let single = |((name, _), number): (&(&str, &str), u8)| Message {
            topic: topic(name),
            json: one(&meta_of(name), value_of(number)),
        };
        POINTS.iter().zip(0..).map(single).collect()
    };
    let all = |topic: String| vec![Message { topic, json: envelope(&all_of()) }];
    let depth = |point: &str| format!("devices/{CAMPUS}/{BUILDING}/{UNIT}/{point}");
    let breadth = |point: &str| format!("devices/{point}/{UNIT}/{BUILDING}/{CAMPUS}");
    vec![
        ("VOLTTRON, depth first, single", singles(&depth)),
        ("VOLTTRON, depth first, all", all(depth("all"))),
        ("VOLTTRON, breadth first, single", singles(&breadth)),
        ("VOLTTRON, breadth first, all", all(breadth("all"))),
    ]
}

/// As the simulated device has them.
fn value_of(number: u8) -> f64 {
    f64::from(20_000 + u16::from(number)) / 10.0
}

fn meta_of(name: &str) -> String {
    let unit = POINTS.iter().find(|(known, _)| *known == name).map_or("", |(_, unit)| unit);
    format!("{{\"units\": \"{unit}\", \"type\": \"float\", \"tz\": \"US/Pacific\"}}")
}

fn all_of() -> String {
    let values: Vec<String> =
        POINTS.iter().zip(0..).map(|((name, _), number)| format!("\"{name}\": {}", value_of(number))).collect();
    let metas: Vec<String> = POINTS.iter().map(|(name, _)| format!("\"{name}\": {}", meta_of(name))).collect();
    format!("[{{{}}}, {{{}}}]", values.join(", "), metas.join(", "))
}

/// What a subscriber's frame of data holds, besides the topic in a frame of its own.
fn envelope(message: &str) -> String {
    let (min, max) = VERSIONS;
    format!(
        "{{\"bus\": \"\", \"headers\": {{\"Date\": \"{TIME}\", \"TimeStamp\": \"{TIME}\", \"SynchronizedTimeStamp\": \"{TIME}\", \
         \"min_compatible_version\": \"{min}\", \"max_compatible_version\": \"{max}\"}}, \"message\": {message}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_ways_are_json_with_every_point() {
        let four = volttron();
        assert_eq!(four.iter().map(|(_, messages)| messages.len()).collect::<Vec<_>>(), [18, 1, 18, 1]);
        for message in four.iter().flat_map(|(_, messages)| messages) {
            let json: serde_json::Value = serde_json::from_str(&message.json).unwrap();
            assert_eq!(json["headers"].as_object().unwrap().len(), 5, "{}", message.topic);
            assert_eq!(json["message"].as_array().unwrap().len(), 2, "{}", message.topic);
        }
        let all: serde_json::Value = serde_json::from_str(&four[1].1[0].json).unwrap();
        assert_eq!(all["message"][0].as_object().unwrap().len(), 18);
        assert_eq!(four[0].1[0].topic, "devices/campus/building1/ahu1/SupplyFanStatus");
        assert_eq!(four[3].1[0].topic, "devices/all/ahu1/building1/campus");
    }
}

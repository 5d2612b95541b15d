//! One call that commands a point of each of many devices under a reservation: until each device has answered, until a reading
//! has shown each, and after the reservation until each is reverted.
//!
//! A node with simulated devices runs in this process; the call comes over HTTP. The floor is the disk: a plain file to
//! which the bytes are written that the node wrote of one such call, its audit log and its state, and synced
//! (`fdatasync`) once. Each command waits for that at least.

mod client;

use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, short, take_turns};
use anyhow::{Context, Result, bail, ensure};
use client::Client;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_node::{Node, config};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("devices", "devices"),
    ("reserved ms", "reserved_ms"),
    ("accepted ms", "accepted_ms"),
    ("verified ms", "verified_ms"),
    ("reverted ms", "reverted_ms"),
    ("floor ms", "floor_ms"),
    ("accepted to floor", "ratio_to_floor"),
    ("bytes a command", "bytes_per_command"),
];

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a state is looked at that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The list of every device.
const POINTS: &str = "name,type,value,writable\nsetpoint,float,20,true\n";

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Devices of each row.
    pub devices: Vec<usize>,
    /// Rounds of each row.
    pub rounds: usize,
}

/// One row. Figures are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Devices, each with one point that is commanded.
    pub devices: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// From the request for a reservation of all devices to its answer: it is on the disk.
    pub reserved_ms: f64,
    /// From a call to its answer: every device has accepted its command.
    pub accepted_ms: f64,
    /// The same of a call that is answered when a reading has shown each value.
    pub verified_ms: f64,
    /// From the end of the reservation until no point is held any more.
    pub reverted_ms: f64,
    /// Of the plain file.
    pub floor_ms: f64,
    /// The time until all are accepted over the plain file's.
    pub ratio_to_floor: f64,
    /// Bytes of audit log and state of a command that was accepted.
    pub bytes_per_command: f64,
}

/// One round of ours, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    reserved: f64,
    accepted: f64,
    verified: f64,
    reverted: f64,
    bytes: u64,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the node does not start.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.rounds > 0, "rounds are 1 or more");
    ensure!(options.devices.iter().all(|devices| (1..=50_000).contains(devices)), "devices are 1 to 50,000");
    options.devices.iter().map(|devices| row(*devices, options.rounds, progress)).collect()
}

fn row(devices: usize, rounds: usize, progress: &Progress) -> Result<Row> {
    let folder = TempDir::new().context("a folder for the node")?;
    let (node, client) = start(folder.path(), devices)?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let invalid = take_turns(rounds, progress, &format!("control: {devices} devices"), |side| {
        match side {
            Side::Ours => ours.push(round(&client, folder.path(), devices, ours.len())?),
            Side::Floor => {
                let bytes = ours.last().map_or(0, |round: &Round| round.bytes);
                floor.push(plain(folder.path(), bytes)?);
            }
        }
        Ok(())
    });
    drop(node);
    let figures = invalid.is_none().then(|| figures(devices, &ours, &floor));
    Ok(Row { devices, rounds, figures, invalid })
}

fn figures(devices: usize, ours: &[Round], floor: &[f64]) -> Figures {
    let all = |figure: fn(&Round) -> f64| ours.iter().map(figure).collect::<Vec<f64>>();
    let middle = |figure: fn(&Round) -> f64| short(median(&all(figure)));
    let bytes = median(&all(|round| crate::rounds::number(round.bytes)));
    Figures {
        reserved_ms: middle(|round| round.reserved),
        accepted_ms: middle(|round| round.accepted),
        verified_ms: middle(|round| round.verified),
        reverted_ms: middle(|round| round.reverted),
        floor_ms: short(median(floor)),
        ratio_to_floor: short(median_ratio(&all(|round| round.accepted), floor)),
        bytes_per_command: short(bytes / crate::rounds::number(devices as u64)),
    }
}

fn start(folder: &Path, devices: usize) -> Result<(Node, Client)> {
    std::fs::write(folder.join("points.csv"), POINTS)?;
    let mut text =
        "[http]\nlisten = \"127.0.0.1:0\"\n[history]\nenabled = false\n[mqtt]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    for device in 0..devices {
        let _ = writeln!(
            text,
            "[device.d{device}]\ntopic = \"site/d{device}\"\nprotocol = \"simulated\"\npoints = \"points.csv\"\n\
             poll = {{ every = \"10s\" }}"
        );
    }
    let node = Node::start(&config::from_text("bench.toml", &text, folder)?, folder)?;
    let client = Client::new(node.http());
    let all = |metric: &str| Ok(client.metric(metric)?.is_some_and(|online| online >= devices as f64));
    await_state("the devices are online", || all("tieline_devices{state=\"online\"}"))?;
    // Their values are there, which a revert would restore.
    let last = format!("/v1/topics/site/d{}/setpoint", devices - 1);
    await_state("values of the devices", || Ok(client.get(&last)?["value"]["q"] == "good"))?;
    Ok((node, client))
}

fn round(client: &Client, folder: &Path, devices: usize, number: usize) -> Result<Round> {
    let slots: Vec<Value> =
        (0..devices).map(|device| json!({ "device": format!("site/d{device}"), "for": "1h" })).collect();
    let task = json!({ "task": "bench", "priority": "LOW", "requester": "bench", "slots": slots, "lease": "none" });
    let (reserved, answer) = client.post("/v1/reservations", &task)?;
    ensure!(answer["result"] == "SUCCESS", "the reservation failed: {answer}");
    let before = written(folder)?;
    // Each round has other values: a reading of before shows nothing.
    let value = if number.is_multiple_of(2) { 25 } else { 27 };
    let accepted = call(client, devices, value, false)?;
    let bytes = written(folder)?.saturating_sub(before);
    let verified = call(client, devices, value + 1, true)?;
    let began = Instant::now();
    let (_, answer) = client.post("/v1/reservations/cancel", &json!({ "task": "bench", "requester": "bench" }))?;
    ensure!(answer["result"] == "SUCCESS", "the reservation did not end: {answer}");
    await_state("all points are reverted", || Ok(client.metric("tieline_control_held_points")? == Some(0.0)))?;
    let reverted = began.elapsed().as_secs_f64() * 1e3;
    Ok(Round { reserved, accepted, verified, reverted, bytes })
}

/// One call; the milliseconds until its answer.
fn call(client: &Client, devices: usize, value: i64, confirm: bool) -> Result<f64> {
    let point = |device: usize| json!({ "topic": format!("site/d{device}/setpoint"), "value": value });
    let points: Vec<Value> = (0..devices).map(point).collect();
    let body = json!({ "requester": "bench", "points": points, "confirm": confirm, "timeout_ms": 60_000 });
    let (took, answer) = client.post("/v1/set", &body)?;
    let counted = if confirm { "confirmed" } else { "accepted" };
    ensure!(answer[counted] == devices, "{} of {devices} points were {counted}", answer[counted]);
    Ok(took)
}

/// Bytes of the files that a command waits for.
fn written(folder: &Path) -> Result<u64> {
    let bytes = |name: &str| Ok::<u64, std::io::Error>(std::fs::metadata(folder.join(name))?.len());
    Ok(bytes("audit.jsonl")? + bytes("control.jsonl")?)
}

/// The floor: the milliseconds of so many bytes to the disk.
fn plain(folder: &Path, bytes: u64) -> Result<f64> {
    let path = folder.join("plain");
    let content = vec![b'x'; usize::try_from(bytes)?];
    let mut file = File::create(&path)?;
    let began = Instant::now();
    file.write_all(&content)?;
    file.sync_data()?;
    let took = began.elapsed();
    std::fs::remove_file(&path)?;
    Ok(took.as_secs_f64() * 1e3)
}

fn await_state(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > PATIENCE {
            bail!("{what}: not within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_devices_are_commanded_verified_and_reverted() {
        let options = Options { devices: vec![3], rounds: 2 };
        let rows = run(&options, &Progress::new(false)).unwrap();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let figures = row.figures.unwrap_or_else(|| panic!("{:?}", row.invalid));
        assert!(figures.accepted_ms > 0.0 && figures.bytes_per_command > 100.0, "{figures:?}");
    }
}

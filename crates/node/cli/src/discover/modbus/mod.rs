//! Modbus devices: which units answer behind which addresses.

mod link;
mod proposal;
mod sunspec;

use super::args::DiscoverArgs;
use super::walk::{Discovered, Walk, each_address};
use crate::exit::Unanswered;
use crate::terminal;
use anyhow::Result;
use link::{Heard, Link};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use sunspec::{Found, Model};
use tieline_modbus::{ReadCode, Request, Response, Table};
use tieline_net::Shard;

/// A device that answered.
#[derive(Clone, Debug)]
pub struct Device {
    /// `host:port`.
    pub address: String,
    /// Its unit there.
    pub unit: u8,
    /// Manufacturer, model, version, serial number; empty where it does not say.
    pub identity: [String; 4],
    /// Its SunSpec models.
    pub models: Vec<u16>,
    /// Points that are known of them.
    pub points: Vec<Found>,
}

impl Device {
    /// What it says of itself, in a line.
    pub fn words(&self) -> String {
        let said: Vec<&str> = self.identity.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let models: Vec<String> = self.models.iter().map(u16::to_string).collect();
        let said = if said.is_empty() { "says nothing of itself".to_owned() } else { said.join(" ") };
        let models = if models.is_empty() { String::new() } else { format!(", SunSpec {}", models.join(" ")) };
        terminal::one_line(&(said + &models)).into_owned()
    }
}

impl Discovered for Device {
    fn print(&self, json: bool) -> std::io::Result<()> {
        let Self { address, unit, identity: [manufacturer, model, version, serial], models, points } = self;
        let mut out = std::io::stdout().lock();
        if !json {
            return writeln!(out, "{address} unit {unit}: {}", self.words());
        }
        let object = json!({
            "address": address, "unit": unit, "manufacturer": manufacturer, "model": model, "version": version,
            "serial": serial, "sunspec_models": models, "points": points.len(),
        });
        writeln!(out, "{}", terminal::json(&object.to_string()))
    }
}

/// Looks for devices, and prints each as it is found.
pub fn discover(args: &DiscoverArgs, only_sunspec: bool) -> Result<ExitCode> {
    let asked = args.clone();
    let found = super::on_shard(move |shard| async move { look(&shard, &asked, only_sunspec).await })?;
    let Some(found) = found else { return Ok(ExitCode::SUCCESS) };
    let mut found = found?;
    found.sort_by(|a, b| (&a.address, a.unit).cmp(&(&b.address, b.unit)));
    super::propose(args.out.as_deref(), proposal::files(&found))?;
    Ok(ExitCode::SUCCESS)
}

/// All addresses, some of them at a time.
async fn look(shard: &Rc<Shard>, args: &DiscoverArgs, only_sunspec: bool) -> Result<Vec<Device>, Unanswered> {
    let addresses = args.places.iter().flat_map(|place| place.addresses(args.port)).collect();
    let what = if only_sunspec { "SunSpec devices" } else { "devices" };
    each_address(addresses, (args.together, args.json), what, |walk: Rc<Walk<Device>>, address| {
        let (shard, args) = (Rc::clone(shard), args.clone());
        async move {
            let Ok(link) = Link::open(&shard, &address, args.timeout).await else { return 0 };
            walk.connected();
            let here = look_at(&shard, link, &address, &args, only_sunspec).await;
            let count = here.len();
            here.into_iter().for_each(|device| walk.found(device));
            count
        }
    })
    .await
}

/// One address, to which there is a connection.
async fn look_at(
    shard: &Rc<Shard>,
    mut link: Link,
    address: &str,
    args: &DiscoverArgs,
    only_sunspec: bool,
) -> Vec<Device> {
    let mut found = Vec::new();
    for unit in &args.units.0 {
        if let Some(device) = look_for(&link, address, *unit).await {
            if !only_sunspec || !device.models.is_empty() {
                found.push(device);
            }
            continue;
        }
        // A connection on which nobody answers is closed after some time-outs.
        match Link::open(shard, address, args.timeout).await {
            Ok(again) => link = again,
            Err(_) => break,
        }
    }
    found
}

/// One unit; none where it does not answer.
async fn look_for(link: &Link, address: &str, unit: u8) -> Option<Device> {
    let identification = link.ask(unit, Request::Identification { code: ReadCode::Basic, object: 0 }).await;
    let mut identity: [String; 4] = Default::default();
    let mut answers = false;
    match identification {
        Heard::Answer(Response::Identification(page)) => {
            answers = true;
            for object in page.objects {
                // Vendor name, product code, revision: manufacturer, model, version.
                if let Some(text) = identity.get_mut(usize::from(object.id)) {
                    *text = String::from_utf8_lossy(&object.value).trim().to_owned();
                }
            }
        }
        Heard::Answer(_) => answers = true,
        Heard::Refused(code) => answers = !code.is_of_gateway(),
        Heard::Nothing => {}
    }
    if !answers {
        // Some devices leave functions that they do not know unanswered.
        let first = Request::Read { table: Table::HoldingRegisters, start: 0, count: 1 };
        match link.ask(unit, first).await {
            Heard::Answer(_) => {}
            Heard::Refused(code) if !code.is_of_gateway() => {}
            Heard::Refused(_) | Heard::Nothing => return None,
        }
    }
    let models: Vec<Model> = sunspec::models(link, unit).await;
    let identity = sunspec::common(&models).unwrap_or(identity);
    let points = sunspec::points(&models);
    Some(Device {
        address: address.to_owned(),
        unit,
        identity,
        models: models.iter().map(|model| model.id).collect(),
        points,
    })
}

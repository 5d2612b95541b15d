//! BACnet/IP devices, and those behind routers: who says that it is there, and which objects it has.

mod heard;
mod object;
mod proposal;
mod reading;
mod search;
mod survey;

use super::Progress;
use super::args::BacnetArgs;
use super::hosts::Networks;
use super::walk;
use crate::exit::Unanswered;
use crate::terminal;
use anyhow::{Context, Result, bail};
use reading::Found;
use serde_json::json;
use std::cell::RefCell;
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use survey::{Plan, Survey, SurveyEvent};
use tieline_bacnet::client::{ClientConfig, ForeignConfig, Target};
use tieline_bacnet::{Mac, Peer, Station, bvlc};
use tieline_core::Now;
use tieline_net::{DatagramMachine, Endpoint, EndpointOwner, Shard};
use tokio::sync::oneshot;

/// The number of the network that stands for all (clause 6.2.2).
const NETWORK_ALL: u16 = 0xFFFF;
/// How long the registration as a foreign device lasts, in seconds; it is renewed at half of that.
const FOREIGN_S: u16 = 300;
/// How often the progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(250);

impl Found {
    /// What it says of itself, in a line.
    fn words(&self) -> String {
        let instance = self.instance.unwrap_or_default();
        let said = self.profile.as_ref().map_or_else(
            || "says nothing of itself".to_owned(),
            |profile| {
                let words = [&*profile.vendor, &*profile.model, &*profile.firmware];
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                let said = if words.is_empty() { "says nothing of its maker".to_owned() } else { words.join(" ") };
                format!("{said}, {:?}", profile.name)
            },
        );
        let points = self.objects.iter().filter(|object| object.is_point()).count();
        let objects = match self.objects.len() {
            0 => String::new(),
            count => format!(", {count} objects, {points} of them points"),
        };
        let error = self.error.as_ref().map(|error| format!(", not read: {error}")).unwrap_or_default();
        terminal::one_line(&format!("device {instance}: {said}{objects}{error}")).into_owned()
    }

    fn print(&self, json: bool) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if !json {
            return writeln!(out, "{} {}", self.peer, self.words());
        }
        let profile = self.profile.as_ref();
        let words = |of: fn(&tieline_bacnet::device::Profile) -> &str| profile.map(of);
        let objects: Vec<_> = self.objects.iter().map(object_json).collect();
        let object = json!({
            "address": self.peer.address.to_string(),
            "network": self.peer.station.map(|station| station.network),
            "mac": self.peer.station.map(|station| hex(&station.mac)),
            "instance": self.instance,
            "vendor_id": self.vendor,
            "vendor": words(|profile| &profile.vendor),
            "model": words(|profile| &profile.model),
            "firmware": words(|profile| &profile.firmware),
            "name": words(|profile| &profile.name),
            "max_apdu": profile.map(|profile| profile.limits.max_apdu),
            "segmentation": profile.map(|profile| profile.limits.segmentation.to_string()),
            "protocol_revision": profile.and_then(|profile| profile.revision),
            "objects": objects,
            "error": self.error,
        });
        writeln!(out, "{}", terminal::json(&object.to_string()))
    }
}

fn object_json(object: &object::Object) -> serde_json::Value {
    json!({
        "type": object.id.object_type().to_string(),
        "instance": object.id.instance(),
        "name": object.name,
        "description": object.description,
        "unit": object.unit.map(|unit| unit.symbol().map_or_else(|| unit.to_string(), str::to_owned)),
        "states": object.states,
        "commandable": object.is_commandable,
        "logs": object.logs.iter().map(|logged| logged.reference.object.to_string()).collect::<Vec<_>>(),
    })
}

fn hex(mac: &Mac) -> String {
    mac.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks for devices, and prints each as it is found.
pub fn discover(args: &BacnetArgs) -> Result<ExitCode> {
    let asked = args.clone();
    let found = super::on_shard(move |shard| async move { look(&shard, &asked).await })?;
    let Some(found) = found else { return Ok(ExitCode::SUCCESS) };
    let (mut found, who_is) = found?;
    if found.is_empty() {
        return Err(Unanswered(nobody(args, who_is)).into());
    }
    found.sort_by_key(|found| (found.instance, found.peer));
    super::propose(args.out.as_deref(), proposal::files(&found, args))?;
    Ok(ExitCode::SUCCESS)
}

/// What is said where nothing was found.
fn nobody(args: &BacnetArgs, who_is: u64) -> String {
    let addresses: usize = args.places.iter().map(|place| place.addresses(bvlc::PORT).count()).sum();
    let asked = match addresses {
        0 => String::new(),
        some => format!("{} asked, ", walk::addresses(some)),
    };
    format!("no devices found: {asked}{who_is} Who-Is sent, and nothing answers")
}

/// The devices, and how many Who-Is were sent.
async fn look(shard: &Rc<Shard>, args: &BacnetArgs) -> Result<(Vec<Found>, u64)> {
    let endpoint = Endpoint::new(shard, Survey::new(plan(args).await?));
    endpoint.allow_broadcasts();
    let (end, ended) = oneshot::channel();
    let progress = Rc::new(Progress::default());
    let found = Rc::new(RefCell::new(Vec::new()));
    let owner = Printer { json: args.json, progress: Rc::clone(&progress), found: Rc::clone(&found), end: Some(end) };
    let local = SocketAddr::V4(args.local);
    endpoint.start(local, None, owner).await.with_context(|| format!("the local address {local} cannot be taken"))?;
    let (shown, line) = (endpoint.clone(), Rc::clone(&progress));
    let ticks = tokio::task::spawn_local(async move {
        let mut ticks = tokio::time::interval(SHOWN_EVERY);
        loop {
            ticks.tick().await;
            line.show(&shown.look(Survey::progress));
        }
    });
    // The survey begins with its first deadline.
    endpoint.with(DatagramMachine::handle_timeout);
    let why = ended.await;
    ticks.abort();
    progress.clear();
    match why {
        Ok(None) => Ok((found.take(), endpoint.look(Survey::who_is))),
        Ok(Some(why)) => bail!("{why}"),
        Err(_) => bail!("the discovery ended"),
    }
}

/// What the arguments ask for.
async fn plan(args: &BacnetArgs) -> Result<Plan> {
    let foreign = args.bbmd.map(|bbmd| ForeignConfig { bbmd, lifetime_s: FOREIGN_S });
    let client = ClientConfig {
        apdu_timeout: args.timeout,
        retries: args.retries,
        who_is_interval: Duration::from_secs(1) / u32::from(args.rate.max(1)),
        in_flight_by_peer: 1,
        broadcast: args.broadcast,
        foreign,
        ..ClientConfig::default()
    };
    let mut targets = Vec::new();
    if args.broadcast.is_some() || args.bbmd.is_some() {
        targets.extend(broadcasts(&args.networks));
    }
    for place in &args.places {
        for address in place.addresses(tieline_bacnet::bvlc::PORT) {
            targets.extend(at_address(resolve(&address).await?, &args.networks).into_iter().map(Target::Peer));
        }
    }
    Ok(Plan {
        client,
        targets,
        instances: (args.instances.0, args.instances.1),
        width: args.width,
        wait: args.wait,
        together: usize::from(args.together),
        reads_objects: !args.devices_only,
    })
}

fn broadcasts(networks: &Networks) -> Vec<Target> {
    match networks {
        Networks::All => vec![Target::Global],
        Networks::Some { local, behind } => {
            let local = local.then_some(Target::Local);
            local.into_iter().chain(behind.iter().map(|network| Target::Remote(*network))).collect()
        }
    }
}

/// The device at an address, and all that are behind it where it is a router.
fn at_address(address: SocketAddrV4, networks: &Networks) -> Vec<Peer> {
    let behind = |network: u16| Peer::routed(address, Station { network, mac: Mac::default() });
    match networks {
        Networks::All => vec![behind(NETWORK_ALL)],
        Networks::Some { local, behind: numbers } => {
            let local = local.then_some(Peer::direct(address));
            local.into_iter().chain(numbers.iter().map(|network| behind(*network))).collect()
        }
    }
}

async fn resolve(address: &str) -> Result<SocketAddrV4> {
    if let Ok(address) = address.parse() {
        return Ok(address);
    }
    let found = tokio::net::lookup_host(address).await.with_context(|| format!("{address} is not found"))?;
    let first = found.into_iter().find_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    first.with_context(|| format!("{address}: found no IPv4 address, expected one: BACnet/IP has no other"))
}

/// Prints what is found.
struct Printer {
    json: bool,
    progress: Rc<Progress>,
    found: Rc<RefCell<Vec<Found>>>,
    end: Option<oneshot::Sender<Option<String>>>,
}

impl EndpointOwner<Survey> for Printer {
    fn event(&mut self, _endpoint: &Endpoint<Survey>, _now: Now, event: SurveyEvent) {
        match event {
            SurveyEvent::Found(found) => {
                self.progress.clear();
                // A reader that has gone ends the process with its next write.
                let _ = found.print(self.json);
                self.found.borrow_mut().push(*found);
            }
            SurveyEvent::Warning(warning) => {
                self.progress.clear();
                eprintln!("tieline: {}", terminal::one_line(&warning));
            }
            SurveyEvent::Done(why) => {
                if let Some(end) = self.end.take() {
                    let _ = end.send(why);
                }
            }
        }
    }
}

//! DNP3 outstations: which link addresses answer behind which TCP addresses, and which points they have.
//!
//! Of an outstation, class 0 and its attributes are read. Events are not asked for, and those that come unasked are not
//! confirmed: they stay where they are, for the outstation's own master.

use super::args::Dnp3Args;
use super::proposal::{Files, Proposal, Proposed, Reach, name_of_identity};
use super::walk::{Discovered, Walk, each_address};
use crate::exit::Unanswered;
use crate::terminal;
use anyhow::Result;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::app::{ALL_ATTRIBUTES, Found, Object};
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent, Request, TaskOutcome, TimeSync};
use tieline_dnp3::{Classes, PointType};
use tieline_net::{Closed, Limits, Owner, Session, Shard, Target, connect};
use tokio::sync::oneshot;

/// Names of tasks.
const STATIC: u64 = 0;
const ATTRIBUTES: u64 = 1;
/// Attributes of set 0: manufacturer, product, software version, serial number (IEEE 1815 A.1).
const IDENTITY: [u8; 4] = [252, 250, 242, 248];
/// Points of one outstation at most: all indices of all kinds.
const POINTS_MAX: usize = 9 * 65_536;

/// An outstation that answered.
#[derive(Clone, Debug)]
struct Outstation {
    /// `host:port`.
    address: String,
    /// Its link address.
    link: u16,
    /// Manufacturer, product, version, serial number; empty where it does not say.
    identity: [String; 4],
    /// The indices of each kind of point.
    points: BTreeMap<PointType, BTreeSet<u16>>,
}

/// Looks for outstations, and prints each as it is found.
pub fn discover(args: &Dnp3Args) -> Result<ExitCode> {
    let asked = args.clone();
    let found = super::on_shard(move |shard| async move { look(&shard, &asked).await })?;
    let Some(found) = found else { return Ok(ExitCode::SUCCESS) };
    let mut found = found?;
    found.sort_by(|a, b| (&a.address, a.link).cmp(&(&b.address, b.link)));
    super::propose(args.out.as_deref(), files(&found, args.master))?;
    Ok(ExitCode::SUCCESS)
}

/// All addresses, some of them at a time.
async fn look(shard: &Rc<Shard>, args: &Dnp3Args) -> Result<Vec<Outstation>, Unanswered> {
    let addresses = args.places.iter().flat_map(|place| place.addresses(args.port)).collect();
    each_address(addresses, (args.together, args.json), "outstations", |walk: Rc<Walk<Outstation>>, address| {
        let (shard, args) = (Rc::clone(shard), args.clone());
        async move {
            let (mut count, mut is_connected) = (0, false);
            for link in &args.outstations.0 {
                let answer = look_for(&shard, &address, *link, &args).await;
                if !is_connected && !matches!(answer, Answer::Nobody) {
                    is_connected = true;
                    walk.connected();
                }
                match answer {
                    Answer::Nobody => break,
                    Answer::Silent => {}
                    Answer::Outstation(outstation) => {
                        count += 1;
                        walk.found(*outstation);
                    }
                }
                walk.show();
            }
            count
        }
    })
    .await
}

/// Who answers.
enum Answer {
    /// Nobody takes a connection.
    Nobody,
    /// A connection is taken, and nothing is said.
    Silent,
    /// The outstation.
    Outstation(Box<Outstation>),
}

/// One link address, on a connection of its own.
async fn look_for(shard: &Rc<Shard>, address: &str, link: u16, args: &Dnp3Args) -> Answer {
    let target = Target { timeout: args.timeout, ..Target::new(address) };
    let Ok(stream) = connect(&target).await else { return Answer::Nobody };
    let session = Session::new(shard, Master::new(config(link, args)), Limits::default());
    let (end, ended) = oneshot::channel();
    let outstation =
        Outstation { address: address.to_owned(), link, identity: Default::default(), points: BTreeMap::new() };
    let mut hears = Hears { outstation, answers: false, end: Some(end), within: args.timeout * 4 };
    let running = session.clone();
    let task = tokio::task::spawn_local(async move {
        running.run(stream, &mut hears).await;
        hears
    });
    // The end of the session says that nobody answers, too.
    let _ = ended.await;
    session.close();
    match task.await {
        Ok(hears) if hears.answers => Answer::Outstation(Box::new(hears.outstation)),
        Ok(_) | Err(_) => Answer::Silent,
    }
}

/// A master that does nothing by itself.
fn config(outstation: u16, args: &Dnp3Args) -> MasterConfig {
    let none = Classes::NONE;
    MasterConfig {
        address: args.master,
        outstation,
        response_timeout: args.timeout,
        disable_unsolicited: none,
        integrity: none,
        enable_unsolicited: none,
        time_sync: TimeSync::Never,
        clear_restart: false,
        hold_confirm: true,
        ..MasterConfig::default()
    }
}

/// Hears an outstation.
struct Hears {
    outstation: Outstation,
    answers: bool,
    end: Option<oneshot::Sender<()>>,
    within: Duration,
}

impl Hears {
    fn ask(&mut self, session: &Session<Master>, request: Request, token: u64) {
        let within = self.within;
        let asked = session.with(|master, now| master.submit(now, request.until(now.mono + within), token));
        if asked.is_err() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
    }

    fn take(&mut self, found: &Found) {
        match found {
            Found::Measurement { measurement, .. } => {
                let count: usize = self.outstation.points.values().map(BTreeSet::len).sum();
                if count < POINTS_MAX {
                    self.outstation.points.entry(measurement.point_type).or_default().insert(measurement.index);
                }
            }
            Found::Object { object: Object::Attribute(attribute), .. } if attribute.set == 0 => {
                let place = IDENTITY.iter().position(|variation| *variation == attribute.variation);
                if let Some(text) = place.and_then(|place| self.outstation.identity.get_mut(place)) {
                    *text = attribute.value.to_string().trim_matches(['"', ' ', '\0']).to_owned();
                }
            }
            Found::Object { .. } => {}
        }
    }

    fn done(&mut self, session: &Session<Master>, token: u64, outcome: &TaskOutcome) {
        match token {
            STATIC if *outcome == TaskOutcome::Done => {
                self.answers = true;
                self.ask(session, Request::read_attributes(0, ALL_ATTRIBUTES), ATTRIBUTES);
            }
            _ => self.end(),
        }
    }
}

impl Owner<Master> for Hears {
    fn event(&mut self, session: &Session<Master>, _now: Now, event: MasterEvent) {
        match event {
            MasterEvent::Ready => self.ask(session, Request::read_classes(Classes::CLASS_0), STATIC),
            MasterEvent::Values { values, .. } => values.iter().for_each(|found| self.take(&found)),
            MasterEvent::TaskDone { token, outcome } => self.done(session, token, &outcome),
            MasterEvent::Online
            | MasterEvent::Offline(_)
            | MasterEvent::Restarted
            | MasterEvent::EventsLost
            | MasterEvent::Indications(_)
            | MasterEvent::FragmentEnd { .. }
            | MasterEvent::LinkAlive
            | MasterEvent::Answer { .. }
            | MasterEvent::Files(_)
            | MasterEvent::Security(_) => {}
        }
    }

    fn closed(&mut self, _session: &Session<Master>, _now: Now, _why: Closed) {
        self.end();
    }
}

impl Outstation {
    /// What it says of itself, in a line.
    fn words(&self) -> String {
        let said: Vec<&str> = self.identity.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let said = if said.is_empty() { "says nothing of itself".to_owned() } else { said.join(" ") };
        let points = self.points.iter().map(|(kind, indices)| format!("{} {}", indices.len(), kind.name()));
        let points = points.collect::<Vec<_>>().join(", ");
        let points = if points.is_empty() { "no points in class 0".to_owned() } else { points };
        terminal::one_line(&format!("outstation {}: {said}; {points}", self.link)).into_owned()
    }
}

impl Discovered for Outstation {
    fn print(&self, json: bool) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let Self { address, link, identity: [manufacturer, model, version, serial], points } = self;
        if !json {
            return writeln!(out, "{address} {}", self.words());
        }
        let points: BTreeMap<&str, &BTreeSet<u16>> =
            points.iter().map(|(kind, indices)| (kind.name(), indices)).collect();
        let object = json!({
            "address": address, "outstation": link, "manufacturer": manufacturer, "model": model, "version": version,
            "serial": serial, "points": points,
        });
        writeln!(out, "{}", terminal::json(&object.to_string()))
    }
}

/// A table for each outstation, and a point list for each.
fn files(outstations: &[Outstation], master: u16) -> Files {
    let mut proposal = Proposal::default();
    for (number, outstation) in (1..).zip(outstations) {
        let name = name_of(outstation, number);
        proposal.add(&Proposed {
            words: &outstation.words(),
            name: &name,
            protocol: "dnp3",
            reach: Reach::Address(&outstation.address),
            more: &format!("dnp3 = {{ master = {master}, outstation = {} }}\n", outstation.link),
            list: &list_of(outstation),
        });
    }
    proposal.into_files()
}

fn name_of(outstation: &Outstation, number: usize) -> String {
    let plain = name_of_identity(&outstation.identity);
    if plain.is_empty() { format!("outstation-{}-{number}", outstation.link) } else { format!("{plain}-{number}") }
}

fn list_of(outstation: &Outstation) -> String {
    let mut list = String::from("name,type,index,writable,unit,description\n");
    for (kind, indices) in &outstation.points {
        let name = kind.name();
        // What an output does, only its manual says.
        let writable = if matches!(kind, PointType::BinaryOutput | PointType::AnalogOutput) { "false" } else { "" };
        for index in indices {
            let _ = writeln!(list, "{name}/{index},{name},{index},{writable},,");
        }
    }
    if outstation.points.is_empty() {
        list.push_str("# The outstation has no points in class 0: see its manual.\nbinary/0,binary,0,,,\n");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::proposal::write;

    #[test]
    fn what_is_proposed_is_a_configuration() {
        let of = |identity: [&str; 4], points: &[(PointType, u16)]| {
            let mut by_kind: BTreeMap<PointType, BTreeSet<u16>> = BTreeMap::new();
            points.iter().for_each(|(kind, index)| _ = by_kind.entry(*kind).or_default().insert(*index));
            let identity = identity.map(str::to_owned);
            Outstation { address: "10.1.2.3:20000".to_owned(), link: 7, identity, points: by_kind }
        };
        let all: Vec<_> = PointType::ALL.into_iter().zip(3..).collect();
        let found = [of(["Acme \"Grid\"", "R-1", "", ""], &all), of(["", "", "", ""], &[])];
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(&found, 5)).unwrap();
        let config = tieline_node::load_config(&folder.path().join("devices.toml")).unwrap();
        assert_eq!(config.devices.iter().map(|device| device.points.len()).collect::<Vec<_>>(), [9, 1]);
        assert!(config.devices[0].points.iter().all(|point| point.control.is_none()));
        assert_eq!(config.devices[0].topic.as_str(), "site/acme-grid-r-1-1");
    }
}

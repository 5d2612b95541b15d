//! The files that are proposed for BACnet devices.

use super::object::Object;
use super::reading::Found;
use crate::discover::args::BacnetArgs;
use crate::discover::proposal::{Files, Proposal, Proposed, Reach, plain_name};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use tieline_bacnet::service::LoggedProperty;
use tieline_bacnet::{ObjectId, PropertyId};
use tieline_core::Topic;
use tieline_node::config::States;

/// Characters of a point's name, and of a description, at most.
const NAME_MAX: usize = 100;
const DESCRIPTION_MAX: usize = 200;
/// How each list begins.
const HEADER: &str = "name,type,index,property,unit,states,writable,min,max,trend_log,description\n";

/// A table for each device, and a point list for each.
pub fn files(devices: &[Found], args: &BacnetArgs) -> Files {
    let (mut proposal, mut names) = (Proposal::default(), HashSet::new());
    for device in devices {
        let instance = device.instance.unwrap_or_default();
        let said = device.profile.as_ref().map(|profile| plain_name(&profile.name)).filter(|name| !name.is_empty());
        let name = said.map_or_else(|| format!("bacnet-{instance}"), |said| format!("{said}-{instance}"));
        let name = unique(name, &mut names);
        let settings = settings(device, args).join(", ");
        proposal.add(&Proposed {
            words: &device.words(),
            name: &name,
            protocol: "bacnet",
            reach: Reach::Address(&device.peer.address.to_string()),
            more: &format!("poll = {{ every = \"10s\" }}\nbacnet = {{ {settings} }}\n"),
            list: &list_of(device),
        });
    }
    proposal.into_files()
}

fn settings(device: &Found, args: &BacnetArgs) -> Vec<String> {
    let mut settings: Vec<String> = device.instance.iter().map(|instance| format!("instance = {instance}")).collect();
    if let Some(station) = device.peer.station {
        settings.push(format!("network = {}", station.network));
        settings.push(match station.mac.bytes() {
            [number] => format!("mac = {number}"),
            _ => format!("mac = \"{}\"", super::hex(&station.mac)),
        });
    }
    if args.local.port() != 0 || !args.local.ip().is_unspecified() {
        settings.push(format!("local = \"{}\"", args.local));
    }
    settings.extend(args.bbmd.map(|bbmd| format!("bbmd = \"{bbmd}\"")));
    settings
}

fn list_of(device: &Found) -> String {
    let mut list = String::from(HEADER);
    let logs = logs(device);
    let (mut names, mut count) = (HashSet::new(), 0);
    for object in device.objects.iter().filter(|object| object.is_point()) {
        count += 1;
        let name = unique(point_name(object), &mut names);
        let [unit, states] = [unit(object), states(object)];
        let (writable, [min, max]) = (if is_writable(object) { "true" } else { "" }, limits(object));
        let log = logs.get(&object.id).map(log_cell).unwrap_or_default();
        let _ = writeln!(
            list,
            "{},{},{},{},{},{},{writable},{min},{max},{log},{}",
            cell(&name),
            object.id.object_type(),
            object.id.instance(),
            object.property(),
            cell(&unit),
            cell(&states),
            cell(&description(object)),
        );
    }
    if count == 0 {
        let instance = device.instance.unwrap_or_default();
        let _ = writeln!(
            list,
            "# No object with a value was found. See the manual of the device.\nvendor,device,{instance},vendor-name,,,,,,,"
        );
    }
    list
}

/// The trend log of each present value; the first where there are several.
fn logs(device: &Found) -> BTreeMap<ObjectId, ObjectId> {
    let own = device.instance.map(ObjectId::device);
    let is_here = |logged: &LoggedProperty| {
        let reference = logged.reference;
        let is_own = logged.device.is_none() || logged.device == own;
        is_own && reference.property == PropertyId::PRESENT_VALUE && reference.index.is_none()
    };
    let mut logs = BTreeMap::new();
    for log in device.objects.iter().filter(|object| object.is_log()) {
        for logged in log.logs.iter().filter(|logged| is_here(logged)) {
            logs.entry(logged.reference.object).or_insert(log.id);
        }
    }
    logs
}

fn log_cell(log: &ObjectId) -> String {
    match log.object_type().name() {
        Some("trend-log") => log.instance().to_string(),
        _ => format!("{}:{}", log.object_type(), log.instance()),
    }
}

/// Outputs and values that are numbers or states; inputs are never written, whatever the device says.
fn is_writable(object: &Object) -> bool {
    let name = object.id.object_type().name().unwrap_or_default();
    let is_text = name.starts_with(['c', 'd', 't']) || name == "bitstring-value";
    object.is_commandable && (name.ends_with("-output") || name.ends_with("-value")) && !is_text
}

/// The limits of what can be commanded.
fn limits(object: &Object) -> [String; 2] {
    let is_number = object.id.object_type().is_multi_state() || !object.id.object_type().is_binary();
    if !is_writable(object) || !is_number {
        return Default::default();
    }
    if let Some(count) = object.state_count.filter(|_| object.id.object_type().is_multi_state()) {
        return ["1".to_owned(), count.max(1).to_string()];
    }
    match object.limits {
        [Some(min), Some(max)] if min < max => [min.to_string(), max.to_string()],
        _ => Default::default(),
    }
}

fn unit(object: &Object) -> String {
    object.unit.map(|unit| unit.symbol().map_or_else(|| unit.to_string(), str::to_owned)).unwrap_or_default()
}

/// The words of a binary object, where a list takes them.
fn states(object: &Object) -> String {
    let [off, on] = object.states.as_slice() else { return String::new() };
    let words = format!("{}/{}", off.replace('/', "-"), on.replace('/', "-"));
    let fits = object.id.object_type().is_binary() && States::parse(&words).is_some();
    if fits { words } else { String::new() }
}

/// What the object is for; of a multi-state object, also what its states are.
fn description(object: &Object) -> String {
    let mut words = object.description.clone();
    if object.id.object_type().is_multi_state() && !object.states.is_empty() {
        let states = (1..).zip(&object.states).map(|(number, state): (u32, _)| format!("{number} {state}"));
        let states = states.collect::<Vec<_>>().join(", ");
        words = if words.is_empty() { states } else { format!("{words}: {states}") };
    }
    let plain = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(DESCRIPTION_MAX).collect::<String>().trim().to_owned()
}

/// The name of the object, as a topic below that of the device.
fn point_name(object: &Object) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/') { c } else { '_' };
    let name: String = object.name.chars().take(NAME_MAX).map(plain).collect();
    let levels: Vec<&str> =
        name.split('/').map(|level| level.trim_matches(['_', '.'])).filter(|level| !level.is_empty()).collect();
    let name = levels.join("/");
    let fits = !name.is_empty() && name != "all" && Topic::new(&name).is_ok();
    if fits { name } else { format!("{}/{}", object.id.object_type(), object.id.instance()) }
}

/// The name, or one like it that nobody has.
fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let another = (2_u32..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(another).find(|name| !taken.contains(name)).unwrap_or(name);
    taken.insert(free.clone());
    free
}

/// A cell of a list (RFC 4180).
fn cell(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) || text.starts_with(['#', ' ']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::proposal::write;
    use clap::Parser as _;
    use proptest::prelude::*;
    use tieline_bacnet::{Mac, ObjectType, Peer, Station, Unit};
    use tieline_node::config::{PointAddress, ValueKind};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: BacnetArgs,
    }

    fn args(more: &[&str]) -> BacnetArgs {
        Line::try_parse_from([&["x"], more].concat()).unwrap().args
    }

    fn found(instance: u32, objects: Vec<Object>) -> Found {
        let station = Station { network: 100, mac: Mac::new(&[12]).unwrap() };
        let peer = Peer::routed("10.0.0.5:47808".parse().unwrap(), station);
        Found { peer, is_heard: true, instance: Some(instance), vendor: None, profile: None, objects, error: None }
    }

    fn object(object_type: ObjectType, instance: u32, name: &str) -> Object {
        Object { name: name.to_owned(), ..Object::new(ObjectId::new(object_type, instance)) }
    }

    fn check(devices: &[Found], args: &BacnetArgs) -> tieline_node::config::Config {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(devices, args)).unwrap();
        tieline_node::load_config(&folder.path().join("devices.toml")).unwrap()
    }

    #[test]
    fn what_is_proposed_is_a_configuration() {
        let supply = Object {
            unit: Some(Unit(62)),
            description: "supply, \"air\"\n".to_owned(),
            ..object(ObjectType::ANALOG_INPUT, 1, "AHU 1/Supply T")
        };
        let again = object(ObjectType::ANALOG_INPUT, 2, "AHU 1/Supply T");
        let valve = Object { limits: [Some(0.0), Some(100.0)], ..object(ObjectType::ANALOG_OUTPUT, 1, "#valve") };
        let states = ["off".to_owned(), "on/auto".to_owned()].to_vec();
        let fan = Object { states, ..object(ObjectType::BINARY_OUTPUT, 1, "") };
        let states = ["heat".to_owned(), "cool".to_owned()].to_vec();
        let mode = Object {
            states,
            state_count: Some(2),
            is_commandable: true,
            ..object(ObjectType::MULTI_STATE_VALUE, 7, "mode")
        };
        let logged = tieline_bacnet::PropertyRef::new(supply.id, PropertyId::PRESENT_VALUE);
        let logs = vec![LoggedProperty { reference: logged, device: None }];
        let log = Object { logs, ..object(ObjectType::TREND_LOG, 3, "log") };
        let averaging = object("averaging".parse().unwrap(), 4, "mean");
        let objects = vec![supply, again, valve, fan, mode, log, averaging];
        let config =
            check(&[found(1001, objects), found(1002, Vec::new())], &args(&["10.0.0.5", "--local", "0.0.0.0:47808"]));
        let points = &config.devices[0].points;
        let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["AHU_1/Supply_T", "AHU_1/Supply_T-2", "valve", "binary-output/1", "mode", "mean"]);
        let PointAddress::Bacnet(mean) = &points[5].address else { panic!("another protocol") };
        assert_eq!((mean.reference.property, points[5].kind), (PropertyId::AVERAGE_VALUE, ValueKind::Float));
        assert_eq!((points[0].unit.as_str(), points[0].description.as_str()), ("°C", "supply, \"air\""));
        assert_eq!(
            points[2].control.as_ref().map(|control| (control.min, control.max)),
            Some((Some(0.0), Some(100.0)))
        );
        assert_eq!(points[3].states.as_ref().map(|states| &*states.on), Some("on-auto"));
        assert_eq!(points[4].description, "1 heat, 2 cool");
        let bacnet = config.devices[0].protocol.bacnet().unwrap();
        assert_eq!(bacnet.peer.to_string(), "10.0.0.5:47808/100/0c");
        assert_eq!(config.devices[1].points.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_devices_say_is_a_configuration(
            objects in prop::collection::vec((0..64_u16, 0..3_u32, ".*", ".*", prop::collection::vec(".*", 0..3), any::<bool>(), any::<u32>()), 0..12),
        ) {
            let object = |(kind, instance, name, description, states, is_commandable, number): (u16, u32, String, String, Vec<String>, bool, u32)| Object {
                description,
                states,
                is_commandable,
                unit: Some(Unit(number % 300)),
                state_count: Some(number),
                limits: [Some(f64::from(number)), Some(7.0)],
                ..object(ObjectType(kind), instance, &name)
            };
            check(&[found(7, objects.into_iter().map(object).collect())], &args(&["10.0.0.5"]));
        }
    }
}

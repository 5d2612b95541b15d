//! `[device.NAME.goose]`.
//!
//! ```toml
//! [device.relay7]
//! protocol = "goose"
//! points = "relay7.csv"
//!
//! [device.relay7.goose]
//! interface = "eth1"
//! control_block = "IED7LD0/LLN0$GO$gcb01"
//! destination = "01:0c:cd:01:00:07"
//! conf_rev = 3
//! ```

use super::parse;
use super::points::{GoosePoint, PointConfig};
use super::reader::{Document, Section};
use super::settings::{
    DEVICE_GOOSE_APP_ID, DEVICE_GOOSE_CLOCK, DEVICE_GOOSE_CONF_REV, DEVICE_GOOSE_FIRST_MESSAGE, DEVICE_GOOSE_PUBLISH,
    DEVICE_GOOSE_REPEAT_MAX, DEVICE_GOOSE_REPEAT_MIN, DEVICE_GOOSE_SIMULATION, DEVICE_GOOSE_VLAN_ID,
    DEVICE_GOOSE_VLAN_PRIORITY,
};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::CommandMode;
use tieline_goose::{
    Curve, FrameHead, MacAddress, Path, Publisher, PublisherConfig, Simulation, SubscriberConfig, TimeQuality, UtcTime,
    Value, VlanTag,
};

/// Bytes of a reference (IEC 61850-8-1, VisibleString129).
const REFERENCE_BYTES_MAX: usize = 129;
/// Bytes of the name of a network interface.
const INTERFACE_BYTES_MAX: usize = 15;
/// Bits of a quality.
const QUALITY_BITS: u8 = 13;

/// `[device.NAME.goose]`.
#[derive(Clone, Debug, PartialEq)]
pub struct GooseConfig {
    /// The network interface.
    pub interface: Box<str>,
    /// Where the messages go.
    pub destination: MacAddress,
    /// What the node does with them.
    pub role: GooseRole,
}

/// What the node does with the messages of a control block.
#[derive(Clone, Debug, PartialEq)]
pub enum GooseRole {
    /// It reads them.
    Subscribe {
        /// What it expects of them.
        subscriber: SubscriberConfig,
        /// How long the first may take.
        first_message: Duration,
    },
    /// It sends them.
    Publish {
        /// What they say besides their values; the source is that of the network card.
        publisher: PublisherConfig,
        /// Their values at the start.
        values: Vec<Value>,
    },
}

impl GooseConfig {
    /// Where its messages are, in words.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{} {}", self.interface, self.destination)
    }
}

/// Reads `[device.NAME.goose]`; none where something essential is missing or wrong (which has been reported then).
pub fn read_goose(doc: &mut Document<'_>, mut s: Section<'_>, points: &[PointConfig]) -> Option<GooseConfig> {
    let interface = s.required(doc, "interface", "the name of a network interface, as in \"eth1\"", |value| {
        let name = parse::text(value)?;
        let is_legal = !name.is_empty() && name.len() <= INTERFACE_BYTES_MAX && !name.contains(['/', '\0', ' ']);
        if is_legal { Ok(name) } else { Err("the name of a network interface, as in \"eth1\"".to_owned()) }
    });
    let expected = "the reference of a control block, as in \"IED7LD0/LLN0$GO$gcb01\"";
    let control_block = s.required(doc, "control_block", expected, reference);
    let expected = "the address of a group, as in \"01:0c:cd:01:00:07\"";
    let destination = s.required(doc, "destination", expected, |value| {
        let address: Option<MacAddress> = parse::text(value)?.parse().ok();
        address.filter(|address| address.is_multicast()).ok_or_else(|| expected.to_owned())
    });
    let messages = Messages {
        gocb_ref: control_block.as_deref().unwrap_or_default().into(),
        destination: destination.unwrap_or_default(),
        data_set: s.optional(doc, "data_set", reference).map(Into::into),
        go_id: s.optional(doc, "go_id", reference).map(Into::into),
        app_id: DEVICE_GOOSE_APP_ID.optional(&mut s, doc),
        conf_rev: DEVICE_GOOSE_CONF_REV.optional(&mut s, doc),
        simulation: DEVICE_GOOSE_SIMULATION.read(&mut s, doc, [Simulation::Ignore, Simulation::Accept]),
    };
    let destination = messages.destination;
    let first_message = DEVICE_GOOSE_FIRST_MESSAGE.read(&mut s, doc);
    let is_published = DEVICE_GOOSE_PUBLISH.read(&mut s, doc);
    let publisher = read_publisher(doc, &mut s, &messages, is_published);
    let role = if is_published { publish(doc, &s, publisher, points) } else { Some(messages.subscribe(first_message)) };
    s.finish(doc);
    control_block?;
    Some(GooseConfig { interface: interface?.into(), destination, role: role? })
}

/// What both roles have.
struct Messages {
    gocb_ref: Box<str>,
    destination: MacAddress,
    data_set: Option<Box<str>>,
    go_id: Option<Box<str>>,
    app_id: Option<u16>,
    conf_rev: Option<u32>,
    simulation: Simulation,
}

impl Messages {
    fn subscribe(self, first_message: Duration) -> GooseRole {
        let Self { gocb_ref, data_set: dat_set, go_id, app_id, conf_rev, simulation, .. } = self;
        let subscriber = SubscriberConfig { gocb_ref, app_id, dat_set, go_id, conf_rev, simulation };
        GooseRole::Subscribe { subscriber, first_message }
    }
}

/// Reads what only a publisher needs.
fn read_publisher(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    messages: &Messages,
    is_published: bool,
) -> PublisherConfig {
    let tag = VlanTag {
        priority: DEVICE_GOOSE_VLAN_PRIORITY.read(s, doc),
        is_drop_eligible: false,
        id: DEVICE_GOOSE_VLAN_ID.read(s, doc),
    };
    let curve = Curve { min: DEVICE_GOOSE_REPEAT_MIN.read(s, doc), max: DEVICE_GOOSE_REPEAT_MAX.read(s, doc) };
    if curve.min > curve.max {
        let (found, expected) = (format!("{:?}", curve.max), format!("at least repeat_min, which is {:?}", curve.min));
        doc.report(s.value_at("repeat_max"), &s.key("repeat_max"), found, expected);
    }
    if is_published && !s.has("data_set") {
        let expected = "the reference of the data set that is published, as in \"IED7LD0/LLN0$ds01\"".to_owned();
        doc.report(s.at(), &s.key("data_set"), "nothing".to_owned(), expected);
    }
    PublisherConfig {
        frame: FrameHead {
            destination: messages.destination,
            source: MacAddress::default(),
            tag: Some(tag),
            app_id: messages.app_id.unwrap_or(0),
            reserved1: 0,
            reserved2: 0,
            is_simulated: messages.simulation == Simulation::Accept,
        },
        gocb_ref: messages.gocb_ref.clone(),
        dat_set: messages.data_set.clone().unwrap_or_default(),
        go_id: messages.go_id.clone().or_else(|| Some(messages.gocb_ref.clone())),
        conf_rev: messages.conf_rev.unwrap_or(1),
        needs_commissioning: false,
        time_quality: DEVICE_GOOSE_CLOCK.read(s, doc, [TimeQuality::UNSYNCHRONIZED, TimeQuality::SYNCHRONIZED]),
        curve,
    }
}

/// A publisher of the data set of these points; none where they are none (which has been reported then).
fn publish(
    doc: &mut Document<'_>,
    s: &Section<'_>,
    publisher: PublisherConfig,
    points: &[PointConfig],
) -> Option<GooseRole> {
    let values = values_of(points).and_then(|values| {
        let fits = Publisher::new(publisher.clone(), values.clone()).map_err(|error| error.to_string());
        fits.map(|_| values)
    });
    match values {
        Ok(values) => Some(GooseRole::Publish { publisher, values }),
        Err(found) => {
            let expected = "a point list whose columns index, quality and time are a whole data set".to_owned();
            doc.report(s.at(), &s.key("publish"), found, expected);
            None
        }
    }
}

fn reference(value: &toml::de::DeValue<'_>) -> Result<String, String> {
    let text = parse::text(value)?;
    let is_legal = !text.is_empty() && text.len() <= REFERENCE_BYTES_MAX && text.chars().all(|c| c.is_ascii_graphic());
    if is_legal { Ok(text) } else { Err(format!("1 to {REFERENCE_BYTES_MAX} visible characters of ASCII")) }
}

/// A data set while it is put together.
enum Part {
    Leaf(Value),
    Parts(Vec<Option<Part>>),
}

/// The values that a list says a data set has.
///
/// # Errors
/// A place is empty or has two values, in words.
pub fn values_of(points: &[PointConfig]) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for point in points.iter().filter_map(|point| point.address.goose()) {
        let GoosePoint { path, quality, time, initial, .. } = point;
        if matches!(initial, Value::Bits { count: 0, .. }) {
            return Err(format!("a bit-string at {path} without the column bits"));
        }
        put(&mut all, path, path.places(), initial.clone())?;
        if let Some(path) = quality {
            put(&mut all, path, path.places(), Value::Bits { count: QUALITY_BITS, bits: 0 })?;
        }
        if let Some(path) = time {
            let never = UtcTime { seconds: 0, fraction: 0, quality: TimeQuality::UNSYNCHRONIZED };
            put(&mut all, path, path.places(), Value::UtcTime(never))?;
        }
    }
    whole(all, "")
}

fn put(parts: &mut Vec<Option<Part>>, path: &Path, places: &[u16], value: Value) -> Result<(), String> {
    let Some((place, deeper)) = places.split_first() else { return Ok(()) };
    let at = usize::from(*place).saturating_sub(1);
    if parts.len() <= at {
        parts.resize_with(at + 1, || None);
    }
    let Some(part) = parts.get_mut(at) else { return Ok(()) };
    match part {
        None if deeper.is_empty() => *part = Some(Part::Leaf(value)),
        None => {
            let mut within = Vec::new();
            put(&mut within, path, deeper, value)?;
            *part = Some(Part::Parts(within));
        }
        Some(Part::Parts(within)) if !deeper.is_empty() => put(within, path, deeper, value)?,
        Some(Part::Parts(_) | Part::Leaf(_)) => return Err(format!("two values at {path}")),
    }
    Ok(())
}

fn whole(parts: Vec<Option<Part>>, above: &str) -> Result<Vec<Value>, String> {
    let one = |(part, place): (Option<Part>, usize)| match part {
        None => Err(format!("no value at {above}{place}")),
        Some(Part::Leaf(value)) => Ok(value),
        Some(Part::Parts(parts)) => Ok(Value::Structure(whole(parts, &format!("{above}{place}."))?)),
    };
    parts.into_iter().zip(1..).map(one).collect()
}

/// The points of a device: those that are published can be commanded, those that are subscribed to cannot.
pub fn with_role(points: Arc<[PointConfig]>, device: &GooseConfig) -> Arc<[PointConfig]> {
    let is_read = matches!(device.role, GooseRole::Subscribe { .. });
    if !is_read || points.iter().all(|point| point.control.is_none()) {
        return points;
    }
    points.iter().map(|point| PointConfig { control: None, ..point.clone() }).collect()
}

/// How a published point is asked.
pub(super) const MODE: CommandMode = CommandMode::DirectOperate;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, DeviceConfig, Priority, from_text};

    const LIST: &str =
        "name,type,index,quality,time\ntrip,boolean,1.1,1.2,1.3\nposition,double-point,2,,\nlevel,float32,3,,\n";

    /// The device with these keys and this list, or what is wrong with them.
    fn read(keys: &str, list: &str) -> Result<DeviceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = format!("[device.d]\nprotocol='goose'\npoints='p.csv'\n{keys}\n");
        let folder_name = format!("{}/", folder.path().display());
        match from_text("n.toml", &text, folder.path()) {
            Ok(mut config) => Ok(config.devices.remove(0)),
            Err(ConfigError(all)) => Err(all.iter().map(|one| one.to_string().replace(&folder_name, "")).collect()),
        }
    }

    const PLACE: &str = "interface='eth1', control_block='LD/LLN0$GO$g', destination='01:0c:cd:01:00:07'";

    #[test]
    fn a_subscription_is_read_and_is_urgent() {
        let device = read(&format!("goose={{{PLACE}, app_id=0x1000, conf_rev=3, simulation='accept'}}"), LIST).unwrap();
        let goose = device.protocol.goose().unwrap();
        let GooseRole::Subscribe { subscriber, first_message } = &goose.role else { panic!("a subscription") };
        assert_eq!((subscriber.app_id, subscriber.conf_rev), (Some(0x1000), Some(3)));
        assert_eq!((subscriber.simulation, *first_message), (Simulation::Accept, Duration::from_secs(10)));
        assert_eq!(goose.address(), "eth1 01:0c:cd:01:00:07");
        assert_eq!((device.priority, device.transport), (Some(Priority::Protection), None));
        assert!(device.points.iter().all(|point| point.control.is_none()));
        let device = read(&format!("priority='bulk'\ngoose={{{PLACE}}}"), LIST).unwrap();
        assert_eq!(device.priority, Some(Priority::Bulk));
    }

    #[test]
    fn a_published_data_set_is_that_of_its_points() {
        let device = read(&format!("goose={{{PLACE}, publish=true, data_set='LD/LLN0$ds'}}"), LIST).unwrap();
        let GooseRole::Publish { publisher, values } = &device.protocol.goose().unwrap().role else {
            panic!("a publisher")
        };
        assert_eq!((publisher.conf_rev, publisher.frame.tag.unwrap().priority), (1, 4));
        assert_eq!(publisher.go_id.as_deref(), Some("LD/LLN0$GO$g"));
        let expect = [
            Value::Structure(vec![
                Value::Boolean(false),
                Value::Bits { count: 13, bits: 0 },
                Value::UtcTime(UtcTime { seconds: 0, fraction: 0, quality: TimeQuality::UNSYNCHRONIZED }),
            ]),
            Value::Bits { count: 2, bits: 0 },
            Value::Float32(0.0),
        ];
        assert_eq!(values[..], expect);
        assert!(device.points.iter().all(|point| point.control.is_some()));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let check =
            |keys: &str, list: &str, expect: &[&str]| assert_eq!(read(keys, list).unwrap_err(), expect, "{keys}");
        check(
            "goose={interface='', destination='02:00:00:00:00:01', repeat_min='2s', repeat_max='1s'}",
            LIST,
            &[
                "n.toml:4:7: device.d.goose.control_block: found nothing, expected the reference of a control block, as in \"IED7LD0/LLN0$GO$gcb01\"",
                "n.toml:4:18: device.d.goose.interface: found \"\", expected the name of a network interface, as in \"eth1\"",
                "n.toml:4:34: device.d.goose.destination: found \"02:00:00:00:00:01\", expected the address of a group, as in \"01:0c:cd:01:00:07\"",
                "n.toml:4:83: device.d.goose.repeat_max: found 1s, expected at least repeat_min, which is 2s",
            ],
        );
        let keys = format!("goose={{{PLACE}, publish=true, data_set='LD/LLN0$ds'}}");
        let publish = |found: &str| {
            format!(
                "n.toml:4:7: device.d.goose.publish: found {found}, expected a point list whose columns index, quality and time are a whole data set"
            )
        };
        let found = "a bit-string at 1 without the column bits";
        check(&keys, "name,type,index\na,bit-string,1\n", &[&publish(found)]);
        check(&keys, "name,type,index\na,boolean,1\nb,boolean,3.1\n", &[&publish("no value at 2")]);
        check(&keys, "name,type,index\na,boolean,1.1\nb,boolean,1\n", &[&publish("two values at 1")]);
        check(&keys, "name,type,index,quality\na,boolean,1,1\n", &[&publish("two values at 1")]);
    }

    #[test]
    fn what_is_wrong_with_a_list_is_told() {
        let check = |row: &str, expect: &str| {
            let list = format!("name,type,index,quality,time,bits,initial\n{row}\n");
            let keys = format!("goose={{{PLACE}}}");
            assert_eq!(read(&keys, &list).unwrap_err(), [format!("p.csv:2:1: {expect}")], "{row}");
        };
        let places = "expected places from 1 with dots between them, as in 2 or 2.1";
        check("a,boolean,0", &format!("index: found \"0\", {places}"));
        check("a,boolean,1,x", &format!("quality: found \"x\", {places}"));
        check("a,bit-string,1,,,64", "bits: found \"64\", expected a number of bits from 1 to 63");
        check("a,boolean,1,,,3", "bits: found \"3\", expected nothing: only a bit-string says how many");
        check("a,integer,1,,,,x", "initial: found \"x\", expected a value of this type");
    }
}

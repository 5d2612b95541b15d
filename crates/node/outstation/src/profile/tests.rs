use super::*;
use crate::config::{OutstationFile, from_text};

const STATION: &str = r#"
address = 1024
master = 3
self_address = true
unsolicited_confirm_timeout = "3s"
unsolicited_retries_max = 4
unsolicited_hold_time = "250ms"
unsolicited_events_max = 9
confirm_timeout = "7s"
select_timeout = "8s"
controls_max = 5
need_time_every = "30m"
events_max = 77
lean = true

[attributes]
manufacturer = "Acme & <Söhne>"
name = 'Feeder "3"'

[[point]]
type = "binary"
range = "0-3"
class = 1
static = "g1v1"
event = "g2v3"
value = true
flags = 5

[[point]]
type = "analog"
indices = [2, 65535]
class = 0
static = "g30v5"
dead_band = 0.5
value = -12.25
in_class_0 = false

[[point]]
type = "double-bit"
index = 7
value = "on"

[[point]]
type = "counter"
index = 9
class = 3
value = 4000000000

[[point]]
type = "binary-output"
index = 20
operate = "not_supported"
command_class = 2

[[point]]
type = "analog-output"
index = 1
"#;

fn sorted(mut file: OutstationFile) -> OutstationFile {
    file.points.sort_by_key(|point| (point.start.point_type.name(), point.start.index));
    file
}

#[test]
fn a_station_survives_its_profile() {
    for text in [STATION, "", "unsolicited = false\n"] {
        let file = from_text("o.toml", text).unwrap();
        let xml = write(&file);
        let profile = read("device.xml", &xml).unwrap();
        let again = from_text("again.toml", &profile.to_outstation()).unwrap();
        assert_eq!(sorted(again), sorted(file), "{}", profile.to_outstation());
        let aside: Vec<_> = profile.unread.iter().map(String::as_str).collect();
        let top = "DNP3DeviceProfileDocument/referenceDevice";
        let function = format!("{top}/configuration/deviceConfig/deviceFunction");
        assert!(
            aside.iter().all(|path| *path == format!("{top}/implementationTable") || *path == function),
            "{aside:?}"
        );
    }
}

#[test]
fn what_a_profile_has_no_place_for_is_told() {
    let check =
        |text: &str, expect: &[&str]| assert_eq!(left_out(&from_text("o.toml", text).unwrap()), expect, "{text}");
    check(STATION, &[]);
    check(
        "unsolicited_hold_events = 3\nunsolicited_protection = [1]\n",
        &["unsolicited_hold_events", "unsolicited_protection"],
    );
    check("[[master]]\naddress = 1\n[[master]]\naddress = 2\n", &["[[master]]"]);
    check(
        "[[point]]\ntype = 'frozen-counter'\nindex = 0\n[[point]]\ntype = 'octet-string'\nindex = 0\nvalue = 'x'\n",
        &["points of frozen counters and frozen analogs", "the initial values of octet strings"],
    );
}

#[test]
fn a_foreign_profile_gives_a_device_and_its_points() {
    let xml = r#"<?xml version="1.0"?>
<DNP3DeviceProfileDocument schemaVersion="2.07.00" xmlns="http://www.dnp3.org/DNP3/DeviceProfile/Jan2010">
 <referenceDevice>
  <configuration><linkConfig><dataLinkAddress><capabilities><range/></capabilities>
   <currentValue><value>12</value></currentValue></dataLinkAddress></linkConfig>
   <securityConfig><maxErrorCount/></securityConfig></configuration>
  <dataPointsList>
   <binaryInputPoints><dataPoints>
    <binaryInput><index>0</index><name>Breaker closed #1</name><changeEventClass>one</changeEventClass></binaryInput>
    <binaryInput><index>1</index><name>Breaker closed #1</name><nameState0>open</nameState0></binaryInput>
   </dataPoints></binaryInputPoints>
   <analogInputPoints><dataPoints>
    <analogInput><index>5</index><name>I/A</name><units>A</units><scaleFactor>0.1</scaleFactor></analogInput>
   </dataPoints></analogInputPoints>
  </dataPointsList>
 </referenceDevice>
</DNP3DeviceProfileDocument>"#;
    let profile = read("device.xml", xml).unwrap();
    assert_eq!(
        profile.to_points(),
        "name,type,index,unit,scale,offset,description\nBreaker_closed__1,binary,0,,,,\nbinary/1,binary,1,,,,\nI/A,analog,5,A,0.1,,\n"
    );
    assert!(profile.to_device("relay1", "relay1.csv").contains("outstation = 12\n"));
    let unread: Vec<_> = profile.unread.iter().filter_map(|path| path.rsplit('/').next()).collect();
    assert_eq!(unread, ["securityConfig", "nameState0"]);
}

fn check(body: &str, expect: &str) {
    let root = "<DNP3DeviceProfileDocument xmlns='http://www.dnp3.org/DNP3/DeviceProfile/Jan2010'>";
    let xml = format!("{root}\n{body}</DNP3DeviceProfileDocument>");
    let found = read("d.xml", &xml).map(|_| ()).unwrap_err();
    assert_eq!(found.0.first().map(ToString::to_string).as_deref(), Some(expect), "{body}");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let points = |inner: &str| {
        format!("<dataPointsList><counterPoints><dataPoints>{inner}</dataPoints></counterPoints></dataPointsList>")
    };
    check(
        &points("\n<counter><index>70000</index></counter>"),
        "d.xml:3:10: index: found \"70000\", expected a whole number from 0 to 65535",
    );
    check(
        &points("<counter><index>1</index></counter>\n<counter><index>1</index></counter>"),
        "d.xml:3:1: index: found counter 1 a second time, expected each point once",
    );
    check(
        &points("<counter><index>1</index><counterEventClass>4</counterEventClass></counter>"),
        "d.xml:2:69: counterEventClass: found \"4\", expected none, one, two or three",
    );
    check(
        &points("<counter><index>1</index><userData><setting key='value'>1\ny = 2</setting></userData></counter>"),
        "d.xml:2:79: value: found \"1\\ny = 2\", expected a value as in TOML",
    );
    let root = read("d.xml", "<SCL xmlns='urn:x'/>").unwrap_err();
    let expect = "d.xml:1:1: (root): found SCL of urn:x, expected DNP3DeviceProfileDocument of the DNP users group";
    assert_eq!(root.0.first().map(ToString::to_string).as_deref(), Some(expect));
    assert!(read("d.xml", &"<a>".repeat(100)).is_err());
    assert!(read("d.xml", "<a><b></a>").is_err());
}

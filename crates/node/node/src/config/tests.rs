use super::*;
use std::time::Duration;
use tieline_core::Words as _;

fn check(text: &str, expect: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,binary,0\n").unwrap();
    let shown: Vec<String> = match from_text("t.toml", text, folder.path()) {
        Ok(_) => Vec::new(),
        Err(ConfigError(found)) => found.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(shown, expect, "{text}");
}

#[test]
fn the_default_file_equals_the_defaults() {
    assert_eq!(from_text("default.toml", DEFAULT_FILE, Path::new(".")).unwrap(), Config::default());
}

#[test]
fn a_device_is_read() {
    check("[device.d]\nprotocol='dnp3'\naddress='h:20000'\npoints='p.csv'\n[device.d.dnp3]\noutstation=10\n", &[]);
}

#[test]
fn all_errors_come_at_once_with_line_key_found_and_expected() {
    check(
        "[node]\nnmae = 'x'\n[http]\nlisten = 5\n[device.d]\nprotocol = 'modbuss'\naddress = 'h:20000'\npoints = 'p.csv'\n\
         poll = { events = '2 s' }\n[device.d.dnp3]\noutstation = 70000\n",
        &[
            "t.toml:2:1: node.nmae: found the unknown key \"nmae\", expected name",
            "t.toml:4:10: http.listen: found 5, expected an address with a port, as in \"127.0.0.1:1883\" or \"[::1]:1883\"",
            "t.toml:6:12: device.d.protocol: found \"modbuss\", expected \"dnp3\" or \"modbus\" or \"bacnet\" or \"iec104\" or \"goose\" or \"simulated\"",
            "t.toml:9:19: device.d.poll.events: found \"2 s\", expected a duration like \"500ms\", \"2s\", \"15m\", \"1h\" or \"7d\"",
            "t.toml:11:14: device.d.dnp3.outstation: found 70000, expected a whole number from 0 to 65519",
        ],
    );
}

#[test]
fn a_key_that_was_renamed_is_told_with_its_new_name() {
    check(
        "[mqtt]\nqueue_octets_max = '1MiB'\n",
        &[
            "t.toml:2:1: mqtt.queue_octets_max: found the unknown key \"queue_octets_max\", expected queue_bytes_max, its new \
           name: see docs/upgrade.md",
        ],
    );
}

#[test]
fn an_open_address_must_be_meant() {
    check(
        "[mqtt]\nlisten = '0.0.0.0:1883'\n",
        &[
            "t.toml:2:10: mqtt.listen: found 0.0.0.0:1883, which other machines can reach without authentication, expected an \
           address of this machine alone, as in \"127.0.0.1\", or node.insecure_network = true",
        ],
    );
    check("[node]\ninsecure_network = true\n[mqtt]\nlisten = '0.0.0.0:1883'\n", &[]);
}

#[test]
fn devices_do_not_share_a_topic() {
    let device = |name: &str| {
        format!("[device.{name}]\ntopic='t'\nprotocol='dnp3'\naddress='h:1'\npoints='p.csv'\ndnp3.outstation=1\n")
    };
    check(
        &(device("a") + &device("b")),
        &["t.toml:8:7: device.b.topic: found \"t\", which device.a has, expected a topic of its own"],
    );
}

#[test]
fn devices_within_each_other_do_not_share_points() {
    let device = |topic: &str, list: &str| {
        format!("[device.'{topic}']\nprotocol='dnp3'\naddress='h:1'\npoints='{list}.csv'\ndnp3.outstation=1\n")
    };
    let folder = tempfile::tempdir().unwrap();
    for (list, name) in [("p", "a"), ("q", "n/a"), ("r", "n/all"), ("s", "n/b")] {
        let text = format!("name,type,index\n{name},binary,0\n");
        std::fs::write(folder.path().join(format!("{list}.csv")), text).unwrap();
    }
    let check = |outer: &str, expect: Option<&str>| {
        let text = device("s", outer) + &device("s/n", "p");
        let found = from_text("t.toml", &text, folder.path()).err().map(|error| error.0[0].to_string());
        assert_eq!(found.as_deref(), expect);
    };
    check("p", None);
    check("s", None);
    check(
        "q",
        Some(
            "t.toml:6:1: device.s/n.topic: found \"s/n\", so that \"s/n/a\" would be a point of device.s too, expected \
             topics of its own",
        ),
    );
    check(
        "r",
        Some(
            "t.toml:6:1: device.s/n.topic: found \"s/n\", so that \"s/n/all\" would be a point of device.s too, expected \
             topics of its own",
        ),
    );
}

#[test]
fn a_name_that_is_no_topic_is_a_finding() {
    check(
        "[device.'$d']\nprotocol='dnp3'\naddress='h:1'\npoints='p.csv'\ndnp3.outstation=1\n",
        &["t.toml:1:1: device.$d.topic: found nothing, and a device named \"$d\", expected a topic like \
           \"site/feeder1/relay1\""],
    );
}

#[test]
fn a_device_has_what_its_template_says_where_it_says_nothing() {
    let text = |device: &str| {
        format!(
            "[template.relay]\nprotocol = 'dnp3'\npoints = 'p.csv'\nstale_after = '2h'\ndnp3 = {{ outstation = 7, keep_alive = \
             '9s' }}\n[device.d]\ntemplate = 'relay'\naddress = 'h:1'\n{device}"
        )
    };
    check(&text(""), &[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,binary,0\n").unwrap();
    let config = from_text("t.toml", &text("stale_after = '1h'\ndnp3.outstation = 8\n"), folder.path()).unwrap();
    let device = &config.devices[0];
    let dnp3 = device.protocol.dnp3().unwrap();
    assert_eq!(device.stale_after, Some(Duration::from_secs(3600)));
    assert_eq!((dnp3.outstation, dnp3.keep_alive), (8, Duration::from_secs(9)));
}

#[test]
fn what_is_wrong_with_a_template_is_told_once_and_in_its_place() {
    let device = |name: &str, more: &str| format!("[device.{name}]\ntemplate = 't'\ndnp3.outstation = 1\n{more}");
    let template =
        "[template.t]\nprotocol = 'dnp3'\naddress = 'h:1'\npoints = 'p.csv'\nstale = '1h'\ndnp3.keep_alive = 5\n";
    check(
        &(template.to_owned() + &device("a", "") + &device("b", "")),
        &[
            "t.toml:5:1: template.t.stale: found the unknown key \"stale\", expected one of template, topic, protocol, network, channel, \
             address, listen, transport, serial, tls, udp, points, dnp3, secure, freeze, lane, poll, heartbeat, publish, all_every, \
             stale_after, priority, trace, tags",
            "t.toml:6:19: template.t.dnp3.keep_alive: found 5, expected a duration like \"500ms\", \"2s\", \"15m\", \"1h\" or \"7d\"",
        ],
    );
    let expected = "found \"u\", expected the name of a [template.u] in this file";
    check("[device.a]\ntemplate = 'u'\n", &[&format!("t.toml:2:12: device.a.template: {expected}")]);
}

#[test]
fn a_list_is_read_once_and_shared() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,binary,0\n").unwrap();
    std::fs::write(folder.path().join("bad.csv"), "name,type,index\na,binary,x\n").unwrap();
    let two = |list: &str| {
        let device = |name: &str| {
            format!("[device.{name}]\nprotocol='dnp3'\naddress='h:1'\npoints='{list}.csv'\ndnp3.outstation=1\n")
        };
        from_text("t.toml", &(device("c") + &device("d")), folder.path())
    };
    let config = two("p").unwrap();
    assert!(std::sync::Arc::ptr_eq(&config.devices[0].points, &config.devices[1].points));
    assert_eq!(two("bad").unwrap_err().0.len(), 1);
}

#[test]
fn broken_toml_is_a_finding() {
    check(
        "[node\nname = 1\n",
        &["t.toml:1:6: (syntax): found invalid TOML: unclosed table, expected `]`, expected a TOML document"],
    );
}

fn check_points(text: &str, expect: &[&str]) {
    let mut findings = Findings::default();
    let points = super::points::read_points(&mut findings, "p.csv", text, ProtocolName::Dnp3);
    let shown: Vec<String> = findings.sorted().iter().map(ToString::to_string).collect();
    assert_eq!(shown, expect);
    assert_eq!(points.is_none(), !expect.is_empty());
}

#[test]
fn dead_bands_are_of_analogs() {
    check_points("name,type,index,scale,dead_band\nv,analog,0,0.1,0.5\nw,analog,1,,\n", &[]);
    check_points(
        "name,type,index,scale,dead_band\nv,analog,0,1e-30,1e30\nw,analog,1,,-1\nc,counter,0,,5\n",
        &[
            "p.csv:2:1: dead_band: found \"1e30\", expected a number from 0 up, within single precision before scaling",
            "p.csv:3:1: dead_band: found \"-1\", expected a number from 0 up, within single precision before scaling",
            "p.csv:4:1: dead_band: found \"5\", expected nothing: only points of type analog have a dead-band (group 34)",
        ],
    );
}

#[test]
fn a_list_that_is_none_is_told_once() {
    let check = |text: &str, expect: &str| {
        check_points(text, &[&format!("p.csv:1:1: (header): found {expect}")]);
    };
    let expected = "expected a first line that names the columns, as in name,type,index,unit";
    check("breaker,binary,0\ncurrent,analog,1\n", &format!("\"breaker,binary,0\", {expected}"));
    check("name;type;index\na;binary;0\n", &format!("\"name;type;index\", {expected}, with commas between them"));
    check("[device.a]\nprotocol = 'dnp3'\n", &format!("\"[device.a]\", which looks like TOML, {expected}"));
    check("", &format!("an empty file, {expected}"));
}

#[test]
fn a_configuration_that_is_none_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c");
    let told = || load(&file, Checks::NONE).unwrap_err().to_string();
    let expect = |found: &str| format!("{}: found {found}\n1 error in the configuration", file.display());
    assert_eq!(told(), expect("no such file, expected a TOML file"));
    std::fs::write(&file, "name,type,index\na,binary,0\n").unwrap();
    let named = "comma-separated values (CSV), expected a TOML file; point lists are named in it by the devices that they \
                 are of, as in points = \"relay1.csv\"";
    assert_eq!(told(), expect(named));
    std::fs::write(&file, "09:36:00 INFO node: began name=demo\n".repeat(1000)).unwrap();
    let other = "a text that is no configuration: \"09:36:00 INFO node: began name=demo\", expected a TOML file: tables, as \
                 in [name], and keys, as in name = value";
    assert_eq!(told(), expect(other));
    // What looks like TOML, and is none: the first few errors, and how many more there are.
    std::fs::write(&file, "level=info said=a b\n".repeat(1000)).unwrap();
    let lines = told();
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 7, "{lines:#?}");
    assert!(lines[5].contains(" more places of invalid TOML, the first of them here"), "{lines:#?}");
    assert_eq!(lines[6], "6 errors in the configuration");
    std::fs::write(&file, "# mine\n[node]\nname = 'a,b'\n").unwrap();
    assert_eq!(load(&file, Checks::NONE).unwrap().node.name, "a,b");
}

#[test]
fn states_are_two_words() {
    check_points("name,type,index,states\nb,binary,0,open/closed\nd,double-bit,1, Auf / Zu \nc,counter,0,\n", &[]);
    let expected = "expected the words for false and true with a slash between them, as in open/closed";
    check_points(
        "name,type,index,states\na,binary,0,open\nb,binary,1,on/off\nc,binary,2,a/A\nd,binary,3,/x\ne,analog,0,a/b\n",
        &[
            &format!("p.csv:2:1: states: found \"open\", {expected}"),
            &format!("p.csv:3:1: states: found \"on/off\", {expected}"),
            &format!("p.csv:4:1: states: found \"a/A\", {expected}"),
            &format!("p.csv:5:1: states: found \"/x\", {expected}"),
            "p.csv:6:1: states: found \"a/b\", expected nothing: only two-state points have words for their states",
        ],
    );
}

#[test]
fn point_lists_say_what_is_wrong() {
    check_points("\u{feff}Name,Type,Index,unit\nv/a,analog,0,kV\nbreaker,binary-output,7,\n", &[]);
    check_points(
        "name,type,indx\n",
        &[
            "p.csv:1:1: indx: found the unknown column \"indx\", expected one of name, type, index, unit, scale, offset, \
             writable, min, max, states, tags, description, revert, step_max, rate_max, interval_min, \
             allow_when, read_back, tolerance, control, mode, operate, dead_band",
            "p.csv:1:1: index: found nothing, expected a column \"index\" in the header",
        ],
    );
    check_points(
        "name,type,index,scale,writable,min,max\na,analogue,0,,,,\nb,analog,70000,0,,,\nc,binary,1,,true,,\nc,analog-output,1,,,5,4\n",
        &[
            "p.csv:2:1: type: found \"analogue\", expected one of binary, double-bit, binary-output, counter, frozen-counter, \
             analog, frozen-analog, analog-output, octet-string",
            "p.csv:3:1: index: found \"70000\", expected a whole number from 0 to 65535",
            "p.csv:3:1: scale: found \"0\", expected a number other than 0",
            "p.csv:4:1: writable: found true for a binary without a control index, expected an output, or the column control \
             with the output's index",
            "p.csv:5:1: name: found \"c\", which line 4 has, expected a name of its own",
            "p.csv:5:1: max: found 4, expected at least min, which is 5",
        ],
    );
    check_points(
        "name,type,index,scale,offset,max\na,binary,0,0.1,,\nb,octet-string,0,1,2,\nc,binary-output,0,,0,1\nd,analog,0,2,2,\n",
        &[
            "p.csv:2:1: scale: found \"0.1\", expected nothing: the value of a point of type binary is true or false",
            "p.csv:3:1: offset: found \"2\", expected nothing: the value of a point of type octet-string is a text",
            "p.csv:4:1: max: found \"1\", expected nothing: the value of a point of type binary-output is true or false",
        ],
    );
    check_points(
        "name,type,index\n",
        &["p.csv:1:1: (rows): found no points, expected at least one row below the header"],
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_survived(text in ".{0,400}") {
        let _ = from_text("t.toml", &text, Path::new("."));
        let mut findings = Findings::default();
        let text = format!("name,type,index\n{text}");
        let _ = super::points::read_points(&mut findings, "p.csv", &text, ProtocolName::Dnp3);
    }
}

#[test]
fn what_is_declared_of_topics_is_read() {
    check(
        "[[topic]]\nfilter = 'a/#'\ntype = 'json'\nkeep = { events = 5, span = '1h' }\nremove = { idle = '1d' }\n",
        &[],
    );
    check(
        "[[topic]]\nfilter = 'a+'\ntype = 'xml'\nkeep = { events = 0 }\nremove = { idel = '1d' }\n",
        &[
            "t.toml:2:10: topic[0].filter: found \"a+\", expected a topic filter, as in \"site/+/notes\" (+ must be a whole level of a filter, as in site/+/state)",
            "t.toml:3:8: topic[0].type: found \"xml\", expected \"any\" or \"point\" or \"json\" or \"text\" or \"binary\"",
            "t.toml:4:19: topic[0].keep.events: found 0, expected a whole number from 1 to 1000000",
            "t.toml:5:12: topic[0].remove.idel: found the unknown key \"idel\", expected idle",
        ],
    );
}

#[test]
fn rules_of_retention_are_read() {
    let day = |days: u64| std::time::Duration::from_secs(days * 86_400);
    let text = "[history]\nkeep = '60d'\n[[history.retention]]\ntopics = 'a/#'\nkeep = '30d'\n\
        downsample = [{ after = '2d', every = '1m' }, { after = '14d', every = '15m', aggregate = 'extremes' }]\n\
        [[history.retention]]\ntopics = ['b/+', 'c']\n";
    let rules = from_text("t.toml", text, Path::new(".")).unwrap().history.retention;
    let stages: Vec<_> =
        rules[0].downsample.iter().map(|stage| (stage.after, stage.every.as_secs(), stage.keep.word())).collect();
    assert_eq!((rules[0].keep, stages), (Some(day(30)), vec![(day(2), 60, "mean"), (day(14), 900, "extremes")]));
    assert_eq!((rules[1].keep, rules[1].topics.len(), rules[1].downsample.len()), (Some(day(60)), 2, 0));
    check(
        "[[history.retention]]\ntopics = 'a+'\nkeep = '10d'\ndownsample = [\n{ after = '3d', every = '2m' },\n\
         { after = '3d', every = '3m' },\n{ after = '10d', every = '7m', aggregate = 'median' },\n{ every = '1h' }]\n",
        &[
            "t.toml:2:10: history.retention[0].topics: found \"a+\", expected a topic filter or a list of them, as in \"plant/+/vibration/#\" (+ must be a whole level of a filter, as in site/+/state)",
            "t.toml:6:11: history.retention[0].downsample[1].after: found \"3d\", expected more than 3d, the age of the stage before",
            "t.toml:6:25: history.retention[0].downsample[1].every: found \"3m\", expected a multiple of 2m, the interval of the stage before",
            "t.toml:7:11: history.retention[0].downsample[2].after: found \"10d\", expected less than 10d: older samples are removed",
            "t.toml:7:26: history.retention[0].downsample[2].every: found \"7m\", expected an interval that divides a day into equal parts, as 1m, 15m or 1h",
            "t.toml:7:26: history.retention[0].downsample[2].every: found \"7m\", expected a multiple of 3m, the interval of the stage before",
            "t.toml:7:44: history.retention[0].downsample[2].aggregate: found \"median\", expected \"mean\" or \"last\" or \"extremes\"",
            "t.toml:8:1: history.retention[0].downsample[3].after: found nothing, expected an age, as in \"2d\"",
        ],
    );
}

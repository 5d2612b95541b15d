//! How devices are reached, as configurations say it.

use super::{ConfigError, from_text};
use std::path::Path;
use tieline_transport::parse_pin;

/// What is wrong in the table of a device, or how it is reached.
fn read(keys: &str) -> Result<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog,0\n").unwrap();
    let text = format!("[device.d]\nprotocol='dnp3'\npoints='p.csv'\ndnp3={{outstation=10}}\n{keys}\n");
    let place = format!("{}/", folder.path().display());
    match from_text("n.toml", &text, folder.path()) {
        Ok(config) => Ok(config.devices[0].transport.as_ref().unwrap().to_string()),
        Err(ConfigError(all)) => Err(all.iter().map(|finding| finding.to_string().replace(&place, "")).collect()),
    }
}

fn check(keys: &str, expect: Result<&str, &[&str]>) {
    let found = read(keys);
    let words = found.as_ref().map_err(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(words.map(String::as_str), expect.map_err(<[&str]>::to_vec), "{keys}");
}

#[test]
fn transports_are_read_or_say_what_is_wrong() {
    check("address='10.1.2.3:20000'", Ok("10.1.2.3:20000"));
    check("listen='127.0.0.1:20000'", Ok("listening on 127.0.0.1:20000"));
    check("address='relay1:20000'\ntransport='udp'\nudp={local='0.0.0.0:20001'}", Ok("relay1:20000 (UDP)"));
    check(
        "listen='127.0.0.1:20000'\ntransport='udp'\nudp={remotes=['10.1.2.3'], silence='1m'}",
        Ok("listening on 127.0.0.1:20000 (UDP)"),
    );
    check("listen='127.0.0.1:20000'\ntransport='udp'", Ok("listening on 127.0.0.1:20000 (UDP)"));
    check(
        "listen='0.0.0.0:20000'\ntransport='udp'\nudp={remotes=['10.1.2.3']}",
        Ok("listening on 0.0.0.0:20000 (UDP)"),
    );
    check(
        "listen='0.0.0.0:20000'\ntransport='udp'",
        Err(&[
            "n.toml:5:8: device.d.udp.remotes: found nothing, and a listening address that other machines can reach, expected remotes = [\"10.1.2.3\"], the IP addresses that are heard: without a connection, one forged datagram of anyone else would take the session",
        ]),
    );
    check("serial={port='/dev/ttyS0', baud=19200, parity='even', gap='20ms'}", Ok("/dev/ttyS0"));
    check(
        "",
        Err(&[
            "n.toml:1:1: device.d.address: found neither address nor listen, expected address = \"host:port\" to connect to the device, listen = \"address:port\" to be connected to, or serial = { port = \"/dev/ttyS0\" }",
        ]),
    );
    check(
        "serial={baud=1, parity='mark', flow='xon'}",
        Err(&[
            "n.toml:5:8: device.d.serial.port: found nothing, expected the line's device file, as in \"/dev/ttyS0\"",
            "n.toml:5:14: device.d.serial.baud: found 1, expected a whole number from 50 to 4000000",
            "n.toml:5:24: device.d.serial.parity: found \"mark\", expected \"none\" or \"even\" or \"odd\"",
            "n.toml:5:37: device.d.serial.flow: found \"xon\", expected \"none\" or \"rts-cts\"",
        ]),
    );
    check(
        "address='r:1'\ntransport='quic'\nudp={remotes=['relay1']}",
        Err(&[
            "n.toml:6:11: device.d.transport: found \"quic\", expected \"tcp\" or \"tls\" or \"udp\"",
            "n.toml:7:5: device.d.udp: found a table for another transport than \"udp\", expected transport = \"udp\", or no such table",
            "n.toml:7:14: device.d.udp.remotes: found an array of 1, expected a list of IP addresses, as in [\"10.1.2.3\"]",
        ]),
    );
    check(
        "address='r:1'\ntransport='tls'\ntls={certificate='n.pem', pinned=['sha256:12']}",
        Err(&[
            "n.toml:7:5: device.d.tls.key: found nothing, expected the file of its private key, as in \"node.key\"",
            "n.toml:7:34: device.d.tls.pinned: found an array of 1, expected a fingerprint like \"sha256:\" and 64 hexadecimal digits",
        ]),
    );
    check(
        "address='r:1'\ntransport='tls'\ntls={certificate='n.pem', key='n.key', authorities='ca.pem'}",
        Err(&[
            "n.toml:7:18: device.d.tls.certificate: found n.pem: nothing readable (No such file or directory (os error 2)), expected a file with certificates in PEM (-----BEGIN CERTIFICATE-----)",
            "n.toml:7:31: device.d.tls.key: found n.key: nothing readable (No such file or directory (os error 2)), expected a private key in PEM, not encrypted",
            "n.toml:7:52: device.d.tls.authorities: found ca.pem: nothing readable (No such file or directory (os error 2)), expected a file with certificates in PEM (-----BEGIN CERTIFICATE-----)",
        ]),
    );
}

#[test]
fn pins_are_files_and_fingerprints() {
    let hex = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    assert!(parse_pin(&format!("sha256:{hex}"), Path::new("/etc")).is_ok());
    assert_eq!(
        parse_pin("relay1.pem", Path::new("/etc")),
        Ok(tieline_net::tls::Pin::Certificate("/etc/relay1.pem".into()))
    );
    assert!(parse_pin("sha256:zz", Path::new("/etc")).is_err());
}

#[test]
fn devices_share_connections() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog,0\n").unwrap();
    let device = |name: &str, channel: &str, outstation: u16| {
        format!(
            "[device.{name}]\nprotocol='dnp3'\npoints='p.csv'\nchannel='{channel}'\ndnp3={{outstation={outstation}}}\n"
        )
    };
    let check = |text: String, expect: Result<&[bool], &[&str]>| {
        let read = from_text("n.toml", &text, folder.path());
        let found = read
            .map(|config| config.devices.iter().map(|d| d.channel.as_ref().unwrap().one_at_a_time).collect::<Vec<_>>());
        let found = found.map_err(|ConfigError(all)| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = found.as_ref().map_err(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.map(Vec::as_slice), expect.map_err(<[&str]>::to_vec), "{text}");
    };
    let line = "[channel.bus]\nserial={port='/dev/ttyS0'}\n";
    let tcp = "[channel.far]\naddress='rtu:20000'\n";
    check(format!("{line}{tcp}{}{}", device("a", "bus", 10), device("b", "far", 10)), Ok(&[true, false]));
    check(
        format!("{line}{}{}{}", device("a", "bus", 10), device("b", "buss", 11), device("c", "bus", 10)),
        Err(&[
            "n.toml:11:9: device.b.channel: found \"buss\", expected the name of a [channel.buss] in this file",
            "n.toml:13:1: device.c.dnp3.outstation: found the link addresses that device.a has on the same channel, expected addresses of its own",
        ]),
    );
}

//! MQTT clients on the HTTP port: they are told where to go, in their own protocol.

use std::net::SocketAddr;
use tieline_mqtt::refuse_connect;

/// What the HTTP server answers to a first packet, if that is a CONNECT.
pub fn mqtt_answer(first: &[u8], mqtt: SocketAddr) -> Option<Vec<u8>> {
    let words = format!("this is the HTTP address of a Tieline node; its MQTT address is {mqtt}");
    refuse_connect(first, Some(&mqtt.to_string()), &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1883);

    #[test]
    fn mqtt_is_told_where_it_is_spoken() {
        let connect = |length: &[u8], level: u8| [&[0x10], length, b"\0\x04MQTT", &[level, 2, 0, 60]].concat();
        let v5 = mqtt_answer(&connect(&[16], 5), AT).unwrap();
        assert_eq!((v5[0], v5[3]), (0x20, 0x9C));
        assert!(String::from_utf8_lossy(&v5).contains("its MQTT address is 127.0.0.1:1883"), "{v5:?}");
        assert_eq!(mqtt_answer(&connect(&[0x80, 0x01], 4), AT).unwrap(), [0x20, 2, 0, 3]);
        for other in [&b"GET / HTTP/1.1\r\n"[..], b"", b"\x10", b"\x10\x10\0\x04HTTP\x05", b"\x20\x10\0\x04MQTT\x05"] {
            assert_eq!(mqtt_answer(other, AT), None, "{other:?}");
        }
    }
}

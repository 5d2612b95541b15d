//! Any bytes as a stream of MQTT packets; the first byte picks the version. What is read is written and read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_mqtt::{Decoder, Packet, Version};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let version = if first & 1 == 0 { Version::V311 } else { Version::V5 };
    let mut decoder = Decoder::new(1_048_576);
    while let Ok((used, frame)) = decoder.feed(rest) {
        assert!(decoder.held_bytes() <= 2 * bytes.len() + 64);
        rest = rest.get(used..).unwrap_or_default();
        let Some(frame) = frame else { return };
        let Ok(packet) = Packet::parse(version, &frame) else { return };
        let version = if let Packet::Connect(connect) = &packet { connect.version } else { version };
        let mut again = Vec::new();
        packet.emit(version, &mut again).expect("it was no longer when it came");
        let (_, frame) = Decoder::new(u32::MAX).feed(&again).expect("a header that was written");
        assert_eq!(Packet::parse(version, &frame.expect("a whole packet")), Ok(packet));
    }
});

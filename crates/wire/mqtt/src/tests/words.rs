//! Reasons in words beside an answer.

use super::hex;
use super::statements::Bench;
use crate::*;
use alloc::format;
use alloc::string::ToString;

#[test]
fn refusals_have_words_where_they_are_wanted_and_fit() {
    // Properties of CONNECT, and whether answers have words: [MQTT-3.1.2-29].
    for (properties, words) in
        [("", true), ("17 01", true), ("17 00", false), ("27 00000050", true), ("27 0000003c", false)]
    {
        let (mut bench, _) = Bench::open(properties, Accept::default());
        let text = "x".repeat(50);
        // [MQTT-3.11.2-1]
        bench.session.unsuback_because(PacketId::MIN, &[ReasonCode::NoSubscriptionExisted], &text);
        let [Packet::Unsuback(unsuback)] = &bench.sent()[..] else { panic!("{properties}") };
        assert_eq!(unsuback.properties.reason_string().is_some(), words, "{properties}");
        // [MQTT-3.4.2-2], [MQTT-3.5.2-2]
        for first in ["32", "34"] {
            bench.give(&hex(&format!("{first} 06 0001 61 0001 00")));
            bench.session.acknowledge_because(PacketId::MIN, ReasonCode::QuotaExceeded, &text);
            let sent = bench.sent();
            let [Packet::Puback(ack) | Packet::Pubrec(ack)] = &sent[..] else { panic!("{properties} {sent:?}") };
            let told = ack.properties.reason_string().map(|told| told.to_string());
            assert_eq!(told, words.then(|| text.clone()), "{properties}");
        }
    }
}

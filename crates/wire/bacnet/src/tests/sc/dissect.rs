//! Messages of BACnet/SC as text.

use crate::dissect::{Dissector, Sender};
use crate::tests::hex;

fn check(bytes: &str, summary: &str, details: &[&str], refusal: Option<&str>) {
    let entry = Dissector::new().secure_message(Sender::Device, &hex(bytes));
    assert_eq!((entry.summary.as_str(), entry.refusal.as_deref()), (summary, refusal));
    assert_eq!(entry.details, details);
}

#[test]
fn messages_are_told() {
    check(
        "01 08 0004 020000000009 0100 30 01 0c 0c 00000001 1955 3e 44 41ac0000 3f",
        "sc from 02:00:00:00:00:09 | answer 1 read-property analog-input,1 present-value: 21.5",
        &[],
        None,
    );
    check("01 04 0004 ffffffffffff 01001008", "sc broadcast | tells who-is", &[], None);
    check(
        "06 00 0003 020000000001 00112233445566778899aabbccddeeff 0640 05d9",
        "sc connect-request 3 of 02:00:00:00:00:01",
        &[
            "uuid: 00112233-4455-6677-8899-aabbccddeeff",
            "takes 1600 bytes of a message, 1497 of one of the network layer",
        ],
        None,
    );
    check(
        "00 00 0003 06 01 00 0007 0097 74616b656e",
        "sc bvlc-result 3 of connect-request: communication: node-duplicate-vmac",
        &[],
        Some("the node refuses: communication: node-duplicate-vmac: taken"),
    );
    check("0a 00 0005", "sc heartbeat-request 5", &[], None);
    check("c8 02 0005 41", "sc function 0xc8 5", &["destination option 1: 0 bytes, must be understood"], None);
    check("0a 00 0005 00", "no message of BACnet/SC", &[], Some("unexpected-data: 1 bytes follow the last value"));
}

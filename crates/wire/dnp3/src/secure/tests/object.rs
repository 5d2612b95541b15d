use super::*;
use crate::secure::tests::world::hex;
use proptest::prelude::*;

fn check(bytes: &str, expect: Authentication<'_>) {
    let bytes = hex(bytes);
    let mut written = Vec::new();
    expect.write(&mut written);
    assert_eq!(written, bytes, "{expect:?}");
    let mut fragment = alloc::vec![0xC0, 32];
    fragment.extend_from_slice(&bytes);
    assert_eq!(Authentication::only(&Fragment::parse(&fragment).unwrap()), Some(expect));
}

#[test]
fn every_variation_by_hand() {
    check(
        "78 01 5B 01 0C00 01000000 0000 04 01 AABBCCDD",
        Authentication::Challenge(Challenge {
            sequence: 1,
            user: 0,
            mac: 4,
            reason: 1,
            data: &[0xAA, 0xBB, 0xCC, 0xDD],
        }),
    );
    check("78 02 5B 01 0800 01000000 0100 1122", Authentication::Reply { sequence: 1, user: 1, mac: &[0x11, 0x22] });
    check("78 03 07 01 02000000 0100", Authentication::AggressiveRequest { sequence: 2, user: 1 });
    check("78 04 07 01 0100", Authentication::KeyStatusRequest { user: 1 });
    check(
        "78 05 5B 01 1200 03000000 0100 02 01 04 0400 AABBCCDD 998877",
        Authentication::KeyStatus(KeyStatusObject {
            sequence: 3,
            user: 1,
            wrap: 2,
            status: 1,
            algorithm: 4,
            challenge: &[0xAA, 0xBB, 0xCC, 0xDD],
            mac: &[0x99, 0x88, 0x77],
        }),
    );
    check(
        "78 06 5B 01 0800 03000000 0100 5566",
        Authentication::KeyChange { sequence: 3, user: 1, wrapped: &[0x55, 0x66] },
    );
    check(
        "78 07 5B 01 1000 03000000 0100 0200 07 010000000000 6E",
        Authentication::Error(ErrorObject {
            sequence: 3,
            user: 1,
            association: 2,
            code: 7,
            time: DnpTime::from_millis(1),
            text: b"n",
        }),
    );
    check("78 08 5B 01 0300 44 01 30", Authentication::Certificate { method: 68, kind: 1, certificate: &[0x30] });
    check("78 09 5B 01 0200 0102", Authentication::Mac(&[1, 2]));
    check(
        "78 0A 5B 01 1300 04 01 05000000 0100 1E00 0100 0000 0200 61 EEFF",
        Authentication::UserStatusChange(UserStatusChange {
            method: 4,
            operation: 1,
            sequence: 5,
            role: 1,
            days: 30,
            name: b"a",
            public_key: &[],
            certification: &[0xEE, 0xFF],
        }),
    );
    check(
        "78 0B 5B 01 0A00 04 0100 0400 61 01020304",
        Authentication::UpdateKeyRequest { method: 4, name: b"a", challenge: &[1, 2, 3, 4] },
    );
    check(
        "78 0C 5B 01 0C00 06000000 0200 0400 01020304",
        Authentication::UpdateKeyReply { sequence: 6, user: 2, challenge: &[1, 2, 3, 4] },
    );
    check(
        "78 0D 5B 01 0900 06000000 0200 0100 77",
        Authentication::UpdateKeyChange { sequence: 6, user: 2, encrypted: &[0x77] },
    );
    check("78 0E 5B 01 0100 42", Authentication::Signature(&[0x42]));
    check("78 0F 5B 01 0100 43", Authentication::Confirmation(&[0x43]));
}

#[test]
fn what_is_too_long_or_too_short_is_nothing() {
    let none = |variation, bytes: &[u8]| assert_eq!(Authentication::parse(GroupVar::new(120, variation), bytes), None);
    none(1, &[0; 7]);
    none(3, &[0; 7]);
    none(4, &[0; 1]);
    none(5, &[0, 0, 0, 0, 0, 0, 1, 1, 0, 4, 0, 1, 2, 3]);
    none(10, &[0; 15]);
    none(12, &[0, 0, 0, 0, 0, 0, 1, 0, 9, 9]);
    none(16, &[0; 16]);
    assert_eq!(Authentication::parse(GroupVar::new(121, 1), &[0; 7]), None);
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same(variation in 0_u8..18, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(object) = Authentication::parse(GroupVar::new(120, variation), &bytes) {
            let mut written = Vec::new();
            object.emit(&mut written);
            prop_assert_eq!(&written, &bytes);
            prop_assert_eq!(object.variation(), variation);
        }
    }

    #[test]
    fn what_is_written_is_read_the_same(
        numbers in any::<(u32, u16, u8, u8, u8, u16)>(),
        one in prop::collection::vec(any::<u8>(), 0..70),
        two in prop::collection::vec(any::<u8>(), 0..70),
    ) {
        let (sequence, user, a, b, c, days) = numbers;
        let objects = [
            Authentication::Challenge(Challenge { sequence, user, mac: a, reason: b, data: &one }),
            Authentication::KeyStatus(KeyStatusObject {
                sequence, user, wrap: a, status: b, algorithm: c, challenge: &one, mac: &two,
            }),
            Authentication::UserStatusChange(UserStatusChange {
                method: a, operation: b, sequence, role: user, days, name: &one, public_key: &two, certification: &one,
            }),
            Authentication::UpdateKeyRequest { method: a, name: &one, challenge: &two },
        ];
        for object in objects {
            let mut bytes = Vec::new();
            object.emit(&mut bytes);
            prop_assert_eq!(Authentication::parse(GroupVar::new(120, object.variation()), &bytes), Some(object));
        }
    }

    #[test]
    fn any_fragment_is_walked(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        if let Ok(fragment) = Fragment::parse(&bytes) {
            let count = Authentication::all(&fragment).count();
            prop_assert!(count <= bytes.len());
            let _ = Authentication::only(&fragment);
        }
    }
}

use super::*;
use proptest::prelude::*;

fn any_hello() -> impl Strategy<Value = Hello> {
    (any::<(bool, bool, bool)>(), any::<(u16, u16, u16)>()).prop_map(|((from_master, answer, datagrams), n)| Hello {
        from_master,
        answer,
        carrier: if datagrams { Carrier::Datagrams } else { Carrier::Stream },
        source: LinkAddress::new(n.0),
        destination: LinkAddress::new(n.1),
        fragment_max: n.2,
    })
}

#[test]
fn a_hello_has_these_bytes() {
    let hello = Hello {
        from_master: true,
        answer: false,
        carrier: Carrier::Stream,
        source: LinkAddress::new(1),
        destination: LinkAddress::new(0x6405),
        fragment_max: 2048,
    };
    let bytes = hello.emit();
    assert_eq!(bytes[..13], [0xD4, 0xCC, 0x81, 0x81, 0x80, 0x80, 0x81, 0x81, 0xC8, 0x85, 0x80, 0x90, 0x80]);
    assert_eq!(Hello::parse(&bytes), Ok(hello));
}

#[test]
fn heads_are_what_the_table_says() {
    let check = |bytes: [u8; 2], expect: Result<(Kind, u16), BadHead>| {
        let found = Head::parse(bytes);
        assert_eq!(found, expect.map(|(kind, bytes)| Head { kind, bytes }), "{bytes:02X?}");
        if let Ok(head) = found {
            assert_eq!(head.emit(), bytes);
        }
    };
    check([0x02, 0x00], Ok((Kind::Fragment, 2)));
    check([0xFF, 0x1F], Ok((Kind::Fragment, FRAGMENT_BYTES_MAX)));
    check([0x03, 0x20], Ok((Kind::Broadcast(Broadcast::ConfirmNever), 3)));
    check([0x03, 0x40], Ok((Kind::Broadcast(Broadcast::ConfirmAlways), 3)));
    check([0x03, 0x60], Ok((Kind::Broadcast(Broadcast::ConfirmOptional), 3)));
    check([0x00, 0x80], Ok((Kind::StatusRequest, 0)));
    check([0x00, 0xA0], Ok((Kind::Status, 0)));
    check([0x00, 0x00], Err(BadHead));
    check([0x01, 0x80], Err(BadHead));
    check([0x01, 0xC0], Err(BadHead));
    check([0x00, 0xE0], Err(BadHead));
}

proptest! {
    #[test]
    fn a_hello_is_read_back_and_is_noise_to_a_standard_decoder(hello in any_hello()) {
        let bytes = hello.emit();
        prop_assert_eq!(Hello::parse(&bytes), Ok(hello));
        prop_assert!(bytes.iter().all(|byte| byte & 0x80 != 0));
        let (mut decoder, mut rest) = (crate::link::Decoder::new(), &bytes[..]);
        while let Some(decoded) = decoder.decode(&mut rest) {
            prop_assert!(decoded.is_err());
        }
        prop_assert!(!decoder.is_partial());
    }

    #[test]
    fn a_damaged_hello_is_refused(hello in any_hello(), at in 0..HELLO_BYTES, by in 1..=u8::MAX) {
        let mut bytes = hello.emit();
        bytes[at] ^= by;
        prop_assert!(Hello::parse(&bytes).is_err());
    }

    #[test]
    fn a_message_of_a_datagram_is_read_back(
        numbers in any::<(u16, u16)>(),
        fragment in prop::collection::vec(any::<u8>(), 1..400),
        after in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (destination, source) = (LinkAddress::new(numbers.0), LinkAddress::new(numbers.1));
        let head = Head { kind: Kind::Fragment, bytes: u16::try_from(fragment.len()).unwrap() };
        let bytes = [&Message::header(head, destination, source)[..], &fragment, &after].concat();
        let expect = Message { kind: Kind::Fragment, destination, source, fragment: &fragment };
        prop_assert_eq!(Message::parse(&bytes), Some((expect, bytes.len() - after.len())));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some((_, used)) = Message::parse(&bytes) {
            prop_assert!(used >= DATAGRAM_HEADER_BYTES && used <= bytes.len());
        }
        if let Some((hello, _)) = bytes.split_first_chunk() {
            let _ = Hello::parse(hello);
        }
    }
}

//! The header's fields and codes.

use super::keys::*;
use crate::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;

#[test]
fn fields_stand_where_the_table_says() {
    let view: Vec<u8> = (0..HEADER_BYTES).map(|at| (at % 251) as u8).collect();
    let at = |offset: usize| (offset % 251) as u8;
    let header = HeaderView::parse(&view).expect("588 bytes");
    assert_eq!(header.length, 0x0001);
    let single = [header.version, header.error.0, header.treatment, header.reserved];
    assert_eq!(single, [2, 3, 4, 5]);
    let codes = [header.recipient_algorithm, header.content_algorithm, header.sender_algorithm, header.hash];
    assert_eq!(codes, [6, 7, 8, 9]);
    assert_eq!((header.recipient_authority.0, header.recipient_serial[0]), (at(10), at(11)));
    assert_eq!((header.sender_authority.0, header.sender_serial[0]), (at(43), at(44)));
    assert_eq!((header.wrapped_key[0], header.signature[0], header.signature[255]), (at(76), at(332), at(587)));
}

#[test]
fn serials_are_32_digits() {
    let check = |serial: Option<Serial>, expect: Option<&str>| {
        assert_eq!(serial.map(|s| s.to_string()).as_deref(), expect);
    };
    check(Serial::from_text("77"), Some("00000000000000000000000000000077"));
    check(Serial::from_text("abcdef"), Some("00000000000000000000000000ABCDEF"));
    check(Serial::from_text(""), None);
    check(Serial::from_text("0x77"), None);
    check(Serial::from_text("é"), None);
    check(Serial::from_text("123456789012345678901234567890123"), None);
    check(Serial::from_integer(&[0x20, 0x7d]), Some("0000000000000000000000000000207D"));
    check(Serial::from_integer(&[0, 0xff]), Some("000000000000000000000000000000FF"));
    check(Serial::from_integer(&[0xff]), None);
    check(Serial::from_integer(&[]), None);
    let mut long = [0xab; 17];
    long[0] = 0;
    check(Serial::from_integer(&long), Some("ABABABABABABABABABABABABABABABAB"));
    long[0] = 1;
    check(Serial::from_integer(&long), None);
}

#[test]
fn codes_have_names_and_numbers() {
    for (index, fault) in Fault::ALL.into_iter().enumerate() {
        assert_eq!(fault.code().fault(), Some(fault));
        let number = (index < 20).then_some(9901 + index as u16);
        assert_eq!(fault.egen(), number);
    }
    assert_eq!(ErrorCode::NONE.fault(), None);
    assert_eq!(ErrorCode(0x15).fault(), None);
    assert_eq!(Fault::Signature.to_string(), "the signature does not match (C15), code 0Bh");
    assert_eq!(Authority(5).to_string(), "5 (SPB-CAIXA)");
    assert_eq!(Authority(0).to_string(), "0");
}

#[test]
fn an_error_answer_carries_its_code() {
    let keys = keys("alice", "bruno");
    let outgoing = Outgoing { error: Fault::SenderSerial.code(), ..keys.outgoing(Treatment::ClearSecurity) };
    let answer = pack(&Plain, &Clearly, &RSFN_V3, &outgoing, b"<GEN0004/>", secret(1)).expect("a message");
    let read = Incoming::read(answer.bytes(), &ACCEPTANCE).expect("legal");
    assert_eq!(read.header().error.fault(), Some(Fault::SenderSerial));
    let view = HeaderView::parse(answer.bytes()).expect("588 bytes");
    assert!(!view.is_empty_header());
    assert!(HeaderView { version: 0, recipient_serial: [0; 32], sender_serial: [b'0'; 32], ..view }.is_empty_header());
}

fn party() -> impl Strategy<Value = Party> {
    (1_u8..=7, any::<[u8; 16]>(), any::<bool>()).prop_map(|(authority, serial, long)| {
        let algorithm = if long { KeyAlgorithm::Rsa2048 } else { KeyAlgorithm::Rsa1024 };
        let bytes: Vec<u8> = core::iter::once(0).chain(serial).collect();
        Party { algorithm, authority: Authority(authority), serial: Serial::from_integer(&bytes).expect("small") }
    })
}

fn header() -> impl Strategy<Value = (Header, ContentCipher)> {
    (0..EITHER.len(), 0..Treatment::ALL.len(), any::<u8>(), party(), party()).prop_map(
        |(version, treatment, error, a, b)| {
            let (profile, treatment, error) = (EITHER[version], Treatment::ALL[treatment], ErrorCode(error));
            (Header { version: profile.version, error, treatment, recipient: a, sender: b }, profile.cipher)
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_a_view_or_too_short(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        match HeaderView::parse(&bytes) {
            Ok(view) => {
                let mut again = Vec::new();
                view.emit(&mut again);
                prop_assert_eq!(&again[..], &bytes[..HEADER_BYTES]);
            }
            Err(short) => prop_assert!(bytes.len() < HEADER_BYTES && short.left < short.needed),
        }
        let _ = Incoming::read(&bytes, &ACCEPTANCE);
    }

    #[test]
    fn what_is_written_is_read((header, cipher) in header()) {
        let mut bytes = Vec::new();
        let wrapped: &[u8] = if header.treatment.is_encrypted() { &[7; 128] } else { &[] };
        header.emit(cipher, wrapped, &[9; 256], &mut bytes);
        prop_assert_eq!(bytes.len(), HEADER_BYTES);
        let read = Incoming::read_header(&bytes, &ACCEPTANCE);
        prop_assert_eq!(read.map(|incoming| *incoming.header()), Ok(header));
    }
}

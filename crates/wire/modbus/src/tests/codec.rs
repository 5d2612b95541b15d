use super::{hex, vectors};
use crate::pdu::{request_bytes, response_bytes};
use crate::{
    Bits, ExceptionCode, Identification, Identity, IdentityObject, Mismatch, PDU_BYTES_MAX, ReadCode, Reply, Request,
    RequestError, Response, Table, Unit, crc, rtu_frame, tcp_frame,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

fn emitted(request: &Request) -> Vec<u8> {
    let mut pdu = Vec::new();
    request.emit(&mut pdu);
    pdu
}

#[test]
fn the_examples_of_the_standard() {
    for (line, answer) in vectors(include_str!("../../tests/vectors/standard.txt")) {
        let (section, request) = line.split_once(' ').unwrap();
        let (request_pdu, answer_pdu) = (hex(request), hex(answer));
        let request = Request::parse(&request_pdu).unwrap_or_else(|error| panic!("{section}: {error}"));
        assert_eq!(emitted(&request), request_pdu, "{section}");
        let mut again = Vec::new();
        match Response::parse(&request, &answer_pdu).unwrap_or_else(|error| panic!("{section}: {error}")) {
            Reply::Done(response) => response.emit(&request, &mut again).unwrap(),
            Reply::Refused(code) => code.emit(request.function().code(), &mut again),
        }
        assert_eq!(again, answer_pdu, "{section}");
    }
}

#[test]
fn values_of_the_standards_examples() {
    let parse =
        |request: &str, answer: &str| Response::parse(&Request::parse(&hex(request)).unwrap(), &hex(answer)).unwrap();
    let Reply::Done(Response::Bits(bits)) = parse("01 0013 0013", "01 03 CD6B05") else { panic!() };
    // Coils 27 to 20 are CD, the highest first.
    let first: Vec<bool> = bits.iter().take(8).collect();
    assert_eq!(first, [true, false, true, true, false, false, true, true]);
    assert_eq!((bits.count(), bits.bit(18), bits.bit(19)), (19, Some(true), None));
    let registers = Response::Registers([0x022B, 0, 0x64].into());
    assert_eq!(parse("03 006B 0003", "03 06 022B 0000 0064"), Reply::Done(registers));
    assert_eq!(parse("01 04A1 0001", "81 02"), Reply::Refused(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    // A peer that refuses with the wrong function.
    assert_eq!(parse("01 04A1 0001", "80 03"), Reply::Refused(ExceptionCode::ILLEGAL_DATA_VALUE));
}

#[test]
fn illegal_requests_are_refused_with_their_exception() {
    for (pdu, code) in vectors(include_str!("../../tests/vectors/illegal.txt")) {
        let found = Request::parse(&hex(pdu)).map_err(RequestError::exception);
        assert_eq!(found, Err(ExceptionCode(hex(code)[0])), "{pdu}");
    }
}

#[test]
fn answers_to_something_else_are_none() {
    let check = |request: &str, answer: &str, expect: Mismatch| {
        let request = Request::parse(&hex(request)).unwrap();
        assert_eq!(Response::parse(&request, &hex(answer)), Err(expect), "{answer}");
    };
    check("03 0000 0002", "04 04 0000 0000", Mismatch::Function(4));
    check("03 0000 0002", "03 02 0000", Mismatch::Length);
    check("03 0000 0002", "03 04 0000 00", Mismatch::Length);
    check("03 0000 0002", "03 04 0000 0000 00", Mismatch::Length);
    check("01 0000 0009", "01 01 FF", Mismatch::Length);
    check("06 0001 0002", "06 0001 0003", Mismatch::Echo);
    check("10 0001 0002 04 0000 0000", "10 0002 0002", Mismatch::Echo);
    check("10 0001 0002 04 0000 0000", "10 0001 0001", Mismatch::Echo);
    check("2B 0E 01 00", "2B 0E 02 01 00 00 00", Mismatch::Identification);
    check("2B 0E 01 00", "2B 0E 01 01 00 00 01 00 09 41", Mismatch::Length);
    check("03 0000 0002", "", Mismatch::Length);
    check("03 0000 0002", "83", Mismatch::Length);
}

#[test]
fn frames_of_both_kinds() {
    assert_eq!(crc(b"123456789"), 0x4B37);
    // Serial Line, appendix B: 02 07 has the check 41 12.
    let frame = |unit, pdu: &[u8]| {
        let mut out = Vec::new();
        rtu_frame(Unit(unit), &mut out, |out| out.extend_from_slice(pdu));
        out
    };
    assert_eq!(frame(2, &[7]), hex("02 07 41 12"));
    assert_eq!(frame(1, &hex("03 0000 000A")), hex("01 03 0000 000A C5CD"));
    let mut tcp = hex("FF");
    tcp_frame(0x1501, Unit(0xFF), &mut tcp, |out| out.extend(hex("03 0004 0001")));
    assert_eq!(tcp, hex("FF 1501 0000 0006 FF 03 0004 0001"));
}

#[test]
fn an_identity_is_read_page_by_page_and_object_by_object() {
    let mut identity = Identity::new("Tieline", "X1", "2.1");
    assert_eq!(identity.page(ReadCode::Basic, 0).unwrap().conformity, 0x81);
    identity.set(4, b"a meter");
    identity.set(0x80, &[1; 300]);
    identity.set(0x81, &[2; 200]);
    let (mut object, mut ids, mut pages) = (0, Vec::new(), 0);
    loop {
        let page = identity.page(ReadCode::Extended, object).unwrap();
        let request = Request::Identification { code: ReadCode::Extended, object };
        let mut pdu = Vec::new();
        Response::Identification(page.clone()).emit(&request, &mut pdu).unwrap();
        assert!(pdu.len() <= PDU_BYTES_MAX && page.conformity == 0x83);
        assert_eq!(Response::parse(&request, &pdu), Ok(Reply::Done(Response::Identification(page.clone()))));
        ids.extend(page.objects.iter().map(|object| object.id));
        pages += 1;
        let Some(next) = page.next else { break };
        object = next;
    }
    assert_eq!((ids, pages), (std::vec![0, 1, 2, 4, 0x80, 0x81], 3));
    let regular = identity.page(ReadCode::Regular, 3).unwrap();
    assert_eq!(regular.objects.len(), 4, "an unknown object begins the stream again");
    assert_eq!(identity.page(ReadCode::Individual, 4).unwrap().objects[0].value[..], *b"a meter");
    assert_eq!(identity.page(ReadCode::Individual, 5), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    assert_eq!(Identity::default().page(ReadCode::Basic, 0), Err(ExceptionCode::ILLEGAL_FUNCTION));
}

fn tables() -> impl Strategy<Value = Table> {
    prop::sample::select(std::vec![Table::Coils, Table::DiscreteInputs, Table::HoldingRegisters, Table::InputRegisters])
}

/// Legal requests, the longest too.
pub(super) fn requests() -> impl Strategy<Value = Request> {
    let words = |max: usize| vec(any::<u16>(), 1..=max).prop_map(std::vec::Vec::into_boxed_slice);
    let code =
        prop::sample::select(std::vec![ReadCode::Basic, ReadCode::Regular, ReadCode::Extended, ReadCode::Individual]);
    prop_oneof![
        (tables(), 0..60_000_u16, 1..=2000_u16).prop_map(|(table, start, count)| Request::Read {
            table,
            start,
            count: count.min(table.read_max())
        }),
        (any::<u16>(), any::<bool>()).prop_map(|(address, on)| Request::WriteCoil { address, on }),
        (any::<u16>(), any::<u16>()).prop_map(|(address, value)| Request::WriteRegister { address, value }),
        (0..60_000_u16, vec(any::<bool>(), 1..=1968))
            .prop_map(|(start, bits)| Request::WriteCoils { start, values: bits.into_iter().collect() }),
        (0..60_000_u16, words(123)).prop_map(|(start, values)| Request::WriteRegisters { start, values }),
        any::<[u16; 3]>().prop_map(|[address, and, or]| Request::MaskWrite { address, and, or }),
        (0..60_000_u16, 1..=125_u16, 0..60_000_u16, words(121)).prop_map(
            |(read_start, read_count, write_start, values)| Request::ReadWrite {
                read_start,
                read_count,
                write_start,
                values
            }
        ),
        (code, any::<u8>()).prop_map(|(code, object)| Request::Identification { code, object }),
    ]
}

/// An answer to a request, from any bytes.
fn answer_to(request: &Request, noise: &[u8]) -> Response {
    let mut words = noise.iter().cycle().map(|byte| u16::from(*byte) * 257);
    match request {
        Request::Read { table, count, .. } if table.is_bits() => {
            Response::Bits(words.take(usize::from(*count)).map(|word| word & 1 == 1).collect())
        }
        Request::Read { count, .. } | Request::ReadWrite { read_count: count, .. } => {
            Response::Registers(words.take(usize::from(*count)).collect())
        }
        Request::Identification { .. } => Response::Identification(Identification {
            conformity: 0x83,
            next: words.next().map(|_| noise[0]),
            objects: noise.chunks(20).take(5).map(|part| IdentityObject { id: part[0], value: part.into() }).collect(),
        }),
        _ => Response::Written,
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(request in requests(), noise in vec(any::<u8>(), 1..120)) {
        let pdu = emitted(&request);
        prop_assert!(pdu.len() <= PDU_BYTES_MAX);
        prop_assert_eq!(Request::parse(&pdu), Ok(request.clone()));
        prop_assert_eq!(request_bytes(&pdu), Ok(Some(pdu.len())));
        let response = answer_to(&request, &noise);
        let mut answer = Vec::new();
        response.emit(&request, &mut answer).unwrap();
        prop_assert!(answer.len() <= PDU_BYTES_MAX);
        prop_assert_eq!(response_bytes(&answer), Ok(Some(answer.len())));
        prop_assert_eq!(Response::parse(&request, &answer), Ok(Reply::Done(response)));
        for cut in 0..pdu.len() {
            prop_assert!(Request::parse(&pdu[..cut]).is_err());
            prop_assert!(request_bytes(&pdu[..cut]).unwrap().is_none_or(|whole| whole > cut));
        }
    }

    #[test]
    fn any_bytes_are_judged(request in requests(), pdu in vec(any::<u8>(), 0..260)) {
        if let Ok(parsed) = Request::parse(&pdu) {
            prop_assert_eq!(emitted(&parsed).len(), pdu.len());
        }
        let _ = Response::parse(&request, &pdu);
        let mut of_function = pdu.clone();
        of_function.insert(0, request.function().code());
        let _ = (Response::parse(&request, &of_function), Request::parse(&of_function));
        let _ = (request_bytes(&of_function), response_bytes(&of_function));
    }

    #[test]
    fn bits_are_packed_and_unpacked(states in vec(any::<bool>(), 0..300)) {
        let bits: Bits = states.iter().copied().collect();
        prop_assert_eq!(&bits, &Bits::from_packed(bits.packed(), bits.count()));
        prop_assert_eq!(bits.iter().collect::<Vec<_>>(), states);
    }
}

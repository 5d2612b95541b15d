//! Every bit of a message, turned: the code that it is refused with.

use super::keys::*;
use super::vectors::open_streamed;
use crate::*;
use alloc::vec::Vec;

/// How a message that was packed by `keys` is taken with real RSA.
fn told(keys: &Keys, acceptance: &Acceptance<'_>, message: Vec<u8>) -> Result<Vec<u8>, ErrorCode> {
    let certificates = |header: &Header| keys.certificates(header);
    let verified = unpack(&Plain, keys, acceptance, certificates, message, &secret(1)).map_err(|e| e.code())?;
    verified.into_plain(InflateLimits::default()).map_err(|e| e.code())
}

/// As [`told`], with [`Clearly`] in place of RSA.
fn told_clearly(keys: &Keys, message: Vec<u8>) -> Result<Vec<u8>, ErrorCode> {
    let certificates = |header: &Header| keys.certificates(header);
    let verified = unpack(&Plain, &Clearly, &V3_ONLY, certificates, message, &secret(1)).map_err(|e| e.code())?;
    verified.into_plain(InflateLimits::default()).map_err(|e| e.code())
}

const V3_ONLY: Acceptance<'static> = Acceptance { profiles: &[RSFN_V3], content_bytes_max: 4096 };

fn sealed(keys: &Keys, rsa: &impl Rsa, profile: &Profile, treatment: Treatment, content: &[u8]) -> Vec<u8> {
    let outgoing = keys.outgoing(treatment);
    pack(&Plain, rsa, profile, &outgoing, content, secret(3)).expect("a message").into_bytes()
}

fn turned(message: &[u8], byte: usize, bit: u8) -> Vec<u8> {
    let mut message = message.to_vec();
    message[byte] ^= 1 << bit;
    message
}

/// The code for a turned bit of a message of protocol 3 with treatment 0; none when it is taken all the same.
fn expected(byte: usize, bit: u8, was: u8) -> Option<Fault> {
    let other_case = was.is_ascii_alphabetic() && bit == 5;
    match byte {
        0..2 => Some(Fault::HeaderLength),
        2 => Some(Fault::Version),
        // Nothing authenticates C03, C05, and which encrypted treatment it is.
        3 | 5 => None,
        4 => match bit {
            0 | 2 => None,
            // 08: the content is not compressed. 02: clear, with a key. Others are unknown.
            _ => Some(Fault::Treatment),
        },
        6 => Some(Fault::RecipientKeyAlgorithm),
        7 => Some(Fault::ContentAlgorithm),
        8 => Some(Fault::SenderKeyAlgorithm),
        9 => Some(Fault::HashAlgorithm),
        10 => Some(Fault::RecipientAuthority),
        11..43 => (!other_case).then_some(Fault::RecipientSerial),
        43 => Some(Fault::SenderAuthority),
        44..76 => (!other_case).then_some(Fault::SenderSerial),
        // The length of the key, and what must be zero; between them the key and its vector.
        76 | 121..332 => Some(Fault::KeyExtraction),
        77..121 => Some(Fault::ContentCipher),
        332..588 => Some(Fault::Signature),
        _ => Some(Fault::ContentCipher),
    }
}

#[test]
fn every_turned_bit_has_its_code() {
    let keys = keys("alice", "bruno");
    let content = b"<DOC>content</DOC>";
    let message = sealed(&keys, &Clearly, &RSFN_V3, Treatment::Normal, content);
    assert_eq!(message.len(), HEADER_BYTES + content.len() + TAG_BYTES);
    for byte in 0..message.len() {
        for bit in 0..8 {
            let expect = expected(byte, bit, message[byte]).map_or(Ok(content.to_vec()), |fault| Err(fault.code()));
            assert_eq!(told_clearly(&keys, turned(&message, byte, bit)), expect, "byte {byte} bit {bit}");
        }
    }
}

#[test]
fn turned_bits_of_blocks_and_content_have_their_codes_with_rsa() {
    let keys = keys("alice", "bruno");
    let check = |profile: &Profile, treatment, byte: usize, expect: Fault| {
        let message = sealed(&keys, &keys, profile, treatment, b"0123456789");
        let byte = if byte == usize::MAX { message.len() - 1 } else { byte };
        let turned = turned(&message, byte, 3);
        assert_eq!(told(&keys, &ACCEPTANCE, turned.clone()), Err(expect.code()), "{profile:?} byte {byte}");
        let (streamed, _) = open_streamed(&keys, &turned, 5, &ACCEPTANCE);
        assert_eq!(streamed.map(drop), Err(expect), "{profile:?} byte {byte}, streamed");
    };
    for byte in [76, 200, 331] {
        check(&RSFN_V3, Treatment::Normal, byte, Fault::KeyExtraction);
        check(&RSFN_V2, Treatment::Normal, byte, Fault::KeyExtraction);
    }
    for byte in [332, 400, 587] {
        check(&RSFN_V3, Treatment::Normal, byte, Fault::Signature);
        check(&RSFN_V2, Treatment::Normal, byte, Fault::Signature);
        check(&RSFN_V3, Treatment::Broadcast, byte, Fault::Signature);
    }
    for byte in [588, 597, 598, usize::MAX] {
        check(&RSFN_V3, Treatment::Normal, byte, Fault::ContentCipher);
        check(&RSFN_V2, Treatment::Normal, byte, Fault::Signature);
    }
    check(&RSFN_V3, Treatment::Broadcast, 588, Fault::Signature);
}

#[test]
fn lengths_are_judged_before_any_key_is_used() {
    let keys = keys("alice", "bruno");
    let check = |profile: &Profile, bytes: usize, limit: u64, expect: Result<(), Refused>| {
        let mut message = sealed(&keys, &Clearly, profile, Treatment::File, b"0123456789abcdef");
        message.resize(bytes, 0);
        let acceptance = Acceptance { profiles: &EITHER, content_bytes_max: limit };
        assert_eq!(Incoming::read(&message, &acceptance).map(drop), expect, "{bytes} bytes");
    };
    for bytes in [0, 1, 75, 587] {
        check(&RSFN_V3, bytes, 4096, Err(Fault::HeaderLength.into()));
    }
    for bytes in [588, 603] {
        check(&RSFN_V3, bytes, 4096, Err(Fault::ContentCipher.into()));
    }
    check(&RSFN_V3, 604, 4096, Ok(()));
    check(&RSFN_V2, 588, 4096, Ok(()));
    check(&RSFN_V2, 595, 4096, Err(Fault::ContentLength.into()));
    check(&RSFN_V2, 604, 16, Ok(()));
    check(&RSFN_V2, 605, 16, Err(TooLarge { limit: 16 }.into()));
    assert_eq!(Refused::from(TooLarge { limit: 16 }).code(), ErrorCode(0xff));
}

#[test]
fn a_stream_stops_at_its_limit_and_tells_wrong_lengths() {
    let keys = keys("alice", "bruno");
    let message = sealed(&keys, &keys, &RSFN_V2, Treatment::File, b"0123456789abcdef");
    assert_eq!(open_streamed(&keys, &message[..603], 4, &ACCEPTANCE).0.map(drop), Err(Fault::ContentLength));
    let message = sealed(&keys, &keys, &RSFN_V3, Treatment::File, b"");
    assert_eq!(open_streamed(&keys, &message[..600], 4, &ACCEPTANCE).0.map(drop), Err(Fault::ContentCipher));
    assert_eq!(open_streamed(&keys, &message, 4, &ACCEPTANCE).0.map(drop), Ok(()));
    let incoming = Incoming::read_header(&message, &ACCEPTANCE).expect("a header");
    let certificates = keys.certificates(incoming.header());
    let admitted = incoming.admit(certificates.0.as_ref(), certificates.1.as_ref()).expect("certificates");
    let mut stream = admitted.stream(&Plain, None, &secret(1), 20);
    let mut out = Vec::new();
    assert_eq!(stream.feed(&[0; 20], &mut out), Ok(()));
    assert_eq!(stream.feed(&[0; 1], &mut out), Err(TooLarge { limit: 20 }));
    assert_eq!(out.len(), 4);
}

#[test]
fn versions_that_are_not_taken_are_told() {
    let keys = keys("alice", "bruno");
    let message = sealed(&keys, &keys, &RSFN_V2, Treatment::Normal, b"text");
    assert_eq!(told(&keys, &V3_ONLY, message.clone()), Err(Fault::Version.code()));
    assert_eq!(told(&keys, &ACCEPTANCE, turned(&message, 2, 0)), Err(Fault::ContentAlgorithm.code()));
    let mut empty = message;
    empty[2] = 0;
    assert_eq!(told(&keys, &ACCEPTANCE, empty), Err(Fault::Version.code()));
    let (carla, david) = (pair("carla").party, pair("david").party);
    let outgoing = Outgoing { sender: carla, recipient: david, ..keys.outgoing(Treatment::Normal) };
    let refused = Packing::new(&Plain, &RSFN_V3, &outgoing, b"", secret(1)).map(drop);
    assert_eq!(refused, Err(PackError::KeyAlgorithm(KeyAlgorithm::Rsa1024)));
}

#[test]
fn certificates_that_do_not_fit_are_told_by_the_lowest_code() {
    let pairs = keys("alice", "bruno");
    let (alice, bruno) = (certificate(pairs.sender.party), certificate(pairs.recipient.party));
    let check = |treatment, ours: Option<Certificate>, theirs: Option<Certificate>, expect: Result<(), Fault>| {
        let message = sealed(&pairs, &Clearly, &RSFN_V3, treatment, b"");
        let incoming = Incoming::read(&message, &ACCEPTANCE).expect("legal");
        assert_eq!(incoming.admit(ours.as_ref(), theirs.as_ref()).map(drop), expect);
    };
    let with = |certificate: Certificate, standing| Some(Certificate { standing, ..certificate });
    let normal = Treatment::Normal;
    check(normal, Some(bruno), Some(alice), Ok(()));
    check(normal, None, Some(alice), Err(Fault::RecipientSerial));
    check(normal, Some(bruno), None, Err(Fault::SenderSerial));
    check(normal, None, None, Err(Fault::RecipientSerial));
    check(normal, Some(alice), Some(bruno), Err(Fault::RecipientAuthority));
    check(Treatment::Broadcast, None, Some(alice), Ok(()));
    check(normal, with(bruno, Standing::Pending), Some(alice), Err(Fault::CertificateInactive));
    check(normal, Some(bruno), with(alice, Standing::Pending), Err(Fault::CertificateInactive));
    check(Treatment::Security, Some(bruno), with(alice, Standing::Pending), Ok(()));
    check(normal, with(bruno, Standing::Over), with(alice, Standing::Foreign), Err(Fault::NotTheSender));
    check(normal, with(bruno, Standing::Over), None, Err(Fault::SenderSerial));
    check(normal, Some(bruno), with(alice, Standing::Invalid), Err(Fault::CertificateInvalid));
    let short = Party { algorithm: KeyAlgorithm::Rsa1024, ..alice.party };
    check(normal, Some(bruno), Some(certificate(short)), Err(Fault::SenderKeyAlgorithm));
    let elsewhere = Party { authority: Authority(7), ..alice.party };
    check(normal, Some(bruno), Some(certificate(elsewhere)), Err(Fault::SenderAuthority));
}

#[test]
fn a_key_that_cannot_be_extracted_runs_every_step() {
    let keys = keys("alice", "bruno");
    let message = sealed(&keys, &keys, &RSFN_V3, Treatment::Normal, b"content");
    for key in [None, Some(&[0; 43][..]), Some(&[0; 45]), Some(&[])] {
        let incoming = Incoming::read(&message, &ACCEPTANCE).expect("legal");
        let (ours, theirs) = keys.certificates(incoming.header());
        let admitted = incoming.admit(ours.as_ref(), theirs.as_ref()).expect("certificates");
        let opened = admitted.open(&Plain, message.clone(), key, &secret(1));
        assert_eq!(opened.verify_job().signature.len(), 256);
        assert_eq!(opened.verify(true).map(drop), Err(Fault::KeyExtraction));
    }
}

#[test]
fn results_of_wrong_length_are_the_callers_mistake() {
    let keys = keys("alice", "bruno");
    let packing =
        |treatment| Packing::new(&Plain, &RSFN_V3, &keys.outgoing(treatment), b"text", secret(1)).expect("a message");
    let check = |treatment, signature: usize, wrapped: usize, expect: Option<(usize, usize)>| {
        let finished = packing(treatment).finish(&[1; 256][..signature], &[1; 256][..wrapped]);
        let expect = expect.map(|(bytes, expected)| PackError::BlockLength { bytes, expected });
        assert_eq!(finished.err(), expect);
    };
    check(Treatment::Normal, 256, 256, None);
    check(Treatment::Normal, 255, 256, Some((255, 256)));
    check(Treatment::Normal, 256, 0, Some((0, 256)));
    check(Treatment::Broadcast, 256, 0, None);
    check(Treatment::Broadcast, 256, 256, Some((256, 0)));
    let compressed = Packing::new(&Plain, &RSFN_V3, &keys.outgoing(Treatment::CompressedFile), b"text", secret(1));
    assert_eq!(compressed.err(), Some(PackError::NotCompressed));
    let streamed = |pieces: &[&[u8]]| {
        let outgoing = keys.outgoing(Treatment::CompressedFile);
        let mut stream = PackingStream::new(&Plain, &RSFN_V3, &outgoing, secret(1)).expect("a message");
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| stream.feed(piece, &mut out).expect("small"));
        stream.finish(&mut out).map(drop)
    };
    assert_eq!(streamed(&[b"\x1f", b"\x8b\x08", b"rest"]), Ok(()));
    assert_eq!(streamed(&[b"PK\x03\x04rest"]), Ok(()));
    assert_eq!(streamed(&[b"\x1f", b"\x8b"]), Err(PackError::NotCompressed));
    assert_eq!(streamed(&[]), Err(PackError::NotCompressed));
}

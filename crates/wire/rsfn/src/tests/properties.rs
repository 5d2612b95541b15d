//! Any content, any pieces, any damage.

use super::keys::*;
use crate::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn profile() -> impl Strategy<Value = Profile> {
    let prefix = Profile { cipher: ContentCipher::Aes256Gcm(IvPlace::KeyPrefix), ..RSFN_V3 };
    proptest::sample::select(Vec::from([RSFN_V2, RSFN_V3, prefix, Profile { trim_padding: false, ..RSFN_V2 }]))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..100)
}

/// Treatments whose content is given as it is.
fn treatment() -> impl Strategy<Value = Treatment> {
    let plain: Vec<Treatment> = Treatment::ALL.into_iter().filter(|t| !t.is_compressed()).collect();
    proptest::sample::select(plain)
}

/// What the content becomes on the way: padding that is not trimmed stays.
fn carried(profile: &Profile, content: &[u8]) -> Vec<u8> {
    let mut carried = content.to_vec();
    if profile.version == Version::V2 {
        carried.resize(content.len().next_multiple_of(8), 0);
        let zeros = carried.iter().rev().take(7).take_while(|&&o| o == 0).count();
        carried.truncate(carried.len() - if profile.trim_padding { zeros } else { 0 });
    }
    carried
}

struct Parties(Outgoing);

impl Parties {
    fn new(treatment: Treatment) -> Self {
        let party = |serial, authority| Party {
            algorithm: KeyAlgorithm::Rsa2048,
            authority: Authority(authority),
            serial: Serial::from_text(serial).expect("a serial"),
        };
        Self(Outgoing { treatment, error: ErrorCode::NONE, sender: party("1", 1), recipient: party("2", 2) })
    }

    fn admitted(&self, message: &[u8], acceptance: &Acceptance<'_>) -> Result<Admitted, Refused> {
        let (ours, theirs) = (certificate(self.0.recipient), certificate(self.0.sender));
        Ok(Incoming::read(message, acceptance)?.admit(Some(&ours), Some(&theirs))?)
    }

    fn opened(&self, message: Vec<u8>, acceptance: &Acceptance<'_>) -> Result<Vec<u8>, Refused> {
        let certificates = |_: &Header| (Some(certificate(self.0.recipient)), Some(certificate(self.0.sender)));
        let verified = unpack(&Plain, &Clearly, acceptance, certificates, message, &secret(1))?;
        assert_eq!(verified.content(), verified.clone().into_content());
        Ok(verified.into_content())
    }

    fn streamed(&self, message: &[u8], piece: usize, acceptance: &Acceptance<'_>) -> Result<Vec<u8>, Refused> {
        let admitted = self.admitted(message, acceptance)?;
        let key = admitted.unwrap_job().and_then(|job| Clearly.unwrap(job));
        let mut out = Vec::new();
        let mut stream = admitted.stream(&Plain, key.as_deref(), &secret(1), acceptance.content_bytes_max);
        for bytes in message[HEADER_BYTES..].chunks(piece) {
            stream.feed(bytes, &mut out)?;
        }
        let opened = stream.finish(&mut out);
        let right = Clearly.verify(opened.verify_job());
        opened.verify(right)?;
        Ok(out)
    }
}

/// Clear content of protocol 2 that its sender did not fill has no padding to take away.
#[test]
fn content_that_was_not_filled_is_not_trimmed() {
    let parties = Parties::new(Treatment::Broadcast);
    let acceptance = Acceptance { profiles: &[RSFN_V2], content_bytes_max: 4096 };
    let check = |content: &[u8], expect: &[u8]| {
        let job = SignJob { digest: Plain.sha256(content), padding: SignaturePadding::Pkcs1v15 };
        let header = *admitted(&parties, &acceptance).header();
        let mut message = Vec::new();
        header.emit(RSFN_V2.cipher, &[], &Clearly.sign(job).expect("a signature"), &mut message);
        message.extend_from_slice(content);
        assert_eq!(parties.streamed(&message, 3, &acceptance).as_deref(), Ok(expect));
        assert_eq!(parties.opened(message, &acceptance).as_deref(), Ok(expect));
    };
    check(b"12345\0\0", b"12345\0\0");
    check(b"12345\0\0\0", b"12345");
    check(b"12345678\0", b"12345678\0");
    check(b"\0\0\0\0\0\0\0\0", b"\0");
    check(b"", b"");
}

fn admitted(parties: &Parties, acceptance: &Acceptance<'_>) -> Admitted {
    let sealed = pack(&Plain, &Clearly, &RSFN_V2, &parties.0, b"", secret(2)).expect("a message");
    parties.admitted(sealed.bytes(), acceptance).expect("legal")
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(
        profile in profile(), treatment in treatment(), content in content(), piece in 1_usize..40,
    ) {
        let parties = Parties::new(treatment);
        let acceptance = Acceptance { profiles: &[profile], content_bytes_max: 4096 };
        let sealed = pack(&Plain, &Clearly, &profile, &parties.0, &content, secret(2)).expect("a message");

        let mut stream = PackingStream::new(&Plain, &profile, &parties.0, secret(2)).expect("a message");
        let mut body = Vec::new();
        for bytes in content.chunks(piece) {
            stream.feed(bytes, &mut body).expect("small");
        }
        let header = stream.finish(&mut body).expect("what it says");
        let wrapped = header.wrap_job().and_then(|job| Clearly.wrap(job)).unwrap_or_default();
        let signature = Clearly.sign(header.sign_job()).expect("a signature");
        let mut streamed = header.finish(&signature, &wrapped).expect("whole blocks");
        streamed.extend_from_slice(&body);
        prop_assert_eq!(&streamed, sealed.bytes());

        let expect = Ok(carried(&profile, &content));
        prop_assert_eq!(&parties.streamed(sealed.bytes(), piece, &acceptance), &expect);
        prop_assert_eq!(&parties.opened(sealed.into_bytes(), &acceptance), &expect);
    }

    /// Pieces and the whole agree on any damage, and no damage to the content of protocol 3 goes through.
    #[test]
    fn damage_is_told_alike(
        profile in profile(), treatment in treatment(), content in content(), piece in 1_usize..40,
        damage in proptest::collection::vec((0_usize..800, any::<u8>()), 1..4), length in 0_usize..800,
    ) {
        let parties = Parties::new(treatment);
        let acceptance = Acceptance { profiles: &[profile], content_bytes_max: 4096 };
        let mut message = pack(&Plain, &Clearly, &profile, &parties.0, &content, secret(2)).expect("a message").into_bytes();
        for (at, value) in damage {
            if let Some(byte) = message.get_mut(at) {
                *byte = value;
            }
        }
        if length.is_multiple_of(4) {
            message.resize(length, 0x5a);
        }
        let whole = parties.opened(message.clone(), &acceptance);
        prop_assert_eq!(parties.streamed(&message, piece, &acceptance), whole.clone());
        if let Ok(opened) = whole {
            // Padding stays in what says that it is compressed.
            let says = message.get(4).and_then(|&code| Treatment::from_code(code));
            let trim_padding = profile.trim_padding && !says.is_some_and(Treatment::is_compressed);
            prop_assert_eq!(opened, carried(&Profile { trim_padding, ..profile }, &content));
        }
    }
}

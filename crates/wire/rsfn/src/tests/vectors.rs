//! Messages packed by Python and OpenSSL are opened; messages packed here are the bytes that Python and OpenSSL
//! opened (`interop/test_rsfn.py`).

use super::keys::*;
use crate::*;
use alloc::format;
use alloc::vec::Vec;

struct Case {
    name: std::string::String,
    keys: Keys,
    treatment: Treatment,
    content: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let text = vector("messages.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, _, treatment, sender, recipient, content] = fields[..] else { panic!("{line}") };
            let treatment = Treatment::from_code(treatment.parse().expect("a code")).expect("a treatment");
            Case { name: name.into(), keys: keys(sender, recipient), treatment, content: bytes(content) }
        })
        .collect()
}

#[test]
fn messages_of_others_are_opened() {
    for Case { name, keys, treatment, content } in cases() {
        let message = bytes(&vector(&format!("{name}.hex")));
        let certificates = |header: &Header| keys.certificates(header);
        let verified = unpack(&Plain, &keys, &ACCEPTANCE, certificates, message, &secret(1)).expect(&name);
        assert_eq!(verified.header().treatment, treatment, "{name}");
        assert_eq!(verified.into_plain(InflateLimits::default()), Ok(content), "{name}");
    }
}

#[test]
fn streamed_messages_of_others_are_opened() {
    for Case { name, keys, content, .. } in cases() {
        let message = bytes(&vector(&format!("{name}.hex")));
        for piece in [1, 7, 16, 1000] {
            let (header, verified) = open_streamed(&keys, &message, piece, &ACCEPTANCE);
            assert_eq!(header.map(|h| h.sender), Ok(keys.sender.party), "{name} by {piece}");
            let plain = if name.contains("gzip") || name.contains("zip") {
                inflate(&verified, InflateLimits::default()).expect(&name)
            } else {
                verified
            };
            assert_eq!(plain, content, "{name} by {piece}");
        }
    }
}

pub(super) fn open_streamed(
    keys: &Keys,
    message: &[u8],
    piece: usize,
    acceptance: &Acceptance<'_>,
) -> (Result<Header, Fault>, Vec<u8>) {
    let incoming = Incoming::read_header(message, acceptance).expect("a header");
    let (recipient, sender) = keys.certificates(incoming.header());
    let admitted = incoming.admit(recipient.as_ref(), sender.as_ref()).expect("certificates");
    let key = admitted.unwrap_job().and_then(|job| keys.unwrap(job));
    let mut out = Vec::new();
    let mut stream = admitted.stream(&Plain, key.as_deref(), &secret(1), acceptance.content_bytes_max);
    for bytes in message[HEADER_BYTES..].chunks(piece) {
        stream.feed(bytes, &mut out).expect("small");
    }
    let opened = stream.finish(&mut out);
    let right = keys.verify(opened.verify_job());
    (opened.verify(right), out)
}

/// What is packed here, by name: the same bytes in every run.
fn ours() -> Vec<(&'static str, Vec<u8>)> {
    let text = TextEncoding::Utf16Be.encode("<DOC>ç</DOC>").expect("text");
    let file: Vec<u8> = (0..3000_u32).flat_map(|n| (n % 97).to_be_bytes()).collect();
    let prefix = Profile { cipher: ContentCipher::Aes256Gcm(IvPlace::KeyPrefix), ..RSFN_V3 };
    let (ab, cd) = (keys("alice", "bruno"), keys("carla", "david"));
    let cases = [
        ("ours-v3-normal", RSFN_V3, &ab, Treatment::Normal, text.clone()),
        ("ours-v3-gzip", RSFN_V3, &ab, Treatment::CompressedFile, gzip(&file)),
        ("ours-v3-broadcast", RSFN_V3, &ab, Treatment::Broadcast, text.clone()),
        ("ours-v3-prefix-iv", prefix, &ab, Treatment::Normal, text.clone()),
        ("ours-v2-normal", RSFN_V2, &ab, Treatment::Normal, text.clone()),
        ("ours-v2-gzip", RSFN_V2, &ab, Treatment::CompressedFile, gzip(&file)),
        ("ours-v2-rsa-1024", EITHER[0], &cd, Treatment::File, text),
    ];
    let pack = |(name, profile, keys, treatment, content): (_, Profile, &Keys, Treatment, Vec<u8>)| {
        let sealed = pack(&Plain, keys, &profile, &keys.outgoing(treatment), &content, secret(9)).expect(name);
        (name, sealed.into_bytes())
    };
    cases.into_iter().map(pack).collect()
}

#[test]
fn what_is_packed_is_what_others_opened() {
    let path = |name: &str| format!("{}/../../../vectors/rsfn/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    for (name, message) in ours() {
        // TIELINE_VECTORS=write makes them again; interop/test_rsfn.py then says whether others open them.
        if std::env::var_os("TIELINE_VECTORS").is_some() {
            let lines =
                message.chunks(48).map(|line| line.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().concat());
            std::fs::write(path(name), lines.map(|line| line + "\n").collect::<Vec<_>>().concat()).expect(name);
        }
        assert!(message == bytes(&vector(&format!("{name}.hex"))), "{name} is packed otherwise than it was");
    }
}

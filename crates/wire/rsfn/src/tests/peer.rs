//! Protocol 3 in both directions with another implementation, `rsfn-file`.

use super::keys::*;
use crate::*;
use alloc::format;
use rsfn_file::compress::Compressors;
use rsfn_file::encode::Encoders;
use rsfn_file::{Decrypter, Encrypter};

fn pem(pair: &Pair, what: &str) -> alloc::string::String {
    vector(&format!("{}.{what}.pem", pair.name))
}

const TEXT: &str = "<?xml version=\"1.0\"?><DOC>ação €</DOC>";

#[test]
fn the_peers_messages_are_opened() {
    let keys = keys("alice", "bruno");
    let check = |compressor, encoder, crypt: bool, treatment: Option<Treatment>, expect: &[u8]| {
        let mut encrypter = Encrypter::new();
        encrypter.set_compressor(compressor);
        encrypter.set_encoder(encoder);
        encrypter.set_crypt(crypt);
        encrypter.set_special_treatment(treatment.map(|t| t.code().into()));
        let (from, key, to) = (pem(&keys.sender, "cert"), pem(&keys.sender, "key"), pem(&keys.recipient, "cert"));
        let mut text = TEXT.as_bytes();
        let packed = encrypter.encrypt(from.as_bytes(), key.as_bytes(), to.as_bytes(), &mut text).expect("packed");
        assert_eq!(packed.is_valid_cert(), Ok(()));
        let certificates = |header: &Header| keys.certificates(header);
        let opened = unpack(&Plain, &keys, &ACCEPTANCE, certificates, packed.data().clone(), &secret(1));
        let plain = opened.expect("opened").into_plain(InflateLimits::default());
        assert_eq!(plain.as_deref(), Ok(expect));
    };
    let utf16 = TextEncoding::Utf16Be.encode(TEXT).expect("text");
    check(Compressors::Plain, Encoders::Utf16be, true, Some(Treatment::Normal), &utf16);
    check(Compressors::Plain, Encoders::Plain, true, None, TEXT.as_bytes());
    check(Compressors::Gzip, Encoders::Utf16be, true, None, &utf16);
    check(Compressors::Zip, Encoders::Plain, true, None, TEXT.as_bytes());
    check(Compressors::Plain, Encoders::Plain, false, Some(Treatment::Broadcast), TEXT.as_bytes());
    check(Compressors::Gzip, Encoders::Plain, false, Some(Treatment::ClearCompressedFile), TEXT.as_bytes());
}

#[test]
fn the_peer_opens_our_messages() {
    let keys = keys("bruno", "alice");
    let utf16 = TextEncoding::Utf16Be.encode(TEXT).expect("text");
    for treatment in Treatment::ALL {
        let content = if treatment.is_compressed() { gzip(&utf16) } else { utf16.clone() };
        let outgoing = keys.outgoing(treatment);
        let sealed = pack(&Plain, &keys, &RSFN_V3, &outgoing, &content, secret(4)).expect("packed");
        let (from, to, key) = (pem(&keys.sender, "cert"), pem(&keys.recipient, "cert"), pem(&keys.recipient, "key"));
        let mut bytes = sealed.bytes();
        let opened = Decrypter::new().decrypt(from.as_bytes(), to.as_bytes(), key.as_bytes(), &mut bytes);
        let opened = opened.expect("opened");
        assert_eq!(opened.header().is_valid(), Ok(()), "{treatment:?}");
        assert_eq!((opened.is_valid_cert(), opened.is_valid_signature()), (Ok(()), Ok(())), "{treatment:?}");
        assert_eq!(opened.data(), TEXT.as_bytes(), "{treatment:?}");
    }
}

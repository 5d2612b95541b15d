use super::{BANK_PKCS8, KEYS, hex};
use crate::*;
use der::{DecodePem, Encode};
use proptest::prelude::*;
use x509_cert::request::CertReq;

const PKCS1: &str = include_str!("data/bank.pkcs1.pem");
const ENCRYPTED: &str = include_str!("data/bank.encrypted.pem");
const CERTIFICATE: &str = include_str!("data/bank.cert.pem");
const P12: &[u8] = include_bytes!("data/bank.p12");
const P12_LEGACY: &[u8] = include_bytes!("data/bank.legacy.p12");
const RSA_3072: &str = include_str!("data/rsa3072.pem");
const ABC_SIGNATURE: &str = include_str!("data/abc.signature.hex");
const PASSWORD: &str = "segredo";

#[test]
fn every_form_is_the_same_key() {
    let key = PrivateKey::from_pem(BANK_PKCS8, None).unwrap();
    let check = |other: &PrivateKey| {
        assert_eq!(other.public(), key.public());
        assert_eq!(other.sign(&sha256(b"abc")).unwrap().to_vec(), hex(ABC_SIGNATURE));
    };
    check(&key);
    check(&PrivateKey::from_pem(PKCS1, None).unwrap());
    check(&PrivateKey::from_pem(ENCRYPTED, Some(PASSWORD)).unwrap());
    check(&Identity::from_pkcs12(P12, PASSWORD).unwrap().key);
    check(&Identity::from_pkcs12(P12_LEGACY, PASSWORD).unwrap().key);
}

#[test]
fn a_certificate_says_whose_key_it_is() {
    let check = |certificate: &Certificate| {
        assert_eq!(certificate.serial, hex("a1b2c3d4e5f60718293a4b"));
        assert_eq!(certificate.subject, "CN=TIELINE TEST BANK T001,OU=CSPB-0,OU=ISPB-12345678,O=ICP-Brasil,C=BR");
        assert_eq!(certificate.issuer, certificate.subject);
        assert_eq!(certificate.not_after - certificate.not_before, 36_500 * 86_400);
        assert_eq!(&certificate.public_key, KEYS[0].public());
        assert!(certificate.public_key.verify(&sha256(b"abc"), &hex(ABC_SIGNATURE)));
    };
    check(&Certificate::from_pem(CERTIFICATE).unwrap());
    let identity = Identity::from_pkcs12(P12, PASSWORD).unwrap();
    check(identity.certificate.as_ref().unwrap());
    // The authority's key is an elliptic curve.
    assert_eq!(identity.others.len(), 1);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let pem = |pem, password| PrivateKey::from_pem(pem, password).unwrap_err();
    assert_eq!(pem(ENCRYPTED, None), KeyError::Password);
    assert_eq!(pem(ENCRYPTED, Some("outra")), KeyError::Password);
    assert_eq!(pem(RSA_3072, None), KeyError::Size(3072));
    assert!(matches!(pem(CERTIFICATE, None), KeyError::Malformed(_)));
    assert!(matches!(pem("", None), KeyError::Malformed(_)));
    assert!(matches!(Certificate::from_pem(BANK_PKCS8), Err(KeyError::Malformed(_))));
    assert_eq!(Identity::from_pkcs12(P12, "outra").unwrap_err(), KeyError::Password);
    assert_eq!(Identity::from_pkcs12(P12_LEGACY, "outra").unwrap_err(), KeyError::Password);
    assert!(matches!(Identity::from_pkcs12(b"", PASSWORD), Err(KeyError::Malformed(_))));
}

/// A key with a changed number would give its primes away with its first signature.
#[test]
fn numbers_that_do_not_belong_together_are_refused() {
    let (_, pkcs8) = PrivateKey::generate().unwrap();
    for at in (60..pkcs8.len()).step_by(37) {
        let mut changed = pkcs8.to_vec();
        changed[at] ^= 1;
        assert!(PrivateKey::from_pkcs8_der(&changed).is_err(), "byte {at}");
    }
    for length in 0..pkcs8.len() {
        assert!(PrivateKey::from_pkcs8_der(&pkcs8[..length]).is_err(), "length {length}");
    }
}

#[test]
fn a_new_key_survives_its_file() {
    let (key, pkcs8) = PrivateKey::generate().unwrap();
    let pem = encrypt_pkcs8(&pkcs8, PASSWORD).unwrap();
    assert_eq!(PrivateKey::from_pem(&pem, Some(PASSWORD)).unwrap().public(), key.public());
    assert_eq!(PublicKey::from_spki_der(key.public().spki_der()).unwrap(), *key.public());
}

#[test]
fn a_request_names_its_subject_and_is_signed() {
    let key = &KEYS[0];
    let subject = "CN=TIELINE TEST BANK T001,OU=CSPB-0,OU=ISPB-12345678,O=ICP-Brasil,C=BR";
    let pem = certificate_request(key, subject).unwrap();
    let request = CertReq::from_pem(pem).unwrap();
    assert_eq!(request.info.subject.to_string(), subject);
    assert_eq!(request.info.public_key.to_der().unwrap(), key.public().spki_der());
    let signed = sha256(&request.info.to_der().unwrap());
    assert!(key.public().verify(&signed, request.signature.raw_bytes()));
    assert!(matches!(certificate_request(key, "no name"), Err(KeyError::Malformed(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A container with one byte changed, cut, or none at all: refused or read, never a panic.
    #[test]
    fn hostile_bytes_are_refused(at in 0usize..3000, value: u8, length in 0usize..3000, noise in any::<[u8; 40]>()) {
        let certificate = Certificate::from_pem(CERTIFICATE).unwrap().der;
        let mut changed = certificate.clone();
        changed[at % certificate.len()] = value;
        for bytes in [&noise[..], &changed, &certificate[..length % certificate.len()]] {
            let _ = (Certificate::from_der(bytes), PublicKey::from_spki_der(bytes));
            let _ = (PrivateKey::from_pkcs8_der(bytes), PrivateKey::from_pkcs1_der(bytes));
            let _ = (Identity::from_pkcs12(bytes, PASSWORD), PrivateKey::from_encrypted_pkcs8_der(bytes, PASSWORD));
        }
    }
}

#[test]
fn nothing_prints_a_secret() {
    let identity = Identity::from_pkcs12(P12, PASSWORD).unwrap();
    let modulus = identity.key.public().modulus();
    let start = format!("PublicKey({:02x}{:02x}{:02x}{:02x}..)", modulus[0], modulus[1], modulus[2], modulus[3]);
    assert_eq!(format!("{:?}", identity.key), format!("PrivateKey of {start}"));
}

#[test]
fn signatures_and_encryption_one_at_a_time() {
    let (key, digest) = (&KEYS[1], sha256(b"content"));
    let public = key.public();
    let signature = key.sign(&digest).unwrap();
    assert!(public.verify(&digest, &signature));
    assert!(!public.verify(&sha256(b"other"), &signature));
    assert!(!public.verify(&digest, &signature[..255]));
    assert!(!KEYS[2].public().verify(&digest, &signature));
    assert!(!public.verify_pss(&digest, &signature));
    assert!(public.verify_pss(&digest, &key.sign_pss(&digest).unwrap()));
    assert_eq!(public.encrypt(&[0; 246]), Err(CryptoError::Length));
    assert_eq!(public.encrypt_oaep(&[0; 191]), Err(CryptoError::Length));
    assert!(public.encrypt(&[0; 245]).is_ok() && public.encrypt_oaep(&[0; 190]).is_ok());
}

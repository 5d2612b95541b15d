//! Ciphers, keys and certificates for tests: slow, plain, and repeatable.

use crate::*;
use aes::Aes256;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use cbc::cipher::{BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, KeyInit, KeyIvInit, StreamCipher};
use ghash::{GHash, universal_hash::UniversalHash};
use rsa::pkcs8::DecodePrivateKey;
use rsa::rand_core::{CryptoRng, RngCore};
use rsa::sha2::{Digest as _, Sha256};
use rsa::{Pkcs1v15Encrypt, Pkcs1v15Sign, RsaPrivateKey};

/// The trait over RustCrypto's ciphers.
pub(super) struct Plain;

impl Crypto for Plain {
    type Hasher = PlainHasher;
    type Gcm = PlainGcm;

    fn sha256(&self, bytes: &[u8]) -> Digest {
        Sha256::digest(bytes).into()
    }

    fn sha256_start(&self) -> PlainHasher {
        PlainHasher(Sha256::new())
    }

    fn aes256_gcm_seal(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8]) -> Tag {
        let mut gcm = PlainGcm::new(key, iv);
        gcm.encrypt(content);
        gcm.finish()
    }

    fn aes256_gcm_open(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool {
        let mut gcm = PlainGcm::new(key, iv);
        gcm.decrypt(content);
        gcm.finish() == *tag
    }

    fn aes256_gcm_start(&self, key: &[u8; 32], iv: &[u8; 12]) -> PlainGcm {
        PlainGcm::new(key, iv)
    }

    fn tdes_cbc_encrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]) {
        let mut cipher = cbc::Encryptor::<des::TdesEde3>::new(key.into(), iv.into());
        let (blocks, rest) = blocks.as_chunks_mut();
        blocks.iter_mut().for_each(|block: &mut [u8; 8]| cipher.encrypt_block(block.into()));
        assert!(rest.is_empty(), "whole blocks");
    }

    fn tdes_cbc_decrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]) {
        let mut cipher = cbc::Decryptor::<des::TdesEde3>::new(key.into(), iv.into());
        let (blocks, rest) = blocks.as_chunks_mut();
        blocks.iter_mut().for_each(|block: &mut [u8; 8]| cipher.decrypt_block(block.into()));
        assert!(rest.is_empty(), "whole blocks");
    }
}

pub(super) struct PlainHasher(Sha256);

impl Hasher for PlainHasher {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> Digest {
        self.0.finalize().into()
    }
}

/// AES-256-GCM of its parts (SP 800-38D, 7.1): a counter mode that starts at 2, and GHASH.
pub(super) struct PlainGcm {
    counter: ctr::Ctr32BE<Aes256>,
    hash: GHash,
    mask: Tag,
    /// Ciphertext that does not fill a block of GHASH yet.
    partial: Vec<u8>,
    bytes: u64,
}

impl PlainGcm {
    fn new(key: &[u8; 32], iv: &[u8; 12]) -> Self {
        let cipher = Aes256::new(key.into());
        let mut subkey = [0; 16];
        cipher.encrypt_block((&mut subkey).into());
        let mut first = [0; 16];
        first[..12].copy_from_slice(iv);
        first[15] = 1;
        let mut counter = ctr::Ctr32BE::<Aes256>::new(key.into(), (&first).into());
        let mut mask = [0; 16];
        counter.apply_keystream(&mut mask);
        Self { counter, hash: GHash::new((&subkey).into()), mask, partial: Vec::new(), bytes: 0 }
    }

    fn absorb(&mut self, ciphertext: &[u8]) {
        self.bytes += ciphertext.len() as u64;
        self.partial.extend_from_slice(ciphertext);
        let whole = self.partial.len() / 16 * 16;
        self.partial.drain(..whole).as_slice().chunks(16).for_each(|block| self.hash.update_padded(block));
    }
}

impl GcmStream for PlainGcm {
    fn encrypt(&mut self, bytes: &mut [u8]) {
        self.counter.apply_keystream(bytes);
        self.absorb(bytes);
    }

    fn decrypt(&mut self, bytes: &mut [u8]) {
        self.absorb(bytes);
        self.counter.apply_keystream(bytes);
    }

    fn finish(mut self) -> Tag {
        self.hash.update_padded(&self.partial);
        let mut lengths = [0; 16];
        lengths[8..].copy_from_slice(&(self.bytes * 8).to_be_bytes());
        self.hash.update_padded(&lengths);
        let sum: [u8; 16] = self.hash.finalize().into();
        core::array::from_fn(|i| sum[i] ^ self.mask[i])
    }
}

/// Random bytes that are the same in every run.
pub(super) struct Repeatable(pub(super) u64);

impl RngCore for Repeatable {
    fn next_u32(&mut self) -> u32 {
        rsa::rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rsa::rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            self.0 += 1;
            chunk.copy_from_slice(&Sha256::digest(self.0.to_be_bytes())[..chunk.len()]);
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for Repeatable {}

pub(super) fn secret(seed: u64) -> Secret {
    let mut bytes = [0; SECRET_BYTES];
    Repeatable(seed << 32).fill_bytes(&mut bytes);
    Secret::new(bytes)
}

pub(super) fn vector(name: &str) -> String {
    let path = format!("{}/../../../vectors/rsfn/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

/// One of the key pairs of vectors/rsfn.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) party: Party,
    key: RsaPrivateKey,
}

pub(super) fn pair(name: &str) -> Pair {
    let (algorithm, authority, serial) = match name {
        "alice" => (KeyAlgorithm::Rsa2048, 1, "207D42E885DC9FA9"),
        "bruno" => (KeyAlgorithm::Rsa2048, 2, "0ABC00000000000000000000DEAD0001"),
        "carla" => (KeyAlgorithm::Rsa1024, 4, "77"),
        "david" => (KeyAlgorithm::Rsa1024, 5, "78"),
        _ => panic!("no key pair {name}"),
    };
    let serial = Serial::from_text(serial).expect("a serial");
    let key = RsaPrivateKey::from_pkcs8_pem(&vector(&format!("{name}.key.pem"))).expect("a key");
    Pair { name: name.to_owned(), party: Party { algorithm, authority: Authority(authority), serial }, key }
}

pub(super) fn certificate(party: Party) -> Certificate {
    Certificate { party, standing: Standing::Active }
}

/// RSA with a sender's and a recipient's key, PKCS#1 v1.5.
pub(super) struct Keys {
    pub(super) sender: Pair,
    pub(super) recipient: Pair,
}

pub(super) fn keys(sender: &str, recipient: &str) -> Keys {
    Keys { sender: pair(sender), recipient: pair(recipient) }
}

impl Keys {
    pub(super) fn outgoing(&self, treatment: Treatment) -> Outgoing {
        let (sender, recipient) = (self.sender.party, self.recipient.party);
        Outgoing { treatment, error: ErrorCode::NONE, sender, recipient }
    }

    /// The certificates as a key store finds them: by serial.
    pub(super) fn certificates(&self, header: &Header) -> (Option<Certificate>, Option<Certificate>) {
        let find = |pair: &Pair, named: Party| (pair.party.serial == named.serial).then(|| certificate(pair.party));
        (find(&self.recipient, header.recipient), find(&self.sender, header.sender))
    }
}

impl Rsa for Keys {
    fn sign(&self, job: SignJob) -> Option<Vec<u8>> {
        assert_eq!(job.padding, SignaturePadding::Pkcs1v15);
        self.sender.key.sign(Pkcs1v15Sign::new::<Sha256>(), &job.digest).ok()
    }

    fn wrap(&self, job: WrapJob<'_>) -> Option<Vec<u8>> {
        assert_eq!(job.padding, KeyPadding::Pkcs1v15);
        self.recipient.key.to_public_key().encrypt(&mut Repeatable(7), Pkcs1v15Encrypt, job.secret).ok()
    }

    fn unwrap(&self, job: UnwrapJob<'_>) -> Option<Vec<u8>> {
        assert_eq!(job.padding, KeyPadding::Pkcs1v15);
        self.recipient.key.decrypt(Pkcs1v15Encrypt, job.block).ok()
    }

    fn verify(&self, job: VerifyJob<'_>) -> bool {
        let key = self.sender.key.to_public_key();
        key.verify(Pkcs1v15Sign::new::<Sha256>(), &job.digest, job.signature).is_ok()
    }
}

/// In place of RSA where only the stages are of interest: a block says how long what it holds is, and ends in zeros.
pub(super) struct Clearly;

impl Rsa for Clearly {
    fn sign(&self, job: SignJob) -> Option<Vec<u8>> {
        self.wrap(WrapJob { secret: &job.digest, padding: KeyPadding::Pkcs1v15 })
    }

    fn wrap(&self, job: WrapJob<'_>) -> Option<Vec<u8>> {
        let mut block = Vec::from([job.secret.len() as u8]);
        block.extend_from_slice(job.secret);
        block.resize(256, 0);
        Some(block)
    }

    fn unwrap(&self, job: UnwrapJob<'_>) -> Option<Vec<u8>> {
        let (&length, rest) = job.block.split_first()?;
        let (held, padding) = rest.split_at_checked(length.into())?;
        padding.iter().all(|&byte| byte == 0).then(|| held.to_owned())
    }

    fn verify(&self, job: VerifyJob<'_>) -> bool {
        self.unwrap(UnwrapJob { block: job.signature, padding: KeyPadding::Pkcs1v15, lengths: &[DIGEST_BYTES] })
            .as_deref()
            == Some(&job.digest)
    }
}

/// Both versions, and keys of any length.
pub(super) const EITHER: [Profile; 2] = [Profile { rsa_1024: true, ..RSFN_V2 }, Profile { rsa_1024: true, ..RSFN_V3 }];

pub(super) const ACCEPTANCE: Acceptance<'static> = Acceptance { profiles: &EITHER, content_bytes_max: 1 << 20 };

//! What the envelope asks of cryptography, answered by `tieline-crypto`.

use tieline_crypto as aws;
use tieline_rsfn::{Crypto, Digest, GcmStream, Hasher, SECRET_BYTES, Secret, Tag};

/// Hashes and content ciphers.
#[derive(Clone, Copy, Debug)]
pub struct Ciphers;

impl Crypto for Ciphers {
    type Hasher = Sha256;
    type Gcm = Gcm;

    fn sha256(&self, bytes: &[u8]) -> Digest {
        aws::sha256(bytes)
    }

    fn sha256_start(&self) -> Sha256 {
        Sha256(aws::Sha256::default())
    }

    fn aes256_gcm_seal(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8]) -> Tag {
        // The library refuses only what is longer than 64 GiB, which no caller holds in memory.
        aws::aes256_gcm_seal(key, iv, content).expect("content of less than 64 GiB")
    }

    fn aes256_gcm_open(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool {
        aws::aes256_gcm_open(key, iv, content, tag)
    }

    fn aes256_gcm_start(&self, key: &[u8; 32], iv: &[u8; 12]) -> Gcm {
        Gcm(aws::GcmStream::new(key, iv))
    }

    fn tdes_cbc_encrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]) {
        aws::tdes_cbc_encrypt(key, iv, blocks).expect("whole blocks, as the envelope promises");
    }

    fn tdes_cbc_decrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]) {
        aws::tdes_cbc_decrypt(key, iv, blocks).expect("whole blocks, as the envelope promises");
    }
}

/// A SHA-256 that grows.
pub struct Sha256(aws::Sha256);

impl Hasher for Sha256 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> Digest {
        self.0.finish()
    }
}

/// An AES-256-GCM that grows.
pub struct Gcm(aws::GcmStream);

impl GcmStream for Gcm {
    fn encrypt(&mut self, bytes: &mut [u8]) {
        self.0.encrypt(bytes);
    }

    fn decrypt(&mut self, bytes: &mut [u8]) {
        self.0.decrypt(bytes);
    }

    fn finish(self) -> Tag {
        self.0.finish()
    }
}

/// The random bytes of one message.
///
/// # Errors
/// The system gave no entropy.
pub fn draw_secret() -> Result<Secret, aws::CryptoError> {
    let mut bytes = zeroize::Zeroizing::new([0; SECRET_BYTES]);
    aws::fill_random(bytes.as_mut())?;
    Ok(Secret::new(*bytes))
}

/// The random bytes of so many messages, drawn at once: each draw costs more than its bytes.
///
/// # Errors
/// The system gave no entropy.
pub fn draw_secrets(messages: usize) -> Result<Vec<Secret>, aws::CryptoError> {
    let mut bytes = zeroize::Zeroizing::new(vec![[0; SECRET_BYTES]; messages]);
    aws::fill_random(bytes.as_flattened_mut())?;
    Ok(bytes.iter().map(|bytes| Secret::new(*bytes)).collect())
}

/// The padding of a signature, in the words of the library.
pub const fn signature_padding(padding: tieline_rsfn::SignaturePadding) -> aws::SignaturePadding {
    match padding {
        tieline_rsfn::SignaturePadding::Pkcs1v15 => aws::SignaturePadding::Pkcs1v15,
        tieline_rsfn::SignaturePadding::PssSha256 => aws::SignaturePadding::PssSha256,
    }
}

/// The padding of a content key, in the words of the library.
pub const fn key_padding(padding: tieline_rsfn::KeyPadding) -> aws::KeyPadding {
    match padding {
        tieline_rsfn::KeyPadding::Pkcs1v15 => aws::KeyPadding::Pkcs1v15,
        tieline_rsfn::KeyPadding::OaepSha256 => aws::KeyPadding::OaepSha256,
    }
}

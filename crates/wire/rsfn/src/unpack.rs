//! Unpacking: a message in, RSA jobs out, results in, verified content out.
//!
//! ```text
//! Incoming::read ──▶ admit (certificates) ──▶ unwrap_job ──▶ (RSA) ──▶ open ──▶ verify_job ──▶ (RSA) ──▶ verify
//! ```
//!
//! Every stage tells the lowest code of what it finds. From the private-key operation on, nothing stops early: with a
//! key that could not be extracted the content is decrypted with a decoy, hashed and its signature checked all the
//! same, and only [`Opened::verify`] tells what was wrong. How long a refusal takes, then, says nothing about the
//! padding of C14 (Bleichenbacher 1998). Which code is told to whom is the caller's to decide.
//!
//! Nothing authenticates the header, the recipient included: who sent what to whom is to be read from the content.

use crate::content_key::{ContentKey, key_lengths, padded_bytes};
use crate::header::BLOCK_BYTES;
use crate::{
    ContentCipher, Crypto, Digest, Fault, HEADER_BYTES, Header, HeaderView, InflateError, InflateLimits, Party,
    Profile, Refused, Secret, TAG_BYTES, TooLarge, Treatment, UnwrapJob, VerifyJob, inflate,
};
use alloc::vec::Vec;

/// Bytes of content that AES-GCM can protect with one key and vector: 2³⁶ − 32 (SP 800-38D, 5.2.1.1). No message,
/// piece by piece or whole, has more; nor more than the tag beside them.
pub const CONTENT_BYTES_MAX: u64 = (1 << 36) - 32;

/// What is taken from others.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance<'a> {
    /// The profiles of the versions that are taken, one each.
    pub profiles: &'a [Profile],
    /// Bytes behind the header at most.
    pub content_bytes_max: u64,
}

/// A certificate as far as an envelope depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// What the header must say of it.
    pub party: Party,
    /// Whether it may be used.
    pub standing: Standing,
}

/// Whether a certificate may be used, at this time and by this sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Active,
    /// It was imported and not activated: only the sender's, in a message with [`Treatment::Security`].
    Pending,
    /// It has expired, was revoked or was removed.
    Over,
    /// It belongs to another participant than the one that the message came from.
    Foreign,
    /// It is not the one to use here.
    Invalid,
}

/// A message whose header is legal.
#[derive(Clone, Debug)]
pub struct Incoming {
    header: Header,
    profile: Profile,
    wrapped_key: [u8; BLOCK_BYTES],
    signature: [u8; BLOCK_BYTES],
}

impl Incoming {
    /// Judges a whole message as far as it goes without certificates.
    ///
    /// # Errors
    /// It is too large, or the lowest code of what is wrong with header and length.
    pub fn read(message: &[u8], acceptance: &Acceptance<'_>) -> Result<Self, Refused> {
        let limit = acceptance.content_bytes_max;
        let content = content_bytes(message);
        if content > limit {
            return Err(TooLarge { limit }.into());
        }
        let incoming = Self::read_header(message, acceptance)?;
        incoming.length_fault(content).map_or(Ok(incoming), |fault| Err(fault.into()))
    }

    /// Judges the first 588 bytes of a message whose content comes as a stream.
    ///
    /// # Errors
    /// The lowest code of what is wrong with the header.
    pub fn read_header(message: &[u8], acceptance: &Acceptance<'_>) -> Result<Self, Fault> {
        let view = HeaderView::parse(message).map_err(|_| Fault::HeaderLength)?;
        if usize::from(view.length) != HEADER_BYTES {
            return Err(Fault::HeaderLength);
        }
        let profile = acceptance.profiles.iter().find(|profile| profile.version as u8 == view.version);
        let profile = profile.ok_or(Fault::Version)?;
        let header = Header::parse(&view, profile)?;
        let block = |block: &[u8]| block.try_into().map_err(|_| Fault::HeaderLength);
        let (wrapped_key, signature) = (block(view.wrapped_key)?, block(view.signature)?);
        Ok(Self { header, profile: *profile, wrapped_key, signature })
    }

    /// The header: by its serials the caller finds the certificates and the private key.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Compares the header with the certificates that the caller found for it. Clear content needs no recipient.
    ///
    /// # Errors
    /// The lowest code of what does not fit.
    pub fn admit(self, recipient: Option<&Certificate>, sender: Option<&Certificate>) -> Result<Admitted, Fault> {
        let Header { treatment, recipient: to, sender: from, .. } = self.header;
        let to = treatment.is_encrypted().then_some(to);
        let differs = |by: fn(&Party, &Party) -> bool, named: Option<Party>, found: Option<&Certificate>| {
            named.zip(found).is_some_and(|(named, found)| by(&named, &found.party))
        };
        let algorithm: fn(&Party, &Party) -> bool = |named, found| named.algorithm != found.algorithm;
        let authority: fn(&Party, &Party) -> bool = |named, found| named.authority != found.authority;
        let serial: fn(&Party, &Party) -> bool = |named, found| named.serial != found.serial;
        let matched = self.profile.match_authorities;
        let found = [
            (differs(algorithm, to, recipient), Fault::RecipientKeyAlgorithm),
            (differs(algorithm, Some(from), sender), Fault::SenderKeyAlgorithm),
            (matched && differs(authority, to, recipient), Fault::RecipientAuthority),
            (to.is_some() && recipient.is_none() || differs(serial, to, recipient), Fault::RecipientSerial),
            (matched && differs(authority, Some(from), sender), Fault::SenderAuthority),
            (sender.is_none() || differs(serial, Some(from), sender), Fault::SenderSerial),
        ];
        let by_field = found.into_iter().find_map(|(is, fault)| is.then_some(fault));
        let ours = to.and(recipient).and_then(|certificate| certificate.standing.fault(false));
        let theirs = sender.and_then(|c| c.standing.fault(treatment == Treatment::Security));
        let fault = [by_field, ours, theirs].into_iter().flatten().min();
        fault.map_or(Ok(Admitted(self)), Err)
    }

    /// What is wrong with a length of content.
    fn length_fault(&self, bytes: u64) -> Option<Fault> {
        if !self.header.treatment.is_encrypted() {
            return None;
        }
        match self.profile.cipher {
            ContentCipher::TripleDesCbc => (!bytes.is_multiple_of(8)).then_some(Fault::ContentLength),
            ContentCipher::Aes256Gcm(_) => (bytes < 16).then_some(Fault::ContentCipher),
        }
    }
}

impl Standing {
    fn fault(self, pending_is_accepted: bool) -> Option<Fault> {
        match self {
            Self::Active => None,
            Self::Pending => (!pending_is_accepted).then_some(Fault::CertificateInactive),
            Self::Over => Some(Fault::CertificateOver),
            Self::Foreign => Some(Fault::NotTheSender),
            Self::Invalid => Some(Fault::CertificateInvalid),
        }
    }
}

/// A message whose header fits the certificates.
#[derive(Clone, Debug)]
pub struct Admitted(Incoming);

impl Admitted {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.0.header
    }

    /// The profile that it was read with.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.0.profile
    }

    /// What to do with the recipient's private key; nothing when the content is clear.
    #[must_use]
    pub fn unwrap_job(&self) -> Option<UnwrapJob<'_>> {
        let Incoming { header, profile, wrapped_key, .. } = &self.0;
        let block = wrapped_key.get(..header.recipient.algorithm.block_bytes()).unwrap_or_default();
        let lengths = key_lengths(profile.cipher);
        header.treatment.is_encrypted().then_some(UnwrapJob { block, padding: profile.key_padding, lengths })
    }

    /// What the sender signed with, C15: to be raised ahead of [`Admitted::open`], which does not depend on it.
    #[must_use]
    pub fn signature(&self) -> &[u8] {
        let Incoming { header, signature, .. } = &self.0;
        signature.get(..header.sender.algorithm.block_bytes()).unwrap_or_default()
    }

    /// Decrypts and hashes. `message` is the whole message that was read; `key` is the result of the job, none when
    /// it failed; `decoy` takes its place then: random bytes that nobody else knows. One may serve many messages.
    #[must_use]
    pub fn open<C: Crypto>(self, crypto: &C, mut message: Vec<u8>, key: Option<&[u8]>, decoy: &Secret) -> Opened {
        let (content_key, mut fault) = self.content_key(key, decoy);
        let length_fault = self.0.length_fault(content_bytes(&message));
        if length_fault.is_none() {
            let decrypted = content_key.is_none_or(|key| decrypt(crypto, &key, &mut message));
            fault = fault.or((!decrypted).then_some(Fault::ContentCipher));
        }
        let digest = crypto.sha256(message.get(HEADER_BYTES..).unwrap_or_default());
        Opened { signed: OpenedStream { admitted: self, digest, fault: length_fault.or(fault) }, message }
    }

    /// The key to open with; none for clear content.
    pub(crate) fn content_key(&self, key: Option<&[u8]>, decoy: &Secret) -> (Option<ContentKey>, Option<Fault>) {
        let cipher = self.0.profile.cipher;
        if !self.0.header.treatment.is_encrypted() {
            return (None, None);
        }
        match key.and_then(|bytes| ContentKey::read(cipher, bytes)) {
            Some(key) => (Some(key), None),
            None => (ContentKey::read(cipher, decoy.wrapped(cipher)), Some(Fault::KeyExtraction)),
        }
    }

    /// Whether zeros at the end of the content are padding.
    pub(crate) fn trims(&self) -> bool {
        let Incoming { header, profile, .. } = &self.0;
        profile.trim_padding && profile.cipher == ContentCipher::TripleDesCbc && !header.treatment.is_compressed()
    }

    pub(crate) fn length_fault(&self, bytes: u64) -> Option<Fault> {
        self.0.length_fault(bytes)
    }
}

fn content_bytes(message: &[u8]) -> u64 {
    u64::try_from(message.len().saturating_sub(HEADER_BYTES)).unwrap_or(u64::MAX)
}

/// Decrypts what follows the header and cuts the tag off; whether the tag matched.
fn decrypt<C: Crypto>(crypto: &C, key: &ContentKey, message: &mut Vec<u8>) -> bool {
    match key {
        ContentKey::TripleDes { key, iv } => {
            crypto.tdes_cbc_decrypt(key, iv, message.get_mut(HEADER_BYTES..).unwrap_or_default());
            true
        }
        ContentKey::Aes { key, iv } => {
            let Some(tag) = message.last_chunk().copied() else { return false };
            message.truncate(message.len() - TAG_BYTES);
            crypto.aes256_gcm_open(key, iv, message.get_mut(HEADER_BYTES..).unwrap_or_default(), &tag)
        }
    }
}

/// A message that was decrypted and whose signature was not checked yet.
#[derive(Debug)]
pub struct Opened {
    signed: OpenedStream,
    message: Vec<u8>,
}

impl Opened {
    /// What to do with the sender's public key. It is done even when the message is already known to be wrong.
    #[must_use]
    pub fn verify_job(&self) -> VerifyJob<'_> {
        self.signed.verify_job()
    }

    /// The content, if every step succeeded; `signature_is_right` is the result of the job.
    ///
    /// # Errors
    /// What failed first: 0D, 0E, 0F or 0B.
    pub fn verify(self, signature_is_right: bool) -> Result<Verified, Fault> {
        let trims = self.signed.admitted.trims();
        let header = self.signed.verify(signature_is_right)?;
        let mut message = self.message;
        if trims {
            let padded = padded_bytes(message.get(HEADER_BYTES..).unwrap_or_default());
            message.truncate(message.len() - padded);
        }
        Ok(Verified { header, message })
    }
}

/// A message whose content was given out as a stream, and is to be thrown away unless `verify` succeeds.
#[derive(Debug)]
pub struct OpenedStream {
    pub(crate) admitted: Admitted,
    pub(crate) digest: Digest,
    pub(crate) fault: Option<Fault>,
}

impl OpenedStream {
    /// What to do with the sender's public key. It is done even when the message is already known to be wrong.
    #[must_use]
    pub fn verify_job(&self) -> VerifyJob<'_> {
        let (signature, padding) = (self.admitted.signature(), self.admitted.profile().signature_padding);
        VerifyJob { digest: self.digest, signature, padding }
    }

    /// The header, if every step succeeded: the content that was given out is what the sender signed.
    ///
    /// # Errors
    /// What failed first: 0D, 0E, 0F or 0B.
    pub fn verify(self, signature_is_right: bool) -> Result<Header, Fault> {
        let fault = self.fault.or((!signature_is_right).then_some(Fault::Signature));
        fault.map_or(Ok(self.admitted.0.header), Err)
    }
}

/// Content that its sender signed. Only [`Opened::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    header: Header,
    message: Vec<u8>,
}

impl Verified {
    /// The header. Of it, only the sender's key is authentic.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The content as it was signed; of protocol 2 without padding where the profile says so.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        self.message.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The content as it was signed.
    #[must_use]
    pub fn into_content(self) -> Vec<u8> {
        let mut message = self.message;
        message.drain(..HEADER_BYTES.min(message.len()));
        message
    }

    /// The content, decompressed when the treatment says that it is compressed.
    ///
    /// # Errors
    /// It is not compressed as it should be, or a limit was met.
    pub fn into_plain(self, limits: InflateLimits) -> Result<Vec<u8>, InflateError> {
        if self.header.treatment.is_compressed() { inflate(self.content(), limits) } else { Ok(self.into_content()) }
    }
}

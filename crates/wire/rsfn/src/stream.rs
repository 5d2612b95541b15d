//! Content that is larger than memory: packed and unpacked piece by piece.
//!
//! Packing: the encrypted content comes out first, the header at the end, because it holds the signature. The writer
//! leaves 588 bytes free and fills them in last.
//!
//! Unpacking: the content comes out before its signature is known to be right. The reader writes it where nobody else
//! reads, and gives it its name only when [`OpenedStream::verify`] succeeded.
//!
//! Memory is that of one piece and at most 16 bytes.

use crate::content_key::{BLOCK, ContentKey, padded_bytes, padding};
use crate::{
    Admitted, CONTENT_BYTES_MAX, Crypto, Fault, GcmStream, Hasher, Header, OpenedStream, Outgoing, PackError,
    PackingHeader, Profile, Secret, TAG_BYTES, Tag, TooLarge, is_compressed,
};
use alloc::vec::Vec;
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes by which compressed content is known.
const MAGIC_BYTES: usize = 4;

/// A message that is packed piece by piece.
pub struct PackingStream<'a, C: Crypto> {
    crypto: &'a C,
    header: Header,
    profile: Profile,
    secret: Secret,
    flow: Flow<C::Gcm>,
    hasher: C::Hasher,
    /// Content that does not fill a block of triple DES yet.
    held: Vec<u8>,
    /// The first bytes of the content, at most [`MAGIC_BYTES`]: whether it is compressed.
    magic: Vec<u8>,
    bytes: u64,
}

impl<'a, C: Crypto> PackingStream<'a, C> {
    /// Begins a message. The content is given as it is to be signed: text encoded, files compressed.
    ///
    /// # Errors
    /// `outgoing` is not what the profile can say.
    pub fn new(crypto: &'a C, profile: &Profile, outgoing: &Outgoing, secret: Secret) -> Result<Self, PackError> {
        let header = outgoing.header(profile)?;
        let secret = secret.for_cipher(profile.cipher);
        let key = ContentKey::read(profile.cipher, secret.wrapped(profile.cipher));
        let flow = Flow::new(crypto, key.filter(|_| header.treatment.is_encrypted()).as_ref());
        let hasher = crypto.sha256_start();
        let (held, magic) = (Vec::new(), Vec::new());
        Ok(Self { crypto, header, profile: *profile, secret, flow, hasher, held, magic, bytes: 0 })
    }

    /// Takes the next bytes of content and appends to `out` what goes behind the header.
    ///
    /// # Errors
    /// The content has more than [`CONTENT_BYTES_MAX`] bytes; none of `content` was taken.
    pub fn feed(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), TooLarge> {
        self.bytes = counted(self.bytes, content, CONTENT_BYTES_MAX)?;
        self.magic.extend(content.iter().take(MAGIC_BYTES.saturating_sub(self.magic.len())));
        self.encrypt(content, out);
        Ok(())
    }

    /// Appends the end of the content to `out`. The header is the result, once RSA has been done.
    ///
    /// # Errors
    /// The content is not compressed although the treatment says so.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<PackingHeader, PackError> {
        if self.header.treatment.is_compressed() && !is_compressed(&self.magic) {
            return Err(PackError::NotCompressed);
        }
        if self.profile.cipher.is_padded() {
            self.encrypt(padding(self.held.len()), out);
        }
        let Self { header, profile, secret, flow, hasher, .. } = self;
        if let Flow::Gcm(gcm) = flow {
            out.extend_from_slice(&gcm.finish());
        }
        Ok(PackingHeader { header, profile, secret, digest: hasher.finish() })
    }

    fn encrypt(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.append(&mut self.held);
        out.extend_from_slice(content);
        let held = if self.profile.cipher.is_padded() { (out.len() - start) % BLOCK } else { 0 };
        self.held = out.split_off(out.len() - held);
        let piece = out.get_mut(start..).unwrap_or_default();
        self.hasher.update(piece);
        match &mut self.flow {
            Flow::Clear => {}
            Flow::TripleDes(chain) => chain.encrypt(self.crypto, piece),
            Flow::Gcm(gcm) => gcm.encrypt(piece),
        }
    }
}

impl<C: Crypto> fmt::Debug for PackingStream<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackingStream").field("header", &self.header).field("bytes", &self.bytes).finish()
    }
}

/// A message that is unpacked piece by piece.
pub struct UnpackingStream<'a, C: Crypto> {
    crypto: &'a C,
    admitted: Admitted,
    flow: Flow<C::Gcm>,
    hasher: C::Hasher,
    /// The last bytes: a tag, or a block that may hold padding.
    held: Vec<u8>,
    bytes: u64,
    content_bytes_max: u64,
    fault: Option<Fault>,
}

impl Admitted {
    /// Begins to decrypt content that comes piece by piece, [`Admitted::open`] otherwise. `key` is the result of the
    /// job, none when it failed; `decoy` takes its place then.
    #[must_use]
    pub fn stream<'a, C: Crypto>(
        self,
        crypto: &'a C,
        key: Option<&[u8]>,
        decoy: &Secret,
        content_bytes_max: u64,
    ) -> UnpackingStream<'a, C> {
        let (content_key, fault) = self.content_key(key, decoy);
        let flow = Flow::new(crypto, content_key.as_ref());
        let hasher = crypto.sha256_start();
        let content_bytes_max = content_bytes_max.min(CONTENT_BYTES_MAX);
        UnpackingStream { crypto, admitted: self, flow, hasher, held: Vec::new(), bytes: 0, content_bytes_max, fault }
    }
}

impl<C: Crypto> UnpackingStream<'_, C> {
    /// Takes the next bytes behind the header and appends to `out` the content that they hold, not verified.
    ///
    /// # Errors
    /// More bytes came than are taken; none of `bytes` was.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TooLarge> {
        self.bytes = counted(self.bytes, bytes, self.content_bytes_max)?;
        let start = out.len();
        out.append(&mut self.held);
        out.extend_from_slice(bytes);
        let held = self.bytes_to_hold(out.len() - start);
        self.held = out.split_off(out.len() - held);
        self.decrypt(out.get_mut(start..).unwrap_or_default());
        Ok(())
    }

    /// Appends the end of the content to `out`.
    #[must_use]
    pub fn finish(mut self, out: &mut Vec<u8>) -> OpenedStream {
        let length_fault = self.admitted.length_fault(self.bytes);
        let mut held = core::mem::take(&mut self.held);
        let is_tag = matches!(self.flow, Flow::Gcm(_));
        if !is_tag && length_fault.is_none() {
            self.decrypt(&mut held);
            let padded = if self.admitted.trims() { padded_bytes(&held) } else { 0 };
            out.extend(held.iter().take(held.len() - padded));
        }
        let Self { admitted, flow, hasher, fault, .. } = self;
        let cipher_fault = match flow {
            Flow::Gcm(gcm) => (!same(&gcm.finish(), &held)).then_some(Fault::ContentCipher),
            Flow::Clear | Flow::TripleDes(_) => None,
        };
        OpenedStream { admitted, digest: hasher.finish(), fault: length_fault.or(fault).or(cipher_fault) }
    }

    fn decrypt(&mut self, piece: &mut [u8]) {
        match &mut self.flow {
            Flow::Clear => {}
            Flow::TripleDes(chain) => chain.decrypt(self.crypto, piece),
            Flow::Gcm(gcm) => gcm.decrypt(piece),
        }
        self.hasher.update(piece);
    }

    /// How many of `bytes` that wait may be the tag or the last block.
    fn bytes_to_hold(&self, bytes: usize) -> usize {
        match self.flow {
            Flow::Gcm(_) => bytes.min(TAG_BYTES),
            Flow::Clear if !self.admitted.trims() => 0,
            Flow::Clear | Flow::TripleDes(_) => bytes.checked_sub(1).map_or(0, |before| before % BLOCK + 1),
        }
    }
}

impl<C: Crypto> fmt::Debug for UnpackingStream<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackingStream").field("header", self.admitted.header()).field("bytes", &self.bytes).finish()
    }
}

/// The cipher between two pieces.
enum Flow<G> {
    Clear,
    TripleDes(Chain),
    Gcm(G),
}

impl<G: GcmStream> Flow<G> {
    fn new<C: Crypto<Gcm = G>>(crypto: &C, key: Option<&ContentKey>) -> Self {
        match key {
            None => Self::Clear,
            Some(ContentKey::TripleDes { key, iv }) => Self::TripleDes(Chain { key: *key, iv: *iv }),
            Some(ContentKey::Aes { key, iv }) => Self::Gcm(crypto.aes256_gcm_start(key, iv)),
        }
    }
}

/// Triple DES in CBC mode between two pieces: the last block of ciphertext is the vector of the next piece.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Chain {
    key: [u8; 24],
    iv: [u8; BLOCK],
}

impl Chain {
    fn encrypt(&mut self, crypto: &impl Crypto, blocks: &mut [u8]) {
        crypto.tdes_cbc_encrypt(&self.key, &self.iv, blocks);
        self.iv = blocks.last_chunk().copied().unwrap_or(self.iv);
    }

    fn decrypt(&mut self, crypto: &impl Crypto, blocks: &mut [u8]) {
        let next = blocks.last_chunk().copied().unwrap_or(self.iv);
        crypto.tdes_cbc_decrypt(&self.key, &self.iv, blocks);
        self.iv = next;
    }
}

fn counted(before: u64, bytes: &[u8], limit: u64) -> Result<u64, TooLarge> {
    let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    before.checked_add(more).filter(|&sum| sum <= limit).ok_or(TooLarge { limit })
}

/// Compares in a time that does not depend on where the two differ.
fn same(tag: &Tag, received: &[u8]) -> bool {
    let differences = tag.iter().zip(received).fold(0, |sum, (a, b)| sum | (a ^ b));
    received.len() == TAG_BYTES && core::hint::black_box(differences) == 0
}

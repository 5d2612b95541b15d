//! Every assumption about the format, in one place.
//!
//! The header table and the order of operations of the manual (*Manual de Segurança do SFN*, chapter 5) were not at
//! hand. What is here was put together from open implementations of the protocol and from the programming interfaces
//! of products, and was checked against an independent implementation, not against real traffic. Each item has a mark:
//!
//! - **A**: several independent sources agree, or their code was run against ours;
//! - **B**: one good source and supporting evidence;
//! - **C**: an inference.
//!
//! | item | value | mark |
//! |---|---|---|
//! | layout of the header, 588 bytes; C09 = 3 (SHA-256) | `header.rs` | A |
//! | protocol 2: C07 = 1, triple DES in CBC mode, initialization vector = first 8 bytes of the key | [`RSFN_V2`] | A |
//! | protocol 2: content is filled with zeros to a multiple of 8 before it is signed | [`RSFN_V2`] | A |
//! | protocol 2: clear content is filled too; when read, it may have any length | `stream.rs`, `unpack.rs` | C |
//! | protocol 2: filled zeros are taken away by the receiver | [`Profile::trim_padding`] | B |
//! | protocol 3: C07 = 2, AES-256-GCM, tag of 16 bytes behind the content, no additional data | [`RSFN_V3`] | A |
//! | protocol 3: vector of 12 bytes travels in C14 behind the key | [`IvPlace::BehindKey`] | B |
//! | RSA padding of key and signature is PKCS#1 v1.5 in both | [`KeyPadding`], [`SignaturePadding`] | A in 2, B in 3 |
//! | the signature covers the content as it is before encryption and after compression | `pack.rs` | A |
//! | clear content is signed, C14 is zero | `pack.rs` | B |
//! | clear content has C07 of its version; a receiver takes 0 too | `header.rs` | B |
//! | blocks of RSA-1024 stand on the left | `header.rs` | A in 2 |
//! | authorities 1 to 7 | [`AuthoritySet::KNOWN`] | A |
//! | C05 is written as 0 and ignored when read | `header.rs` | C |
//! | a key in C14 beside clear content is refused with code 13 | `header.rs` | C |
//! | version 0 ("empty header") is refused with code 02 | `header.rs` | B |
//! | of several faults of one stage the lowest code is told | `unpack.rs` | B |
//! | compressed content that cannot be read is told with code 13; a limit of the receiver with FF | `compression` | C |
//! | gzip is written; gzip and zip are read, told apart by their first bytes | `compression` | B |

use crate::{Authority, KeyAlgorithm, Version};

/// How one version of the protocol is written and read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version (C02).
    pub version: Version,
    /// The content's cipher.
    pub cipher: ContentCipher,
    /// The padding of C14.
    pub key_padding: KeyPadding,
    /// The padding of C15.
    pub signature_padding: SignaturePadding,
    /// Whether keys of 1024 bits are accepted. They have not been safe since about 2010.
    pub rsa_1024: bool,
    /// The authorities that C10 and C12 may name.
    pub authorities: AuthoritySet,
    /// Whether C10 and C12 must be those of the certificates. Some senders do not fill them in rightly.
    pub match_authorities: bool,
    /// In protocol 2, whether up to 7 zeros at the end are taken for padding and removed from uncompressed content.
    /// The padding is ambiguous: content that itself ends in zeros loses them.
    pub trim_padding: bool,
}

/// Protocol 2: triple DES, until 2021 the only one.
pub const RSFN_V2: Profile = Profile {
    version: Version::V2,
    cipher: ContentCipher::TripleDesCbc,
    key_padding: KeyPadding::Pkcs1v15,
    signature_padding: SignaturePadding::Pkcs1v15,
    rsa_1024: false,
    authorities: AuthoritySet::KNOWN,
    match_authorities: true,
    trim_padding: true,
};

/// Protocol 3: AES-256-GCM, of the manual 5.00 of June 2021 and later.
pub const RSFN_V3: Profile = Profile {
    version: Version::V3,
    cipher: ContentCipher::Aes256Gcm(IvPlace::BehindKey),
    trim_padding: false,
    ..RSFN_V2
};

impl Profile {
    /// Whether keys of an algorithm are accepted.
    #[must_use]
    pub const fn accepts_key(&self, algorithm: KeyAlgorithm) -> bool {
        match algorithm {
            KeyAlgorithm::Rsa1024 => self.rsa_1024,
            KeyAlgorithm::Rsa2048 => true,
        }
    }
}

/// The cipher of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCipher {
    /// Triple DES with three keys in CBC mode; the initialization vector is the first 8 bytes of the key.
    TripleDesCbc,
    /// AES-256-GCM without additional data, the tag behind the content.
    Aes256Gcm(IvPlace),
}

impl ContentCipher {
    /// The value of C07.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::TripleDesCbc => 0x01,
            Self::Aes256Gcm(_) => 0x02,
        }
    }

    /// Whether content is filled with zeros to whole blocks before it is signed, clear content too.
    pub(crate) const fn is_padded(self) -> bool {
        match self {
            Self::TripleDesCbc => true,
            Self::Aes256Gcm(_) => false,
        }
    }
}

/// Where the initialization vector of AES-256-GCM comes from when a message is packed. A receiver tells the two apart
/// by the length of what C14 holds, 44 or 32 bytes, and opens both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvPlace {
    /// 12 random bytes behind the key in C14.
    BehindKey,
    /// The first 12 bytes of the key, as in protocol 2.
    KeyPrefix,
}

/// How the content's key is padded before it is encrypted to the recipient (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPadding {
    /// RSAES-PKCS1-v1_5 (RFC 8017, 7.2).
    Pkcs1v15,
    /// RSAES-OAEP with SHA-256 and MGF1 with SHA-256 (RFC 8017, 7.1).
    OaepSha256,
}

/// How the digest is padded before it is signed (C15). The hash is SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePadding {
    /// RSASSA-PKCS1-v1_5 (RFC 8017, 8.2).
    Pkcs1v15,
    /// RSASSA-PSS with MGF1 with SHA-256 and a salt of 32 bytes (RFC 8017, 8.1).
    PssSha256,
}

/// A set of authorities: those of codes 0 to 63 that are named, or all 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthoritySet {
    /// Any byte.
    Any,
    /// Bit n stands for authority n.
    Listed(u64),
}

impl AuthoritySet {
    /// The authorities 1 to 7.
    pub const KNOWN: Self = Self::Listed(0b1111_1110);

    /// Whether `authority` is in the set.
    #[must_use]
    pub const fn contains(self, authority: Authority) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(bits) => authority.0 < 64 && bits >> authority.0 & 1 == 1,
        }
    }
}

//! The security error codes of field C03, and what may go wrong besides.

use core::fmt;

/// What is wrong with a received message, as the protocol names it. Ordered by code: of several faults found
/// together, the lowest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// 01: the header's length (C01) is not 588, or the message is shorter.
    HeaderLength = 0x01,
    /// 02: the version (C02) is unknown, not accepted here, or does not fit the length.
    Version = 0x02,
    /// 03: the algorithm of the recipient's key (C06) is unknown or not that of the certificate.
    RecipientKeyAlgorithm = 0x03,
    /// 04: the content's cipher (C07) is unknown or not that of the version.
    ContentAlgorithm = 0x04,
    /// 05: the algorithm of the sender's key (C08) is unknown or not that of the certificate.
    SenderKeyAlgorithm = 0x05,
    /// 06: the hash (C09) is unknown or not accepted.
    HashAlgorithm = 0x06,
    /// 07: the authority of the recipient's certificate (C10) is unknown or not that of the certificate.
    RecipientAuthority = 0x07,
    /// 08: the serial of the recipient's certificate (C11) is no serial, or none of ours.
    RecipientSerial = 0x08,
    /// 09: the authority of the sender's certificate (C12) is unknown or not that of the certificate.
    SenderAuthority = 0x09,
    /// 0A: the serial of the sender's certificate (C13) is no serial, or unknown.
    SenderSerial = 0x0a,
    /// 0B: the signature (C15) does not match.
    Signature = 0x0b,
    /// 0C: the certificate is not that of the participant whose queue or file it came by.
    NotTheSender = 0x0c,
    /// 0D: the content's key could not be extracted from C14.
    KeyExtraction = 0x0d,
    /// 0E: the content's cipher failed; in protocol 3, its tag does not match.
    ContentCipher = 0x0e,
    /// 0F: in protocol 2, the content's length is not a multiple of 8.
    ContentLength = 0x0f,
    /// 10: a certificate is not active yet.
    CertificateInactive = 0x10,
    /// 11: a certificate has expired, was revoked or was removed.
    CertificateOver = 0x11,
    /// 12: another error of the security layer.
    Other = 0x12,
    /// 13: the special treatment (C04) is unknown or does not fit the message.
    Treatment = 0x13,
    /// 14: the certificate is not the one to use here.
    CertificateInvalid = 0x14,
    /// FF: an error outside the scope of security.
    OutOfScope = 0xff,
}

impl Fault {
    /// Every fault, by code.
    pub const ALL: [Self; 21] = [
        Self::HeaderLength,
        Self::Version,
        Self::RecipientKeyAlgorithm,
        Self::ContentAlgorithm,
        Self::SenderKeyAlgorithm,
        Self::HashAlgorithm,
        Self::RecipientAuthority,
        Self::RecipientSerial,
        Self::SenderAuthority,
        Self::SenderSerial,
        Self::Signature,
        Self::NotTheSender,
        Self::KeyExtraction,
        Self::ContentCipher,
        Self::ContentLength,
        Self::CertificateInactive,
        Self::CertificateOver,
        Self::Other,
        Self::Treatment,
        Self::CertificateInvalid,
        Self::OutOfScope,
    ];

    /// The value of C03 that tells this fault to the sender.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        ErrorCode(self as u8)
    }

    /// The number of the message `EGENnnnn` of the same meaning: 9901 to 9920; none for FF.
    #[must_use]
    pub const fn egen(self) -> Option<u16> {
        match self {
            Self::OutOfScope => None,
            inside => Some(9900 + inside as u16),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::HeaderLength => "the header's length is not possible (C01)",
            Self::Version => "the version is not accepted or does not fit the length (C02)",
            Self::RecipientKeyAlgorithm => "the algorithm of the recipient's key is wrong (C06)",
            Self::ContentAlgorithm => "the content's cipher is wrong (C07)",
            Self::SenderKeyAlgorithm => "the algorithm of the sender's key is wrong (C08)",
            Self::HashAlgorithm => "the hash is wrong (C09)",
            Self::RecipientAuthority => "the authority of the recipient's certificate is wrong (C10)",
            Self::RecipientSerial => "the serial of the recipient's certificate is wrong (C11)",
            Self::SenderAuthority => "the authority of the sender's certificate is wrong (C12)",
            Self::SenderSerial => "the serial of the sender's certificate is wrong (C13)",
            Self::Signature => "the signature does not match (C15)",
            Self::NotTheSender => "the certificate is not that of the sender",
            Self::KeyExtraction => "the content's key could not be extracted (C14)",
            Self::ContentCipher => "the content could not be decrypted",
            Self::ContentLength => "the content's length is not a multiple of 8",
            Self::CertificateInactive => "the certificate is not active",
            Self::CertificateOver => "the certificate has expired, was revoked or was removed",
            Self::Other => "another error of the security layer",
            Self::Treatment => "the special treatment is wrong or does not fit (C04)",
            Self::CertificateInvalid => "the certificate is not the one to use here",
            Self::OutOfScope => "an error outside the scope of security",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, code {}", self.text(), self.code())
    }
}

impl core::error::Error for Fault {}

/// The byte C03 as it was received or is to be sent; every value is legal. Nothing authenticates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u8);

impl ErrorCode {
    /// 00: no error.
    pub const NONE: Self = Self(0);

    /// The fault that the code stands for; none for 00 and for codes that the protocol does not list.
    #[must_use]
    pub fn fault(self) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.code() == self)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02X}h", self.0)
    }
}

/// A message or its content has more bytes than is taken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes of content that are taken.
    pub limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than the {} bytes of content that are taken", self.limit)
    }
}

impl core::error::Error for TooLarge {}

/// Why a received message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The sender broke a rule of the protocol.
    Fault(Fault),
    /// It is larger than this side takes.
    TooLarge(TooLarge),
}

impl Refused {
    /// The value of C03 that tells it. A limit of ours is outside the scope of security: FF.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Fault(fault) => fault.code(),
            Self::TooLarge(_) => Fault::OutOfScope.code(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::TooLarge(large) => large.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<TooLarge> for Refused {
    fn from(large: TooLarge) -> Self {
        Self::TooLarge(large)
    }
}

//! The values of the header's one-byte fields.

use core::fmt;

/// The protocol's version (C02). Version 0 (clear, without security) and the first version are not spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// 02: triple DES.
    V2 = 0x02,
    /// 03: AES-256-GCM.
    V3 = 0x03,
}

/// What is special about a message (C04): whether its content is encrypted and whether it is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Treatment {
    /// 00: a message; encrypted.
    Normal = 0,
    /// 01: a message about security, or with a certificate that is not active yet (GEN0006); encrypted.
    Security = 1,
    /// 02: a message for everyone; not encrypted.
    Broadcast = 2,
    /// 03: a message that may be about security (GEN0004); not encrypted.
    ClearSecurity = 3,
    /// 04: a file; encrypted.
    File = 4,
    /// 06: a file for everyone; not encrypted.
    ClearFile = 6,
    /// 08: a compressed file; encrypted.
    CompressedFile = 8,
    /// 0A: a compressed file; not encrypted.
    ClearCompressedFile = 10,
}

impl Treatment {
    /// Every treatment, by code.
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::Security,
        Self::Broadcast,
        Self::ClearSecurity,
        Self::File,
        Self::ClearFile,
        Self::CompressedFile,
        Self::ClearCompressedFile,
    ];

    /// The treatment with a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.code() == code)
    }

    /// The value of C04.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether the content is encrypted. It is signed either way.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        match self {
            Self::Normal | Self::Security | Self::File | Self::CompressedFile => true,
            Self::Broadcast | Self::ClearSecurity | Self::ClearFile | Self::ClearCompressedFile => false,
        }
    }

    /// Whether the content was compressed before it was signed.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        match self {
            Self::CompressedFile | Self::ClearCompressedFile => true,
            Self::Normal | Self::Security | Self::Broadcast | Self::ClearSecurity | Self::File | Self::ClearFile => {
                false
            }
        }
    }
}

/// The algorithm of a key (C06, C08).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyAlgorithm {
    /// 01: RSA with a modulus of 1024 bits.
    Rsa1024 = 0x01,
    /// 02: RSA with a modulus of 2048 bits.
    Rsa2048 = 0x02,
}

impl KeyAlgorithm {
    /// The algorithm with a code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0x01 => Some(Self::Rsa1024),
            0x02 => Some(Self::Rsa2048),
            _ => None,
        }
    }

    /// Bytes of the modulus, and so of a block or a signature: 128 or 256.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Rsa1024 => 128,
            Self::Rsa2048 => 256,
        }
    }
}

/// The authority that issued a certificate (C10, C12). Every byte is legal; which ones are accepted, the profile says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority(pub u8);

impl Authority {
    /// The name of the authorities that are known.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            1 => Some("SPB-Serpro"),
            2 => Some("SPB-Certisign"),
            3 => Some("Pessoas Físicas"),
            4 => Some("SPB-Serasa"),
            5 => Some("SPB-CAIXA"),
            6 => Some("SPB-Valid"),
            7 => Some("SPB-Soluti"),
            _ => None,
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Bytes of a serial in the header.
pub(crate) const SERIAL_BYTES: usize = 32;

/// The serial of a certificate (C11, C13): an integer below 2¹²⁸ as 32 hexadecimal digits, upper case, zeros in front.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial([u8; SERIAL_BYTES]);

impl Serial {
    /// From the 32 digits of a header, of either case.
    #[must_use]
    pub fn from_digits(digits: &[u8; SERIAL_BYTES]) -> Option<Self> {
        digits.iter().all(u8::is_ascii_hexdigit).then(|| Self(digits.map(|d| d.to_ascii_uppercase())))
    }

    /// From the bytes of the certificate's integer, high byte first, as DER has them. None when it is negative,
    /// empty or 2¹²⁸ and more.
    #[must_use]
    pub fn from_integer(bytes: &[u8]) -> Option<Self> {
        if bytes.first().is_none_or(|&first| first >= 0x80) {
            return None;
        }
        let mut digits = [b'0'; SERIAL_BYTES];
        let mut places = digits.iter_mut().rev();
        for byte in bytes.iter().rev() {
            for value in [byte & 0x0f, byte >> 4] {
                match (places.next(), value) {
                    (Some(place), 0..=9) => *place = b'0' + value,
                    (Some(place), _) => *place = b'A' + value - 10,
                    (None, 0) => {}
                    (None, _) => return None,
                }
            }
        }
        Some(Self(digits))
    }

    /// From 1 to 32 hexadecimal digits of either case.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let missing = SERIAL_BYTES.checked_sub(text.len()).filter(|&missing| missing < SERIAL_BYTES)?;
        let mut digits = [b'0'; SERIAL_BYTES];
        digits.get_mut(missing..)?.copy_from_slice(text.as_bytes());
        Self::from_digits(&digits)
    }

    /// The digits as the header has them.
    #[must_use]
    pub const fn digits(&self) -> &[u8; SERIAL_BYTES] {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&digit| fmt::Write::write_char(f, char::from(digit)))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}

//! What can go wrong, by blame.

use std::fmt;

/// A key or a certificate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The bytes are not what they should be; the text says which and why.
    Malformed(String),
    /// The password is wrong, or none was given where one is needed.
    Password,
    /// The key is of another kind than RSA.
    NotRsa,
    /// The modulus has this many bits; only 2048 are served.
    Size(usize),
    /// The numbers of the key do not belong together.
    Inconsistent,
    /// The container or token holds no such private key, or more than one.
    Keys(usize),
    /// There is no certificate with a key in a token, and none was given.
    Certificate,
    /// A token, or the module that reaches it, does not do what it should; the text is its own.
    Token(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "cannot be read: {what}"),
            Self::Password => f.write_str("the password is wrong or missing"),
            Self::NotRsa => f.write_str("the key is not an RSA key"),
            Self::Size(bits) => write!(f, "the modulus has {bits} bits; give a key of 2048"),
            Self::Inconsistent => f.write_str("the numbers of the key do not belong together"),
            Self::Keys(count) => write!(f, "{count} such private keys inside, expected one"),
            Self::Certificate => f.write_str("there is no certificate beside the key in the token; name its file"),
            Self::Token(what) => write!(f, "PKCS#11: {what}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// An operation that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoError {
    /// The caller gave a text too long for the key, or of a length that the cipher cannot take.
    Length,
    /// The library failed, or its result did not pass the check with the public exponent.
    Fault,
    /// The token failed or is gone, or does not do this.
    Token,
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the length does not suit the key or the cipher",
            Self::Fault => "the cryptographic library failed",
            Self::Token => "the token that keeps the key failed",
        })
    }
}

impl std::error::Error for CryptoError {}

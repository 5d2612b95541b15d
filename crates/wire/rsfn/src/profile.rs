//! Every assumption about the format, in one place.

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
    /// RSASSA-PSS with MGF1 with SHA-256 and a salt of 32 octets (RFC 8017, 8.1).
    PssSha256,
}

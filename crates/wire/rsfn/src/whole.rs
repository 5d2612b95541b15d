//! Packing and unpacking in one call, for callers that do one message at a time and have their keys at hand.

use crate::{
    Acceptance, Certificate, Crypto, Fault, Header, Incoming, Outgoing, PackError, Packing, Profile, Refused, Sealed,
    Secret, SignJob, UnwrapJob, Verified, VerifyJob, WrapJob,
};
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroize;

/// What RSA does for one message; a caller has it from its key store.
pub trait Rsa {
    /// Signs with the sender's private key; none when that fails.
    fn sign(&self, job: SignJob) -> Option<Vec<u8>>;
    /// Encrypts with the recipient's public key; none when that fails.
    fn wrap(&self, job: WrapJob<'_>) -> Option<Vec<u8>>;
    /// Decrypts with the recipient's private key; none when the padding is wrong.
    fn unwrap(&self, job: UnwrapJob<'_>) -> Option<Vec<u8>>;
    /// Whether the signature is the sender's.
    fn verify(&self, job: VerifyJob<'_>) -> bool;
}

/// Why a message could not be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackFailure {
    /// The caller's request.
    Request(PackError),
    /// The caller's keys: RSA gave no result.
    Keys,
}

impl fmt::Display for PackFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Keys => f.write_str("RSA gave no result"),
        }
    }
}

impl core::error::Error for PackFailure {}

impl From<PackError> for PackFailure {
    fn from(error: PackError) -> Self {
        Self::Request(error)
    }
}

/// Packs one message. `content` is as it is to be signed: text encoded, files compressed.
///
/// # Errors
/// The request is not what the profile can say, or RSA failed.
pub fn pack(
    crypto: &impl Crypto,
    rsa: &impl Rsa,
    profile: &Profile,
    outgoing: &Outgoing,
    content: &[u8],
    secret: Secret,
) -> Result<Sealed, PackFailure> {
    let packing = Packing::new(crypto, profile, outgoing, content, secret)?;
    let signature = rsa.sign(packing.sign_job()).ok_or(PackFailure::Keys)?;
    let wrapped = match packing.wrap_job() {
        Some(job) => rsa.wrap(job).ok_or(PackFailure::Keys)?,
        None => Vec::new(),
    };
    Ok(packing.finish(&signature, &wrapped)?)
}

/// Unpacks one message. `certificates` finds the recipient's and the sender's by the header.
///
/// # Errors
/// The exact code of what is wrong. To tell a sender 0D, 0E and 0B apart lets it ask questions about the key.
pub fn unpack(
    crypto: &impl Crypto,
    rsa: &impl Rsa,
    acceptance: &Acceptance<'_>,
    certificates: impl FnOnce(&Header) -> (Option<Certificate>, Option<Certificate>),
    message: Vec<u8>,
    decoy: &Secret,
) -> Result<Verified, Refused> {
    let incoming = Incoming::read(&message, acceptance)?;
    let (recipient, sender) = certificates(incoming.header());
    let admitted = incoming.admit(recipient.as_ref(), sender.as_ref())?;
    let mut key = admitted.unwrap_job().and_then(|job| rsa.unwrap(job));
    let opened = admitted.open(crypto, message, key.as_deref(), decoy);
    key.as_deref_mut().unwrap_or_default().zeroize();
    let right = rsa.verify(opened.verify_job());
    opened.verify(right).map_err(|fault: Fault| fault.into())
}

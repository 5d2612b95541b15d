//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: a password is proved without being sent.
//!
//! ```text
//! client-first  n,,n=USER,r=CNONCE
//! server-first  r=CNONCE SNONCE,s=SALT,i=ITERATIONS
//! client-final  c=biws,r=CNONCE SNONCE,p=PROOF
//! server-final  v=SIGNATURE
//! ```
//!
//! What is kept of a password is `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`, each part in Base64: the form that
//! PostgreSQL has. A user that there is not gets an answer like any other, made from its name and a secret of this
//! process, so that nobody learns who there is (RFC 5802 section 9).

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt;
use std::num::NonZeroU32;

/// The name of the method in MQTT.
pub const METHOD: &str = "SCRAM-SHA-256";
/// Bytes of one message of a client.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Rounds for new passwords, as RFC 7677 section 4 asks for at least 4,096; RFC 9865 leans to more.
const ROUNDS: u32 = 15_000;
const ROUNDS_MAX: u32 = 1_000_000;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const HASH_BYTES: usize = 32;

/// What is kept of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    rounds: u32,
    salt: Vec<u8>,
    stored_key: [u8; HASH_BYTES],
    server_key: [u8; HASH_BYTES],
}

/// Why an exchange has failed. A peer is told only that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramError {
    /// A message is not one of SCRAM.
    Malformed,
    /// The client wants what there is not: channel binding, another's name, extensions that are mandatory.
    Unsupported,
    /// The proof is not of this password.
    Proof,
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the message is not one of SCRAM",
            Self::Unsupported => "channel binding, other identities and extensions are not supported",
            Self::Proof => "the proof is not of this password",
        })
    }
}

impl std::error::Error for ScramError {}

impl Verifier {
    /// What is kept of a password, with a fresh salt.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(password: &str) -> Result<Self, String> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).map_err(|_| "no random bytes".to_owned())?;
        Ok(Self::with(password.as_bytes(), &salt, ROUNDS))
    }

    fn with(password: &[u8], salt: &[u8], rounds: u32) -> Self {
        let mut salted = [0; HASH_BYTES];
        let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password, &mut salted);
        let stored_key = hash(&sign(&salted, b"Client Key"));
        Self { rounds: rounds.get(), salt: salt.to_vec(), stored_key, server_key: sign(&salted, b"Server Key") }
    }

    /// Reads the form of files.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let ((rounds, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
        let rounds = rounds.parse().ok().filter(|rounds| (4096..=ROUNDS_MAX).contains(rounds))?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        let salt = BASE64.decode(salt).ok().filter(|salt| (8..=64).contains(&salt.len()))?;
        Some(Self { rounds, salt, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// A verifier that no password has, the same for the same name and secret.
    fn of_nobody(user: &str, secret: &[u8]) -> Self {
        let salt = sign(secret, user.as_bytes());
        let salt = salt.get(..SALT_BYTES).unwrap_or_default().to_vec();
        Self { rounds: ROUNDS, salt, stored_key: [0; HASH_BYTES], server_key: [0; HASH_BYTES] }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, salt, stored_key, server_key } = self;
        let [salt, stored, server] = [&salt[..], stored_key, server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "SCRAM-SHA-256${rounds}:{salt}${stored}:{server}")
    }
}

/// One exchange that waits for the client's second message.
#[derive(Debug)]
pub struct Exchange {
    user: String,
    verifier: Verifier,
    known: bool,
    nonce: String,
    /// What both sides sign.
    bare: String,
    header: String,
}

impl Exchange {
    /// Takes the client's first message; gives the exchange and the answer. `look` finds what is kept of a user's
    /// password, `secret` is of this process, `nonce` fresh and random.
    ///
    /// # Errors
    /// The message is not one that can be answered.
    pub fn begin(
        message: &[u8],
        look: impl FnOnce(&str) -> Option<Verifier>,
        secret: &[u8],
        nonce: &str,
    ) -> Result<(Self, String), ScramError> {
        let text = text(message)?;
        // RFC 5802 section 7: gs2-header is "n,," here; "y" says that the client could bind and thinks that we cannot.
        let (header, first) = match text {
            _ if text.starts_with("n,,") => text.split_at(3),
            _ if text.starts_with("y,,") => text.split_at(3),
            _ if text.starts_with("p=") || text.starts_with("n,a=") || text.starts_with("y,a=") => {
                return Err(ScramError::Unsupported);
            }
            _ => return Err(ScramError::Malformed),
        };
        let mut parts = first.split(',');
        let user = match parts.next() {
            Some(part) if part.starts_with("m=") => return Err(ScramError::Unsupported),
            part => part.and_then(|part| part.strip_prefix("n=")).ok_or(ScramError::Malformed)?,
        };
        let user = name(user)?;
        let theirs = parts.next().and_then(|part| part.strip_prefix("r=")).filter(|nonce| is_nonce(nonce));
        let nonce = format!("{}{nonce}", theirs.ok_or(ScramError::Malformed)?);
        let found = look(&user);
        let known = found.is_some();
        let verifier = found.unwrap_or_else(|| Verifier::of_nobody(&user, secret));
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.rounds);
        let bare = format!("{first},{answer}");
        Ok((Self { user, verifier, known, nonce, bare, header: header.to_owned() }, answer))
    }

    /// The user that the client says it is.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether it is about what is kept of a password here; a user that there is not has nothing.
    #[must_use]
    pub fn is_for(&self, kept: Option<&Verifier>) -> bool {
        kept.map_or(!self.known, |kept| *kept == self.verifier)
    }

    /// Takes the client's second message; gives the user and the last answer.
    ///
    /// # Errors
    /// The message is none, or does not prove the password.
    pub fn finish(self, message: &[u8]) -> Result<(String, String), ScramError> {
        let text = text(message)?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let mut parts = unproved.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c=")).ok_or(ScramError::Malformed)?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r=")).ok_or(ScramError::Malformed)?;
        if binding != BASE64.encode(&self.header) || nonce != self.nonce {
            return Err(ScramError::Proof);
        }
        let proof: [u8; HASH_BYTES] =
            BASE64.decode(proof).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(ScramError::Malformed)?;
        let signed = format!("{},{unproved}", self.bare);
        let signature = sign(&self.verifier.stored_key, signed.as_bytes());
        let key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let proved = constant_time::verify_slices_are_equal(&hash(&key), &self.verifier.stored_key).is_ok();
        if !(proved && self.known) {
            return Err(ScramError::Proof);
        }
        let answer = BASE64.encode(sign(&self.verifier.server_key, signed.as_bytes()));
        Ok((self.user, format!("v={answer}")))
    }
}

/// A fresh nonce.
///
/// # Errors
/// The system gives no random bytes.
pub fn fresh_nonce() -> Result<String, String> {
    let mut bytes = [0; NONCE_BYTES];
    rand::fill(&mut bytes).map_err(|_| "no random bytes".to_owned())?;
    Ok(BASE64.encode(bytes))
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed)?;
    if text.len() <= MESSAGE_BYTES_MAX { Ok(text) } else { Err(ScramError::Malformed) }
}

/// `=2C` stands for a comma and `=3D` for an equals sign (RFC 5802 section 5.1).
fn name(text: &str) -> Result<String, ScramError> {
    let plain = text.replace("=2C", ",").replace("=3D", "=");
    let escapes = text.matches("=2C").count() + text.matches("=3D").count();
    let legal = !plain.is_empty() && text.matches('=').count() == escapes;
    if legal { Ok(plain) } else { Err(ScramError::Malformed) }
}

fn is_nonce(text: &str) -> bool {
    (8..=256).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

fn sign(key: &[u8], bytes: &[u8]) -> [u8; HASH_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes);
    tag.as_ref().try_into().unwrap_or_default()
}

fn hash(bytes: &[u8]) -> [u8; HASH_BYTES] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7677 section 3.
    fn of_the_rfc() -> (Exchange, String) {
        let verifier = Verifier::with(b"pencil", &BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), 4096);
        let look = |user: &str| (user == "user").then_some(verifier);
        Exchange::begin(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", look, b"s", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap()
    }

    const FINAL: &str =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_exchange_of_the_rfc() {
        let (exchange, answer) = of_the_rfc();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let (user, last) = exchange.finish(FINAL.as_bytes()).unwrap();
        assert_eq!((user.as_str(), last.as_str()), ("user", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn what_is_not_the_exchange_is_refused() {
        let finish = |message: &str| of_the_rfc().0.finish(message.as_bytes()).unwrap_err();
        assert_eq!(finish(&FINAL.replace("p=dH", "p=dI")), ScramError::Proof);
        assert_eq!(finish(&FINAL.replace("c=biws", "c=eSws")), ScramError::Proof);
        assert_eq!(finish(&FINAL.replace("k0,p", "k1,p")), ScramError::Proof);
        assert_eq!(finish("c=biws"), ScramError::Malformed);
        assert_eq!(finish(&FINAL.replace("dVQ=", "")), ScramError::Malformed);
        let begin = |message: &[u8]| Exchange::begin(message, |_| None, b"s", "n").map(drop).unwrap_err();
        assert_eq!(begin(b"p=tls-unique,,n=u,r=12345678"), ScramError::Unsupported);
        assert_eq!(begin(b"n,a=other,n=u,r=12345678"), ScramError::Unsupported);
        assert_eq!(begin(b"n,,m=x,n=u,r=12345678"), ScramError::Unsupported);
        for malformed in ["", "n,,", "n,,n=,r=12345678", "n,,n=a=b,r=12345678", "n,,n=u,r=1234567", "n,,n=u", "x,,n=u"]
        {
            assert_eq!(begin(malformed.as_bytes()), ScramError::Malformed, "{malformed}");
        }
        assert_eq!(begin(&[0xff; 8]), ScramError::Malformed);
        assert_eq!(begin(format!("n,,n={},r=12345678", "u".repeat(2000)).as_bytes()), ScramError::Malformed);
    }

    #[test]
    fn a_user_that_there_is_not_is_answered_like_one_and_never_let_in() {
        let first = |secret: &[u8]| Exchange::begin(b"n,,n=eve,r=12345678", |_| None, secret, "abc").unwrap();
        let (exchange, answer) = first(b"secret");
        assert_eq!(answer, first(b"secret").1);
        assert_ne!(answer, first(b"other").1);
        // The stored key of nobody is known; no proof may follow from it.
        let unproved = "c=biws,r=12345678abc";
        let signed = format!("{},{unproved}", exchange.bare);
        let proof = BASE64.encode(sign(&[0; 32], signed.as_bytes()));
        assert_eq!(exchange.finish(format!("{unproved},p={proof}").as_bytes()), Err(ScramError::Proof));
    }

    #[test]
    fn verifiers_are_written_and_read() {
        let verifier = Verifier::new("pass word").unwrap();
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier));
        for wrong in ["", "SCRAM-SHA-256$4096:AA==$AA==:AA==", "SCRAM-SHA-1$4096:a$b:c", "SCRAM-SHA-256$1:$:"] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(first in prop::collection::vec(any::<u8>(), 0..80), text in ".{0,80}") {
            let look = |_: &str| Some(Verifier::with(b"x", &[0; 16], 1));
            let _ = Exchange::begin(&first, look, b"s", "n");
            let _ = Exchange::begin(format!("n,,{text}").as_bytes(), look, b"s", "n");
            let (exchange, _) = Exchange::begin(b"n,,n=u,r=12345678", look, b"s", "n").unwrap();
            let last = format!("c=biws,{text},p={text}");
            prop_assert!(exchange.finish(last.as_bytes()).is_err());
        }
    }
}

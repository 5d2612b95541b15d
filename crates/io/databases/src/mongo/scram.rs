//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side: what is sent, and what must come back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Rounds that a server may ask for: fewer are weak, more would be an attack.
const ROUNDS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;

/// An exchange that has begun.
pub struct Scram {
    /// The client's first message, without its header.
    first: String,
    nonce: String,
}

/// An exchange whose proof was made.
pub struct Proved {
    /// What is sent.
    pub message: String,
    /// What the server must sign with.
    signature: [u8; 32],
}

impl Scram {
    /// Begins with 18 random bytes.
    pub fn new(user: &str, random: &[u8; 18]) -> Self {
        let nonce = STANDARD.encode(random);
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { first: format!("n={user},r={nonce}"), nonce }
    }

    /// The first message.
    pub fn message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Answers what the server said with a proof that the password is known; none where it said no such thing.
    pub fn prove(&self, server: &str, password: &str) -> Option<Proved> {
        let field = |name: &str| server.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let nonce = field("r").filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len())?;
        let salt = STANDARD.decode(field("s")?).ok()?;
        let rounds: u32 = field("i")?.parse().ok().filter(|rounds| ROUNDS.contains(rounds))?;
        let salted = salted(password.as_bytes(), &salt, rounds);
        let client_key = mac(&salted, b"Client Key");
        let stored: [u8; 32] = Sha256::digest(client_key).into();
        let bare = format!("c=biws,r={nonce}");
        let signed = format!("{},{server},{bare}", self.first);
        let mut proof = mac(&stored, signed.as_bytes());
        for (byte, key) in proof.iter_mut().zip(client_key) {
            *byte ^= key;
        }
        let signature = mac(&mac(&salted, b"Server Key"), signed.as_bytes());
        Some(Proved { message: format!("{bare},p={}", STANDARD.encode(proof)), signature })
    }
}

impl Proved {
    /// Whether the server knows the password, too.
    pub fn is_signed(&self, server: &str) -> bool {
        let shown = server.split(',').find_map(|part| part.strip_prefix("v="));
        shown.and_then(|text| STANDARD.decode(text).ok()).is_some_and(|found| found == self.signature)
    }
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let Ok(keyed) = Hmac::<Sha256>::new_from_slice(password) else { return [0; 32] };
    let mut mac = keyed.clone();
    mac.update(salt);
    mac.update(&1_u32.to_be_bytes());
    let mut last: [u8; 32] = mac.finalize().into_bytes().into();
    let mut all = last;
    for _ in 1..rounds {
        let mut mac = keyed.clone();
        mac.update(&last);
        last = mac.finalize().into_bytes().into();
        for (sum, byte) in all.iter_mut().zip(last) {
            *sum ^= byte;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    //= RFC 7677 3
    #[test]
    fn the_example_of_the_standard() {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let scram = Scram { first: format!("n=user,r={nonce}"), nonce };
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proved = scram.prove(server, "pencil").unwrap();
        let expect = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(proved.message, expect);
        assert!(proved.is_signed("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proved.is_signed("v=AAAA") && !proved.is_signed("e=other-error"));
        for wrong in [
            "",
            "r=x,s=W22Z,i=4096",
            &server.replace("4096", "1"),
            &server.replace("i=", "j="),
            "r=rOprNGfwEbeRWgbNEkqO,s=,i=4096",
        ] {
            assert!(scram.prove(wrong, "pencil").is_none(), "{wrong}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert!(Scram::new("a,b=c", &[0; 18]).message().starts_with("n,,n=a=2Cb=3Dc,r="));
    }
}

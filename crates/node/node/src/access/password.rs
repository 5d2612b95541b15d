//! Passwords as argon2id in the PHC string format.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};

/// Bytes of a password.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// What one check may cost: KiB of memory, and rounds. Files are written by people; a check must not stop a node.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const ROUNDS_MAX: u32 = 16;

/// The hash of a password with a fresh salt, as `$argon2id$v=19$m=…`.
///
/// # Errors
/// The system gives no random bytes.
pub fn hash_password(password: &str) -> Result<String, String> {
    Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string()).map_err(|error| error.to_string())
}

/// Whether a text is a hash that [`verify_password`] can check.
#[must_use]
pub fn is_password_hash(text: &str) -> bool {
    let Ok(hash) = PasswordHash::new(text) else { return false };
    let within = |name: &str, max: u32| hash.params.get_decimal(name).is_some_and(|found| (1..=max).contains(&found));
    text.starts_with("$argon2id$")
        && hash.salt.is_some()
        && hash.hash.is_some()
        && within("m", MEMORY_KIB_MAX)
        && within("t", ROUNDS_MAX)
        && within("p", 16)
}

/// Whether a password has a hash.
#[must_use]
pub fn verify_password(password: &[u8], hash: &str) -> bool {
    if password.len() > PASSWORD_BYTES_MAX {
        return false;
    }
    let parsed = PasswordHash::new(hash);
    parsed.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

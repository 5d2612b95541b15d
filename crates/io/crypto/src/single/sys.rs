//! Calls to aws-lc that aws-lc-rs does not offer.

#![expect(unsafe_code, reason = "foreign functions")]

use crate::{CryptoError, MODULUS_BYTES};
use aws_lc_sys::{ERR_clear_error, RSA, RSA_NO_PADDING, RSA_decrypt, RSA_free, RSA_private_key_from_bytes, RSA_size};
use std::ptr::NonNull;
use zeroize::Zeroizing;

/// A private key as aws-lc holds it. aws-lc wipes it when it is freed.
pub(crate) struct RawKey(NonNull<RSA>);

// SAFETY: an `RSA` may be used and freed on any thread (aws-lc, include/openssl/rsa.h: "RSA objects may be shared
// between threads" as long as nobody changes them); this type has no way to change it.
unsafe impl Send for RawKey {}
// SAFETY: as above; private operations lock the blinding that they share.
unsafe impl Sync for RawKey {}

impl RawKey {
    /// From the DER of an `RSAPrivateKey` (RFC 8017 clause A.1.2); none when it does not parse or its numbers do not
    /// belong together.
    pub(crate) fn from_pkcs1(der: &[u8]) -> Option<Self> {
        // SAFETY: pointer and length are of one slice; the function keeps neither.
        let key = unsafe { RSA_private_key_from_bytes(der.as_ptr(), der.len()) };
        if key.is_null() {
            clear_errors();
        }
        NonNull::new(key).map(Self)
    }

    /// number^d mod n, blinded, its result checked with e.
    ///
    /// # Errors
    /// The number is not between 2 and n - 2, the key is not of 2048 bits, or the check failed.
    pub(crate) fn private(&self, number: &[u8; MODULUS_BYTES]) -> Result<Zeroizing<[u8; MODULUS_BYTES]>, CryptoError> {
        let mut out = Zeroizing::new([0; MODULUS_BYTES]);
        let mut length = 0;
        // SAFETY: the key lives as long as `self`; `out` has the 256 bytes that it is said to have, and at least
        // RSA_size as checked first; `number` has 256; neither pointer is kept.
        let done = unsafe {
            RSA_size(self.0.as_ptr()) as usize == MODULUS_BYTES
                && 1 == RSA_decrypt(
                    self.0.as_ptr(),
                    &raw mut length,
                    out.as_mut_ptr(),
                    out.len(),
                    number.as_ptr(),
                    number.len(),
                    RSA_NO_PADDING,
                )
        };
        if done && length == MODULUS_BYTES {
            Ok(out)
        } else {
            clear_errors();
            Err(CryptoError::Fault)
        }
    }
}

impl Drop for RawKey {
    fn drop(&mut self) {
        // SAFETY: the pointer came from RSA_private_key_from_bytes and is freed once.
        unsafe { RSA_free(self.0.as_ptr()) }
    }
}

/// aws-lc keeps errors in a queue per thread; nobody reads ours.
fn clear_errors() {
    // SAFETY: no argument, and only the calling thread's queue is touched.
    unsafe { ERR_clear_error() }
}

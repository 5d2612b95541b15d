//! The bare private operation of RSA, by aws-lc.
//!
//! aws-lc-rs takes the padding off by itself and says when it was wrong; here the padding stays on, so that a block
//! that was decrypted alone and one that was decrypted in a batch take the same way ([`crate::padding`]).

mod sys;

pub(crate) use sys::RawKey;

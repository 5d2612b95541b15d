//! What an operator asks of a history as a whole: how large it is, whether it is whole, and to repair it.

pub(crate) mod repair;
pub(crate) mod rules;
pub(crate) mod stats;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

/// Told now and then: bytes that are done, and all bytes.
pub type Watch<'w> = &'w mut dyn FnMut(u64, u64);

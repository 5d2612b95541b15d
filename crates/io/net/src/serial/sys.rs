//! Registers a device file, or a socket of a kind that the runtime does not have, with the runtime.

#![expect(unsafe_code, reason = "the runtime's only way to register a file descriptor")]

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Lets the runtime tell when `file` can be read or written.
pub(crate) fn register(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, is the same descriptor all its life, and is closed only when it is dropped, which
    // the `AsyncFd` that owns it does after it has deregistered it.
    let registered = unsafe { AsyncFd::register(file) };
    Ok(registered?)
}

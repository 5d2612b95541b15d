//! The state of a session as its owner can read it.

use super::Session;
use crate::Traffic;
use crate::buffered::BufferedConnection;
use crate::tls::ShownCertificate;
use tieline_core::Machine;

impl<M: Machine> Session<M> {
    /// Whether there is a connection, and it has taken all that it was given.
    pub fn is_clear(&self) -> bool {
        self.0.buffered.borrow().as_ref().is_some_and(BufferedConnection::is_clear)
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.0.buffered.borrow().is_some()
    }

    /// The certificate that the peer of the connection has shown; read again at each call.
    #[must_use]
    pub fn certificate(&self) -> Option<ShownCertificate> {
        self.0.buffered.borrow().as_ref()?.certificate()
    }

    /// What the session has moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let mut traffic = self.0.traffic.get();
        if self.0.passes.get()
            && let Some(buffered) = &*self.0.buffered.borrow()
        {
            traffic.count_past(buffered.past());
        }
        traffic
    }
}

//! Where secure authentication stands: between the endpoint and the application. Off, it is one test of a pointer.

use super::application::Application;
use super::{Outstation, OutstationEvent};
use crate::link::Broadcast;
use crate::secure::{FragmentAction, OutstationSecurity};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Now;

/// The security of an outstation, where there is any.
pub(super) type Secure = Option<Box<OutstationSecurity>>;

impl Outstation {
    /// Lets critical requests be performed only when they are authentic and authorized (IEEE 1815 clause 7). To be
    /// called before there is a connection.
    pub fn set_security(&mut self, security: OutstationSecurity) {
        self.secure = Some(Box::new(security));
    }

    /// Its security; None where it has none.
    #[must_use]
    pub fn security(&self) -> Option<&OutstationSecurity> {
        self.secure.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn secure_mut(&mut self) -> Option<&mut OutstationSecurity> {
        self.secure.as_deref_mut()
    }
}

/// Hands a fragment to the application, if it may have it.
pub(super) fn hand_over(
    secure: &mut Secure,
    application: &mut Application,
    now: Now,
    bytes: &[u8],
    broadcast: Option<Broadcast>,
) {
    let Some(secure) = secure else { return application.handle_fragment(now, bytes, broadcast) };
    match secure.handle_fragment(now, bytes, broadcast) {
        FragmentAction::Pass => application.handle_fragment(now, bytes, broadcast),
        FragmentAction::Perform(request) => application.handle_fragment(now, &request, None),
        FragmentAction::Done => {}
    }
}

/// Whether something is to be sent before the next fragment is looked at.
pub(super) fn has_reply(secure: &Secure) -> bool {
    secure.as_ref().is_some_and(|secure| secure.has_reply())
}

/// Appends the next fragment, security's before the application's; says whether there was one.
pub(super) fn write_fragment(secure: &mut Secure, application: &mut Application, now: Now, out: &mut Vec<u8>) -> bool {
    let Some(secure) = secure else { return application.write_fragment(now, out) };
    if !application.is_connected {
        return false;
    }
    if secure.has_reply() {
        return secure.write_fragment(now, application.iin(), out);
    }
    let written = application.write_fragment(now, out);
    if written {
        secure.note_sent(now);
    }
    written
}

/// The next event of security.
pub(super) fn poll_event(secure: &mut Secure) -> Option<OutstationEvent> {
    Some(OutstationEvent::Security(Box::new(secure.as_mut()?.poll_event()?)))
}

//! What the owner of a server says and learns.

use crate::{ExceptionCode, Framing, Request, Unit, UnitSet};

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// How bytes travel.
    pub framing: Framing,
    /// The units that it answers for.
    pub units: UnitSet,
    /// What requests to other units are answered with on TCP: 10 or 11 from a gateway, none for silence. On serial lines
    /// other units are other devices.
    pub other_units: Option<ExceptionCode>,
    /// Requests that were taken and not answered, at least 1: more are left to the peer.
    pub requests_max: u8,
}

impl ServerConfig {
    /// For one unit on serial lines; on TCP for every unit, as devices do that have none behind them.
    #[must_use]
    pub fn new(framing: Framing, unit: Unit) -> Self {
        let units = if framing.is_rtu() { [unit].into_iter().collect() } else { UnitSet::ALL };
        Self { framing, units, other_units: None, requests_max: 16 }
    }

    /// For some units; others are refused on TCP as a gateway does that has no way to them.
    #[must_use]
    pub fn gateway(framing: Framing, units: UnitSet) -> Self {
        let other_units = Some(ExceptionCode::GATEWAY_PATH_UNAVAILABLE);
        Self { framing, units, other_units: other_units.filter(|_| !framing.is_rtu()), requests_max: 16 }
    }
}

/// What the owner learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A legal request, to be answered with [`crate::Server::answer`].
    Request {
        /// To answer with.
        id: u64,
        /// Whom the client means.
        unit: Unit,
        /// What is asked.
        request: Request,
    },
    /// A write to all units of the line, which nobody answers.
    Broadcast {
        /// What is asked.
        request: Request,
    },
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Whole frames of requests, legal or not.
    pub requests: u64,
    /// Requests that were done.
    pub answers: u64,
    /// Requests that were refused.
    pub exceptions: u64,
    /// Responses of the owner that did not fit their request.
    pub misfits: u64,
    /// Bytes that were part of no request.
    pub noise_bytes: u64,
}

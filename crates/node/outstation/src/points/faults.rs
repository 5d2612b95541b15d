//! What goes wrong at a device whose points stand in a list.

use super::ListedPoints;
use crate::treatment::{NOISE_BYTES, Presence, Reply, Treatment};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Instant;
use tieline_model::{Conduct, Fault, Seed};

/// The seeds of requests come behind those of points and faults.
const REQUEST_SEEDS: u64 = 1 << 33;

/// What goes wrong, and how long an answer takes when nothing does.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// What goes wrong, and when, in the time of the model.
    pub all: Arc<[Fault]>,
    /// From a request to its answer.
    pub delay: Duration,
    /// An answer comes up to so much later.
    pub delay_jitter: Duration,
}

impl<P> ListedPoints<P> {
    /// How the next request is treated.
    pub(super) fn treat(&mut self, now: Instant) -> Treatment {
        let conduct = self.device.conduct(self.since_start(now));
        let luck = self.seed.with(REQUEST_SEEDS + self.requests);
        self.requests += 1;
        let after = self.faults.delay + self.faults.delay_jitter.mul_f64(luck.with(1).unit());
        let (after, reply) = match conduct {
            Conduct::Answers { late_by } => (after.saturating_add(late_by), Reply::Answer),
            Conduct::Refuses => (after, Reply::Refuse),
            Conduct::Garbles => (after, Reply::Noise(noise(luck.with(3)))),
            Conduct::Silent => (Duration::ZERO, Reply::Nothing { is_carried_out: luck.with(2).unit() < 0.5 }),
            Conduct::Off => (Duration::ZERO, Reply::Off),
        };
        Treatment { after, reply }
    }

    /// Whether the device is there at the moment.
    pub(super) fn presence(&self, now: Instant) -> Presence {
        match self.device.conduct(self.since_start(now)) {
            Conduct::Off => Presence::Off,
            Conduct::Silent => Presence::Silent,
            Conduct::Answers { .. } | Conduct::Refuses | Conduct::Garbles => Presence::There,
        }
    }

    /// Whether the device says nothing at the moment.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        matches!(self.device.conduct(self.since_start(now)), Conduct::Silent | Conduct::Off)
    }
}

/// Bytes that begin no frame of Modbus or IEC 60870-5-104, and no datagram of BACnet.
fn noise(seed: Seed) -> [u8; NOISE_BYTES] {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let byte = |at: u64| (seed.with(at).unit() * 256.0) as u8 | 0x02;
    std::array::from_fn(|at| byte(u64::try_from(at).unwrap_or(0)))
}

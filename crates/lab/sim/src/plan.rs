//! What one run is made of: how both stations are set up, what carries their bytes, and what goes wrong.

use crate::secured::SecurityPlan;
use crate::{Carriage, Choices};
use std::time::Duration;
use tieline_dnp3::Classes;
use tieline_dnp3::endpoint::LinkService;
use tieline_dnp3::lean::{Carrier, LeanConfig, Side};
use tieline_dnp3::master::{MasterConfig, TimeSync};
use tieline_dnp3::outstation::{EventLimits, OutstationConfig, UnsolicitedConfig};

/// What one run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What carries the bytes.
    pub carriage: Carriage,
    /// The longest that anything is under way, in milliseconds.
    pub delay_ms: u64,
    /// How the master behaves.
    pub master: MasterConfig,
    /// How the outstation behaves.
    pub outstation: OutstationConfig,
    /// Whether both link layers confirm their frames and repeat those that get lost.
    pub link: Option<LinkService>,
    /// Secure authentication, where both ends have it.
    pub secure: Option<SecurityPlan>,
    /// How often the owner of the master asks for events by itself.
    pub poll_every: Option<Duration>,
    /// The longest time between a value and its safe place, where confirms wait for it, in milliseconds.
    pub store_ms: u64,
    /// What happens, drawn in turn.
    pub acts: Vec<Act>,
    /// How many acts there are.
    pub count: u64,
    /// The longest time between two acts, in milliseconds.
    pub pause_ms: u64,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Some points change, each once.
    Update,
    /// Many changes at once.
    Burst,
    /// The owner commands an output.
    Command,
    /// The owner reads.
    Read,
    /// Local mode begins or ends.
    Local,
    /// The connection ends, and both ends learn of it soon.
    Cut,
    /// The connection ends, and an end or both go on as if it had not.
    HalfOpen,
    /// Nothing arrives for a while.
    Hold,
    /// The process of the master dies and starts again, with what it had stored.
    RestartMaster,
    /// The device starts again, without its events.
    RestartDevice,
}

/// Acts that no fault is part of.
const CALM: [Act; 5] = [Act::Update, Act::Burst, Act::Command, Act::Read, Act::Local];
/// Faults, each in about half of the runs, so that some runs have one alone.
const FAULTS: [Act; 5] = [Act::Cut, Act::HalfOpen, Act::Hold, Act::RestartMaster, Act::RestartDevice];

impl Plan {
    /// Draws one.
    #[must_use]
    pub fn draw(choices: &mut Choices) -> Self {
        let carriage = match choices.below(8) {
            0..=4 => Carriage::Stream,
            5..=6 => Carriage::Datagrams { lost: byte(choices, 30), twice: byte(choices, 20) },
            _ => Carriage::Line { damaged: byte(choices, 30) },
        };
        let mut acts = vec![Act::Update; 6];
        acts.extend(CALM.iter().filter(|_| choices.chance(80)).flat_map(|act| [*act; 2]));
        acts.extend(FAULTS.iter().filter(|_| choices.chance(45)));
        let unsolicited = choices.chance(75).then(|| unsolicited(choices));
        // Reports that end need somebody who asks.
        let must_ask = unsolicited.is_none_or(|unsolicited| unsolicited.retries_max.is_some());
        let poll_every = (must_ask || choices.chance(20)).then(|| choices.millis(1000, 20_000));
        let mut plan = Self {
            carriage,
            delay_ms: choices.pick(&[5, 0, 50, 300, 900]),
            master: master(choices),
            outstation: outstation(choices, unsolicited),
            link: None,
            secure: None,
            poll_every,
            store_ms: choices.pick(&[10, 500, 3000]),
            acts,
            count: choices.between(5, 60),
            pause_ms: choices.pick(&[500, 100, 2000, 8000]),
        };
        if plan.carriage == Carriage::Stream && choices.chance(30) {
            // Two in five offer or accept in vain: both ends speak link frames then.
            let (offers, accepts) =
                choices.pick(&[(true, true), (true, true), (true, true), (true, false), (false, true)]);
            let lean = |side| LeanConfig { side, carrier: Carrier::Stream };
            plan.master.lean = offers.then(|| lean(Side::Offers));
            plan.outstation.lean = accepts.then(|| lean(Side::Accepts));
        }
        // Frames that are repeated must come in the time of a response.
        let speaks_frames = plan.master.lean.is_none() && plan.outstation.lean.is_none();
        plan.link = (speaks_frames && plan.delay_ms <= 50 && choices.chance(20)).then(|| LinkService {
            confirms: true,
            timeout: choices.millis(200, 400),
            retries: byte(choices, 3),
            keep_alive: None,
        });
        plan.secure = choices.chance(15).then(|| SecurityPlan::draw(choices));
        plan
    }

    /// Whether nothing may go wrong: confirms come in time, so that no event has to come twice.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let clean = match self.carriage {
            Carriage::Stream => true,
            // A request that overtakes a confirm ends the wait for it.
            Carriage::Datagrams { lost, twice } => lost == 0 && twice == 0 && self.delay_ms == 0,
            Carriage::Line { damaged } => damaged == 0,
        };
        let stores = !self.master.hold_confirm || self.store_ms <= 500;
        clean && stores && self.delay_ms <= 300 && !self.acts.iter().any(|act| FAULTS.contains(act))
    }
}

fn byte(choices: &mut Choices, max: u64) -> u8 {
    u8::try_from(choices.below(max + 1)).unwrap_or(u8::MAX)
}

fn master(choices: &mut Choices) -> MasterConfig {
    let seconds = |low, high, choices: &mut Choices| Duration::from_secs(choices.between(low, high));
    MasterConfig {
        response_timeout: seconds(2, 6, choices),
        retries: byte(choices, 2),
        retry_delay: seconds(1, 5, choices),
        keep_alive: choices.chance(70).then(|| seconds(5, 60, choices)),
        disable_unsolicited: if choices.chance(80) { Classes::EVENTS } else { Classes::NONE },
        event_poll: if choices.chance(40) { Classes::EVENTS } else { Classes::NONE },
        time_sync: choices.pick(&[TimeSync::Lan, TimeSync::DelayMeasure, TimeSync::Never]),
        hold_confirm: choices.chance(50),
        tasks_max: byte(choices, 12) + 4,
        ..MasterConfig::default()
    }
}

fn outstation(choices: &mut Choices, unsolicited: Option<UnsolicitedConfig>) -> OutstationConfig {
    let fragment = choices.pick(&[2048, 272, 300, 700]);
    OutstationConfig {
        fragment_bytes_sent_max: fragment,
        confirm_timeout: Duration::from_secs(choices.between(2, 6)),
        select_timeout: Duration::from_secs(choices.between(1, 10)),
        need_time_every: choices.chance(30).then(|| Duration::from_secs(choices.between(5, 60))),
        event_limits: EventLimits::all(choices.pick(&[100, 3, 10, 40])),
        unsolicited,
        ..OutstationConfig::default()
    }
}

fn unsolicited(choices: &mut Choices) -> UnsolicitedConfig {
    UnsolicitedConfig {
        classes: if choices.chance(30) { Classes::EVENTS } else { Classes::NONE },
        confirm_timeout: Duration::from_secs(choices.between(2, 6)),
        retries_max: choices.chance(30).then(|| u16::from(byte(choices, 3))),
        hold_time: choices.pick(&[Duration::ZERO, Duration::from_millis(100), Duration::from_secs(3)]),
        events_before_hold_ends: u16::from(byte(choices, 10)) + 1,
        events_max: choices.pick(&[100, 1, 5]),
        protection: choices.pick(&[Classes::NONE, Classes::CLASS_1]),
    }
}

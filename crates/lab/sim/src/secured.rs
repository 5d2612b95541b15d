//! Both ends of secure authentication, with one user and the same randomness in every run.

use crate::Choices;
use std::time::Duration;
use tieline_dnp3::secure::{
    Key, KeyLimits, MacAlgorithm, MasterSecurity, MasterSecurityConfig, OutstationSecurity, OutstationSecurityConfig,
    Random, Role, User,
};

/// How both ends authenticate.
#[derive(Clone, Debug)]
pub struct SecurityPlan {
    master: MasterSecurityConfig,
    outstation: OutstationSecurityConfig,
}

impl SecurityPlan {
    /// Draws one: by challenges or in aggressive mode, which an outstation may not permit, and with keys that are soon
    /// used up in some runs.
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let keys = KeyLimits { interval: choices.millis(30_000, 600_000), count: choices.pick(&[2000, 200, 20]) };
        // As long as the master's where those cannot be changed.
        let twice = KeyLimits { interval: keys.interval * 2, count: keys.count * 2 };
        let macs = [MacAlgorithm::HmacSha256x16, MacAlgorithm::HmacSha256x8, MacAlgorithm::HmacSha1x10];
        Self {
            master: MasterSecurityConfig {
                aggressive: choices.chance(50),
                keys,
                retry_delay: choices.millis(1000, 5000),
                ..MasterSecurityConfig::new(key())
            },
            outstation: OutstationSecurityConfig {
                mac: choices.pick(&macs),
                aggressive: choices.chance(80),
                // Longer than a challenge and its reply are under way.
                reply_timeout: Duration::from_secs(3),
                keys: twice,
                ..OutstationSecurityConfig::default()
            },
        }
    }

    /// The master's end.
    pub(crate) fn master(&self, choices: &mut Choices) -> MasterSecurity {
        MasterSecurity::new(self.master.clone(), Seeded::draw(choices))
    }

    /// The outstation's end.
    pub(crate) fn outstation(&self, choices: &mut Choices) -> OutstationSecurity {
        let user = User { number: 1, name: "user".into(), role: Role::SingleUser, until_day: None, update_key: key() };
        OutstationSecurity::new(self.outstation.clone(), vec![user], Seeded::draw(choices))
    }
}

fn key() -> Key {
    Key::new(&[0x5A; 16]).expect("a length that keys have")
}

/// Random enough for a run, and the same each time.
struct Seeded(u64);

impl Seeded {
    fn draw(choices: &mut Choices) -> Box<Self> {
        Box::new(Self(choices.between(1, u64::MAX >> 1)))
    }
}

impl Random for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            *byte = self.0.to_le_bytes()[3];
        }
    }
}

mod commands;
mod faults;
mod health;
mod loopback;
mod properties;
mod reports;
mod requests;
mod script;
mod startup;
mod validation;

use super::{MasterConfig, TimeSync};
use crate::Classes;

/// A master without any duty, so that a script shows one thing.
fn quiet() -> MasterConfig {
    MasterConfig {
        disable_unsolicited: Classes::NONE,
        integrity: Classes::NONE,
        enable_unsolicited: Classes::NONE,
        time_sync: TimeSync::Never,
        ..MasterConfig::default()
    }
}

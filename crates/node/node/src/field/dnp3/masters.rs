//! The masters of devices, as their configuration wants them.

use crate::config::{Dnp3Config, LaneConfig, LinkConfirms, TimeSync as SyncConfig};
use std::hash::{BuildHasher, Hasher, RandomState};
use tieline_dnp3::Classes;
use tieline_dnp3::endpoint::LinkService;
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::master::{Master, MasterConfig, TimeSync};
use tieline_transport::Transport;
use tieline_transport::secure::master_machine;

/// The master of a device's main connection.
pub(super) fn master_of(dnp3: &Dnp3Config, transport: &Transport) -> Master {
    equipped(Master::new(master_config(dnp3, transport)), dnp3)
}

/// The master of a device's urgent connection: it takes what is reported there and commands, and reads nothing else.
pub(super) fn urgent_master(dnp3: &Dnp3Config, lane: &LaneConfig) -> Master {
    let config = MasterConfig {
        address: lane.master,
        integrity: Classes::NONE,
        enable_unsolicited: if dnp3.unsolicited { lane.classes } else { Classes::NONE },
        event_poll: lane.classes,
        time_sync: TimeSync::Never,
        ..master_config(dnp3, &lane.transport)
    };
    equipped(Master::new(config), dnp3)
}

fn equipped(mut master: Master, dnp3: &Dnp3Config) -> Master {
    if let Some(secure) = &dnp3.secure {
        master.set_security(master_machine(secure));
    }
    let service = |confirms: LinkConfirms| LinkService {
        confirms: true,
        timeout: confirms.timeout,
        retries: confirms.retries,
        ..LinkService::default()
    };
    master.set_link_service(dnp3.link_confirms.map(service));
    master.vary(random());
    master
}

/// The seeds of the standard library come from the system's random source.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn master_config(dnp3: &Dnp3Config, transport: &Transport) -> MasterConfig {
    let unsolicited = if dnp3.unsolicited { Classes::EVENTS } else { Classes::NONE };
    MasterConfig {
        address: dnp3.master,
        outstation: dnp3.outstation,
        response_timeout: dnp3.response_timeout,
        keep_alive: Some(dnp3.keep_alive),
        enable_unsolicited: unsolicited,
        event_poll: Classes::EVENTS,
        time_sync: match dnp3.time_sync {
            SyncConfig::Lan => TimeSync::Lan,
            SyncConfig::Delay => TimeSync::DelayMeasure,
            SyncConfig::Off => TimeSync::Never,
        },
        hold_confirm: dnp3.confirm_stored,
        lean: transport.carrier().filter(|_| dnp3.lean).map(|carrier| LeanConfig { side: transport.side(), carrier }),
        ..MasterConfig::default()
    }
}

//! What happens at an outstation, as lines of its log.

use crate::terminal;
use serde_json::{Value as Json, json};
use std::io::Write;
use tieline_core::{Now, Timestamp};
use tieline_dnp3::app::{Attribute, attribute_name};
use tieline_dnp3::outstation::{Operate, OutstationEvent};
use tieline_dnp3::secure::{AuthError, SecurityEvent};
use tieline_dnp3::{AnalogCommand, Classes, Control};
use tieline_outstation::server::{Concerned, Happening};

/// A line of the log, with the outstation and the master where there are several.
pub(super) fn tell_of(now: Now, happening: &Happening, concerned: Concerned, json: bool) {
    let mut told = describe(happening);
    for (name, address) in [("outstation", concerned.outstation), ("master", concerned.master)] {
        if let Some(address) = address {
            told[name] = address.into();
        }
    }
    // Nobody may read the log; the station goes on.
    let _ = match json {
        true => {
            told["time"] = now.utc.to_string().into();
            writeln!(std::io::stderr(), "{}", terminal::json(&told.to_string()))
        }
        false => writeln!(std::io::stderr(), "{} {}", now.utc, words(&told)),
    };
}

fn describe(happening: &Happening) -> Json {
    let event = match happening {
        Happening::Connected(peer) => return json!({ "event": "connected", "peer": peer.to_string() }),
        Happening::Disconnected(why) => return json!({ "event": "disconnected", "why": why.name() }),
        Happening::Refused(peer) => {
            return json!({ "event": "refused", "peer": peer.to_string(), "why": "two-masters" });
        }
        Happening::Event(event) => event,
    };
    match event {
        OutstationEvent::Operated { index, control, how, status } => {
            let (kind, value) = match control {
                Control::Crob(crob) => ("binary-output", json!(format!("0x{:02x}", crob.code))),
                Control::Analog(AnalogCommand::Int32(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Int16(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Float32(x)) => ("analog-output", json!(x)),
                Control::Analog(AnalogCommand::Float64(x)) => ("analog-output", json!(x)),
            };
            let how = match how {
                Operate::Selected => "selected",
                Operate::Direct => "direct",
                Operate::DirectNoAck => "direct-no-ack",
            };
            json!({ "event": "operated", "type": kind, "index": index, "value": value, "how": how, "status": status.name() })
        }
        OutstationEvent::RestartRequested { cold } => json!({ "event": "restart-requested", "cold": cold }),
        OutstationEvent::ClockSet { time } => {
            json!({ "event": "clock-set", "to": Timestamp::from(*time).to_string() })
        }
        OutstationEvent::RestartCleared => json!({ "event": "restart-cleared" }),
        OutstationEvent::UnsolicitedEnabled(classes) => {
            let known = [(Classes::CLASS_1, 1), (Classes::CLASS_2, 2), (Classes::CLASS_3, 3)];
            let classes: Vec<_> = known.iter().filter(|(one, _)| classes.contains(*one)).map(|(_, n)| n).collect();
            json!({ "event": "unsolicited-enabled", "classes": classes })
        }
        OutstationEvent::Written(measurement) => {
            json!({ "event": "written", "type": measurement.point_type.name(), "index": measurement.index })
        }
        OutstationEvent::AttributeWritten(Attribute { set, variation, value }) => {
            let name = attribute_name(*variation).filter(|_| *set == 0).unwrap_or("attribute");
            let shown = value.to_string();
            json!({ "event": "attribute-written", "set": set, "variation": variation, "name": name, "value": shown })
        }
        OutstationEvent::DeadBandsWritten => json!({ "event": "dead-bands-written" }),
        OutstationEvent::Frozen { cleared } => json!({ "event": "frozen", "cleared": cleared }),
        OutstationEvent::ClassAssigned => json!({ "event": "class-assigned" }),
        OutstationEvent::TwoMasters { kept } => {
            json!({ "event": "two-masters", "kept_ms": u64::try_from(kept.as_millis()).unwrap_or(u64::MAX) })
        }
        OutstationEvent::UnsolicitedGivenUp => json!({ "event": "unsolicited-given-up" }),
        OutstationEvent::Security(event) => describe_security(event),
    }
}

fn describe_security(event: &SecurityEvent) -> Json {
    match event {
        SecurityEvent::KeysChanged { user } => json!({ "event": "session-keys-changed", "user": user }),
        SecurityEvent::KeysLost { user } => json!({ "event": "session-keys-lost", "user": user }),
        SecurityEvent::KeyChangeFailed { user } => json!({ "event": "session-key-change-failed", "user": user }),
        SecurityEvent::Refused { user, error } => {
            json!({ "event": "authentication-refused", "user": user, "why": error.name() })
        }
        SecurityEvent::ErrorReceived { user, error } => {
            json!({ "event": "authentication-error", "user": user, "why": error.map_or("unknown", AuthError::name) })
        }
        SecurityEvent::UpdateKeyChanged { user, name, role, .. } => {
            json!({ "event": "update-key-changed", "user": user, "name": name, "role": role.name() })
        }
        SecurityEvent::UserRemoved { user } => json!({ "event": "user-removed", "user": user }),
        SecurityEvent::StatusSequence(next) => json!({ "event": "status-sequence", "next": next }),
        SecurityEvent::Statistic { statistic, count } => {
            json!({ "event": "security-statistic", "statistic": statistic.name(), "count": count })
        }
    }
}

/// The event's name, and its members as `name=value`.
fn words(told: &Json) -> String {
    let mut text = told["event"].as_str().unwrap_or_default().to_owned();
    for (name, value) in told.as_object().into_iter().flatten().filter(|(name, _)| *name != "event") {
        text.push_str(&match value.as_str() {
            Some(value) => format!(" {name}={}", terminal::one_line(value)),
            None => format!(" {name}={value}"),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_dnp3::Crob;
    use tieline_dnp3::app::CommandStatus;

    fn check(event: OutstationEvent, expect: &str) {
        assert_eq!(words(&describe(&Happening::Event(event))), expect);
    }

    #[test]
    fn events_are_told() {
        let control = Control::Crob(Crob { code: 3, count: 1, on_ms: 0, off_ms: 0 });
        let (how, status) = (Operate::Selected, CommandStatus::Success);
        let operated = OutstationEvent::Operated { index: 3, control, how, status };
        check(operated, "operated how=selected index=3 status=success type=binary-output value=0x03");
        check(OutstationEvent::UnsolicitedEnabled(Classes::EVENTS), "unsolicited-enabled classes=[1,2,3]");
        let kept = std::time::Duration::from_secs(5);
        check(OutstationEvent::TwoMasters { kept }, "two-masters kept_ms=5000");
        check(OutstationEvent::RestartRequested { cold: true }, "restart-requested cold=true");
    }
}

//! What the exit code says. `docs/cli.md` and `tieline --help` have the same table.

use std::fmt;
use std::process::ExitCode;
use tieline_client::{HttpError, MqttError, ReasonCode};

/// What became of a verb that did not do what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It failed here.
    Failed,
    /// The node or the device said no: nothing has changed.
    Refused,
    /// No node or device answers at the address: nothing was changed.
    Unreachable,
    /// It was sent, and no answer came: it may have been carried out.
    Unknown,
    /// The device accepted it, and no reading showed it in time.
    Unconfirmed,
    /// It was done, or may be done, in part only.
    Incomplete,
}

impl Exit {
    /// The number; 2 is clap's for a wrong command line.
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::Unknown => 5,
            Self::Unconfirmed => 6,
            Self::Incomplete => 7,
        }
    }

    /// What an error comes to.
    pub fn of(error: &anyhow::Error) -> Self {
        let mut causes = error.chain();
        let of = |cause: &(dyn std::error::Error + 'static)| {
            let http = cause.downcast_ref::<HttpError>().map(Self::of_http);
            let mqtt = || cause.downcast_ref::<MqttError>().map(Self::of_mqtt);
            let other = || cause.is::<Unanswered>().then_some(Self::Unreachable).or_else(|| of_fabric(cause));
            http.or_else(mqtt).or_else(other)
        };
        causes.find_map(of).unwrap_or(Self::Failed)
    }

    const fn of_http(error: &HttpError) -> Self {
        match error {
            // 421: the address is not that of an HTTP server of the node.
            HttpError::Problem { status: 421, .. } => Self::Unreachable,
            HttpError::Problem { .. } => Self::Refused,
            HttpError::Transport { maybe_done: true, .. } => Self::Unknown,
            HttpError::Transport { maybe_done: false, .. } => Self::Unreachable,
            HttpError::Json { .. } => Self::Failed,
        }
    }

    const fn of_mqtt(error: &MqttError) -> Self {
        match error {
            MqttError::Refused(ReasonCode::UseAnotherServer, _) | MqttError::Connect(_) | MqttError::Lost => {
                Self::Unreachable
            }
            MqttError::Refused(..) | MqttError::Rejected(..) | MqttError::TooLarge => Self::Refused,
            MqttError::Unknown | MqttError::NoAnswer(_) => Self::Unknown,
            MqttError::Full
            | MqttError::NoResponseTopic
            | MqttError::Closed
            | MqttError::Topic(_)
            | MqttError::Filter(_)
            | MqttError::Field(_) => Self::Failed,
        }
    }
}

#[cfg(feature = "fabric")]
fn of_fabric(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    cause.downcast_ref::<tieline_fabric::FabricError>().map(crate::fabric::exit_of)
}

#[cfg(not(feature = "fabric"))]
const fn of_fabric(_: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    None
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// No device answered: why a discovery has found nothing.
#[derive(Debug)]
pub struct Unanswered(pub String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// The table for people.
pub const TABLE: &str = "\
Exit codes:
  0  done
  1  failed
  2  a wrong command line
  3  refused by the node or the device: nothing has changed
  4  no node answers at the address: nothing was sent; no device answers (tieline discover)
  5  outcome unknown: sent, and no answer came; it may have been carried out
  6  accepted by the device, and no reading confirmed it in time (tieline command, set, revert)
  7  done in part: some points were refused (tieline set, revert), some alarms (tieline alarms ack and others); something of the input was left out (tieline import);
     a device could not be started (tieline reload); the site cannot connect yet (tieline join);
     some servers do not answer (tieline fabric status); it is allowed for some topics of a filter (tieline access test)";

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use std::io;

    fn check(error: impl Into<anyhow::Error>, expect: Exit) {
        let error = error.into();
        assert_eq!(Exit::of(&error), expect, "{error:#}");
        let deeper = Err::<(), _>(error).context("more words").unwrap_err();
        assert_eq!(Exit::of(&deeper), expect, "{deeper:#}");
    }

    #[test]
    fn errors_have_codes() {
        let problem = |status| HttpError::Problem { status, title: "no".to_owned(), detail: String::new() };
        check(problem(403), Exit::Refused);
        check(problem(503), Exit::Refused);
        check(problem(421), Exit::Unreachable);
        check(MqttError::Connect(io::ErrorKind::ConnectionRefused.into()), Exit::Unreachable);
        check(MqttError::Refused(ReasonCode::NotAuthorized, String::new()), Exit::Refused);
        check(MqttError::Refused(ReasonCode::UseAnotherServer, String::new()), Exit::Unreachable);
        check(MqttError::Rejected(ReasonCode::QuotaExceeded, String::new()), Exit::Refused);
        check(MqttError::Unknown, Exit::Unknown);
        check(Unanswered("no devices found".to_owned()), Exit::Unreachable);
        #[cfg(feature = "fabric")]
        check(tieline_fabric::FabricError::Nobody, Exit::Unreachable);
        check(anyhow!("anything else"), Exit::Failed);
    }
}

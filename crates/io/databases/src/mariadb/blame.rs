//! Who is to blame for what the client library reports.

use crate::DatabaseError;
use crate::sql::chain;
use mysql_async::{DriverError, Error};

/// Codes of errors that pass: too many connections, memory, disk, shutdown, a server that takes reads alone, locks, time.
const AWAY: [u16; 23] = [
    1021, 1030, 1037, 1038, 1040, 1041, 1047, 1053, 1114, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213, 1290, 1317,
    1836, 1927, 1969, 3024,
];
/// Codes of values that are refused: a text in a wrong encoding, a packet or a row that is too long, no partition.
const REJECTED: [u16; 5] = [1118, 1153, 1301, 1366, 1526];

/// The error of a call.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(super) fn blame(error: Error) -> DatabaseError {
    match &error {
        Error::Server(said) => of_server(said.code, &said.state, format!("{} (error {})", said.message, said.code)),
        Error::Driver(DriverError::PacketTooLarge) => {
            DatabaseError::Rejected("a value is longer than the server's max_allowed_packet".to_owned())
        }
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            DatabaseError::Refused("the server has no TLS".to_owned())
        }
        Error::Driver(
            driver @ (DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled),
        ) => DatabaseError::Refused(chain(driver)),
        Error::Driver(driver) => DatabaseError::Away(chain(driver)),
        // The library's words repeat those of the cause.
        Error::Io(io) => DatabaseError::Away(match std::error::Error::source(io) {
            Some(cause) => chain(cause),
            None => io.to_string(),
        }),
        Error::Other(_) | Error::Url(_) => DatabaseError::Refused(chain(&error)),
    }
}

fn of_server(code: u16, state: &str, words: String) -> DatabaseError {
    if AWAY.contains(&code) || state.starts_with("08") && !REJECTED.contains(&code) {
        return DatabaseError::Away(words);
    }
    if REJECTED.contains(&code) || state.starts_with("22") || state.starts_with("23") {
        return DatabaseError::Rejected(words);
    }
    DatabaseError::Refused(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_blame() {
        let check = |code: u16, state: &str, expect: fn(String) -> DatabaseError| {
            assert_eq!(of_server(code, state, "x".to_owned()), expect("x".to_owned()), "{code}");
        };
        check(1045, "28000", DatabaseError::Refused);
        check(1142, "42000", DatabaseError::Refused);
        check(1040, "08004", DatabaseError::Away);
        check(1205, "HY000", DatabaseError::Away);
        check(1290, "HY000", DatabaseError::Away);
        check(1927, "70100", DatabaseError::Away);
        check(1153, "08S01", DatabaseError::Rejected);
        check(1366, "22007", DatabaseError::Rejected);
        check(1264, "22003", DatabaseError::Rejected);
        check(1062, "23000", DatabaseError::Rejected);
    }
}

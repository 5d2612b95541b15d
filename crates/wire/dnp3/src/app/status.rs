//! Control status codes (IEEE 1815 A.8 and A.27: the last byte of every control object).

use crate::codes::codes;

codes! {
    /// What became of one control object.
    CommandStatus u8 {
        0 Success "success" "done, or ready to be done";
        1 Timeout "timeout" "the selection had expired";
        2 NoSelect "no_select" "nothing matching was selected";
        3 FormatError "format_error" "the request is malformed";
        4 NotSupported "not_supported" "the point cannot do this";
        5 AlreadyActive "already_active" "the point is already in this state or busy";
        6 HardwareError "hardware_error" "the hardware failed";
        7 Local "local" "a local switch blocks remote control";
        8 TooManyOps "too_many_ops" "more objects than one request may operate";
        9 NotAuthorized "not_authorized" "the sender may not do this";
        10 AutomationInhibit "automation_inhibit" "a local automation process blocks it";
        11 ProcessingLimited "processing_limited" "the device is too busy";
        12 OutOfRange "out_of_range" "the value is beyond the point's range";
        13 DownstreamLocal "downstream_local" "a device further down is in local mode";
        14 AlreadyComplete "already_complete" "the point is already in the state asked for";
        15 Blocked "blocked" "an interlock blocks it";
        16 Cancelled "cancelled" "it was cancelled while it ran";
        17 BlockedOtherMaster "blocked_other_master" "another master holds the point";
        18 DownstreamFail "downstream_fail" "a device further down failed";
        126 NonParticipating "non_participating" "the device does not take part";
        127 Undefined "undefined" "no other status fits";
    }
}

impl CommandStatus {
    /// The status of a byte: bit 7 is reserved and not looked at; reserved codes are
    /// [`CommandStatus::Undefined`].
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match Self::from_code(byte & 0x7F) {
            Some(status) => status,
            None => Self::Undefined,
        }
    }
}

impl core::fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_reserved_codes_are_undefined() {
        for byte in 0..=127 {
            let status = CommandStatus::from_byte(byte);
            assert!(status.code() == byte || status == CommandStatus::Undefined, "{byte}");
            assert_eq!(CommandStatus::from_byte(byte | 0x80), status);
        }
        assert_eq!(CommandStatus::from_byte(19), CommandStatus::Undefined);
        assert_eq!(CommandStatus::from_byte(18).name(), "downstream_fail");
    }
}

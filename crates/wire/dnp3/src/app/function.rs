//! Application function codes (IEEE 1815 4.2.2.5, table 4-1).

use crate::codes::codes;

codes! {
    /// What a fragment asks or answers.
    Function u8 {
        0 Confirm "confirm" "Confirms a response";
        1 Read "read" "Asks for objects";
        2 Write "write" "Sets objects";
        3 Select "select" "Prepares outputs";
        4 Operate "operate" "Operates selected outputs";
        5 DirectOperate "direct-operate" "Operates outputs at once";
        6 DirectOperateNoResponse "direct-operate-no-response" "Operates outputs at once, without an answer";
        7 ImmediateFreeze "immediate-freeze" "Freezes counters";
        8 ImmediateFreezeNoResponse "immediate-freeze-no-response" "Freezes counters, without an answer";
        9 FreezeClear "freeze-clear" "Freezes and clears counters";
        10 FreezeClearNoResponse "freeze-clear-no-response" "Freezes and clears counters, without an answer";
        11 FreezeAtTime "freeze-at-time" "Freezes counters at a time";
        12 FreezeAtTimeNoResponse "freeze-at-time-no-response" "Freezes counters at a time, without an answer";
        13 ColdRestart "cold-restart" "Restarts the device";
        14 WarmRestart "warm-restart" "Restarts the application";
        15 InitializeData "initialize-data" "Obsolete";
        16 InitializeApplication "initialize-application" "Makes applications ready";
        17 StartApplication "start-application" "Starts applications";
        18 StopApplication "stop-application" "Stops applications";
        19 SaveConfiguration "save-configuration" "Deprecated";
        20 EnableUnsolicited "enable-unsolicited" "Lets classes report by themselves";
        21 DisableUnsolicited "disable-unsolicited" "Keeps classes from reporting by themselves";
        22 AssignClass "assign-class" "Puts points into event classes";
        23 DelayMeasure "delay-measure" "Asks how long an answer takes";
        24 RecordCurrentTime "record-current-time" "Notes when the request arrived";
        25 OpenFile "open-file" "Opens a file";
        26 CloseFile "close-file" "Closes a file";
        27 DeleteFile "delete-file" "Deletes a file";
        28 FileInfo "file-info" "Asks about a file";
        29 AuthenticateFile "authenticate-file" "Asks for a key to files";
        30 AbortFile "abort-file" "Ends a transfer";
        31 ActivateConfiguration "activate-configuration" "Makes a configuration effective";
        32 AuthenticationRequest "authentication-request" "Carries secure authentication";
        33 AuthenticationRequestNoResponse "authentication-request-no-response" "Carries secure authentication, without an answer";
        129 Response "response" "Answers a request";
        130 UnsolicitedResponse "unsolicited-response" "Reports without a request";
        131 AuthenticationResponse "authentication-response" "Answers with secure authentication";
    }
}

impl Function {
    /// Whether an outstation sends it: internal indications follow the code.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(self, Self::Response | Self::UnsolicitedResponse | Self::AuthenticationResponse)
    }

    /// Whether an outstation must not answer it.
    #[must_use]
    pub const fn is_unanswered(self) -> bool {
        matches!(
            self,
            Self::Confirm
                | Self::DirectOperateNoResponse
                | Self::ImmediateFreezeNoResponse
                | Self::FreezeClearNoResponse
                | Self::FreezeAtTimeNoResponse
                | Self::AuthenticationRequestNoResponse
        )
    }

    /// Whether its object headers name objects without bringing them.
    #[must_use]
    pub const fn names_objects_only(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::ImmediateFreeze
                | Self::ImmediateFreezeNoResponse
                | Self::FreezeClear
                | Self::FreezeClearNoResponse
                | Self::FreezeAtTime
                | Self::FreezeAtTimeNoResponse
                | Self::EnableUnsolicited
                | Self::DisableUnsolicited
                | Self::AssignClass
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        let known = (0..=u8::MAX).filter_map(|code| Function::from_code(code).map(|function| (code, function)));
        let mut count = 0;
        for (code, function) in known {
            assert_eq!(function.code(), code);
            count += 1;
        }
        assert_eq!(count, 37);
    }
}

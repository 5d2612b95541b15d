//! Object types (clause 21, `BACnetObjectType`).

use super::names;

names! {
    /// What an object is: 10 bits, those from 128 on are the vendor's.
    ObjectType u16 "object type" {
        0 "analog-input" ANALOG_INPUT;
        1 "analog-output" ANALOG_OUTPUT;
        2 "analog-value" ANALOG_VALUE;
        3 "binary-input" BINARY_INPUT;
        4 "binary-output" BINARY_OUTPUT;
        5 "binary-value" BINARY_VALUE;
        6 "calendar";
        7 "command";
        8 "device" DEVICE;
        9 "event-enrollment";
        10 "file";
        11 "group";
        12 "loop";
        13 "multi-state-input" MULTI_STATE_INPUT;
        14 "multi-state-output" MULTI_STATE_OUTPUT;
        15 "notification-class";
        16 "program";
        17 "schedule";
        18 "averaging";
        19 "multi-state-value" MULTI_STATE_VALUE;
        20 "trend-log" TREND_LOG;
        21 "life-safety-point";
        22 "life-safety-zone";
        23 "accumulator";
        24 "pulse-converter";
        25 "event-log";
        26 "global-group";
        27 "trend-log-multiple" TREND_LOG_MULTIPLE;
        28 "load-control";
        29 "structured-view";
        30 "access-door";
        31 "timer";
        32 "access-credential";
        33 "access-point";
        34 "access-rights";
        35 "access-user";
        36 "access-zone";
        37 "credential-data-input";
        38 "network-security";
        39 "bitstring-value";
        40 "characterstring-value";
        41 "datepattern-value";
        42 "date-value";
        43 "datetimepattern-value";
        44 "datetime-value";
        45 "integer-value";
        46 "large-analog-value";
        47 "octetstring-value";
        48 "positive-integer-value";
        49 "timepattern-value";
        50 "time-value";
        51 "notification-forwarder";
        52 "alert-enrollment";
        53 "channel";
        54 "lighting-output";
        55 "binary-lighting-output";
        56 "network-port";
        57 "elevator-group";
        58 "escalator";
        59 "lift";
        60 "staging";
        61 "audit-log";
        62 "audit-reporter";
        63 "color";
        64 "color-temperature";
    }
}

impl ObjectType {
    /// Whether objects of the type have a priority array whatever the device (clauses 12.3, 12.7, 12.19 and others).
    #[must_use]
    pub const fn is_output(self) -> bool {
        matches!(self, Self::ANALOG_OUTPUT | Self::BINARY_OUTPUT | Self::MULTI_STATE_OUTPUT)
    }

    /// Whether it is one of the analog input, output and value.
    #[must_use]
    pub const fn is_analog(self) -> bool {
        matches!(self, Self::ANALOG_INPUT | Self::ANALOG_OUTPUT | Self::ANALOG_VALUE)
    }

    /// Whether it is one of the binary input, output and value.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::BINARY_INPUT | Self::BINARY_OUTPUT | Self::BINARY_VALUE)
    }

    /// Whether it is one of the multi-state input, output and value.
    #[must_use]
    pub const fn is_multi_state(self) -> bool {
        matches!(self, Self::MULTI_STATE_INPUT | Self::MULTI_STATE_OUTPUT | Self::MULTI_STATE_VALUE)
    }
}

//! Services and small enumerations (clause 21).

use super::names;

names! {
    /// A service that is answered.
    ConfirmedService u8 "confirmed service" {
        0 "acknowledge-alarm";
        1 "confirmed-cov-notification" COV_NOTIFICATION;
        2 "confirmed-event-notification";
        3 "get-alarm-summary";
        4 "get-enrollment-summary";
        5 "subscribe-cov" SUBSCRIBE_COV;
        6 "atomic-read-file";
        7 "atomic-write-file";
        8 "add-list-element";
        9 "remove-list-element";
        10 "create-object";
        11 "delete-object";
        12 "read-property" READ_PROPERTY;
        14 "read-property-multiple" READ_PROPERTY_MULTIPLE;
        15 "write-property" WRITE_PROPERTY;
        16 "write-property-multiple" WRITE_PROPERTY_MULTIPLE;
        17 "device-communication-control";
        18 "confirmed-private-transfer";
        19 "confirmed-text-message";
        20 "reinitialize-device";
        21 "vt-open";
        22 "vt-close";
        23 "vt-data";
        26 "read-range" READ_RANGE;
        27 "life-safety-operation";
        28 "subscribe-cov-property";
        29 "get-event-information";
        30 "subscribe-cov-property-multiple";
        31 "confirmed-cov-notification-multiple";
        32 "confirmed-audit-notification";
        33 "audit-log-query";
    }
}

names! {
    /// A service that is not answered.
    UnconfirmedService u8 "unconfirmed service" {
        0 "i-am" I_AM;
        1 "i-have" I_HAVE;
        2 "unconfirmed-cov-notification" COV_NOTIFICATION;
        3 "unconfirmed-event-notification";
        4 "unconfirmed-private-transfer";
        5 "unconfirmed-text-message";
        6 "time-synchronization" TIME_SYNCHRONIZATION;
        7 "who-has" WHO_HAS;
        8 "who-is" WHO_IS;
        9 "utc-time-synchronization" UTC_TIME_SYNCHRONIZATION;
        10 "write-group";
        11 "unconfirmed-cov-notification-multiple";
        12 "unconfirmed-audit-notification";
        13 "who-am-i";
        14 "you-are";
    }
}

names! {
    /// Which direction of segments a device supports.
    Segmentation u32 "segmentation" {
        0 "segmented-both" BOTH;
        1 "segmented-transmit" TRANSMIT;
        2 "segmented-receive" RECEIVE;
        3 "no-segmentation" NONE;
    }
}

impl Segmentation {
    /// Whether the device sends segmented answers.
    #[must_use]
    pub const fn transmits(self) -> bool {
        matches!(self, Self::BOTH | Self::TRANSMIT)
    }

    /// Whether the device takes segmented requests.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::BOTH | Self::RECEIVE)
    }
}

names! {
    /// How far a value can be trusted, and why not (property `reliability`).
    Reliability u32 "reliability" {
        0 "no-fault-detected" NO_FAULT_DETECTED;
        1 "no-sensor";
        2 "over-range";
        3 "under-range";
        4 "open-loop";
        5 "shorted-loop";
        6 "no-output";
        7 "unreliable-other" UNRELIABLE_OTHER;
        8 "process-error";
        9 "multi-state-fault";
        10 "configuration-error";
        12 "communication-failure" COMMUNICATION_FAILURE;
        13 "member-fault";
        14 "monitored-object-fault";
        15 "tripped";
        16 "lamp-failure";
        17 "activation-failure";
        18 "renew-dhcp-failure";
        19 "renew-fd-registration-failure";
        20 "restart-auto-negotiation-failure";
        21 "restart-failure";
        22 "proprietary-command-failure";
        23 "faults-listed";
        24 "referenced-object-fault";
    }
}

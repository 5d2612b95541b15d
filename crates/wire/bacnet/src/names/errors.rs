//! Why a request failed: error class and code (clause 18), reject reason, abort reason.

use super::names;

names! {
    /// What an error is about.
    ErrorClass u32 "error class" {
        0 "device" DEVICE;
        1 "object" OBJECT;
        2 "property" PROPERTY;
        3 "resources" RESOURCES;
        4 "security" SECURITY;
        5 "services" SERVICES;
        6 "vt";
        7 "communication" COMMUNICATION;
    }
}

names! {
    /// What went wrong.
    ErrorCode u32 "error code" {
        0 "other" OTHER;
        1 "authentication-failed";
        2 "configuration-in-progress";
        3 "device-busy" DEVICE_BUSY;
        4 "dynamic-creation-not-supported";
        5 "file-access-denied";
        6 "incompatible-security-levels";
        7 "inconsistent-parameters" INCONSISTENT_PARAMETERS;
        8 "inconsistent-selection-criterion";
        9 "invalid-data-type" INVALID_DATA_TYPE;
        10 "invalid-file-access-method";
        11 "invalid-file-start-position";
        12 "invalid-operator-name";
        13 "invalid-parameter-data-type";
        14 "invalid-time-stamp";
        15 "key-generation-error";
        16 "missing-required-parameter";
        17 "no-objects-of-specified-type";
        18 "no-space-for-object";
        19 "no-space-to-add-list-element" NO_SPACE_TO_ADD_LIST_ELEMENT;
        20 "no-space-to-write-property";
        21 "no-vt-sessions-available";
        22 "property-is-not-a-list" PROPERTY_IS_NOT_A_LIST;
        23 "object-deletion-not-permitted";
        24 "object-identifier-already-exists";
        25 "operational-problem";
        26 "password-failure";
        27 "read-access-denied" READ_ACCESS_DENIED;
        28 "security-not-supported";
        29 "service-request-denied" SERVICE_REQUEST_DENIED;
        30 "timeout" TIMEOUT;
        31 "unknown-object" UNKNOWN_OBJECT;
        32 "unknown-property" UNKNOWN_PROPERTY;
        34 "unknown-vt-class";
        35 "unknown-vt-session";
        36 "unsupported-object-type" UNSUPPORTED_OBJECT_TYPE;
        37 "value-out-of-range" VALUE_OUT_OF_RANGE;
        38 "vt-session-already-closed";
        39 "vt-session-termination-failure";
        40 "write-access-denied" WRITE_ACCESS_DENIED;
        41 "character-set-not-supported";
        42 "invalid-array-index" INVALID_ARRAY_INDEX;
        43 "cov-subscription-failed" COV_SUBSCRIPTION_FAILED;
        44 "not-cov-property" NOT_COV_PROPERTY;
        45 "optional-functionality-not-supported" OPTIONAL_FUNCTIONALITY_NOT_SUPPORTED;
        46 "invalid-configuration-data";
        47 "datatype-not-supported";
        48 "duplicate-name";
        49 "duplicate-object-id";
        50 "property-is-not-an-array" PROPERTY_IS_NOT_AN_ARRAY;
        51 "abort-buffer-overflow";
        52 "abort-invalid-apdu-in-this-state";
        53 "abort-preempted-by-higher-priority-task";
        54 "abort-segmentation-not-supported";
        55 "abort-proprietary";
        56 "abort-other";
        57 "invalid-tag";
        58 "network-down";
        59 "reject-buffer-overflow";
        60 "reject-inconsistent-parameters";
        61 "reject-invalid-parameter-data-type";
        62 "reject-invalid-tag";
        63 "reject-missing-required-parameter";
        64 "reject-parameter-out-of-range";
        65 "reject-too-many-arguments";
        66 "reject-undefined-enumeration";
        67 "reject-unrecognized-service";
        68 "reject-proprietary";
        69 "reject-other";
        70 "unknown-device";
        71 "unknown-route";
        72 "value-not-initialized";
        73 "invalid-event-state";
        74 "no-alarm-configured";
        75 "log-buffer-full";
        76 "logged-value-purged";
        77 "no-property-specified";
        78 "not-configured-for-triggered-logging";
        79 "unknown-subscription" UNKNOWN_SUBSCRIPTION;
        80 "parameter-out-of-range" PARAMETER_OUT_OF_RANGE;
        81 "list-element-not-found";
        82 "busy";
        83 "communication-disabled";
        84 "success";
        85 "access-denied";
        86 "bad-destination-address";
        87 "bad-destination-device-id";
        88 "bad-signature";
        89 "bad-source-address";
        90 "bad-timestamp";
        110 "not-router-to-dnet";
        113 "message-too-long";
        115 "addressing-error";
        123 "abort-apdu-too-long";
        124 "abort-application-exceeded-reply-time";
        125 "abort-out-of-resources";
        126 "abort-tsm-timeout";
        127 "abort-window-size-out-of-range";
        128 "file-full";
        129 "inconsistent-configuration";
        130 "inconsistent-object-type";
        131 "internal-error";
        132 "not-configured";
        133 "out-of-memory";
        135 "abort-insufficient-security";
        136 "abort-security-error";
        137 "duplicate-entry";
        138 "invalid-value-in-this-state";
        139 "invalid-operation-in-this-state";
        140 "list-item-not-numbered";
        141 "list-item-not-timestamped";
        142 "invalid-data-encoding";
        143 "bvlc-function-unknown" BVLC_FUNCTION_UNKNOWN;
        144 "bvlc-proprietary-function-unknown" BVLC_PROPRIETARY_FUNCTION_UNKNOWN;
        145 "header-encoding-error" HEADER_ENCODING_ERROR;
        146 "header-not-understood" HEADER_NOT_UNDERSTOOD;
        147 "message-incomplete" MESSAGE_INCOMPLETE;
        148 "not-a-bacnet-sc-hub" NOT_A_BACNET_SC_HUB;
        149 "payload-expected" PAYLOAD_EXPECTED;
        150 "unexpected-data" UNEXPECTED_DATA;
        151 "node-duplicate-vmac" NODE_DUPLICATE_VMAC;
    }
}

names! {
    /// Why a request was not understood (clause 18.8).
    RejectReason u8 "reject reason" {
        0 "other" OTHER;
        1 "buffer-overflow" BUFFER_OVERFLOW;
        2 "inconsistent-parameters" INCONSISTENT_PARAMETERS;
        3 "invalid-parameter-data-type" INVALID_PARAMETER_DATA_TYPE;
        4 "invalid-tag" INVALID_TAG;
        5 "missing-required-parameter" MISSING_REQUIRED_PARAMETER;
        6 "parameter-out-of-range" PARAMETER_OUT_OF_RANGE;
        7 "too-many-arguments" TOO_MANY_ARGUMENTS;
        8 "undefined-enumeration" UNDEFINED_ENUMERATION;
        9 "unrecognized-service" UNRECOGNIZED_SERVICE;
    }
}

names! {
    /// Why a transaction was given up (clause 18.9).
    AbortReason u8 "abort reason" {
        0 "other" OTHER;
        1 "buffer-overflow" BUFFER_OVERFLOW;
        2 "invalid-apdu-in-this-state" INVALID_APDU_IN_THIS_STATE;
        3 "preempted-by-higher-priority-task" PREEMPTED;
        4 "segmentation-not-supported" SEGMENTATION_NOT_SUPPORTED;
        5 "security-error";
        6 "insufficient-security";
        7 "window-size-out-of-range" WINDOW_SIZE_OUT_OF_RANGE;
        8 "application-exceeded-reply-time" APPLICATION_EXCEEDED_REPLY_TIME;
        9 "out-of-resources" OUT_OF_RESOURCES;
        10 "tsm-timeout" TSM_TIMEOUT;
        11 "apdu-too-long" APDU_TOO_LONG;
    }
}

//! The paths, in the order in which data go through a node.

use crate::meter::HotPath;
use crate::{bacnet, bus, delta, dnp3, goose, kept, modbus, mqtt, poll, seal, series, topics};

/// All of them. A count is of some ten million instructions: more is slow, fewer do not even out.
pub const PATHS: &[HotPath] = &[
    HotPath {
        name: "dnp3-encode-report",
        times: 100,
        what: "an outstation takes 100 new analog values and writes its report",
        prepare: dnp3::encode_report,
    },
    HotPath {
        name: "dnp3-decode-report",
        times: 100,
        what: "a master reads that report: link frames, segments, 100 values",
        prepare: dnp3::decode_report,
    },
    HotPath {
        name: "dnp3-link-frame",
        times: 1000,
        what: "a link frame of 292 bytes is found and its 17 checks are compared",
        prepare: dnp3::link_frame,
    },
    HotPath {
        name: "modbus-read",
        times: 1000,
        what: "a client asks for 18 registers and reads the answer",
        prepare: modbus::read,
    },
    HotPath {
        name: "modbus-session-read",
        times: 1000,
        what: "a session reads an answer of 18 registers and writes the next request",
        prepare: modbus::session_read,
    },
    HotPath {
        name: "bacnet-read",
        times: 100,
        what: "a device is asked for 18 values with status flags at once, and the answer is read",
        prepare: bacnet::read,
    },
    HotPath {
        name: "goose-read",
        times: 1000,
        what: "a frame with 16 changed values is read, and a subscription takes it",
        prepare: goose::read,
    },
    HotPath {
        name: "poll-round",
        times: 100,
        what: "a device of 18 points is due and read, and its updates are taken",
        prepare: poll::round,
    },
    HotPath {
        name: "mqtt-read-publish",
        times: 1000,
        what: "a server's session reads a PUBLISH of 950 bytes",
        prepare: mqtt::read_publish,
    },
    HotPath {
        name: "mqtt-write-publish",
        times: 1000,
        what: "the same message is written for subscribers",
        prepare: mqtt::write_publish,
    },
    HotPath {
        name: "bus-publish-100",
        times: 100,
        what: "a value of 950 bytes goes through a whole bus to 100 subscribers",
        prepare: bus::publish,
    },
    HotPath {
        name: "bus-publish-100-rules",
        times: 100,
        what: "the same where access rules say what 100 subscribers of one role may read",
        prepare: bus::publish_by_rules,
    },
    HotPath {
        name: "bus-publish-100-alone",
        times: 100,
        what: "the same without rules where the bus has the sockets itself",
        prepare: bus::publish_alone,
    },
    HotPath {
        name: "bus-session",
        times: 100,
        what: "a subscriber connects, subscribes, unsubscribes and leaves",
        prepare: bus::session,
    },
    HotPath {
        name: "topics-known",
        times: 1000,
        what: "an update of a known topic finds its 100 subscribers in ten wildcard filters",
        prepare: topics::known,
    },
    HotPath {
        name: "topics-new",
        times: 1000,
        what: "a new topic is matched with 1000 wildcard filters",
        prepare: topics::new,
    },
    HotPath {
        name: "delta-make",
        times: 1000,
        what: "what changed in a value of 950 bytes, three numbers and a time",
        prepare: delta::make,
    },
    HotPath { name: "delta-apply", times: 1000, what: "that change is applied", prepare: delta::apply },
    HotPath {
        name: "delta-point",
        times: 1000,
        what: "a point's new value becomes a delta",
        prepare: delta::point_delta,
    },
    HotPath { name: "point-json", times: 1000, what: "a point is written as JSON and read", prepare: delta::json },
    HotPath { name: "point-read", times: 1000, what: "the payload of a client is a point", prepare: delta::read_point },
    HotPath {
        name: "point-read-other",
        times: 1000,
        what: "a payload of 950 bytes, an object of JSON, is none",
        prepare: delta::read_other,
    },
    HotPath {
        name: "journal-append",
        times: 100,
        what: "100 samples become a record, which the journal writes and syncs in memory",
        prepare: kept::journal,
    },
    HotPath {
        name: "ledger-record",
        times: 1000,
        what: "a last value, an owed message and its end are written and read",
        prepare: kept::ledger,
    },
    HotPath {
        name: "series-write",
        times: 3,
        what: "four columns of 3600 samples become chunks",
        prepare: series::write,
    },
    HotPath { name: "series-read", times: 3, what: "the samples of these chunks are read", prepare: series::read },
    HotPath {
        name: "seal-batch",
        times: 20,
        what: "eight messages of 2 KiB are packed; RSA is left out",
        prepare: seal::pack_batch,
    },
    HotPath {
        name: "open-batch",
        times: 20,
        what: "the same eight messages are unpacked; RSA is left out",
        prepare: seal::unpack_batch,
    },
];

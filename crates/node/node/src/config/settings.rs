//! Written by `cargo xtask gen` from crates/node/node/src/config/settings.toml: change that file.

use tieline_service::setting::{Choice, Count, Flag, NoDefault, Number, Size, Span, Text};

/// `node.name`.
pub const NODE_NAME: Text = Text::new("name", "tieline");
/// `node.workers`.
pub const NODE_WORKERS: Count = Count::new("workers", 0, 0, 1024);
/// `node.insecure_network`.
pub const NODE_INSECURE_NETWORK: Flag = Flag::new("insecure_network", false);
/// `http.listen`.
pub const HTTP_LISTEN: Text = Text::new("listen", "127.0.0.1:8080");
/// `http.forwarded_header`.
pub const HTTP_FORWARDED_HEADER: Choice<2> = Choice::new("forwarded_header", ["x-forwarded-for", "forwarded"], 0);
/// `mqtt.listen`.
pub const MQTT_LISTEN: Text = Text::new("listen", "127.0.0.1:1883");
/// `mqtt.sessions_max`.
pub const MQTT_SESSIONS_MAX: Count = Count::new("sessions_max", 10_000, 1, 2_000_000);
/// `mqtt.packet_bytes_max`.
pub const MQTT_PACKET_BYTES_MAX: Size = Size::new("packet_bytes_max", 1 << 20, 1 << 10, 256 << 20);
/// `mqtt.queue_bytes_max`.
pub const MQTT_QUEUE_BYTES_MAX: Size = Size::new("queue_bytes_max", 1 << 20, 4 << 10, 1 << 30);
/// `mqtt.topics_max`.
pub const MQTT_TOPICS_MAX: Count = Count::new("topics_max", 1_000_000, 1, 100_000_000);
/// `mqtt.values_bytes_max`.
pub const MQTT_VALUES_BYTES_MAX: Size = Size::new("values_bytes_max", 1 << 30, 1 << 20, 1 << 40);
/// `mqtt.series_bytes_max`.
pub const MQTT_SERIES_BYTES_MAX: Size = Size::new("series_bytes_max", 256 << 20, 4 << 10, 1 << 40);
/// `mqtt.session_expiry_max`.
pub const MQTT_SESSION_EXPIRY_MAX: Span = Span::new("session_expiry_max", 604_800_000, 0, 3_153_600_000_000);
/// `mqtt.away_sessions_max`.
pub const MQTT_AWAY_SESSIONS_MAX: Count = Count::new("away_sessions_max", 10_000, 0, 1_000_000);
/// `mqtt.away_messages_max`.
pub const MQTT_AWAY_MESSAGES_MAX: Count = Count::new("away_messages_max", 10_000, 1, 1_000_000);
/// `mqtt.away_queue_bytes_max`.
pub const MQTT_AWAY_QUEUE_BYTES_MAX: Size = Size::new("away_queue_bytes_max", 16 << 20, 4 << 10, 1 << 30);
/// `mqtt.away_bytes_max`.
pub const MQTT_AWAY_BYTES_MAX: Size = Size::new("away_bytes_max", 256 << 20, 4 << 10, 1 << 40);
/// `mqtt.keep_alive_max`.
pub const MQTT_KEEP_ALIVE_MAX: Span = Span::or_zero("keep_alive_max", 0, 1000, 64_800_000);
/// `mqtt.durability`.
pub const MQTT_DURABILITY: Choice<3> = Choice::new("durability", ["synced", "written", "memory"], 0);
/// `mqtt.ledger_bytes_max`.
pub const MQTT_LEDGER_BYTES_MAX: Size = Size::new("ledger_bytes_max", 1 << 30, 1 << 20, 1 << 40);
/// `mqtt.tls.sessions_max`.
pub const MQTT_TLS_SESSIONS_MAX: NoDefault<Count> = NoDefault::new(Count::new("sessions_max", 1, 1, 1_000_000));
/// `mqtt.websocket.sessions_max`.
pub const MQTT_WEBSOCKET_SESSIONS_MAX: NoDefault<Count> = NoDefault::new(Count::new("sessions_max", 1, 1, 1_000_000));
/// `mqtt.sys_interval`.
pub const MQTT_SYS_INTERVAL: Span = Span::or_zero("sys_interval", 10_000, 1000, 86_400_000);
/// `access.loopback`.
pub const ACCESS_LOOPBACK: Choice<2> = Choice::new("loopback", ["open", "closed"], 0);
/// `access.password_length_min`.
pub const ACCESS_PASSWORD_LENGTH_MIN: Count = Count::new("password_length_min", 12, 8, 128);
/// `access.user_sessions_max`.
pub const ACCESS_USER_SESSIONS_MAX: Count = Count::new("user_sessions_max", 5000, 0, 1_000_000);
/// `access.messages_per_s`.
pub const ACCESS_MESSAGES_PER_S: Count = Count::new("messages_per_s", 0, 0, 10_000_000);
/// `access.bytes_per_s`.
pub const ACCESS_BYTES_PER_S: Size = Size::new("bytes_per_s", 0, 0, 2 << 30);
/// `access.subscriptions_max`.
pub const ACCESS_SUBSCRIPTIONS_MAX: Count = Count::new("subscriptions_max", 0, 0, 1_000_000);
/// `access.login_idle`.
pub const ACCESS_LOGIN_IDLE: Span = Span::new("login_idle", 1_800_000, 60_000, 604_800_000);
/// `access.login_max`.
pub const ACCESS_LOGIN_MAX: Span = Span::new("login_max", 43_200_000, 60_000, 2_592_000_000);
/// `access.jwt.leeway`.
pub const ACCESS_JWT_LEEWAY: Span = Span::new("leeway", 60_000, 0, 3_600_000);
/// `access.oidc.timeout`.
pub const ACCESS_OIDC_TIMEOUT: Span = Span::new("timeout", 5000, 1000, 60_000);
/// `audit.file_bytes_max`.
pub const AUDIT_FILE_BYTES_MAX: Size = Size::new("file_bytes_max", 16 << 20, 64 << 10, 256 << 20);
/// `audit.file_age_max`.
pub const AUDIT_FILE_AGE_MAX: Span = Span::new("file_age_max", 2_592_000_000, 3_600_000, 315_360_000_000);
/// `audit.bytes_max`.
pub const AUDIT_BYTES_MAX: Size = Size::new("bytes_max", 4 << 30, 1 << 20, 1 << 40);
/// `history.enabled`.
pub const HISTORY_ENABLED: Flag = Flag::new("enabled", true);
/// `history.durability`.
pub const HISTORY_DURABILITY: Choice<2> = Choice::new("durability", ["synced", "written"], 0);
/// `history.journal_bytes_max`.
pub const HISTORY_JOURNAL_BYTES_MAX: Size = Size::new("journal_bytes_max", 1 << 30, 1 << 20, 1 << 40);
/// `history.keep`.
pub const HISTORY_KEEP: Span = Span::new("keep", 7_776_000_000, 60_000, 3_153_600_000_000);
/// `history.store_bytes_max`.
pub const HISTORY_STORE_BYTES_MAX: Size = Size::new("store_bytes_max", 16 << 30, 1 << 20, 1 << 50);
/// `history.memory_bytes_max`.
pub const HISTORY_MEMORY_BYTES_MAX: Size = Size::new("memory_bytes_max", 64 << 20, 1 << 20, 64 << 30);
/// `history.edits_max`.
pub const HISTORY_EDITS_MAX: Count = Count::new("edits_max", 100_000, 1, 1_000_000);
/// `history.edits_per_topic_max`.
pub const HISTORY_EDITS_PER_TOPIC_MAX: Count = Count::new("edits_per_topic_max", 10_000, 1, 1_000_000);
/// `history.databases_bytes_max`.
pub const HISTORY_DATABASES_BYTES_MAX: Size = Size::new("databases_bytes_max", 8 << 30, 1 << 20, 1 << 50);
/// `history.retention.keep`.
pub const HISTORY_RETENTION_KEEP: NoDefault<Span> =
    NoDefault::new(Span::new("keep", 60_000, 60_000, 3_153_600_000_000));
/// `history.retention.downsample.after`.
pub const HISTORY_RETENTION_DOWNSAMPLE_AFTER: NoDefault<Span> =
    NoDefault::new(Span::new("after", 3_600_000, 3_600_000, 3_153_600_000_000));
/// `history.retention.downsample.every`.
pub const HISTORY_RETENTION_DOWNSAMPLE_EVERY: NoDefault<Span> =
    NoDefault::new(Span::new("every", 1000, 1000, 86_400_000));
/// `history.retention.downsample.aggregate`.
pub const HISTORY_RETENTION_DOWNSAMPLE_AGGREGATE: Choice<3> = Choice::new("aggregate", ["mean", "last", "extremes"], 0);
/// `history.database.NAME.batch_rows`.
pub const HISTORY_DATABASE_BATCH_ROWS: NoDefault<Count> = NoDefault::new(Count::new("batch_rows", 500, 500, 200_000));
/// `history.database.NAME.every`.
pub const HISTORY_DATABASE_EVERY: Span = Span::new("every", 1000, 10, 3_600_000);
/// `history.database.NAME.timeout`.
pub const HISTORY_DATABASE_TIMEOUT: Span = Span::new("timeout", 30_000, 1000, 600_000);
/// `history.database.NAME.index`.
pub const HISTORY_DATABASE_INDEX: Choice<3> = Choice::new("index", ["btree", "brin", "none"], 0);
/// `history.database.NAME.tls`.
pub const HISTORY_DATABASE_TLS: Flag = Flag::new("tls", false);
/// `notify.NAME.tls`.
pub const NOTIFY_TLS: Choice<3> = Choice::new("tls", ["starttls", "tls", "none"], 0);
/// `notify.NAME.allow_own`.
pub const NOTIFY_ALLOW_OWN: Flag = Flag::new("allow_own", false);
/// `notify.NAME.heartbeat`.
pub const NOTIFY_HEARTBEAT: Span = Span::or_zero("heartbeat", 0, 10_000, 3_600_000);
/// `notify.route.group_wait`.
pub const NOTIFY_ROUTE_GROUP_WAIT: Span = Span::new("group_wait", 5000, 0, 3_600_000);
/// `notify.route.repeat`.
pub const NOTIFY_ROUTE_REPEAT: Span = Span::or_zero("repeat", 14_400_000, 10_000, 2_592_000_000);
/// `notify.route.steps.after`.
pub const NOTIFY_ROUTE_STEPS_AFTER: Span = Span::new("after", 0, 0, 2_592_000_000);
/// `edge.linger`.
pub const EDGE_LINGER: Span = Span::new("linger", 10_000, 100, 3_600_000);
/// `edge.retry_max`.
pub const EDGE_RETRY_MAX: Span = Span::new("retry_max", 8000, 100, 600_000);
/// `edge.window`.
pub const EDGE_WINDOW: Span = Span::new("window", 0, 0, 100);
/// `edge.silence`.
pub const EDGE_SILENCE: Span = Span::new("silence", 10_000, 2000, 600_000);
/// `fabric.clock_offset_max`.
pub const FABRIC_CLOCK_OFFSET_MAX: Span = Span::new("clock_offset_max", 1000, 10, 3_600_000);
/// `site.waiting_bytes_max`.
pub const SITE_WAITING_BYTES_MAX: Size = Size::new("waiting_bytes_max", 8 << 30, 1 << 20, 1 << 50);
/// `site.events_bytes_max`.
pub const SITE_EVENTS_BYTES_MAX: Size = Size::new("events_bytes_max", 4 << 20, 64 << 10, 256 << 20);
/// `cluster.stream_bytes_max`.
pub const CLUSTER_STREAM_BYTES_MAX: Size = Size::new("stream_bytes_max", 2 << 30, 64 << 20, 1 << 50);
/// `cluster.silence`.
pub const CLUSTER_SILENCE: Span = Span::new("silence", 400, 100, 60_000);
/// `centre.sites_max`.
pub const CENTRE_SITES_MAX: Count = Count::new("sites_max", 1000, 1, 10_000);
/// `centre.site_bytes_max`.
pub const CENTRE_SITE_BYTES_MAX: Size = Size::new("site_bytes_max", 4 << 20, 2 << 20, 64 << 20);
/// `centre.requests_max`.
pub const CENTRE_REQUESTS_MAX: Count = Count::new("requests_max", 4096, 16, 65_536);
/// `centre.silence`.
pub const CENTRE_SILENCE: Span = Span::new("silence", 10_000, 3000, 600_000);
/// `centre.events_bytes_max`.
pub const CENTRE_EVENTS_BYTES_MAX: Size = Size::new("events_bytes_max", 4 << 20, 64 << 10, 256 << 20);
/// `centre.events_keep`.
pub const CENTRE_EVENTS_KEEP: Span = Span::new("events_keep", 86_400_000, 10_000, 2_592_000_000);
/// `command.timeout`.
pub const COMMAND_TIMEOUT: Span = Span::new("timeout", 10_000, 100, 300_000);
/// `command.queue_max`.
pub const COMMAND_QUEUE_MAX: Count = Count::new("queue_max", 16, 1, 10_000);
/// `alarm.strict`.
pub const ALARM_STRICT: Flag = Flag::new("strict", false);
/// `alarm.node`.
pub const ALARM_NODE: Flag = Flag::new("node", true);
/// `alarm.shelve_max`.
pub const ALARM_SHELVE_MAX: Span = Span::new("shelve_max", 28_800_000, 1000, 2_592_000_000);
/// `alarm.gather`.
pub const ALARM_GATHER: Span = Span::new("gather", 2000, 0, 60_000);
/// `alarm.chatter_count`.
pub const ALARM_CHATTER_COUNT: Count<u8> = Count::new("chatter_count", 3, 2, 100);
/// `alarm.chatter_time`.
pub const ALARM_CHATTER_TIME: Span = Span::new("chatter_time", 60_000, 1000, 3_600_000);
/// `alarm.operators`.
pub const ALARM_OPERATORS: Count = Count::new("operators", 1, 1, 1000);
/// `alarm.flood_in`.
pub const ALARM_FLOOD_IN: Count = Count::new("flood_in", 10, 1, 100_000);
/// `alarm.flood_out`.
pub const ALARM_FLOOD_OUT: Count = Count::new("flood_out", 5, 1, 100_000);
/// `alarm.rules_max`.
pub const ALARM_RULES_MAX: Count = Count::new("rules_max", 100_000, 1, 1_000_000);
/// `alarm.alarms_max`.
pub const ALARM_ALARMS_MAX: Count = Count::new("alarms_max", 200_000, 1, 10_000_000);
/// `control.reservation_required`.
pub const CONTROL_RESERVATION_REQUIRED: Flag = Flag::new("reservation_required", false);
/// `control.preempt_grace`.
pub const CONTROL_PREEMPT_GRACE: Span = Span::new("preempt_grace", 60_000, 0, 3_600_000);
/// `control.announce_interval`.
pub const CONTROL_ANNOUNCE_INTERVAL: Span = Span::new("announce_interval", 60_000, 1000, 86_400_000);
/// `control.return_within`.
pub const CONTROL_RETURN_WITHIN: Span = Span::new("return_within", 30_000, 1000, 3_600_000);
/// `control.lease`.
pub const CONTROL_LEASE: Span = Span::new("lease", 60_000, 0, 86_400_000);
/// `control.confirm_within`.
pub const CONTROL_CONFIRM_WITHIN: Span = Span::new("confirm_within", 5000, 100, 300_000);
/// `control.reservations_max`.
pub const CONTROL_RESERVATIONS_MAX: Count = Count::new("reservations_max", 10_000, 0, 1_000_000);
/// `control.slots_max`.
pub const CONTROL_SLOTS_MAX: Count = Count::new("slots_max", 100_000, 0, 10_000_000);
/// `control.points_max`.
pub const CONTROL_POINTS_MAX: Count = Count::new("points_max", 65_536, 1, 1_000_000);
/// `control.overrides_max`.
pub const CONTROL_OVERRIDES_MAX: Count = Count::new("overrides_max", 256, 0, 10_000);
/// `control.tags_max`.
pub const CONTROL_TAGS_MAX: Count = Count::new("tags_max", 4096, 0, 100_000);
/// `network.NAME.in_flight`.
pub const NETWORK_IN_FLIGHT: Count<u16> = Count::new("in_flight", 100, 1, 10_000);
/// `network.NAME.gap`.
pub const NETWORK_GAP: Span = Span::new("gap", 0, 0, 10_000);
/// `network.NAME.connect_timeout`.
pub const NETWORK_CONNECT_TIMEOUT: Span = Span::new("connect_timeout", 10_000, 1000, 300_000);
/// `network.NAME.heartbeat`.
pub const NETWORK_HEARTBEAT: Span = Span::new("heartbeat", 300_000, 3000, 3_600_000);
/// `network.NAME.reconnect_max`.
pub const NETWORK_RECONNECT_MAX: Span = Span::new("reconnect_max", 60_000, 2000, 600_000);
/// `device.NAME.all_every`.
pub const DEVICE_ALL_EVERY: Span = Span::new("all_every", 1000, 10, 3_600_000);
/// `device.NAME.stale_after`.
pub const DEVICE_STALE_AFTER: NoDefault<Span> = NoDefault::new(Span::new("stale_after", 1000, 1000, 604_800_000));
/// `device.NAME.priority`.
pub const DEVICE_PRIORITY: NoDefault<Choice<3>> =
    NoDefault::new(Choice::new("priority", ["protection", "monitoring", "bulk"], 0));
/// `device.NAME.poll.integrity`.
pub const DEVICE_POLL_INTEGRITY: Span = Span::new("integrity", 3_600_000, 100, 604_800_000);
/// `device.NAME.poll.events`.
pub const DEVICE_POLL_EVENTS: NoDefault<Span> = NoDefault::new(Span::new("events", 100, 100, 604_800_000));
/// `device.NAME.poll.interrogation`.
pub const DEVICE_POLL_INTERROGATION: Span = Span::new("interrogation", 3_600_000, 1000, 604_800_000);
/// `device.NAME.poll.counters`.
pub const DEVICE_POLL_COUNTERS: NoDefault<Span> = NoDefault::new(Span::new("counters", 1000, 1000, 604_800_000));
/// `device.NAME.poll.clock`.
pub const DEVICE_POLL_CLOCK: NoDefault<Span> = NoDefault::new(Span::new("clock", 1000, 1000, 604_800_000));
/// `device.NAME.poll.every`.
pub const DEVICE_POLL_EVERY: Span = Span::new("every", 10_000, 100, 604_800_000);
/// `device.NAME.poll.missed`.
pub const DEVICE_POLL_MISSED: Choice<2> = Choice::new("missed", ["skip", "once"], 0);
/// `device.NAME.poll.stale_after_missed`.
pub const DEVICE_POLL_STALE_AFTER_MISSED: Count = Count::new("stale_after_missed", 3, 1, 1000);
/// `device.NAME.poll.back_off_max`.
pub const DEVICE_POLL_BACK_OFF_MAX: Span = Span::new("back_off_max", 300_000, 1000, 86_400_000);
/// `device.NAME.heartbeat.every`.
pub const DEVICE_HEARTBEAT_EVERY: Span = Span::new("every", 60_000, 1000, 3_600_000);
/// `device.NAME.heartbeat.value`.
pub const DEVICE_HEARTBEAT_VALUE: Choice<2> = Choice::new("value", ["toggle", "count"], 0);
/// `device.NAME.heartbeat.max`.
pub const DEVICE_HEARTBEAT_MAX: Count = Count::new("max", 65_535, 1, 4_294_967_295);
/// `device.NAME.trace.enabled`.
pub const DEVICE_TRACE_ENABLED: Flag = Flag::new("enabled", true);
/// `device.NAME.trace.keep`.
pub const DEVICE_TRACE_KEEP: Span = Span::new("keep", 60_000, 1000, 3_600_000);
/// `device.NAME.trace.memory`.
pub const DEVICE_TRACE_MEMORY: Size = Size::new("memory", 64 << 10, 4 << 10, 16 << 20);
/// `device.NAME.trace.disk`.
pub const DEVICE_TRACE_DISK: NoDefault<Size> = NoDefault::new(Size::new("disk", 64 << 10, 64 << 10, 1 << 30));
/// `device.NAME.dnp3.master`.
pub const DEVICE_DNP3_MASTER: Count<u16> = Count::new("master", 1, 0, 65_519);
/// `device.NAME.dnp3.outstation`.
pub const DEVICE_DNP3_OUTSTATION: NoDefault<Count<u16>> = NoDefault::new(Count::new("outstation", 0, 0, 65_519));
/// `device.NAME.dnp3.unsolicited`.
pub const DEVICE_DNP3_UNSOLICITED: Flag = Flag::new("unsolicited", true);
/// `device.NAME.dnp3.response_timeout`.
pub const DEVICE_DNP3_RESPONSE_TIMEOUT: Span = Span::new("response_timeout", 5000, 100, 300_000);
/// `device.NAME.dnp3.keep_alive`.
pub const DEVICE_DNP3_KEEP_ALIVE: Span = Span::new("keep_alive", 30_000, 1000, 86_400_000);
/// `device.NAME.dnp3.lean`.
pub const DEVICE_DNP3_LEAN: Flag = Flag::new("lean", false);
/// `device.NAME.dnp3.link_confirms`.
pub const DEVICE_DNP3_LINK_CONFIRMS: Flag = Flag::new("link_confirms", false);
/// `device.NAME.dnp3.link_timeout`.
pub const DEVICE_DNP3_LINK_TIMEOUT: Span = Span::new("link_timeout", 1000, 10, 60_000);
/// `device.NAME.dnp3.link_retries`.
pub const DEVICE_DNP3_LINK_RETRIES: Count<u8> = Count::new("link_retries", 2, 0, 10);
/// `device.NAME.dnp3.time_sync`.
pub const DEVICE_DNP3_TIME_SYNC: Choice<3> = Choice::new("time_sync", ["lan", "delay", "off"], 0);
/// `device.NAME.dnp3.confirm`.
pub const DEVICE_DNP3_CONFIRM: Choice<2> = Choice::new("confirm", ["stored", "received"], 0);
/// `device.NAME.freeze.every`.
pub const DEVICE_FREEZE_EVERY: NoDefault<Span> = NoDefault::new(Span::new("every", 1000, 1000, 604_800_000));
/// `device.NAME.freeze.clear`.
pub const DEVICE_FREEZE_CLEAR: Flag = Flag::new("clear", false);
/// `device.NAME.freeze.by`.
pub const DEVICE_FREEZE_BY: Choice<2> = Choice::new("by", ["node", "device"], 0);
/// `device.NAME.lane.master`.
pub const DEVICE_LANE_MASTER: NoDefault<Count<u16>> = NoDefault::new(Count::new("master", 0, 0, 65_519));
/// `device.NAME.lane.priority`.
pub const DEVICE_LANE_PRIORITY: Choice<3> = Choice::new("priority", ["protection", "monitoring", "bulk"], 0);
/// `device.NAME.iec104.common_address`.
pub const DEVICE_IEC104_COMMON_ADDRESS: Count<u16> = Count::new("common_address", 1, 1, 65_534);
/// `device.NAME.iec104.originator`.
pub const DEVICE_IEC104_ORIGINATOR: Count<u8> = Count::new("originator", 0, 0, 255);
/// `device.NAME.iec104.k`.
pub const DEVICE_IEC104_K: Count<u16> = Count::new("k", 12, 1, 32_767);
/// `device.NAME.iec104.w`.
pub const DEVICE_IEC104_W: Count<u16> = Count::new("w", 8, 1, 32_767);
/// `device.NAME.iec104.t1`.
pub const DEVICE_IEC104_T1: Span = Span::new("t1", 15_000, 1000, 255_000);
/// `device.NAME.iec104.t2`.
pub const DEVICE_IEC104_T2: Span = Span::new("t2", 10_000, 100, 255_000);
/// `device.NAME.iec104.t3`.
pub const DEVICE_IEC104_T3: Span = Span::new("t3", 20_000, 1000, 172_800_000);
/// `device.NAME.iec104.response_timeout`.
pub const DEVICE_IEC104_RESPONSE_TIMEOUT: Span = Span::new("response_timeout", 10_000, 100, 300_000);
/// `device.NAME.iec104.freeze`.
pub const DEVICE_IEC104_FREEZE: Choice<3> = Choice::new("freeze", ["none", "freeze", "freeze_reset"], 0);
/// `device.NAME.iec104.select`.
pub const DEVICE_IEC104_SELECT: Flag = Flag::new("select", true);
/// `device.NAME.iec104.command_end`.
pub const DEVICE_IEC104_COMMAND_END: Choice<2> = Choice::new("command_end", ["confirmation", "termination"], 0);
/// `device.NAME.iec104.command_time`.
pub const DEVICE_IEC104_COMMAND_TIME: Flag = Flag::new("command_time", false);
/// `device.NAME.iec104.utc_offset`.
pub const DEVICE_IEC104_UTC_OFFSET: Number = Number::new("utc_offset", 0.0, -12.0, 14.0);
/// `device.NAME.goose.app_id`.
pub const DEVICE_GOOSE_APP_ID: NoDefault<Count<u16>> = NoDefault::new(Count::new("app_id", 0, 0, 65_535));
/// `device.NAME.goose.conf_rev`.
pub const DEVICE_GOOSE_CONF_REV: NoDefault<Count> = NoDefault::new(Count::new("conf_rev", 0, 0, 4_294_967_295));
/// `device.NAME.goose.simulation`.
pub const DEVICE_GOOSE_SIMULATION: Choice<2> = Choice::new("simulation", ["ignore", "accept"], 0);
/// `device.NAME.goose.first_message`.
pub const DEVICE_GOOSE_FIRST_MESSAGE: Span = Span::new("first_message", 10_000, 100, 600_000);
/// `device.NAME.goose.publish`.
pub const DEVICE_GOOSE_PUBLISH: Flag = Flag::new("publish", false);
/// `device.NAME.goose.vlan_priority`.
pub const DEVICE_GOOSE_VLAN_PRIORITY: Count<u8> = Count::new("vlan_priority", 4, 0, 7);
/// `device.NAME.goose.vlan_id`.
pub const DEVICE_GOOSE_VLAN_ID: Count<u16> = Count::new("vlan_id", 0, 0, 4095);
/// `device.NAME.goose.repeat_min`.
pub const DEVICE_GOOSE_REPEAT_MIN: Span = Span::new("repeat_min", 4, 1, 60_000);
/// `device.NAME.goose.repeat_max`.
pub const DEVICE_GOOSE_REPEAT_MAX: Span = Span::new("repeat_max", 1000, 1, 60_000);
/// `device.NAME.goose.clock`.
pub const DEVICE_GOOSE_CLOCK: Choice<2> = Choice::new("clock", ["unsynchronized", "synchronized"], 0);
/// `device.NAME.modbus.unit`.
pub const DEVICE_MODBUS_UNIT: Count<u8> = Count::new("unit", 1, 0, 255);
/// `device.NAME.modbus.framing`.
pub const DEVICE_MODBUS_FRAMING: Choice<2> = Choice::new("framing", ["tcp", "rtu"], 0);
/// `device.NAME.modbus.in_flight`.
pub const DEVICE_MODBUS_IN_FLIGHT: Count<u8> = Count::new("in_flight", 1, 1, 16);
/// `device.NAME.modbus.timeout`.
pub const DEVICE_MODBUS_TIMEOUT: Span = Span::new("timeout", 1000, 10, 60_000);
/// `device.NAME.modbus.retries`.
pub const DEVICE_MODBUS_RETRIES: Count<u8> = Count::new("retries", 1, 0, 10);
/// `device.NAME.modbus.pause`.
pub const DEVICE_MODBUS_PAUSE: Span = Span::new("pause", 0, 0, 10_000);
/// `device.NAME.modbus.gap_max`.
pub const DEVICE_MODBUS_GAP_MAX: Count<u16> = Count::new("gap_max", 8, 0, 125);
/// `device.NAME.modbus.gap_bits_max`.
pub const DEVICE_MODBUS_GAP_BITS_MAX: Count<u16> = Count::new("gap_bits_max", 64, 0, 2000);
/// `device.NAME.modbus.block_max`.
pub const DEVICE_MODBUS_BLOCK_MAX: Count<u16> = Count::new("block_max", 125, 1, 125);
/// `device.NAME.modbus.block_bits_max`.
pub const DEVICE_MODBUS_BLOCK_BITS_MAX: Count<u16> = Count::new("block_bits_max", 2000, 1, 2000);
/// `device.NAME.modbus.write_single`.
pub const DEVICE_MODBUS_WRITE_SINGLE: Flag = Flag::new("write_single", true);
/// `device.NAME.modbus.write_mask`.
pub const DEVICE_MODBUS_WRITE_MASK: Flag = Flag::new("write_mask", false);
/// `device.NAME.modbus.first_address`.
pub const DEVICE_MODBUS_FIRST_ADDRESS: Count<u16> = Count::new("first_address", 0, 0, 1);
/// `device.NAME.modbus.words`.
pub const DEVICE_MODBUS_WORDS: Choice<2> = Choice::new("words", ["big", "little"], 0);
/// `device.NAME.modbus.bytes`.
pub const DEVICE_MODBUS_BYTES: Choice<2> = Choice::new("bytes", ["big", "little"], 0);
/// `device.NAME.bacnet.instance`.
pub const DEVICE_BACNET_INSTANCE: NoDefault<Count> = NoDefault::new(Count::new("instance", 0, 0, 4_194_302));
/// `device.NAME.bacnet.network`.
pub const DEVICE_BACNET_NETWORK: NoDefault<Count<u16>> = NoDefault::new(Count::new("network", 1, 1, 65_534));
/// `device.NAME.bacnet.apdu_timeout`.
pub const DEVICE_BACNET_APDU_TIMEOUT: Span = Span::new("apdu_timeout", 3000, 100, 60_000);
/// `device.NAME.bacnet.retries`.
pub const DEVICE_BACNET_RETRIES: Count<u8> = Count::new("retries", 3, 0, 10);
/// `device.NAME.bacnet.in_flight`.
pub const DEVICE_BACNET_IN_FLIGHT: Count<u8> = Count::new("in_flight", 1, 1, 16);
/// `device.NAME.bacnet.max_per_request`.
pub const DEVICE_BACNET_MAX_PER_REQUEST: NoDefault<Count<u16>> =
    NoDefault::new(Count::new("max_per_request", 1, 1, 1000));
/// `device.NAME.bacnet.read_multiple`.
pub const DEVICE_BACNET_READ_MULTIPLE: Flag = Flag::new("read_multiple", true);
/// `device.NAME.bacnet.status_flags`.
pub const DEVICE_BACNET_STATUS_FLAGS: Flag = Flag::new("status_flags", true);
/// `device.NAME.bacnet.cov`.
pub const DEVICE_BACNET_COV: Flag = Flag::new("cov", false);
/// `device.NAME.bacnet.cov_confirmed`.
pub const DEVICE_BACNET_COV_CONFIRMED: Flag = Flag::new("cov_confirmed", false);
/// `device.NAME.bacnet.cov_lifetime`.
pub const DEVICE_BACNET_COV_LIFETIME: Span = Span::new("cov_lifetime", 180_000, 60_000, 86_400_000);
/// `device.NAME.bacnet.write_priority`.
pub const DEVICE_BACNET_WRITE_PRIORITY: Count<u8> = Count::new("write_priority", 16, 1, 16);
/// `device.NAME.bacnet.min_priority`.
pub const DEVICE_BACNET_MIN_PRIORITY: Count<u8> = Count::new("min_priority", 8, 1, 16);
/// `device.NAME.bacnet.time_sync`.
pub const DEVICE_BACNET_TIME_SYNC: Choice<3> = Choice::new("time_sync", ["off", "utc", "local"], 0);
/// `device.NAME.bacnet.backfill_max`.
pub const DEVICE_BACNET_BACKFILL_MAX: Span = Span::new("backfill_max", 604_800_000, 60_000, 31_622_400_000);
/// `device.NAME.bacnet.foreign_lifetime`.
pub const DEVICE_BACNET_FOREIGN_LIFETIME: Span = Span::new("foreign_lifetime", 600_000, 30_000, 64_800_000);
/// `device.NAME.simulated.seed`.
pub const DEVICE_SIMULATED_SEED: Count = Count::new("seed", 0, 0, 4_294_967_295);
/// `device.NAME.simulated.speed`.
pub const DEVICE_SIMULATED_SPEED: Number = Number::new("speed", 1.0, 0.001, 3600.0);
/// `device.NAME.simulated.step`.
pub const DEVICE_SIMULATED_STEP: Span = Span::new("step", 1000, 100, 3_600_000);
/// `device.NAME.simulated.delay`.
pub const DEVICE_SIMULATED_DELAY: Span = Span::new("delay", 5, 0, 60_000);
/// `device.NAME.simulated.delay_jitter`.
pub const DEVICE_SIMULATED_DELAY_JITTER: Span = Span::new("delay_jitter", 0, 0, 60_000);
/// `device.NAME.simulated.timeout`.
pub const DEVICE_SIMULATED_TIMEOUT: Span = Span::new("timeout", 1000, 10, 60_000);
/// `device.NAME.simulated.faults.per_hour`.
pub const DEVICE_SIMULATED_FAULTS_PER_HOUR: NoDefault<Number> =
    NoDefault::new(Number::new("per_hour", 0.0001, 0.0001, 3600.0));
/// `device.NAME.simulated.faults.at`.
pub const DEVICE_SIMULATED_FAULTS_AT: NoDefault<Span> = NoDefault::new(Span::new("at", 0, 0, 31_536_000_000));
/// `device.NAME.simulated.faults.every`.
pub const DEVICE_SIMULATED_FAULTS_EVERY: NoDefault<Span> =
    NoDefault::new(Span::new("every", 1000, 1000, 31_536_000_000));
/// `device.NAME.simulated.faults.for`.
pub const DEVICE_SIMULATED_FAULTS_FOR: Span = Span::new("for", 60_000, 10, 31_536_000_000);
/// `topic.type`.
pub const TOPIC_TYPE: Choice<5> = Choice::new("type", ["any", "point", "json", "text", "binary"], 0);
/// `topic.keep.events`.
pub const TOPIC_KEEP_EVENTS: Count = Count::new("events", 1000, 1, 1_000_000);
/// `topic.keep.span`.
pub const TOPIC_KEEP_SPAN: NoDefault<Span> = NoDefault::new(Span::new("span", 1000, 1000, 3_153_600_000_000));
/// `topic.remove.after`.
pub const TOPIC_REMOVE_AFTER: NoDefault<Span> = NoDefault::new(Span::new("after", 100, 100, 3_153_600_000_000));
/// `topic.remove.idle`.
pub const TOPIC_REMOVE_IDLE: NoDefault<Span> = NoDefault::new(Span::new("idle", 100, 100, 3_153_600_000_000));
/// `topic.remove.unsubscribed`.
pub const TOPIC_REMOVE_UNSUBSCRIBED: NoDefault<Span> =
    NoDefault::new(Span::new("unsubscribed", 100, 100, 3_153_600_000_000));
/// `topic.remove.with_publisher`.
pub const TOPIC_REMOVE_WITH_PUBLISHER: Flag = Flag::new("with_publisher", false);
/// `view.delay`.
pub const VIEW_DELAY: Span = Span::new("delay", 0, 0, 604_800_000);
/// `view.throttle`.
pub const VIEW_THROTTLE: Span = Span::new("throttle", 0, 0, 86_400_000);
/// `derived.every`.
pub const DERIVED_EVERY: NoDefault<Span> = NoDefault::new(Span::new("every", 1000, 1000, 86_400_000));
/// `derived.wait`.
pub const DERIVED_WAIT: NoDefault<Span> = NoDefault::new(Span::new("wait", 0, 0, 3_600_000));
/// `derived.backfill`.
pub const DERIVED_BACKFILL: NoDefault<Span> = NoDefault::new(Span::new("backfill", 0, 0, 3_153_600_000_000));

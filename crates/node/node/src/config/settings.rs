//! Written by `cargo xtask gen` from crates/node/node/src/config/settings.toml: change that file.

use tieline_service::setting::{Choice, Count, Flag, Size, Span, Text};

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
pub const MQTT_SESSIONS_MAX: Count = Count::new("sessions_max", 10_000, 1, 1_000_000);
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
/// `access.jwt.leeway`.
pub const ACCESS_JWT_LEEWAY: Span = Span::new("leeway", 60_000, 0, 3_600_000);
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
/// `command.timeout`.
pub const COMMAND_TIMEOUT: Span = Span::new("timeout", 10_000, 100, 300_000);
/// `command.queue_max`.
pub const COMMAND_QUEUE_MAX: Count = Count::new("queue_max", 16, 1, 10_000);
/// `control.reservation_required`.
pub const CONTROL_RESERVATION_REQUIRED: Flag = Flag::new("reservation_required", false);
/// `control.preempt_grace`.
pub const CONTROL_PREEMPT_GRACE: Span = Span::new("preempt_grace", 60_000, 0, 3_600_000);
/// `control.announce_interval`.
pub const CONTROL_ANNOUNCE_INTERVAL: Span = Span::new("announce_interval", 60_000, 1000, 86_400_000);
/// `control.return_within`.
pub const CONTROL_RETURN_WITHIN: Span = Span::new("return_within", 30_000, 1000, 3_600_000);
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

//! Written by `cargo xtask gen` from crates/node/seal/src/config/settings.toml: change that file.

use tieline_service::setting::{Choice, Count, Flag, NoDefault, Size, Span, Text};

/// `seal.workers`.
pub const SEAL_WORKERS: Count = Count::new("workers", 0, 0, 1024);
/// `seal.queue_max`.
pub const SEAL_QUEUE_MAX: Count = Count::new("queue_max", 4096, 1, 1_000_000);
/// `seal.content_bytes_max`.
pub const SEAL_CONTENT_BYTES_MAX: Size = Size::new("content_bytes_max", 4 << 20, 1 << 10, 256 << 20);
/// `seal.inflate_bytes_max`.
pub const SEAL_INFLATE_BYTES_MAX: Size = Size::new("inflate_bytes_max", 64 << 20, 1 << 10, 1 << 30);
/// `seal.inflate_ratio_max`.
pub const SEAL_INFLATE_RATIO_MAX: Count = Count::new("inflate_ratio_max", 250, 1, 2000);
/// `seal.batch`.
pub const SEAL_BATCH: Flag = Flag::new("batch", true);
/// `seal.exact_errors`.
pub const SEAL_EXACT_ERRORS: Flag = Flag::new("exact_errors", false);
/// `seal.expiry_warning`.
pub const SEAL_EXPIRY_WARNING: Span = Span::new("expiry_warning", 2_592_000_000, 86_400_000, 31_536_000_000);
/// `http.listen`.
pub const HTTP_LISTEN: Text = Text::new("listen", "127.0.0.1:7480");
/// `protocol.listen`.
pub const PROTOCOL_LISTEN: Text = Text::new("listen", "127.0.0.1:7481");
/// `protocol.connections_max`.
pub const PROTOCOL_CONNECTIONS_MAX: Count = Count::new("connections_max", 256, 1, 100_000);
/// `protocol.in_flight_max`.
pub const PROTOCOL_IN_FLIGHT_MAX: Count = Count::new("in_flight_max", 1024, 1, 65_536);
/// `audit.file_bytes_max`.
pub const AUDIT_FILE_BYTES_MAX: Size = Size::new("file_bytes_max", 1 << 30, 1 << 20, 1 << 40);
/// `audit.files_max`.
pub const AUDIT_FILES_MAX: Count = Count::new("files_max", 0, 0, 100_000);
/// `domain.NAME.iv`.
pub const DOMAIN_IV: Choice<2> = Choice::new("iv", ["behind_key", "key_prefix"], 0);
/// `domain.NAME.match_authorities`.
pub const DOMAIN_MATCH_AUTHORITIES: Flag = Flag::new("match_authorities", true);
/// `domain.NAME.trim_padding`.
pub const DOMAIN_TRIM_PADDING: Flag = Flag::new("trim_padding", true);
/// `domain.NAME.authorities`.
pub const DOMAIN_AUTHORITIES: Choice<2> = Choice::new("authorities", ["known", "any"], 0);
/// `domain.NAME.key.version`.
pub const DOMAIN_KEY_VERSION: NoDefault<Count> = NoDefault::new(Count::new("version", 1, 1, 4_294_967_295));
/// `domain.NAME.key.authority`.
pub const DOMAIN_KEY_AUTHORITY: NoDefault<Count<u8>> = NoDefault::new(Count::new("authority", 0, 0, 255));
/// `domain.NAME.key.state`.
pub const DOMAIN_KEY_STATE: Choice<3> = Choice::new("state", ["active", "pending", "retired"], 0);
/// `domain.NAME.peer.authority`.
pub const DOMAIN_PEER_AUTHORITY: NoDefault<Count<u8>> = NoDefault::new(Count::new("authority", 0, 0, 255));
/// `domain.NAME.peer.state`.
pub const DOMAIN_PEER_STATE: Choice<3> = Choice::new("state", ["active", "pending", "retired"], 0);

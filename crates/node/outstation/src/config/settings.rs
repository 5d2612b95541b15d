//! Written by `cargo xtask gen` from crates/node/outstation/src/config/settings.toml: change that file.

use tieline_service::setting::{Count, Flag, NoDefault, Size, Span};

/// `address`.
pub const ADDRESS: Count<u16> = Count::new("address", 10, 0, 65_519);
/// `master`.
pub const MASTER: Count<u16> = Count::new("master", 1, 0, 65_519);
/// `self_address`.
pub const SELF_ADDRESS: Flag = Flag::new("self_address", false);
/// `events_max`.
pub const EVENTS_MAX: Count<u16> = Count::new("events_max", 1000, 1, 65_535);
/// `unsolicited`.
pub const UNSOLICITED: Flag = Flag::new("unsolicited", true);
/// `unsolicited_confirm_timeout`.
pub const UNSOLICITED_CONFIRM_TIMEOUT: Span = Span::new("unsolicited_confirm_timeout", 5000, 1, 3_600_000);
/// `unsolicited_retries_max`.
pub const UNSOLICITED_RETRIES_MAX: NoDefault<Count<u16>> =
    NoDefault::new(Count::new("unsolicited_retries_max", 0, 0, 65_535));
/// `unsolicited_hold_time`.
pub const UNSOLICITED_HOLD_TIME: Span = Span::new("unsolicited_hold_time", 0, 0, 3_600_000);
/// `unsolicited_hold_events`.
pub const UNSOLICITED_HOLD_EVENTS: Count<u16> = Count::new("unsolicited_hold_events", 10, 1, 65_535);
/// `unsolicited_events_max`.
pub const UNSOLICITED_EVENTS_MAX: Count<u16> = Count::new("unsolicited_events_max", 100, 1, 65_535);
/// `confirm_timeout`.
pub const CONFIRM_TIMEOUT: Span = Span::new("confirm_timeout", 5000, 1, 3_600_000);
/// `select_timeout`.
pub const SELECT_TIMEOUT: Span = Span::new("select_timeout", 10_000, 1, 3_600_000);
/// `controls_max`.
pub const CONTROLS_MAX: Count<u8> = Count::new("controls_max", 16, 1, 255);
/// `need_time_every`.
pub const NEED_TIME_EVERY: NoDefault<Span> = NoDefault::new(Span::new("need_time_every", 1, 1, 3_600_000));
/// `lean`.
pub const LEAN: Flag = Flag::new("lean", false);
/// `files.writable`.
pub const FILES_WRITABLE: Flag = Flag::new("writable", false);
/// `files.size_max`.
pub const FILES_SIZE_MAX: Size = Size::new("size_max", 16 << 20, 1, 4095 << 20);
/// `files.open_max`.
pub const FILES_OPEN_MAX: Count<u8> = Count::new("open_max", 4, 1, 64);
/// `files.block_bytes_max`.
pub const FILES_BLOCK_BYTES_MAX: Count<u16> = Count::new("block_bytes_max", 1024, 64, 2030);
/// `files.idle_timeout`.
pub const FILES_IDLE_TIMEOUT: Span = Span::new("idle_timeout", 60_000, 1000, 3_600_000);

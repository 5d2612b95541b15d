//! Written by `cargo xtask gen` from crates/node/transport/src/settings.toml: change that file.

use tieline_service::setting::{Choice, Count, Span};

/// `transport`.
pub const TRANSPORT: Choice<3> = Choice::new("transport", ["tcp", "tls", "udp"], 0);
/// `serial.baud`.
pub const SERIAL_BAUD: Count = Count::new("baud", 9600, 50, 4_000_000);
/// `serial.parity`.
pub const SERIAL_PARITY: Choice<3> = Choice::new("parity", ["none", "even", "odd"], 0);
/// `serial.stop_bits`.
pub const SERIAL_STOP_BITS: Count<u8> = Count::new("stop_bits", 1, 1, 2);
/// `serial.flow`.
pub const SERIAL_FLOW: Choice<2> = Choice::new("flow", ["none", "rts-cts"], 0);
/// `serial.gap`.
pub const SERIAL_GAP: Span = Span::new("gap", 0, 0, 10_000);
/// `udp.silence`.
pub const UDP_SILENCE: Span = Span::new("silence", 300_000, 1000, 604_800_000);

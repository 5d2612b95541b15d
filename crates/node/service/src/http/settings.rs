//! Written by `cargo xtask gen` from crates/node/service/src/http/settings.toml: change that file.

use crate::setting::{Count, Size};

/// `http.connections_max`.
pub const HTTP_CONNECTIONS_MAX: Count = Count::new("connections_max", 1024, 16, 100_000);
/// `http.address_connections_max`.
pub const HTTP_ADDRESS_CONNECTIONS_MAX: Count = Count::new("address_connections_max", 256, 16, 100_000);
/// `http.pending_bytes_max`.
pub const HTTP_PENDING_BYTES_MAX: Size = Size::new("pending_bytes_max", 64 << 20, 1 << 20, 1 << 40);

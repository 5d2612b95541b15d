//! TLS of connections to databases.

use rustls::ClientConfig;
use std::sync::Arc;

/// Reads what TLS needs, at each connection: certificates are renewed.
pub type LoadTls = Arc<dyn Fn() -> Result<Arc<ClientConfig>, String> + Send + Sync>;

//! What a verb tells about itself while it works.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Logs go to standard error; `TIELINE_LOG` chooses what, as in `info,tieline_client=debug`.
pub fn start(default: &str, json: bool) {
    let filter = EnvFilter::try_from_env("TIELINE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        builder.json().init();
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).init();
    }
}

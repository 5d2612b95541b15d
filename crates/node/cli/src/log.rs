//! What a verb tells about itself while it works.

use crate::terminal::{self, JsonText};
use std::fmt;
use std::io::IsTerminal;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Logs go to standard error; `TIELINE_LOG` chooses what, as in `info,tieline_client=debug`. Whatever a client called itself
/// or its topics, an event is one line, and moves no cursor.
pub fn start(default: &str, json: bool) {
    let filter = EnvFilter::try_from_env("TIELINE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    if json {
        builder.json().with_writer(|| JsonText::new(std::io::stderr())).init();
    } else {
        let ansi = std::io::stderr().is_terminal();
        builder.fmt_fields(fields()).with_ansi(ansi).with_writer(std::io::stderr).init();
    }
}

/// The fields of an event and of its spans, in text.
fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = terminal::one_line(&text);
    match (field.name(), out.has_ansi_escapes()) {
        ("message", _) => out.write_str(&text),
        // Italic, and dim, as the library shows them.
        (name, true) => write!(out, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{text}"),
        (name, false) => write!(out, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Kept {
        type Writer = Self;

        fn make_writer(&'w self) -> Self {
            self.clone()
        }
    }

    const HOSTILE: &str = "a\x1b[2J\x1b]0;t\x07\nWARN forged\r\u{9b}1mb\u{202e}";

    /// What a client might bring, in every way that the sources have.
    fn tell() {
        let error = std::io::Error::other(HOSTILE);
        let span = tracing::warn_span!("session", client = %HOSTILE);
        let _entered = span.enter();
        tracing::warn!(client = HOSTILE, topic = %HOSTILE, user = ?HOSTILE, %error, "refused {HOSTILE}");
    }

    fn text(kept: &Kept) -> String {
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_without_escapes_whatever_clients_send() {
        let kept = Kept::default();
        let plain = tracing_subscriber::fmt().fmt_fields(fields()).with_ansi(false).with_writer(kept.clone()).finish();
        tracing::subscriber::with_default(plain, tell);
        let line = text(&kept);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.trim_end().contains(terminal::is_active), "{line:?}");
        assert!(line.contains("client=") && line.contains("\\u{1b}[2J") && line.contains("\\nWARN forged"), "{line}");

        // With colours, only ours: each escape is followed by a style, and the text of clients has none.
        let kept = Kept::default();
        let ansi = tracing_subscriber::fmt().fmt_fields(fields()).with_ansi(true).with_writer(kept.clone()).finish();
        tracing::subscriber::with_default(ansi, tell);
        let line = text(&kept);
        assert!(!line.contains("\x1b[2J") && !line.contains("\x1b]0") && line.lines().count() == 1, "{line:?}");

        let kept = Kept::default();
        let writer = kept.clone();
        let json = tracing_subscriber::fmt().json().with_writer(move || JsonText::new(writer.clone())).finish();
        tracing::subscriber::with_default(json, tell);
        let line = text(&kept);
        assert!(!line.trim_end().contains(terminal::is_active) && line.lines().count() == 1, "{line:?}");
        let fields = &serde_json::from_str::<serde_json::Value>(&line).unwrap()["fields"];
        assert_eq!(fields["client"], HOSTILE);
    }
}

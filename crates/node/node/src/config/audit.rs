//! `[audit]`: the files of the audit log.

use super::parse;
use super::reader::{Document, Section};
use crate::audit::AuditConfig;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Reads `[audit]`.
pub fn read_audit(mut s: Section<'_>, doc: &mut Document<'_>, default: AuditConfig) -> AuditConfig {
    let config = AuditConfig {
        file_bytes_max: s.or(doc, "file_bytes_max", default.file_bytes_max, parse::bytes(64 << 10..=256 << 20)),
        file_age_max: s.or(doc, "file_age_max", default.file_age_max, parse::duration(DAY / 24..=3650 * DAY)),
        bytes_max: s.or(doc, "bytes_max", default.bytes_max, parse::bytes(1 << 20..=1 << 40)),
    };
    if config.bytes_max < config.file_bytes_max.saturating_mul(2) {
        let found = format!("{} bytes, which hold no two files", config.bytes_max);
        let expected = format!("twice audit.file_bytes_max, {} bytes, or more", config.file_bytes_max * 2);
        doc.report(s.value_at("bytes_max"), &s.key("bytes_max"), found, expected);
    }
    s.finish(doc);
    config
}

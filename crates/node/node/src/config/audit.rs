//! `[audit]`: the files of the audit log.

use super::reader::{Document, Section};
use super::settings::{AUDIT_BYTES_MAX, AUDIT_FILE_AGE_MAX, AUDIT_FILE_BYTES_MAX};
use std::time::Duration;

/// `[audit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// Bytes of a file; beyond them another is begun.
    pub file_bytes_max: u64,
    /// How long records go into one file.
    pub file_age_max: Duration,
    /// Bytes of all files; beyond them the oldest is removed.
    pub bytes_max: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            file_bytes_max: AUDIT_FILE_BYTES_MAX.default,
            file_age_max: AUDIT_FILE_AGE_MAX.default,
            bytes_max: AUDIT_BYTES_MAX.default,
        }
    }
}

/// Reads `[audit]`.
pub fn read_audit(mut s: Section<'_>, doc: &mut Document<'_>) -> AuditConfig {
    let config = AuditConfig {
        file_bytes_max: AUDIT_FILE_BYTES_MAX.read(&mut s, doc),
        file_age_max: AUDIT_FILE_AGE_MAX.read(&mut s, doc),
        bytes_max: AUDIT_BYTES_MAX.read(&mut s, doc),
    };
    if config.bytes_max < config.file_bytes_max.saturating_mul(2) {
        let found = format!("{} bytes, which hold no two files", config.bytes_max);
        let expected = format!("twice audit.file_bytes_max, {} bytes, or more", config.file_bytes_max * 2);
        doc.report(s.value_at("bytes_max"), &s.key("bytes_max"), found, expected);
    }
    s.finish(doc);
    config
}

//! Strings and binary data as the standard bounds them.

use bytes::Bytes;
use core::fmt;
use core::ops::Deref;

/// The longest string or binary field, in bytes (MQTT 5.0 sections 1.5.4 and 1.5.6).
pub const FIELD_BYTES_MAX: usize = 65_535;

/// Why a text or some bytes are no MQTT field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// More than 65,535 bytes.
    TooLong,
    /// The text holds U+0000.
    Null,
    /// The bytes are not UTF-8.
    Utf8,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a field is longer than 65535 bytes",
            Self::Null => "a text holds the character U+0000",
            Self::Utf8 => "a text is not UTF-8",
        })
    }
}

impl core::error::Error for FieldError {}

/// A UTF-8 Encoded String of MQTT 5.0 section 1.5.4: up to 65,535 bytes, without U+0000. Cheap to clone; one that
/// came from a packet shares the packet's memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Checks and copies a text.
    ///
    /// # Errors
    /// The text is too long or holds U+0000.
    pub fn new(text: &str) -> Result<Self, FieldError> {
        Self::from_bytes(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Takes as much of a text as a field can hold: characters up to the first U+0000, 65,535 bytes at most.
    #[must_use]
    pub fn truncated(text: &str) -> Self {
        let end = text.char_indices().find(|&(at, c)| c == '\0' || at + c.len_utf8() > FIELD_BYTES_MAX);
        let kept = text.get(..end.map_or(text.len(), |(at, _)| at)).unwrap_or_default();
        Self(Bytes::copy_from_slice(kept.as_bytes()))
    }

    /// Checks bytes and shares them.
    ///
    /// # Errors
    /// The bytes are too many, not UTF-8 ([MQTT-1.5.4-1]), or hold U+0000 ([MQTT-1.5.4-2]).
    pub fn from_bytes(bytes: Bytes) -> Result<Self, FieldError> {
        check_text(&bytes)?;
        Ok(Self(bytes))
    }

    /// Whether it has no characters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, which cost nothing, as the text that they are does.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when the value was made; the fallback stands in for an `unsafe` that this room does not have.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The same text in memory of its own, for owners that keep it longer than the packet.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }
}

/// Whether bytes are a text.
pub(crate) fn check_text(bytes: &[u8]) -> Result<(), FieldError> {
    if bytes.len() > FIELD_BYTES_MAX {
        return Err(FieldError::TooLong);
    }
    if core::str::from_utf8(bytes).is_err() {
        return Err(FieldError::Utf8);
    }
    if bytes.contains(&0) { Err(FieldError::Null) } else { Ok(()) }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Binary Data of MQTT 5.0 section 1.5.6: up to 65,535 bytes. Its debug text says the length only, since it may be
/// a password.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Binary(Bytes);

impl Binary {
    /// Checks and shares bytes.
    ///
    /// # Errors
    /// There are more than 65,535.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, FieldError> {
        let bytes = bytes.into();
        if bytes.len() > FIELD_BYTES_MAX { Err(FieldError::TooLong) } else { Ok(Self(bytes)) }
    }

    /// The bytes, shared.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl Deref for Binary {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binary({} bytes)", self.0.len())
    }
}

//! Tags and what they hold (clause 20.2.1): a reader and a writer.
//!
//! ```text
//! 7 6 5 4   3       2 1 0
//! number    class   0-4 length, 5 length follows, 6 opening, 7 closing (context class only)
//! number 15: the number follows; length 254: two bytes of length follow, 255: four
//! ```

use crate::{DecodeError, Decoded};
use alloc::vec::Vec;
use tieline_core::Cursor;

/// Constructed values may stand inside each other so deep.
pub const DEPTH_MAX: usize = 16;

/// What follows a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A value of a data type of the application, with its bytes; of a Boolean, the value itself is the length.
    Application(usize),
    /// A value whose data type the context says.
    Context(usize),
    /// Values up to the closing tag of the same number.
    Opening,
    /// The end of them.
    Closing,
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The data type, or the number of the parameter.
    pub number: u8,
    /// What follows.
    pub content: Content,
}

/// The number of the application tag of a Boolean, which has no bytes of content.
const BOOLEAN: u8 = 1;

/// Reads tags and their content.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(bytes) }
    }

    /// Whether all was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.cursor.is_empty()
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Checks that all was read.
    ///
    /// # Errors
    /// Bytes are left.
    pub const fn end(&self) -> Decoded<()> {
        if self.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.cursor.left())) }
    }

    /// The next tag.
    ///
    /// # Errors
    /// There is none, or its length is not one.
    pub fn tag(&mut self) -> Decoded<Tag> {
        let first = self.cursor.u8()?;
        let number = match first >> 4 {
            15 => self.cursor.u8()?,
            number => number,
        };
        let is_context = first & 0x08 != 0;
        let length = match first & 0x07 {
            6 if is_context => return Ok(Tag { number, content: Content::Opening }),
            7 if is_context => return Ok(Tag { number, content: Content::Closing }),
            6 | 7 => return Err(DecodeError::Expected("a length of a tag")),
            5 => self.long_length()?,
            length => usize::from(length),
        };
        let content = if is_context { Content::Context(length) } else { Content::Application(length) };
        Ok(Tag { number, content })
    }

    fn long_length(&mut self) -> Decoded<usize> {
        match self.cursor.u8()? {
            254 => Ok(usize::from(self.cursor.u16_be()?)),
            255 => usize::try_from(self.cursor.u32_be()?).map_err(|_| DecodeError::Range("the length of a tag")),
            length => Ok(usize::from(length)),
        }
    }

    /// The next tag, which stays the next.
    #[must_use]
    pub fn peek(&self) -> Option<Tag> {
        let mut ahead = *self;
        ahead.tag().ok()
    }

    /// Whether the next tag is a value of this context number.
    #[must_use]
    pub fn is_context(&self, number: u8) -> bool {
        matches!(self.peek(), Some(Tag { number: found, content: Content::Context(_) }) if found == number)
    }

    /// Whether the next tag opens this number.
    #[must_use]
    pub fn is_opening(&self, number: u8) -> bool {
        self.peek() == Some(Tag { number, content: Content::Opening })
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn bytes(&mut self, count: usize) -> Decoded<&'a [u8]> {
        Ok(self.cursor.take(count)?)
    }

    /// The bytes of a value with a context number.
    ///
    /// # Errors
    /// Something else is next; `what` says what should be.
    pub fn context(&mut self, number: u8, what: &'static str) -> Decoded<&'a [u8]> {
        match self.tag()? {
            Tag { number: found, content: Content::Context(length) } if found == number => self.bytes(length),
            _ => Err(DecodeError::Expected(what)),
        }
    }

    /// The bytes of a value with a context number, where it is next.
    ///
    /// # Errors
    /// They end early.
    pub fn context_if(&mut self, number: u8) -> Decoded<Option<&'a [u8]>> {
        if self.is_context(number) { self.context(number, "").map(Some) } else { Ok(None) }
    }

    /// An unsigned number, or an enumerated one, with a context number.
    ///
    /// # Errors
    /// Something else is next, or it does not fit.
    pub fn context_number<T: TryFrom<u64>>(&mut self, number: u8, what: &'static str) -> Decoded<T> {
        T::try_from(unsigned(self.context(number, what)?)?).map_err(|_| DecodeError::Range(what))
    }

    /// The same, where it is next.
    ///
    /// # Errors
    /// It does not fit.
    pub fn context_number_if<T: TryFrom<u64>>(&mut self, number: u8, what: &'static str) -> Decoded<Option<T>> {
        if self.is_context(number) { self.context_number(number, what).map(Some) } else { Ok(None) }
    }

    /// A Boolean with a context number, where it is next.
    ///
    /// # Errors
    /// It is not one byte.
    pub fn context_boolean_if(&mut self, number: u8) -> Decoded<Option<bool>> {
        match self.context_if(number)? {
            None => Ok(None),
            Some([byte]) => Ok(Some(*byte != 0)),
            Some(_) => Err(DecodeError::Range("a Boolean")),
        }
    }

    /// The bytes of a value of an application data type.
    ///
    /// # Errors
    /// Something else is next.
    pub fn application(&mut self, number: u8, what: &'static str) -> Decoded<&'a [u8]> {
        match self.tag()? {
            Tag { number: found, content: Content::Application(length) } if found == number && number != BOOLEAN => {
                self.bytes(length)
            }
            _ => Err(DecodeError::Expected(what)),
        }
    }

    /// Passes an opening tag.
    ///
    /// # Errors
    /// Something else is next.
    pub fn opening(&mut self, number: u8, what: &'static str) -> Decoded<()> {
        if self.tag()? == (Tag { number, content: Content::Opening }) {
            Ok(())
        } else {
            Err(DecodeError::Expected(what))
        }
    }

    /// Passes a closing tag, where it is next.
    pub fn closing_if(&mut self, number: u8) -> bool {
        let mut ahead = *self;
        let found = ahead.tag() == Ok(Tag { number, content: Content::Closing });
        if found {
            *self = ahead;
        }
        found
    }

    /// Passes a closing tag.
    ///
    /// # Errors
    /// Something else is next.
    pub fn closing(&mut self, number: u8, what: &'static str) -> Decoded<()> {
        if self.closing_if(number) { Ok(()) } else { Err(DecodeError::Expected(what)) }
    }

    /// All between an opening tag and its closing tag, both passed.
    ///
    /// # Errors
    /// No opening tag is next, or its closing tag is absent.
    pub fn enclosed(&mut self, number: u8, what: &'static str) -> Decoded<&'a [u8]> {
        self.opening(number, what)?;
        let start = self.cursor;
        let mut depth = 0_usize;
        loop {
            let before = self.cursor.left();
            let tag = self.tag()?;
            match tag.content {
                Content::Opening if depth >= DEPTH_MAX => return Err(DecodeError::TooDeep),
                Content::Opening => depth += 1,
                Content::Closing if depth == 0 && tag.number == number => {
                    let count = start.left().saturating_sub(before);
                    return Ok(start.rest().get(..count).unwrap_or_default());
                }
                Content::Closing => {
                    depth =
                        depth.checked_sub(1).ok_or(DecodeError::Expected("the closing tag of the opened number"))?;
                }
                Content::Application(_) if tag.number == BOOLEAN => {}
                Content::Application(length) | Content::Context(length) => {
                    self.bytes(length)?;
                }
            }
        }
    }
}

/// The unsigned number of up to eight bytes, high byte first.
///
/// # Errors
/// There are no bytes, or more.
pub fn unsigned(bytes: &[u8]) -> Decoded<u64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return Err(DecodeError::Range("the length of an unsigned number"));
    }
    Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// The signed number of up to eight bytes, two's complement, high byte first.
///
/// # Errors
/// There are no bytes, or more.
pub fn signed(bytes: &[u8]) -> Decoded<i64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return Err(DecodeError::Range("the length of a signed number"));
    }
    let start = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    Ok(bytes.iter().fold(start, |sum, byte| sum << 8 | i64::from(*byte)))
}

/// Writes tags and content at the end of a buffer.
pub trait Write {
    /// A tag of a data type of the application.
    fn application_tag(&mut self, number: u8, length: usize);
    /// A value with a context number.
    fn context(&mut self, number: u8, content: &[u8]);
    /// An unsigned or enumerated number with a context number.
    fn context_number(&mut self, number: u8, value: u64);
    /// An opening tag.
    fn opening(&mut self, number: u8);
    /// A closing tag.
    fn closing(&mut self, number: u8);
}

impl Write for Vec<u8> {
    fn application_tag(&mut self, number: u8, length: usize) {
        tag(self, number, 0, length);
    }

    fn context(&mut self, number: u8, content: &[u8]) {
        tag(self, number, 0x08, content.len());
        self.extend_from_slice(content);
    }

    fn context_number(&mut self, number: u8, value: u64) {
        let bytes = value.to_be_bytes();
        self.context(number, significant(&bytes));
    }

    fn opening(&mut self, number: u8) {
        head(self, number, 0x0E);
    }

    fn closing(&mut self, number: u8) {
        head(self, number, 0x0F);
    }
}

/// The bytes of an unsigned number without leading zeros; one at least.
pub(crate) fn significant(bytes: &[u8; 8]) -> &[u8] {
    let zeros = bytes.iter().take(7).take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn head(out: &mut Vec<u8>, number: u8, low: u8) {
    if number < 15 {
        out.push(number << 4 | low);
    } else {
        out.extend([0xF0 | low, number]);
    }
}

fn tag(out: &mut Vec<u8>, number: u8, class: u8, length: usize) {
    match (u8::try_from(length), u16::try_from(length), u32::try_from(length)) {
        (Ok(short @ 0..=4), ..) => head(out, number, class | short),
        (Ok(byte @ 5..=253), ..) => {
            head(out, number, class | 5);
            out.push(byte);
        }
        (_, Ok(word), _) => {
            head(out, number, class | 5);
            out.push(254);
            out.extend(word.to_be_bytes());
        }
        (.., word) => {
            head(out, number, class | 5);
            out.push(255);
            out.extend(word.unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

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

/// Bits of the first byte of a context tag that opens, and of one that closes.
const OPENING: u8 = 0x0E;
const CLOSING: u8 = 0x0F;
/// From here on the number follows the first byte.
const LONG_NUMBER: u8 = 0xF0;
/// The length follows.
const LONG_LENGTH: u8 = 5;

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

    /// The byte of the next tag, where it has a number below 15 and so is that one byte, and perhaps a longer length.
    fn short(&self) -> Option<u8> {
        self.rest().first().copied().filter(|first| *first < LONG_NUMBER)
    }

    /// Passes a tag of one byte; false where it is not next. None where that takes a closer look.
    fn pass_short(&mut self, number: u8, low: u8) -> Option<bool> {
        let is_next = self.short()? == (number << 4 | low) && number < 15;
        if is_next {
            self.cursor.u8().ok()?;
        }
        Some(is_next)
    }

    /// Whether the next tag is a value of this context number.
    #[must_use]
    pub fn is_context(&self, number: u8) -> bool {
        if let Some(first) = self.short().filter(|first| first & 0x07 != LONG_LENGTH) {
            return first >> 4 == number && first & 0x08 != 0 && first & 0x07 < LONG_LENGTH;
        }
        matches!(self.peek(), Some(Tag { number: found, content: Content::Context(_) }) if found == number)
    }

    /// Whether the next tag opens this number.
    #[must_use]
    pub fn is_opening(&self, number: u8) -> bool {
        if let Some(first) = self.short() {
            return first == (number << 4 | OPENING) && number < 15;
        }
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
        if self.pass_short(number, OPENING) == Some(true) {
            return Ok(());
        }
        if self.tag()? == (Tag { number, content: Content::Opening }) {
            Ok(())
        } else {
            Err(DecodeError::Expected(what))
        }
    }

    /// Passes a closing tag, where it is next.
    pub fn closing_if(&mut self, number: u8) -> bool {
        if let Some(found) = self.pass_short(number, CLOSING) {
            return found;
        }
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
        if let (Ok(byte), ..15) = (u8::try_from(value), number) {
            return self.extend([number << 4 | 0x09, byte]);
        }
        let bytes = value.to_be_bytes();
        self.context(number, significant(&bytes));
    }

    fn opening(&mut self, number: u8) {
        head(self, number, OPENING);
    }

    fn closing(&mut self, number: u8) {
        head(self, number, CLOSING);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_next_is_what_its_tag_says(
            first: u8,
            number in 0_u8..32,
            rest in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let bytes: Vec<u8> = core::iter::once(first).chain(rest).collect();
            let reader = Reader::new(&bytes);
            let next = reader.peek();
            let is = |content| next == Some(Tag { number, content });
            let is_context = matches!(next, Some(Tag { number: found, content: Content::Context(_) }) if found == number);
            prop_assert_eq!(reader.is_context(number), is_context);
            prop_assert_eq!(reader.is_opening(number), is(Content::Opening));
            let passed = |pass: fn(&mut Reader<'_>, u8) -> bool| {
                let mut reader = reader;
                (pass(&mut reader, number), bytes.len() - reader.rest().len())
            };
            let tag_bytes = if first < LONG_NUMBER { 1 } else { 2 };
            let closing = passed(|reader, number| reader.closing_if(number));
            prop_assert_eq!(closing, if is(Content::Closing) { (true, tag_bytes) } else { (false, 0) });
            let opening = passed(|reader, number| reader.opening(number, "an opening tag").is_ok());
            prop_assert_eq!(opening.0, is(Content::Opening));
            prop_assert!(!opening.0 || opening.1 == tag_bytes);
        }

        #[test]
        fn numbers_are_read_as_they_are_written(number in 0_u8..255, value: u64) {
            for value in [value, value & 0xFF] {
                let mut bytes = Vec::new();
                bytes.context_number(number, value);
                let mut reader = Reader::new(&bytes);
                prop_assert_eq!(reader.context_number::<u64>(number, "a number"), Ok(value));
                prop_assert!(reader.is_empty());
            }
        }
    }
}

//! BSON: documents as bytes, written in order and read by a view that copies nothing.
//!
//! ```text
//!  document   length (i32, all of it) │ element … │ 0
//!  element    kind │ name │ 0 │ value
//! ```

use std::fmt;

/// What is wrong with bytes that are no BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BsonError(&'static str);

impl fmt::Display for BsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer is no BSON: {}", self.0)
    }
}

impl std::error::Error for BsonError {}

/// A value, as a view on bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bson<'a> {
    /// A double.
    Double(f64),
    /// A text.
    Text(&'a str),
    /// A document.
    Document(Document<'a>),
    /// An array: a document whose names are numbers.
    Array(Document<'a>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A number that a client or a server made for a document.
    ObjectId([u8; 12]),
    /// A truth.
    Bool(bool),
    /// Milliseconds since 1970.
    Date(i64),
    /// Nothing.
    Null,
    /// 32 bits.
    Int32(i32),
    /// 64 bits.
    Int64(i64),
    /// A kind that nothing here needs.
    Other(u8),
}

impl<'a> Bson<'a> {
    /// A whole number, in whatever kind.
    pub fn int(self) -> Option<i64> {
        match self {
            Self::Int32(n) => Some(n.into()),
            Self::Int64(n) => Some(n),
            #[expect(clippy::cast_possible_truncation, reason = "servers tell small numbers as doubles")]
            Self::Double(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(x as i64),
            _ => None,
        }
    }

    /// A text.
    pub fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// A document.
    pub fn document(self) -> Option<Document<'a>> {
        if let Self::Document(document) = self { Some(document) } else { None }
    }

    /// Whether it says yes: a truth, or a number that is not zero.
    pub fn is_true(self) -> bool {
        self == Self::Bool(true) || self.int().is_some_and(|n| n != 0)
    }
}

/// A document, whose length is checked and whose elements are not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    elements: &'a [u8],
}

impl<'a> Document<'a> {
    /// The document at the beginning of bytes, and what is behind it.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BsonError> {
        let (length, _) = int32(bytes)?;
        let length = usize::try_from(length).ok().filter(|length| *length >= 5).ok_or(BsonError("a length"))?;
        let (whole, rest) = bytes.split_at_checked(length).ok_or(BsonError("it ends early"))?;
        match whole.get(4..) {
            Some([elements @ .., 0]) => Ok((Self { elements }, rest)),
            _ => Err(BsonError("a document does not end")),
        }
    }

    /// Names and values.
    pub fn iter(self) -> Elements<'a> {
        Elements { rest: self.elements }
    }

    /// The value of a name; none where it is not there, or the document is none up to it.
    pub fn get(self, name: &str) -> Option<Bson<'a>> {
        self.iter().map_while(Result::ok).find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// The elements of a document; the first error is the last.
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<(&'a str, Bson<'a>), BsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first()?;
        match element(*kind, rest) {
            Ok((name, value, rest)) => {
                self.rest = rest;
                Some(Ok((name, value)))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

type Element<'a> = (&'a str, Bson<'a>, &'a [u8]);

fn element(kind: u8, bytes: &[u8]) -> Result<Element<'_>, BsonError> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(BsonError("a name does not end"))?;
    let (name, rest) = bytes.split_at_checked(end).ok_or(BsonError("a name"))?;
    let name = std::str::from_utf8(name).map_err(|_| BsonError("a name is no UTF-8"))?;
    let rest = rest.get(1..).unwrap_or_default();
    let (value, rest) = match kind {
        0x01 => {
            let (bytes, rest) = chunk(rest)?;
            (Bson::Double(f64::from_le_bytes(*bytes)), rest)
        }
        0x02 => {
            let (bytes, rest) = counted(rest)?;
            let [text @ .., 0] = bytes else { return Err(BsonError("a text does not end")) };
            (Bson::Text(std::str::from_utf8(text).map_err(|_| BsonError("a text is no UTF-8"))?), rest)
        }
        0x03 => Document::read(rest).map(|(found, rest)| (Bson::Document(found), rest))?,
        0x04 => Document::read(rest).map(|(found, rest)| (Bson::Array(found), rest))?,
        0x05 => {
            let (length, rest) = int32(rest)?;
            let length = usize::try_from(length).map_err(|_| BsonError("a length"))?;
            let rest = rest.get(1..).ok_or(BsonError("it ends early"))?;
            let (bytes, rest) = rest.split_at_checked(length).ok_or(BsonError("it ends early"))?;
            (Bson::Bytes(bytes), rest)
        }
        0x07 => chunk(rest).map(|(bytes, rest)| (Bson::ObjectId(*bytes), rest))?,
        0x08 => match rest.split_first() {
            Some((0, rest)) => (Bson::Bool(false), rest),
            Some((1, rest)) => (Bson::Bool(true), rest),
            _ => return Err(BsonError("a truth")),
        },
        0x09 => chunk(rest).map(|(bytes, rest)| (Bson::Date(i64::from_le_bytes(*bytes)), rest))?,
        0x0a => (Bson::Null, rest),
        0x10 => int32(rest).map(|(n, rest)| (Bson::Int32(n), rest))?,
        0x12 => chunk(rest).map(|(bytes, rest)| (Bson::Int64(i64::from_le_bytes(*bytes)), rest))?,
        0x11 => chunk::<8>(rest).map(|(_, rest)| (Bson::Other(kind), rest))?,
        0x13 => chunk::<16>(rest).map(|(_, rest)| (Bson::Other(kind), rest))?,
        0x06 | 0x7f | 0xff => (Bson::Other(kind), rest),
        _ => return Err(BsonError("a kind that is not known")),
    };
    Ok((name, value, rest))
}

fn chunk<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), BsonError> {
    bytes.split_first_chunk().ok_or(BsonError("it ends early"))
}

fn int32(bytes: &[u8]) -> Result<(i32, &[u8]), BsonError> {
    chunk(bytes).map(|(four, rest)| (i32::from_le_bytes(*four), rest))
}

/// Bytes after their count.
fn counted(bytes: &[u8]) -> Result<(&[u8], &[u8]), BsonError> {
    let (length, rest) = int32(bytes)?;
    let length = usize::try_from(length).map_err(|_| BsonError("a length"))?;
    rest.split_at_checked(length).ok_or(BsonError("it ends early"))
}

/// Writes documents one after the other, nested as they are begun and ended.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    begun: Vec<usize>,
}

impl Writer {
    /// Begins a document that is in none.
    pub fn begin(&mut self) -> &mut Self {
        self.begun.push(self.bytes.len());
        self.bytes.extend([0; 4]);
        self
    }

    /// Ends what was begun last.
    pub fn end(&mut self) -> &mut Self {
        self.bytes.push(0);
        let begin = self.begun.pop().unwrap_or_default();
        let length = u32::try_from(self.bytes.len() - begin).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(begin..begin + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        self
    }

    fn name(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        // A name ends at a zero: what is behind it would be another element.
        self.bytes.extend(name.bytes().take_while(|byte| *byte != 0));
        self.bytes.push(0);
    }

    /// Begins a document in the one that was begun last.
    pub fn document(&mut self, name: &str) -> &mut Self {
        self.name(0x03, name);
        self.begin()
    }

    /// Begins an array; its elements have the names 0, 1 and so on.
    pub fn array(&mut self, name: &str) -> &mut Self {
        self.name(0x04, name);
        self.begin()
    }

    /// A double.
    pub fn double(&mut self, name: &str, value: f64) -> &mut Self {
        self.name(0x01, name);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// A text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(0x02, name);
        self.bytes.extend((u32::try_from(value.len() + 1).unwrap_or(u32::MAX)).to_le_bytes());
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
        self
    }

    /// Bytes.
    pub fn binary(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.name(0x05, name);
        self.bytes.extend((u32::try_from(value.len()).unwrap_or(u32::MAX)).to_le_bytes());
        self.bytes.push(0);
        self.bytes.extend(value);
        self
    }

    /// A number of a document.
    pub fn object_id(&mut self, name: &str, value: [u8; 12]) -> &mut Self {
        self.name(0x07, name);
        self.bytes.extend(value);
        self
    }

    /// A truth.
    pub fn bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(0x08, name);
        self.bytes.push(u8::from(value));
        self
    }

    /// Milliseconds since 1970.
    pub fn date(&mut self, name: &str, value: i64) -> &mut Self {
        self.name(0x09, name);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Nothing.
    pub fn null(&mut self, name: &str) -> &mut Self {
        self.name(0x0a, name);
        self
    }

    /// 32 bits.
    pub fn int32(&mut self, name: &str, value: i32) -> &mut Self {
        self.name(0x10, name);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// 64 bits.
    pub fn int64(&mut self, name: &str, value: i64) -> &mut Self {
        self.name(0x12, name);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_bytes_of_the_specification() {
        let mut writer = Writer::default();
        writer.begin().text("hello", "world").end();
        assert_eq!(writer.bytes(), b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0");
        writer.clear();
        writer.begin().array("BSON").text("0", "awesome").double("1", 5.05).int32("2", 1986).end().end();
        let expect = b"\x31\0\0\0\x04BSON\0\x26\0\0\0\x020\0\x08\0\0\0awesome\0\x011\0\x33\x33\x33\x33\x33\x33\x14\x40\x102\0\xc2\x07\0\0\0\0";
        assert_eq!(writer.bytes(), expect);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.begin().bool("a", true).null("b").date("c", -1).int64("d", 1 << 40).binary("e", &[1, 2]);
        writer.object_id("f", [7; 12]).document("g").int32("h", -3).end().end();
        let (document, rest) = Document::read(writer.bytes()).unwrap();
        assert!(rest.is_empty());
        let all: Vec<_> = document.iter().map(Result::unwrap).collect();
        assert_eq!(all.len(), 7);
        assert_eq!(document.get("d"), Some(Bson::Int64(1 << 40)));
        assert_eq!(document.get("e"), Some(Bson::Bytes(&[1, 2])));
        assert_eq!(document.get("f"), Some(Bson::ObjectId([7; 12])));
        assert_eq!(document.get("g").unwrap().document().unwrap().get("h").unwrap().int(), Some(-3));
        assert!(document.get("a").unwrap().is_true() && document.get("x").is_none());
    }

    #[test]
    fn bytes_that_are_none_end_with_an_error() {
        let mut writer = Writer::default();
        writer.begin().text("a", "b").array("c").double("0", 1.0).end().binary("d", b"xyz").end();
        let whole = writer.bytes().to_vec();
        for length in 0..whole.len() {
            assert!(Document::read(&whole[..length]).is_err());
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut other = whole.clone();
                other[at] ^= 1 << bit;
                if let Ok((document, _)) = Document::read(&other) {
                    assert!(document.iter().take(20).count() < 20);
                }
            }
        }
    }
}

//! An XML document as a tree, within limits.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::cell::Cell;

/// Bytes of a document, elements within each other, and elements in all: beyond them it is refused.
const BYTES_MAX: usize = 64 << 20;
const DEPTH_MAX: usize = 64;
const ELEMENTS_MAX: usize = 2_000_000;

/// One element.
#[derive(Debug, Default)]
pub(super) struct Element {
    /// Without its prefix.
    pub(super) name: String,
    /// Where it begins, in bytes.
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    /// Whether somebody looked at it.
    pub(super) seen: Cell<bool>,
}

/// What is wrong, and where.
pub(super) type Fault = (usize, String);

impl Element {
    /// The first child of a name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.all(name).next()
    }

    /// All children of a name.
    pub(super) fn all<'e>(&'e self, name: &str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name).inspect(|child| child.seen.set(true))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a document; its root.
pub(super) fn parse(text: &str) -> Result<Element, Fault> {
    if text.len() > BYTES_MAX {
        return Err((0, format!("a document of {} bytes", text.len())));
    }
    let mut reader = Reader::from_str(text);
    let (mut open, mut count): (Vec<Element>, usize) = (vec![Element::default()], 0);
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let event = reader.read_event().map_err(|error| (at, format!("invalid XML: {error}")))?;
        let closes = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                count += 1;
                if open.len() > DEPTH_MAX || count > ELEMENTS_MAX {
                    return Err((at, "more elements, or deeper ones, than are read".to_owned()));
                }
                open.push(element(&start, at)?);
                if closes {
                    close(&mut open);
                }
            }
            Event::End(_) => close(&mut open),
            Event::Text(part) => push(&mut open, &part),
            Event::CData(part) => push(&mut open, &part),
            Event::GeneralRef(name) => {
                let named: &str = &name;
                let known = quick_xml::escape::resolve_predefined_entity(named).map(str::to_owned);
                let char = name.resolve_char_ref().ok().flatten().map(String::from);
                push(&mut open, &known.or(char).ok_or_else(|| (at, format!("the unknown entity &{named};")))?);
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    let root = open.pop().filter(|_| open.is_empty()).and_then(|mut all| all.children.pop());
    root.ok_or_else(|| (text.len(), "no document".to_owned()))
}

fn element(start: &BytesStart<'_>, at: usize) -> Result<Element, Fault> {
    let name = start.local_name().as_ref().to_owned();
    let mut element = Element { name, at, ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| (at, format!("invalid XML: {error}")))?;
        let key = attribute.key.as_ref().to_owned();
        let value =
            quick_xml::escape::unescape(&attribute.value).map_err(|error| (at, format!("invalid XML: {error}")))?;
        element.attributes.push((key, value.into_owned()));
    }
    Ok(element)
}

fn push(open: &mut [Element], part: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(part);
    }
}

fn close(open: &mut Vec<Element>) {
    if let Some(mut element) = open.pop() {
        element.text = element.text.trim().to_owned();
        if let Some(parent) = open.last_mut() {
            parent.children.push(element);
        }
    }
}

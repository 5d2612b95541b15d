//! The properties of one packet, kept as the bytes that came and checked once, so that reading a packet allocates nothing
//! for them and forwarding them copies a slice.
//!
//! ```text
//!  0                 user_at
//! +- - - - - - - - -+- - - - - - - - -+
//! | of the standard | user properties |     each group in the order in which it came ([MQTT-3.3.2-18])
//! +- - - - - - - - -+- - - - - - - - -+
//! ```
//!
//! What is here is known without a look at the bytes, and a property of the standard is found without one at the user
//! properties, of which a peer may send as many as a packet has room for: to ask a message for something costs the same
//! whatever its shape.

use super::place;
use super::property::{Property, RESPONSE_TOPIC, USER_PROPERTY, UserProperty};
use crate::cursor::{Reader, Sink, VARIABLE_MAX, is_topic_name};
use crate::{DecodeError, Text};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher};

/// Properties of one packet of a client; a server disconnects who sends more, with 0x97.
pub const PROPERTIES_MAX: usize = 1024;
/// User properties that begin so are a server's and its clients' words for what goes beyond the standard.
const OWN: &[u8] = b"tieline-";

/// The properties of one packet: those of the standard, then user properties.
#[derive(Clone, Default)]
pub struct Properties {
    block: Bytes,
    /// Where user properties begin.
    user_at: usize,
    found: Found,
}

/// What is in a block.
#[derive(Clone, Copy, Default)]
struct Found {
    /// A bit for each identifier.
    ids: u64,
    count: u32,
    /// Whether the name of a user property begins with [`OWN`].
    own: bool,
}

/// A user property whose name begins with `tieline-`. There may be many: they are compared, not read.
#[derive(Clone, Copy, Debug)]
pub struct OwnProperty<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> OwnProperty<'a> {
    /// Whether this is its name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name == name.as_bytes()
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &'a str {
        // It was checked when the packet was read.
        core::str::from_utf8(self.value).unwrap_or_default()
    }
}

impl Properties {
    /// Reads the length and the block, and checks each property: known, in its place, in range, and once where it
    /// may come once.
    pub(crate) fn read(reader: &mut Reader<'_>, place: u16) -> Result<Self, DecodeError> {
        let count = usize::try_from(reader.variable()?).map_err(|_| DecodeError::Truncated)?;
        Self::check(reader.take(count)?, place)
    }

    /// The properties of a message, from their bytes without the length.
    ///
    /// # Errors
    /// They are none that a message may have.
    pub fn of_message(block: Bytes) -> Result<Self, DecodeError> {
        Self::check(block, place::PUBLISH)
    }

    /// The properties of a SUBSCRIBE, from their bytes without the length.
    ///
    /// # Errors
    /// They are none that it may have.
    pub fn of_subscribe(block: Bytes) -> Result<Self, DecodeError> {
        Self::check(block, place::SUBSCRIBE)
    }

    fn check(block: Bytes, place: u16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&block);
        let (mut found, mut user_at, mut is_mixed) = (Found::default(), None, false);
        while !reader.is_empty() {
            let at = block.len() - reader.left();
            let id = reader.variable()?;
            if Property::places(id) & place == 0 {
                return Err(DecodeError::PropertyPlace(id));
            }
            let is_own = match id {
                USER_PROPERTY => {
                    user_at.get_or_insert(at);
                    let name = reader.checked_text()?;
                    reader.checked_text()?;
                    name.starts_with(OWN)
                }
                RESPONSE_TOPIC if !is_topic_name(reader.checked_text()?) => return Err(property_value(id)),
                RESPONSE_TOPIC => false,
                _ => Property::check(id, &mut reader).map(|()| false)?,
            };
            if found.has(id) && !Property::may_repeat(id, place) {
                return Err(DecodeError::PropertyTwice(u8::try_from(id).unwrap_or(u8::MAX)));
            }
            is_mixed |= id != USER_PROPERTY && user_at.is_some();
            found.add(id, is_own);
        }
        let user_at = user_at.unwrap_or(block.len());
        Ok(if is_mixed { Self::sorted(&block, found) } else { Self { block, user_at, found } })
    }

    /// Puts user properties behind the others in a block that was checked.
    fn sorted(block: &Bytes, found: Found) -> Self {
        let mut reader = Reader::new(block);
        let (mut sorted, mut users) = (Vec::with_capacity(block.len()), Vec::new());
        while let Some(from) = Some(block.len() - reader.left()).filter(|at| *at < block.len()) {
            let Ok(id) = reader.variable() else { break };
            if Property::check(id, &mut reader).is_err() {
                break;
            }
            let bytes = block.get(from..block.len() - reader.left()).unwrap_or_default();
            if id == USER_PROPERTY { &mut users } else { &mut sorted }.extend_from_slice(bytes);
        }
        let user_at = sorted.len();
        sorted.append(&mut users);
        Self { block: sorted.into(), user_at, found }
    }

    /// Writes the length and the block.
    pub(crate) fn write(&self, out: &mut impl Sink) {
        out.variable(u32::try_from(self.block.len()).unwrap_or(VARIABLE_MAX));
        out.put(&self.block);
    }

    /// The block without its length.
    pub(crate) fn block(&self) -> &[u8] {
        &self.block
    }

    /// The bytes without the length, in memory of their own.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.block)
    }

    /// How many bytes these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// How many properties there are.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.found.count).unwrap_or(usize::MAX)
    }

    /// Each property: those of the standard first.
    pub fn iter(&self) -> impl Iterator<Item = Property> + '_ {
        read_all(Reader::new(&self.block))
    }

    /// Those of the standard.
    fn of_standard(&self) -> impl Iterator<Item = Property> + '_ {
        read_all(Reader::within(&self.block, self.standard()))
    }

    fn standard(&self) -> &[u8] {
        self.block.get(..self.user_at).unwrap_or_default()
    }

    fn users(&self) -> &[u8] {
        self.block.get(self.user_at..).unwrap_or_default()
    }

    /// The first property with this identifier.
    pub(super) fn first<T>(&self, id: u8, pick: impl Fn(Property) -> Option<T>) -> Option<T> {
        match u32::from(id) {
            id if !self.found.has(id) => None,
            USER_PROPERTY => self.iter().find_map(pick),
            _ => self.of_standard().find_map(pick),
        }
    }

    /// The user properties.
    pub fn user_properties(&self) -> impl Iterator<Item = UserProperty> + '_ {
        let text = |bytes| Text::from_bytes(self.block.slice_ref(bytes)).ok();
        self.pairs().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
    }

    /// The user properties whose names begin with `tieline-`: what clients and this server agree on beyond the standard.
    pub fn own_properties(&self) -> impl Iterator<Item = OwnProperty<'_>> {
        let pairs = self.found.own.then(|| self.pairs().filter(|(name, _)| name.starts_with(OWN)));
        pairs.into_iter().flatten().map(|(name, value)| OwnProperty { name, value })
    }

    /// The first of them that has this name.
    #[must_use]
    pub fn own_property(&self, name: &str) -> Option<&str> {
        self.own_properties().find(|own| own.is(name)).map(|own| own.value())
    }

    /// The names and values of user properties.
    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        let mut reader = Reader::within(&self.block, self.users());
        core::iter::from_fn(move || {
            reader.variable().ok()?;
            Some((reader.field().ok()?, reader.field().ok()?))
        })
    }

    /// The same and one more.
    #[must_use]
    pub fn with(&self, property: &Property) -> Self {
        let is_user = u32::from(property.id()) == USER_PROPERTY;
        let mut block = Vec::with_capacity(self.block.len() + property.bytes());
        block.extend_from_slice(self.standard());
        if !is_user {
            property.write(&mut block);
        }
        let user_at = block.len();
        block.extend_from_slice(self.users());
        if is_user {
            property.write(&mut block);
        }
        let mut found = self.found;
        found.add_property(property);
        Self { block: block.into(), user_at, found }
    }

    /// The same without user properties of this name.
    #[must_use]
    pub fn without_user_property(&self, name: &str) -> Self {
        let (mut block, mut found) = (self.standard().to_vec(), Found::default());
        self.of_standard().for_each(|property| found.add_property(&property));
        let mut reader = Reader::within(&self.block, self.users());
        while let (Ok(_), Ok(known), Ok(value)) = (reader.variable(), reader.field(), reader.field()) {
            if known != name.as_bytes() {
                block.u8(0x26);
                block.field(known);
                block.field(value);
                found.add(USER_PROPERTY, known.starts_with(OWN));
            }
        }
        Self { block: block.into(), user_at: self.user_at, found }
    }

    /// The same with other properties of the standard: what `other` makes of each; none leaves it out.
    pub(crate) fn with_standard(&self, other: impl FnMut(Property) -> Option<Property>) -> Self {
        let (mut block, mut found) = (Vec::with_capacity(self.block.len() + 4), Found::default());
        for property in self.of_standard().filter_map(other) {
            found.add_property(&property);
            property.write(&mut block);
        }
        let user_at = block.len();
        block.extend_from_slice(self.users());
        let count = self.count() - self.of_standard().count();
        found.count = found.count.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        found.own = self.found.own;
        found.ids |= self.found.ids & 1 << USER_PROPERTY;
        Self { block: block.into(), user_at, found }
    }

    /// Those that belong to the message and not to the packet that carried it (section 3.3.2.3).
    pub(crate) fn travelling(&self) -> Self {
        if !self.found.has(0x23) && !self.found.has(0x0B) {
            return self.clone();
        }
        self.with_standard(|property| {
            Some(property).filter(|p| !matches!(p, Property::TopicAlias(_) | Property::SubscriptionIdentifier(_)))
        })
    }
}

impl Found {
    const fn has(self, id: u32) -> bool {
        self.ids & 1 << id != 0
    }

    fn add(&mut self, id: u32, own: bool) {
        self.ids |= 1 << id;
        self.count = self.count.saturating_add(1);
        self.own |= own;
    }

    fn add_property(&mut self, property: &Property) {
        let own = matches!(property, Property::UserProperty((name, _)) if name.bytes().starts_with(OWN));
        self.add(property.id().into(), own);
    }
}

fn read_all(mut reader: Reader<'_>) -> impl Iterator<Item = Property> {
    core::iter::from_fn(move || {
        let id = reader.variable().ok()?;
        Property::read(id, &mut reader).ok()
    })
}

fn property_value(id: u32) -> DecodeError {
    DecodeError::PropertyValue(u8::try_from(id).unwrap_or(u8::MAX))
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.block == other.block
    }
}

impl Eq for Properties {}

impl Hash for Properties {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.block.hash(state);
    }
}

impl FromIterator<Property> for Properties {
    fn from_iter<I: IntoIterator<Item = Property>>(properties: I) -> Self {
        let (mut block, mut users, mut found) = (Vec::new(), Vec::new(), Found::default());
        for property in properties {
            found.add_property(&property);
            let is_user = u32::from(property.id()) == USER_PROPERTY;
            property.write(if is_user { &mut users } else { &mut block });
        }
        let user_at = block.len();
        block.append(&mut users);
        Self { block: block.into(), user_at, found }
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

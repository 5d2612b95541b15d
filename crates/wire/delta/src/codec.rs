//! The codecs by number: what a build knows, what a subscriber takes.

use crate::DeltaError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// The number of a codec on the wire: 2 to 4 of docs/delta.md, 8 to 15 registered by a build's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Points by field.
    pub const POINT: Self = Self(2);
    /// Aligned hunks of bytes.
    pub const HUNK: Self = Self(3);
    /// Zstandard with the base as prefix.
    pub const ZSTD: Self = Self(4);
    /// Numbers that an owner may register.
    pub const OWN: core::ops::RangeInclusive<u8> = 8..=15;
}

/// A set of codecs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CodecSet(u16);

impl CodecSet {
    /// No codec: whole values only.
    pub const NONE: Self = Self(0);
    /// Points by field.
    pub const POINT: Self = Self(1 << 2);
    /// Aligned hunks.
    pub const HUNK: Self = Self(1 << 3);
    /// Zstandard with the base as prefix.
    pub const ZSTD: Self = Self(1 << 4);

    /// The set of one codec; empty for a number that no codec can have.
    #[must_use]
    pub const fn of(id: CodecId) -> Self {
        if matches!(id.0, 2..=4 | 8..=15) { Self(1 << id.0) } else { Self(0) }
    }

    /// What is in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is here and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is here.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a codec for bytes is here.
    #[must_use]
    pub const fn takes_bytes(self) -> bool {
        !self.without(Self::POINT).is_empty()
    }

    /// The bits: what a session keeps of a subscription.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From kept bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for CodecSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..16).filter(|bit| self.0 & (1 << bit) != 0)).finish()
    }
}

/// A way from one string of bytes to another.
///
/// It may keep memory for its work, but nothing of the values that it has seen: what `diff` wrote, `apply` of any
/// other process must be able to read.
pub trait Codec {
    /// Its number on the wire.
    fn id(&self) -> CodecId;

    /// Its name in the user property `tieline-delta`: lower-case letters, digits and `-`.
    fn name(&self) -> &'static str;

    /// Appends what makes `value` of `base` to `out`; false when that would be more than `delta_bytes_max` bytes or
    /// costs too much (what it appended is cut off by the caller).
    fn diff(&mut self, base: &[u8], value: &[u8], delta_bytes_max: usize, out: &mut Vec<u8>) -> bool;

    /// Appends the value that `delta` makes of `base` to `out`, which is empty.
    ///
    /// # Errors
    /// The delta is malformed, or the value is longer than `value_bytes_max`.
    fn apply(&mut self, base: &[u8], delta: &[u8], value_bytes_max: usize, out: &mut Vec<u8>)
    -> Result<(), DeltaError>;
}

/// Why a codec was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken;

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a codec's number must be 8 to 15, and number and name its own")
    }
}

impl core::error::Error for Taken {}

/// The codecs for bytes that a build knows, in the order in which they are tried. Points need none of them.
#[derive(Default)]
pub struct Codecs {
    known: Vec<Box<dyn Codec>>,
}

impl Codecs {
    /// All codecs that the features of this build bring.
    #[must_use]
    pub fn built_in() -> Self {
        #[cfg_attr(not(any(feature = "hunk", feature = "zstd")), expect(unused_mut, reason = "no codec is built in"))]
        let mut codecs = Self::default();
        #[cfg(feature = "hunk")]
        codecs.known.push(Box::new(crate::hunk::Hunk));
        #[cfg(feature = "zstd")]
        codecs.known.push(Box::new(crate::zstd::Zstd::default()));
        codecs
    }

    /// Adds a codec of the owner's.
    ///
    /// # Errors
    /// The number is not one of [`CodecId::OWN`], or number or name are taken.
    pub fn register(&mut self, codec: Box<dyn Codec>) -> Result<(), Taken> {
        let (id, name) = (codec.id(), codec.name());
        let taken = self.known.iter().any(|known| known.id() == id || known.name() == name);
        if taken || name == "point" || !CodecId::OWN.contains(&id.0) {
            return Err(Taken);
        }
        self.known.push(codec);
        Ok(())
    }

    /// Leaves only what is in `allowed`: a server that may not use a codec forgets it here.
    pub fn retain(&mut self, allowed: CodecSet) {
        self.known.retain(|codec| allowed.contains(CodecSet::of(codec.id())));
    }

    /// Everything that this build takes: points, and the codecs known.
    #[must_use]
    pub fn set(&self) -> CodecSet {
        self.known.iter().fold(CodecSet::POINT, |set, codec| set.with(CodecSet::of(codec.id())))
    }

    /// The set of one name; none when it is not known.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<CodecSet> {
        match name {
            "point" => Some(CodecSet::POINT),
            other => self.known.iter().find(|codec| codec.name() == other).map(|codec| CodecSet::of(codec.id())),
        }
    }

    /// The names of a set, in the order of this table.
    pub fn names(&self, set: CodecSet) -> impl Iterator<Item = &'static str> + '_ {
        let own = core::iter::once(("point", CodecSet::POINT));
        let known = self.known.iter().map(|codec| (codec.name(), CodecSet::of(codec.id())));
        own.chain(known).filter(move |(_, one)| set.contains(*one)).map(|(name, _)| name)
    }

    /// The codec of that number.
    pub fn by_id(&mut self, id: CodecId) -> Option<&mut Box<dyn Codec>> {
        self.known.iter_mut().find(|codec| codec.id() == id)
    }

    /// The codecs of a set, in the order in which they are tried.
    pub(crate) fn of(&mut self, set: CodecSet) -> impl Iterator<Item = &mut Box<dyn Codec>> {
        self.known.iter_mut().filter(move |codec| set.contains(CodecSet::of(codec.id())))
    }
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.iter().map(|codec| codec.name())).finish()
    }
}

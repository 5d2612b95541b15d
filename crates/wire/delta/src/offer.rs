//! The user property by which codecs are agreed.

use crate::{CodecSet, Codecs};
use alloc::string::String;

/// The name of the user property: on SUBSCRIBE what the client takes, on SUBACK what the server will use, on PUBLISH
/// [`MARK`].
pub const PROPERTY: &str = "tieline-delta";
/// Where a client publishes a topic's name to be sent its whole value.
pub const RESYNC_TOPIC: &str = "$tieline/resync";
/// The property's value on a PUBLISH that names its topic and whose payload is one of these. One that comes by an alias
/// alone is what the PUBLISH was that set the alias.
pub const MARK: &str = "1";
/// On SUBSCRIBE with [`PROPERTY`]: a word that the client is told when all last values have been sent that were due up to here.
pub const CAUGHT_UP: &str = "tieline-caught-up";
/// Where it is told.
pub const CAUGHT_UP_TOPIC: &str = "$tieline/caught-up";
/// The user property of a SUBSCRIBE with deltas that asks for versions of values (value [`MARK`]), and that of a marked PUBLISH that
/// tells one, in decimal digits.
pub const VERSION: &str = "tieline-version";
/// Bytes of the property's value that are read.
const OFFER_BYTES_MAX: usize = 256;

impl Codecs {
    /// What both sides know of a list such as `point,hunk,zstd`; unknown names are passed over.
    #[must_use]
    pub fn agree(&self, offer: &str) -> CodecSet {
        if offer.len() > OFFER_BYTES_MAX {
            return CodecSet::NONE;
        }
        let known = offer.split(',').filter_map(|name| self.named(name.trim()));
        known.fold(CodecSet::NONE, CodecSet::with)
    }

    /// A set as the value of the property; none for the empty set, which is said by leaving the property out.
    #[must_use]
    pub fn offer(&self, set: CodecSet) -> Option<String> {
        let mut list = String::new();
        for name in self.names(set) {
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(name);
        }
        (!list.is_empty()).then_some(list)
    }
}

//! The application layer (IEEE 1815 clause 4): fragments, object headers, and what they hold.
//!
//! ```text
//! request   FIR 80 FIN 40 CON 20 UNS 10 SEQ 0F | function | object headers …
//! response  the same                           | function | IIN1 | IIN2 | object headers …
//!
//! object header   group | variation | qualifier | range | objects, each with its prefix
//! qualifier       prefix code 70 | range code 0F
//! ```
//!
//! Reading: [`Fragment::parse`] → [`Fragment::headers`] → [`Header::measurements`], [`Header::controls`],
//! [`Header::attributes`], …; or a [`Walk`] over all that a response brings, which [`Values`] hold.
//! Writing: [`FragmentWriter`].

mod attribute;
mod control;
mod file;
mod fragment;
mod function;
mod header;
mod headers;
mod items;
mod object;
mod qualifier;
mod status;
mod walk;
mod write;

pub use attribute::{
    ALL_ATTRIBUTES, ATTRIBUTE_BYTES_MAX, Attribute, AttributeValue, Attributes, LIST_OF_ATTRIBUTES, ListedAttribute,
    attribute_name,
};
pub use control::{AppControl, Sequence};
pub use file::{
    DESCRIPTOR_BYTES, FILE_HEADER_BYTES, FileAuthentication, FileCommand, FileCommandStatus, FileDescriptor, FileKind,
    FileMode, FileObject, FileObjectError, FileStatus, FileTransport, FileTransportStatus, Permissions,
    TRANSPORT_BYTES,
};
pub use fragment::{Fragment, FragmentError};
pub use function::Function;
pub use header::{Header, Range};
pub use headers::{HeaderError, HeaderErrorKind, Headers};
pub use items::{ControlItem, Controls, Item, Items, Measurements};
pub use object::Object;
pub use qualifier::{Prefix, Qualifier, RangeCode};
pub use status::CommandStatus;
pub use walk::{Found, Values, Walk};
pub(crate) use write::Sample;
pub use write::{FragmentWriter, PointRef, WriteError};

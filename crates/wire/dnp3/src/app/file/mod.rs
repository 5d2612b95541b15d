//! The objects of file transfer (IEEE 1815 annex A, group 70).
//!
//! ```text
//! v2 authentication    user name at | bytes | password at | bytes | key u32 | names …
//! v3 command           name at | bytes | created time | permissions | key u32 | size u32 | mode | block bytes | request id | name
//! v4 command status    handle u32 | size u32 | block bytes | request id | status u8 | text
//! v5 transport         handle u32 | bit 31: last, block number | data
//! v6 transport status  handle u32 | bit 31: last, block number | status u8 | text
//! v7 descriptor        name at | bytes | type | size u32 | created time | permissions | request id | name
//! v8 specification     name
//! ```
//!
//! Plain fields have two bytes, low byte first; names stand where the first fields say. Every object has a header of its
//! own with qualifier 5B. Names and texts are bytes here: what they mean is for the owner of the files to say.

mod status;
mod text;

pub use status::FileStatus;

use super::{Header, Qualifier};
use crate::objects::bytes_of_time;
use crate::{DnpTime, GroupVar};
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Cursor;

/// Bytes of a group 70 header with qualifier 5B and one object: group, variation, qualifier, count, size.
pub const FILE_HEADER_BYTES: usize = 6;
/// Bytes of a transport object before its data.
pub const TRANSPORT_BYTES: usize = 8;
/// Bytes of a descriptor before its name.
pub const DESCRIPTOR_BYTES: usize = 20;
const AUTHENTICATION_BYTES: u16 = 12;
const COMMAND_BYTES: u16 = 26;
const LAST: u32 = 1 << 31;
const GROUP: u8 = 70;

/// What a file is opened for; codes beyond 3 have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileMode(pub u16);

impl FileMode {
    /// 0: not opened: the mode of a delete.
    pub const NULL: Self = Self(0);
    /// 1: to be read.
    pub const READ: Self = Self(1);
    /// 2: to be written from its beginning; what it held is lost.
    pub const WRITE: Self = Self(2);
    /// 3: to be written from its end.
    pub const APPEND: Self = Self(3);
}

/// What a file is; codes beyond 1 have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKind(pub u16);

impl FileKind {
    /// 0: a directory; its size is the number of its files.
    pub const DIRECTORY: Self = Self(0);
    /// 1: a simple file; its size is in bytes.
    pub const SIMPLE: Self = Self(1);
}

/// Who may do what: nine bits as in POSIX, for owner, group and world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions(pub u16);

impl Permissions {
    /// Everybody reads: octal 444.
    pub const READ: Self = Self(0o444);
    /// Everybody reads, the owner writes: octal 644.
    pub const READ_WRITE: Self = Self(0o644);
}

/// Variation 2: asks for a key, or brings one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAuthentication<'a> {
    /// Who asks; empty in an answer.
    pub user: &'a [u8],
    /// With what; empty in an answer. It travels in the clear.
    pub password: &'a [u8],
    /// The key; 0 in a request, and in a refusal.
    pub key: u32,
}

/// Variation 3: names a file and what to do with it. Functions 25 and 27 bring it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCommand<'a> {
    /// Which file, with its path.
    pub name: &'a [u8],
    /// When it was made, where one is written.
    pub created: DnpTime,
    /// Of a file that is written.
    pub permissions: Permissions,
    /// From [`FileAuthentication`]; 0 without.
    pub key: u32,
    /// Bytes that will be written; 0 to read, FFFF_FFFF when unknown.
    pub size: u32,
    /// What for.
    pub mode: FileMode,
    /// The most bytes of data in one block that the master takes or sends.
    pub block_bytes: u16,
    /// Comes back in the answer.
    pub request_id: u16,
}

/// Variation 4: what became of a command. Functions 26 and 30 bring it with the handle alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCommandStatus<'a> {
    /// Of the open file; 0 where there is none.
    pub handle: u32,
    /// Bytes of a simple file, files of a directory.
    pub size: u32,
    /// The most bytes of data in one block.
    pub block_bytes: u16,
    /// Of the command.
    pub request_id: u16,
    /// What became of it; 0 in a request.
    pub status: FileStatus,
    /// For people.
    pub text: &'a [u8],
}

/// Variation 5: a block of a file; without data, a request for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTransport<'a> {
    /// Of the open file.
    pub handle: u32,
    /// Which block, from 0 on; 31 bits.
    pub block: u32,
    /// Whether no block follows.
    pub last: bool,
    /// What it holds.
    pub data: &'a [u8],
}

/// Variation 6: what became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTransportStatus<'a> {
    /// Of the open file.
    pub handle: u32,
    /// Which block, from 0 on; 31 bits.
    pub block: u32,
    /// Whether no block follows.
    pub last: bool,
    /// What became of it.
    pub status: FileStatus,
    /// For people.
    pub text: &'a [u8],
}

/// Variation 7: describes a file. Function 28 asks with it; a directory is a file of these, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDescriptor<'a> {
    /// Its name: with its path in answer to function 28, without in a directory.
    pub name: &'a [u8],
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a simple file, files of a directory.
    pub size: u32,
    /// When it was made or changed last.
    pub created: DnpTime,
    /// Who may do what.
    pub permissions: Permissions,
    /// Of the command; 0 in a directory.
    pub request_id: u16,
}

/// One object of group 70.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileObject<'a> {
    /// Variation 1, which the standard gave up: bytes that are not looked into.
    Identifier(&'a [u8]),
    /// Variation 2.
    Authentication(FileAuthentication<'a>),
    /// Variation 3.
    Command(FileCommand<'a>),
    /// Variation 4.
    CommandStatus(FileCommandStatus<'a>),
    /// Variation 5.
    Transport(FileTransport<'a>),
    /// Variation 6.
    TransportStatus(FileTransportStatus<'a>),
    /// Variation 7.
    Descriptor(FileDescriptor<'a>),
    /// Variation 8: the name of a file.
    Specification(&'a [u8]),
}

/// Why an object of group 70 cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileObjectError {
    /// It is not of group 70, or of a variation beyond 8.
    Unknown(GroupVar),
    /// It ends within its fields.
    Truncated(GroupVar),
    /// A name does not lie within the object, or lies within its other fields.
    NameOutside(GroupVar),
}

impl fmt::Display for FileObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(object) => write!(f, "{object} is no object of file transfer"),
            Self::Truncated(object) => write!(f, "{object} ends within its fields"),
            Self::NameOutside(object) => write!(f, "{object} has a name outside of itself"),
        }
    }
}

impl core::error::Error for FileObjectError {}

impl<'a> FileObject<'a> {
    /// Reads an object without its header.
    ///
    /// # Errors
    /// It is of another group, or not whole.
    pub fn parse(object: GroupVar, bytes: &'a [u8]) -> Result<Self, FileObjectError> {
        if object.group != GROUP {
            return Err(FileObjectError::Unknown(object));
        }
        let parsed = match object.variation {
            1 => Ok(Self::Identifier(bytes)),
            2 => parse_authentication(bytes).map(Self::Authentication),
            3 => parse_command(bytes).map(Self::Command),
            4 => parse_command_status(bytes).map(Self::CommandStatus),
            5 => parse_transport(bytes).map(Self::Transport),
            6 => parse_transport_status(bytes).map(Self::TransportStatus),
            7 => FileDescriptor::read(bytes).map(|(descriptor, _)| Self::Descriptor(descriptor)),
            8 => Ok(Self::Specification(bytes)),
            _ => return Err(FileObjectError::Unknown(object)),
        };
        parsed.map_err(|fault| match fault {
            Fault::Truncated => FileObjectError::Truncated(object),
            Fault::NameOutside => FileObjectError::NameOutside(object),
        })
    }

    /// The objects of a header, in order; an error stands for one that cannot be read.
    pub fn all(header: &Header<'a>) -> impl Iterator<Item = Result<Self, FileObjectError>> + use<'a> {
        let object = header.object();
        header.items().map(move |item| Self::parse(object, item.bytes))
    }

    /// Its group and variation.
    #[must_use]
    pub const fn object(&self) -> GroupVar {
        GroupVar::new(
            GROUP,
            match self {
                Self::Identifier(_) => 1,
                Self::Authentication(_) => 2,
                Self::Command(_) => 3,
                Self::CommandStatus(_) => 4,
                Self::Transport(_) => 5,
                Self::TransportStatus(_) => 6,
                Self::Descriptor(_) => 7,
                Self::Specification(_) => 8,
            },
        )
    }

    /// Bytes of the object without its header.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Identifier(bytes) | Self::Specification(bytes) => bytes.len(),
            Self::Authentication(x) => AUTHENTICATION_BYTES as usize + x.user.len() + x.password.len(),
            Self::Command(x) => COMMAND_BYTES as usize + x.name.len(),
            Self::CommandStatus(x) => 13 + x.text.len(),
            Self::Transport(x) => TRANSPORT_BYTES + x.data.len(),
            Self::TransportStatus(x) => TRANSPORT_BYTES + 1 + x.text.len(),
            Self::Descriptor(x) => DESCRIPTOR_BYTES + x.name.len(),
        }
    }

    /// Appends a header with this one object: group, variation, qualifier 5B, 1, size, object. Of names and texts so long
    /// that the size does not fit 16 bits, no fragment could hold them, the end is left out.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let object = self.object();
        out.extend_from_slice(&[object.group, object.variation, Qualifier::FREE.0, 1]);
        let start = out.len();
        out.extend_from_slice(&[0, 0]);
        self.emit_object(out);
        out.truncate(start + 2 + usize::from(u16::MAX));
        let size = u16::try_from(out.len() - start - 2).unwrap_or(u16::MAX).to_le_bytes();
        if let Some(place) = out.get_mut(start..start + 2) {
            place.copy_from_slice(&size);
        }
    }

    /// Appends the object without a header: how a directory holds its descriptors.
    pub fn emit_object(&self, out: &mut Vec<u8>) {
        match self {
            Self::Identifier(bytes) | Self::Specification(bytes) => out.extend_from_slice(bytes),
            Self::Authentication(x) => x.emit(out),
            Self::Command(x) => x.emit(out),
            Self::CommandStatus(x) => x.emit(out),
            Self::Transport(x) => {
                push_block(x.handle, x.block, x.last, out);
                out.extend_from_slice(x.data);
            }
            Self::TransportStatus(x) => {
                push_block(x.handle, x.block, x.last, out);
                out.push(x.status.code());
                out.extend_from_slice(x.text);
            }
            Self::Descriptor(x) => x.emit(out),
        }
    }
}

enum Fault {
    Truncated,
    NameOutside,
}

impl From<tieline_core::Truncated> for Fault {
    fn from(_: tieline_core::Truncated) -> Self {
        Self::Truncated
    }
}

/// The name at an offset from the object's first byte; an empty one may claim to be anywhere.
fn name(bytes: &[u8], at: u16, count: u16, fixed: u16) -> Result<&[u8], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    let (at, count) = (usize::from(at), usize::from(count));
    let found = bytes.get(at..).and_then(|rest| rest.get(..count));
    found.filter(|_| at >= usize::from(fixed)).ok_or(Fault::NameOutside)
}

fn parse_authentication(bytes: &[u8]) -> Result<FileAuthentication<'_>, Fault> {
    let mut cursor = Cursor::new(bytes);
    let (user_at, user_bytes) = (cursor.u16_le()?, cursor.u16_le()?);
    let (password_at, password_bytes) = (cursor.u16_le()?, cursor.u16_le()?);
    let key = cursor.u32_le()?;
    let user = name(bytes, user_at, user_bytes, AUTHENTICATION_BYTES)?;
    let password = name(bytes, password_at, password_bytes, AUTHENTICATION_BYTES)?;
    Ok(FileAuthentication { user, password, key })
}

fn parse_command(bytes: &[u8]) -> Result<FileCommand<'_>, Fault> {
    let mut cursor = Cursor::new(bytes);
    let (name_at, name_bytes) = (cursor.u16_le()?, cursor.u16_le()?);
    Ok(FileCommand {
        created: DnpTime::from_millis(cursor.u48_le()?),
        permissions: Permissions(cursor.u16_le()?),
        key: cursor.u32_le()?,
        size: cursor.u32_le()?,
        mode: FileMode(cursor.u16_le()?),
        block_bytes: cursor.u16_le()?,
        request_id: cursor.u16_le()?,
        name: name(bytes, name_at, name_bytes, COMMAND_BYTES)?,
    })
}

fn parse_command_status(bytes: &[u8]) -> Result<FileCommandStatus<'_>, Fault> {
    let mut cursor = Cursor::new(bytes);
    Ok(FileCommandStatus {
        handle: cursor.u32_le()?,
        size: cursor.u32_le()?,
        block_bytes: cursor.u16_le()?,
        request_id: cursor.u16_le()?,
        status: FileStatus::from_byte(cursor.u8()?),
        text: cursor.rest(),
    })
}

fn parse_transport(bytes: &[u8]) -> Result<FileTransport<'_>, Fault> {
    let mut cursor = Cursor::new(bytes);
    let (handle, block) = (cursor.u32_le()?, cursor.u32_le()?);
    Ok(FileTransport { handle, block: block & !LAST, last: block & LAST != 0, data: cursor.rest() })
}

fn parse_transport_status(bytes: &[u8]) -> Result<FileTransportStatus<'_>, Fault> {
    let FileTransport { handle, block, last, data } = parse_transport(bytes)?;
    let mut cursor = Cursor::new(data);
    let status = FileStatus::from_byte(cursor.u8()?);
    Ok(FileTransportStatus { handle, block, last, status, text: cursor.rest() })
}

impl FileAuthentication<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        let [user, password] = [self.user, self.password].map(bytes_of);
        let password_at = AUTHENTICATION_BYTES.saturating_add(user);
        for field in [AUTHENTICATION_BYTES, user, password_at, password] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.key.to_le_bytes());
        out.extend_from_slice(self.user);
        out.extend_from_slice(self.password);
    }
}

impl FileCommand<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&COMMAND_BYTES.to_le_bytes());
        out.extend_from_slice(&bytes_of(self.name).to_le_bytes());
        out.extend_from_slice(&bytes_of_time(self.created));
        out.extend_from_slice(&self.permissions.0.to_le_bytes());
        out.extend_from_slice(&self.key.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        for field in [self.mode.0, self.block_bytes, self.request_id] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(self.name);
    }
}

impl FileCommandStatus<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.handle.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        out.extend_from_slice(&self.request_id.to_le_bytes());
        out.push(self.status.code());
        out.extend_from_slice(self.text);
    }
}

impl<'a> FileDescriptor<'a> {
    /// Reads the first descriptor of a directory's bytes; with how many bytes it takes. None: more bytes are needed.
    ///
    /// # Errors
    /// Its name does not follow its fields, so that where the next one begins is not known.
    pub fn take_from(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, FileObjectError> {
        match Self::read(bytes) {
            Ok((descriptor, end)) => Ok(Some((descriptor, end))),
            // A directory holds them without gaps: what is far away is no name.
            Err(Fault::NameOutside) if starts_after_fields(bytes) => Ok(None),
            Err(Fault::NameOutside) => Err(FileObjectError::NameOutside(GroupVar::new(GROUP, 7))),
            Err(Fault::Truncated) => Ok(None),
        }
    }

    fn read(bytes: &'a [u8]) -> Result<(Self, usize), Fault> {
        let mut cursor = Cursor::new(bytes);
        let (at, count) = (cursor.u16_le()?, cursor.u16_le()?);
        let descriptor = Self {
            kind: FileKind(cursor.u16_le()?),
            size: cursor.u32_le()?,
            created: DnpTime::from_millis(cursor.u48_le()?),
            permissions: Permissions(cursor.u16_le()?),
            request_id: cursor.u16_le()?,
            name: name(bytes, at, count, u16::try_from(DESCRIPTOR_BYTES).unwrap_or(u16::MAX))?,
        };
        let end = if count == 0 { DESCRIPTOR_BYTES } else { usize::from(at) + usize::from(count) };
        Ok((descriptor, end))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u16::try_from(DESCRIPTOR_BYTES).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&bytes_of(self.name).to_le_bytes());
        out.extend_from_slice(&self.kind.0.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&bytes_of_time(self.created));
        out.extend_from_slice(&self.permissions.0.to_le_bytes());
        out.extend_from_slice(&self.request_id.to_le_bytes());
        out.extend_from_slice(self.name);
    }
}

fn starts_after_fields(bytes: &[u8]) -> bool {
    Cursor::new(bytes).u16_le().is_ok_and(|at| usize::from(at) == DESCRIPTOR_BYTES)
}

fn bytes_of(name: &[u8]) -> u16 {
    u16::try_from(name.len()).unwrap_or(u16::MAX)
}

fn push_block(handle: u32, block: u32, last: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&handle.to_le_bytes());
    let block = block & !LAST | if last { LAST } else { 0 };
    out.extend_from_slice(&block.to_le_bytes());
}

#[cfg(test)]
mod tests;

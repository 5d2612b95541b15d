//! File objects as text, for people.

use super::{FileKind, FileMode, FileObject, Permissions};
use alloc::string::String;
use core::fmt;

impl fmt::Display for FileObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        match self {
            Self::Identifier(bytes) => write!(f, "obsolete, {} bytes", bytes.len()),
            Self::Authentication(x) => write!(f, "user {:?} key {:08X}", text(x.user), x.key),
            Self::Command(x) => {
                write!(f, "{:?} {}", text(x.name), x.mode)?;
                write!(f, " permissions {} size {}", x.permissions, x.size)?;
                write!(f, " block {} request {}", x.block_bytes, x.request_id)
            }
            Self::CommandStatus(x) => {
                write!(f, "handle {} size {} block {}", x.handle, x.size, x.block_bytes)?;
                write!(f, " request {} status {}", x.request_id, x.status)?;
                if x.text.is_empty() { Ok(()) } else { write!(f, " {:?}", text(x.text)) }
            }
            Self::Transport(x) => {
                write!(f, "handle {} block {}", x.handle, x.block)?;
                f.write_str(if x.last { " last" } else { "" })?;
                write!(f, ", {} bytes", x.data.len())
            }
            Self::TransportStatus(x) => {
                write!(f, "handle {} block {}", x.handle, x.block)?;
                f.write_str(if x.last { " last" } else { "" })?;
                write!(f, " status {}", x.status)?;
                if x.text.is_empty() { Ok(()) } else { write!(f, " {:?}", text(x.text)) }
            }
            Self::Descriptor(x) => {
                write!(f, "{:?} {} size {}", text(x.name), x.kind, x.size)?;
                write!(f, " permissions {} request {}", x.permissions, x.request_id)
            }
            Self::Specification(name) => write!(f, "{:?}", text(name)),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NULL => f.write_str("null"),
            Self::READ => f.write_str("read"),
            Self::WRITE => f.write_str("write"),
            Self::APPEND => f.write_str("append"),
            Self(other) => write!(f, "mode {other}"),
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::DIRECTORY => f.write_str("directory"),
            Self::SIMPLE => f.write_str("file"),
            Self(other) => write!(f, "type {other}"),
        }
    }
}

/// As `ls` shows them: `rw-r--r--`.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
            write!(f, "{}", if self.0 & (1 << bit) != 0 { letter } else { '-' })?;
        }
        Ok(())
    }
}

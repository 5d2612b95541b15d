//! The objects of secure authentication: group 120 (IEEE 1815 annex A.45). All numbers low byte first.
//!
//! ```text
//! v1  challenge            CSQ 4 | user 2 | MAC algorithm 1 | reason 1 | challenge data …
//! v2  reply                CSQ 4 | user 2 | MAC …
//! v3  aggressive request   CSQ 4 | user 2                                   (qualifier 07, count 1)
//! v4  key status request   user 2                                           (qualifier 07, count 1)
//! v5  key status           KSQ 4 | user 2 | key wrap 1 | status 1 | MAC algorithm 1 | length 2 | challenge data | MAC …
//! v6  key change           KSQ 4 | user 2 | wrapped keys …
//! v7  error                CSQ or KSQ 4 | user 2 | association 2 | code 1 | time 6 | text …
//! v8  user certificate     method 1 | type 1 | certificate …
//! v9  MAC                  MAC …
//! v10 user status change   method 1 | operation 1 | SCS 4 | role 2 | days 2 | lengths 2 2 2 | name | public key | certification
//! v11 update key request   method 1 | lengths 2 2 | name | challenge data
//! v12 update key reply     KSQ 4 | user 2 | length 2 | challenge data
//! v13 update key change    KSQ 4 | user 2 | length 2 | encrypted key
//! v14 signature            signature …
//! v15 confirmation         MAC …
//! ```
//!
//! All but v3 and v4 stand behind qualifier 5B with count 1 and their size in two bytes.

use super::{AuthError, KeyChangeMethod, KeyStatus, KeyWrap, MacAlgorithm, UserOperation};
use crate::app::{Fragment, Qualifier};
use crate::objects::bytes_of_time;
use crate::{DnpTime, GroupVar};
use alloc::vec::Vec;
use tieline_core::Cursor;

/// The group of them all.
pub const GROUP: u8 = 120;

/// Challenge data shorter than this is refused (IEEE 1815 A.45.1).
pub const CHALLENGE_BYTES_MIN: usize = 4;
/// Challenge data longer than this is refused: nobody needs it, and it is kept.
pub const CHALLENGE_BYTES_MAX: usize = 64;

/// One object of group 120. Codes that the standard does not name are kept as they are, so that they can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// v1.
    Challenge(Challenge<'a>),
    /// v2.
    Reply {
        /// Of the challenge.
        sequence: u32,
        /// Who answers.
        user: u16,
        /// Over the challenge's fragment and the challenged one.
        mac: &'a [u8],
    },
    /// v3: first in its fragment.
    AggressiveRequest {
        /// One more than the last.
        sequence: u32,
        /// Who asks.
        user: u16,
    },
    /// v4.
    KeyStatusRequest {
        /// Whose keys.
        user: u16,
    },
    /// v5.
    KeyStatus(KeyStatusObject<'a>),
    /// v6.
    KeyChange {
        /// Of the key status that it answers.
        sequence: u32,
        /// Whose keys.
        user: u16,
        /// Both session keys and the key status, wrapped with the update key.
        wrapped: &'a [u8],
    },
    /// v7.
    Error(ErrorObject<'a>),
    /// v8.
    Certificate {
        /// What the certificate is for.
        method: u8,
        /// 1 of an identity, 2 of an attribute.
        kind: u8,
        /// Its bytes.
        certificate: &'a [u8],
    },
    /// v9: last in its fragment.
    Mac(&'a [u8]),
    /// v10.
    UserStatusChange(UserStatusChange<'a>),
    /// v11.
    UpdateKeyRequest {
        /// How the key is to be changed.
        method: u8,
        /// Whose key.
        name: &'a [u8],
        /// Of the master.
        challenge: &'a [u8],
    },
    /// v12.
    UpdateKeyReply {
        /// Of this key change.
        sequence: u32,
        /// The number of the user.
        user: u16,
        /// Of the outstation.
        challenge: &'a [u8],
    },
    /// v13.
    UpdateKeyChange {
        /// Of this key change.
        sequence: u32,
        /// The number of the user.
        user: u16,
        /// Name, key and challenge of the outstation, wrapped with the authority's key.
        encrypted: &'a [u8],
    },
    /// v14.
    Signature(&'a [u8]),
    /// v15.
    Confirmation(&'a [u8]),
}

/// Group 120 variation 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Sequence number (CSQ).
    pub sequence: u32,
    /// Who is challenged; 0 where that is not known yet.
    pub user: u16,
    /// [`MacAlgorithm`] that the reply must use.
    pub mac: u8,
    /// [`ChallengeReason`](super::ChallengeReason).
    pub reason: u8,
    /// Random bytes.
    pub data: &'a [u8],
}

/// Group 120 variation 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStatusObject<'a> {
    /// Sequence number (KSQ).
    pub sequence: u32,
    /// Whose keys.
    pub user: u16,
    /// [`KeyWrap`] that the change must use.
    pub wrap: u8,
    /// [`KeyStatus`].
    pub status: u8,
    /// [`MacAlgorithm`] of `mac`; 0 without one.
    pub algorithm: u8,
    /// Random bytes.
    pub challenge: &'a [u8],
    /// Over the fragment of the key change; empty without one.
    pub mac: &'a [u8],
}

/// Group 120 variation 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorObject<'a> {
    /// CSQ or KSQ of what was refused; 0 where there is none.
    pub sequence: u32,
    /// Whose message was refused.
    pub user: u16,
    /// Which association, of those that the station has.
    pub association: u16,
    /// [`AuthError`].
    pub code: u8,
    /// When.
    pub time: DnpTime,
    /// For people.
    pub text: &'a [u8],
}

/// Group 120 variation 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStatusChange<'a> {
    /// [`KeyChangeMethod`].
    pub method: u8,
    /// [`UserOperation`].
    pub operation: u8,
    /// Status change sequence number (SCS).
    pub sequence: u32,
    /// [`Role`](super::Role).
    pub role: u16,
    /// Days until the role ends.
    pub days: u16,
    /// Who.
    pub name: &'a [u8],
    /// Of an asymmetric method.
    pub public_key: &'a [u8],
    /// The authority's MAC or signature.
    pub certification: &'a [u8],
}

impl<'a> Authentication<'a> {
    /// Reads an object without its prefix; None when it is of another kind, too short or too long.
    #[must_use]
    pub fn parse(object: GroupVar, bytes: &'a [u8]) -> Option<Self> {
        if object.group != GROUP {
            return None;
        }
        let mut cursor = Cursor::new(bytes);
        let parsed = read(object.variation, &mut cursor)?;
        cursor.is_empty().then_some(parsed)
    }

    /// The objects of group 120 in a fragment, first to last; ends at what cannot be read.
    pub fn all(fragment: &Fragment<'a>) -> impl Iterator<Item = Self> + use<'a> {
        fragment
            .headers()
            .map_while(Result::ok)
            .flat_map(|header| header.items().map(move |item| Self::parse(header.object(), item.bytes)))
            .map_while(|object| object)
    }

    /// The one object of a fragment that has nothing else.
    #[must_use]
    pub fn only(fragment: &Fragment<'a>) -> Option<Self> {
        let mut written = Vec::new();
        let object = Self::all(fragment).next()?;
        object.write(&mut written);
        (written == fragment.objects).then_some(object)
    }

    /// Its variation.
    #[must_use]
    pub const fn variation(&self) -> u8 {
        match self {
            Self::Challenge(_) => 1,
            Self::Reply { .. } => 2,
            Self::AggressiveRequest { .. } => 3,
            Self::KeyStatusRequest { .. } => 4,
            Self::KeyStatus(_) => 5,
            Self::KeyChange { .. } => 6,
            Self::Error(_) => 7,
            Self::Certificate { .. } => 8,
            Self::Mac(_) => 9,
            Self::UserStatusChange(_) => 10,
            Self::UpdateKeyRequest { .. } => 11,
            Self::UpdateKeyReply { .. } => 12,
            Self::UpdateKeyChange { .. } => 13,
            Self::Signature(_) => 14,
            Self::Confirmation(_) => 15,
        }
    }

    /// Appends the object with its header. What a length field cannot hold is cut: nothing of this crate is so long.
    pub fn write(&self, out: &mut Vec<u8>) {
        let qualifier = if matches!(self.variation(), 3 | 4) { Qualifier::COUNT_8 } else { Qualifier::FREE };
        out.extend_from_slice(&[GROUP, self.variation(), qualifier.0, 1]);
        if qualifier == Qualifier::COUNT_8 {
            self.emit(out);
            return;
        }
        let at = out.len();
        out.extend_from_slice(&[0, 0]);
        self.emit(out);
        let length = u16::try_from(out.len() - at - 2).unwrap_or(u16::MAX);
        if let Some(place) = out.get_mut(at..at + 2) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Appends the object without header and prefix.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Challenge(challenge) => {
                emit_numbers(challenge.sequence, challenge.user, out);
                out.extend_from_slice(&[challenge.mac, challenge.reason]);
                out.extend_from_slice(challenge.data);
            }
            Self::Reply { sequence, user, mac: rest } | Self::KeyChange { sequence, user, wrapped: rest } => {
                emit_numbers(*sequence, *user, out);
                out.extend_from_slice(rest);
            }
            Self::AggressiveRequest { sequence, user } => emit_numbers(*sequence, *user, out),
            Self::KeyStatusRequest { user } => out.extend_from_slice(&user.to_le_bytes()),
            Self::KeyStatus(status) => {
                emit_numbers(status.sequence, status.user, out);
                out.extend_from_slice(&[status.wrap, status.status, status.algorithm]);
                emit_prefixed([status.challenge], out);
                out.extend_from_slice(status.mac);
            }
            Self::Error(error) => {
                emit_numbers(error.sequence, error.user, out);
                out.extend_from_slice(&error.association.to_le_bytes());
                out.push(error.code);
                out.extend_from_slice(&bytes_of_time(error.time));
                out.extend_from_slice(error.text);
            }
            Self::Certificate { method, kind, certificate } => {
                out.extend_from_slice(&[*method, *kind]);
                out.extend_from_slice(certificate);
            }
            Self::Mac(bytes) | Self::Signature(bytes) | Self::Confirmation(bytes) => out.extend_from_slice(bytes),
            Self::UserStatusChange(change) => {
                out.extend_from_slice(&[change.method, change.operation]);
                out.extend_from_slice(&change.sequence.to_le_bytes());
                out.extend_from_slice(&change.role.to_le_bytes());
                out.extend_from_slice(&change.days.to_le_bytes());
                emit_prefixed([change.name, change.public_key, change.certification], out);
            }
            Self::UpdateKeyRequest { method, name, challenge } => {
                out.push(*method);
                emit_prefixed([name, challenge], out);
            }
            Self::UpdateKeyReply { sequence, user, challenge: bytes }
            | Self::UpdateKeyChange { sequence, user, encrypted: bytes } => {
                emit_numbers(*sequence, *user, out);
                emit_prefixed([bytes], out);
            }
        }
    }
}

fn read<'a>(variation: u8, cursor: &mut Cursor<'a>) -> Option<Authentication<'a>> {
    Some(match variation {
        1 => {
            let (sequence, user) = read_numbers(cursor)?;
            let [mac, reason] = cursor.array().ok()?;
            Authentication::Challenge(Challenge { sequence, user, mac, reason, data: read_rest(cursor) })
        }
        2 => {
            let (sequence, user) = read_numbers(cursor)?;
            Authentication::Reply { sequence, user, mac: read_rest(cursor) }
        }
        3 => {
            let (sequence, user) = read_numbers(cursor)?;
            Authentication::AggressiveRequest { sequence, user }
        }
        4 => Authentication::KeyStatusRequest { user: cursor.u16_le().ok()? },
        5 => {
            let (sequence, user) = read_numbers(cursor)?;
            let [wrap, status, algorithm] = cursor.array().ok()?;
            let [challenge] = read_prefixed(cursor)?;
            let mac = read_rest(cursor);
            let status = KeyStatusObject { sequence, user, wrap, status, algorithm, challenge, mac };
            Authentication::KeyStatus(status)
        }
        6 => {
            let (sequence, user) = read_numbers(cursor)?;
            Authentication::KeyChange { sequence, user, wrapped: read_rest(cursor) }
        }
        7 => {
            let (sequence, user) = read_numbers(cursor)?;
            let (association, code) = (cursor.u16_le().ok()?, cursor.u8().ok()?);
            let time = DnpTime::from_millis(cursor.u48_le().ok()?);
            Authentication::Error(ErrorObject { sequence, user, association, code, time, text: read_rest(cursor) })
        }
        8 => {
            let [method, kind] = cursor.array().ok()?;
            Authentication::Certificate { method, kind, certificate: read_rest(cursor) }
        }
        9 => Authentication::Mac(read_rest(cursor)),
        _ => return read_change(variation, cursor),
    })
}

/// The objects that change users and their update keys.
fn read_change<'a>(variation: u8, cursor: &mut Cursor<'a>) -> Option<Authentication<'a>> {
    Some(match variation {
        10 => {
            let [method, operation] = cursor.array().ok()?;
            let sequence = cursor.u32_le().ok()?;
            let (role, days) = (cursor.u16_le().ok()?, cursor.u16_le().ok()?);
            let [name, public_key, certification] = read_prefixed(cursor)?;
            Authentication::UserStatusChange(UserStatusChange {
                method,
                operation,
                sequence,
                role,
                days,
                name,
                public_key,
                certification,
            })
        }
        11 => {
            let method = cursor.u8().ok()?;
            let [name, challenge] = read_prefixed(cursor)?;
            Authentication::UpdateKeyRequest { method, name, challenge }
        }
        12 => {
            let (sequence, user) = read_numbers(cursor)?;
            let [challenge] = read_prefixed(cursor)?;
            Authentication::UpdateKeyReply { sequence, user, challenge }
        }
        13 => {
            let (sequence, user) = read_numbers(cursor)?;
            let [encrypted] = read_prefixed(cursor)?;
            Authentication::UpdateKeyChange { sequence, user, encrypted }
        }
        14 => Authentication::Signature(read_rest(cursor)),
        15 => Authentication::Confirmation(read_rest(cursor)),
        _ => return None,
    })
}

fn read_numbers(cursor: &mut Cursor<'_>) -> Option<(u32, u16)> {
    Some((cursor.u32_le().ok()?, cursor.u16_le().ok()?))
}

fn read_rest<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    cursor.take(cursor.left()).unwrap_or_default()
}

/// Fields whose lengths, two bytes each, all stand before the first of them.
fn read_prefixed<'a, const N: usize>(cursor: &mut Cursor<'a>) -> Option<[&'a [u8]; N]> {
    let mut lengths = [0; N];
    for length in &mut lengths {
        *length = usize::from(cursor.u16_le().ok()?);
    }
    let mut fields: [&[u8]; N] = [&[]; N];
    for (field, length) in fields.iter_mut().zip(lengths) {
        *field = cursor.take(length).ok()?;
    }
    Some(fields)
}

fn emit_numbers(sequence: u32, user: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&user.to_le_bytes());
}

fn emit_prefixed<const N: usize>(fields: [&[u8]; N], out: &mut Vec<u8>) {
    for field in fields {
        out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(u16::MAX).to_le_bytes());
    }
    fields.iter().for_each(|field| out.extend_from_slice(field));
}

impl Challenge<'_> {
    /// The algorithm that the reply must use; None when the standard does not name it.
    #[must_use]
    pub const fn algorithm(&self) -> Option<MacAlgorithm> {
        MacAlgorithm::from_code(self.mac)
    }
}

impl KeyStatusObject<'_> {
    /// The wrap that the change must use; None when the standard does not name it.
    #[must_use]
    pub const fn wrap(&self) -> Option<KeyWrap> {
        KeyWrap::from_code(self.wrap)
    }

    /// The status; None when the standard does not name it.
    #[must_use]
    pub const fn status(&self) -> Option<KeyStatus> {
        KeyStatus::from_code(self.status)
    }
}

impl ErrorObject<'_> {
    /// The error; None when the standard does not name it.
    #[must_use]
    pub const fn error(&self) -> Option<AuthError> {
        AuthError::from_code(self.code)
    }
}

impl UserStatusChange<'_> {
    /// The method; None when the standard does not name it.
    #[must_use]
    pub const fn method(&self) -> Option<KeyChangeMethod> {
        KeyChangeMethod::from_code(self.method)
    }

    /// The operation; None when the standard does not name it.
    #[must_use]
    pub const fn operation(&self) -> Option<UserOperation> {
        UserOperation::from_code(self.operation)
    }

    /// What the authority's MAC is over: `operation 1 | SCS 4 | role 2 | days 2 | length of name 2 | name`.
    #[must_use]
    pub fn certified(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(11 + self.name.len());
        out.push(self.operation);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.role.to_le_bytes());
        out.extend_from_slice(&self.days.to_le_bytes());
        emit_prefixed([self.name], &mut out);
        out
    }
}

/// Whether challenge data may be used.
pub(super) const fn is_challenge(data: &[u8]) -> bool {
    data.len() >= CHALLENGE_BYTES_MIN && data.len() <= CHALLENGE_BYTES_MAX
}

#[cfg(test)]
#[path = "tests/object.rs"]
mod tests;

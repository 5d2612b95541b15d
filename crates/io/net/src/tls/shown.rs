//! What a client's certificate says of who shows it. Nothing here says whether it is to be trusted: a handshake has
//! said that before.

use super::{CertificateInfo, Fingerprint};
use rustls::pki_types::CertificateDer;
use tieline_core::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier, Utf8StringRef};
use x509_cert::der::{Decode, oid::AssociatedOid};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// `id-IECuserRoles` of IEC 62351-8: as its first edition has it, and under the standard's own arc.
const USER_ROLES: [ObjectIdentifier; 2] =
    [ObjectIdentifier::new_unwrap("1.2.840.10070.8.1"), ObjectIdentifier::new_unwrap("1.0.62351.8.1")];
/// `commonName` of X.520.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A certificate that a peer has shown, by what names its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The subject as RFC 4514 writes it.
    pub subject: String,
    /// The subject's common names.
    pub common_names: Vec<String>,
    /// Alternative names that are names of hosts.
    pub hosts: Vec<String>,
    /// Alternative names that are addresses of mail.
    pub emails: Vec<String>,
    /// Alternative names that are URIs.
    pub uris: Vec<String>,
    /// Of its key.
    pub fingerprint: Fingerprint,
    /// The last second in which it is good.
    pub not_after: Timestamp,
    /// The roles of IEC 62351-8 in it; none where it has no such extension.
    pub roles: Option<UserRoles>,
}

/// The extension `IECUserRoles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRoles {
    /// One or more `UserRoleInfo`.
    Read(Vec<UserRole>),
    /// It does not say what the standard lets it say.
    Malformed,
}

/// One `UserRoleInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRole {
    /// Numbers of roles: 0 to 32767 are those of the standard.
    pub ids: Vec<i16>,
    /// The area of responsibility in which they hold.
    pub area: String,
}

impl ShownCertificate {
    /// Reads the DER of a certificate; none where it is no certificate.
    #[must_use]
    pub fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let CertificateInfo { subject, fingerprint, not_after, .. } = CertificateInfo::of(der)?;
        let certificate = Certificate::from_der(der).ok()?;
        let body = certificate.tbs_certificate();
        let common = body.subject().iter().filter(|pair| pair.oid == COMMON_NAME);
        let common_names = common.filter_map(|pair| text_of(AnyRef::from(&pair.value))).collect();
        let mut shown = Self {
            subject,
            common_names,
            hosts: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            fingerprint,
            not_after,
            roles: None,
        };
        for extension in body.extensions().into_iter().flatten() {
            let bytes = extension.extn_value.as_bytes();
            if extension.extn_id == SubjectAltName::OID {
                SubjectAltName::from_der(bytes).ok()?.0.into_iter().for_each(|name| shown.name(name));
            } else if USER_ROLES.contains(&extension.extn_id) {
                shown.roles = Some(user_roles(bytes).map_or(UserRoles::Malformed, UserRoles::Read));
            }
        }
        Some(shown)
    }

    fn name(&mut self, name: GeneralName) {
        match name {
            GeneralName::DnsName(name) => self.hosts.push(name.to_string()),
            GeneralName::Rfc822Name(name) => self.emails.push(name.to_string()),
            GeneralName::UniformResourceIdentifier(name) => self.uris.push(name.to_string()),
            GeneralName::OtherName(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::IpAddress(_)
            | GeneralName::RegisteredId(_) => {}
        }
    }
}

/// A name is in one of two forms of text nowadays.
fn text_of(value: AnyRef<'_>) -> Option<String> {
    use x509_cert::der::asn1::PrintableStringRef;
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    utf8.or_else(|_| value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned())).ok()
}

/// ```text
/// IECUserRoles ::= SEQUENCE OF UserRoleInfo
/// UserRoleInfo ::= SEQUENCE {
///     userRole        SEQUENCE SIZE (1..MAX) OF INTEGER (-32768..32767),
///     aor             UTF8String (SIZE (1..64)),
///     revision        INTEGER (0..255),
///     … }             -- roleDefinition and what administration needs, which change no right here
/// ```
fn user_roles(bytes: &[u8]) -> Option<Vec<UserRole>> {
    let infos = Vec::<AnyRef<'_>>::from_der(bytes).ok()?;
    let info = |info: AnyRef<'_>| {
        let parts = info.decode_as::<Vec<AnyRef<'_>>>().ok()?;
        let [ids, area, revision, ..] = parts.as_slice() else { return None };
        let ids = ids.decode_as::<Vec<i16>>().ok().filter(|ids| !ids.is_empty())?;
        let area = area.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned();
        revision.decode_as::<u8>().ok()?;
        Some(UserRole { ids, area })
    };
    infos.into_iter().map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn roles_of_the_standard_are_read() {
        let role = |ids: &[i16], area: &str| UserRole { ids: ids.to_vec(), area: area.to_owned() };
        let check = |hex: &str, expect: Option<Vec<UserRole>>| assert_eq!(user_roles(&bytes(hex)), expect, "{hex}");
        // As the tests of FreeIPA's profile `IECUserRoles` write one, with all that is optional.
        check(
            "3027 3025 3004 020200FF 0C0A 4F757473746174696F6E 020200FF 0C0A 49454336323335312D38 0A0103",
            Some(vec![role(&[255], "Outstation")]),
        );
        check(
            "3020 300F 3006 020100 020101 0C02 6E31 020101 300D 3003 02019A 0C03 7A7A7A 020100",
            Some(vec![role(&[0, 1], "n1"), role(&[-102], "zzz")]),
        );
        check("3000", Some(Vec::new()));
        for wrong in ["", "0C0141", "3002 3000", "300B 3009 3000 0C02 6E31 020101", "300A 3008 3003 020100 0C01 41"] {
            check(wrong, None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = user_roles(&bytes);
            prop_assert_eq!(ShownCertificate::read(&CertificateDer::from(bytes)), None);
        }
    }
}

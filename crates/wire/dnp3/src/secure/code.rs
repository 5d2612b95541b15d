//! The codes of secure authentication (IEEE 1815 annex A.45), one byte each but for roles.

use crate::codes::codes;

codes! {
    /// How a message is authenticated (MAL). Code 0, no MAC, is written as none of these.
    MacAlgorithm u8 {
        1 HmacSha1x4 "hmac-sha1-4" "HMAC-SHA-1, 4 bytes: short enough to guess, for old devices only";
        2 HmacSha1x10 "hmac-sha1-10" "HMAC-SHA-1, 10 bytes";
        3 HmacSha256x8 "hmac-sha256-8" "HMAC-SHA-256, 8 bytes: for serial lines";
        4 HmacSha256x16 "hmac-sha256-16" "HMAC-SHA-256, 16 bytes: for networks";
        5 HmacSha1x8 "hmac-sha1-8" "HMAC-SHA-1, 8 bytes";
        6 AesGmac "aes-gmac" "AES-GMAC, 12 bytes";
    }
}

codes! {
    /// How session keys are wrapped (KWA).
    KeyWrap u8 {
        1 Aes128 "aes-128" "AES-128 key wrap (RFC 3394)";
        2 Aes256 "aes-256" "AES-256 key wrap (RFC 3394)";
    }
}

codes! {
    /// What an outstation thinks of the session keys of a user.
    KeyStatus u8 {
        1 Ok "ok" "The keys are valid";
        2 NotInitialized "not_initialized" "There are none yet, or their time or count is over";
        3 CommunicationFailed "communication_failed" "The connection ended";
        4 AuthenticationFailed "authentication_failed" "Too much was not authentic";
    }
}

codes! {
    /// Why a challenge was sent.
    ChallengeReason u8 {
        1 Critical "critical" "A critical function";
    }
}

codes! {
    /// Why a message was refused (group 120 variation 7).
    AuthError u8 {
        1 AuthenticationFailed "authentication_failed" "The MAC, or what it is made of, is wrong";
        2 UnexpectedReply "unexpected_reply" "Deprecated: a reply that was not the next step";
        3 NoReply "no_reply" "Deprecated: no reply came in time";
        4 AggressiveNotPermitted "aggressive_not_permitted" "Aggressive mode is not permitted here";
        5 MacNotSupported "mac_not_supported" "The MAC algorithm is not permitted here";
        6 KeyWrapNotSupported "key_wrap_not_supported" "The key wrap algorithm is not permitted here";
        7 NotAuthorized "not_authorized" "The user is authentic, and may not do this";
        8 KeyChangeMethodNotPermitted "key_change_method_not_permitted" "The method of changing the update key is not permitted here";
        9 InvalidSignature "invalid_signature" "The signature or the confirmation of an update key change is wrong";
        10 InvalidCertification "invalid_certification" "The certification of a user status change is wrong";
        11 UnknownUser "unknown_user" "There is no such user, or no status change came before";
        12 TooManyKeyRequests "too_many_key_requests" "Session key status was asked for too often";
    }
}

codes! {
    /// What is done to a user (group 120 variation 10).
    UserOperation u8 {
        1 Add "add" "The user is added";
        2 Delete "delete" "The user is removed";
        3 Change "change" "The role or the expiry of the user changes";
    }
}

codes! {
    /// How an update key is changed.
    KeyChangeMethod u8 {
        3 Aes128Sha1 "aes128-sha1" "Symmetric: AES-128 key wrap, HMAC-SHA-1";
        4 Aes256Sha256 "aes256-sha256" "Symmetric: AES-256 key wrap, HMAC-SHA-256";
        5 Aes256Gmac "aes256-gmac" "Symmetric: AES-256 key wrap, AES-GMAC";
        67 Rsa1024Sha1 "rsa1024-sha1" "Asymmetric: RSA-1024, DSA, SHA-1, HMAC-SHA-1";
        68 Rsa2048Sha256 "rsa2048-sha256" "Asymmetric: RSA-2048, DSA, SHA-256, HMAC-SHA-256";
        69 Rsa3072Sha256 "rsa3072-sha256" "Asymmetric: RSA-3072, DSA, SHA-256, HMAC-SHA-256";
        70 Rsa2048Gmac "rsa2048-gmac" "Asymmetric: RSA-2048, DSA, SHA-256, AES-GMAC";
        71 Rsa3072Gmac "rsa3072-gmac" "Asymmetric: RSA-3072, DSA, SHA-256, AES-GMAC";
    }
}

codes! {
    /// What a user is there for (IEC 62351-8); `role.rs` says what each may do.
    Role u16 {
        0 Viewer "viewer" "Reads";
        1 Operator "operator" "Reads and operates";
        2 Engineer "engineer" "Reads, moves files, configures";
        3 Installer "installer" "Reads, moves files, configures, changes programs";
        4 SecurityAdministrator "secadm" "Changes users";
        5 SecurityAuditor "secaud" "Reads security statistics and files";
        6 RoleAdministrator "rbacmnt" "Changes what roles may do";
        32768 SingleUser "single-user" "May do everything: the only user of a station without roles";
    }
}

impl MacAlgorithm {
    /// Bytes of its MACs.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::HmacSha1x4 => 4,
            Self::HmacSha1x8 | Self::HmacSha256x8 => 8,
            Self::HmacSha1x10 => 10,
            Self::AesGmac => 12,
            Self::HmacSha256x16 => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for algorithm in MacAlgorithm::ALL {
            assert_eq!(MacAlgorithm::from_code(algorithm.code()), Some(*algorithm));
            assert_eq!(MacAlgorithm::from_name(algorithm.name()), Some(*algorithm));
        }
        for role in Role::ALL {
            assert_eq!(Role::from_code(role.code()), Some(*role));
            assert_eq!(Role::from_name(role.name()), Some(*role));
        }
        assert_eq!(Role::from_code(7), None);
        assert_eq!(MacAlgorithm::from_code(0), None);
    }
}

//! Reason codes (MQTT 5.0 section 2.4, table 2-6).

use crate::place;
use core::fmt;

macro_rules! reasons {
    ($($(#[$mark:meta])? $code:literal $name:ident $words:literal [$($place:ident)*];)*) => {
        /// Why something was done, or was not.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $(
                #[doc = concat!(stringify!($code), ": ", $words, ".")]
                $(#[$mark])?
                $name = $code,
            )*
        }

        impl ReasonCode {
            /// Every code of the standard.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The byte on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The code with this byte.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                Some(match code {
                    $($code => Self::$name,)*
                    _ => return None,
                })
            }

            /// The standard's words for it, in lower case.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }

            /// The packets that may carry it, as bits of [`place`].
            pub(crate) const fn places(self) -> u16 {
                match self {
                    $(Self::$name => 0 $(| place::$place)*,)*
                }
            }
        }
    };
}

reasons! {
    #[default]
    0x00 Success "success" [CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH];
    0x01 GrantedQos1 "granted QoS 1" [SUBACK];
    0x02 GrantedQos2 "granted QoS 2" [SUBACK];
    0x04 DisconnectWithWill "disconnect with will message" [DISCONNECT];
    0x10 NoMatchingSubscribers "no matching subscribers" [PUBACK PUBREC];
    0x11 NoSubscriptionExisted "no subscription existed" [UNSUBACK];
    0x18 ContinueAuthentication "continue authentication" [AUTH];
    0x19 ReAuthenticate "re-authenticate" [AUTH];
    0x80 UnspecifiedError "unspecified error" [CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT];
    0x81 MalformedPacket "malformed packet" [CONNACK DISCONNECT];
    0x82 ProtocolError "protocol error" [CONNACK DISCONNECT];
    0x83 ImplementationSpecificError "implementation specific error" [CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT];
    0x84 UnsupportedProtocolVersion "unsupported protocol version" [CONNACK];
    0x85 ClientIdentifierNotValid "client identifier not valid" [CONNACK];
    0x86 BadUserNameOrPassword "bad user name or password" [CONNACK];
    0x87 NotAuthorized "not authorized" [CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT];
    0x88 ServerUnavailable "server unavailable" [CONNACK];
    0x89 ServerBusy "server busy" [CONNACK DISCONNECT];
    0x8A Banned "banned" [CONNACK];
    0x8B ServerShuttingDown "server shutting down" [DISCONNECT];
    0x8C BadAuthenticationMethod "bad authentication method" [CONNACK DISCONNECT];
    0x8D KeepAliveTimeout "keep alive timeout" [DISCONNECT];
    0x8E SessionTakenOver "session taken over" [DISCONNECT];
    0x8F TopicFilterInvalid "topic filter invalid" [SUBACK UNSUBACK DISCONNECT];
    0x90 TopicNameInvalid "topic name invalid" [CONNACK PUBACK PUBREC DISCONNECT];
    0x91 PacketIdentifierInUse "packet identifier in use" [PUBACK PUBREC SUBACK UNSUBACK];
    0x92 PacketIdentifierNotFound "packet identifier not found" [PUBREL PUBCOMP];
    0x93 ReceiveMaximumExceeded "receive maximum exceeded" [DISCONNECT];
    0x94 TopicAliasInvalid "topic alias invalid" [DISCONNECT];
    0x95 PacketTooLarge "packet too large" [CONNACK DISCONNECT];
    0x96 MessageRateTooHigh "message rate too high" [DISCONNECT];
    0x97 QuotaExceeded "quota exceeded" [CONNACK PUBACK PUBREC SUBACK DISCONNECT];
    0x98 AdministrativeAction "administrative action" [DISCONNECT];
    0x99 PayloadFormatInvalid "payload format invalid" [CONNACK PUBACK PUBREC DISCONNECT];
    0x9A RetainNotSupported "retain not supported" [CONNACK DISCONNECT];
    0x9B QosNotSupported "QoS not supported" [CONNACK DISCONNECT];
    0x9C UseAnotherServer "use another server" [CONNACK DISCONNECT];
    0x9D ServerMoved "server moved" [CONNACK DISCONNECT];
    0x9E SharedSubscriptionsNotSupported "shared subscriptions not supported" [SUBACK DISCONNECT];
    0x9F ConnectionRateExceeded "connection rate exceeded" [CONNACK DISCONNECT];
    0xA0 MaximumConnectTime "maximum connect time" [DISCONNECT];
    0xA1 SubscriptionIdentifiersNotSupported "subscription identifiers not supported" [SUBACK DISCONNECT];
    0xA2 WildcardSubscriptionsNotSupported "wildcard subscriptions not supported" [SUBACK DISCONNECT];
}

impl ReasonCode {
    /// Whether it says that something failed (section 2.4: 0x80 and above).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.code() >= 0x80
    }

    /// The nearest Connect Return code of MQTT 3.1.1 (table 3.1 there).
    pub(crate) const fn to_return_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword | Self::BadAuthenticationMethod => 4,
            Self::NotAuthorized | Self::Banned => 5,
            _ => 3,
        }
    }

    /// The reason that a Connect Return code of MQTT 3.1.1 stands for.
    pub(crate) const fn from_return_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Success,
            1 => Self::UnsupportedProtocolVersion,
            2 => Self::ClientIdentifierNotValid,
            3 => Self::ServerUnavailable,
            4 => Self::BadUserNameOrPassword,
            5 => Self::NotAuthorized,
            _ => return None,
        })
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:02x})", self.words(), self.code())
    }
}

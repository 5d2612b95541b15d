//! Tables of codes: one row makes a variant, its number on the wire, its stable word and its meaning.

macro_rules! codes {
    ($(#[$doc:meta])* $enum:ident $type:ty { $($code:literal $variant:ident $name:literal $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum {
            $(#[doc = concat!($code, ": ", $meaning, ".")] $variant,)*
        }

        impl $enum {
            /// All that the standard names, by code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// What a code means; None when the standard gives it no meaning.
            #[must_use]
            pub const fn from_code(code: $type) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> $type {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// A stable word for configuration, logs and counters.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it means, as one clause.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// What a stable word means.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }
        }
    };
}

pub(crate) use codes;

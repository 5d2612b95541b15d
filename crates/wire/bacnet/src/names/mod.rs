//! Numbers that the standard (and each vendor beyond it) gives names: object types, properties, units, errors, services.
//!
//! A number that is in no table is legal: vendors have their own. It is shown as its number, and read back from it.

mod errors;
mod objects;
mod properties;
mod services;
mod units;

pub use errors::{AbortReason, ErrorClass, ErrorCode, RejectReason};
pub use objects::ObjectType;
pub use properties::PropertyId;
pub use services::{ConfirmedService, Reliability, Segmentation, UnconfirmedService};
pub use units::Unit;

use core::fmt;

/// A text that is neither a name of the standard nor a number in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What should have been named, such as `property`.
    pub kind: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}: expected a name of the standard, such as present-value has, or a number", self.kind)
    }
}

impl core::error::Error for UnknownName {}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident $type:ident $kind:literal {
        $($code:literal $text:literal $($constant:ident)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $type);

        impl $name {
            $($(#[doc = concat!("The ", $kind, " `", $text, "`.")] pub const $constant: Self = Self($code);)?)*

            /// All that have a name, in the order of their numbers.
            pub const NAMED: &'static [(Self, &'static str)] = &[$((Self($code), $text)),*];

            /// Its name in the standard.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                let place = Self::NAMED.binary_search_by_key(&self, |(number, _)| *number).ok()?;
                Self::NAMED.get(place).map(|(_, name)| *name)
            }

            /// The one of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::NAMED.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
            }
        }

        impl core::fmt::Display for $name {
            /// The name, or the number where there is none.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let number = || text.parse().ok().map(Self);
                Self::from_name(text).or_else(number).ok_or($crate::names::UnknownName { kind: $kind })
            }
        }
    };
}
use names;

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn tables_are_sorted_and_names_read_back() {
        fn check<T: Copy + Ord + ToString + core::str::FromStr + core::fmt::Debug>(named: &[(T, &str)]) {
            assert!(named.windows(2).all(|pair| pair[0].0 < pair[1].0), "{named:?}");
            for (number, name) in named {
                assert_eq!(number.to_string(), *name);
                assert_eq!(name.parse::<T>().ok(), Some(*number));
            }
        }
        check(ObjectType::NAMED);
        check(PropertyId::NAMED);
        check(Unit::NAMED);
        check(ErrorClass::NAMED);
        check(ErrorCode::NAMED);
        check(RejectReason::NAMED);
        check(AbortReason::NAMED);
        check(ConfirmedService::NAMED);
        check(UnconfirmedService::NAMED);
        check(Segmentation::NAMED);
        check(Reliability::NAMED);
    }

    #[test]
    fn a_number_without_a_name_is_shown_and_read_as_a_number() {
        assert_eq!(PropertyId(9999).to_string(), "9999");
        assert_eq!("9999".parse(), Ok(PropertyId(9999)));
        assert_eq!("present-valve".parse::<PropertyId>(), Err(UnknownName { kind: "property" }));
    }

    #[test]
    fn units_have_symbols_and_are_found_by_them() {
        assert_eq!(Unit(62).symbol(), Some("°C"));
        assert_eq!(Unit::from_symbol("°C"), Some(Unit(62)));
        assert_eq!(Unit::from_symbol("kWh"), Some(Unit(19)));
        for (unit, symbol) in Unit::SYMBOLS {
            assert!(unit.name().is_some(), "{symbol}");
            assert_eq!(Unit::from_symbol(symbol), Some(*unit), "{symbol}");
        }
    }
}

//! Delivery options of a subscription: at once or in windows, all updates or the newest, whole or as deltas.

/// The overflow policy: what becomes of updates that a subscriber cannot take yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OverflowPolicy {
    /// The newest value of each topic is sent when it can be.
    #[default]
    Newest,
    /// All are kept, up to a limit; what is beyond is a gap, and the subscriber is told of it.
    All,
    /// All are kept, up to a limit; then the oldest go.
    DropOldest,
    /// All are kept, up to a limit; then the subscriber is ended.
    Disconnect,
}

/// How updates are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeliveryOptions(u32);

const SLOW_BITS: u32 = 0b11;
const DELTAS: u32 = 1 << 2;
const WINDOW_AT: u32 = 3;
const WINDOW_BITS: u32 = 0x7F;
const THROTTLE_AT: u32 = 10;
const THROTTLE_BITS: u32 = 0x3FFF;

impl DeliveryOptions {
    /// The property of a subscription that asks for a window, in milliseconds.
    pub const WINDOW: &str = "tieline-window";
    /// The property of CONNECT that asks for a window of all writes to the session, in milliseconds.
    pub const WRITE_WINDOW: &str = "tieline-write-window";
    /// The longest window, in milliseconds.
    pub const WINDOW_MS_MAX: u32 = 100;
    /// The longest throttle, in milliseconds.
    pub const THROTTLE_MS_MAX: u32 = THROTTLE_BITS * Self::THROTTLE_STEP_MS;
    /// Throttles are multiples of it, in milliseconds.
    pub const THROTTLE_STEP_MS: u32 = 10;

    /// With another policy for what cannot be taken yet.
    #[must_use]
    pub const fn overflow(self, overflow: OverflowPolicy) -> Self {
        let bits = match overflow {
            OverflowPolicy::Newest => 0,
            OverflowPolicy::All => 1,
            OverflowPolicy::DropOldest => 2,
            OverflowPolicy::Disconnect => 3,
        };
        Self(self.0 & !SLOW_BITS | bits)
    }

    /// With updates that come as what changed.
    #[must_use]
    pub const fn deltas(self) -> Self {
        Self(self.0 | DELTAS)
    }

    /// With updates that may wait so long for others; at most [`DeliveryOptions::WINDOW_MS_MAX`].
    #[must_use]
    pub fn window_ms(self, ms: u32) -> Self {
        Self(self.0 & !(WINDOW_BITS << WINDOW_AT) | ms.min(Self::WINDOW_MS_MAX) << WINDOW_AT)
    }

    /// With updates of a topic no sooner than this after the one before; rounded up to
    /// [`DeliveryOptions::THROTTLE_STEP_MS`], at most [`DeliveryOptions::THROTTLE_MS_MAX`].
    #[must_use]
    pub fn throttle_ms(self, ms: u32) -> Self {
        let steps = ms.div_ceil(Self::THROTTLE_STEP_MS).min(THROTTLE_BITS);
        Self(self.0 & !(THROTTLE_BITS << THROTTLE_AT) | steps << THROTTLE_AT)
    }

    /// The 24 bits that a subscription keeps.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// From kept bits, whatever stands above them.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits & 0xFF_FFFF)
    }

    /// Whether these are the defaults.
    #[must_use]
    pub const fn is_default(self) -> bool {
        self.0 == 0
    }

    /// Whether no more was asked for than windows and deltas: of each topic the newest value.
    #[must_use]
    pub const fn is_newest(self) -> bool {
        self.0 & !(DELTAS | WINDOW_BITS << WINDOW_AT) == 0
    }

    /// What becomes of what cannot be taken yet.
    #[must_use]
    pub const fn policy(self) -> OverflowPolicy {
        match self.0 & SLOW_BITS {
            1 => OverflowPolicy::All,
            2 => OverflowPolicy::DropOldest,
            3 => OverflowPolicy::Disconnect,
            _ => OverflowPolicy::Newest,
        }
    }

    /// Whether updates are to come as what changed.
    #[must_use]
    pub const fn wants_deltas(self) -> bool {
        self.0 & DELTAS != 0
    }

    /// Milliseconds that an update may wait for others.
    #[must_use]
    pub const fn window(self) -> u32 {
        self.0 >> WINDOW_AT & WINDOW_BITS
    }

    /// Milliseconds from one update of a topic to the next, at least.
    #[must_use]
    pub const fn throttle(self) -> u32 {
        (self.0 >> THROTTLE_AT & THROTTLE_BITS) * Self::THROTTLE_STEP_MS
    }

    /// The options of two subscriptions of one subscriber together: deltas where either does, the shorter window and
    /// throttle, and the policy that keeps more.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let keeps = |overflow: OverflowPolicy| match overflow {
            OverflowPolicy::Newest => 0,
            OverflowPolicy::DropOldest => 1,
            OverflowPolicy::All => 2,
            OverflowPolicy::Disconnect => 3,
        };
        let policy = if keeps(self.policy()) >= keeps(other.policy()) { self.policy() } else { other.policy() };
        Self((self.0 | other.0) & DELTAS)
            .overflow(policy)
            .window_ms(self.window().min(other.window()))
            .throttle_ms(self.throttle().min(other.throttle()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_delivery_options() -> impl Strategy<Value = (OverflowPolicy, bool, u32, u32)> {
        let overflow = prop_oneof![
            Just(OverflowPolicy::Newest),
            Just(OverflowPolicy::All),
            Just(OverflowPolicy::DropOldest),
            Just(OverflowPolicy::Disconnect)
        ];
        (overflow, any::<bool>(), 0u32..200, 0u32..200_000)
    }

    fn delivery_options((overflow, deltas, window, throttle): (OverflowPolicy, bool, u32, u32)) -> DeliveryOptions {
        let delivery_options = DeliveryOptions::default().throttle_ms(throttle).window_ms(window).overflow(overflow);
        if deltas { delivery_options.deltas() } else { delivery_options }
    }

    proptest! {
        #[test]
        fn delivery_options_are_what_was_asked_for(a in any_delivery_options(), b in any_delivery_options()) {
            let made = delivery_options(a);
            prop_assert_eq!((made.policy(), made.wants_deltas(), made.window()), (a.0, a.1, a.2.min(100)));
            prop_assert_eq!(made.throttle(), a.3.div_ceil(10).min(16_383) * 10);
            let both = made.and(delivery_options(b));
            prop_assert_eq!(both, delivery_options(b).and(made));
            prop_assert_eq!(both.wants_deltas(), a.1 || b.1);
            prop_assert_eq!(both.window(), made.window().min(delivery_options(b).window()));
            prop_assert_eq!(made.and(made), made);
        }
    }
}

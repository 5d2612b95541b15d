//! Delivery options: user properties of SUBSCRIBE that say how updates are delivered (docs/topics-and-mqtt.md, Slow subscribers).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_mqtt::{Properties, SubscriptionOptions};
use tieline_topics::{DeliveryOptions, Last, Options, OverflowPolicy, RetainHandling, Selector};

const SLOW: &str = "tieline-slow";
const THROTTLE: &str = "tieline-throttle";
const SELECT: &str = "tieline-select";
const LAST: &str = "tieline-last";
/// The most events of a topic that a subscription may ask for.
const LAST_MAX: usize = 1_000_000;

/// The delivery options of a SUBSCRIBE, its selector, and the events of topics that it asks for.
///
/// # Errors
/// One of them is not valid; the words are for the client.
pub fn read_all(properties: &Properties) -> Result<(DeliveryOptions, Option<Selector>, Option<Last>), String> {
    Ok((read(properties)?, selector(properties)?, last(properties)?))
}

/// The delivery options that a SUBSCRIBE asks for, for all its filters.
///
/// # Errors
/// An option is not valid; the words are for the client.
pub fn read(properties: &Properties) -> Result<DeliveryOptions, String> {
    let mut delivery_options = DeliveryOptions::default();
    for own in properties.own_properties() {
        delivery_options = match own {
            own if own.is(SLOW) => delivery_options.overflow(overflow(own.value())?),
            own if own.is(DeliveryOptions::WINDOW) => delivery_options.window_ms(milliseconds(
                DeliveryOptions::WINDOW,
                own.value(),
                DeliveryOptions::WINDOW_MS_MAX,
            )?),
            own if own.is(THROTTLE) => {
                delivery_options.throttle_ms(milliseconds(THROTTLE, own.value(), DeliveryOptions::THROTTLE_MS_MAX)?)
            }
            _ => delivery_options,
        };
    }
    Ok(delivery_options)
}

/// What narrows the filters of a SUBSCRIBE.
///
/// # Errors
/// It is no selector, or there are several; the words are for the client.
pub fn selector(properties: &Properties) -> Result<Option<Selector>, String> {
    let mut all = properties.own_properties().filter(|own| own.is(SELECT)).map(|own| own.value());
    let (first, second) = (all.next(), all.next());
    if second.is_some() {
        return Err(format!("{SELECT} comes more than once"));
    }
    let Some(text) = first else { return Ok(None) };
    Selector::new(text).map(Some).map_err(|error| format!("{SELECT} is {text:?}: {error}"))
}

/// On whose account a user's selectors are; never 0.
#[must_use]
pub fn owner(user: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Which events of topics that keep some a SUBSCRIBE asks for.
///
/// # Errors
/// It is neither a number nor a time, or something of the packet does not go with it; the words are for the client.
pub fn last(properties: &Properties) -> Result<Option<Last>, String> {
    let Some(text) = properties.own_property(LAST) else { return Ok(None) };
    if properties.own_property(tieline_delta::PROPERTY).is_some() {
        return Err(format!("{LAST} does not go with {}: events are sent whole", tieline_delta::PROPERTY));
    }
    let events = text.parse().ok().filter(|count| (1..=LAST_MAX).contains(count)).map(Last::Events);
    let found = events.or_else(|| text.parse::<Timestamp>().ok().map(Last::Since));
    let expected = format!("expected events from 1 to {LAST_MAX}, or a time, as in 2026-11-20T09:36:00Z");
    found.map(Some).ok_or_else(|| format!("{LAST} is {text:?}, {expected}"))
}

fn overflow(word: &str) -> Result<OverflowPolicy, String> {
    match word {
        "newest" => Ok(OverflowPolicy::Newest),
        "all" => Ok(OverflowPolicy::All),
        "drop-oldest" => Ok(OverflowPolicy::DropOldest),
        "disconnect" => Ok(OverflowPolicy::Disconnect),
        _ => Err(format!("{SLOW} is {word:?}, expected newest, all, drop-oldest or disconnect")),
    }
}

/// How long frames for a client may wait for one another, as its CONNECT says.
///
/// # Errors
/// It is no such time; the words are for the client.
pub fn write_window(properties: &Properties) -> Result<Duration, String> {
    let Some(text) = properties.own_property(DeliveryOptions::WRITE_WINDOW) else { return Ok(Duration::ZERO) };
    let (name, max_ms) = (DeliveryOptions::WRITE_WINDOW, DeliveryOptions::WINDOW_MS_MAX);
    let found = text.parse::<f64>().ok().filter(|ms| (0.0..=f64::from(max_ms)).contains(ms));
    let millis =
        found.ok_or_else(|| format!("{name} is {text:?}, expected milliseconds from 0 to {max_ms}, as in 1.5"))?;
    Ok(Duration::from_secs_f64(millis / 1000.0))
}

fn milliseconds(name: &str, value: &str, max: u32) -> Result<u32, String> {
    let found = value.parse().ok().filter(|ms| *ms <= max);
    found.ok_or_else(|| format!("{name} is {value:?}, expected milliseconds from 0 to {max}"))
}

/// What the tree is told of a subscription.
pub const fn options_of(
    options: &SubscriptionOptions,
    subscription_id: Option<u32>,
    delivery_options: DeliveryOptions,
) -> Options {
    Options {
        qos: options.qos.bits(),
        no_local: options.no_local,
        retain_as_published: options.retain_as_published,
        retain_handling: match options.retain_handling {
            tieline_mqtt::RetainHandling::Always => RetainHandling::Send,
            tieline_mqtt::RetainHandling::IfNew => RetainHandling::SendIfNew,
            tieline_mqtt::RetainHandling::Never => RetainHandling::Skip,
        },
        subscription_id,
        delivery_options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_mqtt::{Property, Text};

    fn check(pairs: &[(&str, &str)], expect: Result<DeliveryOptions, &str>) {
        let text = |text: &str| Text::new(text).unwrap();
        let properties = pairs.iter().map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect();
        assert_eq!(read(&properties), expect.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn events_are_asked_for_by_number_or_time() {
        let text = |text: &str| Text::new(text).unwrap();
        let read = |pairs: &[(&str, &str)]| {
            last(&pairs.iter().map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect())
        };
        assert_eq!(read(&[("other", "x")]), Ok(None));
        assert_eq!(read(&[(LAST, "10")]), Ok(Some(Last::Events(10))));
        let time = "2026-11-20T09:36:00Z";
        assert_eq!(read(&[(LAST, time)]), Ok(Some(Last::Since(time.parse().unwrap()))));
        for wrong in ["0", "1000001", "-1", "yesterday", ""] {
            let words = "expected events from 1 to 1000000, or a time, as in 2026-11-20T09:36:00Z";
            assert_eq!(read(&[(LAST, wrong)]), Err(format!("tieline-last is {wrong:?}, {words}")));
        }
        let both = "tieline-last does not go with tieline-delta: events are sent whole";
        assert_eq!(read(&[(LAST, "10"), ("tieline-delta", "hunk")]), Err(both.to_owned()));
    }

    #[test]
    fn delivery_options_are_read_and_wrong_ones_refused() {
        check(&[("other", "x")], Ok(DeliveryOptions::default()));
        let delivery_options = DeliveryOptions::default().overflow(OverflowPolicy::All).window_ms(50).throttle_ms(1000);
        check(&[(SLOW, "all"), (DeliveryOptions::WINDOW, "50"), (THROTTLE, "1000")], Ok(delivery_options));
        check(&[(SLOW, "never")], Err("tieline-slow is \"never\", expected newest, all, drop-oldest or disconnect"));
        check(
            &[(DeliveryOptions::WINDOW, "101")],
            Err("tieline-window is \"101\", expected milliseconds from 0 to 100"),
        );
        check(&[(THROTTLE, "-1")], Err("tieline-throttle is \"-1\", expected milliseconds from 0 to 163830"));
    }
}

//! User properties of SUBSCRIBE by which a client says how updates are to come (docs/topics-and-mqtt.md, Slow subscribers).

use tieline_mqtt::Properties;
use tieline_topics::{Selector, Slow, Wish};

const SLOW: &str = "tieline-slow";
const WINDOW: &str = "tieline-window";
const THROTTLE: &str = "tieline-throttle";
const SELECT: &str = "tieline-select";

/// What a SUBSCRIBE wishes for all its filters.
///
/// # Errors
/// A wish cannot be fulfilled; the words are for the client.
pub fn read(properties: &Properties) -> Result<Wish, String> {
    let mut wish = Wish::default();
    for (name, value) in properties.user_properties() {
        match &*name {
            SLOW => wish = wish.slow(slow(&value)?),
            WINDOW => wish = wish.window_ms(milliseconds(WINDOW, &value, Wish::WINDOW_MS_MAX)?),
            THROTTLE => wish = wish.throttle_ms(milliseconds(THROTTLE, &value, Wish::THROTTLE_MS_MAX)?),
            _ => {}
        }
    }
    Ok(wish)
}

/// What narrows the filters of a SUBSCRIBE.
///
/// # Errors
/// It is no selector, or there are several; the words are for the client.
pub fn selector(properties: &Properties) -> Result<Option<Selector>, String> {
    let mut all = properties.user_properties().filter(|(name, _)| **name == *SELECT);
    let (first, second) = (all.next(), all.next());
    if second.is_some() {
        return Err(format!("{SELECT} comes more than once"));
    }
    let Some((_, text)) = first else { return Ok(None) };
    Selector::new(&text).map(Some).map_err(|error| format!("{SELECT} is {:?}: {error}", &*text))
}

fn slow(word: &str) -> Result<Slow, String> {
    match word {
        "newest" => Ok(Slow::Newest),
        "all" => Ok(Slow::All),
        "drop-oldest" => Ok(Slow::DropOldest),
        "disconnect" => Ok(Slow::Disconnect),
        _ => Err(format!("{SLOW} is {word:?}, expected newest, all, drop-oldest or disconnect")),
    }
}

fn milliseconds(name: &str, value: &str, max: u32) -> Result<u32, String> {
    let found = value.parse().ok().filter(|ms| *ms <= max);
    found.ok_or_else(|| format!("{name} is {value:?}, expected milliseconds from 0 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_mqtt::{Property, Text};

    fn check(pairs: &[(&str, &str)], expect: Result<Wish, &str>) {
        let text = |text: &str| Text::new(text).unwrap();
        let properties = pairs.iter().map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect();
        assert_eq!(read(&properties), expect.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn wishes_are_read_and_wrong_ones_refused() {
        check(&[("other", "x")], Ok(Wish::default()));
        let wish = Wish::default().slow(Slow::All).window_ms(50).throttle_ms(1000);
        check(&[(SLOW, "all"), (WINDOW, "50"), (THROTTLE, "1000")], Ok(wish));
        check(&[(SLOW, "never")], Err("tieline-slow is \"never\", expected newest, all, drop-oldest or disconnect"));
        check(&[(WINDOW, "101")], Err("tieline-window is \"101\", expected milliseconds from 0 to 100"));
        check(&[(THROTTLE, "-1")], Err("tieline-throttle is \"-1\", expected milliseconds from 0 to 163830"));
    }
}

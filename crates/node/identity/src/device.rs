//! Logins without a browser of their own (RFC 8628): a person types a code elsewhere, and the program asks until it is done.

use std::collections::HashMap;
use std::time::Duration;
use tieline_access::Network;
use tieline_core::Instant;

/// Codes at a time; one more is refused.
const CODES_MAX: usize = 1024;
/// Codes of one network; one more is refused until one is over.
const CODES_OF_NETWORK_MAX: usize = 16;
/// How much longer the provider wants to be left alone after `slow_down` (section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// What the provider gives for a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    /// The provider's name of the login; a secret.
    pub device_code: String,
    /// What the person types.
    pub user_code: String,
    /// Where.
    pub verification: String,
    /// Where, with the code in it.
    pub verification_complete: Option<String>,
    /// How long the code is good.
    pub lasts: Duration,
    /// How long to wait between two requests.
    pub interval: Duration,
}

/// Codes that are waited for, by the handle that their program has.
#[derive(Debug, Default)]
pub struct Devices {
    codes: HashMap<String, Code>,
}

#[derive(Debug)]
struct Code {
    device_code: String,
    network: Network,
    until: Instant,
    interval: Duration,
    next: Instant,
}

/// What is to be done when a program asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// There is no such code, or it is over.
    Gone,
    /// It is too soon: wait this long.
    Wait(Duration),
    /// The provider is to be asked for this code.
    Ask(String),
}

impl Devices {
    /// Whether one more code may be asked for. What is asked for by anybody must not reach the provider without a limit.
    pub fn has_room(&mut self, now: Instant, network: Network) -> bool {
        self.codes.retain(|_, code| code.until > now);
        let own = self.codes.values().filter(|code| code.network == network).count();
        own < CODES_OF_NETWORK_MAX && self.codes.len() < CODES_MAX
    }

    /// Keeps a code under a handle; false where there is no room.
    pub fn keep(&mut self, now: Instant, network: Network, handle: &str, code: &DeviceCode) -> bool {
        if !self.has_room(now, network) {
            return false;
        }
        let DeviceCode { device_code, lasts, interval, .. } = code.clone();
        let code = Code { device_code, network, until: now + lasts, interval, next: now + interval };
        self.codes.insert(handle.to_owned(), code);
        true
    }

    /// A program asks whether its code is confirmed.
    pub fn poll(&mut self, now: Instant, handle: &str) -> Polled {
        let Some(code) = self.codes.get_mut(handle).filter(|code| code.until > now) else {
            self.codes.remove(handle);
            return Polled::Gone;
        };
        if now < code.next {
            return Polled::Wait(code.next.since(now));
        }
        code.next = now + code.interval;
        Polled::Ask(code.device_code.clone())
    }

    /// The provider wants to be asked less often; gives the interval.
    pub fn slow_down(&mut self, now: Instant, handle: &str) -> Duration {
        let Some(code) = self.codes.get_mut(handle) else { return SLOWER };
        code.interval += SLOWER;
        code.next = now + code.interval;
        code.interval
    }

    /// The interval of a code.
    #[must_use]
    pub fn interval(&self, handle: &str) -> Duration {
        self.codes.get(handle).map_or(SLOWER, |code| code.interval)
    }

    /// Forgets a code; whether there was one.
    pub fn remove(&mut self, handle: &str) -> bool {
        self.codes.remove(handle).is_some()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }
}

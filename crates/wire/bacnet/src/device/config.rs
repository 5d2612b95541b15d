//! How a device is spoken to.

/// The settings of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Requests of this helper on their way at a time; the client's own limit holds too.
    pub in_flight: usize,
    /// Work that waits at most; more is refused.
    pub queue_max: usize,
    /// Objects of an object list at most; a longer list is an error.
    pub objects_max: u32,
    /// Properties that one request reads at most, whatever fits.
    pub chunk_max: usize,
    /// The subscriber's number in subscriptions.
    pub process: u32,
    /// Whether notifications of changed values are to be confirmed.
    pub confirmed: bool,
    /// How long a subscription lasts, in seconds; it is renewed at half of that.
    pub lifetime_s: u32,
    /// Subscriptions at most.
    pub subscriptions_max: usize,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            in_flight: 2,
            queue_max: 1024,
            objects_max: 50_000,
            chunk_max: 100,
            process: 1,
            confirmed: false,
            lifetime_s: 300,
            subscriptions_max: 4096,
        }
    }
}

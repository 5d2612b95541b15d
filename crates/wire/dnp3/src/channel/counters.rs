//! What a channel counts.

/// What a channel has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Frames handed to a machine.
    pub frames: u64,
    /// Frames handed to every machine.
    pub broadcasts: u64,
    /// Frames for addresses that no machine has, or from peers that it does not know.
    pub unknown_addresses: u64,
    /// Bytes that belong to no frame.
    pub bytes_discarded: u64,
    /// Frames dropped, at least in part, because their machine took no more.
    pub frames_dropped: u64,
    /// Requests after which the line was free again because no answer came in time.
    pub unanswered: u64,
    /// Times that a machine gave its peer up while others went on.
    pub members_lost: u64,
}

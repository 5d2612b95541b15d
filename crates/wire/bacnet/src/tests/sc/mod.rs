//! BACnet/SC: the codec, the connection to a hub in virtual time, the addresses of devices.

mod connector;
mod directory;
mod dissect;
mod message;

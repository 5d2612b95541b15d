//! The addresses of this machine, which a webhook does not call unless it may.

use std::net::{IpAddr, UdpSocket};

/// Whether an address is the machine's own, or is on its link only: loopback, link-local, unspecified, those of its
/// interfaces; and multicast and broadcast, which reach it too.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_special = match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    };
    // A socket is bound to addresses of this machine only.
    is_special || address.is_unspecified() || address.is_multicast() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_knows_its_own_addresses() {
        let check = |address: &str, expect: bool| assert_eq!(is_own(address.parse().unwrap()), expect, "{address}");
        check("127.0.0.1", true);
        check("127.9.9.9", true);
        check("::1", true);
        check("::ffff:127.0.0.1", true);
        check("0.0.0.0", true);
        check("0.1.2.3", true);
        check("::", true);
        check("169.254.169.254", true);
        check("fe80::1", true);
        check("224.0.0.1", true);
        check("ff02::1", true);
        check("255.255.255.255", true);
        check("192.0.2.7", false);
        check("2001:db8::7", false);
    }
}

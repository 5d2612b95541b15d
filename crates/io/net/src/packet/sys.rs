//! What the system knows of packet sockets and no crate wraps: their addresses, and the groups that a network card lets through.

#![expect(
    unsafe_code,
    reason = "addresses of AF_PACKET, PACKET_ADD_MEMBERSHIP and if_nametoindex have no safe wrapper"
)]

use socket2::{SockAddr, SockAddrStorage, Socket};
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of an interface; an error where there is none of that name.
pub(super) fn index_of(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the name is a string that ends with a zero, and lives until the call returns.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Frames of one type on one interface.
pub(super) fn address_of(index: u32, ether_type: u16) -> io::Result<SockAddr> {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>();
    assert!(length <= size_of::<SockAddrStorage>());
    // SAFETY: a `sockaddr_ll` is plain numbers, of which all bytes are set, and fits the storage, which is made for any address.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or(0);
    address.sll_protocol = ether_type.to_be();
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let length = libc::socklen_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: the storage holds an address of that length.
    Ok(unsafe { SockAddr::new(storage, length) })
}

/// The address of the network card that a socket is bound to.
pub(super) fn card_of(socket: &Socket) -> io::Result<[u8; 6]> {
    let address = socket.local_addr()?;
    let mut storage = address.as_storage();
    // SAFETY: the system gave the address of a socket of AF_PACKET, which is a `sockaddr_ll` of plain numbers; the bytes behind it are zero.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    Ok([a, b, c, d, e, f])
}

/// Lets the frames of a group through the network card, or no more for this socket.
pub(super) fn set_member(socket: BorrowedFd<'_>, index: u32, group: [u8; 6], is_member: bool) -> io::Result<()> {
    let mut address = [0; 8];
    address.iter_mut().zip(group).for_each(|(to, from)| *to = from);
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(io::Error::other)?,
        mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).unwrap_or(0),
        mr_alen: 6,
        mr_address: address,
    };
    set(socket, if is_member { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP }, &request)
}

/// Lets all frames to groups through the network card.
pub(super) fn join_all(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(io::Error::other)?,
        mr_type: u16::try_from(libc::PACKET_MR_ALLMULTI).unwrap_or(0),
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

fn set(socket: BorrowedFd<'_>, option: libc::c_int, request: &libc::packet_mreq) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).map_err(io::Error::other)?;
    let value = std::ptr::from_ref(request).cast();
    // SAFETY: the descriptor is open as long as it is borrowed; the option takes a `packet_mreq`, which lives until the call returns.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

//! Packet sockets: frames of one type of Ethernet, to and from the groups and stations of one network interface.
//!
//! A frame is received without its check sequence, and without its tag, which the system takes off before it looks at the type.

mod sys;

use crate::serial::register;
use socket2::{Domain, SockRef, Socket, Type};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// What the system wants for a packet socket, and who gives it.
const NEEDED: &str = "a packet socket needs the capability CAP_NET_RAW: give it in the unit of systemd with \
    AmbientCapabilities=CAP_NET_RAW, or to the binary with setcap cap_net_raw+ep";

/// A socket for frames of one type on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: AsyncFd<OwnedFd>,
    index: u32,
    card: [u8; 6],
    /// How often each group was joined.
    groups: RefCell<HashMap<[u8; 6], usize>>,
}

impl PacketSocket {
    /// Opens a socket; its frames wait until the runtime has time for them.
    ///
    /// # Errors
    /// There is no such interface, or the process may not have packet sockets.
    pub fn open(interface: &str, ether_type: u16) -> io::Result<Self> {
        let named = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(error.kind(), NEEDED),
            _ => io::Error::new(error.kind(), format!("the network interface {interface:?} cannot be used: {error}")),
        };
        // Without a type nothing comes, so that nothing of another interface waits when it is bound.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), None).map_err(named)?;
        let index = sys::index_of(interface).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::new(error.kind(), format!("there is no network interface {interface:?}")),
            _ => named(error),
        })?;
        socket.bind(&sys::address_of(index, ether_type)?).map_err(named)?;
        let card = sys::card_of(&socket).map_err(named)?;
        Ok(Self { socket: register(socket.into())?, index, card, groups: RefCell::default() })
    }

    /// The address of the network card.
    #[must_use]
    pub const fn card(&self) -> [u8; 6] {
        self.card
    }

    /// Marks what is sent, for the queues of this host and the priorities of a VLAN interface.
    ///
    /// # Errors
    /// The system does not take the priority.
    pub fn set_priority(&self, priority: u8) -> io::Result<()> {
        SockRef::from(self.socket.get_ref()).set_priority(priority.into())
    }

    /// Sets how many bytes the system may keep of frames that were not read.
    ///
    /// # Errors
    /// The system does not take the size.
    pub fn set_unread_bytes(&self, bytes: usize) -> io::Result<()> {
        SockRef::from(self.socket.get_ref()).set_recv_buffer_size(bytes)
    }

    /// Receives the frames of a group, which the network card may drop otherwise. Each call is undone by [`PacketSocket::leave`].
    ///
    /// # Errors
    /// The system has no room for it.
    pub fn join(&self, group: [u8; 6]) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        let count = groups.entry(group).or_insert(0);
        if *count == 0 {
            sys::set_member(self.socket.get_ref().as_fd(), self.index, group, true)?;
        }
        *count += 1;
        Ok(())
    }

    /// Receives the frames of a group no more, once all who joined it have left.
    pub fn leave(&self, group: [u8; 6]) {
        let mut groups = self.groups.borrow_mut();
        let Some(count) = groups.get_mut(&group) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            groups.remove(&group);
            // An interface that is gone has no groups.
            let _ = sys::set_member(self.socket.get_ref().as_fd(), self.index, group, false);
        }
    }

    /// Receives the frames of all groups.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn join_all(&self) -> io::Result<()> {
        sys::join_all(self.socket.get_ref().as_fd(), self.index)
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(self.socket.ready(interest).await?.ready())
    }

    pub(crate) fn try_send(&self, frame: &[u8]) -> io::Result<usize> {
        self.socket.try_io(Interest::WRITABLE, |socket| (&*SockRef::from(socket)).write(frame))
    }

    pub(crate) fn try_receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.socket.try_io(Interest::READABLE, |socket| (&*SockRef::from(socket)).read(frame))
    }
}

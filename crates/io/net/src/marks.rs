//! DSCP and QoS marking of a connection, for switches, routers and this host's queues.

use socket2::{SockRef, Socket};
use std::io;
use std::os::fd::AsFd;

/// How urgent a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// The code point of its packets (RFC 2474), 0 to 63: what switches and routers look at.
    pub dscp: u8,
    /// `SO_PRIORITY`, 0 to 6: what the queues of this host look at. 7 and up are for those who may administer the network.
    pub priority: u8,
    /// Bytes that may wait in the kernel and are not sent yet: what is more urgent and on the same connection is never
    /// behind more. `TCP_NOTSENT_LOWAT` of a stream, `SO_SNDBUF` of datagrams, to which Linux adds as much for its own
    /// records. None leaves it to the system.
    pub unsent_bytes_max: Option<u32>,
}

impl Marks {
    /// Trip, close, block: expedited forwarding (RFC 3246), the first of three queues.
    pub const PROTECTION: Self = Self { dscp: 46, priority: 6, unsent_bytes_max: Some(4 * 1024) };
    /// Reports of states: AF31 (RFC 2597), the second queue.
    pub const MONITORING: Self = Self { dscp: 26, priority: 4, unsent_bytes_max: Some(16 * 1024) };
    /// Files, samples: CS1 (RFC 3662), the last queue.
    pub const BULK: Self = Self { dscp: 8, priority: 2, unsent_bytes_max: Some(64 * 1024) };

    /// Marks a socket. What a listener accepts must be marked too: it does not inherit everything.
    ///
    /// # Errors
    /// The system does not take one of them, as for a priority that it keeps to administrators.
    pub fn apply(&self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        let byte = u32::from(self.dscp & 0x3F) << 2;
        if socket.local_addr()?.is_ipv6() {
            socket.set_tclass_v6(byte)?;
        }
        // IPv4 over an IPv6 socket has marks of its own; elsewhere the system refuses, and there is nothing to mark.
        match socket.set_tos_v4(byte) {
            Err(error) if !socket.local_addr()?.is_ipv6() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // After the code point, which sets a priority too.
        socket.set_priority(u32::from(self.priority))?;
        match self.unsent_bytes_max {
            Some(bytes) if is_stream(&socket)? => socket.set_tcp_notsent_lowat(bytes),
            Some(bytes) => socket.set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX)),
            None => Ok(()),
        }
    }
}

fn is_stream(socket: &Socket) -> io::Result<bool> {
    Ok(socket.r#type()? == socket2::Type::STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    /// What a socket says of itself after it was marked.
    fn check(domain: Domain, kind: Type, marks: Marks) {
        let Ok(socket) = Socket::new(domain, kind, None) else { return };
        marks.apply(&socket).unwrap();
        let byte = u32::from(marks.dscp) << 2;
        let code = if domain == Domain::IPV6 { socket.tclass_v6() } else { socket.tos_v4() };
        assert_eq!((code.unwrap(), socket.priority().unwrap()), (byte, u32::from(marks.priority)), "{marks:?}");
        let unsent = marks.unsent_bytes_max.unwrap();
        if kind == Type::STREAM {
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), unsent, "{marks:?}");
        } else {
            assert_eq!(socket.send_buffer_size().unwrap(), 2 * usize::try_from(unsent).unwrap(), "{marks:?}");
        }
    }

    #[test]
    fn the_system_says_what_it_was_told() {
        for marks in [Marks::PROTECTION, Marks::MONITORING, Marks::BULK] {
            for kind in [Type::STREAM, Type::DGRAM] {
                check(Domain::IPV4, kind, marks);
                check(Domain::IPV6, kind, marks);
            }
        }
    }

    #[tokio::test]
    async fn both_ends_of_a_marked_connection_are_marked() {
        let marks = Some(Marks::PROTECTION);
        let config = crate::ListenConfig { marks, ..crate::ListenConfig::new("127.0.0.1:0") };
        let listener = crate::Listener::bind(&config, std::sync::Arc::default()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = crate::connect(&crate::Target { marks, ..crate::Target::new(address) }).await.unwrap();
        let accepted = listener.accept().await.stream.into_tcp().unwrap();
        for stream in [client, accepted] {
            let socket = SockRef::from(&stream);
            assert_eq!((socket.tos_v4().unwrap(), socket.priority().unwrap()), (46 << 2, 6));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), 4096);
        }
    }

    #[tokio::test]
    async fn datagrams_are_marked_at_both_ends() {
        let (marks, counters) = (Some(Marks::MONITORING), std::sync::Arc::<crate::Counters>::default());
        let datagrams = crate::Datagrams { whole: |bytes, _| bytes.len(), bytes_max: 1400 };
        let udp = crate::UdpListen { datagrams, remotes: Vec::new(), silence: std::time::Duration::from_secs(1) };
        let config = crate::ListenConfig { marks, ..crate::ListenConfig::new("127.0.0.1:0") };
        let hub = crate::udp::Hub::bind(&config, &udp, counters.clone()).await.unwrap();
        let over = crate::UdpConnect { datagrams, local: None };
        let peer = hub.local_addr().unwrap();
        let client = crate::udp::UdpStream::connect(peer, &over, marks, counters).await.unwrap();
        std::future::poll_fn(|cx| client.poll_write_ready(cx)).await.unwrap();
        client.offer(b"here").unwrap();
        let (accepted, _) = hub.accept().await;
        for stream in [client, accepted] {
            let socket = SockRef::from(stream.socket());
            assert_eq!((socket.tos_v4().unwrap(), socket.priority().unwrap()), (26 << 2, 4));
            assert_eq!(socket.send_buffer_size().unwrap(), 32 * 1024);
        }
    }
}

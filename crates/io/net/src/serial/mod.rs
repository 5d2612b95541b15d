//! Serial lines: a device file, its speed and framing, and nobody else on it.

mod sys;

pub(crate) use sys::register;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::termios::{
    ControlModes, InputModes, OptionalActions, SpecialCodeIndex, Termios, ioctl_tiocexcl, tcgetattr, tcsetattr,
};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tieline_core::Instant;
use tokio::io::ReadBuf;
use tokio::io::unix::AsyncFd;

/// How a serial line is set. The direction of an RS-485 transceiver is for the kernel's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialConfig {
    /// Bits a second.
    pub baud: u32,
    /// The check bit of each byte.
    pub parity: Parity,
    /// Stop bits: 1 or 2.
    pub stop_bits: u8,
    /// Who may stop the other.
    pub flow: Flow,
    /// Silence that we keep between a message, ours or the peer's, and our next one; zero for none.
    pub gap: Duration,
}

impl Default for SerialConfig {
    /// 9600 bit/s, 8 data bits, no parity, 1 stop bit, no flow control, no gap.
    fn default() -> Self {
        Self { baud: 9600, parity: Parity::None, stop_bits: 1, flow: Flow::None, gap: Duration::ZERO }
    }
}

/// The check bit of each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// There is none.
    None,
    /// The ones are even in number.
    Even,
    /// The ones are odd in number.
    Odd,
}

/// Who may stop the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nobody.
    None,
    /// The receiver, by the CTS line.
    RtsCts,
}

/// An open serial line.
#[derive(Debug)]
pub(crate) struct SerialStream {
    line: AsyncFd<OwnedFd>,
    path: Rc<str>,
    config: SerialConfig,
    rests_until: Option<Instant>,
}

impl SerialStream {
    /// Opens a device file, for us alone.
    pub(crate) fn open(path: &str, config: SerialConfig) -> io::Result<Self> {
        let named = |what: &str, error: rustix::io::Errno| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{path}: {what}: {error}"))
        };
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let line = open(path, flags, Mode::empty()).map_err(|error| named("cannot be opened", error))?;
        flock(&line, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| named("another program uses the line", error))?;
        let mut termios = tcgetattr(&line).map_err(|error| named("no serial line", error))?;
        set(&mut termios, config).map_err(|error| named("cannot be set so", error))?;
        tcsetattr(&line, OptionalActions::Flush, &termios).map_err(|error| named("cannot be set so", error))?;
        // Programs that know nothing of the lock are kept out too.
        ioctl_tiocexcl(&line).map_err(|error| named("cannot be had alone", error))?;
        Ok(Self { line: register(line)?, path: path.into(), config, rests_until: None })
    }

    pub(crate) fn path(&self) -> Rc<str> {
        Rc::clone(&self.path)
    }

    /// Nothing read is a line that is gone.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.line.poll_read_ready(cx))?;
            let read = ready.try_io(|line| Ok(rustix::io::read(line, out.initialize_unfilled())?));
            match read {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => {
                    out.advance(count?);
                    return Poll::Ready(Ok(()));
                }
                Err(_) => {}
            }
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.poll_write_ready(cx).map_ok(|_| ())
    }

    pub(crate) fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        self.line.try_io(tokio::io::Interest::WRITABLE, |line| Ok(rustix::io::write(line, bytes)?))
    }

    pub(crate) fn has_gap(&self) -> bool {
        !self.config.gap.is_zero()
    }

    /// Bytes came, or so many went: the line is busy for as long as they take, and then silent for the gap.
    pub(crate) fn moved(&mut self, sent: usize, now: Instant) {
        if self.has_gap() {
            self.rests_until = Some(now + self.config.time_of(sent) + self.config.gap);
        }
    }

    pub(crate) const fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    pub(crate) const fn end_rest(&mut self) {
        self.rests_until = None;
    }
}

impl SerialConfig {
    /// How long so many bytes take: a start bit, eight data bits, parity, stop bits.
    #[must_use]
    pub fn time_of(&self, bytes: usize) -> Duration {
        let bits = 9 + u64::from(self.parity != Parity::None) + u64::from(self.stop_bits);
        let bits = bits.saturating_mul(u64::try_from(bytes).unwrap_or(u64::MAX));
        Duration::from_nanos(bits.saturating_mul(1_000_000_000) / u64::from(self.baud.max(1)))
    }
}

fn set(termios: &mut Termios, config: SerialConfig) -> rustix::io::Result<()> {
    termios.make_raw();
    termios.set_speed(config.baud)?;
    let modes = &mut termios.control_modes;
    modes.insert(ControlModes::CS8 | ControlModes::CREAD | ControlModes::CLOCAL);
    modes.set(ControlModes::PARENB, config.parity != Parity::None);
    modes.set(ControlModes::PARODD, config.parity == Parity::Odd);
    modes.set(ControlModes::CSTOPB, config.stop_bits == 2);
    modes.set(ControlModes::CRTSCTS, config.flow == Flow::RtsCts);
    // A byte with wrong parity comes as zero, and the frame's check finds it.
    termios.input_modes.set(InputModes::INPCK, config.parity != Parity::None);
    termios.input_modes.insert(InputModes::IGNBRK);
    termios.special_codes[SpecialCodeIndex::VMIN] = 1;
    termios.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(())
}

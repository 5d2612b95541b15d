use super::echo::{Echo, Heard};
use super::{Notes, run};
use crate::{
    Clock, Closed, ConnectOver, Counters, Flow, Limits, Parity, SerialConfig, Session, Shard, Target, keep_connected,
    open,
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The far end of a line.
struct Far {
    end: AsyncFd<OwnedFd>,
    path: String,
}

impl Far {
    #[expect(deprecated, reason = "what replaces it is unsafe")]
    fn new() -> Self {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        rustix::io::ioctl_fionbio(&end, true).unwrap();
        let path = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        Self { end: AsyncFd::new(end).unwrap(), path }
    }

    async fn write(&self, bytes: &[u8]) {
        let mut ready = self.end.writable().await.unwrap();
        assert_eq!(ready.try_io(|end| Ok(rustix::io::write(end, bytes)?)).unwrap().unwrap(), bytes.len());
    }

    async fn read(&self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            let mut buffer = [0; 2000];
            let mut ready = self.end.readable().await.unwrap();
            if let Ok(read) = ready.try_io(|end| Ok(rustix::io::read(end, &mut buffer)?)) {
                all.extend_from_slice(&buffer[..read.unwrap()]);
            }
        }
        all
    }

    fn target(&self, config: SerialConfig) -> Target {
        Target { over: ConnectOver::Serial(config), ..Target::new(self.path.clone()) }
    }
}

fn new_session(echo: Echo) -> Session<Echo> {
    Session::new(&Shard::new(Clock::start(), Arc::new(Counters::default())), echo, Limits::default())
}

#[test]
fn bytes_pass_as_they_are_both_ways() {
    run(async {
        let far = Far::new();
        let session = new_session(Echo::default());
        let config = SerialConfig { baud: 38_400, parity: Parity::None, flow: Flow::None, ..SerialConfig::default() };
        let all: Vec<u8> = (0..=255).collect();
        let connection = open(&far.target(config), session.shard().counters()).await.unwrap();
        assert_eq!(connection.peer().to_string(), far.path);
        let mut notes = Notes::default();
        let talk = async {
            for _ in 0..20 {
                far.write(&all).await;
                assert_eq!(far.read(all.len()).await, all);
            }
            session.close();
        };
        let (why, ()) = tokio::join!(session.run(connection, &mut notes), talk);
        assert_eq!(why, Closed::Owner);
    });
}

#[test]
fn a_line_is_used_by_one() {
    run(async {
        let far = Far::new();
        let (target, counters) = (far.target(SerialConfig::default()), Arc::new(Counters::default()));
        let first = open(&target, &counters).await.unwrap();
        let error = open(&target, &counters).await.unwrap_err().to_string();
        // The kernel keeps others out, and where they may open it all the same, the lock does.
        assert!(error.contains("busy") || error.contains("another program uses the line"), "{error}");
        drop(first);
        assert!(open(&target, &counters).await.is_ok());
        let folder = tempfile::NamedTempFile::new().unwrap();
        let target = Target { address: folder.path().display().to_string(), ..target };
        let error = open(&target, &counters).await.unwrap_err().to_string();
        assert!(error.contains("no serial line"), "{error}");
    });
}

#[test]
fn a_line_that_was_unplugged_comes_back() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("line");
        let first = Far::new();
        std::os::unix::fs::symlink(&first.path, &device).unwrap();
        let target = Target { address: device.display().to_string(), ..first.target(SerialConfig::default()) };
        let session = new_session(Echo::default());
        let mut notes = Notes::default();
        let talk = async {
            first.write(b"one").await;
            assert_eq!(first.read(3).await, b"one");
            drop(first);
            while session.is_connected() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let second = Far::new();
            std::fs::remove_file(&device).unwrap();
            std::os::unix::fs::symlink(&second.path, &device).unwrap();
            // Until it is set, the line itself returns what it hears.
            while !session.is_connected() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            second.write(b"two").await;
            assert_eq!(second.read(3).await, b"two");
            session.close();
        };
        tokio::join!(keep_connected(&session, &target, 1, &mut notes), talk);
        assert_eq!((notes.connected, session.traffic().connections), (2, 2));
    });
}

#[test]
fn messages_keep_their_distance() {
    run(async {
        let far = Far::new();
        let config = SerialConfig { baud: 9600, gap: Duration::from_millis(50), ..SerialConfig::default() };
        let messages = (0..5).map(|mark| vec![mark; 96]).collect();
        let session = new_session(Echo { output: messages, ..Echo::default() });
        let connection = open(&far.target(config), session.shard().counters()).await.unwrap();
        let mut notes = Notes::default();
        let mut times = Vec::new();
        // Counted where they are written: what the kernel does with them takes no virtual time.
        let watch = async {
            while times.len() < 5 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if session.traffic().writes > times.len() as u64 {
                    times.push(session.shard().now().mono);
                }
            }
            session.close();
        };
        tokio::join!(session.run(connection, &mut notes), watch);
        for pair in times.windows(2) {
            // 96 bytes of 10 bits take 100 ms at 9600 bit/s.
            let apart = pair[1].since(pair[0]);
            assert!(apart >= Duration::from_millis(148) && apart <= Duration::from_millis(153), "{apart:?}");
        }
        let all: Vec<u8> = (0..5).flat_map(|mark| [mark; 96]).collect();
        assert_eq!(far.read(5 * 96).await, all);
        assert_eq!(notes.events.first().map(|(_, event)| *event), Some(Heard::Connected));
    });
}

#[test]
fn settings_reach_the_line() {
    run(async {
        let far = Far::new();
        let config = SerialConfig { baud: 57_600, parity: Parity::Even, stop_bits: 2, ..SerialConfig::default() };
        let _line = open(&far.target(config), &Arc::new(Counters::default())).await.unwrap();
        let shown = rustix::termios::tcgetattr(far.end.get_ref()).unwrap();
        assert_eq!(shown.output_speed(), 57_600);
        assert!(shown.control_modes.contains(rustix::termios::ControlModes::CSTOPB));
        assert_eq!(config.time_of(100), Duration::from_micros(20_833) + Duration::from_nanos(333));
    });
}

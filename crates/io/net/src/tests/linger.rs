use super::echo::Echo;
use super::{Notes, pair, run, session};
use crate::linger::{AT_ONCE_MAX, BYTES_MAX};
use crate::{Closed, Limits, Session};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(5);
const LAST_WORD: u8 = 255;

/// A session that ends with the first byte that comes, and says it back.
fn ending() -> Session<Echo> {
    session(Echo { last_word: Some(LAST_WORD), ..Echo::default() }, Limits { linger: PATIENCE, ..Limits::default() })
}

/// Connections that were waited for, and those that were cut.
fn counted(session: &Session<Echo>) -> (u64, u64) {
    let counters = session.shard().counters();
    (counters.lingering_closes.load(Ordering::Relaxed), counters.lingering_closes_cut.load(Ordering::Relaxed))
}

/// Sends so many bytes without a look at what comes, and then reads to the end.
async fn flood(mut far: TcpStream, bytes: usize) -> std::io::Result<Vec<u8>> {
    far.write_all(&vec![LAST_WORD; bytes]).await?;
    let mut heard = Vec::new();
    far.read_to_end(&mut heard).await?;
    Ok(heard)
}

#[test]
fn who_sends_on_and_reads_then_reads_the_last_words() {
    run(async {
        for bytes in [1, 100_000, BYTES_MAX / 2] {
            let (near, far) = pair().await;
            let session = ending();
            let mut notes = Notes::default();
            let (why, heard) = tokio::join!(session.run(near, &mut notes), flood(far, bytes));
            let heard = heard.unwrap();
            assert!(!heard.is_empty() && heard.iter().all(|byte| *byte == LAST_WORD), "{} bytes", heard.len());
            assert_eq!((why, counted(&session)), (Closed::Machine, (1, 0)));
        }
    });
}

#[test]
fn who_never_stops_is_cut() {
    run(async {
        let (near, mut far) = pair().await;
        let session = ending();
        let floods = async { while far.write_all(&[LAST_WORD; 65_536]).await.is_ok() {} };
        let mut notes = Notes::default();
        let (why, ()) = tokio::join!(session.run(near, &mut notes), floods);
        assert_eq!((why, counted(&session)), (Closed::Machine, (1, 1)));
    });
}

#[test]
fn who_stays_is_cut_in_time() {
    run(async {
        let (near, mut far) = pair().await;
        let session = ending();
        far.write_all(&[LAST_WORD]).await.unwrap();
        let mut notes = Notes::default();
        let start = session.shard().now().mono;
        assert_eq!(session.run(near, &mut notes).await, Closed::Machine);
        let took = session.shard().now().mono.since(start);
        assert!((PATIENCE..PATIENCE + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert_eq!(counted(&session), (1, 1));
    });
}

#[test]
fn too_many_are_cut_at_once() {
    run(async {
        let session = ending();
        let places: Vec<_> = (0..AT_ONCE_MAX).filter_map(|_| session.shard().enter_linger()).collect();
        assert_eq!(places.len(), AT_ONCE_MAX);
        for (places, expect) in [(Some(places), (0, 1)), (None, (1, 1))] {
            let (near, far) = pair().await;
            let mut notes = Notes::default();
            let (why, heard) = tokio::join!(session.run(near, &mut notes), flood(far, 1));
            assert_eq!((why, heard.unwrap(), counted(&session)), (Closed::Machine, vec![LAST_WORD], expect));
            drop(places);
        }
    });
}

#[test]
fn who_was_told_nothing_is_not_waited_for() {
    run(async {
        let (near, mut far) = pair().await;
        let session = ending();
        let mut notes = Notes::default();
        let closes = async {
            session.with(|echo, _| echo.closed = true);
            assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
        };
        let (why, ()) = tokio::join!(session.run(near, &mut notes), closes);
        assert_eq!((why, counted(&session)), (Closed::Machine, (0, 0)));
    });
}

/// The owner and the next connection do not wait for a peer that does not end its side.
#[test]
fn the_session_is_free_meanwhile() {
    run(async {
        let ((near, mut far), (next, mut next_far)) = tokio::join!(pair(), pair());
        let session = ending();
        let (mut first, mut second) = (Notes::default(), Notes::default());
        let go_on = async {
            far.write_all(&[LAST_WORD]).await.unwrap();
            assert_eq!(far.read_u8().await.unwrap(), LAST_WORD);
            assert_eq!(far.read(&mut [0]).await.unwrap(), 0, "our side has ended");
            let answered = async {
                next_far.write_all(b"hi").await.unwrap();
                let mut answer = [0; 2];
                next_far.read_exact(&mut answer).await.unwrap();
                drop(next_far);
                answer
            };
            let (why, answer) = tokio::join!(session.run(next, &mut second), answered);
            drop(far);
            (why, answer)
        };
        let (why, next) = tokio::join!(session.run(near, &mut first), go_on);
        assert_eq!((why, next), (Closed::Machine, (Closed::Peer, *b"hi")));
        assert_eq!((first.closed, second.closed), (vec![Closed::Machine], vec![Closed::Peer]));
        assert_eq!(counted(&session), (1, 0));
    });
}

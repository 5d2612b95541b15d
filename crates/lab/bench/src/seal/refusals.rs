//! Whether the time of a refusal tells what was wrong: Welch's t-test between two kinds of damaged messages that
//! alternate at random, one at a time, through a server (O. Reparaz, J. Balasch, I. Verbauwhede, *Dude, is my code
//! constant time?*, 2017). The control compares with a message that is refused by its header, which must be seen.

use super::load::Load;
use super::servers::Folder;
use super::{Experiment, Figures, Options, RefusalFigures, Row, Verb};
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Result, ensure};
use std::time::Instant;
use tieline_crypto::fill_random;
use tieline_net::Jitter;
use tieline_seal::client::ClientError;
use tieline_seal::protocol::Reason;

/// Beyond it the difference is real for any practical purpose.
const T_MAX: f64 = 4.5;
/// Where C14 and C15 begin, and the length of either.
const KEY: usize = 76;
const SIGNATURE: usize = 332;
const BLOCK: usize = 256;

pub(super) fn run(folder: &Folder, options: &Options, progress: &Progress, rows: &mut Vec<Row>) -> Result<()> {
    let servers = folder.start(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Load::new(&servers, folder.ispb, options.bytes, Verb::Unpack).await?;
        let message = load.message().await?;
        let damaged = |at: usize| {
            let mut damaged = message.clone();
            damaged.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
            damaged
        };
        let (tag, signature, header) = (damaged(message.len() - 1), damaged(SIGNATURE + BLOCK - 1), damaged(2));
        let mut padding = message.clone();
        if let Some(block) = padding.get_mut(KEY..KEY + BLOCK) {
            fill_random(block)?;
            // Below every modulus.
            block.iter_mut().take(1).for_each(|first| *first &= 0x7f);
        }
        for (compared, first, second) in [
            ("padding or tag", &padding, &tag),
            ("tag or signature", &tag, &signature),
            ("padding or signature", &padding, &signature),
            ("control: tag or header", &tag, &header),
        ] {
            progress.show(&format!("refusals: {compared}"));
            let measured = compare(&load, compared, [first, second], options.refusals).await.map(Figures::Refusals);
            rows.push(Row::new(options, Experiment::Refusals, Verb::Unpack, true, measured));
        }
        Ok(())
    })
}

async fn compare(load: &Load, compared: &'static str, messages: [&[u8]; 2], refusals: usize) -> Result<RefusalFigures> {
    let mut seed = [0; 8];
    fill_random(&mut seed)?;
    let mut coin = Jitter::new(u64::from_le_bytes(seed));
    let mut took = [Vec::new(), Vec::new()];
    while took.iter().any(|took| took.len() < refusals) {
        let kind = usize::from(coin.next_unit() < 0.5);
        let start = Instant::now();
        let answer = load.unpack(messages[kind]).await;
        let spent = start.elapsed().as_secs_f64() * 1e6;
        ensure!(
            matches!(answer, Err(ClientError::Refused { reason: Reason::Message, .. })),
            "a damaged message was not refused: {answer:?}"
        );
        took[kind].push(spent);
    }
    let [first, second] = took.map(Moments::of);
    let error = (first.variance / first.count + second.variance / second.count).sqrt();
    let apart = first.mean - second.mean;
    let welch_t = short(apart / error);
    Ok(RefusalFigures { compared, refusals, apart_us: short(apart), welch_t, told_apart: welch_t.abs() > T_MAX })
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    /// Of the fastest nine tenths: the rest is what else the machine does.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.truncate(values.len() * 9 / 10);
        let count = number(values.len() as u64);
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { count, mean, variance }
    }
}

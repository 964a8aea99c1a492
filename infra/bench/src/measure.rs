//! Percentiles, medians, and what a process has used.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How many clock ticks a second has in `/proc`: the same on all Linux systems that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;
const SYNCS: usize = 200;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The value below which this share of the values is. Zero if there are none.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
    values.get(place).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(&mut values.to_vec(), 0.5)
}

/// The processor time that a process has used.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program, in parentheses, may hold spaces.
    let fields = stat.rsplit(')').next().context("no end of the name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>());
    let ticks = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// Memory in MB: what it uses now, and the most that it used at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) now: f64,
    pub(crate) peak: f64,
}

pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = |name: &str| -> Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1_024.0)
    };
    Ok(Memory { now: value("VmRSS:")?, peak: value("VmHWM:")? })
}

/// The bytes of all files in a folder.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// How long this disk takes to make 4 KiB durable, in milliseconds: the median.
pub(crate) fn sync_ms(folder: &Path) -> Result<f64> {
    let mut file = File::create(folder.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[b'x'; 4_096])?;
        let started = now();
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(median(&times))
}

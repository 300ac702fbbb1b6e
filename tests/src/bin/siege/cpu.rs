//! Use of the processors.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// Frequency of the kernel's clock in its statistics (`USER_HZ`), in hertz.
const TICKS: f64 = 100.0;

/// Work of the processors up to a moment, in ticks of all of them together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    at: Instant,
    count: usize,
    idle: u64,
    interrupts: u64,
    stolen: u64,
    ours: u64,
    /// Packets that found no room in a processor's queue: lost before any translation.
    crowded_out: u64,
}

impl Processors {
    /// Reads their work so far.
    ///
    /// # Errors
    ///
    /// Without `/proc`.
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let all = text.lines().next().context("/proc/stat is empty")?;
        // proc_stat(5): user nice system idle iowait irq softirq steal.
        let field = |number: usize| -> u64 {
            let value = all.split_whitespace().nth(number);
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        Ok(Self {
            at: Instant::now(),
            count: text.lines().filter(is_one).count().max(1),
            idle: field(4) + field(5),
            interrupts: field(6) + field(7),
            stolen: field(8),
            ours: ticks("/proc/self/stat"),
            crowded_out: crowded_out()?,
        })
    }

    /// Returns their work since `earlier`, in words. `agent` is the agents' part of it.
    pub(crate) fn since(self, earlier: Self, agent: u64) -> String {
        let wall = self
            .at
            .duration_since(earlier.at)
            .max(Duration::from_millis(1));
        let whole = wall.as_secs_f64() * TICKS;
        let percent = |ticks: u64, of: f64| 100.0 * ticks as f64 / of;
        let all = whole * self.count as f64;
        format!(
            "{} processors: idle {:.0} %, in interrupts {:.0} %, stolen {:.0} %; \
             of one processor: clients, servers and floods {:.0} %, agents {:.1} %; \
             {} packets found no room in a processor's queue",
            self.count,
            percent(self.idle.saturating_sub(earlier.idle), all),
            percent(self.interrupts.saturating_sub(earlier.interrupts), all),
            percent(self.stolen.saturating_sub(earlier.stolen), all),
            percent(self.ours.saturating_sub(earlier.ours), whole),
            percent(agent, whole),
            self.crowded_out.saturating_sub(earlier.crowded_out),
        )
    }
}

/// The second number of each processor's line, in hexadecimal.
fn crowded_out() -> Result<u64> {
    let path = "/proc/net/softnet_stat";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let dropped = text.lines().filter_map(|line| {
        let number = line.split_whitespace().nth(1)?;
        u64::from_str_radix(number, 16).ok()
    });
    Ok(dropped.sum())
}

/// The ticks that a process has had so far, itself and in the kernel; 0 if it is gone.
pub(crate) fn of_process(pid: u32) -> u64 {
    ticks(&format!("/proc/{pid}/stat"))
}

fn ticks(path: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The name before, in brackets, may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    // proc_pid_stat(5): utime and stime are fields 14 and 15, of which the first two are cut off.
    let parsed = fields.split_whitespace().skip(11).take(2);
    parsed.filter_map(|field| field.parse::<u64>().ok()).sum()
}

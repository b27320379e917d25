//! Shows how a run goes on: a line that changes on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::{Observer, Progress};

/// Prints to standard error.
pub struct Reporter {
    bar: Option<ProgressBar>,
    started: Instant,
    said: Option<Instant>,
    last: String,
    cores: usize,
}

const PLAIN_EVERY: Duration = Duration::from_secs(10);

impl Reporter {
    /// A reporter for a run on this many cores.
    pub fn new(cores: usize, quiet: bool) -> Reporter {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {msg}").expect("the template is ours"),
            );
            bar
        });
        Reporter {
            bar,
            started: Instant::now(),
            said: quiet.then(|| Instant::now() + Duration::from_secs(1 << 30)),
            last: String::new(),
            cores,
        }
    }

    /// Removes the line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Reporter {
    fn progress(&mut self, progress: &Progress) {
        let line = line(progress, self.started.elapsed(), self.cores);
        if let Some(bar) = &self.bar {
            bar.set_message(line);
            bar.tick();
            return;
        }
        let due = match self.said {
            None => true,
            Some(at) => {
                Instant::now().saturating_duration_since(at) >= PLAIN_EVERY && at <= Instant::now()
            }
        };
        if due && line != self.last && !progress.executed.is_empty() | !progress.running.is_empty()
        {
            eprintln!("{line}");
            self.said = Some(Instant::now());
            self.last = line;
        }
    }
}

/// `12 s: verdict 40 done, 60 waiting; run 6 done; about 2 min left of what is known`.
pub fn line(progress: &Progress, elapsed: Duration, cores: usize) -> String {
    let kinds: std::collections::BTreeSet<&str> = progress
        .executed
        .keys()
        .chain(progress.queued.keys())
        .chain(progress.running.keys())
        .copied()
        .collect();
    let mut parts = Vec::new();
    let mut left = 0.0;
    let mut known = true;
    for kind in kinds {
        let done = progress.executed.get(kind).copied().unwrap_or(0);
        let waiting = progress.queued.get(kind).copied().unwrap_or(0);
        let running = progress.running.get(kind).copied().unwrap_or(0);
        let name = kind.rsplit('/').next().unwrap_or(kind);
        let mut part = format!("{name} {done} done");
        if waiting + running > 0 {
            part.push_str(&format!(", {} to go", waiting + running));
            match progress.seconds.get(kind) {
                // They take turns on no core.
                _ if progress.outside.contains(kind) => known = false,
                Some(seconds) => left += seconds * (waiting as f64 + running as f64 / 2.0),
                None => known = false,
            }
        }
        parts.push(part);
    }
    let mut line = format!("{}: {}", duration(elapsed.as_secs()), parts.join("; "));
    if progress.hits > 0 {
        line.push_str(&format!("; {} found in the store", progress.hits));
    }
    let left = (left / cores.max(1) as f64).ceil() as u64;
    if known && left > 0 {
        line.push_str(&format!("; about {} for what is known", duration(left)));
    }
    if progress.retries > 0 {
        line.push_str(&format!("; {} retries", progress.retries));
    }
    for service in &progress.services {
        line.push_str("; ");
        line.push_str(service);
    }
    line
}

/// `45 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_what_waits_and_how_long() {
        let progress = Progress {
            executed: [("oss/verdict", 40), ("oss/base", 2)].into(),
            queued: [("oss/verdict", 58)].into(),
            running: [("oss/verdict", 2)].into(),
            hits: 12,
            retries: 1,
            seconds: [("oss/verdict", 0.5), ("oss/base", 20.0)].into(),
            outside: ["ask/completion"].into(),
            services: vec!["0.12 USD spent".into()],
        };
        insta::assert_snapshot!(line(&progress, Duration::from_secs(75), 2));
    }
}

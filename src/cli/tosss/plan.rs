//! Which pairs are asked and how: options that `run`, `score` and `prompts` share.

use crate::app::tosss::ask::Plan;
use crate::tosss::bench::SAMPLE;

/// Which pairs are asked, and how.
#[derive(clap::Args)]
pub struct PlanArgs {
    /// At most so many pairs of each group of languages: whole CVEs, drawn by seed and id.
    #[arg(long, value_name = "N", default_value_t = SAMPLE, value_parser = some)]
    limit: usize,
    /// Seed of the sample, of positions and of the coin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ask every pair in both orders.
    #[arg(long)]
    both_orders: bool,
    /// Only pairs that were published on this day or later: YYYY-MM-DD.
    #[arg(long, value_name = "DATE", value_parser = day)]
    since: Option<String>,
    /// Only pairs of fixes that change one function.
    #[arg(long)]
    single_function: bool,
}

impl PlanArgs {
    /// As the application takes it.
    pub fn plan(&self) -> Plan {
        Plan {
            limit: self.limit,
            seed: self.seed,
            both_orders: self.both_orders,
            since: self.since.clone(),
            single_function: self.single_function,
        }
    }
}

fn some(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a number of pairs, 1 or more, is expected".into()),
    }
}

fn day(text: &str) -> Result<String, String> {
    match crate::date::last_day(text) {
        Some(day) if day == text => Ok(day),
        _ => Err("a day is expected: YYYY-MM-DD".into()),
    }
}

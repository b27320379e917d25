//! `everbench store gc`

use std::path::Path;

use super::super::common::{CliResult, Format, exit, print};
use super::super::run::json;
use crate::app::{keeps_within_limits, sweep_store};
use crate::config::Size;
use crate::store::GcReport;

#[derive(clap::Args)]
pub struct Args {
    /// Only say what would go, by the budgets of `[store.keep]` too.
    #[arg(long)]
    dry_run: bool,
    /// Also remove what is over the budgets of `[store.keep]` in everbench.toml.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let limited = keeps_within_limits(dir)?;
    let report = sweep_store(dir, args.yes || args.dry_run, args.dry_run)?;
    print(&match args.format {
        Format::Json => json(&report),
        Format::Text => text(&report),
    })?;
    if limited && !args.yes {
        eprintln!(
            "nothing goes by the budgets of [store.keep] without --yes; --dry-run says what would"
        );
    }
    Ok(exit::OK)
}

fn text(report: &GcReport) -> String {
    let goes = match report.dry_run {
        true => "would go",
        false => "went",
    };
    let mut out = String::new();
    for root in &report.forgotten_roots {
        out.push_str(&format!("root `{root}` {goes}\n"));
    }
    for class in &report.classes {
        let budget = class.budget.map(|b| format!(" of {}", Size(b)));
        out.push_str(&format!(
            "{:<9} {:>8} jobs, {:>10}{} stay; {:>8} jobs, {:>10} {goes}",
            class.name,
            class.kept_actions,
            Size(class.kept_bytes).to_string(),
            budget.unwrap_or_default(),
            class.actions,
            Size(class.bytes).to_string(),
        ));
        if class.by_budget > 0 {
            out.push_str(&format!(" ({} by the budget)", class.by_budget));
        }
        if class.budget.is_some_and(|b| class.kept_bytes > b) {
            out.push_str("; the rest is needed by the last evaluations or a release");
        }
        out.push('\n');
    }
    out.push_str(&format!(
        "in all: {} jobs and {} blobs stay; {} jobs, {} blobs, {} and {} leftover files {goes}\n",
        report.kept_actions,
        report.kept_blobs,
        report.actions,
        report.blobs,
        Size(report.bytes),
        report.leftover_files
    ));
    out
}

//! `everbench store`

mod gc;
mod portable;
mod stats;

use std::path::Path;

use clap::Subcommand;

use super::common::{CliResult, Format, exit, print};
use super::run::json;
use crate::app::{AppError, store_to_change, store_to_look};
use crate::digest::Digest;
use crate::job::Key;
use crate::store::Reader;

/// Look into the store and take care of it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What there is of each kind, what the last run found there, and what all runs did.
    Stats {
        /// How it is shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// The keys of what was executed, with kind and output.
    Ls {
        /// Only this kind, for example oss/run.
        #[arg(long)]
        kind: Option<String>,
    },
    /// Runs and requests that gave nothing, the last first: when, which job, and why.
    Attempts {
        /// At most this many.
        #[arg(long, value_name = "N", default_value = "50")]
        last: usize,
    },
    /// The work order and the provenance of one job, as JSON.
    Job {
        /// Its key, or as many of its first digits as name one.
        key: String,
    },
    /// The bytes behind a digest.
    Cat {
        /// The digest, or as many of its first digits as name one.
        digest: String,
    },
    /// Take one job's output out; it is executed again when it is needed.
    Rm {
        /// Its key, or as many of its first digits as name one.
        key: String,
    },
    /// Check every byte.
    Verify,
    /// Write what evaluations and releases rest on into one file, to be used elsewhere.
    Export(portable::ExportArgs),
    /// Take in what such a file holds.
    Import(portable::ImportArgs),
    /// Remove what no evaluation and no release needs, and say what the budgets of `[store.keep]`
    /// would take.
    Gc(gc::Args),
    /// Give room that is free inside the index back to the disk.
    Compact,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::Stats { format } => return stats::run(dir, *format),
        Command::Ls { kind } => {
            let store = store_to_look(dir)?;
            let mut out = String::new();
            for listed in store.reader()?.actions(kind.as_deref())? {
                let listed = listed?;
                out.push_str(&format!(
                    "{} {} {}\n",
                    listed.key, listed.kind, listed.output
                ));
            }
            print(&out)?;
        }
        Command::Attempts { last } => {
            let store = store_to_look(dir)?;
            let mut out = String::new();
            for attempt in store.reader()?.recent_attempts(*last)? {
                let at = crate::date::time((attempt.at_ms / 1000).cast_signed());
                let kind = match attempt.transient {
                    true => "to try again",
                    false => "to mend",
                };
                let why = attempt.why.replace('\n', " ");
                out.push_str(&format!(
                    "{at} {} {} {kind}: {why}\n",
                    attempt.kind, attempt.key
                ));
            }
            print(&out)?;
        }
        Command::Job { key } => {
            let store = store_to_look(dir)?;
            let reader = store.reader()?;
            let key = find_key(&reader, key)?;
            print(&json(&reader.action(&key)?))?;
        }
        Command::Cat { digest } => {
            use std::io::Write;
            let store = store_to_look(dir)?;
            let reader = store.reader()?;
            let digest = find_digest(&reader, digest)?;
            let bytes = reader
                .blob(&digest)?
                .ok_or_else(|| AppError::Input(format!("there is no blob {digest}")))?;
            let mut out = std::io::stdout().lock();
            if out.write_all(&bytes).and_then(|()| out.flush()).is_err() {
                return Err(super::common::CliError::Closed);
            }
        }
        Command::Rm { key } => {
            let store = store_to_change(dir)?;
            let key = find_key(&store.reader()?, key)?;
            store.remove(&key)?;
            print(&format!("removed {key}\n"))?;
        }
        Command::Verify => {
            let store = store_to_look(dir)?;
            let report = store.verify()?;
            print(&json(&report))?;
            if !report.is_sound() {
                return Ok(exit::FAULT);
            }
        }
        Command::Export(args) => return portable::export(dir, args),
        Command::Import(args) => return portable::import(dir, args),
        Command::Gc(args) => return gc::run(dir, args),
        Command::Compact => {
            let store = store_to_change(dir)?;
            let before = store.stats()?.index_bytes;
            store.compact()?;
            let after = store.stats()?.index_bytes;
            print(&format!("index: {before} bytes before, {after} now\n"))?;
        }
    }
    Ok(exit::OK)
}

fn find_key(reader: &Reader, prefix: &str) -> Result<Key, AppError> {
    if let Ok(digest) = prefix.parse::<Digest>() {
        return match reader.output(&Key(digest))? {
            Some(_) => Ok(Key(digest)),
            None => Err(AppError::Input(format!("there is no job {prefix}"))),
        };
    }
    let mut found = Vec::new();
    for listed in reader.actions(None)? {
        let listed = listed?;
        if listed.key.0.hex().starts_with(prefix) {
            found.push(listed.key);
        }
    }
    one(prefix, found, "job")
}

/// Digests that outputs have or name.
fn find_digest(reader: &Reader, prefix: &str) -> Result<Digest, AppError> {
    if let Ok(digest) = prefix.parse::<Digest>() {
        return Ok(digest);
    }
    let mut found = Vec::new();
    for listed in reader.actions(None)? {
        let listed = listed?;
        let action = reader.action(&listed.key)?;
        let blobs = action.iter().flat_map(|a| &a.blobs).copied();
        let inputs = action
            .iter()
            .flat_map(|a| a.job.inputs.values())
            .flat_map(|v| v.digests());
        found.extend(
            blobs
                .chain(inputs)
                .chain([listed.output])
                .filter(|d| d.hex().starts_with(prefix)),
        );
    }
    found.sort_unstable();
    found.dedup();
    one(prefix, found, "blob")
}

fn one<T>(prefix: &str, mut found: Vec<T>, what: &str) -> Result<T, AppError> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(AppError::Input(format!(
            "there is no {what} whose name begins with `{prefix}`"
        ))),
        n => Err(AppError::Input(format!(
            "{n} {what}s begin with `{prefix}`: give more digits"
        ))),
    }
}

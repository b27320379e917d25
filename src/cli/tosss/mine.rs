//! `everbench tosss mine`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::app::AppError;
use crate::app::tosss::{Mining, Newest, Places, Quarry, mine, records_in};
use crate::cli::common::{CliResult, Format, cancel_on_signals, exit, print};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::tosss::{megavul, record};

/// Mine fixes of CVEs into pairs: each function that a fix changes, before and after it.
///
/// What is given is added to what was mined in this folder before; without anything, what is
/// missing is tried again. What is in the store is not read twice. Needs no project file.
#[derive(clap::Args)]
pub struct Args {
    /// A Debian source package: its patches that name a CVE, each against the tree before it.
    #[arg(long, value_name = "NAME[=VERSION]")]
    debian: Vec<String>,
    /// OSV records (JSON or YAML), CVE JSON 5 records or answers of NVD's API 2.0: a file, or a folder
    /// or zip archive of them.
    #[arg(long, value_name = "PATH")]
    records: Vec<PathBuf>,
    /// A CSV file with the columns cve, repository and commit; a repository is an address, a path,
    /// or owner/name on GitHub.
    #[arg(long, value_name = "FILE")]
    list: Vec<PathBuf>,
    /// Pairs of a file in MegaVul's schema, as they are.
    #[arg(long, value_name = "FILE")]
    megavul: Vec<PathBuf>,
    /// A folder of clones, called owner/name or name; other repositories are fetched.
    #[arg(long, value_name = "DIR")]
    repositories: Option<PathBuf>,
    /// A fix that changes more files gives no pair [default: 10].
    #[arg(long, value_name = "N")]
    max_files: Option<usize>,
    /// A fix that changes more functions gives no pair [default: 20].
    #[arg(long, value_name = "N")]
    max_functions: Option<usize>,
    /// A function of more words gives no pair [default: 2000].
    #[arg(long, value_name = "N")]
    max_words: Option<usize>,
    /// Jobs run at once; by default one per core.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let places = Places {
        repositories: args.repositories.clone(),
        jobs: args.jobs.map(usize::from),
    };
    let cancel = cancel_on_signals()?;
    let cores = places.jobs.unwrap_or(1);
    let mut reporter = Reporter::new(cores, args.quiet);
    let mining = mine(dir, &places, &cancel, &mut reporter, |quarry, newest| {
        add(args, quarry, newest)
    });
    reporter.finish();
    let mining = mining?;
    let problems = Quarry::read(dir)?.map(|q| q.problems).unwrap_or_default();
    match args.format {
        Format::Json => print(&json(&document(&mining, &problems)))?,
        Format::Text => print(&text(&mining, &problems))?,
    }
    for why in mining.failures.iter().take(5) {
        eprintln!("not mined: {why}");
    }
    Ok(match mining.missing {
        0 => exit::OK,
        _ => exit::INCOMPLETE,
    })
}

fn add(args: &Args, quarry: &mut Quarry, newest: Newest<'_>) -> Result<(), AppError> {
    let input = |path: &Path, e: &dyn std::fmt::Display| {
        AppError::Input(format!("{}: {e}", path.display()))
    };
    for path in &args.list {
        let bytes = std::fs::read(path).map_err(|e| input(path, &e))?;
        let text = String::from_utf8_lossy(&bytes);
        let found = record::list(&path.display().to_string(), &text);
        quarry.add(found.map_err(AppError::Input)?);
    }
    for path in &args.records {
        quarry.add(records_in(path)?);
    }
    for path in &args.megavul {
        let bytes = std::fs::read(path).map_err(|e| input(path, &e))?;
        let (pairs, skipped) = megavul::read(&bytes).map_err(|e| input(path, &e))?;
        eprintln!(
            "{}: {} pairs; left out: {} not vulnerable, {} malformed, {} in another language, {} with a side missing",
            path.display(),
            pairs.len(),
            skipped.not_vulnerable,
            skipped.malformed,
            skipped.language,
            skipped.sides
        );
        let known: BTreeSet<_> = quarry.pairs.iter().map(|p| p.digest()).collect();
        let new = pairs.into_iter().filter(|p| !known.contains(&p.digest()));
        quarry.pairs.extend(new);
    }
    for package in &args.debian {
        let (name, version) = match package.split_once('=') {
            Some((name, version)) => (name, version.to_string()),
            None => (package.as_str(), newest(package)?),
        };
        quarry.add_package(name, &version);
    }
    let limits = &mut quarry.limits;
    limits.files = args.max_files.unwrap_or(limits.files);
    limits.functions = args.max_functions.unwrap_or(limits.functions);
    limits.words = args.max_words.unwrap_or(limits.words);
    let nothing = quarry.packages.is_empty() && quarry.fixes.is_empty() && quarry.pairs.is_empty();
    match nothing {
        false => Ok(()),
        true => Err(AppError::Input(
            "there is nothing to mine\n  help: `--debian libxml2`, `--list FILE.csv` or `--records PATH` says what"
                .into(),
        )),
    }
}

fn document(mining: &Mining, problems: &BTreeMap<record::Problem, usize>) -> serde_json::Value {
    let pairs = &mining.mined.pairs;
    let ids: BTreeSet<&str> = pairs.iter().map(|p| p.cluster()).collect();
    serde_json::json!({
        "schema": "everbench/tosss-mine/1",
        "pairs": pairs.len(),
        "clusters": ids.len(),
        "languages": languages(mining),
        "dropped": mining.mined.counts(),
        "problems": problems,
        "executed": mining.executed,
        "missing": mining.missing,
    })
}

fn languages(mining: &Mining) -> BTreeMap<&'static str, usize> {
    let mut languages = BTreeMap::new();
    for pair in &mining.mined.pairs {
        *languages.entry(pair.language.name()).or_default() += 1;
    }
    languages
}

fn text(mining: &Mining, problems: &BTreeMap<record::Problem, usize>) -> String {
    let pairs = &mining.mined.pairs;
    let ids: BTreeSet<&str> = pairs.iter().map(|p| p.cluster()).collect();
    let by = languages(mining);
    let by: Vec<String> = by.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let mut out = format!("{} pairs of {} CVEs", pairs.len(), ids.len());
    if !by.is_empty() {
        out.push_str(&format!(" ({})", by.join(", ")));
    }
    out.push('\n');
    let counts = mining.mined.counts();
    if !counts.is_empty() {
        out.push_str("no pair:\n");
    }
    for (reason, count) in counts {
        out.push_str(&format!("{count:>7}  {}\n", reason.words()));
    }
    if !problems.is_empty() {
        out.push_str("records without a fix:\n");
    }
    for (problem, count) in problems {
        out.push_str(&format!("{count:>7}  {problem}\n"));
    }
    let executed: u64 = mining.executed.values().sum();
    out.push_str(&format!("executed {executed} jobs\n"));
    if mining.missing > 0 {
        let why = match mining.stopped {
            true => "it was stopped",
            false => "they failed for now",
        };
        out.push_str(&format!(
            "incomplete: {} jobs are missing, {why}; `everbench tosss mine` goes on\n",
            mining.missing
        ));
    }
    out
}

//! `everbench tosss pairs`

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};

use crate::app::AppError;
use crate::app::tosss::mined;
use crate::cli::common::{CliResult, Format, exit, print};
use crate::cli::run::json;
use crate::report::side_by_side;
use crate::tosss::megavul;
use crate::tosss::pair::{Mined, NoPair, Pair};

/// Look at the pairs that were mined in this folder; runs nothing.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List them.
    List {
        /// Only those of this CVE, or of a CVE of this year (CVE-2022-).
        #[arg(long, value_name = "ID")]
        cve: Option<String>,
        /// Only those in this language.
        #[arg(long, value_name = "NAME")]
        language: Option<String>,
        /// How it is shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Show a pair, its two sides beside each other.
    Show {
        /// The first digits of its digest, or a CVE.
        id: String,
        /// Columns of the display.
        #[arg(long, default_value_t = 160)]
        width: usize,
    },
    /// Say why fixes, files and functions gave no pair.
    WhyDropped {
        /// List each with this reason, for example only_after; `all` lists every one.
        #[arg(long, value_name = "REASON")]
        reason: Option<String>,
        /// Only what is of this CVE.
        #[arg(long, value_name = "ID")]
        cve: Option<String>,
        /// How it is shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Write them into a file.
    Export {
        /// The file.
        file: PathBuf,
        /// In which schema: MegaVul's, or one JSON object a line with all that is known.
        #[arg(long = "as", value_enum, default_value = "megavul")]
        schema: Schema,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Schema {
    /// A list of entries as MegaVul publishes them.
    Megavul,
    /// Pairs, one a line.
    Jsonl,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let (mined, missing) = mined(dir)?;
    match &args.command {
        Command::List {
            cve,
            language,
            format,
        } => list(&mined, cve.as_deref(), language.as_deref(), *format)?,
        Command::Show { id, width } => print(&show(&mined, id, *width)?)?,
        Command::WhyDropped {
            reason,
            cve,
            format,
        } => why(&mined, reason.as_deref(), cve.as_deref(), *format)?,
        Command::Export { file, schema } => export(&mined, file, *schema)?,
    }
    if missing > 0 {
        eprintln!("incomplete: {missing} jobs are missing; `everbench tosss mine` goes on");
        return Ok(exit::INCOMPLETE);
    }
    Ok(exit::OK)
}

fn is_of(pair: &Pair, id: &str) -> bool {
    let mut ids = std::iter::once(&pair.vulnerability.id).chain(&pair.also);
    ids.any(|own| match id.ends_with('-') {
        true => own.starts_with(id),
        false => own.eq_ignore_ascii_case(id),
    })
}

fn list(
    mined: &Mined,
    cve: Option<&str>,
    language: Option<&str>,
    format: Format,
) -> Result<(), crate::cli::common::CliError> {
    let wanted = mined.pairs.iter().filter(|pair| {
        cve.is_none_or(|id| is_of(pair, id))
            && language.is_none_or(|name| pair.language.name() == name)
    });
    if format == Format::Json {
        let row = |pair: &Pair| {
            let mut row = serde_json::to_value(pair).expect("pairs are JSON");
            if let Some(fields) = row.as_object_mut() {
                fields.remove("before");
                fields.remove("after");
                fields.insert("digest".into(), pair.digest().hex().into());
            }
            row
        };
        let rows: Vec<_> = wanted.map(row).collect();
        return print(&json(
            &serde_json::json!({ "schema": "everbench/tosss-pairs/1", "rows": rows }),
        ));
    }
    let mut out = String::new();
    for pair in wanted {
        out.push_str(&format!(
            "{} {:<16} {:<6} {:>4} {} ({})\n",
            pair.digest().short(),
            pair.cluster(),
            pair.language.name(),
            pair.after.lines().count(),
            pair.function,
            pair.path
        ));
    }
    print(&out)
}

fn show(mined: &Mined, id: &str, width: usize) -> Result<String, AppError> {
    let lower = id.to_lowercase();
    let digits = lower.len() >= 4 && lower.bytes().all(|b| b.is_ascii_hexdigit());
    let wanted = |pair: &&Pair| match digits {
        true => pair.digest().hex().starts_with(&lower),
        false => is_of(pair, id),
    };
    let found: Vec<&Pair> = mined.pairs.iter().filter(wanted).collect();
    if found.is_empty() {
        return Err(AppError::Input(format!(
            "no pair is called `{id}`\n  help: `everbench tosss pairs list` lists them; `everbench tosss pairs why-dropped --reason all` what gave none"
        )));
    }
    let mut out = String::new();
    for pair in found {
        let known = &pair.vulnerability;
        out.push_str(&format!("{}  {}\n", pair.digest().short(), pair.function));
        let mut line = |name: &str, value: &str| {
            if !value.is_empty() {
                out.push_str(&format!("  {name:<11} {value}\n"));
            }
        };
        line("fixes", &known.id);
        line("also", &pair.also.join(", "));
        line("cwe", &known.cwes.join(", "));
        line("cvss", known.cvss.as_deref().unwrap_or_default());
        line("published", known.published.as_deref().unwrap_or_default());
        line("repository", &pair.repository);
        line("commit", &pair.commit);
        line("path", &pair.path);
        line("language", pair.language.name());
        line("licence", pair.licence.as_deref().unwrap_or_default());
        line(
            "functions",
            &format!("{} in this fix", pair.functions_in_fix),
        );
        out.push_str(&side_by_side(&pair.before, &pair.after, width));
        out.push('\n');
    }
    Ok(out)
}

fn why(
    mined: &Mined,
    reason: Option<&str>,
    cve: Option<&str>,
    format: Format,
) -> Result<(), crate::cli::common::CliError> {
    let name = |dropped: &NoPair| {
        let value = serde_json::to_value(dropped.reason).expect("reasons are JSON");
        value.as_str().unwrap_or_default().to_string()
    };
    let wanted: Vec<&NoPair> = mined
        .dropped
        .iter()
        .filter(|d| cve.is_none_or(|id| d.id.eq_ignore_ascii_case(id)))
        .filter(|d| reason.is_none_or(|r| r == "all" || r == name(d)))
        .collect();
    if format == Format::Json {
        return print(&json(
            &serde_json::json!({ "schema": "everbench/tosss-dropped/1", "counts": mined.counts(), "rows": wanted }),
        ));
    }
    let mut out = String::new();
    if reason.is_some() || cve.is_some() {
        for dropped in wanted {
            let path = dropped.path.as_deref().unwrap_or_default();
            let function = dropped.function.as_deref().unwrap_or_default();
            let place = [&dropped.id, &dropped.commit, path, function];
            let place: Vec<&str> = place.into_iter().filter(|p| !p.is_empty()).collect();
            out.push_str(&format!(
                "{}: {}\n",
                place.join(" "),
                dropped.reason.words()
            ));
        }
        return print(&out);
    }
    for (reason, count) in mined.counts() {
        let key = serde_json::to_value(reason).expect("reasons are JSON");
        out.push_str(&format!(
            "{count:>7}  {:<18} {}\n",
            key.as_str().unwrap_or_default(),
            reason.words()
        ));
    }
    print(&out)
}

fn export(mined: &Mined, file: &Path, schema: Schema) -> Result<(), AppError> {
    let text = match schema {
        Schema::Megavul => megavul::write(&mined.pairs),
        Schema::Jsonl => {
            let line = |pair: &Pair| serde_json::to_string(pair).expect("pairs are JSON") + "\n";
            mined.pairs.iter().map(line).collect()
        }
    };
    std::fs::write(file, text)
        .map_err(|e| AppError::Environment(format!("{}: {e}", file.display())))?;
    eprintln!("{}: {} pairs", file.display(), mined.pairs.len());
    Ok(())
}

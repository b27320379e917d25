//! `everbench release`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::Value;

use super::common::{CliResult, EvaluationArgs, Format, exit, now, options, print};
use super::run::{board, json, rows};
use crate::app::{
    App, AppError, Evaluation, Options, Record, Release, Retracted, Verified, drop_release,
    export_release, release_names, store_of_export, store_to_change, store_to_look, verify_release,
};
use crate::report::{self, Style};
use crate::store::Store;

/// Pin what was evaluated under a name, and show that it can be evaluated again.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Pin the present, complete evaluation; it is never changed afterwards.
    Freeze {
        /// What the release is called, for example 2026-11.
        name: String,
        #[command(flatten)]
        evaluation: EvaluationArgs,
    },
    /// The releases there are.
    List {
        /// How they are shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// The leaderboard as it was frozen.
    Show {
        /// The release.
        name: String,
        /// How it is shown; JSON is byte for byte what was frozen.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Evaluate a release again from raw replies and logs, every byte of which is read, and compare;
    /// runs nothing, and needs no project, compiler or source. Leaves with 8 if anything differs.
    Verify {
        /// The release.
        name: String,
        /// Look into a file that `release export` wrote, in place of this folder's store.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// How the result is shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Write everything that a release rests on into one file, for others to verify.
    Export {
        /// The release.
        name: String,
        /// The file; an export that is there is replaced.
        file: PathBuf,
    },
    /// Put a release beside another one, or beside what is evaluated now.
    Diff {
        /// The release.
        name: String,
        /// The other release; what the store gives now, when absent.
        other: Option<String>,
        #[command(flatten)]
        evaluation: EvaluationArgs,
        /// How the result is shown.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Forget a release; what only it kept goes with the next `store gc`.
    Drop {
        /// The release.
        name: String,
    },
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::Freeze { name, evaluation } => freeze(dir, name, &options(evaluation, None)),
        Command::List { format } => list(dir, *format),
        Command::Show { name, format } => {
            let store = store_to_look(dir)?;
            let release = Release::open(&store, name)?;
            match format {
                Format::Json => print(&release.board()?)?,
                Format::Text => {
                    let retracted = taken_back(release.retracted()?.as_ref());
                    let head = head(&release.record);
                    print(&format!("{head}\n\n{}{retracted}", release.text()?))?;
                }
            }
            Ok(exit::OK)
        }
        Command::Verify { name, from, format } => match from {
            Some(file) => {
                let (store, _folder) = store_of_export(file)?;
                verify(&store, name, *format)
            }
            None => verify(&store_to_look(dir)?, name, *format),
        },
        Command::Export { name, file } => {
            let exported = export_release(dir, name, file)?;
            print(&format!(
                "{}: {} facts, {} blobs, {} bytes; `everbench release verify {name} --from {}` needs nothing else\n",
                file.display(),
                exported.contents.actions,
                exported.contents.blobs,
                exported.file_bytes,
                file.display()
            ))?;
            Ok(exit::OK)
        }
        Command::Diff {
            name,
            other,
            evaluation,
            format,
        } => {
            let options = options(evaluation, None);
            let (store, second) = match other {
                Some(other) => {
                    let store = store_to_look(dir)?;
                    let second = Release::open(&store, other)?.board()?;
                    (
                        std::sync::Arc::new(store),
                        (other.as_str(), parsed(&second)),
                    )
                }
                None => {
                    let app = App::open_to_score(dir)?;
                    let evaluation = app.score(&options)?;
                    let now = json(&board(&app, &options, &evaluation)?);
                    (app.store.clone(), ("now", parsed(&now)))
                }
            };
            let first = parsed(&Release::open(&store, name)?.board()?);
            let beside = report::beside((name, &first), (second.0, &second.1));
            match format {
                Format::Json => print(&json(&beside))?,
                Format::Text => print(&report::beside_text(&beside))?,
            }
            Ok(exit::OK)
        }
        Command::Drop { name } => {
            drop_release(&store_to_change(dir)?, name)?;
            print(&format!(
                "dropped {name}; `everbench store gc` removes what only it kept\n"
            ))?;
            Ok(exit::OK)
        }
    }
}

/// A leaderboard's JSON.
pub(super) fn parsed(board: &str) -> Value {
    serde_json::from_str(board).unwrap_or_default()
}

fn freeze(dir: &Path, name: &str, options: &Options) -> CliResult {
    let app = App::open_to_freeze(dir)?;
    let draft = app.draft(name, options, &now())?;
    let board = rows(&app, options, &draft.evaluation)?;
    let text = report::text(&board, Style { colour: false });
    let record = app.freeze(draft, &json(&board), &text)?;
    print(&format!(
        "{}\n`everbench release verify {name}` evaluates it again from its {} facts\n",
        head(&record),
        record.facts
    ))?;
    Ok(exit::OK)
}

/// A release in one line.
pub(super) fn head(record: &Record) -> String {
    let subjects: Vec<String> = record
        .subjects
        .iter()
        .map(|s| format!("{} ({})", s.name, s.source))
        .collect();
    format!(
        "release {}, frozen {} by {}: {}; {} models; leaderboard {}",
        record.name,
        record.frozen,
        record.tool,
        subjects.join(", "),
        record.models.len(),
        record.board.short()
    )
}

fn list(dir: &Path, format: Format) -> CliResult {
    let store = store_to_look(dir)?;
    let mut records = Vec::new();
    for name in release_names(&store.reader()?)? {
        records.push(Release::open(&store, &name)?.record);
    }
    match format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": "everbench/releases/1", "releases": records,
        })))?,
        Format::Text if records.is_empty() => {
            print("there is no release yet; `everbench release freeze NAME` makes one\n")?;
        }
        Format::Text => {
            let lines: Vec<String> = records.iter().map(head).collect();
            print(&format!("{}\n", lines.join("\n")))?;
        }
    }
    Ok(exit::OK)
}

fn verify(store: &Store, name: &str, format: Format) -> CliResult {
    let verified = verify_release(store, name, score)?;
    match format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": "everbench/verified/1", "release": name,
            "stands": verified.faults.is_empty(),
            "facts": verified.facts, "blobs": verified.blobs, "faults": verified.faults,
            "retracted": verified.retracted,
            "code": {
                "frozen": verified.record.as_ref().map(|r| &r.code), "this": crate::CODE,
            },
        })))?,
        Format::Text => print(&said(name, &verified))?,
    }
    Ok(match verified.faults.is_empty() {
        true => exit::OK,
        false => exit::NOT_REPRODUCED,
    })
}

/// The leaderboard of an evaluation with a release's settings.
fn score(evaluation: &Evaluation, record: &Record) -> Result<String, AppError> {
    let (config, penalties) = (record.score_config(), record.penalties());
    report::leaderboard(evaluation, &config, &penalties, record.seed).map(|board| json(&board))
}

/// What a release rests on that was taken back, as a line.
fn taken_back(retracted: Option<&Retracted>) -> String {
    match retracted {
        None => String::new(),
        Some(r) => format!(
            "retracted: it rests on {} facts that were taken back since: {}\n",
            r.facts,
            r.reasons.join("; ")
        ),
    }
}

fn said(name: &str, verified: &Verified) -> String {
    let Verified { facts, blobs, .. } = verified;
    let retracted = taken_back(verified.retracted.as_ref());
    if verified.faults.is_empty() {
        return format!(
            "release {name} stands: {facts} facts and {blobs} blobs are as they were frozen, and give the same leaderboard\n{retracted}"
        );
    }
    let mut out = String::new();
    for fault in &verified.faults {
        out.push_str(&format!("{}: {}", fault.id, fault.what));
        if let Some(key) = &fault.key {
            out.push_str(&format!("\n    job {key}"));
        }
        if let Some(digest) = &fault.digest {
            out.push_str(&format!("\n    blob {digest}"));
        }
        out.push('\n');
    }
    out.push_str(&format!(
        "release {name} does not stand: {} differences in {facts} facts\n",
        verified.faults.len()
    ));
    if let Some(record) = verified.record.as_ref().filter(|r| r.code != crate::CODE) {
        out.push_str(&format!(
            "note: it was frozen by {} with other code than this program's: use that one to tell a change of the program from one of the facts\n",
            record.tool
        ));
    }
    out
}

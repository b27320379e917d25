//! What the commands share: exit codes, options of an evaluation, printing.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};

use crate::app::{AUDITED, AppError, Carry, Environment, MADE_AGAIN, Options, broken, lost};
use crate::cancel::Cancel;
use crate::engine::{DriveError, Hold};
use crate::oss::inputs::Scoring;
use crate::store::StoreError;
use crate::subject::Extractor;

/// The exit codes, which scripts may rely on.
pub mod exit {
    /// All done.
    pub const OK: u8 = 0;
    /// A fault that has no code of its own.
    pub const FAULT: u8 = 1;
    /// The command line was wrong.
    pub const USAGE: u8 = 2;
    /// A file of the user's is wrong: project file, manifest, replay file, template.
    pub const INPUT: u8 = 3;
    /// The machine lacks something: compiler, sandbox, disk.
    pub const ENVIRONMENT: u8 = 4;
    /// The unchanged subject does not build, or its tests do not work.
    pub const BASELINE: u8 = 5;
    /// An audit found verdicts that differ.
    pub const DIFFERS: u8 = 6;
    /// `sync --check`: upstream has something new.
    pub const MOVED: u8 = 7;
    /// `release verify`: something is not as it was frozen.
    pub const NOT_REPRODUCED: u8 = 8;
    /// What models may cost is spent; what was answered is kept.
    pub const MONEY: u8 = 9;
    /// Something is still missing; running again goes on.
    pub const INCOMPLETE: u8 = 75;
}

/// Shown by `--help`.
pub const EXIT_HELP: &str = "Exit codes: 0 done, 1 fault, 2 usage, 3 bad input file, 4 the machine lacks \
something, 5 the unchanged subject does not build or test, 6 an audit found a difference, \
7 upstream has something new (sync --check), 8 a release is not reproduced (release verify), \
9 the money that may be spent is spent, 75 incomplete, or another process writes to the store (run again to go on).";

/// Why a command ended early.
pub enum CliError {
    /// An error to show.
    App(AppError),
    /// Nobody reads what is printed.
    Closed,
}

impl<E: Into<AppError>> From<E> for CliError {
    fn from(e: E) -> Self {
        CliError::App(e.into())
    }
}

/// What a command gives.
pub type CliResult = Result<u8, CliError>;

/// The exit code of an error.
pub fn code_of(e: &AppError) -> u8 {
    match e {
        AppError::Input(_) => exit::INPUT,
        AppError::Environment(_) => exit::ENVIRONMENT,
        AppError::Broken { .. } => exit::BASELINE,
        // Whoever writes to the store now will have ended later.
        AppError::Store(StoreError::Locked { .. }) => exit::INCOMPLETE,
        AppError::Store(StoreError::Full { .. } | StoreError::Io { .. })
        | AppError::Drive(DriveError::Store(_)) => exit::ENVIRONMENT,
        AppError::Damaged { .. } | AppError::Store(_) => exit::INPUT,
        AppError::Drive(_) => exit::FAULT,
    }
}

/// Why a command that runs nothing cannot show what it was asked for.
/// `otherwise` says that the last run was asked for something else.
pub fn held(hold: &Hold, otherwise: Option<&str>) -> AppError {
    if let Some(fault) = hold.faults().first() {
        return broken(fault);
    }
    if let Some(digest) = hold.corrupt_blobs().first() {
        return lost(digest, MADE_AGAIN);
    }
    AppError::Input(format!(
        "{} jobs are missing to show this\n  help: {}",
        hold.jobs().len(),
        otherwise.unwrap_or("`everbench run` runs them")
    ))
}

/// The time, for what is to be dated.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    crate::date::time(since.map_or(0, |d| d.as_secs() as i64))
}

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(_) => Err(CliError::Closed),
    }
}

/// True if standard output may be coloured.
pub fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// How a result is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Which scoring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ScoringArg {
    /// As published.
    Paper,
    /// The same functions for every model.
    Paired,
}

/// Which extractor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExtractorArg {
    /// This program's own reading; needs nothing installed.
    TreeSitter,
    /// libclang over the recorded compile commands.
    Libclang,
}

/// Where the user says libclang is.
pub fn libclang_path() -> Option<std::path::PathBuf> {
    let set = std::env::var_os(crate::exec::libclang::VARIABLE);
    set.filter(|path| !path.is_empty()).map(Into::into)
}

/// Options of every command that evaluates.
#[derive(Args, Clone)]
pub struct EvaluationArgs {
    /// Ask only this many functions: a stratified sample, drawn by seed and name.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Iterations per model.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Seed of the sample, the iterations and the calibration models.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What models are asked to do: improve, repair or synthesise.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Only this model; may be given several times.
    #[arg(long = "model", value_name = "NAME")]
    pub models: Vec<String>,
    /// Only this subject of several; may be given several times.
    #[arg(long = "subject", value_name = "NAME")]
    pub subjects: Vec<String>,
    /// Only this scoring; may be given twice.
    #[arg(long = "scoring", value_name = "WHICH", value_enum)]
    pub scorings: Vec<ScoringArg>,
    /// The profile of the subject's tests, as its manifest names them.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Who finds the functions; rows of different extractors are not comparable.
    #[arg(long, value_name = "WHICH", value_enum)]
    pub extractor: Option<ExtractorArg>,
    /// Points per unique alert.
    #[arg(long, value_name = "POINTS", value_parser = points)]
    pub penalty: Option<f64>,
}

/// An amount of dollars, in millionths.
pub fn usd(text: &str) -> Result<u64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text);
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let parsed = (digits(whole) && digits(part) && part.len() <= 6 && !amount.is_empty())
        .then(|| format!("{whole}{part:0<6}").parse().ok())
        .flatten();
    parsed.ok_or_else(|| "an amount of dollars such as 2.50 is expected".to_string())
}

fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if p.is_finite() && p >= 0.0 => Ok(p),
        _ => Err("a number of points, 0 or more, is expected".into()),
    }
}

/// Options of commands that execute.
#[derive(Args, Clone)]
pub struct ExecutionArgs {
    /// The C compiler.
    #[arg(long, value_name = "PROGRAM")]
    pub compiler: Option<String>,
    /// Jobs run at once; by default one per core.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// How much of an evaluation is measured.
#[derive(Args, Clone)]
pub struct CarryArgs {
    /// Keep what earlier commits gave of iterations whose functions and variants are what they were,
    /// instead of building and running them. What is kept is labelled stale with the commit at which
    /// it was measured.
    #[arg(long)]
    carry: bool,
    /// Of what could be kept, measure this share (0 to 1) all the same, and compare; at least one
    /// iteration of each row [default: 0.1].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    carry_audit: Option<f64>,
    /// daily: as --carry, new and changed functions are asked and judged, iterations are kept;
    /// release: everything is measured [default: release].
    #[arg(long, value_name = "WHICH", value_enum, conflicts_with = "carry")]
    tier: Option<Tier>,
}

/// How much of an evaluation is measured, by what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Tier {
    /// Iterations are kept.
    Daily,
    /// Everything.
    Release,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share from 0 to 1 is expected".into()),
    }
}

impl CarryArgs {
    /// As the application takes it.
    ///
    /// # Errors
    /// A share of what nothing is kept of.
    pub fn carry(&self) -> Result<Carry, AppError> {
        match (
            self.carry || self.tier == Some(Tier::Daily),
            self.carry_audit,
        ) {
            (true, share) => Ok(Carry::Audited(share.unwrap_or(AUDITED))),
            (false, None) => Ok(Carry::No),
            (false, Some(_)) => Err(AppError::Input(
                "--carry-audit: nothing is kept that could be audited\n  help: say `--carry` or `--tier daily` too"
                    .into(),
            )),
        }
    }
}

/// The options of both, as the application takes them.
pub fn options(evaluation: &EvaluationArgs, execution: Option<&ExecutionArgs>) -> Options {
    Options {
        limit: evaluation.limit,
        iterations: evaluation.iterations,
        seed: evaluation.seed,
        task: evaluation.task.clone(),
        penalty: evaluation.penalty,
        profile: evaluation.profile.clone(),
        scorings: evaluation
            .scorings
            .iter()
            .map(|s| match s {
                ScoringArg::Paper => Scoring::Paper,
                ScoringArg::Paired => Scoring::Paired,
            })
            .collect(),
        extractor: evaluation.extractor.map(|e| match e {
            ExtractorArg::TreeSitter => Extractor::TreeSitter,
            ExtractorArg::Libclang => Extractor::Libclang,
        }),
        libclang: libclang_path(),
        models: evaluation.models.clone(),
        subjects: evaluation.subjects.clone(),
        compiler: execution.and_then(|e| e.compiler.clone()),
        jobs: execution.and_then(|e| e.jobs).map(usize::from),
        carry: Carry::AsLastRun,
        max_cost: None,
        environment: Environment(Some(|name| std::env::var(name).ok())),
    }
}

/// A flag that the first SIGINT or SIGTERM stops and the second kills.
pub fn cancel_on_signals() -> Result<Cancel, CliError> {
    let cancel = Cancel::new();
    let flag = cancel.clone();
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
    ])
    .map_err(|e| AppError::Environment(format!("signals: {e}")))?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            flag.escalate();
            let what = if flag.is_killed() {
                "ending what runs"
            } else {
                "finishing what runs; once more to end it"
            };
            eprintln!("stopping: {what}");
        }
    });
    Ok(cancel)
}

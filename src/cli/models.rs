//! `everbench models`

use std::path::Path;

use super::common::{CliResult, Format, exit, print};
use super::run::json;
use crate::app::{App, Environment, KeyState, Listed, Options, PriceState, Probe, Project};
use crate::ask::Stop;
use crate::ask::prices::dollars;
use crate::config::providers;
use crate::oss::inputs::Card;

/// Who answers: list the project's models, ask one of them something small, record what one answered.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(ListArgs),
    Check(CheckArgs),
    Record(RecordArgs),
    Providers(ProvidersArgs),
}

/// The providers that everbench knows by name: what each speaks, where it is, where its key is looked
/// for. Any other server takes `api` and `base-url`.
#[derive(clap::Args)]
struct ProvidersArgs {
    /// How the list is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// The models of the project: how each is reached, whether its key is there and its price known.
///
/// Asks nobody. Keys are never shown.
#[derive(clap::Args)]
struct ListArgs {
    /// How the list is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Ask a model over HTTP one small thing, once: what came back, and what the configuration lacks.
///
/// It may cost a few tokens; nothing of it is kept. Exit codes: 3 if the configuration is wrong, 75 if
/// the trouble can pass.
#[derive(clap::Args)]
struct CheckArgs {
    /// The model's name in the project.
    model: String,
    /// How the result is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Print what a model has answered as a replay file, one JSON object a line.
///
/// A project that names the file as `replay` asks the same under the same keys, without a network.
#[derive(clap::Args)]
struct RecordArgs {
    /// The model's name in the project.
    model: String,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::List(args) => list(dir, args),
        Command::Check(args) => check(dir, args),
        Command::Record(args) => record(dir, args),
        Command::Providers(args) => known_providers(args),
    }
}

fn known_providers(args: &ProvidersArgs) -> CliResult {
    match args.format {
        Format::Json => {
            let rows: Vec<_> = providers()
                .iter()
                .map(|p| {
                    serde_json::json!({
                        "name": p.name, "api": p.api, "base_url": p.base_url, "key_env": p.key_env,
                        "batch": p.batch, "router": p.router,
                    })
                })
                .collect();
            print(&json(
                &serde_json::json!({ "schema": "everbench/providers/1", "rows": rows }),
            ))?;
        }
        Format::Text => {
            let mut out = String::new();
            for p in providers() {
                let key = p.key_env.as_deref().unwrap_or("no key");
                let can = [(p.batch, "; batches"), (p.router, "; routes")];
                let can: String = can
                    .iter()
                    .filter(|(can, _)| *can)
                    .map(|(_, word)| *word)
                    .collect();
                out.push_str(&format!(
                    "{:<12} {:<12} {}  ({key}{can})\n",
                    p.name,
                    p.api.name(),
                    p.base_url
                ));
            }
            print(&out)?;
        }
    }
    Ok(exit::OK)
}

fn environment() -> Environment {
    Environment(Some(|name| std::env::var(name).ok()))
}

fn list(dir: &Path, args: &ListArgs) -> CliResult {
    let roster = Project::read(dir)?.roster(environment())?;
    match args.format {
        Format::Json => print(&json(
            &serde_json::json!({ "schema": "everbench/models/1", "models": roster }),
        ))?,
        Format::Text => {
            let mut out = String::new();
            for listed in &roster {
                out.push_str(&entry(listed));
            }
            print(match out.as_str() {
                "" => "everbench.toml names no model\n",
                out => out,
            })?;
        }
    }
    Ok(exit::OK)
}

/// A model in a few lines.
fn entry(listed: &Listed) -> String {
    let mut out = format!("{}  {}", listed.name, listed.kind);
    if let Some(day) = &listed.retired {
        out.push_str(&format!(", retired since {day}"));
    }
    out.push('\n');
    let mut line = |what: &str, text: String| out.push_str(&format!("  {what:<9} {text}\n"));
    if let Some(http) = &listed.http {
        line(
            "provider",
            format!("{} ({}) at {}", http.provider, http.api, http.base_url),
        );
    }
    if let Some(revision) = &listed.revision {
        line("revision", revision.clone());
    }
    if let Some(http) = &listed.http {
        line(
            "key",
            match &http.key {
                KeyState::NotNeeded => "none is sent".into(),
                KeyState::Present { from } => format!("present ({from})"),
                KeyState::Missing { from, why } => format!("MISSING ({from}): {why}"),
            },
        );
        line(
            "price",
            match &http.price {
                PriceState::Known { date, .. } => match date {
                    Some(day) => format!("known, as of {day}"),
                    None => "known".into(),
                },
                PriceState::Unknown { name } => {
                    format!("not known: no `[[price]]` row for `{name}`")
                }
            },
        );
        if !http.omitted.is_empty() {
            line("omitted", http.omitted.join(", "));
        }
    }
    if let Some(card) = card(&listed.card) {
        line("card", card);
    }
    out
}

/// What is known of a model, in one line.
fn card(card: &Card) -> Option<String> {
    let parts = [
        ("family", &card.family),
        ("size", &card.size),
        ("weights", &card.weights),
        ("precision", &card.precision),
        ("released", &card.released),
        ("cutoff", &card.cutoff),
        ("licence", &card.licence),
    ];
    let known = parts
        .iter()
        .filter_map(|(n, v)| Some(format!("{n} {}", v.as_ref()?)));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn check(dir: &Path, args: &CheckArgs) -> CliResult {
    let options = Options {
        environment: environment(),
        ..Options::default()
    };
    let probe = App::open_to_plan(dir)?.probe(&args.model, &options)?;
    match args.format {
        Format::Json => {
            let mut value = serde_json::json!({ "schema": "everbench/models-check/1" });
            let document = serde_json::to_value(&probe).unwrap_or_default();
            if let (Some(all), serde_json::Value::Object(fields)) =
                (value.as_object_mut(), document)
            {
                all.extend(fields);
            }
            print(&json(&value))?;
        }
        Format::Text => print(&told(&probe))?,
    }
    Ok(match &probe.trouble {
        None => exit::OK,
        Some(trouble) if trouble.passing => exit::INCOMPLETE,
        Some(_) => exit::INPUT,
    })
}

fn told(probe: &Probe) -> String {
    let mut out = entry(&probe.model);
    let seconds = probe.milliseconds as f64 / 1000.0;
    match (&probe.reply, &probe.trouble) {
        (Some(reply), _) => {
            let served = reply
                .served_model
                .as_deref()
                .unwrap_or("a server that does not say who it is");
            out.push_str(&format!("\nanswered in {seconds:.1} s by {served}"));
            if let Some(provider) = &reply.provider {
                out.push_str(&format!(" at {provider}"));
            }
            out.push_str(match reply.stop {
                Stop::Complete => ", complete",
                Stop::Length => ", cut at the limit of tokens",
                Stop::Refusal => ", a refusal",
                Stop::Context => ": the question does not fit into its context",
            });
            if let Some(usage) = reply.usage {
                out.push_str(&format!(
                    "; {} tokens in, {} out",
                    usage.input_tokens, usage.output_tokens
                ));
            }
            if let Some(cost) = probe.micro_usd {
                out.push_str(&format!(", {}", dollars(cost)));
            }
            let text: String = reply
                .text
                .chars()
                .filter(|c| !c.is_control() || *c == '\n')
                .take(200)
                .collect();
            out.push_str(&format!("\n  {}\n", text.trim().replace('\n', "\n  ")));
        }
        (None, Some(trouble)) => {
            out.push_str(&format!(
                "\nNO ANSWER after {seconds:.1} s ({}): {}\n",
                trouble.kind, trouble.said
            ));
        }
        (None, None) => {}
    }
    if !probe.lacks.is_empty() {
        out.push_str("\nlacking:\n");
        for what in &probe.lacks {
            out.push_str(&format!("- {what}\n"));
        }
    }
    out
}

fn record(dir: &Path, args: &RecordArgs) -> CliResult {
    let app = App::open_to_score(dir)?;
    let (lines, replies) = app.record(&args.model)?;
    print(&lines)?;
    if replies == 0 {
        eprintln!(
            "model `{}` has answered nothing yet under its present revision and settings",
            args.model
        );
    }
    Ok(exit::OK)
}

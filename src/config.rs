//! The project file `everbench.toml`: which subject, which models, and what is usual for a run.
//! Pure: text in, values out.

mod keep;
mod model;
mod provider;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ask;
use crate::ask::prices::{PriceRow, Prices};
use crate::oss::inputs::Scoring;
use crate::oss::metrics;
use crate::subject::Extractor;

pub use keep::{KeepConfig, Size, StoreConfig};
pub use model::{HeaderValue, KeySource, ModelConfig, RemoteModel};
pub use provider::{Provider, providers};

/// The file's name.
pub const FILE: &str = "everbench.toml";

/// A project.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// What is tested: `[subject]`, or several `[[subject]]`.
    #[serde(rename = "subject", deserialize_with = "one_or_many")]
    pub subjects: Vec<SubjectRef>,
    /// What is usual for a run.
    #[serde(default)]
    pub run: RunConfig,
    /// How rows are scored.
    #[serde(default)]
    pub score: ScoreConfig,
    /// What is kept.
    #[serde(default)]
    pub store: StoreConfig,
    /// Who answers.
    #[serde(default, rename = "model")]
    pub models: Vec<ModelConfig>,
    /// What tokens cost, beside and instead of what the program knows.
    #[serde(default, rename = "price")]
    pub price_rows: Vec<PriceRow>,
    /// A file of further such rows, relative to the project file.
    pub prices: Option<PathBuf>,
}

/// Which subject (a preset or a manifest), and what is usual for it in place of `[run]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubjectRef {
    /// The name of a manifest that comes with the program.
    pub preset: Option<String>,
    /// The path of a manifest, relative to the project file.
    pub manifest: Option<PathBuf>,
    /// See [`RunConfig::limit`].
    pub limit: Option<u32>,
    /// See [`RunConfig::iterations`].
    pub iterations: Option<u32>,
    /// See [`ScoreConfig::penalty`].
    pub penalty: Option<f64>,
    /// Which of the subject's profiles of tests; its own default when absent.
    pub profile: Option<String>,
    /// Who finds the functions, in place of what the manifest says.
    pub extractor: Option<Extractor>,
}

/// A table, or an array of them.
fn one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<SubjectRef>, D::Error> {
    struct Either;
    impl<'de> serde::de::Visitor<'de> for Either {
        type Value = Vec<SubjectRef>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a table `[subject]`, or several `[[subject]]`")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let one = SubjectRef::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
            Ok(vec![one])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(seq))
        }
    }
    d.deserialize_any(Either)
}

/// What is usual for a run; every value can be given on the command line instead.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunConfig {
    /// Functions in the sample; the whole population when absent.
    pub limit: Option<u32>,
    /// Iterations per model; the subject's own number when absent.
    pub iterations: Option<u32>,
    /// Seed of every draw.
    pub seed: u64,
    /// What models are asked to do: `improve`, `repair` or `synthesise`.
    pub task: String,
    /// The C compiler.
    pub compiler: String,
    /// A prompt template in place of the built-in one, relative to the project file.
    pub template: Option<PathBuf>,
    /// Folder whose files replace built-in queries: `c/functions.scm`, `cpp/edits.scm`, ...; files
    /// of no folder are those of C.
    pub queries: Option<PathBuf>,
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            limit: None,
            iterations: None,
            seed: 0,
            task: "improve".into(),
            compiler: "gcc".into(),
            template: None,
            queries: None,
        }
    }
}

/// How rows are scored.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScoreConfig {
    /// Which scorings are computed.
    pub scorings: Vec<Scoring>,
    /// Points per unique alert, in place of the subject's.
    pub penalty: Option<f64>,
    /// Weights of compilability, tests and memory safety.
    pub weights: Option<[f64; 3]>,
    /// Points per changed line.
    pub dissimilarity_weight: Option<f64>,
    /// Models that change fewer lines per function are not ranked.
    pub minimum_changed_lines: f64,
    /// Replicates of the bootstrap.
    pub replicates: u32,
    /// Metrics that are measured beside the three of the benchmark, by name.
    pub metrics: Vec<String>,
}

impl Default for ScoreConfig {
    fn default() -> Self {
        ScoreConfig {
            scorings: vec![Scoring::Paired, Scoring::Paper],
            penalty: None,
            weights: None,
            dissimilarity_weight: None,
            minimum_changed_lines: 0.5,
            replicates: crate::stats::bootstrap::MIN_REPLICATES,
            metrics: Vec::new(),
        }
    }
}

/// A project file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or has keys or types that are not known.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the reader says, with the place.
        message: String,
    },
    /// It says something impossible.
    #[error("{}: {message}", path.display())]
    Impossible {
        /// The file.
        path: PathBuf,
        /// What.
        message: String,
    },
}

impl Config {
    /// Reads the text of a project file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|e| ConfigError::Syntax {
            path: path.to_path_buf(),
            message: with_suggestion(e.to_string().trim_end()),
        })?;
        config.check().map_err(|message| ConfigError::Impossible {
            path: path.to_path_buf(),
            message,
        })?;
        Ok(config)
    }

    /// What tokens cost: as the program knows, as the text of the file [`Config::prices`] has it, and
    /// as the project file itself does, each before the one before.
    pub fn price_table(&self, file: Option<&str>) -> Result<Prices, String> {
        let mut prices = Prices::builtin().clone();
        if let Some(text) = file {
            prices.add_text(text)?;
        }
        prices.add(&self.price_rows)?;
        Ok(prices)
    }

    fn check(&self) -> Result<(), String> {
        self.price_table(None)?;
        if self.subjects.is_empty() {
            return Err("there is no subject: add a `[[subject]]`".into());
        }
        for subject in &self.subjects {
            match (&subject.preset, &subject.manifest) {
                (Some(_), Some(_)) => {
                    return Err("[subject] has both `preset` and `manifest`: give one".into());
                }
                (None, None) => {
                    return Err("[subject] needs `preset = \"...\"` or `manifest = \"...\"`".into());
                }
                _ => {}
            }
            if subject.iterations == Some(0) || subject.limit == Some(0) {
                return Err("[subject] `iterations` and `limit` must be at least 1".into());
            }
            if subject.penalty.is_some_and(|p| !p.is_finite() || p < 0.0) {
                return Err("[subject] `penalty` must be a number of points, 0 or more".into());
            }
        }
        let mut names = std::collections::BTreeSet::new();
        for model in &self.models {
            let name = &model.name;
            let cutoff = model.card.as_ref().and_then(|card| card.cutoff.as_deref());
            if let Some(cutoff) = cutoff
                && crate::date::last_day(cutoff).is_none()
            {
                return Err(format!(
                    "model `{name}`: `cutoff` is `{cutoff}`: give YYYY-MM-DD or YYYY-MM"
                ));
            }
            if name.is_empty() || name.contains(char::is_control) {
                return Err(format!(
                    "`{}` cannot be a model's name",
                    name.escape_debug()
                ));
            }
            if !names.insert(name) {
                return Err(format!("two models are called `{name}`"));
            }
            if let Some(day) = &model.retired
                && crate::date::last_day(day).as_ref() != Some(day)
            {
                return Err(format!(
                    "model `{name}`: `retired` is `{day}`: give the day, YYYY-MM-DD"
                ));
            }
            let remote = model.remote()?;
            match (&model.calibration, &model.replay, remote) {
                (Some(shares), None, None) => {
                    let sum: f64 = shares.values().sum();
                    let bad = shares.values().any(|s| !(0.0..=1.0).contains(s));
                    if bad || (sum - 1.0).abs() > 1e-9 {
                        return Err(format!(
                            "the shares of model `{name}` are {sum} together: give shares from 0 to 1 that sum to 1"
                        ));
                    }
                }
                (None, Some(_), None) | (None, None, Some(_)) => {}
                _ => {
                    return Err(format!(
                        "model `{name}` needs exactly one of `provider`, `replay` and `calibration`"
                    ));
                }
            }
        }
        if self.run.iterations == Some(0) || self.run.limit == Some(0) {
            return Err("[run] `iterations` and `limit` must be at least 1".into());
        }
        task(&self.run.task)?;
        for name in &self.score.metrics {
            if metrics::named(name).is_none() {
                let known: Vec<&str> = metrics::ALL.iter().map(|m| m.name).collect();
                return Err(format!(
                    "[score] `metrics` names `{name}`; there are: {}",
                    known.join(", ")
                ));
            }
        }
        if self.score.scorings.is_empty() {
            return Err("[score] `scorings` is empty: name `paired`, `paper` or both".into());
        }
        if self
            .score
            .penalty
            .is_some_and(|p| !p.is_finite() || p < 0.0)
        {
            return Err("[score] `penalty` must be a number of points, 0 or more".into());
        }
        let weights = self
            .score
            .weights
            .iter()
            .flatten()
            .chain(&self.score.dissimilarity_weight);
        if weights.into_iter().any(|w| !w.is_finite() || *w < 0.0) {
            return Err("[score] weights must be numbers, 0 or more".into());
        }
        Ok(())
    }
}

/// The task called `name`.
pub fn task(name: &str) -> Result<&'static ask::Task, String> {
    ask::task(name).ok_or_else(|| {
        let known: Vec<&str> = ask::tasks().iter().map(|t| t.name).collect();
        format!("there is no task `{name}`; there are: {}", known.join(", "))
    })
}

/// The reader's message on an unknown key lists those that it knows: names the nearest.
fn with_suggestion(message: &str) -> String {
    let names: Vec<&str> = message
        .rsplit_once("unknown field ")
        .map(|(_, list)| list.split('`').skip(1).step_by(2).collect())
        .unwrap_or_default();
    match names.split_first() {
        Some((wrong, known)) => match nearest(wrong, known) {
            Some(name) => format!("{message}\n  help: did you mean `{name}`?"),
            None => message.to_string(),
        },
        None => message.to_string(),
    }
}

/// That of the known names which was probably meant.
fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |name: &&&str| strsim::damerau_levenshtein(wrong, name);
    let name = known.iter().min_by_key(distance)?;
    (distance(&name) <= 1 + wrong.len() / 4).then_some(*name)
}

/// What `everbench init` writes: the embedded default, which needs no network and no key.
pub fn default_text(subject: &str) -> String {
    DEFAULT.replace("SUBJECT", subject)
}

const DEFAULT: &str = r#"# What everbench tests here, and who answers. `everbench run` reads this file.

[subject]
SUBJECT

[run]
# limit = 60          # functions in the sample; without it, all of them
iterations = 20       # sets of functions replaced, built and tested, per model
seed = 0
compiler = "gcc"

[score]
scorings = ["paired", "paper"]
# penalty = 0.69      # points per unique alert; without it, the subject's

# Calibration models are edits with known effects, drawn for each function with these shares.
# They are the benchmark's own yardstick, not language models: they show what a score means.
[[model]]
name = "unchanged"
calibration = { unchanged = 1.0 }

[[model]]
name = "preserving"
calibration = { preserving = 1.0 }

[[model]]
name = "careful"
calibration = { preserving = 0.9, breaks_compile = 0.04, breaks_behaviour = 0.03, plants_memory_error = 0.03 }

[[model]]
name = "careless"
calibration = { preserving = 0.5, breaks_compile = 0.25, breaks_behaviour = 0.15, plants_memory_error = 0.1 }

# A language model; its key is in the environment. See docs/models.md.
# [[model]]
# name = "my-model"
# provider = "openai"
# id = "gpt-4.1-mini"

# Recorded replies of a language model; see `everbench prompts --help`.
# [[model]]
# name = "my-recording"
# replay = "my-model.jsonl"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("everbench.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_default_file_is_valid() {
        let config = parse(&default_text("preset = \"oniguruma\"")).unwrap();
        assert_eq!(config.models.len(), 4);
        assert_eq!(config.subjects[0].preset.as_deref(), Some("oniguruma"));
    }

    #[test]
    fn several_subjects_are_an_array() {
        let text = "[[subject]]\npreset = \"a\"\nlimit = 5\n[[subject]]\nmanifest = \"b.toml\"\n";
        let subjects = parse(text).unwrap().subjects;
        assert_eq!(
            (subjects.len(), subjects[0].limit, subjects[1].limit),
            (2, Some(5), None)
        );
        insta::assert_snapshot!(parse("[[subject]]\npreset = \"a\"\nlimits = 5\n").unwrap_err());
        insta::assert_snapshot!(parse("subject = 3\n").unwrap_err());
        insta::assert_snapshot!(parse("subject = []\n").unwrap_err());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let head = "[subject]\npreset = \"x\"\n";
        insta::assert_snapshot!(parse(&format!("{head}[run]\niteration = 3\n")).unwrap_err());
        insta::assert_snapshot!(parse("[subject]\n").unwrap_err());
        let model =
            |rest: &str| parse(&format!("{head}[[model]]\nname = \"m\"\n{rest}")).unwrap_err();
        insta::assert_snapshot!(model(""));
        insta::assert_snapshot!(model("calibration = { unchanged = 0.5 }"));
        insta::assert_snapshot!(model(
            "calibration = { unchanged = 1.0 }\n[[model]]\nname = \"m\"\nreplay = \"x\""
        ));
        insta::assert_snapshot!(parse(&format!("{head}[score]\npenalty = -1.0\n")).unwrap_err());
    }
}

//! Presets of providers, a table of data (`providers.toml`). Pure.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::ask::wire::{Api, EffortField, MaxTokensField, SeedField, Setting, Shape};

/// How a provider is reached, and what it lacks.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Provider {
    /// The name in project files, and the first part of a model's revision.
    pub name: String,
    /// What it speaks.
    pub api: Api,
    /// Where.
    pub base_url: String,
    /// The variable of the environment that usually holds the key; absent where no key is needed.
    pub key_env: Option<String>,
    /// Whether it takes batches.
    #[serde(default)]
    pub batch: bool,
    /// Whether it passes requests on to others, of which one can be named.
    #[serde(default)]
    pub router: bool,
    #[serde(default)]
    max_tokens_field: Option<MaxTokensField>,
    #[serde(default)]
    seed_field: SeedField,
    #[serde(default)]
    effort_field: EffortField,
    #[serde(default)]
    without: BTreeSet<Setting>,
    #[serde(default, rename = "model")]
    models: Vec<Quirk>,
}

/// What is different with some models of a provider.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Quirk {
    models: Vec<String>,
    max_tokens_field: Option<MaxTokensField>,
    #[serde(default)]
    without: BTreeSet<Setting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    provider: Vec<Provider>,
}

/// All presets, in the table's order.
pub fn providers() -> &'static [Provider] {
    static TABLE: OnceLock<Vec<Provider>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let table: Table =
            toml::from_str(include_str!("providers.toml")).expect("the table is tested");
        table.provider
    })
}

/// The preset of that name, or what to say.
pub(super) fn provider(name: &str) -> Result<&'static Provider, String> {
    if let Some(found) = providers().iter().find(|p| p.name == name) {
        return Ok(found);
    }
    let names: Vec<&str> = providers().iter().map(|p| p.name.as_str()).collect();
    let nearest = super::nearest(name, &names);
    let meant = nearest.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
    Err(format!(
        "there is no provider `{name}`{meant}\n  help: there are {}; for any other server give `api` and `base-url`",
        names.join(", ")
    ))
}

impl Provider {
    /// How the model `id` is talked to over `api`.
    pub(super) fn shape(&self, api: Api, id: &str) -> Shape {
        let quirk = self
            .models
            .iter()
            .find(|q| q.models.iter().any(|p| matches(p, id)));
        let mut shape = Shape::new(api, id);
        shape.seed = self.seed_field;
        shape.effort = self.effort_field;
        let field = quirk
            .and_then(|q| q.max_tokens_field)
            .or(self.max_tokens_field);
        shape.max_tokens = field.unwrap_or_default();
        shape.without.clone_from(&self.without);
        shape.without.extend(quirk.iter().flat_map(|q| &q.without));
        if !self.router {
            shape.without.insert(Setting::Route);
        }
        if !self.batch {
            shape.without.insert(Setting::Batch);
        }
        shape
    }
}

/// Whether `pattern`, in which `*` stands for anything, is all of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("gpt-5*", "gpt-5-mini", true),
            ("gpt-5*", "my-gpt-5", false),
            ("claude-*-4", "claude-opus-4", true),
            ("claude-*-4", "claude-opus-4-7", false),
            ("claude-*-4-5*", "claude-haiku-4-5-20251001", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn every_preset_can_be_used() {
        let mut names = BTreeSet::new();
        for provider in providers() {
            assert!(names.insert(&provider.name), "{}", provider.name);
            assert!(
                provider.base_url.starts_with("https://")
                    || provider.base_url.starts_with("http://127.0.0.1:"),
                "{}",
                provider.base_url
            );
            let local = provider.base_url.starts_with("http://127");
            assert_eq!(provider.key_env.is_none(), local, "{}", provider.name);
        }
    }

    #[test]
    fn models_have_their_quirks() {
        let shape = |name: &str, id| {
            let provider = provider(name).unwrap();
            provider.shape(provider.api, id)
        };
        let reasoning = shape("openai", "gpt-5-mini");
        assert_eq!(reasoning.max_tokens, MaxTokensField::MaxCompletionTokens);
        assert!(reasoning.lacks(Setting::Temperature));
        assert!(!shape("openai", "gpt-4.1").lacks(Setting::Temperature));
        assert!(!shape("anthropic", "claude-haiku-4-5").lacks(Setting::ThinkingBudget));
        assert!(shape("anthropic", "claude-opus-5").lacks(Setting::Temperature));
        assert!(shape("anthropic", "claude-sonnet-4-8").lacks(Setting::Temperature));
        assert!(!shape("openrouter", "a/b").lacks(Setting::Route));
        assert!(shape("groq", "a").lacks(Setting::Route));
    }
}

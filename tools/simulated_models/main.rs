//! Simulated models whose training is known. `tools/simulated-models` serves them over HTTP,
//! `tools/bench-contamination` measures with them how well contamination is told.
#![allow(clippy::print_stdout, reason = "a tool that prints what it measures")]

mod answers;
mod experiment;
mod families;
mod memory;
mod serve;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use answers::Mind;
use everbench::lang::SnippetLanguage;
use memory::{Memory, Training};

const USAGE: &str = "usage: simulated-models serve LANGUAGE FOLDER [SHARE [SEED]]
       simulated-models experiment FOLDER [--development] [--quick] [--language NAME] [--set TOML]";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", language, folder, rest @ ..] => {
            let number = |at: usize, usual: f64| match rest.get(at) {
                None => usual,
                Some(text) => text
                    .parse()
                    .unwrap_or_else(|_| panic!("{text:?} is no number\n{USAGE}")),
            };
            let language = SnippetLanguage::named(language)
                .unwrap_or_else(|| panic!("{language:?} is no language\n{USAGE}"));
            serve_models(
                language,
                Path::new(folder),
                number(0, 0.02),
                number(1, 1.0) as u64,
            );
        }
        ["experiment", folder, rest @ ..] => {
            let options = options(rest);
            println!("{}", experiment::run(Path::new(folder), &options));
        }
        _ => panic!("{USAGE}"),
    }
}

/// What is measured, by the words of the command line.
fn options(words: &[&str]) -> experiment::Options {
    let mut options = experiment::Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{USAGE}"));
        match *word {
            "--development" => options.development = true,
            "--quick" => options.quick = true,
            "--language" => options.language = Some(value().to_string()),
            "--set" => {
                options.settings = toml::from_str(value()).unwrap_or_else(|e| panic!("{e}"));
            }
            _ => panic!("{USAGE}"),
        }
    }
    options
}

/// Serves a model that was trained on the packages in `folder`, and those that could pass for it;
/// ends when its input does.
fn serve_models(language: SnippetLanguage, folder: &Path, share: f64, seed: u64) {
    let families = families::read(folder, language);
    let texts: Vec<(&str, Vec<String>)> = families
        .iter()
        .map(|f| {
            (
                f.name.as_str(),
                f.files.iter().map(families::text).collect(),
            )
        })
        .collect();
    let training = Training::of(
        texts
            .iter()
            .map(|(name, texts)| (*name, texts.iter().map(String::as_str).collect())),
        seed,
    );
    let memory = Memory::new(Arc::new(training), share);
    let remembered = memory.remembered();
    let minds = [
        ("memory", Mind::Remembers(memory)),
        ("copies", Mind::Copies),
        ("echoes", Mind::Echoes),
        ("refuses", Mind::Refuses),
        ("talks", Mind::Talks),
        ("silent", Mind::Silent),
    ];
    let minds = minds.map(|(name, mind)| (name.to_string(), Arc::new(mind)));
    let address = serve::serve(minds.into_iter().collect()).expect("a port is free");
    println!("{address}");
    println!(
        "trained on {} families, remembers {remembered} tokens",
        families.len()
    );
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).ok();
}

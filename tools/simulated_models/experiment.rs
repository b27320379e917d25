//! The acceptance experiment: real packages, of which a simulated model was trained on some, are told
//! apart by signature snippets and, for comparison, by random ones; adversaries, permuted labels
//! and a model that was trained on none of them show what it must not see. The program is the
//! library's: the same snippets, questions, readings of answers and tests as `everbench
//! contamination repo`. Only the way to the model is shorter; a sample goes over HTTP, too, and
//! must be answered the same.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use everbench::ask::wire::{Api, Headers, Shape, decode, encode};
use everbench::ask::{Reply, Sampling, Stop};
use everbench::contamination::probe::{Draws, Manner, Outcome, read, request};
use everbench::contamination::verdict::{Luck, Presence, Probed, Rules, Test, test, verdicts};
use everbench::contamination::{Corpus, select};
use everbench::contamination::{Family, File, Selected, Settings, Snippet};
use everbench::contamination::{mine, random};
use everbench::lang::SnippetLanguage;
use everbench::stats::interval::clopper_pearson;
use everbench::stats::roc::{auc, auc_interval, permuted_auc};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::answers::{Mind, Question};
use crate::families::{self, Roles, Sizes};
use crate::memory::{Memory, Training};
use crate::serve;

/// Shares of blocks that models remember.
const SHARES: [f64; 5] = [0.005, 0.01, 0.02, 0.05, 0.2];
/// Of the draws of blocks. Gates of AUC look at their mean, all else at the first.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Of the draw of roles.
const DEAL: u64 = 20_261_201;
const SIZES: Sizes = Sizes {
    controls: 24,
    development: 40,
    acceptance: 40,
    corpus: 60,
};
/// A family that is asked about has at least so many files and tokens that mining reads; with fewer there
/// are hardly ever 20 snippets, and the verdict is open whatever a model knows.
const LEAST: (usize, usize) = (12, 20_000);
/// Packages that others carry copies of.
const CARRIED: [(&str, &[&str]); 2] = [
    (
        "rust",
        &[
            "bitflags",
            "hashbrown",
            "memchr",
            "smallvec",
            "once-cell",
            "itoa",
            "indexmap",
            "libm",
        ],
    ),
    (
        "python",
        &[
            "six",
            "packaging",
            "idna",
            "urllib3",
            "chardet",
            "platformdirs",
            "distro",
            "pyparsing",
            "toml",
            "attrs",
        ],
    ),
];

/// What is measured.
#[derive(Default)]
pub struct Options {
    /// The families on which thresholds may be chosen, and not those for acceptance.
    pub development: bool,
    /// Two shares, without adversaries and intervals: for choosing thresholds.
    pub quick: bool,
    /// One language only.
    pub language: Option<String>,
    /// Of mining and selection.
    pub settings: Settings,
}

/// What is measured of one language.
struct Bench<'o> {
    options: &'o Options,
    name: &'static str,
    language: SnippetLanguage,
    corpus: Corpus,
    roles: Arc<Roles>,
    /// What was selected of each repository and mode.
    known: Mutex<HashMap<(String, Mode), Arc<Selected>>>,
    gates: Vec<Value>,
    rows: Vec<Value>,
}

/// Which snippets are asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Signature,
    Random,
}

/// Runs it.
pub fn run(folder: &Path, options: &Options) -> Value {
    let begun = Instant::now();
    let mut untrained = Vec::new();
    let (mut gates, mut rows) = (Vec::new(), Vec::new());
    for name in ["rust", "python"] {
        if options.language.as_deref().is_some_and(|l| l != name) {
            continue;
        }
        let language = SnippetLanguage::named(name).expect("a language");
        let mut bench = Bench::read(folder, name, language, options);
        untrained.extend(bench.measure());
        gates.append(&mut bench.gates);
        rows.append(&mut bench.rows);
    }
    if !options.quick {
        let low = untrained.iter().filter(|p| **p <= 0.05).count();
        let n = untrained.len();
        let most = 0.05 + 3.0 * (0.05 * 0.95 / n as f64).sqrt();
        let share = low as f64 / n as f64;
        println!("untrained model: {low} of {n} tests have p <= 0.05");
        gates.push(gate(
            "untrained: share of p <= 0.05",
            share,
            most,
            share <= most,
        ));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{seconds:.0} s");
    json!({ "bench": "contamination", "development": options.development, "quick": options.quick, "rows": rows, "measures": gates })
}

fn gate(name: &str, ours: f64, goal: f64, met: bool) -> Value {
    let word = if met { "met" } else { "MISSED" };
    println!("gate {name}: {ours:.3} against {goal:.3}: {word}");
    json!({ "name": name, "ours": (ours * 1e4).round() / 1e4, "reference": goal, "unit": "share", "goal": goal, "met": met })
}

impl<'o> Bench<'o> {
    fn read(
        folder: &Path,
        name: &'static str,
        language: SnippetLanguage,
        options: &'o Options,
    ) -> Bench<'o> {
        let begun = Instant::now();
        let families = families::read(&folder.join(name), language);
        let fresh = match options.development {
            true => Vec::new(),
            false => families::read(&folder.join(format!("{name}-acceptance")), language),
        };
        let found = families.len() + fresh.len();
        let carried = CARRIED
            .iter()
            .find(|(n, _)| *n == name)
            .map_or(&[][..], |(_, c)| *c);
        let sizes: HashMap<String, (usize, usize)> = families
            .par_iter()
            .chain(&fresh)
            .map(|f| (f.name.clone(), families::read_by_mining(&f.files, language)))
            .collect();
        let large = |f: &Family| sizes[&f.name].0 >= LEAST.0 && sizes[&f.name].1 >= LEAST.1;
        let enough = families.iter().chain(&fresh).filter(|f| large(f)).count();
        println!("{name}: {enough} of {found} families are large enough to be asked about");
        let roles = families::deal(families, fresh, carried, &SIZES, DEAL, large);
        let corpus = Corpus::build(language, &roles.corpus, &options.settings);
        println!(
            "{name}: {found} families; corpus {} ({} tokens), controls {}, development {} + {}, acceptance {} + {}, popular {}; {:.0} s",
            corpus.len(),
            corpus.tokens(),
            roles.controls.len(),
            roles.development.0.len(),
            roles.development.1.len(),
            roles.acceptance.0.len(),
            roles.acceptance.1.len(),
            roles.popular.len(),
            begun.elapsed().as_secs_f64()
        );
        Bench {
            options,
            name,
            language,
            corpus,
            roles: Arc::new(roles),
            known: Mutex::default(),
            gates: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// The snippets of a repository.
    fn selected(&self, files: &[File], mode: Mode) -> Selected {
        let settings = &self.options.settings;
        match mode {
            Mode::Signature => select(
                &mine(self.language, files, settings),
                &self.corpus,
                settings,
            ),
            // All weigh the same: neither rareness nor surprise is known of them.
            Mode::Random => {
                let found = random(self.language, files, settings).into_iter();
                let snippets = found.map(|candidate| Snippet {
                    df: 0,
                    bits: 1.0,
                    ..self.corpus.rate(&candidate)
                });
                Selected {
                    snippets: snippets.collect(),
                    ..Selected::default()
                }
            }
        }
    }

    /// The same of families, each mined once.
    fn selected_of(&self, families: &[Family], mode: Mode) -> Vec<Arc<Selected>> {
        families
            .par_iter()
            .map(|family| {
                let key = (family.name.clone(), mode);
                if let Some(known) = self.known.lock().expect("no panic").get(&key) {
                    return known.clone();
                }
                let selected = Arc::new(self.selected(&family.files, mode));
                let mut known = self.known.lock().expect("no panic");
                known.insert(key, selected.clone());
                selected
            })
            .collect()
    }

    fn snippets_of(&self, families: &[Family], mode: Mode) -> Vec<Vec<Snippet>> {
        let all = self.selected_of(families, mode);
        all.iter().map(|s| s.snippets.clone()).collect()
    }

    /// What was found in each repository, and how much of it was left out and why.
    fn tell(&self, tested: &[Family]) {
        let mut excluded: BTreeMap<&str, usize> = BTreeMap::new();
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        let mut counts = Vec::new();
        for (family, selected) in tested.iter().zip(self.selected_of(tested, Mode::Signature)) {
            let snippets = &selected.snippets;
            counts.push(snippets.len());
            for snippet in snippets {
                *kinds.entry(format!("{:?}", snippet.pattern)).or_default() += 1;
            }
            for (reason, n) in &selected.excluded {
                *excluded.entry(reason.name()).or_default() += n;
            }
            if self.options.development {
                let repeats: u32 = snippets.iter().map(|s| s.repeats).sum();
                let own: Vec<String> = selected
                    .excluded
                    .iter()
                    .map(|(reason, n)| format!("{reason} {n}"))
                    .collect();
                println!(
                    "  {}: {} files, {} snippets, {repeats} occurrences; {}",
                    family.name,
                    family.files.len(),
                    snippets.len(),
                    own.join(", ")
                );
            }
        }
        println!("{}: left out: {excluded:?}", self.name);
        println!(
            "{}: {} snippets of {} repositories {kinds:?}, {} with fewer than 20",
            self.name,
            counts.iter().sum::<usize>(),
            counts.len(),
            counts.iter().filter(|n| **n < 20).count(),
        );
    }

    /// Everything; gives the p-values of the model that was trained on none of the tested families.
    fn measure(&mut self) -> Vec<f64> {
        let begun = Instant::now();
        let (members, others) = match self.options.development {
            true => self.roles.development.clone(),
            false => self.roles.acceptance.clone(),
        };
        let labels: Vec<bool> = (0..members.len() + others.len())
            .map(|i| i < members.len())
            .collect();
        let tested: Vec<Family> = members.iter().chain(&others).cloned().collect();
        let of = |mode| {
            (
                self.snippets_of(&tested, mode),
                self.snippets_of(&self.roles.controls, mode),
            )
        };
        let signature = of(Mode::Signature);
        let by_chance = of(Mode::Random);
        self.tell(&tested);
        println!("{}: {:.0} s", self.name, begun.elapsed().as_secs_f64());
        // What all models of a seed were trained on, or could have been: half of the corpus, too.
        let roles = self.roles.clone();
        let all_members = roles.development.0.iter().chain(&roles.acceptance.0);
        let background: Vec<&Family> = roles.corpus.iter().step_by(2).collect();
        let trained: Vec<&Family> = all_members.chain(background.iter().copied()).collect();
        println!(
            "share   snippets   AUC [95 %]            other seeds   TPR [95 %]           FPR [95 %]          hits m/o"
        );
        let mut areas_by_seed: BTreeMap<(&str, u32), Vec<f64>> = BTreeMap::new();
        let mut sample: Option<(Arc<Mind>, Vec<Snippet>)> = None;
        let (seeds, shares) = match self.options.quick {
            true => (&SEEDS[..], &SHARES[1..3]),
            false => (&SEEDS[..], &SHARES[..]),
        };
        for &seed in seeds {
            let training = Arc::new(training(&trained, seed));
            for &share in shares {
                let mind = Arc::new(Mind::Remembers(Memory::new(training.clone(), share)));
                for (mode, snippets) in [("signature", &signature), ("random", &by_chance)] {
                    let result = examine(&mind, &snippets.0, &snippets.1);
                    let area = auc(&result.scores, &labels).expect("scores");
                    let key = (mode, (share * 1000.0) as u32);
                    areas_by_seed.entry(key).or_default().push(area);
                    if seed == SEEDS[0] {
                        self.row(mode, share, &result, &labels, area);
                    }
                }
                if seed == SEEDS[0] && share == 0.02 {
                    sample = Some((
                        mind,
                        signature.0.iter().flatten().step_by(23).cloned().collect(),
                    ));
                }
            }
        }
        for ((mode, share), areas) in &areas_by_seed {
            let (low, high) = areas
                .iter()
                .fold((1.0_f64, 0.0_f64), |(l, h), a| (l.min(*a), h.max(*a)));
            println!(
                "{mode} {:.3}: AUC over {} seeds {low:.3} to {high:.3}",
                f64::from(*share) / 1000.0,
                areas.len()
            );
            self.rows.push(json!({ "language": self.name, "snippets": mode, "share": f64::from(*share) / 1000.0, "auc_by_seed": areas }));
        }
        if self.options.quick {
            return Vec::new();
        }
        let area = |mode, share: u32| {
            let all = &areas_by_seed[&(mode, share)];
            all.iter().sum::<f64>() / all.len() as f64
        };
        let name = self.name;
        let mut gates = vec![
            gate(
                &format!("{name}: mean AUC at 0.01"),
                area("signature", 10),
                0.90,
                area("signature", 10) >= 0.90,
            ),
            gate(
                &format!("{name}: mean AUC at 0.02"),
                area("signature", 20),
                0.95,
                area("signature", 20) >= 0.95,
            ),
        ];
        let gain = area("signature", 10) - area("random", 10);
        gates.push(gate(
            &format!("{name}: mean AUC above random snippets at 0.01"),
            gain,
            0.10,
            gain >= 0.10,
        ));
        self.gates.append(&mut gates);
        if let Some((mind, snippets)) = sample {
            let equal = over_http(&mind, &snippets);
            println!(
                "{name}: {equal} of {} answers over HTTP are those without",
                2 * snippets.len()
            );
            let share = equal as f64 / (2 * snippets.len()) as f64;
            self.gates.push(gate(
                &format!("{name}: answers equal over HTTP"),
                share,
                1.0,
                share == 1.0,
            ));
        }
        self.adversaries(&tested, &signature);
        self.untrained(&background)
    }

    fn row(&mut self, mode: &str, share: f64, result: &Result, labels: &[bool], area: f64) {
        let interval = auc_interval(&result.scores, labels, 0.95, 2000, 1).expect("scores");
        let rate = |group: bool| {
            let all: Vec<bool> = result
                .called
                .iter()
                .zip(labels)
                .filter(|(_, l)| **l == group)
                .map(|(c, _)| *c)
                .collect();
            let k = all.iter().filter(|c| **c).count() as u64;
            let interval = clopper_pearson(k, all.len() as u64, 0.95).expect("counts");
            (k as f64 / all.len() as f64, interval)
        };
        let hits = |group: bool| {
            let tests = result
                .tests
                .iter()
                .zip(labels)
                .filter(|(_, l)| **l == group);
            let (h, n) = tests.fold((0, 0), |(h, n), (t, _)| (h + t.hits, n + t.probes));
            h as f64 / n.max(1) as f64
        };
        let (samples, samples_by_repository) = sample_areas(result, labels);
        let ((tpr, t), (fpr, f)) = (rate(true), rate(false));
        let inconclusive = result.inconclusive;
        println!(
            "{share:<7} {mode:10} {area:.3} [{:.3}, {:.3}]                   {tpr:.3} [{:.3}, {:.3}]  {fpr:.3} [{:.3}, {:.3}]  {:.4}/{:.4} rho {:.4} P0 {:?} inconclusive {inconclusive}; samples {samples:.3}, by repository {samples_by_repository:.3}",
            interval.lo,
            interval.hi,
            t.lo,
            t.hi,
            f.lo,
            f.hi,
            hits(true),
            hits(false),
            result.luck.rho,
            result.luck.counts
        );
        self.rows.push(json!({
            "language": self.name, "snippets": mode, "share": share, "auc": area, "auc_interval": [interval.lo, interval.hi],
            "tpr": tpr, "tpr_interval": [t.lo, t.hi], "fpr": fpr, "fpr_interval": [f.lo, f.hi], "rho": result.luck.rho,
            "inconclusive": inconclusive, "auc_samples": samples, "auc_samples_by_repository": samples_by_repository,
        }));
        if mode == "signature" {
            self.gates.push(gate(
                &format!("{}: FPR at {share}", self.name),
                fpr,
                0.10,
                fpr <= 0.10,
            ));
            let mean = permuted_auc(&result.scores, labels, 200, 1).expect("scores");
            let off = (mean - 0.5).abs();
            self.gates.push(gate(
                &format!(
                    "{}: AUC with permuted labels at {share}, from 0.5",
                    self.name
                ),
                off,
                0.02,
                off <= 0.02,
            ));
        }
    }

    /// Models that know nothing of the tested repositories and could seem to.
    fn adversaries(
        &mut self,
        tested: &[Family],
        signature: &(Vec<Vec<Snippet>>, Vec<Vec<Snippet>>),
    ) {
        let popular: Vec<&Family> = self.roles.popular.iter().collect();
        let everybody: Vec<&Family> = tested
            .iter()
            .chain(&self.roles.controls)
            .chain(&self.roles.corpus)
            .collect();
        let licences: Vec<(String, Vec<String>)> = everybody
            .iter()
            .map(|f| {
                let texts = f.files.iter().filter(|f| families::is_licence(&f.path));
                (f.name.clone(), texts.map(families::text).collect())
            })
            .collect();
        let licences = Training::of(
            licences
                .iter()
                .map(|(name, texts)| (name.as_str(), texts.iter().map(String::as_str).collect())),
            1,
        );
        println!(
            "{}: {} tokens of licences, {} of popular code",
            self.name,
            licences.len(),
            training(&popular, 1).len()
        );
        // A copy of popular code in every repository, half of them where no name of a folder tells.
        let with = |all: &[Family]| -> Vec<Vec<Snippet>> {
            all.par_iter()
                .enumerate()
                .map(|(at, family)| {
                    let mut files = family.files.clone();
                    if let Some(carried) = popular.get(at % popular.len().max(1)) {
                        let folder = if at % 2 == 0 { "vendor" } else { "internal" };
                        files.extend(carried.files.iter().map(|f| File {
                            path: format!("{}/{folder}/{}", family.name, f.path),
                            bytes: f.bytes.clone(),
                        }));
                    }
                    self.selected(&files, Mode::Signature).snippets
                })
                .collect()
        };
        let carrying = (with(tested), with(&self.roles.controls));
        let minds = [
            ("copies from its prompt", Mind::Copies, signature),
            ("echoes", Mind::Echoes, signature),
            (
                "knows popular vendored code",
                Mind::Remembers(Memory::new(Arc::new(training(&popular, 1)), 1.0)),
                &carrying,
            ),
            (
                "knows licence texts",
                Mind::Remembers(Memory::new(Arc::new(licences), 1.0)),
                signature,
            ),
        ];
        for (what, mind, snippets) in minds {
            let mind = Arc::new(mind);
            let result = examine(&mind, &snippets.0, &snippets.1);
            let called = result.called.iter().filter(|c| **c).count();
            let hits: u64 = result.tests.iter().map(|t| t.hits).sum();
            let fpr = called as f64 / result.called.len() as f64;
            println!(
                "{}: {what}: {called} of {} called contaminated, {hits} hits, {} inconclusive",
                self.name,
                result.called.len(),
                result.inconclusive
            );
            self.rows.push(json!({ "language": self.name, "adversary": what, "fpr": fpr, "hits": hits, "inconclusive": result.inconclusive }));
            self.gates.push(gate(
                &format!("{}: FPR of a model that {what}", self.name),
                fpr,
                0.10,
                fpr <= 0.10,
            ));
        }
    }

    /// p-values of all tested families for models that were trained on half of the corpus alone.
    fn untrained(&self, background: &[&Family]) -> Vec<f64> {
        let (d, a) = (&self.roles.development, &self.roles.acceptance);
        let all: Vec<Family> = [&d.0, &d.1, &a.0, &a.1]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let snippets = self.snippets_of(&all, Mode::Signature);
        let controls = self.snippets_of(&self.roles.controls, Mode::Signature);
        let mind = Arc::new(Mind::Remembers(Memory::new(
            Arc::new(training(background, 1)),
            0.2,
        )));
        let result = examine(&mind, &snippets, &controls);
        result.tests.iter().map(|t| t.p).collect()
    }
}

fn training(families: &[&Family], seed: u64) -> Training {
    let texts: Vec<(String, Vec<String>)> = families
        .par_iter()
        .map(|f| (f.name.clone(), f.files.iter().map(families::text).collect()))
        .collect();
    Training::of(
        texts
            .iter()
            .map(|(name, texts)| (name.as_str(), texts.iter().map(String::as_str).collect())),
        seed,
    )
}

/// What a model's answers come to.
struct Result {
    /// For each repository the weights of its answered snippets if they were hit, else 0.
    samples: Vec<Vec<f64>>,
    scores: Vec<f64>,
    called: Vec<bool>,
    tests: Vec<Test>,
    luck: Luck,
    inconclusive: usize,
}

/// The same of samples: each answered snippet is one, and has been seen if its repository has. First by
/// its own hit, whose score is its weight; then by its repository's score, its own hit first among equals.
fn sample_areas(result: &Result, labels: &[bool]) -> (f64, f64) {
    let (mut own, mut repository, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let all = result.samples.iter().zip(&result.scores).zip(labels);
    for ((samples, score), label) in all {
        for weight in samples {
            own.push(*weight);
            repository.push(score + 1e-9 * weight);
            seen.push(*label);
        }
    }
    let area = |scores: &[f64]| auc(scores, &seen).unwrap_or(f64::NAN);
    (area(&own), area(&repository))
}

fn examine(mind: &Arc<Mind>, tested: &[Vec<Snippet>], controls: &[Vec<Snippet>]) -> Result {
    let rules = Rules::default();
    let asked = |all: &[Vec<Snippet>]| -> Vec<Vec<Probed>> {
        all.par_iter()
            .map(|snippets| snippets.iter().map(|s| probed(mind, s)).collect())
            .collect()
    };
    let luck = Luck::of(&asked(controls)).expect("counts");
    let asked = asked(tested);
    let samples = asked.iter().map(|all| {
        let tried = all.iter().filter(|p| p.answer.outcome.tried());
        let weight = |s: &Snippet| s.bits.max(0.0) / (1.0 + f64::from(s.df));
        let hit = |p: &Probed| match p.answer.outcome {
            Outcome::Hit => weight(&p.snippet),
            _ => 0.0,
        };
        tried.map(hit).collect()
    });
    let tests: Vec<Test> = asked
        .iter()
        .map(|p| test(p, &luck, &rules).expect("counts"))
        .collect();
    let verdicts = verdicts(&tests, &rules);
    Result {
        samples: samples.collect(),
        scores: tests.iter().map(|t| -t.p.max(1e-300).ln()).collect(),
        called: verdicts
            .iter()
            .map(|v| v.presence == Presence::Contaminated)
            .collect(),
        inconclusive: verdicts
            .iter()
            .filter(|v| v.presence == Presence::Inconclusive)
            .count(),
        tests,
        luck,
    }
}

/// Asks without HTTP what `everbench contamination repo` would ask over it.
fn probed(mind: &Mind, snippet: &Snippet) -> Probed {
    let request = request(
        &snippet.context,
        Manner::Continues,
        Draws::Greedy,
        0,
        "simulated",
        "",
        &Sampling::default(),
    );
    let answer = mind.answer(&Question {
        text: &request.user,
        chat: false,
        max_tokens: request.sampling.max_tokens as usize,
        temperature: 0.0,
        seed: 0,
    });
    let stop = if answer.cut {
        Stop::Length
    } else {
        Stop::Complete
    };
    let reply = Reply::ended(stop, answer.text);
    Probed {
        answer: read(&reply, snippet),
        snippet: snippet.clone(),
    }
}

/// How many of the snippets' answers over HTTP, as completions and as chats, are read as those
/// without it.
fn over_http(mind: &Arc<Mind>, snippets: &[Snippet]) -> usize {
    let minds = [("simulated".to_string(), mind.clone())]
        .into_iter()
        .collect();
    let address = serve::serve(minds).expect("a port is free");
    let host = address.trim_start_matches("http://");
    let mut equal = 0;
    for snippet in snippets {
        let direct = probed(mind, snippet).answer;
        for (api, manner) in [
            (Api::OpenaiCompletions, Manner::Continues),
            (Api::OpenaiChat, Manner::Chats),
        ] {
            let asked = request(
                &snippet.context,
                manner,
                Draws::Greedy,
                0,
                "simulated",
                "",
                &Sampling::default(),
            );
            let wire = encode(&Shape::new(api, "simulated"), &asked);
            let mut stream = std::net::TcpStream::connect(host).expect("the server listens");
            let head = format!(
                "POST /v1{} HTTP/1.1\r\ncontent-length: {}\r\n\r\n",
                wire.path,
                wire.body.len()
            );
            stream.write_all(head.as_bytes()).expect("it reads");
            stream.write_all(&wire.body).expect("it reads");
            stream
                .shutdown(std::net::Shutdown::Write)
                .expect("it is open");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("it answers");
            let text = String::from_utf8_lossy(&bytes);
            let (_, body) = text.split_once("\r\n\r\n").expect("a head and a body");
            let reply = decode(api, 200, &Headers::default(), body.as_bytes()).expect("a reply");
            let answer = read(&reply, snippet);
            equal += usize::from(answer == direct);
        }
    }
    equal
}

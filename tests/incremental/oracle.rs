//! What an evaluation of a world rests on, worked out by plain comparison of texts: no query, no
//! key, no digest of the product's takes part. Only draws come from the pinned mix, and the edit
//! of a calibration model from its rule.
//!
//! An item is what a job is for (`what`), with everything that its output depends on (`why`). An
//! edit wants the items that the world before it did not have.

use std::collections::{BTreeMap, BTreeSet};

use everbench::ask::Request;
use everbench::digest::Digest;
use everbench::job::{Job, Value};
use everbench::oss::artifact::Replacement;
use everbench::oss::case::calibration_edit;
use everbench::oss::inputs::Answers;
use everbench::stats::mix;

use super::synthetic::fakes::{self, BREAKS};
use super::synthetic::{File, Function, LINKED, LOADED, SHARED, World};

/// Items of a kind: `(what, why)`.
pub type Footprint = BTreeMap<&'static str, BTreeSet<(String, String)>>;

/// Logical items of the jobs that are wanted, by kind; kinds without any are left out.
pub type Wanted = BTreeMap<String, BTreeSet<String>>;

/// An iteration: model, scoring, index.
pub type Place = (String, &'static str, u32);

/// What each iteration replaces: names, texts and what takes their place.
pub type Sets = BTreeMap<Place, BTreeSet<(String, String, String)>>;

/// What `new` rests on and none of `old` did.
pub fn wanted(old: &[&World], new: &World) -> Wanted {
    let old: Vec<Footprint> = old.iter().map(|w| footprint(w)).collect();
    missing(&old, &footprint(new))
}

/// What is in `new` and in none of `old`.
pub fn missing(old: &[Footprint], new: &Footprint) -> Wanted {
    let mut out = Wanted::new();
    for (kind, items) in new {
        let new = |item: &&(String, String)| !old.iter().any(|f| f[*kind].contains(*item));
        let what: BTreeSet<String> = items.iter().filter(new).map(|(w, _)| w.clone()).collect();
        if !what.is_empty() {
            out.insert(kind.to_string(), what);
        }
    }
    out
}

/// The iterations of `new` that are kept from `old` when this share of them is audited: all with the
/// same set that is not empty, but for those that a row's draw has first.
pub fn kept(old: &Sets, new: &World, share: f64) -> BTreeSet<Place> {
    let sets = sets(new);
    let (tree, _) = new.tree();
    let mut by_row: BTreeMap<(&str, &str), Vec<(u64, &Place)>> = BTreeMap::new();
    for (place, set) in &sets {
        let (model, scoring, i) = place;
        if !set.is_empty() && old.get(place) == Some(set) {
            let row = [&tree.digest().0, format!("{model}/{scoring}").as_bytes()].concat();
            let draw = mix::keyed(new.seed, u64::from(*i), &row);
            let of_row = by_row.entry((model, scoring)).or_default();
            of_row.push((draw, place));
        }
    }
    let mut out = BTreeSet::new();
    for mut row in by_row.into_values() {
        row.sort();
        let audited = row.iter().filter(|(d, _)| mix::uniform(*d) < share).count();
        out.extend(row.into_iter().skip(audited.max(1)).map(|(_, p)| p.clone()));
    }
    out
}

/// What became of a function asked of a model.
struct Answered {
    text: String,
    variant: Option<String>,
    compiles: bool,
}

/// Everything that `world` rests on.
pub fn footprint(world: &World) -> Footprint {
    evaluated(world, &BTreeSet::new()).0
}

/// What its iterations replace.
pub fn sets(world: &World) -> Sets {
    evaluated(world, &BTreeSet::new()).1
}

/// Everything that `world` rests on but for the iterations that are `kept`, and what all of them
/// replace.
pub fn evaluated(world: &World, kept: &BTreeSet<Place>) -> (Footprint, Sets) {
    let mut sets = Sets::new();
    let mut out = Footprint::from(
        [
            "ask/calibration",
            "ask/completion",
            "oss/base",
            "oss/footprint",
            "oss/program",
            "oss/reads",
            "oss/run",
            "oss/verdict",
        ]
        .map(|kind| (kind, BTreeSet::new())),
    );
    let mut add = |kind: &str, what: String, why: String| {
        out.get_mut(kind).expect("a known kind").insert((what, why));
    };
    let sources: String = world
        .files
        .iter()
        .map(|f| f.path.clone() + &f.text())
        .collect();
    let others = world.others.iter();
    let others: String = others
        .map(|(path, text)| format!("{path}: {text}\n"))
        .collect();
    let units: String = world.files.iter().map(unit).collect();
    let built = format!("{units} {}", world.toolchain);
    let held = |names: &[&str]| -> String {
        let held = names
            .iter()
            .map(|name| format!("{name}: {}\n", world.system[*name]));
        held.collect()
    };
    let headers = world.headers();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let (headers, links) = (held(&headers), held(&[LINKED, SHARED]));
    let runner = world.runner.as_deref();
    let loads = held(&[[SHARED, LOADED].as_slice(), runner.as_slice()].concat());
    for flavour in ["plain", "sanitized"] {
        let what = format!("{sources} {others} {}", world.toolchain);
        add("oss/footprint", flavour.into(), what.clone());
        let opened = held(&[LINKED, SHARED, LOADED]);
        let why = format!("{what} {headers} {opened}");
        add("oss/base", flavour.into(), why);
    }
    // In the order of the product's population: by path, then by place.
    let mut files: Vec<&File> = world.files.iter().collect();
    files.sort_by_key(|f| &f.path);
    let sample: Vec<(&File, usize, &Function)> = files
        .iter()
        .flat_map(|file| {
            (0..)
                .zip(&file.functions)
                .map(move |(order, f)| (*file, order, f))
        })
        .collect();
    let linked: String = world
        .files
        .iter()
        .map(|f| format!("{} {}", f.path, fakes::definitions(&f.text())))
        .collect();

    // A run may open any file; these do open their own.
    let data = |shard: &str| world.others.get(&format!("data/{shard}.txt")).cloned();
    for shard in &world.shards {
        add("oss/reads", shard.clone(), format!("{runner:?}"));
    }
    let mut run_all = |what: String, why: String, repeats: u32| {
        for shard in &world.shards {
            for repeat in 0..repeats {
                add(
                    "oss/run",
                    format!("{what} {shard} {repeat}"),
                    format!("{why} {:?} {loads} {runner:?}", data(shard)),
                );
            }
        }
    };
    run_all("nothing".into(), built.clone(), 3);
    let mut asked = Vec::new();
    for model in &world.models {
        let mut answers = Vec::new();
        for (file, order, f) in &sample {
            let text = f.text();
            let reply = match &model.answers {
                Answers::Replay { revision, .. } | Answers::Remote { revision, .. } => {
                    let user = user(world, f);
                    asked.push((
                        "ask/completion",
                        format!("{revision}\n{user}"),
                        system(world),
                    ));
                    fakes::answer(revision, &text).ok()
                }
                Answers::Calibration(shares) => {
                    let (edit, item) = calibration_edit(shares, &model.name, world.seed, &f.name);
                    let item = item as i64;
                    let what = format!("{} {} {item}\n{text}", f.name, edit.name());
                    asked.push(("ask/calibration", what, String::new()));
                    Some(fakes::calibrated(edit.name(), item, &text))
                }
            };
            let variant = reply.clone().filter(|code| *code != text);
            if let Some(variant) = &variant {
                let context = format!(
                    "{} {} {order} {linked} {} {links}",
                    declarations(file),
                    file.path,
                    world.toolchain
                );
                asked.push((
                    "oss/verdict",
                    replaced(&file.path, &f.name, &text, variant),
                    context,
                ));
            }
            answers.push(Answered {
                text,
                compiles: reply.is_some_and(|code| !code.contains(BREAKS)),
                variant,
            });
        }
        for i in 0..world.iterations {
            let draw = |f: &Function| mix::keyed(world.seed, u64::from(i), f.name.as_bytes());
            let mut ranking: Vec<usize> = (0..sample.len()).collect();
            ranking.sort_by_key(|at| draw(sample[*at].2));
            let n = world.per_iteration as usize;
            let paired = ranking.iter().copied().take(n).collect::<Vec<_>>();
            let paper = ranking.iter().copied().filter(|at| answers[*at].compiles);
            for (scoring, mut set) in [("paired", paired), ("paper", paper.take(n).collect())] {
                set.retain(|at| answers[*at].compiles && answers[*at].variant.is_some());
                set.sort_unstable();
                let place = (model.name.clone(), scoring, i);
                let members = set.iter().map(|at| {
                    let variant = answers[*at].variant.clone().expect("it was kept");
                    (
                        sample[*at].2.name.clone(),
                        answers[*at].text.clone(),
                        variant,
                    )
                });
                sets.insert(place.clone(), members.collect());
                if kept.contains(&place) {
                    continue;
                }
                let set: Vec<String> = set
                    .into_iter()
                    .map(|at| {
                        let variant = answers[at].variant.as_ref().expect("it was kept");
                        let (file, _, f) = sample[at];
                        replaced(&file.path, &f.name, &answers[at].text, variant)
                    })
                    .collect();
                let what = set.join("\n");
                if set.is_empty() {
                    run_all("nothing".into(), built.clone(), 1);
                } else {
                    asked.push(("oss/program", what.clone(), format!("{built} {links}")));
                    run_all(what.clone(), format!("{what} {built}"), 1);
                }
            }
        }
    }
    for (kind, what, why) in asked {
        add(kind, what, why);
    }
    (out, sets)
}

fn user(world: &World, f: &Function) -> String {
    let user = world
        .template
        .split_once("=== user ===\n")
        .expect("it has one")
        .1;
    user.trim_end_matches('\n')
        .replace("{{name}}", &f.name)
        .replace("{{function}}", &f.text())
}

fn system(world: &World) -> String {
    let system = world
        .template
        .split_once("=== user ===\n")
        .expect("it has one")
        .0;
    system.to_string()
}

/// What is in a file's object.
fn unit(file: &File) -> String {
    fakes::placeless(&fakes::preprocessed(&file.path, &file.text()))
}

/// What a file says besides bodies, comments and white space.
fn declarations(file: &File) -> String {
    let heads = file.functions.iter().map(Function::head);
    let lines: Vec<String> = file.preamble.iter().cloned().chain(heads).collect();
    lines.join("\n")
}

fn replaced(path: &str, name: &str, original: &str, variant: &str) -> String {
    let short = |text: &str| Digest::of(text.as_bytes()).short();
    format!("{path} {name} {} {}", short(original), short(variant))
}

/// The logical items of jobs, by kind.
pub fn items<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Wanted {
    let mut out = Wanted::new();
    for job in jobs {
        let new = out
            .entry(job.kind().name.into())
            .or_default()
            .insert(item(job));
        assert!(new, "two jobs for one item: {job:?} {}", item(job));
    }
    out
}

fn item(job: &Job) -> String {
    let set = |job: &Job| -> String {
        let set: Vec<String> = job.list("set").iter().map(replaced_by).collect();
        set.join("\n")
    };
    match job.kind().name {
        "ask/completion" => {
            let request = Request::of_job(job, |_| None).expect("it carries its texts");
            format!("{}\n{}", request.model, request.user)
        }
        "ask/calibration" => {
            let text = &job.preimages()[0].1;
            let text = String::from_utf8_lossy(text);
            let (name, edit) = (job.text("name"), job.text("edit"));
            format!("{name} {edit} {}\n{text}", job.int("item"))
        }
        "oss/base" | "oss/footprint" => job.text("flavour").into(),
        "oss/verdict" => replaced_by(&job.inputs()["replace"]),
        "oss/program" => set(job),
        "oss/reads" => match job.list("argv").last() {
            Some(Value::Text(shard)) => shard.clone(),
            _ => panic!("a command"),
        },
        "oss/run" => {
            let what = job.try_material("program").map_or("nothing".into(), set);
            let Some(Value::Text(shard)) = job.list("argv").last() else {
                panic!("a command");
            };
            format!("{what} {shard} {}", job.int("repeat"))
        }
        other => panic!("a job of kind {other}"),
    }
}

fn replaced_by(value: &Value) -> String {
    let r = Replacement::from_value(value).expect("a replacement");
    let (original, variant) = (r.original.short(), r.variant.short());
    format!("{} {} {original} {variant}", r.path, r.name)
}

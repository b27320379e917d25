//! Families of packages that were fetched: their files, read from folders, merged by upstream
//! repository, cut to a size, and dealt to roles by a keyed hash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use everbench::contamination::{Family, File, Settings, leaf};
use everbench::lang::SnippetLanguage;
use everbench::stats::mix::keyed;

use crate::memory::pieces;

/// Words and marks of a family that are read.
pub const MOST: usize = 250_000;
/// A family with fewer is left out.
const FEWEST: usize = 8_000;
/// Larger files are tables of data.
const FILE_BYTES: u64 = 400_000;

/// The families of the packages in `folder`, one sub-folder each.
pub fn read(folder: &Path, language: SnippetLanguage) -> Vec<Family> {
    let mut packages: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    packages.sort();
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for package in packages {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        let url = upstream_of(&package);
        let key = url.clone().unwrap_or_else(|| name.to_string());
        let family = families.entry(key).or_insert_with(|| Family {
            name: name.to_string(),
            url,
            files: Vec::new(),
        });
        files_below(&package, &package, &name, language, &mut family.files);
    }
    let mut families: Vec<Family> = families.into_values().collect();
    for family in &mut families {
        let mut left = MOST;
        family.files.retain(|file| {
            let tokens = pieces(&text(file)).count();
            let fits = left > 0;
            left = left.saturating_sub(tokens);
            fits
        });
    }
    families.retain(|family| {
        let tokens = family.files.iter().map(|f| pieces(&text(f)).count());
        tokens.sum::<usize>() >= FEWEST
    });
    families
}

/// A file's text.
pub fn text(file: &File) -> String {
    String::from_utf8_lossy(&file.bytes).into_owned()
}

/// How many files of a family mining reads, and their tokens.
pub fn read_by_mining(files: &[File], language: SnippetLanguage) -> (usize, usize) {
    let settings = Settings::default();
    let read = files.iter().filter(|file| {
        let how = leaf::reading(language, &file.path);
        how.is_ok_and(|how| leaf::readable(how, &file.bytes, &settings).is_ok())
    });
    read.fold((0, 0), |(files, tokens), file| {
        (files + 1, tokens + pieces(&text(file)).count())
    })
}

/// The upstream repository that the package names.
fn upstream_of(package: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let named = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = \""));
    if let Some(url) = named.and_then(|rest| rest.split('"').next()) {
        return Some(plain(url));
    }
    let info = std::fs::read_dir(package).ok()?.flatten();
    let mut info = info.filter(|e| e.file_name().to_string_lossy().ends_with(".dist-info"));
    let metadata = std::fs::read_to_string(info.next()?.path().join("METADATA")).ok()?;
    let head = metadata.split("\n\n").next()?;
    let urls: Vec<&str> = head
        .lines()
        .filter(|l| l.starts_with("Project-URL: ") || l.starts_with("Home-page: "))
        .filter_map(|l| l.split(' ').find(|word| word.starts_with("http")))
        .collect();
    let code = urls.iter().find(|url| url.contains("git"));
    code.map(|url| plain(url))
}

/// Host, owner and name of an address, without what differs between people who mean the same.
fn plain(url: &str) -> String {
    let url = url.split("://").last().unwrap_or(url).to_lowercase();
    let words: Vec<&str> = url.trim_end_matches('/').split('/').take(3).collect();
    words.join("/").trim_end_matches(".git").to_string()
}

fn files_below(
    root: &Path,
    folder: &Path,
    package: &str,
    language: SnippetLanguage,
    files: &mut Vec<File>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let extension = match language.name() {
        "python" => "py",
        "rust" => "rs",
        other => other,
    };
    for entry in entries {
        let path = entry.path();
        let Ok(kind) = entry.metadata() else {
            continue;
        };
        if kind.is_dir() {
            files_below(root, &path, package, language, files);
            continue;
        }
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let wanted = name.ends_with(&format!(".{extension}"))
            || name.ends_with(".md")
            || name.ends_with(".rst")
            || is_licence(&name);
        if !wanted || kind.len() > FILE_BYTES {
            continue;
        }
        if let (Ok(bytes), Ok(inside)) = (std::fs::read(&path), path.strip_prefix(root)) {
            files.push(File {
                path: format!("{package}/{}", inside.to_string_lossy()),
                bytes: Arc::from(bytes),
            });
        }
    }
}

/// Whether a file's name says that it is a licence.
pub fn is_licence(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    ["license", "licence", "copying", "notice"]
        .iter()
        .any(|word| name.starts_with(word))
}

/// Families by what they are for.
pub struct Roles {
    /// The reference corpus.
    pub corpus: Vec<Family>,
    /// Code that others carry along: in the corpus, and never tested.
    pub popular: Vec<Family>,
    /// Repositories that no model was trained on.
    pub controls: Vec<Family>,
    /// Members and others on which thresholds may be chosen.
    pub development: (Vec<Family>, Vec<Family>),
    /// Members and others that are looked at once.
    pub acceptance: (Vec<Family>, Vec<Family>),
}

/// How many families each role gets.
pub struct Sizes {
    /// Controls.
    pub controls: usize,
    /// Members for development beside [`DEVELOPMENT`], and as many others.
    pub development: usize,
    /// Acceptance members, and as many others.
    pub acceptance: usize,
    /// At most so many for the corpus.
    pub corpus: usize,
}

/// Families on which thresholds were chosen first: whatever is added to the lists of packages, they are for
/// development.
const DEVELOPMENT: [&str; 48] = [
    "minijinja",
    "target-lexicon",
    "rustls-webpki",
    "fst",
    "cosmic-text",
    "approx",
    "yansi",
    "ring",
    "io-lifetimes",
    "oneshot",
    "env_logger",
    "jiff",
    "libsqlite3-sys",
    "anstream",
    "getopts",
    "parse-zoneinfo",
    "zune-jpeg",
    "ruzstd",
    "color",
    "robust",
    "litrs",
    "aho-corasick",
    "logos-codegen",
    "p12-keystore",
    "kubernetes",
    "cachetools",
    "websocket_client",
    "virtualenv",
    "elasticsearch",
    "responses",
    "linkify_it_py",
    "graphql_core",
    "rsa",
    "isort",
    "humanfriendly",
    "loguru",
    "croniter",
    "pyasn1_modules",
    "pytest_asyncio",
    "python_pptx",
    "structlog",
    "langsmith",
    "wsproto",
    "cloudpickle",
    "jinja2",
    "wcwidth",
    "smart_open",
    "invoke",
];

/// Deals families: the order is a keyed hash of their names, so that nobody chooses. `large` says whether a
/// family has enough to be asked about; a corpus has others, too. Acceptance has those of `fresh` alone, and
/// of these none that is among the others by name or address.
pub fn deal(
    families: Vec<Family>,
    fresh: Vec<Family>,
    popular: &[&str],
    sizes: &Sizes,
    seed: u64,
    large: impl Fn(&Family) -> bool,
) -> Roles {
    let known: BTreeSet<String> = families.iter().flat_map(names).collect();
    let mut fresh: Vec<Family> = fresh
        .into_iter()
        .filter(|f| large(f) && names(f).all(|name| !known.contains(&name)))
        .collect();
    let order = |f: &Family| (keyed(seed, 0, f.name.as_bytes()), f.name.clone());
    fresh.sort_by_key(order);
    let carried = |f: &Family| {
        let name = hyphened(&f.name);
        popular
            .iter()
            .any(|p| name == *p || name.starts_with(&format!("{p}-")))
    };
    let (popular, mut rest): (Vec<Family>, Vec<Family>) = families.into_iter().partition(carried);
    rest.sort_by_key(order);
    let first = |f: &Family| DEVELOPMENT.contains(&f.name.as_str());
    let (first, rest): (Vec<Family>, Vec<Family>) = rest.into_iter().partition(first);
    let half = |families: &[Family]| -> Vec<Family> {
        let fit = families.iter().filter(|f| large(f));
        fit.cloned().collect()
    };
    // In the order in which they were dealt first, members came last.
    let middle = first.len() / 2;
    let mut development = (half(&first[middle..]), half(&first[..middle]));
    let (mut large, small): (Vec<Family>, Vec<Family>) = rest.into_iter().partition(large);
    let last = |all: &mut Vec<Family>, n: usize| all.split_off(all.len().saturating_sub(n));
    development.0.extend(last(&mut large, sizes.development));
    development.1.extend(last(&mut large, sizes.development));
    let acceptance = (
        last(&mut fresh, sizes.acceptance),
        last(&mut fresh, sizes.acceptance),
    );
    let controls = last(&mut large, sizes.controls);
    let mut corpus = large;
    corpus.extend(small);
    corpus.truncate(sizes.corpus);
    corpus.extend(popular.iter().cloned());
    Roles {
        corpus,
        popular,
        controls,
        development,
        acceptance,
    }
}

/// What a family goes by.
fn names(family: &Family) -> impl Iterator<Item = String> {
    [Some(hyphened(&family.name)), family.url.clone()]
        .into_iter()
        .flatten()
}

/// A package's name in one of its spellings.
fn hyphened(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

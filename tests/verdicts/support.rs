//! A subject in a store of its own, with the real executors, and variants of its functions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use everbench::ask::{COMPLETION, Reply, decode, task};
use everbench::cancel::Cancel;
use everbench::engine::{Db, Driver, EngineDb, Executor, Hold, Registry, fold};
use everbench::exec::fetch::Sources;
use everbench::exec::runner::Workshop;
use everbench::exec::toolchain::Toolchain;
use everbench::exec::trees::Trees;
use everbench::exec::{Limits, Policy, Sandbox};
use everbench::lang::QuerySet;
use everbench::oss::artifact::{self, VerdictDoc};
use everbench::oss::case::{self, Outcome};
use everbench::oss::inputs::{Origin, Settings, Subject};
use everbench::oss::population::{self, Function, FunctionArg};
use everbench::oss::{jobs, population::Population};
use everbench::source;
use everbench::store::{Access, Completed, Provenance, Store, StoreLedger};
use everbench::subject::{Manifest, Source};

/// The fixture's manifest.
pub const TIDELIB: &str = include_str!("../../fixtures/tidelib/everbench.toml");

pub fn tidelib_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tidelib"))
}

/// The manifest of the fixture in C++.
pub const QUAYLIB: &str = include_str!("../../fixtures/quaylib/everbench.toml");

pub fn quaylib_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/quaylib"))
}

pub struct Lab {
    pub db: EngineDb,
    pub settings: Settings,
    pub subject: Subject,
    pub shop: Arc<Workshop>,
    pub store: Arc<Store>,
    /// Where everything lies; gone with the lab.
    pub dir: tempfile::TempDir,
}

impl Lab {
    /// A subject with its source beside its manifest; `limits` is what one replayed command may use.
    pub fn open(manifest: &str, root: &Path, limits: Option<Limits>) -> Lab {
        Lab::with_compiler("gcc", manifest, root, limits)
    }

    /// The same, built by `compiler`.
    pub fn with_compiler(
        compiler: &str,
        manifest: &str,
        root: &Path,
        limits: Option<Limits>,
    ) -> Lab {
        let manifest = Manifest::parse(manifest, "manifest").unwrap_or_else(|e| panic!("{e}"));
        let dir = tempfile::tempdir().expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let Source::Directory(directory) = &manifest.source else {
            panic!("these subjects are directories");
        };
        let tree = source::read_directory(root, &directory.ignore, &source::Limits::default());
        let tree = tree.unwrap_or_else(|e| panic!("{e}"));
        let place = dir.path().join("store");
        fs::create_dir(&place).expect("a folder");
        let store = Store::open(&place, Access::ReadWrite, "test").expect("a store");
        let job = everbench::job::Job::of(artifact::SOURCE).put("from", "test");
        let snapshot = Completed {
            job: job.done(),
            output: tree.snapshot.canonical(),
            blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
            provenance: Provenance::default(),
        };
        store.commit(vec![snapshot]).expect("the source is stored");

        let tools = Toolchain::probe(compiler).unwrap_or_else(|e| panic!("{e}"));
        let identity = tools
            .identity_with(&["make".to_string()])
            .unwrap_or_else(|e| panic!("{e}"));
        let sandbox = Sandbox::probe(Policy::Required).unwrap_or_else(|e| panic!("{e}"));
        let trees = Trees::open(&dir.path().join("trees"), 4 << 30).expect("a cache");
        let recorder = Path::new(env!("CARGO_BIN_EXE_everbench"));
        let toolchain: Arc<[u8]> = identity.canonical().into();
        let mut shop = Workshop::new(sandbox, tools, trees, recorder).expect("a workshop");
        shop.limits = limits.unwrap_or(shop.limits);

        let db = EngineDb::new(Arc::new(store.reader().expect("a reader")));
        let task = task("improve").expect("the task comes with the program");
        let queries = Arc::new(QuerySet::default());
        let template = task.default.into();
        let settings = Settings::new(&db, queries, template, None, 1, 1, task, Arc::default());
        let origin = Origin::Snapshot(tree.snapshot.digest());
        let subject = Subject::new(&db, Arc::new(manifest), origin, toolchain);
        Lab {
            db,
            settings,
            subject,
            shop: Arc::new(shop),
            store: Arc::new(store),
            dir,
        }
    }

    /// Runs everything that `root` lacks, and gives its value. `models` answers prompts.
    pub fn drive<T>(
        &mut self,
        models: Option<Arc<dyn Executor>>,
        root: impl Fn(&EngineDb, Settings, Subject) -> Result<T, Hold>,
    ) -> T {
        let (value, hold, failures) = self.driven(models, root);
        let faults: Vec<_> = hold.faults().iter().map(|f| &f.what).collect();
        value.unwrap_or_else(|| panic!("{faults:?}\n{failures:?}"))
    }

    /// Runs everything that `root` lacks, and gives what is wrong with the subject.
    pub fn fault<T>(
        &mut self,
        root: impl Fn(&EngineDb, Settings, Subject) -> Result<T, Hold>,
    ) -> String {
        let (value, hold, failures) = self.driven(None, root);
        assert!(value.is_none(), "nothing is wrong");
        let fault = hold.faults().first();
        let fault = fault.unwrap_or_else(|| panic!("{failures:?}"));
        format!("{}\n  help: {}", fault.what, fault.help)
    }

    fn driven<T>(
        &mut self,
        models: Option<Arc<dyn Executor>>,
        root: impl Fn(&EngineDb, Settings, Subject) -> Result<T, Hold>,
    ) -> (Option<T>, Hold, Vec<String>) {
        let registry = self.registry(models);
        let reader = self.store.reader().expect("a reader");
        let ledger = StoreLedger::new(self.store.clone(), &reader, "test");
        let driver = Driver {
            registry: &registry,
            ledger: &ledger,
            cores: 3,
            cancel: Cancel::new(),
        };
        let (settings, subject) = (self.settings, self.subject);
        let driven = driver.drive(&mut self.db, &mut (), |db| {
            match root(db, settings, subject) {
                Ok(value) => (Some(value), Hold::default()),
                Err(hold) => (None, hold),
            }
        });
        let driven = driven.unwrap_or_else(|e| panic!("{e}"));
        let failures = driven.failures.iter().map(|f| format!("{f:?}"));
        (driven.value, driven.hold, failures.collect())
    }

    fn registry(&self, models: Option<Arc<dyn Executor>>) -> Registry {
        let mut registry = Registry::default();
        everbench::exec::register(&mut registry, &self.shop, Sources::default());
        if let Some(models) = models {
            registry.add(COMPLETION, 60, models);
        }
        registry
    }
}

/// What is done to a function's text.
#[derive(Clone)]
pub enum Edit {
    /// The first occurrence of one text becomes another.
    Sub(&'static str, &'static str),
    /// Put at the beginning of the body.
    Body(String),
    /// Put in front of everything.
    Before(&'static str),
    /// Put behind everything.
    After(&'static str),
    /// The whole reply.
    Whole(String),
}

pub use Edit::{After, Before, Body, Sub, Whole};

impl Edit {
    pub fn apply(&self, original: &str) -> String {
        match self {
            Sub(from, to) => {
                assert!(original.contains(from), "`{from}` is not in\n{original}");
                original.replacen(from, to, 1)
            }
            Body(text) => {
                let (head, body) = original.split_once('{').expect("a body");
                format!("{head}{{\n{text}\n{body}")
            }
            Before(text) => format!("{text}\n{original}"),
            After(text) => format!("{original}{text}"),
            Whole(text) => text.clone(),
        }
    }
}

pub fn body(text: &str) -> Edit {
    Body(text.to_string())
}

/// A variant with what must become of it.
pub struct Try {
    /// What it shows.
    pub what: &'static str,
    /// `path:name` of the function.
    pub function: &'static str,
    pub edit: Edit,
    pub expect: Expect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// It builds, both ways.
    Builds,
    /// It does not, both ways.
    Fails,
    /// It is no variant of the function: this is said before anything is compiled.
    Refused,
}

pub use Expect::{Builds, Fails, Refused};

/// What became of a variant.
#[derive(Debug)]
pub enum Judged {
    Refused(Outcome, String),
    Compiled {
        verdict: VerdictDoc,
        audit: Option<VerdictDoc>,
    },
}

pub fn find(population: &Population, function: &str) -> Arc<Function> {
    let (path, name) = function.split_once(':').expect("`path:name`");
    let mut all = population.functions.iter();
    all.find(|f| f.path == path && f.name == name)
        .unwrap_or_else(|| panic!("{function} is not in the population"))
        .clone()
}

/// The function's text as a model sees it.
pub fn shown(text: &[u8]) -> String {
    decode(text).replace("\r\n", "\n")
}

pub fn fenced(code: &str) -> String {
    fenced_as("c", code)
}

fn fenced_as(label: &str, code: &str) -> String {
    format!("```{label}\n{code}\n```\n")
}

/// Judges a variant as the benchmark does, and, for an audit, as the subject's own build does.
pub fn judge(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    one: &Try,
    audited: bool,
) -> Result<Judged, Hold> {
    let population = population::population(db, settings, subject)?;
    let function = find(&population, one.function);
    let arg = FunctionArg::new(db, function.clone());
    let text = population::text(db, settings, subject, arg)?;
    let label = function.language.facts().labels[0];
    let reply = Reply::complete(fenced_as(label, &one.edit.apply(&shown(&text))));
    let variant = match case::variant(db, settings, &function, &text, &reply)? {
        Ok(variant) => variant,
        Err((outcome, why)) => return Ok(Judged::Refused(outcome, why.unwrap_or_default())),
    };
    assert_ne!(*variant, *text, "{}: nothing was changed", one.what);
    let mut wanted = vec![jobs::verdict(
        db,
        subject,
        &function,
        text.clone(),
        variant.clone(),
    )?];
    if audited {
        wanted.push(jobs::audit(db, subject, &function, text, variant)?);
    }
    let outputs = fold(wanted.iter().map(|job| db.demand(job)))?;
    let mut docs = Vec::new();
    for digest in outputs {
        docs.push(artifact::read(artifact::VERDICT, &db.blob(digest)?)?);
    }
    let mut docs = docs.into_iter();
    Ok(Judged::Compiled {
        verdict: docs.next().expect("a verdict was demanded"),
        audit: docs.next(),
    })
}

/// Judges all variants both ways; everything that is not as expected, or not the same both ways.
pub fn disagreements(lab: &mut Lab, tries: &[Try]) -> Vec<String> {
    let judged = lab.drive(None, |db, settings, subject| {
        fold(tries.iter().map(|t| judge(db, settings, subject, t, true)))
    });
    let mut wrong = Vec::new();
    for (one, judged) in tries.iter().zip(&judged) {
        let good = match judged {
            Judged::Refused(outcome, why) => {
                one.expect == Refused && *outcome == Outcome::Unparsable && !why.is_empty()
            }
            Judged::Compiled { verdict, audit } => {
                let audit = audit.as_ref().expect("an audit was demanded");
                let builds = one.expect == Builds;
                one.expect != Refused
                    && (verdict.compiles, audit.compiles) == (builds, builds)
                    // A failure says why, and where: in words of the compiler or of the linker.
                    && (builds || verdict.error.is_some() && verdict.stage.is_some())
            }
        };
        if !good {
            wrong.push(format!(
                "{} ({}): expected {:?}, got {judged:#?}",
                one.what, one.function, one.expect
            ));
        }
    }
    wrong
}

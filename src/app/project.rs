//! A project folder as its owner wrote it: the file, the manifest, the models; and what a command
//! was asked for beside them. Reads files; writes none.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AppError, Carry, Environment};
use crate::config::{self, Config, ModelConfig, RemoteModel, RunConfig, SubjectRef};
use crate::digest::Digest;
use crate::exec::answer::Replay;
use crate::exec::toolchain::Toolchain;
use crate::oss::inputs::{Answers, ModelSpec, Scoring};
use crate::source;
use crate::subject::{self, Extractor, Manifest, Preset};

/// What a command was asked for beside the project file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`config::RunConfig::limit`].
    pub limit: Option<u32>,
    /// See [`config::RunConfig::iterations`].
    pub iterations: Option<u32>,
    /// See [`config::RunConfig::seed`].
    pub seed: Option<u64>,
    /// See [`config::RunConfig::task`].
    pub task: Option<String>,
    /// See [`config::ScoreConfig::penalty`].
    pub penalty: Option<f64>,
    /// See [`config::ScoreConfig::scorings`].
    pub scorings: Vec<Scoring>,
    /// Only these models.
    pub models: Vec<String>,
    /// Only these subjects.
    pub subjects: Vec<String>,
    /// Who finds the functions, in place of what the project says.
    pub extractor: Option<Extractor>,
    /// Where libclang is; looked for when absent.
    pub libclang: Option<PathBuf>,
    /// See [`config::RunConfig::compiler`].
    pub compiler: Option<String>,
    /// See [`config::SubjectRef::profile`].
    pub profile: Option<String>,
    /// What models over HTTP may cost in this run, in millionths of a dollar.
    pub max_cost: Option<u64>,
    /// Where keys come from.
    pub environment: Environment,
    /// How many jobs run at once; the number of cores when absent.
    pub jobs: Option<usize>,
    /// Whether iterations of an earlier commit are kept.
    pub carry: Carry,
}

/// A project folder, read.
pub struct Project {
    /// Where it is.
    pub dir: PathBuf,
    /// Its file.
    pub config: Config,
    /// What is tested, in the file's order; at least one, names unique.
    pub subjects: Vec<ProjectSubject>,
}

/// A subject of a project.
#[derive(Clone)]
pub struct ProjectSubject {
    /// Its manifest, with the tests of all its profiles.
    pub manifest: Arc<Manifest>,
    /// The manifest as it is written.
    pub text: Arc<str>,
    /// What the project file says of it.
    pub config: SubjectRef,
    /// Where relative paths of the manifest begin.
    pub(super) manifest_dir: PathBuf,
}

impl ProjectSubject {
    /// Functions in the sample; all when absent.
    pub fn limit(&self, options: &Options, run: &RunConfig) -> Option<u32> {
        options.limit.or(self.config.limit).or(run.limit)
    }

    /// Iterations per model.
    pub fn iterations(&self, options: &Options, run: &RunConfig) -> u32 {
        let given = options.iterations.or(self.config.iterations);
        given
            .or(run.iterations)
            .unwrap_or(self.manifest.scoring.iterations)
    }

    /// The manifest with the tests of the profile that is asked for.
    pub fn selected(&self, options: &Options) -> Result<Manifest, AppError> {
        let profile = options.profile.as_deref();
        let profile = profile.or(self.config.profile.as_deref());
        self.manifest
            .with_profile(profile)
            .map_err(|e| AppError::Input(e.to_string()))
    }

    /// Who finds the functions: as the command says, else as the project file, else as the
    /// manifest.
    pub fn extractor(&self, command: Option<Extractor>) -> Extractor {
        let own = self.manifest.functions.extractor;
        command.or(self.config.extractor).unwrap_or(own)
    }
}

impl Project {
    /// Reads the project in `dir`.
    pub fn read(dir: &Path) -> Result<Project, AppError> {
        let path = dir.join(config::FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(AppError::Input(format!(
                    "there is no {} in {}\n  help: `everbench init` writes one; `--dir` names another folder",
                    config::FILE,
                    dir.display()
                )));
            }
            Err(e) => return Err(AppError::Input(format!("{}: {e}", path.display()))),
        };
        Project::with_config(dir, Config::parse(&text, &path)?)
    }

    /// A project in `dir` with this in its file.
    pub(super) fn with_config(dir: &Path, config: Config) -> Result<Project, AppError> {
        let path = dir.join(config::FILE);
        let mut subjects: Vec<ProjectSubject> = Vec::new();
        for subject in &config.subjects {
            let (manifest, text, manifest_dir) = read_manifest(dir, subject)?;
            if subjects.iter().any(|s| s.manifest.name == manifest.name) {
                return Err(AppError::Input(format!(
                    "{}: two subjects are called `{}`\n  help: change `name` in one of their manifests",
                    path.display(),
                    manifest.name
                )));
            }
            if let Err(e) = manifest.with_profile(subject.profile.as_deref()) {
                let file = path.display();
                return Err(AppError::Input(format!("{file}: [subject] profile: {e}")));
            }
            subjects.push(ProjectSubject {
                manifest: Arc::new(manifest),
                text: text.into(),
                config: subject.clone(),
                manifest_dir,
            });
        }
        Ok(Project {
            dir: dir.to_path_buf(),
            config,
            subjects,
        })
    }

    /// The subjects called by `names`; all when there is no name.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&ProjectSubject>, AppError> {
        let known: Vec<&str> = self
            .subjects
            .iter()
            .map(|s| s.manifest.name.as_str())
            .collect();
        if let Some(name) = names.iter().find(|n| !known.contains(&n.as_str())) {
            return Err(AppError::Input(format!(
                "there is no subject `{name}` in {}; there are: {}",
                config::FILE,
                known.join(", ")
            )));
        }
        let chosen = |s: &&ProjectSubject| names.is_empty() || names.contains(&s.manifest.name);
        Ok(self.subjects.iter().filter(chosen).collect())
    }

    /// Points per unique alert by subject, where a command or the project file gives them.
    pub fn penalties(&self, options: &Options) -> BTreeMap<String, Option<f64>> {
        let usual = self.config.score.penalty;
        let own = |s: &ProjectSubject| options.penalty.or(s.config.penalty).or(usual);
        let subjects = self.subjects.iter();
        subjects
            .map(|s| (s.manifest.name.clone(), own(s)))
            .collect()
    }

    /// The store's folder.
    pub fn store_dir(&self) -> PathBuf {
        store_dir(&self.dir)
    }
}

/// The folder of the store of the project in `dir`.
pub(super) fn store_dir(dir: &Path) -> PathBuf {
    dir.join(".everbench").join("store")
}

fn read_manifest(
    dir: &Path,
    subject: &SubjectRef,
) -> Result<(Manifest, String, PathBuf), AppError> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))
    };
    let parse = |text: String, origin: String, folder: PathBuf| {
        let manifest = Manifest::parse(&text, &origin)?;
        Ok((manifest, text, folder))
    };
    if let Some(path) = &subject.manifest {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir).to_path_buf();
        return parse(read(&path)?, path.display().to_string(), parent);
    }
    let name = subject.preset.as_deref().unwrap_or_default();
    match subject::preset(name)? {
        Preset::Text(text) => parse(text.into(), format!("preset {name}"), dir.to_path_buf()),
        Preset::Path(path) => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            let parent = path.parent().unwrap_or(dir).to_path_buf();
            parse(read(&path)?, path.display().to_string(), parent)
        }
    }
}

/// A model with what answers for it.
pub(super) struct Answering {
    pub(super) spec: Arc<ModelSpec>,
    pub(super) replay: Option<Arc<Replay>>,
    pub(super) remote: Option<Arc<RemoteModel>>,
}

impl Answering {
    /// Whether it gives vectors, and answers no question.
    pub(super) fn embeds(&self) -> bool {
        self.remote.as_ref().is_some_and(|r| r.shape.api.embeds())
    }
}

pub(super) fn models(project: &Project, only: &[String]) -> Result<Vec<Answering>, AppError> {
    for name in only {
        if !project.config.models.iter().any(|m| m.name == *name) {
            let known: Vec<&str> = project
                .config
                .models
                .iter()
                .map(|m| m.name.as_str())
                .collect();
            return Err(AppError::Input(format!(
                "there is no model `{name}` in {}; there are: {}",
                config::FILE,
                known.join(", ")
            )));
        }
    }
    let retired = |m: &&ModelConfig| only.contains(&m.name) && m.retired.is_some();
    if let Some(model) = project.config.models.iter().find(retired) {
        return Err(AppError::Input(format!(
            "model `{}` is retired since {}, and not asked any more\n  help: `everbench score` without `--model` shows its last rows; remove `retired` to ask it again",
            model.name,
            model.retired.as_deref().unwrap_or_default()
        )));
    }
    let wanted = project
        .config
        .models
        .iter()
        .filter(|m| m.retired.is_none() && (only.is_empty() || only.contains(&m.name)));
    let found: Vec<Answering> = wanted
        .map(|m| answering(project, m))
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(AppError::Input(format!(
            "{} names no model\n  help: add a `[[model]]`; `everbench init` in a fresh folder shows some",
            config::FILE
        )));
    }
    Ok(found)
}

pub(super) fn answering(project: &Project, model: &ModelConfig) -> Result<Answering, AppError> {
    let remote = model.remote().map_err(AppError::Input)?.map(Arc::new);
    let (answers, card, replay) = match (&model.calibration, &model.replay, &remote) {
        (Some(shares), _, _) => (Answers::Calibration(shares.clone()), None, None),
        (None, Some(path), _) => {
            let replay = Arc::new(Replay::read(&project.dir.join(path))?);
            let answers = Answers::Replay {
                revision: replay.revision.clone(),
                sampling: replay.sampling.clone(),
                system: replay.system.clone(),
            };
            (answers, Some(replay.card.clone()), Some(replay))
        }
        (None, None, Some(remote)) => {
            let answers = Answers::Remote {
                revision: remote.identity(None),
                sampling: remote.sampling.clone(),
                system: remote.system.clone(),
            };
            (answers, None, None)
        }
        (None, None, None) => unreachable!("the project file was checked"),
    };
    let spec = ModelSpec {
        name: model.name.clone(),
        answers,
        card: model.card.clone().or(card).unwrap_or_default(),
    };
    Ok(Answering {
        spec: Arc::new(spec),
        replay,
        remote,
    })
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The programs that the subject's commands name.
pub fn programs(manifest: &Manifest) -> Vec<String> {
    let commands = manifest.build.configure.iter().chain(&manifest.build.build);
    let mut names: Vec<String> = commands
        .filter_map(|c| c.first())
        .map(|t| t.source().to_string())
        .filter(|name| !name.contains(['{', '/']))
        .collect();
    // CMake's default generator runs make.
    if names.iter().any(|n| n == "cmake") {
        names.push("make".into());
    }
    names.sort();
    names.dedup();
    names
}

/// The programs that fetch the subject's source, each with the Debian package that has it.
pub fn source_programs(manifest: &Manifest) -> &'static [(&'static str, &'static str)] {
    source::programs(&manifest.source)
}

/// Refuses a subject that needs a compiler which is not there: its part would silently be taken by
/// another.
pub(super) fn compilers(manifest: &Manifest, tools: &Toolchain) -> Result<(), AppError> {
    let mut words = manifest
        .build
        .configure
        .iter()
        .chain(&manifest.build.build)
        .flatten()
        .chain(manifest.build.env.values());
    if tools.cxx.is_none() && words.any(|word| word.source().contains("{cxx}")) {
        return Err(AppError::Environment(format!(
            "subject `{}` is built by a C++ compiler, and there is none that belongs to {}\n  help: install it, on Debian with `apt-get install g++` (or `clang`)",
            manifest.name,
            tools.cc.display()
        )));
    }
    Ok(())
}

/// Where build trees lie: beside the store, or under `/var/tmp` when the sandboxed user could not
/// get there (a home directory that is closed to others).
pub(super) fn trees_dir(project: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(project)?;
    let project = project.canonicalize()?;
    let open = project
        .ancestors()
        .all(|dir| std::fs::metadata(dir).is_ok_and(|m| m.permissions().mode() & 0o001 != 0));
    if open {
        return Ok(project.join("trees"));
    }
    let name = Digest::of(project.as_os_str().as_encoded_bytes()).short();
    Ok(Path::new("/var/tmp").join(format!("everbench-{name}")))
}

//! `everbench doctor`

use std::collections::BTreeSet;
use std::path::Path;

use super::common::{CliResult, exit, libclang_path, print};
use crate::app::{AppError, Project};
use crate::exec::libclang::Libclang;
use crate::exec::packages;
use crate::exec::toolchain::{Toolchain, find};
use crate::exec::{Policy, Sandbox};
use crate::subject::Extractor;

/// Say what this machine has for a run, what is missing, and how to get it.
#[derive(clap::Args)]
pub struct Args {
    /// The C compiler to look at; the project's, or gcc.
    #[arg(long, value_name = "PROGRAM")]
    compiler: Option<String>,
    /// Print only the packages that the subjects' manifests name and that are not installed, on one
    /// line.
    #[arg(long)]
    missing_packages: bool,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    if args.missing_packages {
        return missing_packages(dir);
    }
    let mut out = String::new();
    let mut unknown = String::new();
    let mut missing = 0;
    let mut say = |ok: bool, what: &str, detail: &str| {
        out.push_str(&format!(
            "{} {what}: {detail}\n",
            if ok { "ok     " } else { "MISSING" }
        ));
        missing += u32::from(!ok);
    };
    let project = Project::read(dir);
    let compiler = match (&args.compiler, &project) {
        (Some(compiler), _) => compiler.clone(),
        (None, Ok(project)) => project.config.run.compiler.clone(),
        _ => "gcc".to_string(),
    };
    match &project {
        Ok(project) => say(
            true,
            "project",
            &format!("{} tests {}", dir.display(), names(project)),
        ),
        Err(e) => say(false, "project", &e.to_string()),
    }
    let programs: BTreeSet<String> = project
        .iter()
        .flat_map(|p| &p.subjects)
        .flat_map(|s| crate::app::programs(&s.manifest))
        .collect();
    match Toolchain::probe(&compiler) {
        Ok(tools) => {
            say(
                true,
                "compiler",
                &format!("{} ({})", tools.version, tools.cc.display()),
            );
            for name in ["libasan.a", "libubsan.a"] {
                let here = tools.identity.files.contains_key(name);
                let detail = if here {
                    "found".to_string()
                } else {
                    "not found: on Debian it comes with the compiler's own package".to_string()
                };
                say(here, name, &detail);
            }
        }
        Err(e) => say(false, "compiler", &e.to_string()),
    }
    let target = Toolchain::probe(&compiler).map(|t| t.identity.target);
    let needed = project
        .iter()
        .flat_map(|p| &p.subjects)
        .any(|s| s.extractor(None) == Extractor::Libclang);
    match Libclang::probe(libclang_path().as_deref(), &target.unwrap_or_default()) {
        Ok(found) => say(
            true,
            "libclang",
            &format!("{} ({})", found.identity.version, found.library.display()),
        ),
        Err(e) if needed => say(false, "libclang", &e.to_string()),
        Err(e) => say(
            true,
            "libclang",
            &format!("only needed for `extractor = \"libclang\"`: {e}"),
        ),
    }
    for program in &programs {
        match find(program) {
            Some(path) => say(true, program, &path.display().to_string()),
            None => say(
                false,
                program,
                &format!("the subject's build needs it: `apt-get install {program}`"),
            ),
        }
    }
    let packages = needed_packages(project.as_ref().ok());
    let lacking = packages::missing(&packages);
    for package in &packages {
        let what = format!("package {package}");
        match &lacking {
            Some(missing) if missing.contains(package) => say(
                false,
                &what,
                &format!("the subject's build needs it: `apt-get install {package}`"),
            ),
            Some(_) => say(true, &what, "installed"),
            None => unknown.push_str(&format!(
                "unknown {what}: the subject's build needs it, or what it is called here; this \
                 system has no dpkg-query to ask\n"
            )),
        }
    }
    match Sandbox::probe(Policy::Required) {
        Ok(sandbox) => say(true, "sandbox", &sandbox.describe().to_string()),
        Err(e) => say(false, "sandbox", &e.to_string()),
    }
    // Cargo is in a folder of its user's more often than in the system's.
    let found = |program: &str| {
        find(program).or_else(|| {
            let path = std::env::var_os("PATH")?;
            let mut places = std::env::split_paths(&path).map(|dir| dir.join(program));
            places.find(|place| place.is_file())
        })
    };
    let needed: BTreeSet<(&str, &str)> = project
        .iter()
        .flat_map(|p| &p.subjects)
        .flat_map(|s| crate::app::source_programs(&s.manifest))
        .copied()
        .collect();
    for (program, package) in needed {
        match found(program) {
            Some(path) => say(
                true,
                program,
                &format!("{} (fetches the subject's source)", path.display()),
            ),
            None => say(
                false,
                program,
                &format!(
                    "the subject's source cannot be fetched: `apt-get install {package}`, or see its own site"
                ),
            ),
        }
    }
    print(&(out + &unknown))?;
    Ok(if missing == 0 {
        exit::OK
    } else {
        exit::ENVIRONMENT
    })
}

/// The packages that the manifests of a project name, sorted.
fn needed_packages(project: Option<&Project>) -> Vec<String> {
    let subjects = project.iter().flat_map(|p| &p.subjects);
    let packages: BTreeSet<&String> = subjects.flat_map(|s| &s.manifest.build.packages).collect();
    packages.into_iter().cloned().collect()
}

/// What a script installs before a run.
fn missing_packages(dir: &Path) -> CliResult {
    let needed = needed_packages(Some(&Project::read(dir)?));
    let missing = packages::missing(&needed).ok_or_else(|| {
        AppError::Environment(format!(
            "this system has no dpkg-query, so it cannot be told which of these are installed: {}",
            needed.join(" ")
        ))
    })?;
    print(&format!("{}\n", missing.join(" ")))?;
    Ok(exit::OK)
}

fn names(project: &Project) -> String {
    let names = project.subjects.iter();
    let names: Vec<String> = names.map(|s| format!("`{}`", s.manifest.name)).collect();
    names.join(", ")
}

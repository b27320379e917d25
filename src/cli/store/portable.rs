//! `everbench store export` and `everbench store import`

use std::path::{Path, PathBuf};

use super::super::common::{CliResult, Format, exit, print};
use super::super::run::json;
use crate::app::{export_store, import_store};
use crate::store::{Contents, Exported, Imported};

#[derive(clap::Args)]
pub struct ExportArgs {
    /// The file; another export there is replaced.
    file: PathBuf,
    /// Only what this root rests on (latest/SUBJECT, release/NAME, evaluation/...); may be given
    /// several times.
    #[arg(long = "root", value_name = "NAME")]
    roots: Vec<String>,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(clap::Args)]
pub struct ImportArgs {
    /// The file.
    file: PathBuf,
    /// Only check the file and say what would be new.
    #[arg(long)]
    dry_run: bool,
    /// Let the file's roots take the place of others of the same name.
    #[arg(long)]
    replace_roots: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs `store export`.
pub fn export(dir: &Path, args: &ExportArgs) -> CliResult {
    let exported = export_store(dir, &args.file, &args.roots)?;
    print(&match args.format {
        Format::Json => json(&exported),
        Format::Text => export_text(&args.file, &exported),
    })?;
    Ok(exit::OK)
}

/// Runs `store import`.
pub fn import(dir: &Path, args: &ImportArgs) -> CliResult {
    let imported = import_store(dir, &args.file, args.replace_roots, args.dry_run)?;
    print(&match args.format {
        Format::Json => json(&imported),
        Format::Text => import_text(&imported),
    })?;
    Ok(exit::OK)
}

fn what_is_in(contents: &Contents) -> String {
    format!(
        "{} jobs, {} blobs ({} bytes), {} second outputs, {} roots",
        contents.actions, contents.blobs, contents.bytes, contents.conflicts, contents.roots
    )
}

fn export_text(file: &Path, exported: &Exported) -> String {
    let mut out = format!(
        "{}: {} bytes\nholds: {}\ndigest: {}\n",
        file.display(),
        exported.file_bytes,
        what_is_in(&exported.contents),
        exported.digest
    );
    for key in &exported.absent {
        out.push_str(&format!(
            "not in it: job {key}, which an evaluation lists and which was taken out of the store\n"
        ));
    }
    out
}

fn import_text(imported: &Imported) -> String {
    let (is, were) = match imported.dry_run {
        true => ("would be", "would be"),
        false => ("is", "were"),
    };
    let mut out = format!("holds: {}\n", what_is_in(&imported.contents));
    out.push_str(&format!(
        "new: {} jobs, {} blobs ({} bytes); {} jobs {were} here already, with the same output\n",
        imported.new_actions, imported.new_blobs, imported.new_bytes, imported.equal_actions
    ));
    let (notes, named): (Vec<_>, Vec<_>) =
        (imported.new_roots.iter()).partition(|name| is_note(name));
    for name in named {
        out.push_str(&format!("root `{name}` {is} set\n"));
    }
    if !notes.is_empty() {
        out.push_str(&format!(
            "{} notes on machines and runs {were} set\n",
            notes.len()
        ));
    }
    for name in &imported.replaced_roots {
        out.push_str(&format!("root `{name}` {is} replaced\n"));
    }
    let (notes, named): (Vec<_>, Vec<_>) =
        (imported.kept_roots.iter()).partition(|root| is_note(&root.name));
    for root in named {
        out.push_str(&format!(
            "root `{}` stays {}; the file has {} (--replace-roots takes it)\n",
            root.name, root.here, root.there
        ));
    }
    if !notes.is_empty() {
        out.push_str(&format!(
            "{} notes on machines and runs stay as they are here (--replace-roots takes the file's)\n",
            notes.len()
        ));
    }
    for conflict in &imported.conflicts {
        out.push_str(&format!(
            "conflict: {} {}: {} stays, the file has {}\n",
            conflict.kind, conflict.key, conflict.kept, conflict.other
        ));
    }
    out
}

/// Roots that are many and that nobody asks for by name.
fn is_note(name: &str) -> bool {
    name.starts_with("observed/") || name.starts_with("surroundings/")
}

//! Files and preprocessed units read in their languages, each text once.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::built::{FlavourArg, base, snapshot};
use super::rows::recalled;
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{
    self, CompiledDefinition, FileFunctions, Language, LanguageId, StrippedUnit, Substance,
};
use crate::oss::inputs::{Settings, Subject};
use crate::subject::Selection;

/// The language in use; equal when its queries are.
#[derive(Clone)]
pub struct SharedLanguage(pub Language);

impl PartialEq for SharedLanguage {
    fn eq(&self, other: &Self) -> bool {
        self.0.queries().digest() == other.0.queries().digest()
    }
}

/// A language, or what is wrong with its query files.
#[salsa::tracked(returns(clone))]
pub fn language(db: &dyn Db, settings: Settings, id: LanguageId) -> Result<SharedLanguage, Hold> {
    let language = settings.queries(db).language(id);
    language
        .map(SharedLanguage)
        .map_err(|e| Hold::broken(e.to_string(), "mend the query file"))
}

/// The languages of the files in which functions are looked for.
#[salsa::tracked(returns(clone))]
pub fn languages(db: &dyn Db, subject: Subject) -> Result<Arc<BTreeSet<LanguageId>>, Hold> {
    let (_, files) = snapshot(db, subject)?;
    let manifest = subject.rules(db);
    let selected = files
        .files
        .keys()
        .filter(|path| manifest.selection(path) == Selection::Selected);
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    let made = doc.generated.iter().map(|f| &f.path);
    let mut found: BTreeSet<LanguageId> = selected
        .chain(made)
        .filter_map(|path| manifest.functions.language_of(path))
        .collect();
    if found.is_empty() {
        found.insert(LanguageId::C);
    }
    Ok(Arc::new(found))
}

/// The digests of the queries by which the subject is read.
pub fn readings(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Vec<Digest>, Hold> {
    let used = languages(db, subject)?;
    let digest = |id| Ok(language(db, settings, id)?.0.queries().digest());
    used.iter().map(|id| digest(*id)).collect()
}

/// A text by its digest, as an argument of queries: equal texts are read once, wherever they are.
#[salsa::interned]
pub struct Text<'db> {
    /// Its digest.
    #[returns(copy)]
    pub digest: Digest,
}

/// The functions defined in a file.
#[salsa::tracked(returns(clone))]
pub fn file_functions<'db>(
    db: &'db dyn Db,
    settings: Settings,
    id: LanguageId,
    text: Text<'db>,
) -> Result<Arc<FileFunctions>, Hold> {
    let language = language(db, settings, id)?.0;
    let digest = text.digest(db);
    recalled(
        db,
        "functions",
        &[language.queries().digest(), digest],
        || Ok(lang::functions(&language, &db.blob(digest)?)),
    )
    .map(Arc::new)
}

/// What a preprocessed unit says of the functions in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnitFacts {
    pub(super) definitions: Vec<CompiledDefinition>,
    pub(super) stripped: Digest,
    pub(super) macros: Digest,
}

/// Reads a preprocessed unit.
#[salsa::tracked(returns(clone))]
pub fn unit_facts<'db>(
    db: &'db dyn Db,
    settings: Settings,
    id: LanguageId,
    text: Text<'db>,
) -> Result<Arc<UnitFacts>, Hold> {
    let language = language(db, settings, id)?.0;
    let digest = text.digest(db);
    recalled(db, "unit", &[language.queries().digest(), digest], || {
        let (text, macros) = split_macros(&db.blob(digest)?);
        let unit = StrippedUnit::new(&language, &text);
        Ok(UnitFacts {
            definitions: unit.definitions().to_vec(),
            stripped: unit.digest(),
            macros: Digest::of(&macros),
        })
    })
    .map(Arc::new)
}

/// What of a preprocessed unit is in its code.
#[salsa::tracked(returns(clone))]
pub fn substance<'db>(
    db: &'db dyn Db,
    id: LanguageId,
    text: Text<'db>,
) -> Result<Arc<Substance>, Hold> {
    let digest = text.digest(db);
    // The tokens of a language are not a matter of its queries.
    let name = Digest::of(id.name().as_bytes());
    recalled(db, "substance", &[name, digest], || {
        Ok(Substance::of(id, &db.blob(digest)?))
    })
    .map(Arc::new)
}

/// Whether what a variant means in a unit may depend on where it stands.
#[salsa::tracked(returns(clone))]
pub fn is_positional<'db>(
    db: &'db dyn Db,
    id: LanguageId,
    variant: Text<'db>,
    unit: Text<'db>,
) -> Result<bool, Hold> {
    let substance = substance(db, id, unit)?;
    Ok(substance.is_positional(id, &db.blob(variant.digest(db))?))
}

/// Splits the output of `-E -dD` into the text, its lines where they were, and the definitions.
fn split_macros(preprocessed: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut text, mut macros) = (Vec::with_capacity(preprocessed.len()), Vec::new());
    for line in preprocessed.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"#define ") || line.starts_with(b"#undef ") {
            macros.extend_from_slice(line);
            text.push(b'\n');
        } else {
            text.extend_from_slice(line);
        }
    }
    (text, macros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macro_definitions_are_told_from_text_without_moving_lines() {
        let (text, macros) = split_macros(b"# 1 \"a.c\"\n#define X 1\nint a;\n#undef X\nint b;\n");
        assert_eq!(text, b"# 1 \"a.c\"\n\nint a;\n\nint b;\n");
        assert_eq!(macros, b"#define X 1\n#undef X\n");
    }
}

//! The seam between this room and a programming language: its grammar and its queries. The query
//! files are inputs like any other: their text can be replaced, and their digest belongs into
//! every key whose output they decide. This file never reads them from disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tree_sitter::{Parser, Query, Tree};

use super::facts::LanguageId;
use crate::digest::Digest;

/// More than a project has; the oldest goes first.
const MOST_KNOWN: usize = 16;

/// A language this room can work on: a name, a grammar and its compiled queries. Cheap to clone.
#[derive(Clone)]
pub struct Language {
    id: LanguageId,
    grammar: tree_sitter::Language,
    queries: Arc<Queries>,
}

/// The text of the query files of one language, by file stem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueryTexts {
    /// `functions.scm`: captures `definition`, `declarator`, `body`, `name`, `parameters`.
    pub functions: String,
    /// `edits.scm`: captures `return`, `if`, `while`, `assignment`, `comparison`, `choice`,
    /// `local`.
    pub edits: String,
}

impl QueryTexts {
    /// The files that come with the program.
    pub fn of(language: LanguageId) -> Self {
        let [functions, edits] = language.facts().queries.map(str::to_string);
        QueryTexts { functions, edits }
    }

    fn digest(&self, language: LanguageId) -> Digest {
        // In messages and in the digest it is the folder that names the language.
        let name = language.facts().folder;
        let mut hasher = blake3::Hasher::new_derive_key("everbench lang queries v1");
        for (stem, text) in [("functions", &self.functions), ("edits", &self.edits)] {
            for part in [name, stem, text.as_str()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

/// The query files in use, of every language.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuerySet(BTreeMap<LanguageId, QueryTexts>);

impl Default for QuerySet {
    /// Those that come with the program.
    fn default() -> Self {
        QuerySet(LanguageId::all().map(|l| (l, QueryTexts::of(l))).collect())
    }
}

impl QuerySet {
    /// The files of one language.
    pub fn of(&self, language: LanguageId) -> QueryTexts {
        let texts = self.0.get(&language);
        texts.cloned().unwrap_or_else(|| QueryTexts::of(language))
    }

    /// Puts other files in the place of one language's.
    pub fn set(&mut self, language: LanguageId, texts: QueryTexts) {
        self.0.insert(language, texts);
    }

    /// The language with its files.
    ///
    /// # Errors
    /// As [`Language::new`].
    pub fn language(&self, language: LanguageId) -> Result<Language, QueryFault> {
        Language::new(language, &self.of(language))
    }

    /// As a job carries it, if it is not what comes with the program.
    pub fn encoded(&self) -> Option<Vec<u8>> {
        let own = *self != QuerySet::default();
        own.then(|| serde_json::to_vec(self).expect("names and texts are JSON"))
    }

    /// Reads back [`encoded`](Self::encoded).
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("these are no query files: {e}"))
    }
}

/// The compiled query files of one language.
pub struct Queries {
    digest: Digest,
    pub(super) functions: Compiled,
    pub(super) edits: Compiled,
}

impl Queries {
    /// Changes whenever any text of a query file changes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// One query with the names of its captures by index.
pub(super) struct Compiled {
    pub(super) query: Query,
}

impl Compiled {
    /// The name of capture `index`.
    pub(super) fn capture(&self, index: u32) -> &str {
        self.query
            .capture_names()
            .get(index as usize)
            .copied()
            .unwrap_or("")
    }
}

/// A query file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueryFault {
    /// The file does not compile against the grammar.
    #[error(
        "queries/{language}/{file}.scm:{line}:{column}: {message}; mend the file or use the \
         one that comes with the program"
    )]
    Broken {
        /// Name of the language.
        language: &'static str,
        /// File stem.
        file: &'static str,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// What the query compiler says.
        message: String,
    },
    /// The file compiles but lacks a capture the program needs.
    #[error(
        "queries/{language}/{file}.scm has no capture `@{capture}`, without which nothing would \
         be found; add it"
    )]
    MissingCapture {
        /// Name of the language.
        language: &'static str,
        /// File stem.
        file: &'static str,
        /// The capture's name without `@`.
        capture: &'static str,
    },
    /// The grammar was built for another version of the parser library.
    #[error("the grammar for {language} does not fit the parser library: {message}")]
    Grammar {
        /// Name of the language.
        language: &'static str,
        /// What the library says.
        message: String,
    },
}

impl Language {
    /// A language with the given query texts.
    ///
    /// # Errors
    /// [`QueryFault`] says which file is wrong, and where.
    pub fn new(id: LanguageId, texts: &QueryTexts) -> Result<Self, QueryFault> {
        // To compile a query costs more than to run it over most files, and jobs ask one by one.
        static KNOWN: Mutex<Vec<Language>> = Mutex::new(Vec::new());
        let digest = texts.digest(id);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |l: &&Language| l.id == id && l.queries.digest == digest;
        if let Some(language) = known.iter().find(same) {
            return Ok(language.clone());
        }
        let language = Language::compiled(id, texts)?;
        if known.len() == MOST_KNOWN {
            known.remove(0);
        }
        known.push(language.clone());
        Ok(language)
    }

    fn compiled(id: LanguageId, texts: &QueryTexts) -> Result<Self, QueryFault> {
        let name = id.facts().folder;
        let grammar = (id.facts().grammar)();
        Parser::new()
            .set_language(&grammar)
            .map_err(|e| QueryFault::Grammar {
                language: name,
                message: e.to_string(),
            })?;
        let functions = compile(
            name,
            &grammar,
            "functions",
            &texts.functions,
            &["definition", "declarator", "body", "name", "parameters"],
        )?;
        let edits = compile(
            name,
            &grammar,
            "edits",
            &texts.edits,
            &["return", "if", "while", "assignment", "comparison", "local"],
        )?;
        Ok(Language {
            id,
            grammar,
            queries: Arc::new(Queries {
                digest: texts.digest(id),
                functions,
                edits,
            }),
        })
    }

    /// Which language it is.
    pub fn id(&self) -> LanguageId {
        self.id
    }

    /// The compiled queries.
    pub fn queries(&self) -> &Queries {
        &self.queries
    }

    /// The syntax tree of `text`, or nothing when the parser gives up: the work is bounded by the
    /// length of the text, so that no input, however hostile, holds a worker for ever.
    pub(super) fn parse(&self, text: &[u8]) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.grammar).ok()?;
        let mut left = 10_000 + text.len() as u64 * 4;
        let mut stop = |_: &tree_sitter::ParseState| {
            left = left.saturating_sub(1);
            if left == 0 {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        };
        let options = tree_sitter::ParseOptions::new().progress_callback(&mut stop);
        parser.parse_with_options(
            &mut |at, _| text.get(at..).unwrap_or_default(),
            None,
            Some(options),
        )
    }
}

fn compile(
    language: &'static str,
    grammar: &tree_sitter::Language,
    file: &'static str,
    text: &str,
    needed: &[&'static str],
) -> Result<Compiled, QueryFault> {
    let query = Query::new(grammar, text).map_err(|e| QueryFault::Broken {
        language,
        file,
        line: e.row + 1,
        column: e.column + 1,
        message: format!("{:?}: {}", e.kind, e.message),
    })?;
    match needed
        .iter()
        .find(|n| !query.capture_names().contains(n))
        .copied()
    {
        Some(capture) => Err(QueryFault::MissingCapture {
            language,
            file,
            capture,
        }),
        None => Ok(Compiled { query }),
    }
}

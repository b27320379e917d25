//! Per-item results as other harnesses write them: CSV with the columns `cve_id` and `success`
//! (`True`, `False` or `skipped`), one file for each model, language and arm, which the file's name
//! tells unless columns `model`, `language` and `arm` do. Rows that cannot be used are counted with
//! the reason, and the others stand.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::score::{Answer, Item, Sheet};
use super::{Arm, csv};

/// Why a row is left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRow {
    /// It names no CVE, so that nothing says which answers belong together.
    NoCve,
    /// What it says of success is none of the words known.
    NoSuccess,
    /// Its `arm` is none.
    NoArm,
    /// It has fewer fields than the header.
    Short,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadRow::NoCve => "no CVE id",
            BadRow::NoSuccess => "success is neither True, False nor skipped",
            BadRow::NoArm => "arm is neither hintless nor hint",
            BadRow::Short => "fewer fields than the header",
        })
    }
}

/// Why a file is no file of results.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResultsError {
    /// Its bytes are no text.
    #[error("{file}: byte {at} is not UTF-8; save it as UTF-8")]
    NotText {
        /// The file.
        file: String,
        /// The first bad byte, from 0.
        at: usize,
    },
    /// There is no header that can be used.
    #[error("{file}: the first line must name the columns `cve_id` and `success`")]
    NoHeader {
        /// The file.
        file: String,
    },
    /// There is nothing below the header that can be used.
    #[error("{file}: no row can be used{}", first(.bad))]
    NoRows {
        /// The file.
        file: String,
        /// Lines that are left out and why.
        bad: Vec<(usize, BadRow)>,
    },
    /// Two files say what one model answered.
    #[error(
        "{first} and {second} both hold the answers of {model} ({language}, {arm}); leave one out"
    )]
    Twice {
        /// A file.
        first: String,
        /// Another.
        second: String,
        /// Of whom.
        model: String,
        /// In which language.
        language: String,
        /// To which question.
        arm: Arm,
    },
}

fn first(bad: &[(usize, BadRow)]) -> String {
    match bad.first() {
        Some((line, why)) => format!(" (line {line}: {why})"),
        None => String::new(),
    }
}

/// What files of results hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// One for each model, language and arm, sorted by these.
    pub sheets: Vec<Sheet>,
    /// Rows left out: file, line and reason.
    pub left_out: Vec<(String, usize, BadRow)>,
}

/// Reads files, each a name and its bytes.
///
/// # Errors
/// The first file that is none of results, or that says what another one says too.
pub fn read<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Results, ResultsError> {
    let mut from: BTreeMap<(String, String, Arm), &str> = BTreeMap::new();
    let mut all = Results::default();
    for (file, bytes) in files {
        let found = read_one(file, bytes)?;
        for sheet in &found.sheets {
            let key = (sheet.model.clone(), sheet.language.clone(), sheet.arm);
            if let Some(first) = from.insert(key, file) {
                return Err(ResultsError::Twice {
                    first: first.to_string(),
                    second: file.to_string(),
                    model: sheet.model.clone(),
                    language: sheet.language.clone(),
                    arm: sheet.arm,
                });
            }
        }
        all.sheets.extend(found.sheets);
        all.left_out.extend(found.left_out);
    }
    all.sheets
        .sort_by(|a, b| (&a.model, &a.language, a.arm).cmp(&(&b.model, &b.language, b.arm)));
    Ok(all)
}

fn read_one(file: &str, bytes: &[u8]) -> Result<Results, ResultsError> {
    let text = std::str::from_utf8(bytes).map_err(|e| ResultsError::NotText {
        file: file.to_string(),
        at: e.valid_up_to(),
    })?;
    let mut records = csv::records(text).into_iter();
    let header = records.next().map(|(_, fields)| fields).unwrap_or_default();
    let column = |name: &str| {
        let same = |h: &String| h.trim().eq_ignore_ascii_case(name);
        header.iter().position(same)
    };
    let (Some(cve), Some(success)) = (column("cve_id"), column("success")) else {
        return Err(ResultsError::NoHeader { file: file.into() });
    };
    let (own_model, own_language, own_arm) = (column("model"), column("language"), column("arm"));
    let named = named(file);
    let mut sheets: BTreeMap<(String, String, Arm), Vec<Item>> = BTreeMap::new();
    // A model is asked all pairs in one order; within a CVE the rank among its rows says which.
    let mut ranks: BTreeMap<(String, String, Arm, String), usize> = BTreeMap::new();
    let mut bad = Vec::new();
    for (line, fields) in records {
        let field = |at: usize| fields.get(at).map(|f| f.trim()).unwrap_or_default();
        let other = |at: Option<usize>, name: &str| match at.map(field) {
            Some(own) if !own.is_empty() => own.to_string(),
            _ => name.to_string(),
        };
        let arm = match own_arm.map(field).filter(|a| !a.is_empty()) {
            Some(own) => Arm::named(&own.to_lowercase()),
            None => Some(named.2),
        };
        let answer = answer(field(success));
        let why = match (fields.len() < header.len(), arm, answer) {
            (true, _, _) => Some(BadRow::Short),
            _ if field(cve).is_empty() => Some(BadRow::NoCve),
            (_, None, _) => Some(BadRow::NoArm),
            (_, _, None) => Some(BadRow::NoSuccess),
            _ => None,
        };
        let (None, Some(arm), Some(answer)) = (why, arm, answer) else {
            bad.push((line, why.unwrap_or(BadRow::Short)));
            continue;
        };
        let model = other(own_model, &named.0);
        let language = other(own_language, &named.1);
        let cluster = field(cve).to_uppercase();
        let key = (model.clone(), language.clone(), arm, cluster.clone());
        let rank = ranks.entry(key).or_default();
        let item = Item {
            id: format!("{cluster}#{rank}"),
            repeat: 0,
            cluster,
            answer,
        };
        *rank += 1;
        sheets.entry((model, language, arm)).or_default().push(item);
    }
    if sheets.is_empty() {
        return Err(ResultsError::NoRows {
            file: file.into(),
            bad,
        });
    }
    let sheet = |((model, language, arm), items)| Sheet {
        model,
        language,
        arm,
        items,
    };
    Ok(Results {
        sheets: sheets.into_iter().map(sheet).collect(),
        left_out: bad
            .into_iter()
            .map(|(line, why)| (file.to_string(), line, why))
            .collect(),
    })
}

fn answer(text: &str) -> Option<Answer> {
    match text.to_lowercase().as_str() {
        "true" | "1" => Some(Answer::Secure),
        "false" | "0" => Some(Answer::Vulnerable),
        "skipped" | "none" => Some(Answer::None),
        _ => None,
    }
}

/// Model, language and arm by a file's name: `maker-model_c_cpp_hint.csv`.
fn named(file: &str) -> (String, String, Arm) {
    const LANGUAGES: [(&str, &str); 9] = [
        ("_c_cpp", "c/c++"),
        ("_c", "c"),
        ("_cpp", "c++"),
        ("_java", "java"),
        ("_python", "python"),
        ("_go", "go"),
        ("_rust", "rust"),
        ("_javascript", "javascript"),
        ("_php", "php"),
    ];
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let (stem, arm) = match stem.strip_suffix("_hint") {
        Some(stem) => (stem, Arm::Hint),
        None => (
            stem.strip_suffix("_hintless").unwrap_or(stem),
            Arm::Hintless,
        ),
    };
    let found = LANGUAGES.iter().find_map(|(suffix, language)| {
        let model = stem.strip_suffix(suffix).filter(|m| !m.is_empty())?;
        Some((model, *language))
    });
    let (model, language) = found.unwrap_or((stem, "unknown"));
    (model.to_string(), language.to_string(), arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Result<Results, ResultsError> {
        read([(name, text.as_bytes())])
    }

    #[test]
    fn a_file_says_by_its_name_whose_answers_it_holds() {
        let told = |name: &str| {
            let found = of(name, "cve_id,success\r\nCVE-2020-1,True\r\n").unwrap();
            let sheet = &found.sheets[0];
            format!("{} | {} | {}", sheet.model, sheet.language, sheet.arm)
        };
        assert_eq!(
            told("a/maker-m.1_c_cpp.csv"),
            "maker-m.1 | c/c++ | hintless"
        );
        assert_eq!(told("maker-m_java_hint.csv"), "maker-m | java | hint");
        assert_eq!(told("results.csv"), "results | unknown | hintless");
    }

    #[test]
    fn columns_say_it_better_than_the_name() {
        let text = "success,cve_id,model,language,arm\nTrue,CVE-2020-1,m,go,hint\nfalse,cve-2020-1,m,go,hint\nskipped,CVE-2020-2,n,go,\n";
        let found = of("all.csv", text).unwrap();
        let told: Vec<_> = found
            .sheets
            .iter()
            .map(|s| (s.model.as_str(), s.arm, s.items.len()))
            .collect();
        assert_eq!(told, [("m", Arm::Hint, 2), ("n", Arm::Hintless, 1)]);
        let items = &found.sheets[0].items;
        assert_eq!(
            (&*items[0].id, &*items[1].id),
            ("CVE-2020-1#0", "CVE-2020-1#1")
        );
        assert_eq!(found.sheets[1].items[0].answer, Answer::None);
    }

    #[test]
    fn rows_that_cannot_be_used_are_counted_and_the_others_stand() {
        let text = "cve_id,success\nCVE-2020-1,True\n,True\nCVE-2020-2,perhaps\nCVE-2020-3\nCVE-2020-4,False\n";
        let found = of("m_c.csv", text).unwrap();
        assert_eq!(found.sheets[0].items.len(), 2);
        let left: Vec<_> = found.left_out.iter().map(|(_, l, w)| (*l, *w)).collect();
        assert_eq!(
            left,
            [
                (3, BadRow::NoCve),
                (4, BadRow::NoSuccess),
                (5, BadRow::Short)
            ]
        );
    }

    #[test]
    fn files_that_are_none_are_named() {
        let said = |name: &str, text: &str| of(name, text).unwrap_err().to_string();
        assert!(said("a.csv", "").contains("`cve_id` and `success`"));
        assert!(said("a.csv", "cve,ok\nx,True\n").contains("`cve_id` and `success`"));
        let empty = said("a.csv", "cve_id,success\nCVE-1,maybe\n");
        assert!(empty.contains("line 2: success is neither"), "{empty}");
        let bytes: &[u8] = b"cve_id,success\n\xff\xfe";
        let error = read([("a.csv", bytes)]).unwrap_err();
        assert!(error.to_string().contains("byte 15"), "{error}");
        let one = "cve_id,success\nCVE-1,True\n".as_bytes();
        let twice = read([("x/m_c.csv", one), ("y/m_c.csv", one)]).unwrap_err();
        assert!(twice.to_string().contains("y/m_c.csv both hold"), "{twice}");
    }
}

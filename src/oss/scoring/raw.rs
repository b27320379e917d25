//! Scores of a table of raw scores in CSV, as `score --raw FILE.csv` takes it. Pure: the text
//! comes in, rows go out; nothing in a table is skipped or guessed.

use super::{Chained, Weights};
use std::collections::BTreeMap;

/// One row of a table of raw scores.
#[derive(Debug, Clone, PartialEq)]
pub struct RawRow {
    /// Line of the file, 1 the first.
    pub line: usize,
    /// Rows are ranked within one benchmark; empty without such a column.
    pub benchmark: String,
    /// The model.
    pub model: String,
    /// Compilability, 0-100.
    pub s1: f64,
    /// Tests passed, 0-100.
    pub s2: f64,
    /// Memory safety, 0-100.
    pub s3: f64,
    /// `d` times its weight.
    pub bonus: f64,
    /// The score and its parts.
    pub chained: Chained,
    /// The score that the table itself states, if it does.
    pub stated: Option<f64>,
    /// 1 the best of the benchmark; equal scores share the better rank. Or why there is none.
    pub rank: Result<u32, Unranked>,
}

/// Why a row has no rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unranked {
    /// It is a yardstick: a model called `baseline`, or whose name begins with `calibration`.
    Yardstick,
    /// It changes fewer lines per function than the minimum.
    HardlyEdits,
}

/// What is wrong with a table of raw scores.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RawError {
    /// There is no header.
    #[error("the table is empty: its first line must name the columns, such as model,s1,s2,s3,d")]
    Empty,
    /// A column that means nothing here.
    #[error("line {line}, column {column}: unknown column {name:?}; known: {KNOWN}")]
    UnknownColumn {
        /// Line of the header.
        line: usize,
        /// Column, 1 the first.
        column: usize,
        /// Its name.
        name: String,
    },
    /// A column given twice, or both `d` and `bonus`.
    #[error(
        "line {line}, column {column}: {name:?} is there twice, or beside one that says the same"
    )]
    RepeatedColumn {
        /// Line of the header.
        line: usize,
        /// The later column, 1 the first.
        column: usize,
        /// Its name.
        name: String,
    },
    /// A column that must be there.
    #[error(
        "line {line}: there is no column {name}; needed: model, s1, s2, s3 and one of d, bonus"
    )]
    MissingColumn {
        /// Line of the header.
        line: usize,
        /// What is missing.
        name: &'static str,
    },
    /// A row with too few or too many fields.
    #[error("line {line}: {found} fields where the header has {expected}")]
    FieldCount {
        /// Line of the row.
        line: usize,
        /// Fields found.
        found: usize,
        /// Fields in the header.
        expected: usize,
    },
    /// A quoted field that does not end on its line, or goes on after its closing quote.
    #[error("line {line}, column {column}: the quotes of this field are not closed at its end")]
    Quotes {
        /// Line.
        line: usize,
        /// Column, 1 the first.
        column: usize,
    },
    /// A field that is not an acceptable number.
    #[error("line {line}, column {column} ({name}): {text:?} is not a number {expected}")]
    BadNumber {
        /// Line.
        line: usize,
        /// Column, 1 the first.
        column: usize,
        /// Name of the column.
        name: String,
        /// The text found.
        text: String,
        /// The numbers allowed.
        expected: &'static str,
    },
    /// A row without a model.
    #[error("line {line}, column {column}: the model has no name")]
    NoModel {
        /// Line.
        line: usize,
        /// Column, 1 the first.
        column: usize,
    },
    /// A model twice in one benchmark.
    #[error("line {line}: {model:?} was already on line {first}")]
    RepeatedModel {
        /// Line of the second.
        line: usize,
        /// Line of the first.
        first: usize,
        /// The model.
        model: String,
    },
    /// Weights that are negative or not finite.
    #[error("the weights must be finite and not negative")]
    Weights,
}

const KNOWN: &str = "model, s1, s2, s3, d, bonus, benchmark, score \
                     (also s1_compilability, s2_test, s3_memory, bonus_wd_d)";

/// Scores and ranks a table in CSV.
///
/// The header names `model`, `s1`, `s2`, `s3` and either `d` (changed lines per function) or
/// `bonus` (the same times its weight, as the paper's table prints it); `benchmark` and `score`
/// may be there. Lines that begin with `#` and blank lines are left out. A model with fewer than
/// `minimum_lines` changed lines per function has no rank (with `bonus` and `wd` 0 that cannot be
/// told, and all are ranked).
///
/// # Errors
/// Any of [`RawError`], for the first thing that is wrong.
pub fn raw_table(
    text: &str,
    weights: Weights,
    minimum_lines: f64,
) -> Result<Vec<RawRow>, RawError> {
    if !weights.are_valid() {
        return Err(RawError::Weights);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (header_line, header) = lines.next().ok_or(RawError::Empty)?;
    let columns = Columns::read(header_line, &fields(header_line, header)?)?;
    let mut seen = BTreeMap::new();
    let mut rows = Vec::new();
    for (line, content) in lines {
        let row = columns.row(line, &fields(line, content)?, weights, minimum_lines)?;
        let key = (row.benchmark.clone(), row.model.clone());
        if let Some(first) = seen.insert(key, line) {
            return Err(RawError::RepeatedModel {
                line,
                first,
                model: row.model,
            });
        }
        rows.push(row);
    }
    rank(&mut rows);
    Ok(rows)
}

/// Where the columns are, and what they are called.
struct Columns {
    names: Vec<String>,
    model: usize,
    scores: [usize; 3],
    dissimilarity: usize,
    already_weighted: bool,
    benchmark: Option<usize>,
    stated: Option<usize>,
}

impl Columns {
    fn read(line: usize, names: &[String]) -> Result<Columns, RawError> {
        let mut found: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            let (column, name) = (index + 1, name.trim().to_owned());
            let meaning = match name.to_ascii_lowercase().as_str() {
                "model" => "model",
                "s1" | "s1_compilability" => "s1",
                "s2" | "s2_test" => "s2",
                "s3" | "s3_memory" => "s3",
                "d" => "d",
                "bonus" | "bonus_wd_d" => "bonus",
                "benchmark" => "benchmark",
                "score" => "score",
                _ => return Err(RawError::UnknownColumn { line, column, name }),
            };
            let twice = found.insert(meaning, index).is_some();
            if twice || (found.contains_key("d") && found.contains_key("bonus")) {
                return Err(RawError::RepeatedColumn { line, column, name });
            }
        }
        let need = |name| {
            found
                .get(name)
                .copied()
                .ok_or(RawError::MissingColumn { line, name })
        };
        Ok(Columns {
            names: names.to_vec(),
            model: need("model")?,
            scores: [need("s1")?, need("s2")?, need("s3")?],
            dissimilarity: need("d").or_else(|_| need("bonus")).map_err(|_| {
                RawError::MissingColumn {
                    line,
                    name: "d or bonus",
                }
            })?,
            already_weighted: found.contains_key("bonus"),
            benchmark: found.get("benchmark").copied(),
            stated: found.get("score").copied(),
        })
    }

    fn row(
        &self,
        line: usize,
        fields: &[String],
        weights: Weights,
        minimum_lines: f64,
    ) -> Result<RawRow, RawError> {
        if fields.len() != self.names.len() {
            return Err(RawError::FieldCount {
                line,
                found: fields.len(),
                expected: self.names.len(),
            });
        }
        let model = fields[self.model].trim().to_owned();
        if model.is_empty() {
            return Err(RawError::NoModel {
                line,
                column: self.model + 1,
            });
        }
        let [s1, s2, s3] = self
            .scores
            .map(|at| self.number(line, fields, at, 0.0, 100.0));
        let (s1, s2, s3) = (s1?, s2?, s3?);
        let given = self.number(line, fields, self.dissimilarity, 0.0, f64::MAX)?;
        let bonus = if self.already_weighted {
            given
        } else {
            given * weights.wd
        };
        let changed_lines = match self.already_weighted {
            false => Some(given),
            true => (weights.wd > 0.0).then(|| given / weights.wd),
        };
        let stated = match self.stated {
            Some(at) => Some(self.number(line, fields, at, f64::MIN, f64::MAX)?),
            None => None,
        };
        let mut chained = weights.chain(s1, s2, s3, 0.0);
        chained.score += bonus;
        let yardstick = model.eq_ignore_ascii_case("baseline")
            || model.to_ascii_lowercase().starts_with("calibration");
        let rank = if yardstick {
            Err(Unranked::Yardstick)
        } else if changed_lines.is_some_and(|d| d < minimum_lines) {
            Err(Unranked::HardlyEdits)
        } else {
            Ok(1)
        };
        let benchmark = self
            .benchmark
            .map(|at| fields[at].trim().to_owned())
            .unwrap_or_default();
        Ok(RawRow {
            line,
            benchmark,
            model,
            s1,
            s2,
            s3,
            bonus,
            chained,
            stated,
            rank,
        })
    }

    fn number(
        &self,
        line: usize,
        fields: &[String],
        at: usize,
        least: f64,
        most: f64,
    ) -> Result<f64, RawError> {
        let text = fields[at].trim();
        match text.parse::<f64>() {
            Ok(number) if number >= least && number <= most => Ok(number),
            _ => Err(RawError::BadNumber {
                line,
                column: at + 1,
                name: self.names[at].trim().to_owned(),
                text: text.to_owned(),
                expected: match (least, most) {
                    (0.0, 100.0) => "from 0 to 100",
                    (0.0, _) => "of 0 or more",
                    _ => "that is finite",
                },
            }),
        }
    }
}

/// The fields of a line: separated by commas, in double quotes where they hold one.
fn fields(line: usize, text: &str) -> Result<Vec<String>, RawError> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let column = fields.len() + 1;
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let mut field = String::new();
            let mut quoted = quoted;
            loop {
                let end = quoted.find('"').ok_or(RawError::Quotes { line, column })?;
                field.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                match quoted.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        quoted = more;
                    }
                    None => break,
                }
            }
            fields.push(field);
            quoted
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            fields.push(rest[..end].to_owned());
            &rest[end..]
        };
        if after.is_empty() {
            return Ok(fields);
        }
        rest = after
            .strip_prefix(',')
            .ok_or(RawError::Quotes { line, column })?;
    }
}

/// Ranks the rows that may have one, within their benchmark.
fn rank(rows: &mut [RawRow]) {
    let ranked: Vec<(String, f64)> = rows
        .iter()
        .filter(|row| row.rank.is_ok())
        .map(|row| (row.benchmark.clone(), row.chained.score))
        .collect();
    for row in rows.iter_mut().filter(|row| row.rank.is_ok()) {
        let better = ranked
            .iter()
            .filter(|(benchmark, score)| *benchmark == row.benchmark && *score > row.chained.score)
            .count();
        row.rank = Ok(better as u32 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(text: &str) -> Result<Vec<RawRow>, RawError> {
        raw_table(text, Weights::default(), 0.5)
    }

    #[test]
    fn the_papers_table_comes_out() {
        let rows = table(include_str!(
            "../../../fixtures/tables/oss-bench-table1.csv"
        ))
        .unwrap();
        assert_eq!(rows.len(), 27);
        for row in &rows {
            let stated = row.stated.expect("the fixture states scores");
            // Printed with one decimal; half a unit, and a hair for binary fractions.
            let error = (row.chained.score - stated).abs();
            assert!(
                error <= 0.05 + 1e-9,
                "{}: {} but printed {stated}",
                row.model,
                row.chained.score
            );
        }
        // The paper lists models from best to worst, the baseline last.
        let ranks: Vec<_> = rows.iter().map(|row| row.rank).collect();
        let expected: Vec<_> = (1..=17)
            .map(Ok)
            .chain([Err(Unranked::Yardstick)])
            .chain((1..=9).map(Ok))
            .collect();
        assert_eq!(ranks, expected);
    }

    #[test]
    fn lines_and_weighted_lines_give_one_score() {
        let with_d = table("model,s1,s2,s3,d\nm,90,80,70,25\n").unwrap();
        let with_bonus = table("bonus,model,s3,s2,s1\r\n2.5,\"m\",70,80,90").unwrap();
        assert!((with_d[0].chained.score - with_bonus[0].chained.score).abs() < 1e-12);
        assert!((with_d[0].chained.score - (90.0 + 72.0 + 50.4) / 3.0 - 2.5).abs() < 1e-12);
    }

    #[test]
    fn models_that_hardly_edit_have_no_rank_and_equal_ones_share_theirs() {
        let rows = table(
            "# comment\nmodel,s1,s2,s3,d\nlazy,100,100,100,0.4\na,50,50,50,1\n\n\"b, \"\"the\"\" model\",50,50,50,1\n\
             c,40,50,50,1\nCalibration-copy,100,100,100,0\n",
        )
        .unwrap();
        let ranks: Vec<_> = rows.iter().map(|row| row.rank).collect();
        assert_eq!(
            ranks,
            [
                Err(Unranked::HardlyEdits),
                Ok(1),
                Ok(1),
                Ok(3),
                Err(Unranked::Yardstick)
            ]
        );
        assert_eq!(
            (rows[2].model.as_str(), rows[2].line),
            ("b, \"the\" model", 6)
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        for (text, message) in [
            ("", "the table is empty"),
            ("# nothing\n\n", "the table is empty"),
            (
                "model,s1,s2,s3,dd\n",
                "line 1, column 5: unknown column \"dd\"",
            ),
            (
                "model,s1,s2,s1,d\n",
                "line 1, column 4: \"s1\" is there twice",
            ),
            (
                "model,s1,s2,s3,d,bonus\n",
                "line 1, column 6: \"bonus\" is there twice, or beside",
            ),
            ("#\nmodel,s1,s3,d\n", "line 2: there is no column s2"),
            ("model,s1,s2,s3\n", "line 1: there is no column d or bonus"),
            (
                "model,s1,s2,s3,d\nm,1,2,3\n",
                "line 2: 4 fields where the header has 5",
            ),
            (
                "model,s1,s2,s3,d\nm,1,2,101,0\n",
                "line 2, column 4 (s3): \"101\" is not a number from 0 to 100",
            ),
            (
                "model,s1,s2,s3,d\nm,1,NaN,3,0\n",
                "line 2, column 3 (s2): \"NaN\"",
            ),
            (
                "model,s1,s2,s3,d\nm,1,2,3,-1\n",
                "line 2, column 5 (d): \"-1\" is not a number of 0 or more",
            ),
            ("model,s1,s2,s3,d\nm,1,2,3,inf\n", "line 2, column 5"),
            (
                "model,s1,s2,s3,d\nm,1,2,,0\n",
                "line 2, column 4 (s3): \"\"",
            ),
            (
                "model,s1,s2,s3,d\n\"m,1,2,3,0\n",
                "line 2, column 1: the quotes",
            ),
            (
                "model,s1,s2,s3,d\n\"m\"x,1,2,3,0\n",
                "line 2, column 1: the quotes",
            ),
            (
                "model,s1,s2,s3,d\n ,1,2,3,0\n",
                "line 2, column 1: the model has no name",
            ),
            (
                "model,s1,s2,s3,d\nm,1,2,3,0\nm,1,2,3,0\n",
                "line 3: \"m\" was already on line 2",
            ),
        ] {
            let error = table(text).expect_err(text).to_string();
            assert!(
                error.starts_with(message),
                "{text:?} gives {error:?}, not {message:?}"
            );
        }
        let negative = Weights {
            w1: -1.0,
            ..Weights::default()
        };
        assert_eq!(
            raw_table("model,s1,s2,s3,d\n", negative, 0.5),
            Err(RawError::Weights)
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text in "(model,s1,s2,s3,d\n)?[a-z0-9,\"#.\n\r-]{0,80}") {
            if let Ok(rows) = table(&text) {
                prop_assert!(rows.iter().all(|row| row.chained.score.is_finite() || row.bonus > 1e300));
            }
        }
    }
}

//! Between two evaluations under different toolchains: which verdicts on the same text and the same
//! reply are the same. It says how far scores from before and after are on one scale.

use serde::Serialize;

use super::case::Outcome;
use super::history::{CaseLine, Summary};

/// What two toolchains say of the same cases.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Bridge {
    /// Cases that have a verdict under both: the same function with the same text, the same reply,
    /// whose text is another than the original.
    pub cases: u64,
    /// Of these, those with the same verdict.
    pub agree: u64,
    /// The others.
    pub flipped: Vec<Flip>,
    /// Iterations that replace the same functions under both, each with all of them among the cases.
    pub iterations: u64,
    /// Of these, those in which as many tests passed, of as many.
    pub same_tests: u64,
}

/// A verdict that is another one under the later toolchain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Flip {
    /// The model.
    pub model: String,
    /// The function.
    pub function: String,
    /// Whether the subject built with it before.
    pub built: bool,
}

/// Compares the verdicts of two evaluations, the earlier first. `same_reply` says of a model and a
/// function whether both rest on the same reply.
pub fn bridge(old: &Summary, new: &Summary, same_reply: &dyn Fn(&str, &str) -> bool) -> Bridge {
    let mut out = Bridge {
        cases: 0,
        agree: 0,
        flipped: Vec::new(),
        iterations: 0,
        same_tests: 0,
    };
    // Position in the earlier sample of each function of the later one, if its text is the same.
    let before: Vec<Option<usize>> = new
        .functions
        .iter()
        .map(|f| {
            let same = |g: &super::history::FunctionLine| g.id == f.id && g.text == f.text;
            old.functions.iter().position(same)
        })
        .collect();
    let judged = |case: &CaseLine| case.0 == Outcome::Code && case.2;
    for (model, cases) in &new.cases {
        let Some(earlier) = old.cases.get(model) else {
            continue;
        };
        let mut shared = vec![false; cases.len()];
        for (at, case) in cases.iter().enumerate() {
            let function = &new.functions[at].id;
            let Some(was) = before[at].map(|at| &earlier[at]) else {
                continue;
            };
            if !same_reply(model, function) {
                continue;
            }
            shared[at] = true;
            if !judged(case) || !judged(was) {
                continue;
            }
            out.cases += 1;
            match case.1 == was.1 {
                true => out.agree += 1,
                false => out.flipped.push(Flip {
                    model: model.clone(),
                    function: function.clone(),
                    built: was.1,
                }),
            }
        }
        for scoring in new.iterations.get(model).into_iter().flat_map(|m| m.keys()) {
            let rows = [old, new].map(|s| s.iterations_of(model, *scoring));
            for (was, is) in rows[0].iter().zip(rows[1]) {
                let drawn = is.drawn.iter().map(|at| *at as usize);
                let common = drawn.clone().all(|at| shared[at]);
                let mut there: Vec<Option<usize>> = drawn.map(|at| before[at]).collect();
                there.sort_unstable();
                let mut then: Vec<Option<usize>> =
                    was.drawn.iter().map(|at| Some(*at as usize)).collect();
                then.sort_unstable();
                if common && there == then {
                    out.iterations += 1;
                    let same = (was.passed, was.total) == (is.passed, is.total);
                    out.same_tests += u64::from(same);
                }
            }
        }
    }
    out
}

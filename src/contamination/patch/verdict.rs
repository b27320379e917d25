//! What is said of an instance: whether its patch was in the snapshot that training saw, since which
//! commit, by which hunk, and why.

use serde::Serialize;

use super::category::{Category, Stay, Window, category, stays};
use super::decide::{Presence, Reason, Thresholds};
use super::diff::LeftOut;
use super::walk::{Line, Problem, Walk};

/// Whether a patch was there at the cutoff.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was.
    Present,
    /// It was not.
    Absent,
    /// Nothing can be said.
    Unknown,
}

impl Verdict {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Present => "present",
            Verdict::Absent => "absent",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A commit with its day.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// When it was committed: `2019-05-15`.
    pub day: String,
}

/// Where the decision fell.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Where {
    /// The file, as the patch names it.
    pub path: String,
    /// The function, if it is one.
    pub function: Option<String>,
    /// The hunk's number in its file, from 1; nothing if the function or file is not there.
    pub hunk: Option<usize>,
    /// The file at the snapshot, if it is called otherwise.
    pub now: Option<String>,
    /// The line at which the hunk stands there; 0 if it does not.
    pub line: usize,
    /// How like the code after the patch it is, from 0 to 1.
    pub similarity: f64,
}

/// What is said of one instance.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Told {
    /// Whether its patch was there at the cutoff.
    pub verdict: Verdict,
    /// The temporal category.
    pub category: Option<Category>,
    /// In a few words, why.
    pub reason: String,
    /// What kept anything from being said.
    pub problem: Option<Problem>,
    /// The snapshot: the last commit until the cutoff.
    pub snapshot: Option<Commit>,
    /// The commit from which on it is so: for a patch that is there the one that brought it.
    pub commit: Option<Commit>,
    /// When the patch was there, by commits: introduced, and removed if it was.
    pub stays: Vec<(Commit, Option<Commit>)>,
    /// The hunk that is least there, which decides.
    pub decided: Option<Where>,
    /// What of the patch was not compared.
    pub left_out: Vec<(String, LeftOut)>,
    /// First-parent commits that touch one of its files.
    pub touching: usize,
    /// Who said so: the comparison of code, or the tests.
    pub by: &'static str,
}

/// The comparison decided.
pub const COMPARED: &str = "code";
/// The tests decided.
pub const TESTED: &str = "tests";

fn commit(line: &Line, at: usize) -> Option<Commit> {
    let (id, time) = line.commits.get(at)?;
    Some(Commit {
        id: id.clone(),
        day: crate::date::day(*time),
    })
}

/// What a walk means for whoever collected in this window.
pub fn told(walk: &Walk, line: &Line, window: &Window, thresholds: &Thresholds) -> Told {
    let mut told = Told::unknown(None);
    told.left_out.clone_from(&walk.left_out);
    told.touching = walk.touching;
    if let Some((problem, what)) = &walk.problem {
        return told.because(*problem, what);
    }
    let Some(snapshot) = line.snapshot(window.cutoff) else {
        return told.because(Problem::NoSnapshot, "");
    };
    told.snapshot = commit(line, snapshot);
    let states = walk.states(thresholds);
    let all = stays(&states);
    let between = |stay: &Stay| {
        let from = commit(line, stay.from)?;
        Some((from, stay.until.and_then(|at| commit(line, at))))
    };
    told.stays = all.iter().filter_map(between).collect();
    let Some(state) = states.iter().rev().find(|s| s.at <= snapshot) else {
        return told.because(Problem::NothingCompared, "");
    };
    let decision = &state.decision;
    let trail = &walk.trails[decision.site];
    let visit = trail.visits.iter().rev().find(|v| v.at <= snapshot);
    told.decided = Some(Where {
        path: trail.head.path.clone(),
        function: trail.head.function.clone(),
        hunk: decision.hunk.map(|h| h + 1),
        now: visit
            .map(|v| v.path.clone())
            .filter(|p| *p != trail.head.path),
        line: decision.line,
        similarity: decision.similarity,
    });
    told.reason = decision.reason.words().to_string();
    // Since when it has been so: back over states that say the same.
    let same = |presence: Presence| {
        let back = states.iter().rev().skip_while(|s| s.at > snapshot);
        back.take_while(|s| s.decision.presence == presence).last()
    };
    told.commit = same(decision.presence).and_then(|s| commit(line, s.at));
    told.verdict = match decision.presence {
        Presence::Present => Verdict::Present,
        Presence::Absent => Verdict::Absent,
        Presence::Unclear => Verdict::Unknown,
    };
    if told.verdict != Verdict::Unknown {
        told.category = category(&all, line, window);
    }
    // What is there is never said to be of a category that says it is not.
    debug_assert!(
        told.verdict != Verdict::Present
            || matches!(told.category, Some(Category::Persists | Category::Late))
    );
    if decision.reason == Reason::DeletedGone && decision.hunk.is_none() {
        told.reason = "what the patch removes is gone".into();
    }
    told
}

impl Told {
    /// Nothing can be said.
    pub fn unknown(problem: Option<Problem>) -> Told {
        Told {
            verdict: Verdict::Unknown,
            category: None,
            reason: problem.map_or(String::new(), |p| p.words().to_string()),
            problem,
            snapshot: None,
            commit: None,
            stays: Vec::new(),
            decided: None,
            left_out: Vec::new(),
            touching: 0,
            by: COMPARED,
        }
    }

    fn because(mut self, problem: Problem, what: &str) -> Told {
        self.problem = Some(problem);
        self.reason = match what.is_empty() {
            true => problem.words().to_string(),
            false => format!("{}: {what}", problem.words()),
        };
        self
    }
}

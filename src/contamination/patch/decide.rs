//! From numbers to what they mean: whether a hunk, and with all hunks a patch, is in a version. The
//! decision is contrastive: what is there must be like the code after the patch, more than like the
//! code before it, and have the lines that the patch adds.

use serde::{Deserialize, Serialize};

use super::measure::{Found, Measure, Seen};
use super::walk::Head;

/// From where on something counts as there.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Thresholds {
    /// Similarity to the block after the patch, at least (theta); calibrated for each embedder.
    pub similarity: f64,
    /// Share of the added lines, at least.
    pub containment: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            similarity: 0.7,
            containment: 0.7,
        }
    }
}

/// Whether something is in a version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The code is as before the patch, or gone.
    Absent,
    /// The code is like neither side.
    Unclear,
    /// It is there.
    Present,
}

/// Why a hunk is taken to be there or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Like the code after the patch, with the added lines.
    LikeAfter,
    /// What the patch takes away is gone, and what stands around it is there.
    DeletedGone,
    /// As like the code before the patch, or more.
    LikeBefore,
    /// Too little of the added lines is there.
    AddedMissing,
    /// The deleted lines are there.
    DeletedThere,
    /// Like neither side.
    Rewritten,
    /// The function is not there.
    FunctionGone,
    /// The file is not there.
    FileGone,
}

impl Reason {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::LikeAfter => "like the code after the patch, with its lines",
            Reason::DeletedGone => "the deleted lines are gone",
            Reason::LikeBefore => "as like the code before the patch, or more",
            Reason::AddedMissing => "too little of the added lines is there",
            Reason::DeletedThere => "the deleted lines are there",
            Reason::Rewritten => "like neither side of the patch",
            Reason::FunctionGone => "the function is not there",
            Reason::FileGone => "the file is not there",
        }
    }
}

/// What was decided of a hunk, or of all: that of the hunk which is least there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Whether it is there.
    pub presence: Presence,
    /// Why.
    pub reason: Reason,
    /// The site, by its number in the edit.
    pub site: usize,
    /// The hunk, by its number in its file; nothing if its function or file is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
    /// The similarity to the code after the patch.
    pub similarity: f64,
    /// At which line it stands, from 1; 0 if it does not.
    pub line: usize,
}

/// So like the code after the patch is only that code.
const EXACT: f64 = 0.98;

/// What a version says of one hunk.
pub fn hunk(m: &Measure, thresholds: &Thresholds) -> (Presence, Reason) {
    let like_after = m.after >= thresholds.similarity;
    let like_before = m.before >= thresholds.similarity;
    let added = m.added.is_none_or(|share| share >= thresholds.containment);
    // Of two lines that are the same, one of which goes, either is found.
    let exact = m.after >= EXACT;
    let still = !exact
        && m.added.is_none()
        && m.deleted
            .is_some_and(|share| share >= thresholds.containment);
    match m.after > m.before {
        true if like_after && added && !still => match m.added {
            Some(_) => (Presence::Present, Reason::LikeAfter),
            None => (Presence::Present, Reason::DeletedGone),
        },
        true if still && like_before => (Presence::Absent, Reason::DeletedThere),
        true if like_before && !added => (Presence::Absent, Reason::AddedMissing),
        true => (Presence::Unclear, Reason::Rewritten),
        false if like_before => (Presence::Absent, Reason::LikeBefore),
        // Of a block that is lost altogether nothing was kept.
        false
            if m.added
                .is_some_and(|share| share < 1.0 - thresholds.containment) =>
        {
            (Presence::Absent, Reason::AddedMissing)
        }
        false => (Presence::Unclear, Reason::Rewritten),
    }
}

/// What a version says of one site; `number` is the site's. `since_base` is whether the version is
/// not older than the base of the patch: before that, what a patch removes was not there yet.
pub fn site(
    head: &Head,
    number: usize,
    seen: &Seen,
    since_base: bool,
    thresholds: &Thresholds,
) -> Decision {
    let whole = |presence, reason| Decision {
        presence,
        reason,
        site: number,
        hunk: None,
        similarity: 0.0,
        line: 0,
    };
    let removed = head.removed && since_base;
    let gone = |reason| match removed {
        true => whole(Presence::Present, Reason::DeletedGone),
        false => whole(Presence::Absent, reason),
    };
    match &seen.found {
        Found::NoFile => return gone(Reason::FileGone),
        Found::Gone => return gone(Reason::FunctionGone),
        Found::Same | Found::Renamed(_) => {}
    }
    let decisions = seen.blocks.iter().map(|m| {
        let (presence, reason) = hunk(m, thresholds);
        Decision {
            presence,
            reason,
            site: number,
            hunk: Some(m.hunk),
            similarity: m.after,
            line: m.line,
        }
    });
    least(decisions).unwrap_or_else(|| whole(Presence::Absent, Reason::FunctionGone))
}

/// The decision of what is least there: a patch is there if all of it is.
pub fn least(decisions: impl IntoIterator<Item = Decision>) -> Option<Decision> {
    decisions.into_iter().reduce(|least, one| {
        let lower = (one.presence, one.similarity) < (least.presence, least.similarity);
        match lower {
            true => one,
            false => least,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(before: f64, after: f64, added: Option<f64>, deleted: Option<f64>) -> Measure {
        Measure {
            hunk: 0,
            before,
            after,
            added,
            deleted,
            line: 1,
            regions: [0..0, 0..0],
        }
    }

    fn decided(before: f64, after: f64, added: Option<f64>, deleted: Option<f64>) -> Presence {
        hunk(
            &measure(before, after, added, deleted),
            &Thresholds::default(),
        )
        .0
    }

    #[test]
    fn present_is_what_is_like_after_and_more_and_has_the_lines() {
        use Presence::*;
        assert_eq!(decided(0.8, 1.0, Some(1.0), Some(0.2)), Present);
        // Each of the three conditions alone takes it away.
        assert_ne!(decided(0.4, 0.6, Some(1.0), Some(0.2)), Present);
        assert_eq!(decided(0.9, 0.9, Some(1.0), Some(0.2)), Absent);
        assert_eq!(decided(0.8, 0.9, Some(0.6), Some(0.2)), Absent);
        assert_eq!(decided(1.0, 0.8, Some(0.3), Some(1.0)), Absent);
        assert_eq!(decided(0.3, 0.4, Some(0.9), None), Unclear);
    }

    #[test]
    fn a_deletion_is_there_when_the_lines_are_gone() {
        use Presence::*;
        assert_eq!(decided(0.8, 1.0, None, Some(0.1)), Present);
        assert_eq!(decided(1.0, 0.8, None, Some(1.0)), Absent);
        assert_eq!(decided(0.8, 0.9, None, Some(0.9)), Absent);
    }

    #[test]
    fn a_patch_is_there_if_all_hunks_are() {
        let one = |presence, site| Decision {
            presence,
            reason: Reason::LikeAfter,
            site,
            hunk: Some(0),
            similarity: 1.0,
            line: 1,
        };
        let all = [
            one(Presence::Present, 0),
            one(Presence::Absent, 1),
            one(Presence::Unclear, 2),
        ];
        assert_eq!(least(all).map(|d| d.site), Some(1));
        assert_eq!(least([]), None);
    }
}

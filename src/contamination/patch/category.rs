//! When a patch was in its repository, against when training data was collected: the four categories
//! of BenchChecker, and a fifth for what came later.

use serde::{Deserialize, Serialize};

use super::decide::Presence;
use super::walk::{Line, State};

/// When training data was collected, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// When collecting began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The model's cutoff, not before the end.
    pub cutoff: i64,
}

impl Window {
    /// What is assumed where only a cutoff is known: collecting took the year before it.
    pub fn before(cutoff: i64) -> Window {
        Window {
            start: cutoff - 365 * 86_400,
            end: cutoff,
            cutoff,
        }
    }
}

/// How the life of a patch and the collection overlap. Written by its number, as in the paper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Category {
    /// Introduced before collecting ended, and there at the cutoff.
    Persists = 1,
    /// Introduced between the end of collecting and the cutoff, and there at the cutoff.
    Late = 2,
    /// Removed again while data was collected.
    RemovedWithin = 3,
    /// Removed again before data was collected.
    RemovedBefore = 4,
    /// Introduced after that, or never.
    After = 5,
}

impl From<Category> for u8 {
    fn from(category: Category) -> u8 {
        category as u8
    }
}

impl TryFrom<u8> for Category {
    type Error = String;

    fn try_from(number: u8) -> Result<Category, String> {
        let all = [
            Category::Persists,
            Category::Late,
            Category::RemovedWithin,
            Category::RemovedBefore,
            Category::After,
        ];
        let found = all.into_iter().find(|c| *c as u8 == number);
        found.ok_or_else(|| format!("{number} is no category: 1 to 5"))
    }
}

impl Category {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Category::Persists => "introduced before the collection ended, there at the cutoff",
            Category::Late => "introduced between the collection's end and the cutoff",
            Category::RemovedWithin => "removed while data was collected",
            Category::RemovedBefore => "removed before data was collected",
            Category::After => "introduced after the cutoff, or never",
        }
    }
}

/// A stretch of the line in which a patch is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stay {
    /// The position at which it was introduced.
    pub from: usize,
    /// The position at which it was removed; nothing if it is still there.
    pub until: Option<usize>,
}

/// When the patch was there. While it is unclear it is taken to be what it was.
pub fn stays(states: &[State]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    let mut open = false;
    for state in states {
        match (state.decision.presence, open) {
            (Presence::Present, false) => {
                stays.push(Stay {
                    from: state.at,
                    until: None,
                });
                open = true;
            }
            (Presence::Absent, true) => {
                if let Some(stay) = stays.last_mut() {
                    stay.until = Some(state.at);
                }
                open = false;
            }
            _ => {}
        }
    }
    stays
}

/// The category of a patch with these stays; nothing without a snapshot at the cutoff.
pub fn category(stays: &[Stay], line: &Line, window: &Window) -> Option<Category> {
    let snapshot = line.snapshot(window.cutoff)?;
    let end = line.snapshot(window.end);
    let start = line.snapshot(window.start);
    // By positions, so that a commit with a wrong clock is where it is in the line.
    let at_cutoff = |stay: &&Stay| stay.from <= snapshot && stay.until.is_none_or(|u| u > snapshot);
    if let Some(stay) = stays.iter().find(at_cutoff) {
        return Some(match end.is_some_and(|end| stay.from <= end) {
            true => Category::Persists,
            false => Category::Late,
        });
    }
    let ended: Vec<(usize, usize)> = stays
        .iter()
        .filter_map(|stay| Some((stay.from, stay.until?)))
        .filter(|(_, until)| *until <= snapshot)
        .collect();
    // Whoever began to collect saw the tree as it was then: what was removed later was in it.
    let within = |(from, until): &(usize, usize)| {
        end.is_some_and(|end| *from <= end) && start.is_none_or(|start| *until > start)
    };
    let before = |(_, until): &(usize, usize)| start.is_some_and(|start| *until <= start);
    Some(if ended.iter().any(within) {
        Category::RemovedWithin
    } else if ended.iter().any(before) {
        Category::RemovedBefore
    } else {
        Category::After
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(n: i64) -> Line {
        Line {
            commits: (0..n).map(|t| (t.to_string(), t * 10)).collect(),
        }
    }

    const WINDOW: Window = Window {
        start: 30,
        end: 60,
        cutoff: 80,
    };

    fn of(stays: &[(usize, Option<usize>)]) -> Option<u8> {
        let stays: Vec<Stay> = stays
            .iter()
            .map(|(from, until)| Stay {
                from: *from,
                until: *until,
            })
            .collect();
        category(&stays, &line(12), &WINDOW).map(u8::from)
    }

    #[test]
    fn the_categories_of_the_paper() {
        assert_eq!(of(&[(5, None)]), Some(1));
        assert_eq!(of(&[(7, None)]), Some(2));
        assert_eq!(of(&[(1, Some(5))]), Some(3));
        assert_eq!(of(&[(1, Some(3))]), Some(4));
        assert_eq!(of(&[(9, None)]), Some(5));
        assert_eq!(of(&[]), Some(5));
        // Taken away after the cutoff it was there at the cutoff.
        assert_eq!(of(&[(5, Some(9))]), Some(1));
        // Put back in time.
        assert_eq!(of(&[(1, Some(3)), (5, None)]), Some(1));
        assert_eq!(of(&[(7, Some(8))]), Some(5));
        let early = Window {
            cutoff: -1,
            ..WINDOW
        };
        assert_eq!(category(&[], &line(3), &early), None);
    }

    proptest! {
        /// The oracle looks at each day whether the patch is there.
        #[test]
        fn categories_are_what_counting_days_gives(
            flags in prop::collection::vec(any::<bool>(), 1..14),
            (a, b, c) in (0_usize..14, 0_usize..14, 0_usize..14),
        ) {
            let n = flags.len();
            let mut ends = [a.min(n - 1), b.min(n - 1), c.min(n - 1)];
            ends.sort_unstable();
            let [start, end, cutoff] = ends;
            let window = Window { start: start as i64 * 10, end: end as i64 * 10, cutoff: cutoff as i64 * 10 };
            let mut stays: Vec<Stay> = Vec::new();
            for at in 0..n {
                let was = at > 0 && flags[at - 1];
                match (was, flags[at]) {
                    (false, true) => stays.push(Stay { from: at, until: None }),
                    (true, false) => stays.last_mut().unwrap().until = Some(at),
                    _ => {}
                }
            }
            let there = |range: std::ops::Range<usize>| range.into_iter().any(|at| flags[at]);
            let expected = if flags[cutoff] {
                // The last introduction counts.
                let from = (0..=cutoff).rev().take_while(|at| flags[*at]).last().unwrap();
                if from <= end { 1 } else { 2 }
            } else if there(start..end + 1) {
                3
            } else if there(0..start) {
                4
            } else {
                5
            };
            prop_assert_eq!(category(&stays, &line(n as i64), &window).map(u8::from), Some(expected));
        }
    }
}

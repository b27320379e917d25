//! OSS-Bench: from a subject and models to scores. Pure: queries over the store's facts, and the
//! arithmetic at their end.
//!
//! `inputs` are set by the application; `population`, `case`, `suite`, `baseline`, `iteration` and
//! `leaderboard` are the queries, in the order in which they build on each other; `jobs` derives
//! what they demand, `artifact` and `compiled` say what comes back, `layout` where things are in the
//! sandbox; `places` which lines of which files alerts mean; `carry` keeps iterations of an earlier
//! commit; `extractors` puts the two ways to find functions side by side; `check` is about the
//! subject itself, `outlook` about what an evaluation lacks,
//! `changes` how two jobs differ, `upstream` how the unchanged tests do; `shown` is what a task shows a model of a function, `metrics` what is measured
//! beside the three
//! of the benchmark; `dissimilarity` and `scoring` are arithmetic.

pub mod artifact;
pub mod baseline;
pub mod bridge;
pub mod carry;
pub mod case;
pub mod changes;
pub mod check;
pub mod compiled;
pub mod dissimilarity;
pub mod environment;
pub mod extractors;
pub mod history;
pub mod inputs;
pub mod iteration;
pub mod jobs;
pub mod layout;
pub mod leaderboard;
pub mod metrics;
pub mod outlook;
mod places;
pub mod population;
pub mod reach;
pub mod reads;
pub mod scoring;
pub mod seen;
pub mod shown;
pub mod suite;
pub mod upstream;

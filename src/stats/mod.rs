//! Statistics: pinned random numbers, intervals for rates and means, and the weighted bootstrap.
//!
//! Everything here is pure and deterministic: the same input gives the same bits, on any number
//! of threads. Random numbers come from counters, never from a generator with a state.
//!
//! * [`mix`]: hashes and random numbers from counters, pinned for ever;
//! * [`interval`]: Wilson, Clopper-Pearson and Student's t;
//! * [`cluster`]: means and paired differences of clustered items;
//! * [`bootstrap`]: shared weights, percentile intervals, ranks and groups;
//! * [`hits`]: how likely hits are by luck alone, weighted, exact and overdispersed;
//! * [`roc`]: how well a score tells two groups apart;
//! * [`compare`]: exact and permutation tests, corrections for many comparisons, power, pass@k.

pub mod bootstrap;
pub mod cluster;
pub mod compare;
pub mod hits;
pub mod interval;
pub mod mix;
pub mod roc;

pub use interval::Interval;

/// Why a statistic cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// More successes than trials.
    #[error("{successes} successes of {trials} trials: successes cannot exceed trials")]
    MoreSuccessesThanTrials {
        /// Successes given.
        successes: u64,
        /// Trials given.
        trials: u64,
    },
    /// A parameter outside its range.
    #[error("{name} is {value}, but must be {expected}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed.
        expected: &'static str,
    },
    /// No items, clusters or replicates to compute from.
    #[error("there are no {what} to compute from")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
    /// Two lists that must be parallel are not.
    #[error("{left_name} has {left} entries but {right_name} has {right}: they must be parallel")]
    LengthMismatch {
        /// Name of the first list.
        left_name: &'static str,
        /// Its length.
        left: usize,
        /// Name of the second list.
        right_name: &'static str,
        /// Its length.
        right: usize,
    },
    /// An item without a cluster.
    #[error("item {index} has no cluster: give every item a cluster, or each its own")]
    MissingCluster {
        /// Position of the item.
        index: usize,
    },
    /// A value that is not a finite number.
    #[error("item {index} is {value}, which is not a finite number")]
    NotFinite {
        /// Position of the item.
        index: usize,
        /// The value.
        value: f64,
    },
}

/// Checks a confidence level, such as 0.95.
pub(crate) fn check_confidence(confidence: f64) -> Result<(), StatsError> {
    if confidence > 0.0 && confidence < 1.0 {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        name: "confidence",
        value: confidence,
        expected: "between 0 and 1, both excluded",
    })
}

/// Checks that every value is a finite number.
pub(crate) fn check_finite(values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::NotFinite {
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

//! (being built)

pub mod dissimilarity;

//! (being built)

pub mod dissimilarity;
pub mod scoring;

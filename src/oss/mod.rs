//! OSS-Bench: from a subject and models to scores. Pure.

pub mod artifact;

//! Stage II of contamination, the pure part: was the patch of an instance in a version of its
//! repository?

pub mod align;
pub mod benchmark;
pub mod calibrate;
pub mod category;
pub mod course;
pub mod decide;
pub mod diff;
pub mod edit;
pub mod edit_distance;
pub mod embed;
pub mod follow;
pub mod gumtree;
pub mod jobs;
pub mod joint;
pub mod leaderboard;
pub mod measure;
pub mod source;
pub mod splice;
pub mod tree;
pub mod verdict;
pub mod walk;

//! What people and programs read: rows with scores, as JSON and as tables. Pure: values in, text
//! or JSON out; nothing is printed here.

mod aggregate;
mod board;
mod changes;
mod check;
mod plan;
mod table;

pub use aggregate::AggregateRow;
pub use board::{BaselineSummary, Leaderboard, PlacedRow, RankNote, SubjectSummary, leaderboard};
pub use changes::{Changed, changes, details, record, said};
pub use check::{SubjectCheck, check, check_text};
pub use plan::{Group, ModelPlan, PlanDoc, SCHEMA as PLAN_SCHEMA, StageDoc, SubjectPlan};
pub use table::{Style, counts, text};

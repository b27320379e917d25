//! What people and programs read: rows with scores, as JSON and as tables. Pure: values in, text
//! or JSON out; nothing is printed here.

mod aggregate;
mod board;
mod carry;
mod check;
mod plan;
mod table;

pub use aggregate::AggregateRow;
pub use board::{BaselineSummary, Leaderboard, PlacedRow, RankNote, SubjectSummary, leaderboard};
pub use carry::{CarrySummary, StaleRow};
pub use check::{SubjectCheck, check, check_text};
pub use plan::{PLAN_SCHEMA, PlanDoc, plan, plan_text};
pub use table::{Style, counts, text};

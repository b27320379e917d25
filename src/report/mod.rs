//! What people and programs read: rows with scores, as JSON and as tables. Pure: values in, text
//! or JSON out; nothing is printed here.

mod aggregate;
mod beside;
mod board;
mod carry;
mod check;
mod history;
mod known;
mod naming;
mod patches;
mod plan;
mod presence;
mod since;
mod table;
mod tosss;
mod upstream;

pub use aggregate::AggregateRow;
pub use beside::{BESIDE_SCHEMA, Beside, RowBeside, beside, beside_text};
pub use board::{BaselineSummary, Leaderboard, PlacedRow, RankNote, SubjectSummary, leaderboard};
pub use carry::{CarrySummary, StaleRow};
pub use check::{SubjectCheck, check, check_text};
pub use history::{
    HISTORY_SCHEMA, RetiredRow, SinceRow, SubjectHistory, history, history_text, retired_rows,
    since_text,
};
pub use known::{KNOWN_SCHEMA, known, known_text};
pub use naming::{NAMING_SCHEMA, naming_json, naming_text};
pub use patches::{PATCHES_SCHEMA, Patches, patches_json, patches_text};
pub use plan::{PLAN_SCHEMA, PlanDoc, plan, plan_text};
pub use presence::{PRESENCE_SCHEMA, presence_evidence, presence_json, presence_text};
pub use since::{SINCE_SCHEMA, Since, since};
pub use table::{Style, counts, text};
pub use tosss::{
    TOSSS_SCHEMA, side_by_side, tosss_clean_text, tosss_json, tosss_report_json, tosss_report_text,
    tosss_text,
};
pub use upstream::{BrokenSubject, broken_line};

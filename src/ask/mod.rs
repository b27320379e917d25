//! What a model is asked and what is read out of its answer. A pure room: no network, no files.
//!
//! - [`prompt`]: tasks and their templates, rendered to a system and a user text.
//! - [`request`]: the canonical request, every parameter that can change the answer, as a job.
//! - [`reply`]: the stored reply, and the code in it.
//! - [`prices`]: what tokens cost.
//! - [`wire`]: the request and the reply as each provider's API writes them.
//! - [`text`]: between a source file's bytes and text.
//!
//! Sending a request is another room's work; what this room gives it is the job alone.

pub mod prices;
pub mod prompt;
pub mod reply;
pub mod request;
pub mod text;
pub mod wire;

pub use prompt::{Rendered, Shows, Task, Template, TemplateError, task, tasks};
pub use reply::{Note, Outcome, Reply, ReplyContext, Stop, Usage, Why, extract, extract_reply};
pub use request::{Answerer, COMPLETION, NotARequest, Request, Sampling, Thinking};
pub use text::{decode, encode_like};

//! Models over HTTP against a server that fails in every way that servers fail in: what becomes of each
//! request, how often it is sent, what is logged, and that nothing is stored that is no answer.
//! Then the program as a whole: killed, out of money, without a network.

mod batches;
mod commands;
mod contamination;
mod faults;
mod harness;
mod known;
mod program;
mod provider;
mod server;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "it serves the tests of the commands too")]
mod support;
mod tosss;

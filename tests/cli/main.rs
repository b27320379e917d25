//! The program from outside: real commands on our own small library, in folders of their own. One
//! module per promise; `support` has the shared project that was run once.

mod bad_input;
mod beside;
mod carry;
mod commands;
mod contract;
mod damage;
mod disk;
mod extractors;
mod facts;
mod forged;
mod git_server;
mod history;
mod interruption;
mod live;
mod patches;
mod promise;
mod real_model;
mod release;
mod seams;
mod several;
mod sources;
mod store;
mod subjects;
mod support;
mod tosss;
mod upstream;
mod versions;

//! Verdicts against the truth: every way in which a variant can fail to build, or build oddly, is
//! decided twice, by replaying the touched commands and by the subject's own full build, with the
//! real compiler in the real sandbox. And what hostile variants get when they compile or run:
//! typed outcomes in their own iterations, and nothing else.

mod agree;
mod bombs;
mod clang;
mod cpp;
mod environment;
mod hostile;
mod placeless;
mod shapes;
mod strict;
mod suite;
mod support;

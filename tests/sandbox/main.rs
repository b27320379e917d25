//! What hostile programs may try, and what must come of it: a typed status, an unharmed host, and
//! no process left. Runs real programs in the real sandbox, once with control groups (where the
//! machine lets us make them) and once with the watcher that stands in for them.

mod confines;
mod ends;
mod limits;
mod support;

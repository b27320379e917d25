//! The money that may be spent: by a run, and by each model in this store. What a request can cost at
//! worst is reserved before it is sent, and given back when its reply says what it did cost. All
//! amounts are millionths of a dollar.

use std::sync::{Mutex, PoisonError};

/// An account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    cap: Option<u64>,
    spent: u64,
    reserved: u64,
}

impl Account {
    fn takes(&self, worst: u64) -> bool {
        self.cap
            .is_none_or(|cap| self.spent + self.reserved + worst <= cap)
    }
}

/// Whether a request may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// It may: its worst case is reserved.
    Yes,
    /// Not before others have said what they cost.
    Wait,
    /// No: this account is at its end.
    No(Limit),
}

/// Whose money is at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The run's.
    Run {
        /// What may be spent.
        cap: u64,
        /// What is.
        spent: u64,
    },
    /// The model's.
    Model {
        /// What may be spent.
        cap: u64,
        /// What is, in all runs.
        spent: u64,
    },
}

/// All accounts; models by their number.
#[derive(Debug)]
pub(super) struct Purse(Mutex<Accounts>);

#[derive(Debug)]
struct Accounts {
    run: Account,
    models: Vec<Account>,
    waits: bool,
}

impl Purse {
    /// Accounts for a run and for each model: what it may spend and what it has spent before.
    pub(super) fn new(
        run: Option<u64>,
        models: impl IntoIterator<Item = (Option<u64>, u64)>,
    ) -> Purse {
        let account = |(cap, spent)| Account {
            cap,
            spent,
            reserved: 0,
        };
        Purse(Mutex::new(Accounts {
            run: account((run, 0)),
            models: models.into_iter().map(account).collect(),
            waits: false,
        }))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Accounts) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for the worst case of a request.
    pub(super) fn reserve(&self, model: usize, worst: u64) -> Grant {
        self.with(|all| {
            let (run, own) = (all.run, all.models[model]);
            if run.takes(worst) && own.takes(worst) {
                all.run.reserved += worst;
                all.models[model].reserved += worst;
                return Grant::Yes;
            }
            let limit = match run.takes(worst) {
                true => Limit::Model {
                    cap: own.cap.unwrap_or_default(),
                    spent: own.spent,
                },
                false => Limit::Run {
                    cap: run.cap.unwrap_or_default(),
                    spent: run.spent,
                },
            };
            let reserved = match limit {
                Limit::Run { .. } => run.reserved,
                Limit::Model { .. } => own.reserved,
            };
            if reserved > 0 {
                all.waits = true;
                return Grant::Wait;
            }
            Grant::No(limit)
        })
    }

    /// Reserves for a request that was sent by an earlier process: it costs what it costs.
    pub(super) fn owe(&self, model: usize, worst: u64) {
        self.with(|all| {
            all.run.reserved += worst;
            all.models[model].reserved += worst;
        });
    }

    /// Gives a reservation back, and takes what was really spent. True if somebody waits for that.
    pub(super) fn settle(&self, model: usize, reserved: u64, spent: u64) -> bool {
        self.with(|all| {
            let own = &mut all.models[model];
            for account in [&mut all.run, own] {
                account.reserved -= reserved;
                account.spent += spent;
            }
            std::mem::take(&mut all.waits)
        })
    }

    /// What the run has spent, and what it may.
    pub(super) fn run(&self) -> (u64, Option<u64>) {
        self.with(|all| (all.run.spent, all.run.cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_waits_for_those_under_way_and_is_refused_when_there_are_none() {
        let purse = Purse::new(Some(100), [(None, 0), (Some(50), 20)]);
        assert_eq!(purse.reserve(0, 60), Grant::Yes);
        assert_eq!(purse.reserve(0, 60), Grant::Wait);
        // It cost less than the worst.
        assert!(purse.settle(0, 60, 10));
        assert_eq!(purse.reserve(0, 60), Grant::Yes);
        assert!(!purse.settle(0, 60, 60));
        let limit = Limit::Run {
            cap: 100,
            spent: 70,
        };
        assert_eq!(purse.reserve(0, 31), Grant::No(limit));
        // The model has spent 20 in earlier runs.
        let purse = Purse::new(None, [(None, 0), (Some(50), 20)]);
        let limit = Limit::Model { cap: 50, spent: 20 };
        assert_eq!(purse.reserve(1, 31), Grant::No(limit));
        assert_eq!(purse.reserve(1, 30), Grant::Yes);
    }

    proptest! {
        /// Whatever the order of requests and replies, nobody spends more than he may, as long as
        /// no request costs more than its worst case.
        #[test]
        fn no_cap_is_passed(
            cap in 0u64..500,
            steps in prop::collection::vec((0usize..2, 1u64..100, 0u64..100, any::<bool>()), 1..80),
        ) {
            let purse = Purse::new(Some(cap), [(Some(cap / 2), 0), (None, 0)]);
            let mut under_way: Vec<(usize, u64, u64)> = Vec::new();
            let mut spent = [0u64; 2];
            for (model, worst, really, answer_first) in steps {
                if answer_first && !under_way.is_empty() {
                    let (model, worst, really) = under_way.remove(0);
                    purse.settle(model, worst, really);
                    spent[model] += really;
                }
                match purse.reserve(model, worst) {
                    Grant::Yes => under_way.push((model, worst, really.min(worst))),
                    Grant::Wait => prop_assert!(!under_way.is_empty()),
                    Grant::No(_) => {}
                }
                prop_assert!(spent[0] + spent[1] <= cap && spent[0] <= cap / 2);
                prop_assert_eq!(purse.run(), (spent[0] + spent[1], Some(cap)));
            }
        }
    }
}

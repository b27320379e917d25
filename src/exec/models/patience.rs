//! What a failed attempt calls for: another one and when, a pause of the whole model, or the end. The
//! only place that decides about trying again; pure arithmetic on faults, counts and a clock that
//! is given.

use std::time::Duration;

use super::client::SendError;
use crate::ask::wire::{Fault, Malformed, RateLimits, Remedy};
use crate::digest::Digest;
use crate::job::Key;

/// How often and how long is waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Attempts per request; waiting out a rate limit is none.
    pub tries: u32,
    /// The wait before the second attempt is up to this; it doubles with each further one.
    pub base: Duration,
    /// No wait that is not the provider's wish is longer.
    pub most: Duration,
    /// A provider that wants to be left alone for longer is left alone for this run.
    pub longest_pause: Duration,
    /// After so many failures one after another, without a success in between, a model is left
    /// alone for this run; after four times as many if it only says that it is asked too much.
    pub in_a_row: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            tries: 6,
            base: Duration::from_millis(500),
            most: Duration::from_secs(60),
            longest_pause: Duration::from_secs(300),
            in_a_row: 8,
        }
    }
}

/// Why an attempt gave nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The server said something else than an answer.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Nothing came, or not all of it.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl Trouble {
    /// Whether the same request would always meet it.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Trouble::Fault(fault) => fault.remedy() != Remedy::Retry,
            Trouble::Send(e) => matches!(e, SendError::Request(_)),
        }
    }

    /// Whether asking less at once may help.
    pub(super) fn is_too_much(&self) -> bool {
        matches!(
            self,
            Trouble::Fault(
                Fault::RateLimited { .. } | Fault::Overloaded { .. } | Fault::TimedOut { .. }
            ) | Trouble::Send(SendError::TimedOut { .. })
        )
    }
}

/// What to do now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Ask again after this.
    Again(Duration),
    /// Ask nothing of this model for so long, then this again; and fewer at once.
    Pause(Duration),
    /// Give this request up: what and how to mend it.
    StopRequest { help: &'static str },
    /// Give the model up for this run: it may be better in another one.
    Later,
    /// Give the model up: somebody has to mend something.
    StopModel { help: &'static str },
}

/// How it went so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Attempts of this request that failed, this one included; waits for a rate limit left out.
    pub(super) tries: u32,
    /// Failures of the model without a success in between, this one included.
    pub(super) in_a_row: u32,
    /// Whether the model ever answered in this run.
    pub(super) ever_answered: bool,
}

impl Patience {
    /// What `trouble` calls for, at `now` (milliseconds after 1970 began).
    pub(super) fn next(&self, trouble: &Trouble, record: Record, key: &Key, now: u64) -> Next {
        let again = || {
            if record.in_a_row >= self.in_a_row {
                Next::Later
            } else if record.tries >= self.tries {
                Next::StopRequest {
                    help: "run it again later; `everbench store attempts` lists what was tried",
                }
            } else {
                Next::Again(self.backoff(record.tries, key))
            }
        };
        let fault = match trouble {
            Trouble::Send(SendError::Request(_)) => {
                return Next::StopModel {
                    help: "mend the model's address or headers in everbench.toml",
                };
            }
            Trouble::Send(_) => return again(),
            Trouble::Fault(fault) => fault,
        };
        let asked_for = fault.limits().and_then(|limits| wait_of(limits, now));
        match (fault.remedy(), fault) {
            (Remedy::StopModel, Fault::Unauthorized { .. }) => Next::StopModel {
                help: "check the key that the model's `key-env` or `key-file` names, and what it is allowed to do",
            },
            (Remedy::StopModel, Fault::NotFound { .. }) => Next::StopModel {
                help: "check the model's name and `base-url` in everbench.toml; `everbench models check` asks one small question",
            },
            (Remedy::StopModel, Fault::Redirected { .. }) => Next::StopModel {
                help: "give the address that it names as `base-url`, if you trust it: a key is not sent to another host unasked",
            },
            (Remedy::StopModel, _) => Next::StopModel {
                help: "wait for the quota or buy credit, then run again: what was answered is kept",
            },
            (Remedy::StopRequest, _) => match record.ever_answered || record.in_a_row < 3 {
                true => Next::StopRequest {
                    help: "mend what the provider names in the model's settings in everbench.toml",
                },
                // Nothing of what was asked is understood: the settings are at fault.
                false => Next::StopModel {
                    help: "mend what the provider names in the model's settings in everbench.toml",
                },
            },
            (Remedy::Retry, Fault::RateLimited { .. }) => {
                // A model that is always limited is not waited for without end.
                if record.in_a_row >= 4 * self.in_a_row {
                    return Next::Later;
                }
                match asked_for {
                    Some(wait) if wait > self.longest_pause => Next::StopModel {
                        help: "wait for the quota or raise it, then run again: what was answered is kept",
                    },
                    Some(wait) => Next::Pause(wait),
                    None => Next::Pause(self.backoff(record.in_a_row, key)),
                }
            }
            (Remedy::Retry, Fault::Overloaded { .. }) => match again() {
                Next::Again(backoff) => Next::Pause(
                    asked_for
                        .filter(|wait| *wait <= self.longest_pause)
                        .unwrap_or(backoff),
                ),
                end => end,
            },
            // The same prompt would get the same page for people: something stands in between.
            (Remedy::Retry, Fault::Malformed(Malformed::Html)) if !record.ever_answered => {
                match again() {
                    Next::StopRequest { .. } => Next::StopModel {
                        help: "check `base-url` in everbench.toml: a page for people answers there, not an API",
                    },
                    other => other,
                }
            }
            (Remedy::Retry, _) => match (again(), asked_for) {
                (Next::Again(backoff), Some(wait)) if wait <= self.longest_pause => {
                    Next::Again(backoff.max(wait))
                }
                (next, _) => next,
            },
        }
    }

    /// A wait drawn from 0 to twice the last one's bound, so that many that failed together do not
    /// come again together.
    fn backoff(&self, failed: u32, key: &Key) -> Duration {
        let doubled = 2u32.checked_pow(failed.saturating_sub(1).min(20));
        let bound = doubled
            .and_then(|times| self.base.checked_mul(times))
            .map_or(self.most, |bound| bound.min(self.most));
        let draw = Digest::of(&[key.0.0.as_slice(), &failed.to_le_bytes()].concat());
        let part = u32::from_le_bytes([draw.0[0], draw.0[1], draw.0[2], draw.0[3]]);
        bound.mul_f64(f64::from(part) / f64::from(u32::MAX))
    }
}

/// How long a provider wants to be left alone.
fn wait_of(limits: &RateLimits, now: u64) -> Option<Duration> {
    if let Some(when) = limits.retry_after {
        return Some(when.wait(now));
    }
    spent_until(limits, now)
}

/// How long until there is something left of the limit that is used up; nothing if none is.
pub(super) fn spent_until(limits: &RateLimits, now: u64) -> Option<Duration> {
    [
        limits.requests,
        limits.tokens,
        limits.input_tokens,
        limits.output_tokens,
    ]
    .iter()
    .filter(|limit| limit.remaining == Some(0))
    .filter_map(|limit| limit.reset)
    .map(|when| when.wait(now))
    .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::wire::When;

    const P: Patience = Patience {
        tries: 3,
        base: Duration::from_millis(100),
        most: Duration::from_millis(1000),
        longest_pause: Duration::from_secs(60),
        in_a_row: 10,
    };

    fn key(n: u8) -> Key {
        Key(Digest::of(&[n]))
    }

    fn record(tries: u32, in_a_row: u32) -> Record {
        Record {
            tries,
            in_a_row,
            ever_answered: true,
        }
    }

    fn limited(retry_after: Option<When>) -> Trouble {
        Trouble::Fault(Fault::RateLimited {
            message: "slow down".into(),
            limits: Box::new(RateLimits {
                retry_after,
                ..RateLimits::default()
            }),
        })
    }

    fn server(status: u16) -> Trouble {
        Trouble::Fault(Fault::Server {
            status,
            message: "oops".into(),
            limits: Box::default(),
        })
    }

    #[test]
    fn waits_double_up_to_a_bound_and_are_spread_over_all_of_it() {
        for (failed, bound) in [(1, 100), (2, 200), (4, 800), (5, 1000), (30, 1000)] {
            let waits: Vec<u128> = (0..200)
                .map(|n| P.backoff(failed, &key(n)).as_millis())
                .collect();
            assert!(waits.iter().all(|w| *w <= bound));
            // A quarter of the draws or so is in each quarter.
            for quarter in 0..4 {
                let (from, to) = (bound * quarter / 4, bound * (quarter + 1) / 4);
                let here = waits.iter().filter(|w| **w >= from && **w <= to).count();
                assert!(here > 25, "{failed}: {here} of 200 from {from} to {to}");
            }
        }
    }

    #[test]
    fn a_request_is_given_up_after_its_tries_and_a_model_after_many_in_a_row() {
        let next = |tries, in_a_row| P.next(&server(500), record(tries, in_a_row), &key(1), 0);
        assert!(matches!(next(1, 1), Next::Again(_)));
        assert!(matches!(next(2, 2), Next::Again(_)));
        assert!(matches!(next(3, 3), Next::StopRequest { .. }));
        assert_eq!(next(1, 10), Next::Later);
    }

    #[test]
    fn a_short_limit_pauses_for_as_long_as_is_said_and_a_long_one_stops() {
        let next = |when| P.next(&limited(when), record(0, 1), &key(1), 1_000_000);
        let pause = |ms| Next::Pause(Duration::from_millis(ms));
        assert_eq!(next(Some(When::In(Duration::from_secs(7)))), pause(7000));
        assert_eq!(next(Some(When::At(1_005_000))), pause(5000));
        // The date is past already: at once.
        assert_eq!(next(Some(When::At(5))), pause(0));
        assert!(matches!(next(None), Next::Pause(_)));
        assert!(matches!(
            next(Some(When::In(Duration::from_secs(3600)))),
            Next::StopModel { .. }
        ));
        // Not for ever.
        assert_eq!(
            P.next(&limited(None), record(0, 40), &key(1), 0),
            Next::Later
        );
    }

    #[test]
    fn settings_that_nothing_is_answered_with_stop_the_model() {
        let bad = Trouble::Fault(Fault::BadRequest {
            status: 400,
            message: "unknown parameter".into(),
        });
        let at = |in_a_row, ever_answered| {
            let record = Record {
                tries: 1,
                in_a_row,
                ever_answered,
            };
            P.next(&bad, record, &key(1), 0)
        };
        assert!(matches!(at(1, false), Next::StopRequest { .. }));
        assert!(matches!(at(3, false), Next::StopModel { .. }));
        assert!(matches!(at(9, true), Next::StopRequest { .. }));
    }

    #[test]
    fn what_is_used_up_is_known_before_it_is_refused() {
        use crate::ask::wire::Limit;
        let limit = |remaining, seconds| Limit {
            limit: Some(10),
            remaining: Some(remaining),
            reset: Some(When::In(Duration::from_secs(seconds))),
        };
        let limits = RateLimits {
            requests: limit(0, 3),
            tokens: limit(5, 60),
            ..RateLimits::default()
        };
        assert_eq!(spent_until(&limits, 0), Some(Duration::from_secs(3)));
        assert_eq!(spent_until(&RateLimits::default(), 0), None);
    }
}

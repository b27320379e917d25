//! Answerers without a model, which every table shows: whoever does not beat them has not understood
//! the code. They see the two options as a model does, and not which one is the fixed side.

use super::question::{Choice, Order};
use crate::digest::Digest;
use crate::stats::mix::keyed;

/// A rule that chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Baseline {
    /// Tosses a coin.
    Coin,
    /// Takes the first option.
    AlwaysA,
    /// Takes the longer text.
    Longer,
    /// Takes the text with more checks.
    MoreChecks,
}

/// Separates the coin from what positions are drawn with.
const COIN: u64 = 0x636f_696e;

impl Baseline {
    /// All of them.
    pub const ALL: [Baseline; 4] = [
        Baseline::Coin,
        Baseline::AlwaysA,
        Baseline::Longer,
        Baseline::MoreChecks,
    ];

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Coin => "baseline/coin",
            Baseline::AlwaysA => "baseline/always-a",
            Baseline::Longer => "baseline/longer",
            Baseline::MoreChecks => "baseline/more-checks",
        }
    }

    /// The choice between two options of a pair. A coin decides what the rule leaves open.
    pub fn choose(self, seed: u64, pair: Digest, order: Order, a: &str, b: &str) -> Choice {
        let by = |a: usize, b: usize| match a.cmp(&b) {
            std::cmp::Ordering::Greater => Choice::A,
            std::cmp::Ordering::Less => Choice::B,
            std::cmp::Ordering::Equal => coin(seed, pair, order),
        };
        match self {
            Baseline::Coin => coin(seed, pair, order),
            Baseline::AlwaysA => Choice::A,
            Baseline::Longer => by(a.len(), b.len()),
            Baseline::MoreChecks => by(checks(a), checks(b)),
        }
    }
}

fn coin(seed: u64, pair: Digest, order: Order) -> Choice {
    match keyed(seed ^ COIN, 1 + order as u64, &pair.0) & 1 {
        0 => Choice::A,
        _ => Choice::B,
    }
}

/// Words and signs by which code tests something: conditions, assertions, comparisons.
pub fn checks(text: &str) -> usize {
    const WORDS: [&str; 8] = [
        "if", "elif", "while", "switch", "assert", "require", "catch", "except",
    ];
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words = words.filter(|w| WORDS.contains(w)).count();
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let comparisons = (0..bytes.len()).filter(|&i| match (at(i), at(i + 1)) {
        (b'=' | b'!', b'=') => i == 0 || !b"=<>!+-*/%&|^".contains(&at(i - 1)),
        (b'<' | b'>', next) => {
            let shift = at(i.wrapping_sub(1)) == bytes[i] || next == bytes[i];
            let arrow = bytes[i] == b'>' && i > 0 && at(i - 1) == b'-';
            !shift && !arrow
        }
        _ => false,
    });
    words + comparisons.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_conditions_and_comparisons() {
        assert_eq!(checks("if (a == b || c->d <= e) x <<= 1;"), 3);
        assert_eq!(checks("assert(n > 0 && n != m);"), 3);
        assert_eq!(checks("x = y->z; gift = life;"), 0);
        assert_eq!(checks("a >>= 2; b = c << d;"), 0);
        assert_eq!(checks("a >= b"), 1);
    }

    #[test]
    fn rules_look_at_the_options_and_the_coin_at_neither() {
        let pair = |n: u64| Digest::of(&n.to_le_bytes());
        let choose = |rule: Baseline, n, a, b| rule.choose(1, pair(n), Order::Drawn, a, b);
        assert_eq!(choose(Baseline::Longer, 1, "aa", "a"), Choice::A);
        assert_eq!(choose(Baseline::Longer, 1, "a", "aa"), Choice::B);
        assert_eq!(choose(Baseline::MoreChecks, 1, "if", "xxxx"), Choice::A);
        assert_eq!(choose(Baseline::AlwaysA, 1, "", "if"), Choice::A);
        let heads = |rule, order: Order| {
            let one = |n: &u64| Baseline::choose(rule, 1, pair(*n), order, "a", "b") == Choice::A;
            (0..2000).filter(one).count()
        };
        for rule in [Baseline::Coin, Baseline::Longer, Baseline::MoreChecks] {
            assert!((900..1100).contains(&heads(rule, Order::Drawn)), "{rule:?}");
        }
        let same = |n: &u64| {
            let coin = |order| Baseline::Coin.choose(1, pair(*n), order, "a", "b");
            coin(Order::Drawn) == coin(Order::Reversed)
        };
        let same = (0..2000).filter(same).count();
        assert!(
            (900..1100).contains(&same),
            "both orders are asked apart: {same}"
        );
        // A coin that went with the position would be right, or wrong, every time.
        let right = |n: &u64| {
            let secure = crate::tosss::question::position(1, pair(*n));
            choose(Baseline::Coin, *n, "a", "b") == secure
        };
        let right = (0..2000).filter(right).count();
        assert!((900..1100).contains(&right), "{right}");
    }
}

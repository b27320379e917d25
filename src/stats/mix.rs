//! Random numbers and hashes from counters: the same arguments give the same bits for ever.
//!
//! Draws of functions, audits and bootstrap weights of published results depend on every constant
//! here. They must never be changed; a better mix gets another name. Integer arithmetic wraps,
//! bytes are read as little-endian words, and logarithms use additions, multiplications and
//! divisions only, so that machines and maths libraries cannot differ.
//!
//! Not for secrets: whoever knows the seed can look for collisions.

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Separates [`keyed`] from [`mix64`].
const KEYED: u64 = 0x6b65_7965_6431_0a0d;

/// The mix of a seed and a list of counters. Lists of different lengths are unrelated.
///
/// For one seed and all counters but one fixed, different values of that one never collide.
pub fn mix64(seed: u64, counters: &[u64]) -> u64 {
    let mut state = finalise(seed.wrapping_add(GOLDEN));
    for &counter in counters {
        state = absorb(state, counter);
    }
    finalise(state ^ (counters.len() as u64).wrapping_mul(GOLDEN))
}

/// The hash of a byte string, keyed by a seed and an index: the order in which iteration `i`
/// considers functions, for instance. Strings that differ only in trailing zero bytes differ.
pub fn keyed(seed: u64, i: u64, bytes: &[u8]) -> u64 {
    let mut state = absorb(finalise(seed ^ KEYED), i);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = absorb(state, u64::from_le_bytes(word));
    }
    absorb(state, bytes.len() as u64)
}

/// A number in (0, 1) from 64 random bits: the middle of one of 2^52 equal steps,
/// so that neither 0 nor 1 occurs.
pub fn uniform(bits: u64) -> f64 {
    // 52 bits and a half step are exact in a double.
    ((bits >> 12) as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64)
}

/// A number from the exponential distribution of mean 1, from 64 random bits. Always positive.
pub fn exponential(bits: u64) -> f64 {
    -ln_of_unit(uniform(bits))
}

/// One word into the state; for a given state a bijection of the word.
fn absorb(state: u64, word: u64) -> u64 {
    finalise((state.rotate_left(23) ^ word).wrapping_add(GOLDEN))
}

/// Stafford's 13th variant of the 64-bit finaliser, as in SplitMix64: a bijection.
fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Natural logarithm of a normal number in (0, 1), within 4 units in the last place, in basic
/// arithmetic: x = 2^e m with m about 1, and ln m = 2 artanh((m - 1) / (m + 1)).
fn ln_of_unit(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & FRACTION) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    // |z| <= 0.172, so the terms up to z^23 are enough.
    let mut series = 0.0;
    for k in (0..12_u32).rev() {
        series = series * square + 1.0 / f64::from(2 * k + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Changing any of these figures changes which functions every published run replaced.
    #[test]
    fn the_mix_is_pinned() {
        let mixes = [
            mix64(0, &[]),
            mix64(0, &[0]),
            mix64(1, &[2, 3]),
            mix64(u64::MAX, &[u64::MAX, 0, 7]),
            keyed(0, 0, b""),
            keyed(0, 1, b"onig_new"),
            keyed(42, 7, "d\u{e9}j\u{e0} vu, nine bytes".as_bytes()),
        ];
        assert_eq!(
            mixes.map(|x| format!("{x:#018x}")),
            GOLDEN_MIXES.map(|x| format!("{x:#018x}"))
        );
        let draws = [
            uniform(0),
            uniform(u64::MAX),
            exponential(mixes[1]),
            exponential(mixes[5]),
        ];
        assert_eq!(
            draws.map(|x| format!("{:#018x}", x.to_bits())),
            GOLDEN_DRAWS.map(|x| format!("{x:#018x}"))
        );
    }
    /// Computed by an independent implementation in Python.
    const GOLDEN_MIXES: [u64; 7] = [
        0x4821_8226_ff3c_d4bf,
        0xb804_78f1_0a35_9ccf,
        0xe7fb_cdc6_a3d5_6c0e,
        0xeaa6_6476_e5ee_1d6d,
        0x0af4_3aef_e940_005d,
        0x8ed5_9f0c_fb65_727c,
        0x5432_140f_5133_d7a9,
    ];
    const GOLDEN_DRAWS: [u64; 4] = [
        0x3ca0_0000_0000_0000,
        0x3fef_ffff_ffff_ffff,
        0x3fd5_211f_ce7b_57aa,
        0x3fe2_abf5_91b7_e822,
    ];

    #[test]
    fn neighbouring_arguments_never_collide_in_practice() {
        let mut seen = HashSet::new();
        for seed in 0..20 {
            for i in 0..200 {
                assert!(seen.insert(mix64(seed, &[i])));
                assert!(seen.insert(mix64(seed, &[i, 0])));
                assert!(seen.insert(keyed(seed, i, b"")));
                for length in 1..10 {
                    assert!(seen.insert(keyed(seed, i, &vec![0; length])));
                }
            }
        }
    }

    #[test]
    fn one_bit_in_changes_half_of_the_bits_out() {
        let (mut flipped, mut pairs) = (0, 0);
        for i in 0..64_u64 {
            for bit in 0..64 {
                flipped += (mix64(3, &[i]) ^ mix64(3, &[i ^ (1 << bit)])).count_ones();
                flipped += (mix64(i, &[3]) ^ mix64(i ^ (1 << bit), &[3])).count_ones();
                flipped += (keyed(3, 0, &i.to_le_bytes())
                    ^ keyed(3, 0, &(i ^ (1 << bit)).to_le_bytes()))
                .count_ones();
                pairs += 3;
            }
        }
        let mean = f64::from(flipped) / f64::from(pairs);
        assert!((31.8..32.2).contains(&mean), "{mean} bits of 64");
    }

    #[test]
    fn exponential_draws_have_the_distribution() {
        let n = 200_000_u64;
        let draws: Vec<f64> = (0..n).map(|i| exponential(mix64(9, &[i]))).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        // Four standard errors of each.
        assert!((mean - 1.0).abs() < 0.009, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.026, "variance {variance}");
        for (quantile, at) in [
            (0.5, std::f64::consts::LN_2),
            (0.9, 10_f64.ln()),
            (0.99, 100_f64.ln()),
        ] {
            let below = draws.iter().filter(|&&x| x < at).count() as f64 / n as f64;
            assert!(
                (below - quantile).abs() < 0.0045,
                "{below} below the {quantile} quantile"
            );
        }
        assert!(exponential(u64::MAX) > 0.0 && exponential(0).is_finite());
    }

    #[test]
    fn the_logarithm_is_right() {
        for i in 0..100_000_u64 {
            let x = uniform(mix64(1, &[i]));
            let error = (ln_of_unit(x) - x.ln()).abs();
            assert!(
                error <= 4.0 * f64::EPSILON * x.ln().abs(),
                "ln({x}) is off by {error}"
            );
        }
    }
}

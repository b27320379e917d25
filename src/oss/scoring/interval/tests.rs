//! Estimates and intervals on results whose truth is planted.

use super::*;
use crate::stats::mix::{mix64, uniform};
use proptest::prelude::*;

/// A simulated study. Each file has a rate of compiling, each function harms the pass rate of
/// the iterations that replace it, and alerts come from a long tail.
#[derive(Clone, Copy)]
struct Study {
    files: u64,
    per_file: u64,
    iterations: u64,
    set: u64,
}

const STUDY: Study = Study {
    files: 80,
    per_file: 12,
    iterations: 200,
    set: 10,
};

/// Mean of the planted rates of compiling.
const COMPILES: f64 = 0.85;

impl Study {
    fn unit(seed: u64, counters: &[u64]) -> f64 {
        uniform(mix64(seed, counters))
    }

    /// Functions and their harm are drawn from `functions`, sets and alerts from `iterations`;
    /// sets are the same for all models that share the latter.
    fn run(self, model: &str, functions: u64, iterations: u64, harm: f64) -> RowData {
        let mut results = Vec::new();
        let mut harms = Vec::new();
        for file in 0..self.files {
            let rate = Self::unit(functions, &[1, file]).powf((1.0 - COMPILES) / COMPILES);
            for item in 0..self.per_file {
                let draw = |kind| Self::unit(functions, &[kind, file, item]);
                results.push(FunctionResult {
                    cluster: file as u32,
                    compiles: Some(draw(2) < rate),
                    changed_lines: (draw(3) * 40.0) as u32,
                });
                harms.push(if draw(4) < 0.1 { draw(5) * harm } else { 0.0 });
            }
        }
        let n = results.len() as u64;
        let mut rows = Vec::new();
        for i in 0..self.iterations {
            let members: Vec<u32> = (0..self.set)
                .map(|k| (mix64(iterations, &[1, i, k]) % n) as u32)
                .collect();
            let lost: f64 = members.iter().map(|&f| harms[f as usize]).sum();
            let alerts = (0..60_u64)
                .filter(|&a| {
                    Self::unit(iterations ^ functions, &[2, i, a]) < 0.15 / (1.0 + a as f64)
                })
                .map(|a| a as u32)
                .collect();
            rows.push(IterationResult {
                functions: members,
                pass_rate: (1.0 - lost).max(0.0),
                alerts,
            });
        }
        RowData {
            model: model.to_owned(),
            functions: results,
            iterations: rows,
            alerts: (0..60).map(|a| (a, Alert { leak: a % 5 == 4 })).collect(),
            penalty: 0.9,
            weights: Weights::default(),
        }
    }
}

fn one(row: &RowData, options: Bootstrap) -> RowEstimate {
    evaluate(std::slice::from_ref(row), options)
        .unwrap()
        .rows
        .remove(0)
}

#[test]
fn point_estimates_are_the_definitions() {
    let function = |cluster, compiles, changed_lines| FunctionResult {
        cluster,
        compiles,
        changed_lines,
    };
    let iteration = |functions: &[u32], pass_rate, alerts: &[u32]| IterationResult {
        functions: functions.to_vec(),
        pass_rate,
        alerts: alerts.to_vec(),
    };
    let row = RowData {
        model: "m".to_owned(),
        functions: vec![
            function(7, Some(true), 4),
            function(7, Some(false), 0),
            function(9, None, 6),
            function(9, Some(true), 2),
        ],
        iterations: vec![
            iteration(&[0, 3], 0.5, &[1, 2, 1]),
            iteration(&[2, 3], 1.0, &[2, 3]),
            iteration(&[], 0.0, &[]),
        ],
        alerts: [(1, false), (2, true), (3, false), (4, false)]
            .map(|(id, leak)| (id, Alert { leak }))
            .into(),
        penalty: 2.0,
        weights: Weights::default(),
    };
    let got = one(&row, Bootstrap::default());
    assert!((got.s1 - 200.0 / 3.0).abs() < 1e-12);
    assert!((got.s2 - 50.0).abs() < 1e-12);
    // Alerts 1 and 3 and half for the leak 2; alert 4 was never seen.
    assert!((got.s3 - 95.0).abs() < 1e-12);
    assert!((got.d - 3.0).abs() < 1e-12);
    assert_eq!(
        got.chained,
        Weights::default().chain(got.s1, got.s2, got.s3, got.d)
    );
    assert_eq!(
        (got.counted, got.unrelated, got.clusters, got.iterations),
        (3, 1, 2, 3)
    );
    assert_eq!((got.alerts, got.leaks, got.seen_once), (2, 1, 2));
}

#[test]
fn bootstrap_and_delta_method_agree() {
    for (study, seed) in [
        (STUDY, 1),
        (STUDY, 2),
        (
            Study {
                files: 300,
                per_file: 20,
                iterations: 1000,
                set: 73,
            },
            3,
        ),
        (
            Study {
                files: 45,
                per_file: 3,
                iterations: 60,
                set: 4,
            },
            4,
        ),
    ] {
        let got = one(&study.run("m", seed, seed + 100, 0.4), Bootstrap::default());
        let apart = got.disagreement().unwrap();
        assert!(
            apart < 0.2,
            "study {seed}: {apart}, {:?} and {:?}",
            got.intervals,
            got.delta_log_se
        );
        let interval = got.intervals.unwrap().score;
        assert!(interval.contains(got.chained.score) && interval.width() > 0.0);
    }
}

/// How often nominal 95 % intervals hold what was planted, of 200 studies.
#[test]
fn the_interval_of_s1_covers_the_planted_rate() {
    let mut held = 0;
    for seed in 0..200 {
        let study = Study {
            iterations: 2,
            ..STUDY
        };
        let got = one(
            &study.run("m", seed, seed, 0.4),
            Bootstrap {
                seed,
                ..Bootstrap::default()
            },
        );
        held += u32::from(got.intervals.unwrap().s1.contains(100.0 * COMPILES));
    }
    // 90 % to 98.5 %; the standard error of the figure is 1.5 %.
    assert!((180..=197).contains(&held), "{held} of 200");
}

/// The functions and their harms are fixed and the sets are drawn again: what the interval of s2
/// is about.
#[test]
fn the_interval_of_s2_covers_the_mean_over_all_sets() {
    let study = Study {
        iterations: 20_000,
        ..STUDY
    };
    let many = study.run("m", 5, 999, 0.4).iterations;
    let truth = 100.0
        * many
            .iter()
            .map(|iteration| iteration.pass_rate)
            .sum::<f64>()
        / many.len() as f64;
    let mut held = 0;
    for seed in 0..200 {
        let got = one(
            &STUDY.run("m", 5, seed, 0.4),
            Bootstrap {
                seed,
                ..Bootstrap::default()
            },
        );
        held += u32::from(got.intervals.unwrap().s2.contains(truth));
    }
    assert!((180..=198).contains(&held), "{held} of 200 hold {truth}");
}

/// Functions, replies and sets all drawn again. The truth follows from the planted harm h of a
/// function: n^2 Var(h) / N from N functions and n Var(h) / I from I sets of n.
#[test]
fn redrawn_functions_have_the_spread_that_theory_says() {
    let study = Study {
        files: 100,
        per_file: 10,
        iterations: 400,
        set: 20,
    };
    let harm = 0.2;
    // Harm is harm * U with probability 0.1.
    let variance = 0.1 * harm * harm / 3.0 - (0.1 * harm / 2.0_f64).powi(2);
    let (n, all, sets) = (20.0, 1000.0, 400.0);
    let truth = 100.0 * (n * n * variance / all + n * variance / sets).sqrt();
    let (mut redrawn, mut interval) = (0.0, 0.0);
    for seed in 0..60 {
        let got = one(
            &study.run("m", seed, seed + 1000, harm),
            Bootstrap::default(),
        );
        redrawn += got.redrawn_s2_se.unwrap().powi(2) / 60.0;
        interval += got.intervals.unwrap().s2.width() / 3.92 / 60.0;
    }
    let ratio = redrawn.sqrt() / truth;
    assert!((0.9..1.1).contains(&ratio), "estimate over truth: {ratio}");
    // Why both are given: the interval is about the sets alone.
    assert!(interval < 0.5 * truth, "{interval} of {truth}");
}

/// The number of unique alerts varies between studies; the interval of s3 must be centred on the
/// observed one and not be narrower than that variation.
#[test]
fn unique_alerts_are_not_biased_and_their_spread_is_not_understated() {
    let (mut scores, mut variances, mut bias) = (Vec::new(), 0.0, 0.0);
    for seed in 0..100 {
        let row = STUDY.run("m", 5, seed, 0.4);
        let evaluation = evaluate(
            std::slice::from_ref(&row),
            Bootstrap {
                seed,
                ..Bootstrap::default()
            },
        )
        .unwrap();
        let drawn = &evaluation.draws[0].s3;
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        bias += (mean - evaluation.rows[0].s3) / 100.0;
        variances += standard_error(drawn).powi(2) / 100.0;
        scores.push(evaluation.rows[0].s3);
    }
    let spread = standard_error(&scores);
    assert!(
        bias.abs() < 0.05 * spread,
        "replicates are off by {bias}, studies spread by {spread}"
    );
    let ratio = variances.sqrt() / spread;
    assert!(
        (1.0..1.6).contains(&ratio),
        "standard error over real spread: {ratio}"
    );
}

#[test]
fn a_model_that_is_better_everywhere_is_told_apart_in_spite_of_wide_intervals() {
    let good = STUDY.run("good", 1, 50, 0.4);
    let mut worse = good.clone();
    worse.model = "worse".to_owned();
    // Every thirtieth function that compiled does not, and iterations pass a little less.
    worse
        .functions
        .iter_mut()
        .step_by(30)
        .for_each(|function| function.compiles = Some(false));
    worse
        .iterations
        .iter_mut()
        .for_each(|iteration| iteration.pass_rate *= 0.98);
    let mut twin = good.clone();
    twin.model = "twin".to_owned();
    let got = evaluate(&[worse, good, twin], Bootstrap::default()).unwrap();
    let interval = |m: usize| got.rows[m].intervals.unwrap().score;
    assert!(
        interval(0).hi > interval(1).lo,
        "the intervals alone overlap"
    );
    let ranking = got.ranking.unwrap();
    assert_eq!(ranking.groups, [vec![1, 2], vec![0]]);
    assert_eq!(ranking.rank_intervals, [(3, 3), (1, 1), (1, 1)]);
    assert!(got.equal_iterations);
}

#[test]
fn a_row_does_not_depend_on_its_company_or_on_threads() {
    let (a, b) = (
        STUDY.run("a", 1, 50, 0.4),
        Study { files: 90, ..STUDY }.run("b", 2, 51, 0.2),
    );
    let alone = evaluate(std::slice::from_ref(&a), Bootstrap::default()).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let together = pool
        .install(|| evaluate(&[b, a], Bootstrap::default()))
        .unwrap();
    assert_eq!(alone.rows[0], together.rows[1]);
    let bits = |draws: &Draws| draws.score.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&alone.draws[0]), bits(&together.draws[1]));
    assert_eq!(alone.draws[0].score.len(), 2000);
    let odd = evaluate(
        &[STUDY.run("a", 1, 50, 0.4)],
        Bootstrap {
            replicates: 2003,
            ..Bootstrap::default()
        },
    );
    assert_eq!(
        odd.unwrap().draws[0].score[..2000],
        alone.draws[0].score[..]
    );
}

#[test]
fn a_replicate_is_the_definition_with_weights() {
    let row = Study {
        files: 6,
        per_file: 3,
        iterations: 9,
        set: 4,
    }
    .run("m", 3, 4, 0.5);
    let got = evaluate(
        std::slice::from_ref(&row),
        Bootstrap {
            seed: 77,
            ..Bootstrap::default()
        },
    )
    .unwrap();
    let ids: Vec<u64> = (0..9).collect();
    for b in [0_usize, 7, 8, 1999] {
        let weights = bootstrap::Weights::draw(77, b as u64, &ids[..6], &ids);
        let of = |f: &FunctionResult| weights.clusters[f.cluster as usize];
        let all: f64 = row.functions.iter().map(of).sum();
        let compiling: f64 = row
            .functions
            .iter()
            .filter(|f| f.compiles == Some(true))
            .map(of)
            .sum();
        let lines: f64 = row
            .functions
            .iter()
            .map(|f| of(f) * f64::from(f.changed_lines))
            .sum();
        let v: Vec<f64> = row
            .iterations
            .iter()
            .zip(&weights.iterations)
            .map(|(i, own)| {
                let sum: f64 = i
                    .functions
                    .iter()
                    .map(|&f| of(&row.functions[f as usize]))
                    .sum();
                own * sum / i.functions.len() as f64
            })
            .collect();
        let total: f64 = v.iter().sum();
        let passed: f64 = row
            .iterations
            .iter()
            .zip(&v)
            .map(|(i, v)| i.pass_rate * v)
            .sum();
        let cost: f64 = row
            .alerts
            .iter()
            .map(|(id, alert)| {
                let seen: Vec<usize> = (0..9)
                    .filter(|&i| row.iterations[i].alerts.contains(id))
                    .collect();
                let times = match seen[..] {
                    [] => 0.0,
                    [i] => v[i] * 9.0 / total,
                    _ => 1.0,
                };
                times * if alert.leak { 0.5 } else { 1.0 }
            })
            .sum();
        let expected = [
            100.0 * compiling / all,
            100.0 * passed / total,
            100.0 - 0.9 * cost,
            lines / all,
        ];
        let draws = &got.draws[0];
        let got = [draws.s1[b], draws.s2[b], draws.s3[b], draws.d[b]];
        for (got, expected) in got.iter().zip(expected) {
            assert!(
                (got - expected).abs() < 1e-9,
                "replicate {b}: {got}, expected {expected}"
            );
        }
    }
}

#[test]
fn one_file_or_one_iteration_has_no_interval() {
    for study in [
        Study { files: 1, ..STUDY },
        Study {
            iterations: 1,
            ..STUDY
        },
    ] {
        let got = evaluate(
            &[study.run("a", 1, 2, 0.4), STUDY.run("b", 1, 2, 0.4)],
            Bootstrap::default(),
        )
        .unwrap();
        assert_eq!(
            (got.rows[0].intervals, got.rows[0].delta_log_se),
            (None, None)
        );
        assert!(got.rows[0].chained.score > 0.0 && got.rows[1].intervals.is_some());
        assert_eq!((got.ranking, got.draws[0].score.len()), (None, 0));
        assert_eq!(got.equal_iterations, study.iterations == STUDY.iterations);
    }
}

#[test]
fn a_model_that_never_compiles_has_a_score_and_an_interval() {
    let mut row = STUDY.run("m", 1, 2, 0.4);
    for function in &mut row.functions {
        (function.compiles, function.changed_lines) = (Some(false), 0);
    }
    let got = evaluate(&[row], Bootstrap::default());
    let got = got.unwrap().rows.remove(0);
    assert_eq!(
        (got.s1, got.chained.score, got.delta_log_se),
        (0.0, 0.0, None)
    );
    assert_eq!(got.intervals.unwrap().score, Interval { lo: 0.0, hi: 0.0 });
}

#[test]
fn input_that_does_not_fit_is_an_error() {
    let good = Study {
        files: 3,
        per_file: 2,
        iterations: 3,
        set: 2,
    }
    .run("m", 1, 2, 0.4);
    let broken = |change: &dyn Fn(&mut RowData)| {
        let mut row = good.clone();
        change(&mut row);
        evaluate(&[good.clone(), row], Bootstrap::default())
            .expect_err("an error")
            .to_string()
    };
    for (message, expected) in [
        (
            broken(&|row| row.iterations[1].functions[0] = 6),
            "m, iteration 1: function 6 is not one of 6",
        ),
        (
            broken(&|row| row.iterations[2].alerts = vec![99]),
            "m, iteration 2: alert 99",
        ),
        (
            broken(&|row| row.iterations[0].pass_rate = f64::NAN),
            "m, iteration 0: pass rate NaN",
        ),
        (
            broken(&|row| row.iterations[0].pass_rate = 99.4),
            "m, iteration 0: pass rate 99.4",
        ),
        (
            broken(&|row| row.iterations.clear()),
            "m: there are no iterations",
        ),
        (
            broken(&|row| row.functions.iter_mut().for_each(|f| f.compiles = None)),
            "m: there are no functions",
        ),
        (broken(&|row| row.penalty = -1.0), "m: the penalty"),
        (
            broken(&|row| row.weights.wd = f64::NAN),
            "m: the penalty and the weights",
        ),
        (
            broken(&|row| row.penalty = 0.1),
            "m is scored with another penalty",
        ),
    ] {
        assert!(
            message.starts_with(expected),
            "{message:?}, expected {expected:?}"
        );
    }
    assert_eq!(
        evaluate(&[], Bootstrap::default()),
        Err(EvaluateError::NoRows)
    );
    let few = Bootstrap {
        replicates: 100,
        ..Bootstrap::default()
    };
    assert_eq!(
        evaluate(std::slice::from_ref(&good), few),
        Err(EvaluateError::TooFewReplicates(100))
    );
    let sure = Bootstrap {
        confidence: 1.0,
        ..Bootstrap::default()
    };
    assert!(matches!(
        evaluate(&[good], sure),
        Err(EvaluateError::Stats(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn replicates_stay_where_scores_can_be(
        seed in any::<u64>(), files in 2_u64..8, per_file in 1_u64..4, iterations in 2_u64..8, set in 0_u64..4,
    ) {
        let row = Study { files, per_file, iterations, set }.run("m", seed, seed, 1.0);
        let got = evaluate(&[row], Bootstrap { seed, ..Bootstrap::default() }).unwrap();
        let draws = &got.draws[0];
        for part in [&draws.s1, &draws.s2, &draws.s3] {
            prop_assert!(part.iter().all(|x| (0.0..=100.0 + 1e-9).contains(x)));
        }
        prop_assert!(draws.d.iter().all(|d| (0.0..=40.0).contains(d)));
    }
}

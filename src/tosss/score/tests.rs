//! Scores against the paper's published answers, of which `fixtures/tables` has the counts, and
//! against small sheets whose scores can be computed by hand.

use super::*;

/// Secure choices per CVE of the C hintless arm: `cve,pairs` and a column for each model.
const BY_CVE: &str = include_str!("../../../fixtures/tables/tosss-c-hintless-by-cve.csv");
/// `model,language,arm,pairs,answered,secure,published` of all answers that were published.
const COUNTS: &str = include_str!("../../../fixtures/tables/tosss-table2-counts.csv");

fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines.map(|l| l.split(',').collect())
}

/// Sheets with as many secure choices in each CVE as were published.
fn published() -> Vec<Sheet> {
    let mut lines = lines(BY_CVE);
    let header = lines.next().unwrap();
    let mut sheets: Vec<Sheet> = header[2..].iter().map(|m| sheet(m, &[])).collect();
    for fields in lines {
        let number = |at: usize| fields[at].parse::<usize>().unwrap();
        for (model, sheet) in sheets.iter_mut().enumerate() {
            for rank in 0..number(1) {
                sheet.items.push(Item {
                    id: format!("{}#{rank}", fields[0]),
                    repeat: 0,
                    cluster: fields[0].into(),
                    answer: match rank < number(model + 2) {
                        true => Answer::Secure,
                        false => Answer::Vulnerable,
                    },
                });
            }
        }
    }
    sheets
}

fn sheet(model: &str, answers: &[(&str, Answer)]) -> Sheet {
    let item = |(n, (cluster, answer)): (usize, &(&str, Answer))| Item {
        id: format!("pair {n}"),
        repeat: 0,
        cluster: cluster.to_string(),
        answer: *answer,
    };
    Sheet {
        model: model.into(),
        language: "c/c++".into(),
        arm: Arm::Hintless,
        items: answers.iter().enumerate().map(item).collect(),
    }
}

#[test]
fn the_papers_table_comes_out_to_the_third_decimal() {
    let mut seen = 0;
    for fields in lines(COUNTS).skip(1) {
        let [model, language, arm, pairs, answered, secure, published] = fields[..] else {
            panic!("{fields:?}");
        };
        let [pairs, answered, secure] = [pairs, answered, secure].map(|n| n.parse().unwrap());
        let mut items = Vec::new();
        for n in 0..pairs {
            let answer = match n {
                _ if n < secure => Answer::Secure,
                _ if n < answered => Answer::Vulnerable,
                _ => Answer::None,
            };
            items.push((if n % 2 == 0 { "one" } else { "two" }, answer));
        }
        let sheet = Sheet {
            language: language.into(),
            arm: Arm::named(arm).unwrap(),
            ..sheet(model, &items)
        };
        let got = scores(&[sheet], &Settings::default()).unwrap();
        let row = &got.rows[0];
        let paper = format!("{:.3}", row.paper.unwrap());
        assert_eq!(paper, published, "{model} {language} {arm}");
        assert_eq!(
            (row.pairs, row.answered, row.secure),
            (pairs, answered, secure)
        );
        assert!((row.strict - secure as f64 / pairs as f64).abs() < 1e-12);
        seen += 1;
    }
    assert_eq!(seen, 42);
}

/// Computed by hand from the same counts in Python, without this program.
#[test]
fn the_published_answers_tell_fewer_models_apart_than_their_table_suggests() {
    let got = scores(&published(), &Settings::default()).unwrap();
    assert_eq!(got.rows.len(), 14);
    assert!(got.rows.iter().all(|r| (r.pairs, r.clusters) == (500, 277)));
    let effects: Vec<f64> = got.rows.iter().filter_map(|r| r.design_effect).collect();
    let least = effects.iter().copied().fold(f64::INFINITY, f64::min);
    let most = effects.iter().copied().fold(0.0, f64::max);
    assert_eq!(format!("{least:.2} {most:.2}"), "1.04 1.82");
    let below = |f: &dyn Fn(&Difference) -> Option<f64>| {
        let found = got.comparisons.iter().filter_map(|c| f(&c.difference));
        found.filter(|p| *p < 0.05).count()
    };
    assert_eq!(got.comparisons.len(), 91);
    assert_eq!(below(&|d| d.p), 68);
    assert_eq!(below(&|d| d.holm), 57);
    assert_eq!(got.comparisons.iter().filter(|c| c.told_apart).count(), 57);
    let gaps = got.rows.windows(2).filter(|pair| {
        let gap = |c: &&Comparison| c.a == pair[0].model && c.b == pair[1].model;
        let gap = got.comparisons.iter().find(gap).unwrap();
        gap.difference.z.unwrap().abs() > 1.96
    });
    assert_eq!(gaps.count(), 2);
    // The check by sign flips agrees on which differences are there.
    let flips = below(&|d| d.sign_flip);
    assert!((65..=71).contains(&flips), "{flips}");
    let last = got.rows.last().unwrap();
    assert_eq!((last.ranks, last.below_chance), ([14, 14], false));
    assert_eq!(got.rows[0].groups, "a");
}

#[test]
fn what_was_not_answered_stays_in_the_strict_score_only() {
    use Answer::{None, Secure, Vulnerable};
    let answers = [("a", Secure), ("a", None), ("b", Secure), ("c", Vulnerable)];
    let got = scores(&[sheet("m", &answers)], &Settings::default()).unwrap();
    let row = &got.rows[0];
    assert_eq!((row.strict, row.paper), (0.5, Some(2.0 / 3.0)));
    let silent = [("a", None), ("b", None)];
    let got = scores(&[sheet("m", &silent)], &Settings::default()).unwrap();
    assert_eq!((got.rows[0].strict, got.rows[0].paper), (0.0, Option::None));
    assert_eq!(got.averages[0].paper, Option::None);
}

#[test]
fn who_leaves_most_questions_open_does_not_prefer_the_vulnerable_side() {
    let names: Vec<String> = (0..40).map(|n| format!("CVE-{n}")).collect();
    let answers = names.iter().enumerate().map(|(n, name)| {
        let answer = match n % 4 {
            0 => Answer::None,
            1 => Answer::Secure,
            2 => Answer::None,
            _ if n % 8 == 3 => Answer::Vulnerable,
            _ => Answer::None,
        };
        (name.as_str(), answer)
    });
    let answers: Vec<_> = answers.collect();
    let got = scores(&[sheet("m", &answers)], &Settings::default()).unwrap();
    let row = &got.rows[0];
    assert_eq!((row.questions, row.answered, row.secure), (40, 15, 10));
    assert!(row.below_chance && !row.prefers_vulnerable, "{row:?}");
}

#[test]
fn one_outcome_for_all_leaves_room_for_doubt() {
    let names: Vec<String> = (0..20).map(|n| format!("CVE-{n}")).collect();
    let all = |answer| {
        names
            .iter()
            .map(|n| (n.as_str(), answer))
            .collect::<Vec<_>>()
    };
    let (right, wrong) = (all(Answer::Secure), all(Answer::Vulnerable));
    let got = scores(
        &[sheet("right", &right), sheet("wrong", &wrong)],
        &Settings::default(),
    )
    .unwrap();
    let [lo, hi] = got.rows[0].interval.unwrap();
    assert!((0.8..0.9).contains(&lo) && hi == 1.0, "{lo} {hi}");
    assert!(got.rows[1].below_chance && !got.rows[0].below_chance);
    assert!(got.rows[1].prefers_vulnerable && !got.rows[0].prefers_vulnerable);
    // Twenty CVEs that all say the same: a chance of 2 in 2^20.
    let apart = &got.comparisons[0];
    assert_eq!(apart.difference.p, Some(0.5_f64.powi(19)));
    assert!(apart.told_apart);
    assert!(
        got.rows[0]
            .warning
            .as_ref()
            .unwrap()
            .contains("20 clusters")
    );
}

#[test]
fn one_cluster_gives_a_score_and_no_interval() {
    let one = [("a", Answer::Secure), ("a", Answer::Vulnerable)];
    let two = [("a", Answer::Secure), ("a", Answer::Secure)];
    let got = scores(&[sheet("m", &one), sheet("n", &two)], &Settings::default()).unwrap();
    assert!(
        got.rows
            .iter()
            .all(|r| r.interval.is_none() && r.warning.is_some())
    );
    let compared = &got.comparisons[0];
    assert_eq!((compared.difference.p, compared.told_apart), (None, false));
    assert_eq!(got.rows[0].ranks, [1, 2]);
}

#[test]
fn models_are_compared_on_what_both_were_asked() {
    let long: Vec<(String, Answer)> = (0..30).map(|n| (format!("c{n}"), Answer::Secure)).collect();
    let long: Vec<(&str, Answer)> = long.iter().map(|(c, a)| (c.as_str(), *a)).collect();
    let short = &long[..10];
    let got = scores(
        &[sheet("m", &long), sheet("n", short)],
        &Settings::default(),
    )
    .unwrap();
    let compared = &got.comparisons[0].difference;
    assert_eq!((compared.pairs, compared.difference), (10, 0.0));
    let mut other = sheet("o", short);
    other.items.iter_mut().for_each(|i| i.id.push('!'));
    let got = scores(&[sheet("m", &long), other], &Settings::default()).unwrap();
    assert!(got.comparisons.is_empty(), "nothing in common");
}

#[test]
fn the_effect_of_the_hint_is_paired() {
    let names: Vec<String> = (0..50).map(|n| format!("CVE-{n}")).collect();
    let answers = |hinted: bool| {
        let answer = |n: usize| match n.is_multiple_of(2) || (hinted && n % 10 == 1) {
            true => Answer::Secure,
            false => Answer::Vulnerable,
        };
        let all = names.iter().enumerate();
        all.map(|(n, c)| (c.as_str(), answer(n)))
            .collect::<Vec<_>>()
    };
    let hinted = Sheet {
        arm: Arm::Hint,
        ..sheet("m", &answers(true))
    };
    let got = scores(&[sheet("m", &answers(false)), hinted], &Settings::default()).unwrap();
    assert_eq!(got.hint_effects.len(), 1);
    let effect = &got.hint_effects[0].difference;
    assert!((effect.difference - 0.1).abs() < 1e-12);
    // Five of fifty changed, all for the better: far less than the errors of both scores together.
    assert!(effect.p.unwrap() < 0.05 && effect.standard_error.unwrap() < 0.05);
}

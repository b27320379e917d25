//! Tests of the fold: what can never raise a pass rate, and what the ends of a process mean.

use super::*;
use proptest::prelude::*;

fn reports(log: &str) -> Vec<Report> {
    super::super::LineParser::new(
        &[r"\+(?<name>\w+)"],
        &[r"-(?<name>\w+)"],
        &[r"~(?<name>\w+)"],
    )
    .unwrap()
    .parse(log.as_bytes())
}

fn baseline(log: &str, code: i32) -> Expected {
    let run = (reports(log), Ended::Exit(code));
    Baseline::from_runs(&[run.clone(), run.clone(), run])
        .unwrap()
        .expected()
}

fn run(expected: &Expected, log: &str, ended: Ended) -> String {
    let result = fold(expected, &reports(log), ended);
    result
        .cases
        .iter()
        .map(|(case, outcome)| format!("{case}:{outcome:?}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_case_that_does_not_report_has_the_outcome_of_the_process() {
    let e = baseline("+a +b +c ~s", 0);
    assert_eq!(run(&e, "+a", Ended::Exit(0)), "a:Passed b:NotRun c:NotRun");
    assert_eq!(
        run(&e, "+a", Ended::Signal(11)),
        "a:Passed b:Crashed c:Crashed"
    );
    assert_eq!(
        run(&e, "+a +c", Ended::Limit),
        "a:Passed b:Timeout c:Passed"
    );
    assert_eq!(run(&e, "", Ended::Exit(127)), "a:NotRun b:NotRun c:NotRun");
}

#[test]
fn an_end_that_contradicts_the_reports_leaves_no_pass() {
    let e = baseline("+a +b", 0);
    for ended in [Ended::Exit(1), Ended::Signal(6), Ended::Limit] {
        assert_eq!(run(&e, "+a +b", ended), "a:Unconfirmed b:Unconfirmed");
        assert_eq!(run(&e, "+a -b", ended), "a:Passed b:Failed");
    }
    assert_eq!(run(&e, "+a -b", Ended::Exit(0)), "a:Passed b:Failed");
    let failing = baseline("+a -b", 1);
    assert_eq!(run(&failing, "+a -b", Ended::Exit(1)), "a:Passed b:Failed");
    assert_eq!(
        run(&failing, "+a -b", Ended::Exit(3)),
        "a:Unconfirmed b:Failed"
    );
}

#[test]
fn reports_beyond_the_baseline_are_no_passes_and_can_only_harm() {
    let e = baseline("+a +a +b ~s", 0);
    let result = fold(&e, &reports("+a +a +a +forged +b +s"), Ended::Exit(0));
    assert_eq!(result.tally(|_| true).passed, 3);
    assert_eq!(result.tally(|_| true).total(), 3);
    assert_eq!(result.duplicates["a"], 1);
    assert_eq!(result.unknown["forged"], 1);
    assert_eq!(result.outside, 1);
    assert_eq!(
        run(&e, "+a +a -a +b", Ended::Exit(0)),
        "a:Failed a#2:Failed b:Passed"
    );
    assert_eq!(
        run(&baseline("+a +b", 0), "-a +a +b", Ended::Exit(0)),
        "a:Failed b:Passed"
    );
    assert_eq!(
        run(&baseline("+a +b", 0), "+a -a +b", Ended::Exit(0)),
        "a:Failed b:Passed"
    );
}

#[test]
fn a_case_skipped_by_the_variant_alone_stays_in_the_denominator() {
    let e = baseline("+a +b", 0);
    assert_eq!(run(&e, "~a +b", Ended::Exit(0)), "a:Skipped b:Passed");
}

#[test]
fn a_baseline_sorts_cases_by_all_its_runs() {
    let runs: Vec<_> = ["+a -b +c ~d +e", "+a -b -c ~d", "+a -b +c ~d +e"]
        .iter()
        .map(|log| (reports(log), Ended::Exit(1)))
        .collect();
    let b = Baseline::from_runs(&runs).unwrap();
    let names = |set: &BTreeSet<Case>| set.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&b.stable_pass), ["a"]);
    assert_eq!(names(&b.failing), ["b"]);
    assert_eq!(names(&b.flaky), ["c", "e"]);
    assert_eq!(names(&b.skipped), ["d"]);
    assert_eq!(
        Baseline::from_runs(&runs[..2]),
        Err(BaselineError::TooFewRuns(2))
    );
    let mut died = runs.clone();
    died[1].1 = Ended::Signal(9);
    assert!(matches!(
        Baseline::from_runs(&died),
        Err(BaselineError::Died { run: 1, .. })
    ));
    let nothing = vec![(reports("?"), Ended::Exit(0)); 3];
    assert_eq!(Baseline::from_runs(&nothing), Err(BaselineError::NoCases));
    assert_eq!(
        Baseline::of_any(&nothing).unwrap().expected().cases.len(),
        0
    );
    // A shard may skip all that it has.
    let skipped = vec![(reports("~d"), Ended::Exit(0)); 3];
    assert_eq!(Baseline::from_runs(&skipped).unwrap().skipped.len(), 1);
    let paired =
        fold(&b.expected(), &runs[0].0, Ended::Exit(1)).tally(|c| b.stable_pass.contains(c));
    assert_eq!((paired.passed, paired.total()), (1, 1));
}

#[test]
fn a_result_survives_json() {
    let e = baseline("+a +a -b ~s", 1);
    let result = fold(&e, &reports("+a +x"), Ended::Signal(11));
    let text = serde_json::to_string(&(&e, &result)).unwrap();
    assert_eq!(
        serde_json::from_str::<(Expected, ShardResult)>(&text).unwrap(),
        (e, result)
    );
}

fn logs() -> impl Strategy<Value = String> {
    prop::collection::vec("[-+~][abc]", 0..12).prop_map(|v| v.join(" "))
}

fn ends() -> impl Strategy<Value = Ended> {
    prop_oneof![
        (0..3).prop_map(Ended::Exit),
        Just(Ended::Signal(11)),
        Just(Ended::Limit)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_expected_case_has_one_outcome_and_every_report_is_accounted_for(
        base in logs(), log in logs(), code in 0..2, ended in ends()
    ) {
        let b = (reports(&base), Ended::Exit(code));
        let Ok(b) = Baseline::from_runs(&[b.clone(), b.clone(), b]) else { return Ok(()) };
        let e = b.expected();
        let said = reports(&log);
        let result = fold(&e, &said, ended);
        prop_assert!(result.cases.keys().eq(e.cases.keys()));
        let passes = said.iter().filter(|r| r.outcome == Outcome::Passed).count() as u32;
        prop_assert!(result.tally(|_| true).passed <= passes);
        let reported = result.cases.values()
            .filter(|o| !matches!(o, CaseOutcome::NotRun | CaseOutcome::Timeout | CaseOutcome::Crashed))
            .count() as u32;
        let counted = reported + result.outside
            + result.unknown.values().sum::<u32>() + result.duplicates.values().sum::<u32>();
        prop_assert_eq!(counted as usize, said.len());
    }

    #[test]
    fn a_forged_pass_of_a_case_that_reports_itself_never_helps(
        base in logs(), log in logs(), forged in "[abc]", early in any::<bool>(), ended in ends()
    ) {
        let b = (reports(&base), Ended::Exit(0));
        let Ok(b) = Baseline::from_runs(&[b.clone(), b.clone(), b]) else { return Ok(()) };
        let e = b.expected();
        // The runner reports every case; one more line is printed by the code under test.
        let count = |l: &str, n: &str| reports(l).iter().filter(|r| r.case.name == n).count();
        let mut log = log;
        for name in ["a", "b", "c"] {
            while count(&log, name) < count(&base, name) {
                log += &format!(" +{name}");
            }
        }
        let honest = fold(&e, &reports(&log), ended).tally(|_| true).passed;
        let log = if early { format!("+{forged} {log}") } else { format!("{log} +{forged}") };
        let with = fold(&e, &reports(&log), ended).tally(|_| true).passed;
        prop_assert!(with <= honest);
    }
}

#[test]
fn a_name_without_a_number_passed_if_all_cases_that_have_it_did() {
    let run = (reports("+a +b -a +c +c"), Ended::Exit(1));
    let baseline = Baseline::from_runs(&[run.clone(), run.clone(), run]).unwrap();
    let passed = |name| baseline.passed(&[name]);
    assert_eq!(
        ["a", "a#1", "a#2", "b", "c", "c#2", "d"].map(passed),
        [
            Some(false),
            None,
            Some(false),
            Some(true),
            Some(true),
            Some(true),
            None
        ]
    );
}

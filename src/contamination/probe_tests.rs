//! Tests over `fixtures/continuations`, one file a case: a remark, the reply below a line
//! `%%%% reply code|text [stop=...]`, and the outcome behind `%%%% outcome`. `{context}` in a reply stands for
//! what was shown.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::digest::Digest;

const CODE: &str = "static int shelf_fill(struct shelf *shelf)\n{\n    int count = 0;\n    while (count < shelf->room)\n        count += shelf_put(shelf, count);\n    shelf_take(shelf, 4, ";
const TEXT: &str = " * Shelves are named after birds, since the first who built them liked birds more than numbers. The largest is called after a ";

fn snippet(kind: &str) -> Snippet {
    let (pattern, context, target) = match kind {
        "code" => (Pattern::Clone, CODE, "heronlock_guard"),
        "text" => (Pattern::Text, TEXT, "quarrel of herons"),
        other => panic!("{other}"),
    };
    Snippet {
        pattern,
        path: "src/shelf.c".into(),
        offset: 400,
        context: context.into(),
        target: target.into(),
        class: Digest::of(b"class"),
        repeats: 2,
        df: 0,
        bits: 20.0,
    }
}

#[test]
fn every_continuation_is_read_as_a_person_reads_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/continuations");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 40, "only {} cases", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (remark, rest) = text.split_once("\n%%%% reply ").unwrap();
        assert!(remark.len() > 8, "{}: no remark", path.display());
        let (head, rest) = rest.split_once('\n').unwrap();
        let (body, expected) = rest.rsplit_once("\n%%%% outcome ").unwrap();
        let (kind, stop) = head.split_once(" stop=").unwrap_or((head, "complete"));
        let snippet = snippet(kind);
        let reply = Reply::ended(
            serde_json::from_value(stop.into()).unwrap(),
            body.replace("{context}", &snippet.context),
        );
        let answer = read(&reply, &snippet);
        if answer.outcome.name() != expected.trim() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!("{name}: {answer:?}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn asked(manner: Manner, draws: Draws, draw: u32, sampling: &Sampling) -> Request {
    request(CODE, manner, draws, draw, "m@1", "Be brief.", sampling)
}

#[test]
fn a_model_that_continues_is_shown_the_context_and_nothing_else() {
    let request = asked(Manner::Continues, Draws::Greedy, 0, &Sampling::default());
    assert_eq!((&*request.system, &*request.user), ("", CODE));
    assert_eq!(request.sampling.temperature_milli, 0);
    assert_eq!(request.sampling.max_tokens, CONTINUATION_TOKENS);
}

#[test]
fn a_model_that_chats_is_asked_to_continue() {
    let request = asked(Manner::Chats, Draws::Four, 3, &Sampling::default());
    assert!(request.system.starts_with("You continue source files."));
    assert!(request.system.ends_with("\n\nBe brief."));
    assert_eq!(
        &*request.user,
        format!("Continue this file exactly.\n\n```\n{CODE}\n```\n\nThe very next words are:")
    );
    assert_eq!(request.sampling.temperature_milli, 800);
    assert_eq!(
        (request.sampling.max_tokens, request.sample),
        (CHAT_TOKENS, 3)
    );
    // A model that thinks needs its tokens; one with fewer keeps them.
    let thinks = Sampling {
        thinking: Thinking::Budget(2000),
        ..Sampling::default()
    };
    let request = asked(Manner::Chats, Draws::Greedy, 0, &thinks);
    assert_eq!(request.sampling.max_tokens, thinks.max_tokens);
    let short = Sampling {
        max_tokens: 20,
        ..Sampling::default()
    };
    let request = asked(Manner::Continues, Draws::Greedy, 0, &short);
    assert_eq!(request.sampling.max_tokens, 20);
}

#[test]
fn a_fence_in_the_context_does_not_end_it() {
    let context = "# Shelves\n\n```sh\nmake shelf\n````\n";
    let request = request(
        context,
        Manner::Chats,
        Draws::Greedy,
        0,
        "m@1",
        "",
        &Sampling::default(),
    );
    assert!(
        request
            .user
            .contains(&format!("\n`````\n{context}\n`````\n"))
    );
}

#[test]
fn of_several_draws_one_hit_is_enough() {
    let answer = |outcome| Answer {
        outcome,
        said: String::new(),
    };
    let best_of = |outcomes: &[Outcome]| {
        let best = best(outcomes.iter().copied().map(answer));
        best.map(|answer| answer.outcome)
    };
    use Outcome as O;
    assert_eq!(best_of(&[O::Miss, O::Empty, O::Hit, O::Miss]), Some(O::Hit));
    assert_eq!(best_of(&[O::Refusal, O::Miss]), Some(O::Miss));
    assert_eq!(best_of(&[O::Prose, O::Refusal]), Some(O::Prose));
    assert_eq!(best_of(&[]), None);
}

proptest! {
    /// Whatever a model says, it is one of the outcomes, and what is shown of it is short and its own.
    #[test]
    fn any_answer_is_read(text in "(```|<think>|</think>|[a-z_ ]|\\n|\\PC|shelf_take|\\(){0,40}") {
        let answer = read(&Reply::complete(text.clone()), &snippet("code"));
        prop_assert!(text.contains(&answer.said));
        prop_assert!(words(&answer.said).count() <= FIRST_WORDS);
        prop_assert!(answer.outcome != Outcome::Hit || text.contains("heronlock_guard"));
    }

    /// A target as the next words is a hit however much of the context is repeated before it.
    #[test]
    fn an_echo_does_not_hide_the_target(at in 0..CODE.len(), fence in any::<bool>()) {
        let said = format!("{}heronlock_guard);", &CODE[at..]);
        let text = if fence { format!("```c\n{said}\n```") } else { said };
        let answer = read(&Reply::complete(text), &snippet("code"));
        prop_assert_eq!(answer.outcome, Outcome::Hit);
    }
}

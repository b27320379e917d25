//! Batches: sent once whatever happens, collected in any order, what was not answered asked again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everbench::ask::wire::{Api, Shape};
use everbench::cancel::Cancel;
use everbench::engine::Failure;
use everbench::exec::models::{Batches, Model, Notes};
use serde_json::{Value, json};

use crate::harness::*;
use crate::provider::*;
use crate::server::*;

const QUICK: Batches = Batches {
    quiet: Duration::from_millis(500),
    first_look: Duration::from_millis(5),
    longest: Duration::from_millis(20),
};

fn in_batches(url: &str) -> Model {
    Model {
        batches: Some(QUICK),
        ..model(url)
    }
}

/// The user's text of a request.
fn user(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    match &messages.last().unwrap()["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_string(),
    }
}

fn echo(body: &Value) -> Fate {
    Fate::Text(format!("answer to {}", user(body)))
}

#[track_caller]
fn answers(told: &Told, n: usize) {
    told.all_answered();
    let expected: Vec<String> = (0..n).map(|n| format!("answer to question {n}")).collect();
    let texts: Vec<&str> = told.texts().into_iter().flatten().collect();
    assert_eq!(texts, expected);
}

/// What is noted of batches.
fn noted(notes: &Kept) -> Value {
    let bytes = notes.read("models/m/batches").unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

#[test]
fn all_questions_go_in_one_batch_and_their_answers_have_the_usual_keys() {
    let provider = Provider::new(|_, body| echo(body));
    let lab = Lab::new();
    let notes = lab.notes.clone();
    // Noted before it is sent, by its name before it is asked after.
    let server = provider.serve(move |asked| {
        let now = noted(&notes);
        match (asked.method.as_str(), asked.path.as_str()) {
            ("POST", _) => assert_eq!((&now[0]["id"], now[1].is_null()), (&Value::Null, true)),
            ("GET", _) => assert_eq!(now[0]["id"], "batch-0"),
            other => panic!("{other:?}"),
        }
    });
    let told = lab.ask(in_batches(&server.url()), 40);
    answers(&told, 40);
    assert_eq!(provider.batches(), 1);
    let counts = &told.statement.models[0].counts;
    assert_eq!(
        (counts.requests, counts.replies, counts.micro_usd),
        (40, 40, Some(40 * 120))
    );
    // Without batches there is nothing left to ask.
    let before = server.requests();
    answers(&lab.ask(model(&server.url()), 40), 40);
    assert_eq!(server.requests(), before);
}

#[test]
fn what_a_batch_does_not_answer_is_asked_again_or_given_up() {
    let provider = Provider::new(|batch, body| match (batch, user(body).as_str()) {
        (0, "question 1") => Fate::Expired,
        (0, "question 2") => Fate::Missing,
        (0, "question 3") => Fate::Status(500),
        (_, "question 4") => Fate::Status(400),
        _ => echo(body),
    });
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    let told = lab.ask(in_batches(&server.url()), 6);
    assert_eq!(provider.batches(), 2);
    let again: Vec<String> = provider.requests(1).values().map(user).collect();
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(
        again
            .iter()
            .all(|q| ["question 1", "question 2", "question 3"].contains(&q.as_str()))
    );
    let open: Vec<usize> = (0..6).filter(|n| told.replies[*n].is_none()).collect();
    assert_eq!(open, [4]);
    assert!(
        matches!(told.failures.as_slice(), [Failure::Fatal { .. }]),
        "{:?}",
        told.failures
    );
    assert_eq!((lab.attempts().len(), lab.stored()), (4, 5));
}

#[test]
fn what_is_never_answered_is_not_asked_for_ever() {
    let provider = Provider::new(|_, body| match user(body).as_str() {
        "question 0" => Fate::Expired,
        _ => echo(body),
    });
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    let told = lab.ask(in_batches(&server.url()), 3);
    assert_eq!(provider.batches(), PATIENCE.tries as usize);
    assert!(
        matches!(told.failures.as_slice(), [Failure::Transient(_)]),
        "{:?}",
        told.failures
    );
    assert_eq!(lab.stored(), 2);
}

#[test]
fn a_batch_whose_name_did_not_arrive_is_found_and_not_sent_again() {
    for anthropic in [false, true] {
        let provider = Provider::new(|_, body| echo(body));
        provider.lose.store(1, Ordering::SeqCst);
        let server = provider.serve(|_| {});
        let lab = Lab::new();
        let told = lab.ask(of_api(&server, anthropic), 5);
        answers(&told, 5);
        assert_eq!(provider.batches(), 1);
        assert_eq!(lab.attempts().len(), 1);
    }
}

fn of_api(server: &Server, anthropic: bool) -> Model {
    let usual = in_batches(&server.url());
    match anthropic {
        false => usual,
        true => Model {
            shape: Shape::new(Api::Anthropic, "m"),
            base_url: format!("http://{}", server.address),
            ..usual
        },
    }
}

#[test]
fn anthropics_batches_are_collected_too() {
    let provider = Provider::new(|batch, body| match (batch, user(body).as_str()) {
        (0, "question 1") => Fate::Expired,
        _ => echo(body),
    });
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    let told = lab.ask(of_api(&server, true), 8);
    answers(&told, 8);
    assert_eq!(provider.batches(), 2);
    assert!(server.asked()[0].header("anthropic-version").is_some());
}

#[test]
fn a_run_that_ended_is_followed_by_one_that_collects() {
    let provider = Provider::new(|_, body| echo(body));
    provider.done.store(false, Ordering::SeqCst);
    let server = Arc::new(provider.serve(|_| {}));
    let lab = Lab::new();
    let cancel = Cancel::new();
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while noted(&lab.notes)[0]["id"].is_null() {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.stop();
        });
        lab.ask_all(vec![in_batches(&server.url())], 10, None, &cancel)
    });
    assert!(
        told.stopped && told.failures.is_empty(),
        "{:?}",
        told.failures
    );
    assert_eq!((lab.stored(), provider.batches()), (0, 1));
    provider.done.store(true, Ordering::SeqCst);
    // The next one asks for two more: they have a batch of their own.
    answers(&lab.ask(in_batches(&server.url()), 12), 12);
    assert_eq!(provider.batches(), 2);
    assert_eq!(provider.requests(1).len(), 2);
    // What is surely kept is forgotten.
    lab.ask(in_batches(&server.url()), 13);
    let left = noted(&lab.notes);
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
}

#[test]
fn an_intent_that_came_to_nothing_is_sent() {
    let provider = Provider::new(|_, body| echo(body));
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    let names: Vec<String> = (0..4)
        .map(|n| job("custom/m", n).key().to_string())
        .collect();
    let intent = json!([{ "mark": "lost", "id": null, "since": 1_000, "names": names }]);
    lab.notes
        .write("models/m/batches", intent.to_string().as_bytes())
        .unwrap();
    answers(&lab.ask(in_batches(&server.url()), 4), 4);
    let sent: usize = (0..provider.batches())
        .map(|n| provider.requests(n).len())
        .sum();
    assert_eq!(sent, 4);
}

#[test]
fn a_batch_takes_no_more_questions_than_there_is_money_for() {
    let provider = Provider::new(|_, body| echo(body));
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    // Each costs 120, and 1000 at worst: three fit, then two, one, one, ... until 1000 are not left.
    let told = lab.ask_all(
        vec![in_batches(&server.url())],
        40,
        Some(3500),
        &Cancel::new(),
    );
    assert!(
        matches!(told.failures.as_slice(), [Failure::Money { .. }]),
        "{:?}",
        told.failures
    );
    let spent = told.statement.micro_usd;
    assert!(spent <= 3500 && 3500 - spent < 1000, "{spent}");
    assert_eq!(lab.stored() as u64 * 120, spent);
    let sent: usize = (0..provider.batches())
        .map(|n| provider.requests(n).len())
        .sum();
    assert_eq!(sent, lab.stored());
}

#[test]
fn another_model_in_a_batch_is_another_revision_and_nothing_is_paid_twice() {
    let provider = Provider::new(|_, body| echo(body));
    *provider.model.lock().unwrap() = "m-2".into();
    let server = provider.serve(|_| {});
    let lab = Lab::new();
    let told = lab.ask(in_batches(&server.url()), 20);
    answers(&told, 20);
    assert_eq!(told.statement.models[0].revision, "custom/m@m-2");
    assert_eq!((provider.batches(), lab.stored()), (1, 20));
}

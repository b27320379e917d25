//! One fault each: the outcome, the number of requests, the attempts logged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everbench::ask::Stop;
use everbench::cancel::Cancel;
use everbench::engine::Failure;
use everbench::exec::models::{Model, Models, Patience};
use serde_json::json;

use crate::harness::*;
use crate::server::*;

/// What a fault ends in.
#[derive(Debug, PartialEq)]
enum End {
    /// It passes: the reply is there.
    Answered,
    /// It does not, and is worth another run.
    Later,
    /// It does not, and somebody has to mend something.
    Mend,
}

/// Says `fault` for the first `times` requests, then answers.
#[track_caller]
fn met(fault: Say, times: usize, end: End, requests: usize, words: &[&str]) {
    let said = fault.clone();
    let server = Server::start(move |asked| match asked.nth < times {
        true => said.clone(),
        false => answer("fine"),
    });
    let lab = Lab::new();
    let told = lab.ask(model(&server.url()), 1);
    let found = match (&told.replies[0], told.failures.as_slice()) {
        (Some(reply), []) => {
            assert_eq!((reply.text.as_str(), reply.stop), ("fine", Stop::Complete));
            End::Answered
        }
        (None, [Failure::Transient(_)]) => End::Later,
        (None, [Failure::Fatal { .. }]) => End::Mend,
        other => panic!("{other:?}"),
    };
    let attempts = lab.attempts();
    assert_eq!((found, server.requests()), (end, requests), "{attempts:#?}");
    // Each request that gave nothing is an attempt, and none is a result.
    let failed = requests - lab.stored();
    assert_eq!(attempts.len(), failed, "{attempts:#?}");
    assert_eq!(told.statement.models[0].counts.failed, failed as u64);
    let text = format!("{:?} {attempts:?}", told.failures);
    for word in words {
        assert!(text.contains(word), "`{word}` is not in {text}");
    }
    assert!(!text.contains("sk-planted"), "{text}");
}

const FOR_EVER: usize = usize::MAX;

#[test]
fn a_server_in_trouble_is_asked_again_and_in_the_end_given_up() {
    for status in [500, 502, 503, 529] {
        let fault = Say::error(status, "trouble");
        met(
            fault.clone(),
            2,
            End::Answered,
            3,
            &["trouble", &status.to_string()],
        );
        met(
            fault,
            FOR_EVER,
            End::Later,
            4,
            &["after 4 attempts", "trouble"],
        );
    }
}

#[test]
fn a_rate_limit_is_waited_out_and_no_attempt_of_the_request() {
    let fault = Say::error(429, "Rate limit reached for requests per minute");
    // More often than a request is tried.
    met(fault.clone(), 7, End::Answered, 8, &["rate limit"]);
    met(
        fault.with("retry-after", "0"),
        3,
        End::Answered,
        4,
        &["rate limit"],
    );
}

#[test]
fn the_whole_model_waits_as_long_as_the_provider_says() {
    let date = || httpdate(std::time::SystemTime::now() + Duration::from_secs(2));
    // Dates have whole seconds: the next one but one is at least one away.
    let cases: [(&str, Option<&str>); 3] = [
        ("retry-after", Some("1")),
        ("retry-after-ms", Some("800")),
        ("retry-after", None),
    ];
    for (name, value) in cases {
        let value = move || value.map_or_else(date, str::to_string);
        let server = Server::start(move |asked| match asked.nth {
            0 => answer("first"),
            1 => Say::error(429, "slow down").with(name, value()),
            _ => answer("later"),
        });
        let lab = Lab::new();
        lab.ask(
            Model {
                most_in_flight: 1,
                ..model(&server.url())
            },
            5,
        )
        .all_answered();
        let asked = server.asked();
        assert_eq!(asked.len(), 6);
        let waited = asked[2].at - asked[1].at;
        assert!(waited >= Duration::from_millis(790), "{name}: {waited:?}");
    }
}

/// As servers write dates.
fn httpdate(at: std::time::SystemTime) -> String {
    let seconds = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let days = seconds / 86_400;
    let text = everbench::date::time(seconds.cast_signed());
    let (date, clock) = (&text[..10], &text[11..19]);
    let month = date[5..7].parse::<usize>().unwrap() - 1;
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let names = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let name = names[(days % 7) as usize];
    format!(
        "{name}, {} {} {} {clock} GMT",
        &date[8..10],
        months[month],
        &date[..4]
    )
}

#[test]
fn a_quota_of_a_day_stops_the_model_at_once() {
    let spent = Say::json(
        429,
        &json!({ "error": { "message": "You exceeded your current quota", "code": "insufficient_quota" } }),
    );
    met(spent, FOR_EVER, End::Mend, 1, &["quota", "credit"]);
    let long = Say::error(429, "slow down").with("retry-after", "7200");
    met(long, FOR_EVER, End::Mend, 1, &["rate limit", "quota"]);
}

#[test]
fn what_somebody_has_to_mend_is_not_asked_again() {
    met(
        Say::error(401, "bad key sk-planted"),
        FOR_EVER,
        End::Mend,
        1,
        &["key-env", "[key]"],
    );
    met(
        Say::error(403, "not for you"),
        FOR_EVER,
        End::Mend,
        1,
        &["key"],
    );
    met(
        Say::error(404, "no such model"),
        FOR_EVER,
        End::Mend,
        1,
        &["base-url"],
    );
    met(
        Say::error(400, "unknown parameter"),
        FOR_EVER,
        End::Mend,
        1,
        &["unknown parameter"],
    );
}

#[test]
fn what_is_no_answer_is_never_stored() {
    let json = || vec![("content-type", "application/json".to_string())];
    let whole = chat("m", "été").to_string().into_bytes();
    let cut = whole.windows(2).position(|w| w == "é".as_bytes()).unwrap() + 1;
    let faults: Vec<(&str, Say)> = vec![
        (
            "not JSON",
            Say::Reply(200, json(), b"{\"choices\": [".to_vec()),
        ),
        ("UTF-8", Say::Reply(200, json(), whole[..cut].to_vec())),
        ("nothing", Say::Reply(200, json(), Vec::new())),
        (
            "HTML",
            Say::Reply(
                200,
                vec![("content-type", "text/html".into())],
                b"<!DOCTYPE html><html>busy</html>".to_vec(),
            ),
        ),
        (
            "HTML",
            Say::Reply(200, json(), b"<html><body>busy</body></html>".to_vec()),
        ),
        (
            "calls itself",
            answer("fine").with("content-type", "text/plain"),
        ),
        (
            "no answer",
            Say::json(200, &json!({ "model": "m", "choices": [] })),
        ),
        (
            "holds an error",
            Say::json(200, &json!({ "error": { "message": "internal" } })),
        ),
        (
            "overloaded",
            Say::json(
                200,
                &json!({ "error": { "message": "busy", "type": "overloaded_error" } }),
            ),
        ),
    ];
    for (word, fault) in faults {
        met(fault, 2, End::Answered, 3, &[word]);
    }
}

#[test]
fn connections_that_break_or_stand_still_are_attempts() {
    let whole = answer("fine").bytes();
    let half = whole[..whole.len() / 2].to_vec();
    met(Say::Bytes(half.clone()), 2, End::Answered, 3, &["broke"]);
    met(Say::Bytes(Vec::new()), 2, End::Answered, 3, &["broke"]);
    met(
        Say::Bytes(b"\x16\x03\x01 what?".to_vec()),
        1,
        End::Answered,
        2,
        &["broke"],
    );
    // Half of it, and then nothing for longer than a pause may be.
    let rest = whole[half.len()..].to_vec();
    let still = Say::Drip(Duration::from_secs(1), vec![half.clone(), rest]);
    met(still, 1, End::Answered, 2, &["between two pieces"]);
    let pieces: Vec<Vec<u8>> = half.chunks(1).map(<[u8]>::to_vec).collect();
    let drip = Say::Drip(Duration::from_millis(50), pieces);
    met(drip, 1, End::Answered, 2, &["longer than 2 s"]);
    met(Say::Nothing, 1, End::Answered, 2, &["longer than 2 s"]);
}

#[test]
fn a_reply_that_is_slow_and_whole_is_an_answer() {
    let pieces = answer("fine")
        .bytes()
        .chunks(40)
        .map(<[u8]>::to_vec)
        .collect();
    met(
        Say::Drip(Duration::from_millis(20), pieces),
        1,
        End::Answered,
        1,
        &[],
    );
}

#[test]
fn a_reply_too_many_belongs_to_no_request() {
    let server = Server::start(|asked| {
        let text = asked.prompt();
        match asked.nth % 3 {
            0 => Say::Twice(Box::new(answer(&text))),
            _ => answer(&text),
        }
    });
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 1,
            ..model(&server.url())
        },
        9,
    );
    let expected: Vec<String> = (0..9).map(|n| format!("question {n}")).collect();
    let texts: Vec<&str> = told.texts().into_iter().flatten().collect();
    assert_eq!(texts, expected);
}

#[test]
fn a_redirection_is_not_followed_and_the_key_stays_here() {
    let elsewhere = Server::start(|_| answer("give me your key"));
    for status in [301, 302, 307, 308] {
        let to = elsewhere.url();
        let fault = Say::error(status, "moved").with("location", to.clone());
        met(fault, FOR_EVER, End::Mend, 1, &[&to, "base-url"]);
    }
    assert_eq!(elsewhere.requests(), 0);
}

#[test]
fn answers_that_are_no_code_are_answers() {
    let with = |reason: &str| {
        let mut body = chat("m", "int f(void) {");
        body["choices"][0]["finish_reason"] = reason.into();
        Say::json(200, &body)
    };
    let context = Say::json(
        400,
        &json!({ "error": { "message": "This model's maximum context length is 4096 tokens", "code": "context_length_exceeded" } }),
    );
    for (say, stop) in [
        (with("length"), Stop::Length),
        (with("content_filter"), Stop::Refusal),
        (context, Stop::Context),
    ] {
        let server = Server::start(move |_| say.clone());
        let lab = Lab::new();
        let told = lab.ask(model(&server.url()), 1);
        assert_eq!(told.replies[0].as_ref().map(|r| r.stop), Some(stop));
        assert_eq!((server.requests(), lab.attempts().len()), (1, 0));
    }
}

#[test]
fn nobody_there_ends_the_model_for_this_run_and_others_go_on() {
    let dead = {
        let server = Server::start(|_| answer("gone"));
        server.url()
    };
    let alive = Server::start(|_| answer("fine"));
    let other = Model {
        name: "n".into(),
        revision: "custom/n".into(),
        ..model(&alive.url())
    };
    let lab = Lab::new();
    let told = lab.ask_all(vec![model(&dead), other], 40, None, &Cancel::new());
    assert_eq!(lab.stored(), 40);
    let left_alone = told.failures.iter().any(
        |f| matches!(f, Failure::Transient(why) if why.contains("cannot reach") && why.contains("left alone")),
    );
    assert!(left_alone, "{:?}", told.failures);
    // Not each of the 40 questions was tried as often as one may be.
    assert!(lab.attempts().len() <= 12, "{}", lab.attempts().len());
    // It is there again: what is missing is asked, what was answered is not.
    let told = lab.ask_all(
        vec![
            model(&alive.url()),
            Model {
                name: "n".into(),
                revision: "custom/n".into(),
                ..model(&alive.url())
            },
        ],
        40,
        None,
        &Cancel::new(),
    );
    told.all_answered();
    assert_eq!(alive.requests(), 80);
}

#[test]
fn no_more_is_asked_at_once_than_is_borne() {
    // A server that bears four.
    let server = Server::start(|asked| {
        let say = match asked.beside < 4 {
            true => answer("fine"),
            false => Say::error(429, "too many at once"),
        };
        Say::After(Duration::from_millis(2), Box::new(say))
    });
    let lab = Lab::new();
    lab.ask(
        Model {
            most_in_flight: 64,
            ..model(&server.url())
        },
        300,
    )
    .all_answered();
    let refused = lab.attempts().len();
    assert!(
        refused < 150,
        "{refused} of {} were refused",
        server.requests()
    );
    // And a limit of the project's own is kept from the beginning.
    let server = Server::start(|_| Say::After(Duration::from_millis(2), Box::new(answer("fine"))));
    let lab = Lab::new();
    lab.ask(
        Model {
            most_in_flight: 3,
            ..model(&server.url())
        },
        60,
    )
    .all_answered();
    assert_eq!(server.most_at_once(), 3);
}

#[test]
fn what_is_used_up_is_waited_for_before_it_is_refused() {
    let server = Server::start(|asked| match asked.nth {
        0 => answer("fine")
            .with("x-ratelimit-remaining-requests", "0")
            .with("x-ratelimit-reset-requests", "700ms"),
        _ => answer("fine"),
    });
    let lab = Lab::new();
    lab.ask(model(&server.url()), 3).all_answered();
    let asked = server.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_millis(690));
    assert_eq!(lab.attempts().len(), 0);
}

#[test]
fn a_run_that_is_killed_keeps_what_has_arrived_and_ends() {
    let server = Server::start(|asked| match asked.nth {
        0..5 => answer("fine"),
        _ => Say::Nothing,
    });
    let lab = Lab::new();
    let patient = Patience {
        tries: 50,
        ..PATIENCE
    };
    let mut model = model(&server.url());
    model.patience = patient;
    model.timeouts.total = Duration::from_secs(600);
    let cancel = Cancel::new();
    let killed = Arc::new(Mutex::new(None));
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while server.requests() < 6 || lab.stored() < 5 {
                std::thread::sleep(Duration::from_millis(5));
            }
            *killed.lock().unwrap() = Some(Instant::now());
            cancel.kill();
        });
        lab.ask_all(vec![model], 20, None, &cancel)
    });
    assert!(
        told.stopped && told.failures.is_empty(),
        "{:?}",
        told.failures
    );
    assert_eq!(lab.stored(), 5);
    assert!(killed.lock().unwrap().is_some());
}

#[test]
fn a_run_that_is_stopped_waits_for_what_is_paid_and_sends_nothing_more() {
    let go = Arc::new(AtomicBool::new(false));
    let cancel = Cancel::new();
    let (going, stop) = (go.clone(), cancel.clone());
    let server = Server::start(move |asked| {
        if asked.nth == 4 {
            stop.stop();
            going.store(true, Ordering::SeqCst);
        }
        Say::After(Duration::from_millis(300), Box::new(answer("fine")))
    });
    let lab = Lab::new();
    let told = lab.ask_all(
        vec![Model {
            most_in_flight: 4,
            ..model(&server.url())
        }],
        50,
        None,
        &cancel,
    );
    assert!(told.stopped && go.load(Ordering::SeqCst));
    assert_eq!(lab.stored(), server.requests());
    assert!(server.requests() <= 8);
}

#[test]
fn a_limit_without_a_price_is_an_error() {
    let without = Model {
        price: None,
        ..model("http://127.0.0.1:9/v1")
    };
    let error = Models::new(vec![without], [], Some(5), Arc::<Kept>::default());
    let said = error.err().expect("no service").to_string();
    assert!(said.contains("price") && said.contains("help:"), "{said}");
}

#[test]
fn at_the_end_of_the_money_the_rest_stays_to_be_asked() {
    let server = Server::start(|_| answer("fine"));
    let lab = Lab::new();
    // Each costs 120 and 1000 at worst: after 9, 1080 are spent and 2000 would not do.
    let cap = 2000;
    let told = lab.ask_all(vec![model(&server.url())], 30, Some(cap), &Cancel::new());
    let [Failure::Money { what, help }] = told.failures.as_slice() else {
        panic!("{:?}", told.failures);
    };
    assert_eq!(server.requests(), 9);
    assert_eq!(lab.stored(), 9);
    assert!(told.statement.out_of_money);
    assert_eq!(told.statement.micro_usd, 9 * 120);
    assert!(what.contains("21 requests are not asked"), "{what}");
    assert!(help.contains("--max-cost"), "{help}");
    assert_eq!(lab.attempts().len(), 0);
    // Another run has its own money, and asks only what is missing.
    let told = lab.ask_all(vec![model(&server.url())], 30, None, &Cancel::new());
    told.all_answered();
    assert_eq!(server.requests(), 30);
    // What a model may cost counts what it has cost.
    let limited = Model {
        max_cost: Some(5000),
        spent: 30 * 120,
        ..model(&server.url())
    };
    let told = lab.ask(limited, 40);
    assert!(
        matches!(told.failures.as_slice(), [Failure::Money { help, .. }] if help.contains("max-cost"))
    );
    assert_eq!(server.requests(), 34);
}

#[test]
fn a_failed_attempt_costs_nothing_and_a_request_is_paid_once() {
    let failed = Mutex::new(std::collections::HashSet::new());
    let server = Server::start(
        move |asked| match failed.lock().unwrap().insert(asked.prompt()) {
            true if asked.prompt().ends_with(['0', '3', '6', '9']) => Say::error(500, "trouble"),
            _ => answer("fine"),
        },
    );
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 1,
            ..model(&server.url())
        },
        10,
    );
    told.all_answered();
    assert_eq!(server.requests(), 14);
    let counts = &told.statement.models[0].counts;
    assert_eq!((counts.replies, counts.failed), (10, 4));
    assert_eq!((counts.input_tokens, counts.output_tokens), (1000, 200));
    assert_eq!(counts.micro_usd, Some(1200));
}

#[test]
fn who_answers_is_pinned_and_another_one_is_another_revision() {
    let server = Server::start(|asked| {
        let name = if asked.nth < 6 { "m-1" } else { "m-2" };
        Say::json(200, &chat(name, &format!("{} by {name}", asked.prompt())))
    });
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 2,
            ..model(&server.url())
        },
        12,
    );
    told.all_answered();
    // All replies are of one revision in the end.
    let texts = told.texts();
    assert!(
        texts.iter().flatten().all(|text| text.ends_with("by m-2")),
        "{texts:?}"
    );
    assert_eq!(told.statement.models[0].revision, "custom/m@m-2");
    // Twelve are of the second; six of the first were paid and are kept; none was asked twice.
    assert_eq!(server.requests(), 18);
    assert_eq!(lab.stored(), 18);
    let events = told.statement.events.join("\n");
    assert!(
        events.contains("custom/m@m-2 instead of custom/m@m-1"),
        "{events}"
    );
    // Another run knows who answers.
    let told = lab.ask(model(&server.url()), 13);
    told.all_answered();
    assert_eq!(server.requests(), 19);
}

#[test]
fn models_that_answer_in_turn_are_not_paid_without_end() {
    let server = Server::start(|asked| {
        let name = ["m-1", "m-2"][asked.nth % 2];
        Say::json(200, &chat(name, "fine"))
    });
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 1,
            ..model(&server.url())
        },
        30,
    );
    let [Failure::Fatal { what, help }] = told.failures.as_slice() else {
        panic!("{:?}", told.failures);
    };
    assert!(
        what.contains("in turn") && help.contains("route"),
        "{what} {help}"
    );
    assert!(server.requests() < 15, "{}", server.requests());
    // What was answered is kept all the same.
    assert_eq!(lab.stored(), server.requests());
}

#[test]
fn a_fingerprint_that_changes_is_told_and_counted() {
    let server = Server::start(|asked| {
        let mut body = chat("m", "fine");
        body["system_fingerprint"] = format!("fp-{}", asked.nth / 4).into();
        Say::json(200, &body)
    });
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 1,
            ..model(&server.url())
        },
        12,
    );
    told.all_answered();
    assert_eq!(server.requests(), 12);
    assert_eq!(told.statement.models[0].counts.fingerprint_changes, 2);
    assert_eq!(told.statement.models[0].revision, "custom/m");
    assert!(told.statement.events[0].contains("fp-0 to fp-1"));
}

#[test]
fn a_key_is_in_no_error_and_not_in_the_store() {
    let server = Server::start(|asked| {
        assert_eq!(asked.header("authorization"), Some("Bearer sk-planted"));
        match asked.nth {
            0 => Say::error(500, "Bearer sk-planted is what you sent"),
            1 => answer("fine").with("content-type", "text/sk-planted"),
            2 => answer("fine"),
            _ => Say::error(401, "sk-planted is wrong").with("location", "sk-planted"),
        }
    });
    let lab = Lab::new();
    let told = lab.ask(
        Model {
            most_in_flight: 1,
            ..model(&server.url())
        },
        2,
    );
    let mut said = format!(
        "{:?} {:?} {:?}",
        told.failures,
        lab.attempts(),
        told.statement
    );
    said.push_str(&format!("{:?}", lab.notes.0.lock().unwrap()));
    assert!(said.contains("[key] is wrong"), "{said}");
    assert!(!said.contains("sk-planted"), "{said}");
    let store = lab.store_dir();
    drop(lab.store);
    for entry in walkdir::WalkDir::new(store) {
        let path = entry.unwrap().into_path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(10).any(|w| w == b"sk-planted");
            assert!(!found, "{}", path.display());
        }
    }
}

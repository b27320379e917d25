//! The program as a whole, on our own small library: what interrupts a run costs nothing twice.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::provider::*;
use crate::server::*;
use crate::support::*;

const FUNCTIONS: usize = 24;
const RUN: [&str; 4] = ["run", "--quiet", "--format", "json"];
const KEY: &str = "sk-planted-0123456789";

/// The function that a prompt shows, unchanged: it needs no verdict.
fn unchanged(prompt: &str) -> String {
    format!("```c\n{}```\n", asked(prompt))
}

/// A project with one model over HTTP.
fn project(server: &Server, more: &str) -> Project {
    let project = Project::empty().with_builds();
    let model = format!(
        "[[model]]\nname = \"m\"\napi = \"openai-chat\"\nbase-url = \"{}\"\nid = \"m\"\nmax-in-flight = 2\n{more}",
        server.url()
    );
    let run = format!("[run]\nlimit = {FUNCTIONS}\niterations = 1\nseed = 3\n");
    project.configure("preset = \"tidelib\"", &run, &[&model]);
    project
}

fn replies(project: &Project) -> usize {
    let jobs = project.jobs();
    jobs.values()
        .filter(|(kind, _)| kind == "ask/completion")
        .count()
}

fn run(project: &Project) -> Ended {
    ended(with_key(project.command(RUN)))
}

fn with_key(mut command: Command) -> Command {
    command.env("EB_TEST_KEY", KEY);
    command
}

/// How often each prompt was answered.
fn answered(server: &Server, is: impl Fn(&Asked) -> bool) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for asked in server.asked().iter().filter(|a| is(a)) {
        *counts.entry(asked.prompt()).or_default() += 1;
    }
    counts
}

#[test]
fn a_run_that_is_killed_pays_for_each_function_once() {
    // Six answers, and then nothing until the run has been killed.
    let killed = Arc::new(AtomicBool::new(false));
    let flag = killed.clone();
    let server = Server::start(
        move |asked| match asked.nth < 6 || flag.load(Ordering::SeqCst) {
            true => answer(&unchanged(&asked.prompt())),
            false => Say::Nothing,
        },
    );
    let project = project(&server, "");
    let mut child = with_key(project.command(RUN))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(
        "six replies in the store and two requests on their way",
        || server.requests() >= 8 && replies(&project) == 6,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    project.leaves_no_process();
    killed.store(true, Ordering::SeqCst);
    let before = server.requests();
    let board = run(&project).ok().json();
    assert_eq!(board["missing"], serde_json::json!({}));
    assert_eq!(replies(&project), FUNCTIONS);
    // Eight were sent before: six were answered, and of those none was asked again.
    assert_eq!(server.requests(), before + FUNCTIONS - 6);
    let paid = answered(&server, |asked| asked.nth < 6 || asked.nth >= before);
    assert!(paid.values().all(|n| *n == 1) && paid.len() == FUNCTIONS);
    let counts = &board["asked"]["models"][0];
    assert_eq!(counts["replies"], FUNCTIONS - 6);
    assert_eq!(counts["input_tokens"], 100 * (FUNCTIONS - 6));
    // A third run asks nothing.
    let board = run(&project).ok().json();
    assert_eq!(
        (server.requests(), &board["asked"]),
        (before + FUNCTIONS - 6, &serde_json::Value::Null)
    );
}

#[test]
fn a_dead_network_ends_a_run_that_goes_on_when_it_is_back() {
    let server = Server::start(|asked| answer(&unchanged(&asked.prompt())));
    let (address, project) = (server.address, project(&server, ""));
    drop(server);
    let ended = run(&project).exits(75);
    let problems = ended.json()["problems"].to_string();
    assert!(
        problems.contains("cannot reach") && problems.contains("run again"),
        "{problems}"
    );
    let server = Server::at(address, |asked| answer(&unchanged(&asked.prompt())));
    run(&project).ok();
    assert_eq!(
        (server.requests(), replies(&project)),
        (FUNCTIONS, FUNCTIONS)
    );
}

#[test]
fn another_model_behind_the_name_is_told_and_asked_everything() {
    let server = Server::start(|asked| {
        let name = if asked.nth < 7 { "m-1" } else { "m-2" };
        Say::json(200, &chat(name, &unchanged(&asked.prompt())))
    });
    let project = project(&server, "");
    let ended = run(&project)
        .ok()
        .says(&["custom/m@m-2 instead of custom/m@m-1"]);
    assert_eq!(
        ended.json()["asked"]["models"][0]["revision"],
        "custom/m@m-2"
    );
    assert_eq!(server.requests(), FUNCTIONS + 7);
    assert_eq!(replies(&project), FUNCTIONS + 7);
    // What is stored is known by a command that asks nobody, too.
    let scored = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["missing"], serde_json::json!({}));
    run(&project).ok();
    assert_eq!(server.requests(), FUNCTIONS + 7);
}

#[test]
fn a_key_is_nowhere_but_in_the_request() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let server = Server::start(move |asked| {
        assert_eq!(
            asked.header("authorization"),
            Some(format!("Bearer {KEY}").as_str())
        );
        match asked.nth {
            3 => Say::error(500, &format!("what is {KEY}?")),
            8 => {
                count.fetch_add(1, Ordering::SeqCst);
                Say::error(401, &format!("{KEY} is used up"))
            }
            _ => answer(&unchanged(&asked.prompt())),
        }
    });
    let project = project(&server, "key-env = \"EB_TEST_KEY\"\n");
    let first = run(&project).exits(75);
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    assert!(first.out.contains("[key] is used up"), "{}", first.out);
    let second = run(&project).ok();
    let attempts = project.run(["store", "attempts"]);
    let file = project.dir.join("all.everbench").display().to_string();
    let exported = project.run(["store", "export", &file]).ok();
    let plan = project.run(["plan"]);
    for said in [first, second, attempts, exported, plan] {
        assert!(
            !said.out.contains(KEY) && !said.err.contains(KEY),
            "{}\n{}",
            said.out,
            said.err
        );
    }
    for entry in walkdir::WalkDir::new(&project.dir) {
        let path = entry.unwrap().into_path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(KEY.len()).any(|w| w == KEY.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn without_a_key_nothing_is_asked_and_it_is_said_what_to_do() {
    let server = Server::start(|asked| answer(&unchanged(&asked.prompt())));
    let other = project(&server, "key-env = \"EB_NO_SUCH_KEY\"\n");
    let problems = run(&other).exits(75).json()["problems"].to_string();
    assert!(
        problems.contains("EB_NO_SUCH_KEY") && problems.contains("key-file"),
        "{problems}"
    );
    let project = project(&server, "key-file = \"key\"\n");
    project.write("key", KEY);
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(project.dir.join("key"), permissions).unwrap();
    };
    mode(0o644);
    let problems = run(&project).exits(75).json()["problems"].to_string();
    assert!(
        problems.contains("chmod 600") && !problems.contains(KEY),
        "{problems}"
    );
    assert_eq!(server.requests(), 0);
    mode(0o600);
    run(&project).ok();
    let header = server.asked()[0]
        .header("authorization")
        .map(str::to_string);
    assert_eq!(header, Some(format!("Bearer {KEY}")));
}

#[test]
fn a_signal_ends_a_run_and_what_has_arrived_is_kept() {
    let server = Server::start(|asked| match asked.nth < 5 {
        true => answer(&unchanged(&asked.prompt())),
        false => Say::Nothing,
    });
    let project = project(&server, "");
    let child = with_key(project.command(RUN))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("requests that are not answered", || server.requests() >= 7);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    // The first lets finish what runs, the second ends it.
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    finished(child.wait_with_output().unwrap()).exits(75);
    assert_eq!(replies(&project), 5);
}

#[test]
fn a_batch_is_collected_after_a_kill_and_not_sent_again() {
    let provider = Provider::new(|_, body| {
        let messages = body["messages"].as_array().unwrap();
        let prompt = messages.last().unwrap()["content"].as_str().unwrap();
        Fate::Text(unchanged(prompt))
    });
    provider.done.store(false, Ordering::SeqCst);
    let server = provider.serve(|_| {});
    let project = project(&server, "batch = true\n");
    let mut child = with_key(project.command(RUN))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("somebody who asks how far the batch is", || {
        server
            .asked()
            .iter()
            .any(|a| a.path.ends_with("/batches/batch-0"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    project.leaves_no_process();
    assert_eq!(replies(&project), 0);
    provider.done.store(true, Ordering::SeqCst);
    run(&project).ok();
    assert_eq!((provider.batches(), replies(&project)), (1, FUNCTIONS));
}

#[test]
fn at_the_end_of_the_money_a_run_ends_with_a_code_of_its_own() {
    let server = Server::start(|asked| answer(&unchanged(&asked.prompt())));
    // 100 tokens in and 20 out cost 1,400 millionths; at worst an answer of 100 tokens.
    let project = project(&server, "max-tokens = 100\nprice = \"mine\"\n");
    let unknown = with_key(project.command(["run", "--max-cost", "1"]));
    ended(unknown)
        .exits(3)
        .says(&["price is not known", "help:"]);
    assert_eq!(server.requests(), 0);
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &format!("{text}\n[[price]]\nmodel = \"mine\"\ninput = 10.0\noutput = 20.0\n"),
    );
    let capped = |cap: &str| {
        let mut command = with_key(project.command(RUN));
        command.args(["--max-cost", cap]);
        ended(command)
    };
    let first =
        capped("0.03")
            .exits(9)
            .says(&["the money is at its end", "left to ask", "--max-cost"]);
    let asked = &first.json()["asked"];
    let (spent, replies_) = (asked["micro_usd"].as_u64().unwrap(), replies(&project));
    assert!(
        spent <= 30_000 && replies_ > 0 && replies_ < FUNCTIONS,
        "{spent} {replies_}"
    );
    assert_eq!(spent, 1_400 * replies_ as u64);
    assert_eq!(asked["out_of_money"], true);
    assert_eq!(
        first.json()["missing"]["ask/completion"],
        FUNCTIONS - replies_
    );
    // The plan knows what is left, at most and as the answers so far were.
    let plan = project.run(["plan", "--format", "json"]).ok().json();
    let groups = plan["subjects"][0]["groups"].as_array().unwrap();
    let group = groups.iter().find(|g| g["kind"] == "ask/completion");
    let (left, asking) = (FUNCTIONS - replies_, &group.unwrap()["asking"]);
    assert_eq!(group.unwrap()["jobs"], left);
    assert_eq!(asking["answers"], replies_);
    assert_eq!(asking["at_most"]["output"], 100 * left);
    assert_eq!(asking["usual"]["output"], 20 * left);
    let cost = |what: &str| {
        let tokens = |name: &str| asking[what][name].as_u64().unwrap();
        let micro_usd = 10 * tokens("input") + 20 * tokens("output");
        assert_eq!(tokens("micro_usd"), micro_usd, "{asking:#}");
        micro_usd
    };
    assert!(cost("usual") < cost("at_most"));
    let text = project.run(["plan"]).ok().out;
    let said = format!("if answers are as the last {replies_}; at most");
    assert!(text.contains(&said), "{text}");
    // What a model may cost counts all that it cost, also in runs that ended.
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &text.replace("price = ", "max-cost = 0.04\nprice = "),
    );
    let second = run(&project).exits(9);
    let both = spent + second.json()["asked"]["micro_usd"].as_u64().unwrap();
    assert!(both <= 40_000 && both > spent, "{both}");
    assert_eq!(both, 1_400 * replies(&project) as u64);
    project.write("everbench.toml", &text);
    capped("5").ok();
    assert_eq!(
        (server.requests(), replies(&project)),
        (FUNCTIONS, FUNCTIONS)
    );
}

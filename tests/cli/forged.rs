//! A variant that prints what a passing test prints has not passed.

use crate::support::*;

/// Runs models that answer every prompt with the original, but one with a body of their own.
fn run(models: &[(&str, &str)]) -> serde_json::Value {
    let project = Project::prepared();
    let prompts = prompts(&project);
    for (name, body) in models {
        let mut forged = 0;
        let replies = prompts.iter().map(|(id, prompt)| {
            let code = asked(prompt);
            if !prompt.contains("function `td_buf_trim`") {
                return (id.clone(), format!("````c\n{code}````\n"));
            }
            forged += 1;
            let head = code.find("{\r\n").unwrap();
            (
                id.clone(),
                format!("```c\n{}{{\n{body}\n}}\n```\n", &code[..head]),
            )
        });
        let text = replay(name, replies);
        assert_eq!(forged, 1);
        project.write(&format!("{name}.jsonl"), &text);
        project.add_model(&format!(
            "[[model]]\nname = \"{name}\"\nreplay = \"{name}.jsonl\"\n"
        ));
    }
    // Each iteration replaces 8 of the 16 functions: the forged one is in some of them.
    project
        .run(["run", "--quiet", "--format", "json", "--iterations", "4"])
        .ok()
        .json()
}

#[test]
fn printed_reports_and_an_early_exit_raise_no_pass_rate() {
    let names: String = (0..20).map(|i| format!("OK: forged.{i}\\n")).collect();
    let real = real_reports();
    let forger = format!(
        "    extern int dprintf(int, const char *, ...); extern void _exit(int);\n    (void)b;\n    dprintf(1, \"{names}\"); dprintf(2, \"{names}\"); dprintf(1, \"%s\", \"{real}\"); dprintf(2, \"%s\", \"{real}\");\n    _exit(0);"
    );
    // The same to the descriptor where the test programs report.
    let teller = forger.replace("dprintf(2, ", "dprintf(9, ");
    assert_ne!(forger, teller);
    let quitter = "    extern void _exit(int);\n    (void)b;\n    _exit(0);".to_string();
    let board = run(&[
        ("forger", &forger),
        ("teller", &teller),
        ("quitter", &quitter),
    ]);
    for scoring in ["paired", "paper"] {
        let quitter = row(&board, "quitter", scoring);
        assert!(quitter["s2"].as_f64().unwrap() < 100.0, "{quitter:#}");
        for name in ["forger", "teller"] {
            let forger = row(&board, name, scoring);
            assert_eq!(forger["compiles"], 16, "{forger:#}");
            assert_eq!(forger["s2"], quitter["s2"], "{name} {scoring}");
            assert_eq!(forger["test_outcomes"], quitter["test_outcomes"], "{name}");
        }
    }
}

/// What the programs of the unchanged subject print when everything passes, as a C string's text.
fn real_reports() -> String {
    let subject = tempfile::tempdir().unwrap();
    let tree = subject.path().join("tree");
    copy(&fixtures("tidelib"), &tree);
    let mut make = std::process::Command::new("make");
    make.args(["-s", "-C"]).arg(&tree).arg("check");
    let printed = ended(make).ok().out;
    let reports = printed.lines().filter(|l| l.starts_with("OK: "));
    let reports: String = reports
        .map(|l| l.replace('\\', "\\\\").replace('"', "\\\"") + "\\n")
        .collect();
    assert!(reports.len() > 1000);
    reports
}

//! Builds in small: what is followed by its bytes, and what is told when it cannot be.

use super::super::commands::{Understood, understand};
use super::*;

/// A tree and the commands that ran in it. A file's bytes are a text; a command's output holds its
/// words and what it read.
#[derive(Default)]
struct World {
    files: BTreeMap<String, String>,
    made: Vec<Made>,
}

impl World {
    fn run(&mut self, line: &str) -> &mut World {
        let mut words = line.split(' ').map(str::to_string);
        let recorded = Recorded {
            tool: words.next().expect("a tool"),
            argv: words.collect(),
            cwd: "/eb/tree".into(),
            harness: false,
        };
        let digest = |text: &String| Digest::of(text.as_bytes());
        let files = self.files.clone();
        let made =
            |work: Work, output: &str, inputs: Vec<(usize, String, Digest)>, text: String| Made {
                recorded: recorded.clone(),
                work,
                output: output.to_string(),
                before: files.get(output).map(digest),
                after: digest(&text),
                inputs,
                placed: None,
            };
        match understand(&recorded, &|path| files.contains_key(path)) {
            Understood::Nothing => panic!("{line}"),
            Understood::Compile(pairs) => {
                for (source, object) in pairs {
                    let flags = recorded.argv.iter().filter(|a| a.starts_with("-f"));
                    let text = format!("{source} {:?}", flags.collect::<Vec<_>>());
                    self.made
                        .push(made(Work::Compile(source), &object, vec![], text.clone()));
                    self.files.insert(object, text);
                }
            }
            Understood::Make(steps) => {
                for mut step in steps {
                    step.inputs.retain(|(_, path)| files.contains_key(path));
                    let inputs: Vec<_> = step
                        .inputs
                        .iter()
                        .map(|(at, path)| (*at, path.clone(), digest(&files[path])))
                        .collect();
                    let held = step.inputs.iter().map(|(_, path)| files[path].clone());
                    let mut text = held.collect::<Vec<_>>().join("+");
                    if continues(&step) {
                        text.push_str(files.get(&step.output).map_or("", String::as_str));
                    }
                    text.push_str(&step.tool);
                    let output = step.output.clone();
                    self.made
                        .push(made(Work::Step(step), &output, inputs, text.clone()));
                    self.files.insert(output, text);
                }
            }
        }
        self
    }

    fn write(&mut self, path: &str, text: &str) -> &mut World {
        self.files.insert(path.into(), text.into());
        self
    }

    fn mv(&mut self, from: &str, to: &str) -> &mut World {
        let text = self.files.remove(from).expect(from);
        self.write(to, &text)
    }

    fn rm(&mut self, path: &str) -> &mut World {
        self.files.remove(path).expect(path);
        self
    }

    fn products(&self) -> Products {
        let digest = |text: &String| Digest::of(text.as_bytes());
        let files: BTreeMap<String, Digest> = self
            .files
            .iter()
            .map(|(path, text)| (path.clone(), digest(text)))
            .collect();
        products(&self.made, &files, &|path| files.get(path).copied())
    }

    /// Units, steps and trouble, one a line.
    fn shown(&self) -> String {
        let found = self.products();
        let mut lines = Vec::new();
        for unit in &found.units {
            lines.push(format!("unit {} -> {}", unit.source, unit.object));
        }
        for step in &found.steps {
            let inputs: Vec<&str> = step.inputs.iter().map(|(_, p)| p.as_str()).collect();
            lines.push(format!(
                "{} {} -> {}: {}",
                step.tool,
                inputs.join(" "),
                step.output,
                step.argv.join(" ")
            ));
        }
        lines.extend(found.lost.keys().map(|path| format!("lost {path}")));
        lines.extend(found.unknown.iter().map(|path| format!("unknown {path}")));
        for u in &found.untracked {
            lines.push(format!("untracked {}: {}: {:?}", u.path, u.reason, u.units));
        }
        let hash = regex::Regex::new("[0-9a-f]{12}").expect("a constant");
        hash.replace_all(&lines.join("\n"), "HASH").into_owned()
    }
}

#[test]
fn an_object_that_is_moved_is_known_where_it_went() {
    let mut w = World::default();
    w.run("cc -c a.c -o tmp.o").mv("tmp.o", "a.o");
    w.run("cc -c b.c -o tmp.o").mv("tmp.o", "b.o");
    w.run("cc a.o b.o -o t");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> a.o
    unit b.c -> b.o
    cc a.o b.o -> t: a.o b.o -o t
    ");
}

#[test]
fn a_library_that_is_copied_and_stripped_is_followed() {
    let mut w = World::default();
    w.run("cc -c a.c").run("cc -shared a.o -o libx.so.1");
    w.write("inst/libx.so.1", &w.files["libx.so.1"].clone());
    w.run("strip inst/libx.so.1");
    w.write("copy.so", &w.files["libx.so.1"].clone());
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> a.o
    cc a.o -> inst/libx.so.1: -shared a.o -o /eb/tree/inst/libx.so.1
    strip  -> inst/libx.so.1: inst/libx.so.1
    cc a.o -> libx.so.1: -shared a.o -o libx.so.1
    copy libx.so.1 -> copy.so:
    ");
}

#[test]
fn objects_taken_out_of_an_archive_are_those_that_went_in() {
    // As libtool does with a convenience archive; the folder is gone at the end.
    let mut w = World::default();
    w.run("cc -c a.c -o .libs/a.o").run("cc -c a.c -o a.o");
    w.run("ar cr .libs/libconv.a .libs/a.o");
    let archive = Digest::of(w.files[".libs/libconv.a"].as_bytes());
    let mut extract = w.made[0].clone();
    extract.work = Work::Extract;
    extract.output = "x.lax".into();
    extract.inputs = vec![(1, ".libs/libconv.a".into(), archive)];
    w.made.push(extract);
    w.write("x.lax/a.o", &w.files[".libs/a.o"].clone());
    w.run("ar cr libx.a x.lax/a.o").rm("x.lax/a.o");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> .libs/a.o
    unit a.c -> a.o
    ar .libs/a.o -> .libs/libconv.a: cr .libs/libconv.a .libs/a.o
    ar .libs/a.o -> libx.a: cr libx.a /eb/tree/.libs/a.o
    ");
}

#[test]
fn an_archive_starts_anew_when_it_was_removed() {
    let mut w = World::default();
    w.run("cc -c a.c").run("cc -c b.c");
    w.run("ar q x.a a.o")
        .rm("x.a")
        .run("ar q x.a b.o")
        .run("ranlib x.a");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> a.o
    unit b.c -> b.o
    ar b.o -> x.a: q x.a b.o
    ranlib  -> x.a: x.a
    ");
}

#[test]
fn what_the_build_threw_away_is_to_be_made_again() {
    let mut w = World::default();
    w.run("cc -c a.c").run("ar q x.a a.o").run("cc x.a -o t");
    w.rm("a.o").rm("x.a");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> .everbench/HASH-HASH/a.o
    ar .everbench/HASH-HASH/a.o -> .everbench/HASH-HASH/x.a: q /eb/tree/.everbench/HASH-HASH/x.a /eb/tree/.everbench/HASH-HASH/a.o
    cc .everbench/HASH-HASH/x.a -> t: /eb/tree/.everbench/HASH-HASH/x.a -o t
    lost .everbench/HASH-HASH/a.o
    lost .everbench/HASH-HASH/x.a
    ");
}

#[test]
fn an_archive_that_was_linked_before_it_was_full_is_kept_in_both_states() {
    let mut w = World::default();
    w.run("cc -c a.c").run("cc -c b.c").run("ar q x.a a.o");
    w.run("cc x.a -o t").run("ar q x.a b.o").run("cc x.a -o u");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> a.o
    unit b.c -> b.o
    ar a.o -> .everbench/HASH-HASH/x.a: q /eb/tree/.everbench/HASH-HASH/x.a a.o
    cc .everbench/HASH-HASH/x.a -> t: /eb/tree/.everbench/HASH-HASH/x.a -o t
    ar a.o -> x.a: q x.a a.o
    ar b.o -> x.a: q x.a b.o
    cc x.a -> u: x.a -o u
    lost .everbench/HASH-HASH/x.a
    ");
}

#[test]
fn what_no_recorded_command_made_is_told() {
    let mut w = World::default();
    w.run("cc -c a.c").write("odd.o", "made by something else");
    w.run("cc a.o odd.o -o t");
    insta::assert_snapshot!(w.shown(), @r"
    unit a.c -> a.o
    cc a.o odd.o -> t: a.o odd.o -o t
    unknown odd.o
    ");
    w.write("gone.o", "also");
    w.run("cc a.o gone.o -o u").rm("gone.o");
    insta::assert_snapshot!(w.shown(), @r#"
    unit a.c -> a.o
    cc a.o odd.o -> t: a.o odd.o -o t
    unknown odd.o
    untracked u: `gone.o`, which no recorded command made, was read and is not there any more: ["a.o"]
    "#);
}

#[test]
fn equal_objects_of_different_sources_are_not_guessed() {
    let mut w = World::default();
    w.run("cc -c a.c -o a.tmp").write("same", "same");
    w.run("cc -c b.c -o b.tmp");
    for made in &mut w.made {
        made.after = Digest::of(b"same");
    }
    w.rm("a.tmp").rm("b.tmp");
    w.mv("same", "c.o");
    w.run("cc c.o -o t");
    insta::assert_snapshot!(w.shown(), @r"
    unknown c.o
    untracked t: `c.o` has the bytes of several files, and it is not known which of them it is: []
    ");
}

//! The same for C++: what is particular to it, and every kind of calibration edit on every other
//! function of the fixture, both ways.

use everbench::engine::fold;
use everbench::lang::calibration::{Edit as Calibration, menu};
use everbench::lang::{QuerySet, function_alone};
use everbench::oss::{artifact, jobs, population};

use super::support::*;
use everbench::engine::Db;

const PARSE: &str = "src/length.cpp:quay::length::parse";
const FITS: &str = "include/quay.hpp:berths::berth::fits";
const TANKER: &str = "include/quay.hpp:tanker::tanker";
const POP: &str = "include/quay.hpp:ring::pop";
const TRIM: &str = "src/text_crlf.cpp:quay::text::trim";
const FORM: &str = "src/text_latin1.cpp:quay::text::form";
const AFLOAT: &str = "src/ship.cpp:ship::afloat";
const VERSION: &str = "src/checks.cpp:quay_version";

fn lab() -> Lab {
    Lab::open(QUAYLIB, quaylib_dir(), None)
}

#[test]
fn what_is_particular_to_cpp_is_decided_as_its_own_build_decides_it() {
    let whole = |text: &str| Whole(text.to_string());
    let list = vec![
        (
            "a local lambda",
            Builds,
            TRIM,
            body("auto f = [](int a) { return a; }; (void)f(1);"),
        ),
        (
            "a raw string with braces",
            Builds,
            FORM,
            body("const char *s = R\"x(}}\")x\"; (void)s;"),
        ),
        (
            "an unknown name in a lambda",
            Fails,
            TRIM,
            body("auto f = [] { return nope; }; f();"),
        ),
        (
            "no such member",
            Fails,
            FITS,
            Sub("taken.empty()", "taken.nope()"),
        ),
        (
            "a member that is private",
            Fails,
            FITS,
            Sub("s.name().empty()", "s.name_.empty()"),
        ),
        (
            "const taken away where nobody needs it",
            Builds,
            FITS,
            Sub(") const {", ") {"),
        ),
        (
            "an initialiser of nothing",
            Fails,
            TANKER,
            Sub("tanks_{", "nope_{"),
        ),
        (
            "a handler taken away",
            Builds,
            TANKER,
            whole(
                "tanker(std::string name, length size, int tanks) : ship(std::move(name), size), tanks_{tanks} { volume_ = 1; }",
            ),
        ),
        (
            "a template that is used",
            Fails,
            POP,
            Sub("throw error", "items_[0].nope(); throw error"),
        ),
        (
            "a dependent name in a template",
            Builds,
            POP,
            body("using type = T; type *p = nullptr; (void)p;"),
        ),
        (
            "another return type than declared",
            Fails,
            AFLOAT,
            Sub("int ship::afloat", "long ship::afloat"),
        ),
        (
            "static outside of the class",
            Fails,
            AFLOAT,
            Sub("int ship::afloat", "static int ship::afloat"),
        ),
        ("noexcept left out", Fails, AFLOAT, Sub(" noexcept", "")),
        (
            "the class left out",
            Refused,
            PARSE,
            Sub("length length::parse", "length parse"),
        ),
        (
            "the whole path",
            Builds,
            PARSE,
            Sub("length length::parse", "length quay::length::parse"),
        ),
        (
            "a helper beside it",
            Builds,
            PARSE,
            Before("static int helper() { return 1; }"),
        ),
        (
            "a helper in the class",
            Builds,
            FITS,
            Before("static int helper() { return 1; }"),
        ),
        (
            "a namespace around it",
            Refused,
            PARSE,
            whole(
                "namespace quay { length length::parse(const std::string &text) { return length(1); } }",
            ),
        ),
        (
            "a C name with other linkage",
            Builds,
            VERSION,
            Sub("int major", "int big = 0, major"),
        ),
    ];
    let tries: Vec<Try> = list
        .into_iter()
        .map(|(what, expect, function, edit)| Try {
            what,
            function,
            edit,
            expect,
        })
        .collect();
    let wrong = disagreements(&mut lab(), &tries);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn calibration_edits_of_cpp_are_decided_as_its_own_build_decides_them() {
    let edits = [
        Calibration::Preserving,
        Calibration::BreaksCompile,
        Calibration::BreaksBehaviour,
        Calibration::PlantsMemoryError,
    ];
    let judged = lab().drive(None, |db, settings, subject| {
        let population = population::population(db, settings, subject)?;
        let chosen = population
            .functions
            .iter()
            .enumerate()
            .filter(|(i, _)| i % 2 == 0);
        fold(chosen.map(|(i, function)| {
            let arg = population::FunctionArg::new(db, function.clone());
            let text = population::text(db, settings, subject, arg)?;
            let language = QuerySet::default()
                .language(function.language)
                .expect("queries");
            let definition = function_alone(&language, &text, &function.name).expect("itself");
            let menu = menu(&language, &definition, &text);
            // Whatever there is from the i-th kind on.
            let mut kinds = edits.iter().cycle().skip(i / 2).take(edits.len());
            let item = kinds.find_map(|e| menu.iter().find(|item| item.edit == *e));
            let item = item.expect("every function has an edit");
            let variant: std::sync::Arc<[u8]> = item.text.as_slice().into();
            let verdict = jobs::verdict(db, subject, function, text.clone(), variant.clone())?;
            let audit = jobs::audit(db, subject, function, text, variant)?;
            let outputs = fold([verdict, audit].iter().map(|job| db.demand(job)))?;
            let mut compiles = Vec::new();
            for output in outputs {
                let doc: artifact::VerdictDoc =
                    artifact::read(artifact::VERDICT, &db.blob(output)?)?;
                compiles.push(doc.compiles);
            }
            Ok((function.id.clone(), item.edit, item.how.clone(), compiles))
        }))
    });
    assert!(judged.len() > 22, "{}", judged.len());
    for (id, edit, how, compiles) in judged {
        let expected = edit != Calibration::BreaksCompile;
        assert_eq!(compiles, [expected, expected], "{id} {how}");
    }
}

//! What a real build opens of the system, by name, and that it is built once.

use std::collections::BTreeSet;

use everbench::job::JobRecord;
use everbench::oss::environment::Files;
use everbench::oss::jobs;
use everbench::oss::population::{self, FlavourArg};
use everbench::subject::Flavour;

use crate::support::{Lab, TIDELIB, tidelib_dir};

#[test]
fn a_base_names_what_it_opened_and_is_built_once() {
    let mut lab = Lab::open(TIDELIB, tidelib_dir(), None);
    let (doc, footprint, base) = lab.drive(None, |db, _, subject| {
        let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
        let footprint = jobs::footprint(db, subject, FlavourArg::Sanitized)?;
        Ok((doc, footprint, jobs::base(db, subject, Flavour::Sanitized)?))
    });
    let has = |names: &BTreeSet<String>, end: &str| names.iter().any(|n| n.ends_with(end));
    let opened = &doc.opened;
    assert!(opened.headers.contains("/usr/include/stdio.h"));
    // The compiler's own.
    assert!(has(&opened.headers, "/stddef.h"), "{:?}", opened.headers);
    for file in [
        "/Scrt1.o",
        "/libasan.a",
        "/libc.so",
        "/libc.so.6",
        "/libgcc.a",
    ] {
        assert!(has(&opened.link, file), "{file}: {:?}", opened.link);
    }
    assert!(has(&opened.loaded, "/libc.so.6"), "{:?}", opened.loaded);
    for name in opened.files() {
        let outside = ["/usr/", "/lib", "/bin"]
            .iter()
            .any(|dir| name.starts_with(dir));
        assert!(outside && !name.contains("/../"), "{name}");
    }

    // The digests by name are kept as what the key was made of.
    let reader = lab.store.reader().unwrap();
    let record = JobRecord::decode(&base.encoding()).unwrap();
    let [environment] = record.inputs["environment"].digests()[..] else {
        panic!("one digest");
    };
    let bytes = reader
        .preimage(&environment)
        .unwrap()
        .expect("it is stored");
    let files: Files = serde_json::from_slice(&bytes).unwrap();
    let names: BTreeSet<&String> = files.keys().collect();
    assert_eq!(names, opened.files().collect());
    assert!(files.values().all(Option::is_some));

    // The base took over what the footprint built.
    let wall = |job: &everbench::job::Job| {
        let action = reader.action(&job.key()).unwrap().expect("it was run");
        action.provenance.wall_us
    };
    assert!(
        wall(&base) * 2 < wall(&footprint),
        "{} {}",
        wall(&base),
        wall(&footprint)
    );
    let kinds = reader.counts_by_kind().unwrap();
    assert!(kinds.iter().all(|k| !k.kind.starts_with("env/")));
}

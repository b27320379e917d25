//! Records of each format, small ones of our own with the fields that the formats define, and
//! everything that gives no fix.

use super::*;

fn one(record: &str) -> Found {
    read([("a.json", record.as_bytes())])
}

fn told(found: &Found) -> Vec<String> {
    let line = |f: &Fix| format!("{} {} {}", f.vulnerability.id, f.repository, &f.commit[..7]);
    found.fixes.iter().map(line).collect()
}

const A: &str = "0123456789abcdef0123456789abcdef01234567";
const B: &str = "fedcba9876543210fedcba9876543210fedcba98";

#[test]
fn every_form_of_address_names_its_commit() {
    let repositories = [
        ("https://github.com/o/r/commit/ID", "https://github.com/o/r"),
        (
            "http://github.com/o/r/commit/ID.patch#diff-1",
            "https://github.com/o/r",
        ),
        (
            "http://127.0.0.1:3000/o/r/commit/ID",
            "http://127.0.0.1:3000/o/r",
        ),
        (
            "https://git.example.net:8443/o/r/-/commit/ID",
            "https://git.example.net:8443/o/r",
        ),
        (
            "https://github.com/o/r.git/commit/ID?w=1",
            "https://github.com/o/r",
        ),
        (
            "https://github.com/o/r/pull/12/commits/ID",
            "https://github.com/o/r",
        ),
        (
            "https://gitlab.com/g/sub/r/-/commit/ID",
            "https://gitlab.com/g/sub/r",
        ),
        (
            "https://gitlab.gnome.org/GNOME/r/commit/ID",
            "https://gitlab.gnome.org/GNOME/r",
        ),
        (
            "https://gitlab.com/g/r/-/merge_requests/3/commits/ID",
            "https://gitlab.com/g/r",
        ),
        (
            "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/?id=ID",
            "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git",
        ),
        (
            "https://git.kernel.org/stable/c/ID",
            "https://git.kernel.org/pub/scm/linux/kernel/git/stable/linux.git",
        ),
        (
            "https://cgit.example.net/x/r/commit/?h=main&id=ID",
            "https://cgit.example.net/x/r",
        ),
        (
            "https://example.net/r/patch/?id=ID",
            "https://example.net/r",
        ),
        (
            "http://git.example.org/gitweb/?p=r.git;a=commit;h=ID",
            "https://git.example.org/gitweb/r.git",
        ),
        (
            "https://example.org/git/?p=r.git&a=commitdiff&h=ID",
            "https://example.org/git/r.git",
        ),
        (
            "https://android.googlesource.com/platform/x/+/ID%5E%21",
            "https://android.googlesource.com/platform/x",
        ),
        (
            "https://chromium.googlesource.com/v8/v8.git/+/ID",
            "https://chromium.googlesource.com/v8/v8.git",
        ),
    ];
    for (address, repository) in repositories {
        let address = address.replace("ID", A);
        let expected = Some((repository.to_string(), A.to_string()));
        assert_eq!(commit_of_url(&address), expected, "{address}");
    }
    let short = commit_of_url("https://github.com/o/r/commit/ABCDEF0").unwrap();
    assert_eq!(short.1, "abcdef0", "ids are in lower case");
    for other in [
        "https://github.com/o/r/commit/main",
        "https://github.com/o/r/commit/012345",
        "https://github.com/o/r/issues/1234567",
        "https://github.com/o/r/compare/0123456...89abcde",
        "https://example.org/git/?p=r.git;a=blob;h=0123456789",
        "ftp://github.com/o/r/commit/0123456789",
        "https://commit/0123456789",
        "",
    ] {
        assert_eq!(commit_of_url(other), None, "{other}");
    }
}

#[test]
fn osv_ranges_and_references() {
    let record = format!(
        r#"{{"id": "GHSA-xx", "aliases": ["PYSEC-1", "CVE-2021-1234"], "modified": "2021-05-02T00:00:00Z",
        "published": "2021-05-01T10:00:00Z", "database_specific": {{"cwe_ids": ["CWE-787", "CWE-119"]}},
        "severity": [{{"type": "CVSS_V2", "score": "AV:N"}}, {{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N"}}],
        "affected": [{{"ranges": [
            {{"type": "GIT", "repo": "http://github.com/o/r.git", "events": [{{"introduced": "0"}}, {{"fixed": "{A}"}}]}},
            {{"type": "SEMVER", "events": [{{"fixed": "1.2.3"}}]}}]}}],
        "references": [{{"type": "WEB", "url": "https://github.com/o/r/commit/{A}"}},
            {{"type": "FIX", "url": "https://github.com/o/r/commit/{B}"}},
            {{"type": "FIX", "url": "https://github.com/o/r/commit/{A}"}}]}}"#
    );
    let found = one(&record);
    assert_eq!(
        told(&found),
        [
            "CVE-2021-1234 https://github.com/o/r 0123456",
            "CVE-2021-1234 https://github.com/o/r fedcba9"
        ]
    );
    let known = &found.fixes[0].vulnerability;
    assert_eq!(known.cwes, ["CWE-119", "CWE-787"]);
    assert_eq!(known.cvss.as_deref(), Some("CVSS:3.1/AV:N"));
    assert_eq!(known.published.as_deref(), Some("2021-05-01"));
    let own = one(&format!(
        r#"{{"id": "OSV-2020-1", "affected": [{{"ranges": [{{"type": "GIT", "repo": "https://x.org/r", "events": [{{"fixed": "{A}"}}]}}]}}]}}"#
    ));
    assert_eq!(told(&own), ["OSV-2020-1 https://x.org/r 0123456"]);
}

#[test]
fn cve_records_prefer_references_that_are_marked() {
    let record = format!(
        r#"{{"dataType": "CVE_RECORD", "cveMetadata": {{"cveId": "CVE-2022-1", "state": "PUBLISHED", "datePublished": "2022-02-03T00:00:00.000Z"}},
        "containers": {{"cna": {{"problemTypes": [{{"descriptions": [{{"description": "CWE-476 NULL Pointer Dereference", "lang": "en"}}]}}],
            "metrics": [{{"cvssV3_1": {{"vectorString": "CVSS:3.1/AV:L"}}}}],
            "references": [{{"url": "https://github.com/o/r/commit/{A}"}}]}},
          "adp": [{{"references": [{{"url": "https://github.com/o/r/commit/{B}", "tags": ["patch"]}}]}}]}}}}"#
    );
    let found = one(&record);
    assert_eq!(told(&found), ["CVE-2022-1 https://github.com/o/r fedcba9"]);
    let known = &found.fixes[0].vulnerability;
    assert_eq!(known.cwes, ["CWE-476"]);
    assert_eq!(known.cvss.as_deref(), Some("CVSS:3.1/AV:L"));
    let unmarked = one(&record.replace("\"patch\"", "\"x_other\""));
    assert_eq!(unmarked.fixes.len(), 2);
}

#[test]
fn an_answer_of_nvd_holds_several() {
    let record = format!(
        r#"{{"resultsPerPage": 2, "format": "NVD_CVE", "version": "2.0", "vulnerabilities": [
        {{"cve": {{"id": "CVE-2023-1", "vulnStatus": "Analyzed", "published": "2023-01-02T03:04:05.678",
           "references": [{{"url": "https://github.com/o/r/commit/{A}", "source": "x", "tags": ["Patch"]}}],
           "weaknesses": [{{"type": "Primary", "description": [{{"lang": "en", "value": "CWE-125"}}, {{"lang": "en", "value": "NVD-CWE-Other"}}]}}],
           "metrics": {{"cvssMetricV31": [{{"cvssData": {{"vectorString": "CVSS:3.1/AV:N"}}}}]}}}}}},
        {{"cve": {{"id": "CVE-2023-2", "vulnStatus": "Rejected", "references": []}}}}]}}"#
    );
    let found = one(&record);
    assert_eq!(told(&found), ["CVE-2023-1 https://github.com/o/r 0123456"]);
    assert_eq!(found.fixes[0].vulnerability.cwes, ["CWE-125"]);
    assert_eq!(found.records, 2);
    assert_eq!(
        found.problems,
        [("a.json: CVE-2023-2".to_string(), Problem::Withdrawn)]
    );
}

#[test]
fn what_gives_no_fix_is_counted_and_the_rest_goes_on() {
    let good = format!(
        r#"{{"id": "CVE-2020-5", "modified": "2020", "references": [{{"type": "FIX", "url": "https://github.com/o/r/commit/{A}"}}]}}"#
    );
    let files: Vec<(&str, &[u8])> = vec![
        ("broken.json", b"{\"id\": "),
        ("latin.json", b"{\"id\": \"caf\xe9\"}"),
        ("else.json", b"{\"a\": 1}"),
        ("number.json", b"7"),
        ("noid.json", br#"{"modified": "2020"}"#),
        ("nocommit.json", br#"{"id": "X-1", "modified": "2020"}"#),
        ("good.json", good.as_bytes()),
        ("again.json", good.as_bytes()),
        (
            "gone.json",
            br#"{"id": "X-2", "modified": "2020", "withdrawn": "2021-01-01T00:00:00Z"}"#,
        ),
    ];
    let found = read(files);
    assert_eq!(found.records, 9);
    assert_eq!(found.fixes.len(), 1);
    let counts: Vec<_> = found.counts().into_iter().collect();
    assert_eq!(
        counts,
        [
            (Problem::NotJson, 2),
            (Problem::UnknownFormat, 2),
            (Problem::NoId, 1),
            (Problem::NoCommit, 1),
            (Problem::Withdrawn, 1),
            (Problem::DuplicateId, 1),
        ]
    );
}

#[test]
fn lists_name_repositories_in_three_ways() {
    let text = format!(
        "# remark\ncommit,cve,repository\n{A},CVE-2019-1,o/r\n{B},cve-2019-2,https://x.org/a/b.git/\n{B},CVE-2019-3,/srv/git/r\nmaster,CVE-2019-4,o/r\n{A},,o/r\n{A}\n{A},CVE-2019-1,o/r\n"
    );
    let found = list("l.csv", &text).unwrap();
    assert_eq!(
        told(&found),
        [
            "CVE-2019-1 https://github.com/o/r 0123456",
            "CVE-2019-2 https://x.org/a/b.git fedcba9",
            "CVE-2019-3 /srv/git/r fedcba9"
        ]
    );
    let problems: Vec<_> = found
        .problems
        .iter()
        .map(|(p, w)| (p.as_str(), *w))
        .collect();
    assert_eq!(
        problems,
        [
            ("l.csv:6", Problem::NoCommit),
            ("l.csv:7", Problem::NoId),
            ("l.csv:8", Problem::ShortLine),
            ("l.csv:9", Problem::DuplicateId)
        ]
    );
    assert!(list("l.csv", "a,b\n").unwrap_err().contains("`cve`"));
}

#[test]
fn patches_say_which_cve_they_fix() {
    let patch = format!(
        "From: A Person <a@example.org>\nDate: Tue, 1 Jan 2019 00:00:00 +0000\nSubject: Check the length\nOrigin: upstream, https://gitlab.gnome.org/GNOME/r/-/commit/{A}\nBug-Debian: https://bugs.example.org/1\nLast-Update: 2019-02-03\n\n--- a/x.c\n+++ b/x.c\nCVE-2000-9999\n"
    );
    let header = dep3::header(
        "debian/patches/CVE-2019-1234_and_cve-2019-12345.patch",
        &patch,
    );
    assert_eq!(header.cves, ["CVE-2019-1234", "CVE-2019-12345"]);
    assert_eq!(header.origin.unwrap().1, A);
    assert_eq!(header.date.as_deref(), Some("2019-02-03"));
    let told = dep3::header(
        "0007-fix.patch",
        &format!(
            "From {B} Mon Sep 17 00:00:00 2001\nSubject: fix (CVE-2020-0001)\n---\n x | 1 +\nCVE-2020-0002\n"
        ),
    );
    assert_eq!(told.cves, ["CVE-2020-0001"]);
    assert_eq!(told.origin.unwrap().1, B);
    assert!(
        dep3::header("0008-typo.patch", "Subject: typo\n")
            .cves
            .is_empty()
    );
    assert_eq!(
        cves("xCVE_2014_1234-5, CVE-20-1, CVE-2015-123"),
        ["CVE-2014-1234"]
    );
}

/// As OSS-Fuzz's records and PyPA's are written; with ids of digits alone, which no YAML is to take for numbers.
#[test]
fn osv_records_are_read_as_yaml_too() {
    let digits = "1234567890123456789012345678901234567890";
    let power = "123456789012345678901234567890123456e789";
    let files = [
        (
            "OSV-2021-1.yaml",
            format!(
                "id: OSV-2021-1\nsummary: Heap-buffer-overflow in f\ndetails: |\n  A report: https://example.org/1\n\n  ```\n  Crash state:\n  f\n  ```\nmodified: '2021-05-02T00:00:00Z'\npublished: '2021-05-01T10:00:00Z'\nreferences:\n- type: REPORT\n  url: https://example.org/1\naffected:\n- package:\n    name: r\n    ecosystem: OSS-Fuzz\n  ranges:\n  - type: GIT\n    repo: https://github.com/o/r.git\n    events:\n    - introduced: {A}\n    - fixed: {B}\n    - fixed: {digits}\n    - fixed: {power}\n  versions: []\n  ecosystem_specific:\n    severity: HIGH\nschema_version: 1.2.0\n"
            ),
        ),
        (
            "PYSEC-2021-2.yml",
            format!(
                "id: PYSEC-2021-2\ndetails: \"What \\\"it\\\" does: nothing\"\naliases: [CVE-2021-4321]\nmodified: 2021-05-02T00:00:00Z\npublished: 2021-05-01\nseverity:\n- type: CVSS_V3\n  score: CVSS:3.1/AV:N/AC:L\ndatabase_specific:\n  cwe_ids:\n  - CWE-125\naffected:\n- ranges:\n  - type: ECOSYSTEM\n    events:\n    - introduced: \"0\"\n    - fixed: 1.10\nreferences:\n- type: FIX\n  url: https://github.com/o/p/commit/{A}\n"
            ),
        ),
    ];
    let found = read(files.iter().map(|(name, text)| (*name, text.as_bytes())));
    assert_eq!(found.problems, []);
    assert_eq!(
        told(&found),
        [
            "OSV-2021-1 https://github.com/o/r fedcba9",
            "OSV-2021-1 https://github.com/o/r 1234567",
            "OSV-2021-1 https://github.com/o/r 1234567",
            "CVE-2021-4321 https://github.com/o/p 0123456"
        ]
    );
    assert_eq!(
        (
            found.fixes[1].commit.as_str(),
            found.fixes[2].commit.as_str()
        ),
        (digits, power)
    );
    assert_eq!(
        found.fixes[0].vulnerability.published.as_deref(),
        Some("2021-05-01")
    );
    let known = &found.fixes[3].vulnerability;
    assert_eq!(known.cwes, ["CWE-125"]);
    assert_eq!(known.cvss.as_deref(), Some("CVSS:3.1/AV:N/AC:L"));
    assert_eq!(known.published.as_deref(), Some("2021-05-01"));
}

#[test]
fn yaml_that_gives_no_fix_is_counted_with_its_reason() {
    // Each line names the one before it ten times.
    let mut explodes = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let before = vec![format!("*a{}", n - 1); 10].join(", ");
        explodes.push_str(&format!("a{n}: &a{n} [{before}]\n"));
    }
    let deep = "[".repeat(100_000);
    let files: [(&str, &[u8]); 13] = [
        ("unclosed.yaml", b"id: [X-1\n"),
        ("tab.yaml", b"id: X-1\naffected:\n\t- ranges: []\n"),
        ("latin.yaml", b"id: caf\xe9\n"),
        ("twice.yaml", b"id: X-1\nid: X-2\n"),
        ("two.yaml", b"id: X-1\n---\nid: X-2\n"),
        ("alias.yaml", b"id: *nowhere\n"),
        ("deep.yaml", deep.as_bytes()),
        ("explodes.yaml", explodes.as_bytes()),
        ("empty.yaml", b""),
        ("list.yaml", b"- a\n- b\n"),
        ("workflow.yaml", b"name: check\non: [push]\n"),
        ("shape.yaml", b"id: X-1\naffected: none\n"),
        ("noid.yaml", b"modified: 2020-01-01\n"),
    ];
    let found = read(files);
    assert_eq!((found.records, found.fixes.len()), (13, 0));
    let why = |name: &str| found.problems.iter().find(|(n, _)| n == name).unwrap().1;
    for name in [
        "unclosed", "tab", "latin", "twice", "two", "alias", "deep", "explodes",
    ] {
        assert_eq!(why(&format!("{name}.yaml")), Problem::NotYaml, "{name}");
    }
    for name in ["empty", "list", "workflow", "shape"] {
        assert_eq!(
            why(&format!("{name}.yaml")),
            Problem::UnknownFormat,
            "{name}"
        );
    }
    assert_eq!(why("noid.yaml"), Problem::NoId);
}

//! The fixture built by clang: the same variants build and fail as with GCC, where the two agree.

use super::support::*;

const LEAP: &str = "src/calendar.c:td_is_leap";
const MEAN: &str = "src/stats.c:td_mean";

#[test]
fn verdicts_with_clang_are_those_of_the_build_with_clang() {
    let mut lab = Lab::with_compiler("clang", TIDELIB, tidelib_dir(), None);
    let one = |what, function, edit, expect| Try {
        what,
        function,
        edit,
        expect,
    };
    let tries = [
        one("an edit", LEAP, body("year += 0;"), Builds),
        one("a warning", LEAP, body("int unused;"), Builds),
        one("a syntax error", LEAP, body("year +;"), Fails),
        one("an unknown type", LEAP, body("td_year y = year;"), Fails),
        one(
            "a function that is nowhere",
            MEAN,
            body("extern void nowhere(void); nowhere();"),
            Fails,
        ),
        one(
            "a global that another file has",
            MEAN,
            After("\nint td_date_to_days(void) { return 0; }\n"),
            Fails,
        ),
    ];
    let wrong = disagreements(&mut lab, &tries);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

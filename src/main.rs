//! The command `everbench`; under the name of a compiler it is a recording tool instead.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = everbench::exec::recorder::act_as_tool() {
        return code;
    }
    everbench::cli::main()
}

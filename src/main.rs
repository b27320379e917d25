//! The command `everbench`; under the name of a compiler it is a recording tool instead,
//! and under that of its worker it asks libclang.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = everbench::exec::recorder::act_as_tool() {
        return code;
    }
    if let Some(code) = everbench::exec::libclang_worker::act_as_worker() {
        return code;
    }
    everbench::cli::main()
}

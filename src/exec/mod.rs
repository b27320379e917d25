pub mod commands;
pub mod layout;
pub mod recorder;
pub mod toolchain;

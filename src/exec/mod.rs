pub mod commands;
pub mod layout;

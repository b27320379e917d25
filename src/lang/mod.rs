//! (being built)
mod functions;
mod head;
mod language;
mod lex;
mod normalise;
mod outline;
mod reality;
mod splice;
mod unit;
mod variant;
pub use functions::*;
pub use language::*;
pub use normalise::*;
pub use reality::*;
pub use splice::*;
pub use unit::*;
pub use variant::*;
use reality::same_path;

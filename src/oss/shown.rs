//! What a task shows a model of a function. One provider for each [`Shows`]; all are pure, and what
//! they give enters a completion's key through the prompt alone.

use std::sync::Arc;

use super::inputs::Settings;
use super::population::{self, Function};
use crate::ask::Shows;
use crate::engine::{Db, Hold};
use crate::lang::{
    self,
    calibration::{self, Edit},
};
use crate::stats::mix;

/// The text of `function` that the task shows; `text` is the function's own.
pub fn shown(
    db: &dyn Db,
    settings: Settings,
    function: &Function,
    text: &[u8],
) -> Result<Arc<[u8]>, Hold> {
    let shows = settings.task(db).shows;
    if shows == Shows::Original {
        return Ok(text.into());
    }
    let language = population::language(db, settings, function.language)?.0;
    let definition = lang::function_alone(&language, text, &function.name).ok_or_else(|| {
        Hold::broken(
            format!(
                "the text of `{}` is not read as a function by itself",
                function.id
            ),
            "this is a fault in everbench; please report it with the function's text",
        )
    })?;
    Ok(match shows {
        Shows::Original => text.into(),
        Shows::Faulty => {
            let menu = calibration::menu(&language, &definition, text);
            faulty(&menu, settings.seed(db), &function.id)
                .map_or_else(|| text.into(), |item| item.text.as_slice().into())
        }
        Shows::Signature => text[definition.span.start..definition.signature.end].into(),
    })
}

/// The faulty version of a function: an error of memory where one can be planted, else another
/// behaviour, else a text that does not compile, which every function has. The item is drawn by
/// seed and identity, so every model is shown the same.
fn faulty<'m>(
    menu: &'m [calibration::MenuItem],
    seed: u64,
    id: &str,
) -> Option<&'m calibration::MenuItem> {
    const FAULT_DRAW: u64 = 0x6661_756c;
    [
        Edit::PlantsMemoryError,
        Edit::BreaksBehaviour,
        Edit::BreaksCompile,
    ]
    .iter()
    .find_map(|edit| {
        let items: Vec<_> = menu.iter().filter(|i| i.edit == *edit).collect();
        let draw = mix::keyed(seed, FAULT_DRAW, id.as_bytes());
        let at = (draw % items.len().max(1) as u64) as usize;
        items.get(at).copied()
    })
}

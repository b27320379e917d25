//! `everbench retract`

use std::path::Path;

use super::common::{CliResult, exit, print};
use crate::app::{
    AppError, Retract, retract, retractions, store_to_change, store_to_look, undo_retraction,
};

/// Take back facts that are wrong: they stay, but no row that rests on them is scored.
///
/// Nothing is asked again in their place, since the same request has the same key: raise the model's
/// revision for that.
#[derive(clap::Args)]
pub struct Args {
    /// The keys of jobs, or their first digits.
    keys: Vec<String>,
    /// The replies of this model, in place of keys.
    #[arg(
        long,
        value_name = "NAME",
        requires = "between",
        conflicts_with = "keys"
    )]
    model: Option<String>,
    /// Those that were committed from the first time on and before the second, in UTC: YYYY-MM-DD or
    /// YYYY-MM-DDTHH:MM:SSZ.
    #[arg(long, num_args = 2, value_names = ["FROM", "UNTIL"], requires = "model")]
    between: Option<Vec<String>>,
    /// Why; it is shown wherever something rests on them.
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["list", "undo"])]
    reason: Option<String>,
    /// Show what was taken back.
    #[arg(long, exclusive = true)]
    list: bool,
    /// Take a retraction back; `--list` shows its name.
    #[arg(long, value_name = "NAME", exclusive = true)]
    undo: Option<String>,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    if args.list {
        let found = retractions(&store_to_look(dir)?.reader()?)?;
        let lines = found.iter().map(|(id, r)| {
            let (at, n, asked) = (&r.at, r.keys.len(), &r.asked);
            format!("{id}  {at}  {n} facts ({asked}): {}\n", r.reason)
        });
        let lines: String = lines.collect();
        print(match lines.as_str() {
            "" => "nothing was retracted\n",
            lines => lines,
        })?;
        return Ok(exit::OK);
    }
    if let Some(id) = &args.undo {
        undo_retraction(&store_to_change(dir)?, id)?;
        print(&format!("{id} counts again\n"))?;
        return Ok(exit::OK);
    }
    let which = match (&args.model, args.between.as_deref()) {
        (Some(model), Some([from, to])) => {
            Retract::Between(model.clone(), from.clone(), to.clone())
        }
        _ if !args.keys.is_empty() => Retract::Keys(args.keys.clone()),
        _ => {
            return Err(AppError::Input(
                "nothing was named to retract\n  help: give keys, or `--model NAME --between FROM UNTIL`".into(),
            )
            .into());
        }
    };
    let reason = args.reason.as_deref().unwrap_or_default();
    let (id, retraction) = retract(&store_to_change(dir)?, &which, reason)?;
    print(&format!(
        "{id}: {} facts retracted; no row that rests on them is scored. `everbench retract --undo {id}` takes it back\n",
        retraction.keys.len()
    ))?;
    Ok(exit::OK)
}

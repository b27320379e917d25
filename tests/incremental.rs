//! What an edit costs: which queries run again, and which jobs are wanted. The wanted set is
//! money, so it is compared item by item with an oracle that knows nothing of keys.

mod synthetic;

#[path = "incremental/carry.rs"]
mod carry;
#[path = "incremental/edits.rs"]
mod edits;
#[path = "incremental/machine.rs"]
mod machine;
#[path = "incremental/oracle.rs"]
mod oracle;
#[path = "incremental/queries.rs"]
mod queries;

use everbench::lang::calibration::Edit;
use synthetic::World;
use synthetic::workbench::{self, Rows, Workbench};

/// Five files of six functions, two models that are asked by prompt and one by edit.
fn small() -> World {
    let mut world = World::new(5, 6, 4, 2);
    world.models.push(synthetic::calibration(
        "known",
        &[
            (Edit::Unchanged, 0.2),
            (Edit::Preserving, 0.3),
            (Edit::BreaksCompile, 0.2),
            (Edit::BreaksBehaviour, 0.2),
            (Edit::PlantsMemoryError, 0.1),
        ],
    ));
    world
}

/// A world that was evaluated to the end, in a store of its own.
struct Settled {
    world: World,
    workbench: Workbench,
    rows: Rows,
    /// The store's.
    dir: tempfile::TempDir,
}

fn settled(world: World) -> Settled {
    let dir = tempfile::tempdir().expect("a folder");
    let mut workbench = Workbench::new(workbench::store(dir.path()), &world);
    let (rows, _) = workbench.settle();
    workbench.db.take_executed();
    Settled {
        world,
        workbench,
        rows,
        dir,
    }
}

//! The one set of parameters: a table of costs and two machines, the same for every row and every policy.

use super::published::{Cell, Scheduler, table3};
use super::recording::Recording;
use super::simulating::Job;
use tanada_sim::{Machine, machines};
use tanada_workloads::record::Costs;

/// Differences between the paper's program and ours, as the search for the parameters found them (docs/reproduce-toshiba.md): the stages
/// that pass over macroblocks which our decoder skips, and the order within stages, which figure 9 does not show any more.
const PROGRAM: [&str; 8] = [
    "stage.luma-reconstruction.passes=1",
    "stage.luma-deblocking.passes=1",
    "stage.chroma-reconstruction.passes=1",
    "stage.cb-deblocking.passes=1",
    "stage.cr-deblocking.passes=1",
    "stage.luma-residual.above=1",
    "stage.luma-prediction.above=1",
    "stage.chroma-prediction.above=1",
];

/// The table and the machines.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// Cycles and code of the decoder's stages (`crates/workloads/data/mpe.toml`), and [`PROGRAM`].
    pub(crate) costs: Costs,
    /// The chip as the authors simulated it: Table 3.
    uniform: Machine,
    /// The board: Table 2.
    board: Machine,
}

impl Set {
    /// Returns the set that is shipped, with some values replaced: `mpe.scale.cycles=1.1`, `board.memory.fill_cycles=100`.
    ///
    /// # Errors
    /// A message that says which of `changes` is wrong.
    pub(crate) fn with<T: AsRef<str>>(changes: &[T]) -> Result<Set, String> {
        let (mut costs, mut uniform, mut board) = (PROGRAM.to_vec(), Vec::new(), Vec::new());
        for change in changes.iter().map(AsRef::as_ref) {
            match change.split_once('.') {
                Some(("mpe", rest)) => costs.push(rest),
                Some(("uniform", rest)) => uniform.push(rest),
                Some(("board", rest)) => board.push(rest),
                _ => {
                    return Err(format!(
                        "--set {change}: begin with mpe. (the table of costs), uniform. or board. (the machines toshiba and \
                         toshiba-board), as mpe.scale.cycles=1.1 or board.l2.miss_cycles=120"
                    ));
                }
            }
        }
        let machine = |name, changes: &[&str]| {
            let shipped = machines::find(name).expect("the machine is part of the program");
            shipped
                .overridden(changes)
                .map_err(|error| error.to_string())
        };
        Ok(Set {
            costs: Costs::parse(Costs::default_text(), "mpe.toml", &costs)?,
            uniform: machine("toshiba", &uniform)?,
            board: machine("toshiba-board", &board)?,
        })
    }

    /// Returns the board with `l2_kb` KB of L2 and `cores` cores.
    fn board(&self, l2_kb: u32, cores: u16) -> Machine {
        let changes = [format!("l2.size={l2_kb}K"), format!("cores={cores}")];
        overridden(&self.board, &changes)
    }

    /// Returns the simulations of a cell of Table 2, by scheduler.
    pub(crate) fn cell<'a>(&self, recording: &'a Recording, cell: Cell) -> [Job<'a>; 3] {
        Scheduler::ALL.map(|scheduler| Job {
            recording,
            scheduler,
            machine: self.board(cell.l2_kb, cell.cores),
        })
    }

    /// Returns the simulations of Table 3, by scheduler.
    pub(crate) fn table3<'a>(&self, recording: &'a Recording) -> [Job<'a>; 3] {
        Scheduler::ALL.map(|scheduler| Job {
            recording,
            scheduler,
            machine: self.uniform(scheduler),
        })
    }

    /// Returns the machine of the authors' simulator: 128 KB, 4 cores, and their scheduler's mean cost, which Table 3 holds.
    fn uniform(&self, scheduler: Scheduler) -> Machine {
        let [fcfs, groups] = table3();
        let measured = match scheduler {
            Scheduler::Fcfs => fcfs,
            Scheduler::A | Scheduler::B => groups,
        };
        let changes = [
            "l2.size=128K".to_owned(),
            "cores=4".to_owned(),
            format!("dispatch_cycles={}", measured.scheduling_cycles),
        ];
        overridden(&self.uniform, &changes)
    }
}

fn overridden(machine: &Machine, changes: &[String]) -> Machine {
    let changed = machine.overridden(changes);
    changed.unwrap_or_else(|error| panic!("Table 2 has no wrong machine: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_set_is_the_best_of_the_search() {
        let best = &super::super::calibrate::searched()[0];
        let shipped = Set::with::<&str>(&[]).expect("it is right");
        let found = Set::with(&best.changes).expect("it is right");
        let values = |set: &Set| {
            let memory = &set.board.contended.memory;
            (
                format!("{:?}", set.costs),
                set.board.caches.clone(),
                (memory.fill_cycles, memory.write_cycles),
            )
        };
        assert_eq!(values(&shipped), values(&found));
    }

    #[test]
    fn values_are_replaced_where_the_prefix_says() {
        let set =
            Set::with(&["board.l2.miss_cycles=77", "uniform.hit_cycles=2"]).expect("it is right");
        let board = set.board(64, 3);
        assert_eq!((board.cores, board.hit_cycles), (3, 1));
        let l2 = board
            .caches
            .iter()
            .find(|cache| cache.level == 2)
            .expect("there is one");
        assert_eq!((l2.size, l2.miss_cycles), (64 << 10, 77));
        let uniform = set.uniform(Scheduler::Fcfs);
        assert_eq!(
            (uniform.cores, uniform.hit_cycles, uniform.dispatch_cycles),
            (4, 2, 1578)
        );
        assert_eq!(set.uniform(Scheduler::A).dispatch_cycles, 1816);

        let message = |change: &str| Set::with(&[change]).expect_err("it is wrong");
        assert!(message("l2.miss_cycles=77").contains("board."));
        assert!(message("mpe.scale.speed=1").contains("mpe.toml"));
        assert!(message("board.l3.size=1M").contains("l3"));
    }
}

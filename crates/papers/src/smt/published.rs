//! The published tables of paper 2.

use crate::published::lines;

/// The programs of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Lu,
    Fft,
}

impl Program {
    pub(super) const ALL: [Program; 2] = [Program::Lu, Program::Fft];

    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Lu => "lu",
            Program::Fft => "fft",
        }
    }

    /// Returns whether the machine was fitted to no row of this program. The rows were known to those who chose it, and took part in two
    /// choices (docs/reproduce-smt.md): see [`mark`](Self::mark).
    pub(super) fn is_predicted(self) -> bool {
        self == Program::Fft
    }

    /// Returns what stands behind the names of this program's rows.
    pub(super) fn mark(self) -> &'static str {
        match self.is_predicted() {
            true => " (predicted: known, not fitted to)",
            false => "",
        }
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recording {
    /// The program of Tables 3 to 5 with so many logical threads.
    Main(u64),
    /// The program of the preliminary experiment, Table 2.
    First(u64),
    /// As [`MAIN`], where the stack of the first thread begins so many bytes lower.
    Moved(u64),
}

impl Recording {
    /// Returns the number of logical threads.
    pub(super) fn logical(self) -> u64 {
        match self {
            Recording::Main(logical) | Recording::First(logical) => logical,
            Recording::Moved(_) => LOGICAL,
        }
    }
}

/// One simulated machine and governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) program: Program,
    /// Sizes of L1D and L2, in KB.
    pub(super) l1d: u64,
    pub(super) l2: u64,
    /// Hardware threads.
    pub(super) threads: u64,
    pub(super) recording: Recording,
    pub(super) governor: &'static str,
}

/// Logical threads of Tables 3 to 5 and figs 4 to 6. The paper does not say how many there are, but more must wait than there are hardware
/// threads; chosen on LU's rows among 16, 32 and 64 (docs/reproduce-smt.md).
pub(super) const LOGICAL: u64 = 16;

/// The recording of Tables 3 to 5.
pub(super) const MAIN: Recording = Recording::Main(LOGICAL);

/// Further recordings of FFT for the order of the governors, whose step from `rs` to `rs-ss` is smaller than recordings differ by. The
/// stack of the first thread, which nobody chose, begins at each quarter of a line of 256 bytes.
pub(super) const MOVED: [Recording; 3] = [
    Recording::Moved(64),
    Recording::Moved(128),
    Recording::Moved(192),
];

impl Cell {
    /// Returns the cell of the same program and machine with another governor.
    pub(super) fn under(self, governor: &'static str) -> Cell {
        Cell { governor, ..self }
    }

    pub(super) fn name(self) -> String {
        let (program, governor) = (self.program.name(), self.governor);
        format!(
            "{program} {} KB {} threads {governor}",
            self.l1d, self.threads
        )
    }
}

/// The governors of Tables 3 and 4, in their order.
pub(super) const GOVERNORS: [&str; 3] = ["fifo", "rs", "rs-ss"];

/// A row of Table 3 (4 KB) or Table 4 (32 KB).
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) cell: Cell,
    pub(super) cycles: f64,
    pub(super) ipc: f64,
    pub(super) hit_percent: f64,
}

fn governor(text: &str) -> &'static str {
    let found = GOVERNORS.iter().find(|one| one.replace('-', "_") == text);
    found.expect("the tables have three governors")
}

fn program(text: &str) -> Program {
    let found = Program::ALL.into_iter().find(|one| one.name() == text);
    found.expect("the tables have two programs")
}

/// Returns Tables 3 and 4.
pub(super) fn rows() -> Vec<Row> {
    let table = lines(include_str!("data/smt_tables3_4.csv"));
    let rows = table.map(|line| {
        let l1d: &str = line.text("l1d");
        Row {
            cell: Cell {
                program: program(line.text("program")),
                l1d: l1d.trim_end_matches('k').parse().expect("a size"),
                l2: 512,
                threads: line.number("hardware_threads"),
                recording: MAIN,
                governor: governor(line.text("policy")),
            },
            cycles: line.number("cycles"),
            ipc: line.number("ipc"),
            hit_percent: line.number("l1d_hit_percent"),
        }
    });
    rows.collect()
}

/// Returns Table 2: LU under FIFO, with the name of the configuration and the hit rate in percent. Its LU of 8 threads with 4 KB has
/// 93.11%, Table 3's 80.21%. So the preliminary experiment, which came before the scheduler, was not the same run: it probably had as many
/// logical threads as hardware threads, and a smaller matrix (`recording::FIRST_SIZE`).
pub(super) fn table2() -> Vec<(Cell, char, f64)> {
    const COLUMNS: [(&str, u64, u64); 6] = [
        ("A_4k_128k", 4, 128),
        ("B_4k_256k", 4, 256),
        ("C_4k_512k", 4, 512),
        ("D_8k_512k", 8, 512),
        ("E_16k_512k", 16, 512),
        ("F_32k_512k", 32, 512),
    ];
    let table = lines(include_str!("data/smt_table2_l1d_hit_rate.csv"));
    let cells = table.flat_map(|line| {
        COLUMNS.map(|(column, l1d, l2)| {
            let threads = line.number("hardware_threads");
            let cell = Cell {
                program: Program::Lu,
                l1d,
                l2,
                threads,
                recording: Recording::First(threads),
                governor: "fifo",
            };
            let configuration = column.chars().next().expect("columns have names");
            (cell, configuration, line.number(column))
        })
    });
    cells.collect()
}

/// A published figure of fig. 4 (speed-up over one hardware thread under FIFO) and of Table 5 (hit rate over FIFO's), with 4 KB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    pub(super) cell: Cell,
    /// Only what the text states.
    pub(super) speedup: Option<f64>,
    pub(super) hit_ratio: f64,
}

/// Returns the bars of fig. 4 and the cells of Table 5.
pub(super) fn gains() -> Vec<Gain> {
    let table = lines(include_str!("data/smt_fig4_speedup.csv"));
    let gains = table.map(|line| Gain {
        cell: Cell {
            program: program(line.text("program")),
            l1d: 4,
            l2: 512,
            threads: line.number("hardware_threads"),
            recording: MAIN,
            governor: governor(line.text("policy")),
        },
        speedup: line.text("speedup").parse().ok(),
        hit_ratio: line.number("hit_ratio_vs_fifo"),
    });
    gains.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_whole() {
        let rows = rows();
        assert_eq!((rows.len(), table2().len(), gains().len()), (24, 24, 8));
        for row in &rows {
            assert!([4, 32].contains(&row.cell.l1d) && [4, 8].contains(&row.cell.threads));
            assert!(row.cycles > 1e7 && row.ipc > 0.5 && row.hit_percent > 80.0);
        }
        let best = rows
            .iter()
            .find(|row| row.cell.name() == "lu 4 KB 8 threads rs-ss");
        assert_eq!(best.map(|row| row.ipc), Some(1.87));
        let stated = gains().into_iter().filter_map(|gain| gain.speedup);
        assert_eq!(Vec::from_iter(stated), [1.71, 1.61, 1.20, 1.15]);
        // Table 5 is what Table 3 says, rounded.
        for gain in gains() {
            let hit = |cell: Cell| {
                rows.iter()
                    .find(|row| row.cell == cell)
                    .expect("so")
                    .hit_percent
            };
            let ratio = hit(gain.cell) / hit(gain.cell.under("fifo"));
            assert!((ratio - gain.hit_ratio).abs() < 0.011, "{gain:?}: {ratio}");
        }
    }
}

//! Programs that go through phases over pieces of memory: the kernels `lu`, `fft`, `radix`, `ocean`, `barnes` and `hash`.
//!
//! A [`Phased`] program declares its tasks in an order in which they could run one after the other, each with the pieces that it reads
//! and writes. Everything else follows: a task waits for the last task that wrote what it accesses, and before it writes for those that
//! read it; the program of today is a parallel loop a phase; a recording has the declared accesses. The result of a program is a sequence
//! of words, and has the digest of the kernel of the same name in C ([`kernels`](crate::kernels)).

mod numbers;
mod workload;

pub(crate) use numbers::{Random, cosine_of, sine_of};
pub(crate) use workload::OverPhases;

use crate::options::{Kind, OptionSpec, Values};
use crate::record::TaskGroups;
use crate::workload::{Description, RunError};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tanada_runtime::{SGroup, TGroup};

/// The seed of all phased programs: `--seed` of the kernels in C. Commands have a `--seed` of their own, which policies draw from.
pub(crate) const SEED: OptionSpec = OptionSpec::new(
    "input-seed",
    "N",
    Kind::Count(0, i32::MAX as u64),
    "Seed of the random input",
)
.default("1");

/// A program of phases.
pub(crate) trait Phased: Sized + Send + Sync + 'static {
    /// What commands know of the program; the kernel in C has the same name.
    const DESCRIPTION: &'static Description;
    /// Whether the declared accesses are what the tasks do, so that a recording of them is true. False for programs whose accesses depend
    /// on their data.
    const RECORDED: bool;

    /// What one task does.
    type Task: Copy + Send + Sync + 'static;

    /// Returns the bytes of memory that a run takes, at least.
    fn bytes(values: &Values) -> u64;

    /// Returns a program for `workers` workers, whose result must not depend on their number.
    ///
    /// # Errors
    /// [`RunError::Input`] if the values do not fit together.
    fn new(values: &Values, workers: u16) -> Result<Self, RunError>;

    /// Declares all tasks, in an order that gives the result on one thread.
    fn declare(&self, tasks: &mut Tasks<Self::Task>);

    /// Brings the memory into its first state.
    fn reset(&self);

    /// Does the work of a task.
    fn run(&self, task: Self::Task);

    /// Calls `word` with the words of the result, in order.
    fn visit(&self, word: &mut dyn FnMut(u64));
}

/// Pieces of an array, from piece `first` on; see [`Tasks::array`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// The number that the first piece has among all pieces.
    first: u32,
    /// The array's place in the order of declaration: several views may name one memory.
    memory: usize,
    /// Bytes of a piece.
    bytes: u64,
    pieces: u32,
}

/// One piece of an array, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) array: Array,
    pub(crate) number: usize,
    /// The first byte within the piece, and the rows of the part: `rows` times `bytes`, each `stride` behind the one before.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    pub(crate) stride: u64,
}

impl Array {
    /// Returns the piece `number`.
    pub(crate) fn piece(self, number: usize) -> Piece {
        debug_assert!(number < self.pieces as usize);
        Piece {
            array: self,
            number,
            offset: 0,
            bytes: self.bytes,
            rows: 1,
            stride: 0,
        }
    }

    /// Returns other pieces over the same memory: parts of the same lines that different tasks may use at the same time.
    pub(crate) fn view<T>(self, tasks: &mut Tasks<T>) -> Array {
        let first = tasks.pieces;
        tasks.pieces += self.pieces;
        Array { first, ..self }
    }
}

impl Piece {
    /// Returns the number of the piece among all pieces of the program.
    fn key(&self) -> usize {
        self.array.first as usize + self.number
    }
}

/// What a task does with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    /// Reads and writes.
    Update,
}

/// One declared task.
#[derive(Clone, Copy, Debug)]
struct Declared<T> {
    task: T,
    groups: TaskGroups,
    /// Operations, as the table of costs counts them.
    operations: u32,
    /// The first of the task's accesses; the next task's first is behind its last.
    accesses: usize,
}

/// The tasks of a phase: a parallel loop of the program of today.
#[derive(Clone, Debug)]
struct Phase {
    name: &'static str,
    tasks: Range<usize>,
}

/// Receives the declarations of a program.
#[derive(Debug)]
pub(crate) struct Tasks<T> {
    phases: Vec<Phase>,
    declared: Vec<Declared<T>>,
    accesses: Vec<(Piece, Use)>,
    pieces: u32,
    /// Bytes of each array.
    arrays: Vec<u64>,
}

impl<T: Copy> Tasks<T> {
    fn of<P: Phased<Task = T>>(program: &P) -> Tasks<T> {
        let mut tasks = Tasks {
            phases: Vec::new(),
            declared: Vec::new(),
            accesses: Vec::new(),
            pieces: 0,
            arrays: Vec::new(),
        };
        program.declare(&mut tasks);
        tasks
    }

    /// Returns a new array of `pieces` pieces of `bytes` bytes each.
    pub(crate) fn array(&mut self, pieces: usize, bytes: u64) -> Array {
        let (first, pieces) = (self.pieces, pieces as u32);
        self.pieces += pieces;
        self.arrays.push(u64::from(pieces) * bytes);
        Array {
            first,
            memory: self.arrays.len() - 1,
            bytes,
            pieces,
        }
    }

    /// Begins a phase, and returns its number: none of the tasks that follow depends on another task of the phase.
    pub(crate) fn phase(&mut self, name: &'static str) -> usize {
        let here = self.declared.len();
        self.phases.push(Phase {
            name,
            tasks: here..here,
        });
        self.phases.len() - 1
    }

    /// Adds a task to the phase, and returns what its accesses are declared with. `operations` is the number of arithmetic operations,
    /// roughly.
    ///
    /// # Panics
    /// There is no phase yet.
    pub(crate) fn task(
        &mut self,
        task: T,
        (t, s): (usize, usize),
        operations: usize,
    ) -> Touches<'_> {
        self.declared.push(Declared {
            task,
            groups: (TGroup(1 + t as u32), SGroup(1 + s as u32)),
            operations: operations.try_into().unwrap_or(u32::MAX),
            accesses: self.accesses.len(),
        });
        self.phases.last_mut().expect("a phase").tasks.end += 1;
        Touches(&mut self.accesses)
    }

    fn accesses(&self, task: usize) -> &[(Piece, Use)] {
        let end = self.declared.get(task + 1);
        let end = end.map_or(self.accesses.len(), |next| next.accesses);
        &self.accesses[self.declared[task].accesses..end]
    }

    /// Calls `each` with every task, the name and number of its phase, and the tasks that it waits for, in ascending order.
    fn for_each_with_waits<E>(
        &self,
        mut each: impl FnMut(usize, &'static str, u64, &[usize]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut written: Vec<Option<usize>> = vec![None; self.pieces as usize];
        let mut read_since: Vec<Vec<usize>> = vec![Vec::new(); self.pieces as usize];
        let mut waits = Vec::new();
        for (number, phase) in (0..).zip(&self.phases) {
            for task in phase.tasks.clone() {
                waits.clear();
                for (piece, how) in self.accesses(task) {
                    let key = piece.key();
                    // Readers have waited for the last writer.
                    match &mut read_since[key] {
                        readers if *how != Use::Read && !readers.is_empty() => {
                            waits.append(readers);
                        }
                        _ => waits.extend(written[key]),
                    }
                }
                waits.sort_unstable();
                waits.dedup();
                waits.retain(|&earlier| earlier != task);
                each(task, phase.name, number, &waits)?;
                for (piece, how) in self.accesses(task) {
                    let key = piece.key();
                    if *how != Use::Read {
                        written[key] = Some(task);
                        read_since[key].clear();
                    } else if written[key] != Some(task) {
                        read_since[key].push(task);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Takes down what one task accesses.
pub(crate) struct Touches<'a>(&'a mut Vec<(Piece, Use)>);

impl Touches<'_> {
    fn all(self, pieces: impl IntoIterator<Item = Piece>, how: Use) -> Self {
        self.0.extend(pieces.into_iter().map(|piece| (piece, how)));
        self
    }

    pub(crate) fn read(self, piece: Piece) -> Self {
        self.all([piece], Use::Read)
    }

    pub(crate) fn read_all(self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.all(pieces, Use::Read)
    }

    /// The task writes the whole piece, or the part, and reads nothing of it before.
    pub(crate) fn write(self, piece: Piece) -> Self {
        self.all([piece], Use::Write)
    }

    pub(crate) fn write_all(self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.all(pieces, Use::Write)
    }

    /// The task reads and writes the piece.
    pub(crate) fn update(self, piece: Piece) -> Self {
        self.all([piece], Use::Update)
    }

    pub(crate) fn update_all(self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.all(pieces, Use::Update)
    }
}

/// Memory in pieces, each of which one task writes or several read. The dependencies between tasks keep accesses apart: no task ever waits
/// here, and an access that would have to wait is a wrong declaration.
pub(crate) struct Pieces<T>(Vec<RwLock<T>>);

impl<T> Pieces<T> {
    pub(crate) fn new(pieces: usize, piece: impl FnMut(usize) -> T) -> Self {
        Pieces((0..pieces).map(piece).map(RwLock::new).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// # Panics
    /// Another task writes the piece at the same time.
    pub(crate) fn read(&self, number: usize) -> RwLockReadGuard<'_, T> {
        let guard = self.0[number].try_read();
        guard.expect("no task writes what another task reads")
    }

    /// # Panics
    /// Another task uses the piece at the same time.
    pub(crate) fn write(&self, number: usize) -> RwLockWriteGuard<'_, T> {
        let guard = self.0[number].try_write();
        guard.expect("no task uses what another task writes")
    }
}

/// Doubles that several tasks use at once, at places that are too scattered for [`Pieces`]. An access costs a plain load or store.
pub(crate) struct Doubles(Vec<AtomicU64>);

impl Doubles {
    pub(crate) fn new(count: usize) -> Doubles {
        Doubles((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> f64 {
        f64::from_bits(self.0[at].load(Relaxed))
    }

    #[inline]
    pub(crate) fn set(&self, at: usize, number: f64) {
        self.0[at].store(number.to_bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Digest;
    use crate::options::Purpose;

    fn waits(tasks: &Tasks<u8>) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        let ran = tasks.for_each_with_waits(|_, _, _, waits| {
            all.push(waits.to_vec());
            Ok::<_, ()>(())
        });
        ran.map(|()| all).expect("nothing fails")
    }

    #[test]
    fn a_task_waits_for_writers_and_a_writer_for_readers() {
        let mut tasks = Tasks {
            phases: Vec::new(),
            declared: Vec::new(),
            accesses: Vec::new(),
            pieces: 0,
            arrays: Vec::new(),
        };
        let a = tasks.array(2, 8);
        let b = a.view(&mut tasks);
        tasks.phase("write");
        tasks.task(0, (0, 0), 1).write(a.piece(0));
        tasks.task(1, (0, 0), 1).write(a.piece(1));
        tasks.phase("read");
        tasks.task(2, (0, 0), 1).read(a.piece(0)).write(b.piece(0));
        tasks.task(3, (0, 0), 1).read_all([a.piece(0), a.piece(1)]);
        tasks.phase("write again");
        tasks.task(4, (0, 0), 1).read(b.piece(0)).write(a.piece(0));
        tasks.task(5, (0, 0), 1).write_all([a.piece(0), a.piece(1)]);
        let wanted: [&[usize]; 6] = [&[], &[], &[0], &[0, 1], &[2, 3], &[3, 4]];
        assert_eq!(waits(&tasks), wanted);
    }

    #[test]
    #[should_panic(expected = "no task uses what another task writes")]
    fn a_wrong_declaration_is_found_when_it_runs() {
        let pieces = Pieces::new(1, |_| 0);
        let _held = pieces.read(0);
        let _other = pieces.write(0);
    }

    /// Runs the tasks in an order that only respects what each waits for, and returns the digest of the result.
    fn digest<P: Phased>(program: &P, order: Option<Random>) -> String {
        let tasks = Tasks::of(program);
        let (mut waits, mut successors) = (Vec::new(), vec![Vec::new(); tasks.declared.len()]);
        let ran = tasks.for_each_with_waits(|task, _, _, earlier| {
            waits.push(earlier.len());
            for &earlier in earlier {
                successors[earlier].push(task);
            }
            Ok::<_, ()>(())
        });
        ran.expect("nothing fails");
        program.reset();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&task| waits[task] == 0).collect();
        let mut ran = 0;
        while !ready.is_empty() {
            let at = match order {
                // The lowest number: the order of declaration.
                None => (0..ready.len()).min_by_key(|&at| ready[at]).expect("one"),
                Some(random) => random.at(ran) as usize % ready.len(),
            };
            let task = ready.swap_remove(at);
            program.run(tasks.declared[task].task);
            ran += 1;
            for &next in &successors[task] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(next);
                }
            }
        }
        assert_eq!(
            ran,
            tasks.declared.len() as u64,
            "no task waits in a circle"
        );
        let mut digest = Digest::default();
        program.visit(&mut |word| digest.add(word));
        digest.to_string()
    }

    fn any_order_has_the_same_result<P: Phased>() {
        let values =
            Values::new(P::DESCRIPTION.options, Purpose::Run).with(P::DESCRIPTION.test_options);
        let program = P::new(&values.expect("test options are right"), 3).expect("a program");
        let wanted = digest(&program, None);
        for seed in 0..20 {
            let order = Some(Random::new(seed));
            assert_eq!(
                digest(&program, order),
                wanted,
                "{} order {seed}",
                P::DESCRIPTION.name
            );
        }
    }

    #[test]
    fn a_missing_dependency_would_show() {
        any_order_has_the_same_result::<crate::lu::Lu>();
        any_order_has_the_same_result::<crate::fft::Fft>();
        any_order_has_the_same_result::<crate::radix::Radix>();
        any_order_has_the_same_result::<crate::ocean::Ocean>();
        any_order_has_the_same_result::<crate::barnes::Barnes>();
        any_order_has_the_same_result::<crate::hash::Hash>();
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        fn refused<P: Phased>(size: &str) {
            let values = Values::new(P::DESCRIPTION.options, Purpose::Run).with(&[("size", size)]);
            let made = P::new(&values.expect("in the range"), 2);
            let error = made.err().expect("it does not fit").to_string();
            assert!(error.contains(size), "{error}");
        }
        refused::<crate::lu::Lu>("100");
        refused::<crate::fft::Fft>("2048");
        refused::<crate::ocean::Ocean>("100");
    }
}

//! Work and span of recorded tasks: what a recorder keeps of dependencies, and what follows from it.
//!
//! Threads that register tasks, and workers, write *notes*, each into a list of its own: a task was registered, one waits for another, a
//! run of a template began. A task is known by its address and generation, an execution by its address and time. So nothing is looked
//! up while the program runs; [`profile`] joins the two afterwards: the executions at one address, in the order of time, are those of
//! the tasks that were registered there, in the order of generations, or those of the runs of a room.

use super::RecordedTask;
use crate::graph::{GraphObserver, TaskId};
use crate::observer::TaskView;
use crate::pool::PoolShared;
use crate::process::Process;
use crate::replay::Replay;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

type Line = Option<&'static Location<'static>>;

/// What is kept of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    /// A graph that is not nested begins, for which this thread is going to wait.
    Begins { run: u64 },
    /// A task was registered by this thread, which ran `parent` then: the number of an execution, or 0.
    Registered {
        run: u64,
        task: TaskId,
        line: Line,
        parent: u64,
    },
    /// The second task waits for the first.
    Edge { earlier: TaskId, later: TaskId },
    /// A run of a template begins in this room.
    Room { run: u64, room: u64 },
    /// A task of the room that was named last, which is a new one; as in [`Note::Edge`], its edges follow.
    Node { address: usize },
}

/// The notes of one thread.
struct Notes {
    home: Process,
    notes: Mutex<Vec<Note>>,
}

/// The notes of all threads, and the rooms that are known.
struct All {
    threads: Vec<Arc<Notes>>,
    rooms: BTreeMap<u64, Arc<[Note]>>,
}

/// What was kept of dependencies.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// A list a thread.
    notes: Vec<Vec<Note>>,
    /// The tasks and dependencies of each room.
    rooms: BTreeMap<u64, Arc<[Note]>>,
}

static ALL: Mutex<All> = Mutex::new(All {
    threads: Vec::new(),
    rooms: BTreeMap::new(),
});

/// Where tasks of this name are described: of templates, whose nodes have no room for it.
static LINES: Mutex<BTreeMap<&'static str, &'static Location<'static>>> =
    Mutex::new(BTreeMap::new());

/// Remembers where a template's tasks of this name were described.
pub(crate) fn described(name: &'static str, line: &'static Location<'static>) {
    LINES.lock().entry(name).or_insert(line);
}

thread_local! {
    static NOTES: RefCell<Option<Arc<Notes>>> = const { RefCell::new(None) };
    /// The number of the execution that this thread is in; 0: none.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
}

/// Says which execution this thread is in from now on; returns which it was in.
#[inline]
pub(super) fn set_running(number: u64) -> u64 {
    RUNNING.replace(number)
}

fn note(note: Note) {
    NOTES.with_borrow_mut(|notes| {
        let ours = notes.as_ref().filter(|notes| notes.home.is_this());
        let notes = match ours {
            Some(notes) => notes,
            None => {
                let new = Arc::new(Notes {
                    home: Process::this(),
                    notes: Mutex::default(),
                });
                ALL.lock().threads.push(Arc::clone(&new));
                notes.insert(new)
            }
        };
        notes.notes.lock().push(note);
    });
}

/// The observer of graphs whose tasks a [`Recorder`](super::Recorder) records with their dependencies.
pub(crate) struct Dependencies;

/// The one [`Dependencies`].
pub(crate) static DEPENDENCIES: Dependencies = Dependencies;

impl GraphObserver for Dependencies {
    fn begins(&self, run: u64, _pool: &PoolShared) {
        note(Note::Begins { run });
    }

    fn registered(&self, run: u64, task: TaskId, _view: &TaskView, line: Line) {
        note(Note::Registered {
            run,
            task,
            line,
            parent: RUNNING.get(),
        });
    }

    fn edge(&self, _run: u64, earlier: TaskId, later: TaskId) {
        note(Note::Edge { earlier, later });
    }

    /// The tasks of a room are listed once.
    fn begins_in_room(&self, run: u64, _address: usize, room: u64, list: &mut dyn FnMut()) {
        note(Note::Room { run, room });
        if ALL.lock().rooms.contains_key(&room) {
            return;
        }
        let before = NOTES.with_borrow(|notes| notes.as_ref().map_or(0, |n| n.notes.lock().len()));
        list();
        let listed = NOTES.with_borrow(|notes| {
            let notes = notes.as_ref().expect("noted just now");
            notes.notes.lock().split_off(before)
        });
        let nodes = listed.into_iter().map(|note| match note {
            Note::Registered { task, .. } => Note::Node {
                address: task.address,
            },
            other => other,
        });
        ALL.lock()
            .rooms
            .entry(room)
            .or_insert_with(|| nodes.collect());
    }

    fn acted(&self) {
        Replay::point();
    }
}

/// Takes and returns what was noted since the last call.
pub(super) fn take() -> Kept {
    // In a child of `fork(2)` another thread may have held the lock.
    let Some(mut all) = ALL.try_lock_for(Duration::from_millis(100)) else {
        return Kept::default();
    };
    let ours = |notes: &&Arc<Notes>| notes.home.is_this();
    let lists = all.threads.iter().filter(ours);
    let notes: Vec<Vec<Note>> = lists
        .map(|list| std::mem::take(&mut *list.notes.lock()))
        .collect();
    // Threads that are gone, and rooms that were not used since the last call: they are listed again if they are.
    all.threads.retain(|notes| Arc::strong_count(notes) > 1);
    let used = notes.iter().flatten().filter_map(|note| match note {
        Note::Room { room, .. } => Some(*room),
        _ => None,
    });
    let used: BTreeSet<u64> = used.collect();
    all.rooms.retain(|room, _| used.contains(room));
    Kept {
        notes,
        rooms: all.rooms.clone(),
    }
}

/// Work and span of a run, from its recorded tasks and their dependencies.
///
/// The *work* is the time in all tasks; the *span* is the longest time in tasks that must follow each other. So a run on `p` workers takes
/// at least the greater of work / `p` and span. If no worker idles while a task is ready, and scheduling costs nothing, it takes at most
/// (work - span) / `p` + span (Brent, "The parallel evaluation of general arithmetic expressions", JACM 21 (1974); Graham 1966 for greedy
/// schedules).
///
/// Tasks follow each other if one waits for the other; if one registered the other, the later begins not before the earlier *began*; the
/// runs of one room of a template follow each other, and so do the graphs that one thread waits for. A task that waits for a nested graph
/// counts with its whole time, and the nested graph's own tasks are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Tasks that were counted.
    pub tasks: u64,
    /// Nanoseconds in all of them.
    pub work_ns: u64,
    /// Nanoseconds in the longest path of tasks.
    pub span_ns: u64,
    /// The tasks on that path, by name and line; those with most time first.
    pub path: Vec<PathPart>,
}

/// The tasks of one name and line on the longest path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The tasks' name.
    pub name: &'static str,
    /// Where the program registers them; of templates, where it describes the first task of that name. `None` if that is not known.
    pub line: Option<&'static Location<'static>>,
    /// Their number.
    pub tasks: u64,
    /// Nanoseconds in them.
    pub ns: u64,
}

impl Profile {
    /// Returns the most nanoseconds that a greedy run on `workers` workers takes, if scheduling costs nothing: Brent's bound.
    pub fn bound_ns(&self, workers: u32) -> u64 {
        (self.work_ns - self.span_ns) / u64::from(workers.max(1)) + self.span_ns
    }
}

/// An execution, and what it follows.
struct Execution<'a> {
    task: &'a RecordedTask,
    /// When it started: as recorded, but see [`clip`].
    start_ns: u64,
    line: Line,
    /// The graph that a thread outside waits for; `None`: of a nested one, or not known.
    run: Option<u64>,
    /// The number of the execution that registered it, or 0.
    parent: u64,
    /// Room and number of the room's run.
    room: Option<(u64, usize)>,
    after: Vec<usize>,
    begins: u64,
    ends: u64,
    /// What decided `begins`.
    because: Option<usize>,
}

/// Returns work and span of the recorded tasks.
pub(super) fn profile(tasks: &[RecordedTask], kept: &Kept) -> Profile {
    let notes = &kept.notes;
    let mut order: Vec<&RecordedTask> = tasks.iter().collect();
    // Ends were all read; some starts were not.
    order.sort_unstable_by_key(|task| (task.end_ns, task.start_ns, task.number));
    let mut at_address: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut executions: Vec<Execution<'_>> = Vec::with_capacity(order.len());
    for (number, &task) in order.iter().enumerate() {
        at_address.entry(task.address).or_default().push(number);
        executions.push(Execution {
            task,
            start_ns: task.start_ns,
            line: None,
            run: None,
            parent: 0,
            room: None,
            after: Vec::new(),
            begins: 0,
            ends: 0,
            because: None,
        });
    }
    // Which thread waits for each graph that is not nested, and the graphs of each in their order.
    let mut threads: BTreeMap<u64, usize> = BTreeMap::new();
    let mut registered: BTreeMap<(usize, u32), (u64, Line, u64)> = BTreeMap::new();
    let mut rooms: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (thread, notes) in notes.iter().enumerate() {
        for note in notes {
            match *note {
                Note::Begins { run } => _ = threads.insert(run, thread),
                Note::Registered {
                    run,
                    task,
                    line,
                    parent,
                } => {
                    let key = (task.address, task.generation);
                    registered.insert(key, (run, line, parent));
                }
                Note::Room { run, room } => rooms.entry(room).or_default().push(run),
                Note::Edge { .. } | Note::Node { .. } => {}
            }
        }
    }
    let mut of_task: HashMap<(usize, u32), usize> = HashMap::new();
    let mut used: HashMap<usize, usize> = HashMap::new();
    for (&(address, generation), &(run, line, parent)) in &registered {
        let next = used.entry(address).or_default();
        let number = at_address.get(&address).and_then(|list| list.get(*next));
        *next += 1;
        if let Some(&number) = number {
            let execution = &mut executions[number];
            (execution.line, execution.parent) = (line, parent);
            execution.run = threads.contains_key(&run).then_some(run);
            of_task.insert((address, generation), number);
        }
    }
    for note in notes.iter().flatten() {
        if let Note::Edge { earlier, later } = note {
            let of = |task: &TaskId| of_task.get(&(task.address, task.generation)).copied();
            if let (Some(earlier), Some(later)) = (of(earlier), of(later)) {
                executions[later].after.push(earlier);
            }
        }
    }
    for (room, runs) in &mut rooms {
        // The runs of a room do not overlap, and their graphs are numbered in order.
        runs.sort_unstable();
        for note in kept.rooms.get(room).into_iter().flat_map(|notes| &**notes) {
            match *note {
                Note::Node { address } => {
                    let list = at_address.get(&address).into_iter().flatten();
                    for (number, (&execution, &run)) in list.zip(&*runs).enumerate() {
                        let execution = &mut executions[execution];
                        execution.room = Some((*room, number));
                        execution.run = threads.contains_key(&run).then_some(run);
                    }
                }
                Note::Edge { earlier, later } => {
                    let [earlier, later] = [earlier, later]
                        .map(|task| at_address.get(&task.address).map_or(&[][..], |list| list));
                    for (&earlier, &later) in earlier.iter().zip(later) {
                        executions[later].after.push(earlier);
                    }
                }
                Note::Begins { .. } | Note::Registered { .. } | Note::Room { .. } => {}
            }
        }
    }
    clip(&mut executions);
    longest(&mut executions, &threads)
}

/// Lets no execution start before what it waits for has ended, or its parent has started.
fn clip(executions: &mut [Execution<'_>]) {
    // The last ends in the runs of a room, which do not overlap.
    let mut of_rooms: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for execution in &*executions {
        if let Some(run) = execution.room {
            let end = of_rooms.entry(run).or_default();
            *end = execution.task.end_ns.max(*end);
        }
    }
    let numbers = numbers(executions);
    for at in 0..executions.len() {
        let execution = &executions[at];
        let ends = (execution.after.iter()).map(|&earlier| executions[earlier].task.end_ns);
        let run_before = execution.room.and_then(|(room, number)| {
            let mut before = of_rooms.range((room, 0)..(room, number));
            before.next_back().map(|(_, &end_ns)| end_ns)
        });
        let start_ns = ends.chain(run_before).fold(execution.start_ns, u64::max);
        executions[at].start_ns = start_ns.min(execution.task.end_ns);
    }
    // Children of children: once more for each that has moved its own. Few do, since few starts are that wrong.
    let mut has_moved = true;
    while std::mem::take(&mut has_moved) {
        for at in 0..executions.len() {
            let execution = &executions[at];
            let parent = numbers.get(&execution.parent);
            let least = parent.map_or(0, |&parent| executions[parent].start_ns);
            let least = least.min(execution.task.end_ns);
            if execution.start_ns < least {
                executions[at].start_ns = least;
                has_moved = true;
            }
        }
    }
}

/// Returns the places of the executions by their numbers.
fn numbers(executions: &[Execution<'_>]) -> HashMap<u64, usize> {
    let numbers = executions.iter().enumerate();
    numbers
        .map(|(at, execution)| (execution.task.number, at))
        .collect()
}

/// Times that are known of the graphs that one thread waits for.
#[derive(Clone, Copy, Default)]
struct Serial {
    run: u64,
    /// The end of the graphs before, and of this one so far, and what decided them.
    before: (u64, Option<usize>),
    so_far: (u64, Option<usize>),
}

/// Finds the longest path, in the order of the starts, which respects all dependencies. Of paths of one length it is the one that ends
/// later: a task may take no time at all.
fn longest(executions: &mut [Execution<'_>], threads: &BTreeMap<u64, usize>) -> Profile {
    let lines = LINES.lock().clone();
    let numbers = numbers(executions);
    let mut serials: BTreeMap<usize, Serial> = BTreeMap::new();
    let mut rooms: BTreeMap<u64, Serial> = BTreeMap::new();
    let mut profile = Profile::default();
    let mut last: Option<usize> = None;
    let mut order: Vec<usize> = (0..executions.len()).collect();
    order.sort_by_key(|&at| (executions[at].start_ns, executions[at].task.end_ns));
    for at in order {
        let execution = &executions[at];
        let Some(run) = execution.run else { continue };
        let mut begins = (0, None);
        // Only what was reached before has an end: so no path is a circle, even if the clocks of two processors differ.
        let mut follows = |from: (u64, Option<usize>)| {
            if from.0 >= begins.0.max(1) {
                begins = from;
            }
        };
        let thread = threads[&run];
        let serial = serials.entry(thread).or_default();
        if serial.run < run {
            (serial.run, serial.before) = (run, serial.so_far);
        }
        follows(serial.before);
        if let Some((room, number)) = execution.room {
            let of_room = rooms.entry(room).or_default();
            let number = number as u64 + 1;
            if of_room.run < number {
                (of_room.run, of_room.before) = (number, of_room.so_far);
            }
            follows(of_room.before);
        }
        if let Some(&parent) = numbers.get(&execution.parent) {
            follows((executions[parent].begins, executions[parent].because));
        }
        for &earlier in &execution.after {
            follows((executions[earlier].ends, Some(earlier)));
        }
        let time = execution.task.end_ns - execution.start_ns;
        let ends = (begins.0 + time, Some(at));
        let room = execution.room;
        let execution = &mut executions[at];
        (execution.begins, execution.because) = begins;
        execution.ends = ends.0;
        let reached = |serial: Option<&mut Serial>| {
            if let Some(serial) = serial.filter(|serial| serial.so_far.0 <= ends.0) {
                serial.so_far = ends;
            }
        };
        reached(serials.get_mut(&thread));
        reached(room.and_then(|(room, _)| rooms.get_mut(&room)));
        profile.tasks += 1;
        profile.work_ns += time;
        if last.is_none_or(|last: usize| executions[last].ends <= ends.0) {
            last = Some(at);
        }
    }
    profile.span_ns = last.map_or(0, |last| executions[last].ends);
    /// Name, file and line.
    type Place<'a> = (&'static str, Option<(&'a str, u32)>);
    let mut parts: BTreeMap<Place<'_>, PathPart> = BTreeMap::new();
    while let Some(at) = last {
        let execution = &executions[at];
        let name = execution.task.name;
        let line = execution.line.or_else(|| lines.get(name).copied());
        let key = (name, line.map(|line| (line.file(), line.line())));
        let part = parts.entry(key).or_insert(PathPart {
            name,
            line,
            tasks: 0,
            ns: 0,
        });
        part.tasks += 1;
        part.ns += execution.task.end_ns - execution.start_ns;
        last = execution.because;
    }
    profile.path = parts.into_values().collect();
    profile.path.sort_by_key(|part| std::cmp::Reverse(part.ns));
    profile
}

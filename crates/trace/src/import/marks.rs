//! Turning marks into tasks and dependencies.
//!
//! The native engine sends marks to the recorder (`crates/runtime/src/marks/mod.rs` lists them). A task of the program may wait
//! in its middle, for a graph that it runs itself; a task of a trace may not. Therefore:
//!
//! - A task that waits for a graph of its own is cut there into *parts*. The part after the wait depends on the part before it and on the
//!   last tasks of that graph. All parts have the same name, groups and hints; later ones also have `h:part=2` and so on.
//! - A part that registers a task or resolves one of its dependencies comes before that task as a whole, because a trace cannot express the
//!   middle of a part.
//! - Graphs that one thread runs one after the other stay in that order. If several tasks of one graph come before several of the next, a
//!   task `wait` without records is put between them, so that the number of edges is the sum and not the product. The same task orders the
//!   runs of one template (marks call a template's storage a *room*).
//!
//! Memory: a few words for each task that has not run, and 32 bytes for each task of a graph that has not ended.

use super::about::About;
use super::emit::Emitter;
use super::words::{Words, one_word};
use crate::{NewTask, Sink, TraceError};
use hashbrown::HashMap;
use std::rc::Rc;

/// The version of the marks that this module reads.
const VERSION: &str = "2";

/// The name of tasks that only order others.
const WAIT: &str = "wait";

type Result<T = ()> = std::result::Result<T, TraceError>;

/// Identifies a task: its address, and a count of the tasks that have lived at that address.
type Token = (u64, u32);

/// A registered task that has not ended.
struct Task {
    about: Rc<About>,
    run: u64,
    token: Token,
    room: Option<u64>,
    /// The part that the registering thread ran or completed last before the registration.
    origin: Option<u32>,
    /// Whether one of the tasks that it waits for has the same origin: then the edge from the origin is redundant.
    implied: bool,
    /// IDs of the parts that it waits for.
    after: Vec<u32>,
    /// Slots of the tasks that wait for it.
    waiters: Vec<u32>,
}

#[derive(Clone, Copy)]
enum State {
    /// The slot of a task that has not ended.
    Live(u32),
    /// The ID of an ended task's last part.
    Ended(u32),
}

/// The tasks of one run of a graph.
#[derive(Default)]
struct Run {
    tasks: HashMap<Token, State>,
    /// IDs of the parts for which no task of the graph waits.
    last: Vec<u32>,
    /// The same by room, for the latest run of the template in that room.
    rooms: HashMap<u64, Vec<u32>>,
}

#[derive(Default)]
struct Thread {
    /// The tasks that run on the thread; each waits for the next one, the last one runs.
    running: Vec<Running>,
    /// IDs of the parts that must precede whatever this thread does next outside of tasks.
    before: Vec<u32>,
    /// The room whose tasks are being registered, its run, and the part that precedes them.
    room: Option<(u64, u64, Option<u32>)>,
    /// Whether the thread executes the marks' own code, which belongs to no task.
    paused: bool,
}

struct Running {
    slot: u32,
    /// The ID of its current part.
    part: u32,
    /// The number of its current part, from 1.
    number: u32,
    waits: bool,
}

/// Builds tasks and dependencies from marks, read in order.
#[derive(Default)]
pub(super) struct TaskBuilder {
    line: u64,
    slots: Vec<Option<Task>>,
    free: Vec<u32>,
    /// By address, the slot of the task that lives there.
    living: HashMap<u64, u32>,
    runs: HashMap<u64, Run>,
    threads: HashMap<u32, Thread>,
    /// The thread that makes the next mark.
    thread: u32,
    /// The thread to whose task records currently belong.
    open: Option<u32>,
    next: u32,
    /// IDs of tasks `wait`, which are written as soon as no task is open.
    waits: Vec<u32>,
}

impl TaskBuilder {
    fn fault(&self, what: impl Into<String>) -> TraceError {
        TraceError::at(self.line, what)
    }

    fn here(&mut self) -> &mut Thread {
        self.threads.entry(self.thread).or_default()
    }

    fn task(&mut self, slot: u32) -> &mut Task {
        self.slots[slot as usize].as_mut().expect("a live task")
    }

    fn id(&mut self) -> Result<u32> {
        let id = self.next;
        let next = id.checked_add(1);
        self.next = next.ok_or_else(|| self.fault("a trace has fewer than 2^32 tasks"))?;
        Ok(id)
    }

    /// Returns one part that comes after all of `before`: the only one, or a new task `wait`; `None` if `before` is empty.
    fn join_parts(
        &mut self,
        mut before: Vec<u32>,
        to: &mut Emitter<'_, impl Sink>,
    ) -> Result<Option<u32>> {
        before.sort_unstable();
        before.dedup();
        if before.len() < 2 {
            return Ok(before.first().copied());
        }
        let id = self.id()?;
        self.waits.push(id);
        for from in before {
            to.edge(from, id)?;
        }
        Ok(Some(id))
    }

    fn write_waits(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result {
        self.waits.drain(..).try_for_each(|id| {
            to.task(&NewTask {
                id,
                name: Some(WAIT),
                ..NewTask::default()
            })
        })
    }

    /// Returns the part that the running thread runs or completed last.
    fn latest_part(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result<Option<u32>> {
        let thread = self.here();
        if let Some(task) = thread.running.last() {
            return Ok(Some(task.part));
        }
        let before = std::mem::take(&mut thread.before);
        let joined = self.join_parts(before, to)?;
        self.here().before.extend(joined);
        Ok(joined)
    }

    fn registered(&mut self, words: &mut Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let run = words.number()?;
        let token = token(words)?;
        let [t, s, depth] = [words.short()?, words.short()?, words.short()?];
        let mut hints = Vec::new();
        for hint in ["priority", "footprint", "user", "index"] {
            let value = words.signed()?;
            if value != 0 {
                hints.push((hint, value.to_string()));
            }
        }
        let about = About {
            t,
            s,
            depth,
            name: one_word(words.rest()).into(),
            hints,
        };
        let (room, origin) = match self.here().room {
            Some((room, of, origin)) if of == run => (Some(room), origin),
            _ => (None, self.latest_part(to)?),
        };
        let task = Task {
            about: Rc::new(about),
            run,
            token,
            room,
            origin,
            implied: false,
            after: Vec::new(),
            waiters: Vec::new(),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(task);
        let lived = self.living.insert(token.0, slot).is_some();
        let run = self.runs.entry(run).or_default();
        run.tasks.insert(token, State::Live(slot));
        match lived {
            true => Err(words.fault("a task at the address of another that has not ended")),
            false => Ok(()),
        }
    }

    fn edge(&mut self, run: u64, earlier: Token, later: Token, words: &Words<'_>) -> Result {
        let known = |token| Some(*self.runs.get(&run)?.tasks.get(token)?);
        let (Some(from), Some(State::Live(waiter))) = (known(&earlier), known(&later)) else {
            return Err(words.fault("a dependency of a task that was not registered, or has ended"));
        };
        match from {
            State::Ended(part) => self.task(waiter).after.push(part),
            State::Live(from) if from == waiter => {
                return Err(words.fault("a task that waits for itself"));
            }
            State::Live(from) => {
                let from = self.task(from);
                from.waiters.push(waiter);
                let origin = from.origin;
                let waiter = self.task(waiter);
                waiter.implied |= origin == waiter.origin;
            }
        }
        Ok(())
    }

    fn resolved(&mut self, run: u64, token: Token, to: &mut Emitter<'_, impl Sink>) -> Result {
        let Some(by) = self.latest_part(to)? else {
            return Ok(());
        };
        // The runtime itself reports a surplus resolve or one of another graph's task, so such a mark is ignored here.
        let known = self.runs.get(&run).and_then(|run| run.tasks.get(&token));
        if let Some(&State::Live(slot)) = known
            && !self.here().running.iter().any(|task| task.slot == slot)
        {
            self.task(slot).after.push(by);
        }
        Ok(())
    }

    fn start(
        &mut self,
        address: u64,
        words: &Words<'_>,
        to: &mut Emitter<'_, impl Sink>,
    ) -> Result {
        let Some(&slot) = self.living.get(&address) else {
            return Err(words.fault("the start of a task that was not registered"));
        };
        let thread = self.here();
        if thread.running.last().is_some_and(|task| !task.waits) || self.open.is_some() {
            return Err(words.fault("the start of a task inside of another that does not wait"));
        }
        if (self.threads.values()).any(|thread| thread.running.iter().any(|t| t.slot == slot)) {
            return Err(words.fault("the start of a task that runs already"));
        }
        let task = self.task(slot);
        let mut after = std::mem::take(&mut task.after);
        after.extend(task.origin.filter(|_| !task.implied));
        let part = self.part(slot, 1, after, to)?;
        let thread = self.here();
        thread.running.push(Running {
            slot,
            part,
            number: 1,
            waits: false,
        });
        self.open = Some(self.thread);
        Ok(())
    }

    /// Starts part `number` of the task in `slot`, which depends on the parts `after`, and returns its ID.
    fn part(
        &mut self,
        slot: u32,
        number: u32,
        after: Vec<u32>,
        to: &mut Emitter<'_, impl Sink>,
    ) -> Result<u32> {
        self.write_waits(to)?;
        let id = self.id()?;
        let about = Rc::clone(&self.task(slot).about);
        about.start(id, number, after, to)?;
        Ok(id)
    }

    fn end(&mut self, words: &Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let ended = self.here().running.pop().filter(|task| !task.waits);
        let Some(Running { slot, part, .. }) = ended else {
            return Err(words.fault("the end of a task although none runs"));
        };
        self.open = None;
        to.end()?;
        let task = self.remove_task(slot);
        for &waiter in &task.waiters {
            // A waiting task that was dropped with its graph has no slot any more.
            if let Some(waiter) = &mut self.slots[waiter as usize] {
                waiter.after.push(part);
            }
        }
        let run = self.runs.entry(task.run).or_default();
        run.tasks.insert(task.token, State::Ended(part));
        if task.waiters.is_empty() {
            match task.room {
                Some(room) => run.rooms.entry(room).or_default().push(part),
                None => run.last.push(part),
            }
        }
        Ok(())
    }

    /// Removes and returns the task in `slot`, and frees the slot.
    fn remove_task(&mut self, slot: u32) -> Task {
        let task = self.slots[slot as usize].take().expect("a live task");
        self.living.remove(&task.token.0);
        self.free.push(slot);
        task
    }

    fn wait(&mut self, run: u64, to: &mut Emitter<'_, impl Sink>) -> Result {
        self.runs.entry(run).or_default();
        if let Some(task) = self.here().running.last_mut()
            && !task.waits
        {
            task.waits = true;
            self.open = None;
            to.end()?;
        }
        Ok(())
    }

    fn woke(&mut self, run: u64, words: &Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let mut running = (self.threads.values()).flat_map(|thread| &thread.running);
        let inside = |task: &Running| {
            let task = self.slots[task.slot as usize].as_ref();
            task.is_some_and(|task| task.run == run)
        };
        if running.any(inside) {
            return Err(words.fault("the end of a graph of which a task runs"));
        }
        let Some(run) = self.runs.remove(&run) else {
            return Err(words.fault("the end of a graph without its wait"));
        };
        for state in run.tasks.into_values() {
            // Tasks that never ran, because the graph failed or was cancelled.
            if let State::Live(slot) = state {
                self.remove_task(slot);
            }
        }
        let mut last = run.last;
        last.extend(run.rooms.into_values().flatten());
        let (me, open) = (self.thread, self.open);
        let thread = self.here();
        let Some(task) = thread.running.last_mut() else {
            if !last.is_empty() {
                thread.before = last;
            }
            return Ok(());
        };
        if open.is_some() {
            return Err(words.fault("a task that continues while another runs"));
        }
        task.waits = false;
        task.number += 1;
        last.push(task.part);
        let (slot, number) = (task.slot, task.number);
        self.open = Some(me);
        let part = self.part(slot, number, last, to)?;
        let task = self.here().running.last_mut().expect("it goes on");
        task.part = part;
        Ok(())
    }

    fn room(&mut self, room: u64, run: u64, to: &mut Emitter<'_, impl Sink>) -> Result {
        let ended = self.runs.entry(run).or_default().rooms.remove(&room);
        let before = match ended {
            Some(last) => self.join_parts(last, to)?,
            None => self.latest_part(to)?,
        };
        self.here().room = Some((room, run, before));
        Ok(())
    }
}

/// Reads which task is meant.
fn token(words: &mut Words<'_>) -> Result<Token> {
    Ok((words.hex()?, words.short()?))
}

impl super::tasks::Builder for TaskBuilder {
    fn at(&mut self, line: u64, thread: u32) {
        (self.line, self.thread) = (line, thread);
    }

    fn in_task(&self) -> bool {
        let thread = self.threads.get(&self.thread);
        thread.is_some_and(|thread| {
            !thread.paused && thread.running.last().is_some_and(|task| !task.waits)
        })
    }

    fn mark(&mut self, mark: &str, to: &mut Emitter<'_, impl Sink>) -> Result {
        if !to.imported.marked && !mark.starts_with("hello ") {
            return Err(self.fault("a mark before the first one, which has the version"));
        }
        let (word, rest) = mark.split_once(' ').unwrap_or((mark, ""));
        let mut words = Words::new(rest, self.line, mark);
        self.here().paused = word == "(";
        match word {
            "(" | ")" => {}
            "hello" => {
                let version = words.word()?;
                if version != VERSION {
                    let what = format!(
                        "marks of version {version} are not supported, only {VERSION} is; use the Tanada that the program was built with"
                    );
                    return Err(self.fault(what));
                }
                to.imported.marked = true;
            }
            "task" => self.registered(&mut words, to)?,
            "edge" => {
                let run = words.number()?;
                let (earlier, later) = (token(&mut words)?, token(&mut words)?);
                self.edge(run, earlier, later, &words)?;
            }
            "resolve" => {
                let (run, token) = (words.number()?, token(&mut words)?);
                self.resolved(run, token, to)?;
            }
            "start" => {
                let address = words.hex()?;
                self.start(address, &words, to)?;
            }
            "end" => self.end(&words, to)?,
            "wait" => self.wait(words.number()?, to)?,
            "woke" => self.woke(words.number()?, &words, to)?,
            "room" => {
                let (room, run) = (words.hex()?, words.number()?);
                self.room(room, run, to)?;
            }
            "roomed" => self.here().room = None,
            _ => return Err(words.fault("an unknown mark")),
        }
        words.are_used_up()
    }

    fn finish(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result {
        let running = |thread: &Thread| thread.running.last().map(|task| task.slot);
        if let Some(slot) = self.threads.values().find_map(running) {
            let about = Rc::clone(&self.task(slot).about);
            let name = &about.name;
            let what = "the program did not come to its end";
            return Err(self.fault(format!("the trace ends inside of task `{name}`: {what}")));
        }
        self.write_waits(to)
    }
}

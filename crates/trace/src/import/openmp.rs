//! Turning the marks of OpenMP tasks into tasks and dependencies.
//!
//! The adapter for OpenMP programs sends marks (`crates/openmp/src/tasks/marks.rs` lists them). It says what the program does: which task
//! is created with which `depend` clauses, which one runs, who waits for what. Which task thereby comes before which is worked out here,
//! where nothing that is allocated moves what the program allocates:
//!
//! - Each task has a table of the addresses that its children depend on, with the last tasks that wrote and read each: so does the code of
//!   a region outside of tasks.
//! - Where tasks are created is a *scope*: a task, a group, or a region. Scopes form a tree. A scope knows the tasks that ended in it and
//!   that no other task waits for, its *ends*: those of its own tasks, for which a `taskwait` waits, and those of their descendants, for
//!   which the end of a group and a barrier wait, too.
//! - A task that waits in its middle is cut there into *parts*, unless nothing was to be waited for and nothing ran. A part comes after the
//!   part before it and after what it waited for. All parts have the same name, group and hints; later ones also have `h:part=2` and so on.
//! - A task comes after the part that created it, because a trace cannot express the middle of a part; the edge is left out if another
//!   edge implies it. Code outside of tasks is no part: what it waited for comes before all that it creates later. If that is more than one
//!   task, a task `wait` without records comes between, so that the number of edges is the sum and not the product.
//!
//! Memory: some 200 bytes for each task from its creation until what created it has waited for it.

use super::about::About;
use super::emit::Emitter;
use super::words::{Words, one_word};
use crate::{NewTask, Sink, TraceError};
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

/// The version of the marks that this module reads.
const VERSION: &str = "openmp-1";

/// The name of tasks that only order others.
const WAIT: &str = "wait";

type Result<T = ()> = std::result::Result<T, TraceError>;

/// The ID of a task of the trace: a part of a task of the program, or a task `wait`.
type Part = u32;

/// A part with which a task ended.
#[derive(Clone, Copy)]
struct End {
    part: Part,
    /// The part that created the task.
    origin: Option<Part>,
}

/// A task from its creation on.
struct Task {
    about: Rc<About>,
    /// Its address in the program's memory, as long as it has not ended.
    address: u64,
    /// Where it was created.
    scope: u32,
    origin: Option<Part>,
    /// Whether one of the tasks that it waits for has the same origin.
    implied: bool,
    /// Parts that it waits for.
    after: Vec<Part>,
    /// Numbers of the tasks that wait for it.
    waiters: Vec<u32>,
    /// The parts with which it ended: its last one, and that which fulfilled its event.
    ends: Vec<Part>,
    /// It has not begun.
    waits: bool,
    /// What is left until it has ended: its body, and its event if it is detached.
    body: bool,
    event: bool,
}

impl Task {
    const fn is_over(&self) -> bool {
        !self.body && !self.event
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In a task.
    Task,
    /// In a `taskgroup`.
    Group,
    /// In a region, outside of its tasks.
    Region,
}

/// What a dependence says, by the mark that says it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    In,
    Set,
    Out,
    All,
}

impl Use {
    const NAMES: [(&'static str, Use); 4] = [
        ("in", Use::In),
        ("set", Use::Set),
        ("out", Use::Out),
        ("all", Use::All),
    ];

    fn named(word: &str) -> Option<Use> {
        let known = Use::NAMES.iter().find(|(name, _)| *name == word);
        known.map(|&(_, kind)| kind)
    }
}

/// Who used an address last.
struct Entry {
    kind: Use,
    /// Numbers of the tasks of that kind; of `Out` there is one.
    last: Vec<u32>,
    /// Numbers of those that each of these waits for.
    before: Vec<u32>,
}

/// The addresses that the children of one task depend on.
#[derive(Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    /// The last task that may use any address.
    all: Option<u32>,
}

impl Table {
    /// Returns the tasks that one with this dependence waits for, and enters that one if it has a number. The result may name it, too.
    fn enter(&mut self, address: u64, kind: Use, number: Option<u32>) -> Vec<u32> {
        if kind == Use::All {
            let mut before: Vec<u32> = self.all.into_iter().collect();
            for entry in self.entries.values() {
                before.extend(entry.last.iter().chain(&entry.before));
            }
            before.sort_unstable();
            if number.is_some() {
                self.entries.clear();
                self.all = number;
            }
            return before;
        }
        let joins = |entry: &Entry| entry.kind == kind && kind != Use::Out;
        let before = match self.entries.get(&address) {
            Some(entry) if joins(entry) => entry.before.clone(),
            Some(entry) => entry.last.clone(),
            None => Vec::new(),
        };
        if let Some(number) = number {
            let entry = self.entries.entry(address).or_insert_with(|| Entry {
                kind,
                last: Vec::new(),
                before: Vec::new(),
            });
            if !joins(entry) {
                entry.before = std::mem::take(&mut entry.last);
                entry.kind = kind;
            }
            entry.last.push(number);
        }
        // Whoever used the address since then comes after that one.
        match before.is_empty() {
            true => self.all.into_iter().collect(),
            false => before,
        }
    }
}

struct Scope {
    kind: Kind,
    /// The scope around.
    around: Option<u32>,
    /// The ends of tasks that were created here, and those of their descendants, but for tasks that others wait for.
    ends: Vec<End>,
    below: Vec<End>,
    /// Numbers of tasks that were created here and have ended, and for which this scope has not waited.
    ended: Vec<u32>,
    /// Tasks and scopes in it that are left.
    open: u32,
    /// Nothing more is created here.
    closed: bool,
    /// Of a task or region.
    table: Table,
}

/// What is waited for.
#[derive(Clone, PartialEq, Eq)]
enum Wait {
    /// The children.
    Children,
    /// The group, which ends here.
    Group,
    /// Everything, at a barrier.
    All,
    /// These tasks, by number.
    Some(Vec<u32>),
    /// Nothing: other tasks may run here.
    Nothing,
}

/// A task that runs on a thread, or what runs there outside of tasks.
struct Frame {
    task: Option<RunningTask>,
    /// The innermost scope.
    scope: u32,
    wait: Option<Wait>,
}

struct RunningTask {
    number: u32,
    /// Its current part, and the number of that, from 1.
    part: Part,
    parts: u32,
}

#[derive(Default)]
struct Thread {
    /// Each waits for the next one. The first is outside of tasks.
    frames: Vec<Frame>,
    /// What comes before all that is created outside of tasks.
    before: Vec<Part>,
    /// Dependences of what comes next.
    uses: Vec<(Use, u64)>,
    /// Whether the thread executes the marks' own code, which belongs to no task.
    paused: bool,
}

/// Returns the name of a task's code, of the path of its module and the address in there.
pub type NameOf<'a> = dyn FnMut(&str, u64) -> String + 'a;

/// Builds tasks and dependencies from marks, read in order.
pub(super) struct OpenMpBuilder<'a> {
    line: u64,
    name_of: &'a mut NameOf<'a>,
    names: HashMap<u64, Rc<str>>,
    /// Addresses of dependences, numbered from 1.
    addresses: HashMap<u64, u32>,
    tasks: HashMap<u32, Task>,
    /// By address, the number of the task that lives there.
    living: HashMap<u64, u32>,
    scopes: HashMap<u32, Scope>,
    threads: HashMap<u32, Thread>,
    /// The thread that makes the next mark.
    thread: u32,
    /// The thread and the part to which records currently belong.
    open: Option<(u32, Part)>,
    next_task: u32,
    next_scope: u32,
    next: Part,
    /// IDs of tasks `wait`, which are written as soon as no task is open.
    waits: Vec<Part>,
}

impl<'a> OpenMpBuilder<'a> {
    pub(super) fn new(name_of: &'a mut NameOf<'a>) -> Self {
        OpenMpBuilder {
            line: 0,
            name_of,
            names: HashMap::new(),
            addresses: HashMap::new(),
            tasks: HashMap::new(),
            living: HashMap::new(),
            scopes: HashMap::new(),
            threads: HashMap::new(),
            thread: 0,
            open: None,
            next_task: 0,
            next_scope: 0,
            next: 0,
            waits: Vec::new(),
        }
    }

    fn fault(&self, what: impl Into<String>) -> TraceError {
        TraceError::at(self.line, what)
    }

    /// Returns what is known of the thread that makes the marks.
    fn here(&mut self) -> &mut Thread {
        if !self.threads.contains_key(&self.thread) {
            let scope = self.new_scope(Kind::Region, None);
            let outside = Frame {
                task: None,
                scope,
                wait: None,
            };
            let thread = Thread {
                frames: vec![outside],
                ..Thread::default()
            };
            self.threads.insert(self.thread, thread);
        }
        self.threads
            .get_mut(&self.thread)
            .expect("a thread with marks")
    }

    fn frame(&mut self) -> &mut Frame {
        let frames = &mut self.here().frames;
        frames.last_mut().expect("a thread has a frame")
    }

    fn new_scope(&mut self, kind: Kind, around: Option<u32>) -> u32 {
        let number = self.next_scope;
        self.next_scope += 1;
        if let Some(around) = around {
            self.scope(around).open += 1;
        }
        let scope = Scope {
            kind,
            around,
            ends: Vec::new(),
            below: Vec::new(),
            ended: Vec::new(),
            open: 0,
            closed: false,
            table: Table::default(),
        };
        self.scopes.insert(number, scope);
        number
    }

    fn scope(&mut self, number: u32) -> &mut Scope {
        self.scopes.get_mut(&number).expect("a scope that is left")
    }

    fn task(&mut self, number: u32) -> &mut Task {
        self.tasks.get_mut(&number).expect("a task that is left")
    }

    fn id(&mut self) -> Result<Part> {
        let id = self.next;
        let next = id.checked_add(1);
        self.next = next.ok_or_else(|| self.fault("a trace has fewer than 2^32 tasks"))?;
        Ok(id)
    }

    /// Returns the part that this thread runs; outside of tasks, one that comes after all that was waited for.
    fn latest_part(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result<Option<Part>> {
        if let Some(task) = &self.frame().task {
            return Ok(Some(task.part));
        }
        let before = std::mem::take(&mut self.here().before);
        let joined = match before[..] {
            [] => return Ok(None),
            [only] => only,
            _ => {
                let id = self.id()?;
                self.waits.push(id);
                for from in before {
                    to.edge(from, id)?;
                }
                id
            }
        };
        self.here().before.push(joined);
        Ok(Some(joined))
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

    /// Returns the task or region in which `scope` is.
    fn owner(&mut self, scope: u32) -> u32 {
        let mut at = scope;
        loop {
            let scope = self.scope(at);
            match scope.around {
                Some(around) if scope.kind == Kind::Group => at = around,
                _ => return at,
            }
        }
    }

    /// Returns the numbers of the tasks that one with the dependences read last waits for, and enters that one if it has a number.
    fn predecessors(&mut self, scope: u32, uses: &[(Use, u64)], number: Option<u32>) -> Vec<u32> {
        let owner = self.owner(scope);
        let mut before = Vec::new();
        for &(kind, address) in uses {
            let found = self.scope(owner).table.enter(address, kind, number);
            before.extend(found);
        }
        // What is not there any more was waited for before.
        before.retain(|other| Some(*other) != number && self.tasks.contains_key(other));
        before.sort_unstable();
        before.dedup();
        before
    }

    fn created(&mut self, words: &mut Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let address = words.hex()?;
        let code = words.hex()?;
        let depth = words.short()?;
        let (priority, footprint) = (words.signed()?, words.number()?);
        let detached = words.number()? != 0;
        let name = self.names.get(&code).cloned();
        let name = name.ok_or_else(|| words.fault("a task whose code has no mark"))?;
        let uses = std::mem::take(&mut self.here().uses);
        let mut hints = Vec::new();
        if priority != 0 {
            hints.push(("priority", priority.to_string()));
        }
        if footprint != 0 {
            hints.push(("footprint", footprint.to_string()));
        }
        let mut s = 0;
        for (name, kind) in Use::NAMES {
            let mut numbers = Vec::new();
            for &(_, address) in uses.iter().filter(|(other, _)| *other == kind) {
                let next = self.addresses.len() as u32 + 1;
                let number = match kind {
                    Use::All => 0,
                    _ => *self.addresses.entry(address).or_insert(next),
                };
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
            if kind == Use::Out {
                s = numbers.first().copied().unwrap_or(0);
            }
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let list = numbers.join(",");
            if !list.is_empty() {
                hints.push((name, list));
            }
        }
        let number = self.next_task;
        let next = number.checked_add(1);
        self.next_task = next.ok_or_else(|| words.fault("more than 2^32 tasks"))?;
        let origin = self.latest_part(to)?;
        let scope = self.frame().scope;
        let before = self.predecessors(scope, &uses, Some(number));
        let mut task = Task {
            about: Rc::new(About {
                t: 0,
                // Stands for the first address that it writes.
                s,
                depth,
                name,
                hints,
            }),
            address,
            scope,
            origin,
            implied: false,
            after: Vec::new(),
            waiters: Vec::new(),
            ends: Vec::new(),
            waits: true,
            body: true,
            event: detached,
        };
        for other in before {
            let other = self.task(other);
            task.implied |= other.origin == origin;
            if !other.is_over() {
                other.waiters.push(number);
                continue;
            }
            // From here on who waits for this one waits for that one, too.
            let (scope, ends) = (other.scope, other.ends.clone());
            self.forget_ends(scope, &ends);
            task.after.extend(ends);
        }
        self.tasks.insert(number, task);
        self.scope(scope).open += 1;
        match self.living.insert(address, number) {
            Some(_) => Err(words.fault("a task at the address of another that has not ended")),
            None => Ok(()),
        }
    }

    fn forget_ends(&mut self, scope: u32, parts: &[Part]) {
        let ends = &mut self.scope(scope).ends;
        ends.retain(|end| !parts.contains(&end.part));
    }

    /// Ends the part that is open, which must be of a task that waits.
    fn close(&mut self, words: &Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let Some((thread, _)) = self.open.take() else {
            return Ok(());
        };
        let frame = self
            .threads
            .get(&thread)
            .and_then(|thread| thread.frames.last());
        match frame {
            Some(frame) if frame.wait.is_some() => to.end(),
            _ if thread == self.thread => {
                Err(words.fault("a task inside of another that does not wait"))
            }
            _ => Err(words.fault(
                "tasks of two threads of the program at the same time, which cannot be recorded",
            )),
        }
    }

    fn start(&mut self, words: &mut Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let address = words.hex()?;
        let Some(&number) = self.living.get(&address) else {
            return Err(words.fault("the start of a task that was not created"));
        };
        if self.frame().wait.is_none() {
            return Err(words.fault("the start of a task where nothing waits"));
        }
        self.close(words, to)?;
        let task = self.task(number);
        if !std::mem::take(&mut task.waits) {
            return Err(words.fault("the start of a task that has begun"));
        }
        let mut after = std::mem::take(&mut task.after);
        after.extend(task.origin.filter(|_| !task.implied));
        let around = task.scope;
        let scope = self.new_scope(Kind::Task, Some(around));
        let part = self.part(number, 1, after, to)?;
        self.here().frames.push(Frame {
            task: Some(RunningTask {
                number,
                part,
                parts: 1,
            }),
            scope,
            wait: None,
        });
        self.open = Some((self.thread, part));
        Ok(())
    }

    /// Starts part `parts` of a task, which depends on the parts `after`, and returns its ID.
    fn part(
        &mut self,
        number: u32,
        parts: u32,
        after: Vec<Part>,
        to: &mut Emitter<'_, impl Sink>,
    ) -> Result<Part> {
        self.write_waits(to)?;
        let id = self.id()?;
        let about = Rc::clone(&self.task(number).about);
        about.start(id, parts, after, to)?;
        Ok(id)
    }

    fn end(&mut self, words: &Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let frame = self.frame();
        let Frame {
            task: Some(RunningTask { number, part, .. }),
            scope,
            wait: None,
        } = *frame
        else {
            return Err(words.fault("the end of a task although none runs"));
        };
        self.here().frames.pop();
        self.open = None;
        to.end()?;
        if self.scope(scope).kind != Kind::Task {
            return Err(words.fault("the end of a task in a group that has not ended"));
        }
        self.close_scope(scope);
        let task = self.task(number);
        task.ends.push(part);
        task.body = false;
        self.partly_ended(number);
        Ok(())
    }

    /// The body of a task has ended, or its event was fulfilled.
    fn partly_ended(&mut self, number: u32) {
        let task = self.task(number);
        if !task.is_over() {
            return;
        }
        task.ends.sort_unstable();
        task.ends.dedup();
        let (ends, waiters) = (task.ends.clone(), std::mem::take(&mut task.waiters));
        let (scope, origin, address) = (task.scope, task.origin, task.address);
        self.living.remove(&address);
        for &waiter in &waiters {
            if let Some(waiter) = self.tasks.get_mut(&waiter) {
                waiter.after.extend(&ends);
            }
        }
        let left = (waiters.is_empty()).then(|| ends.iter().map(|&part| End { part, origin }));
        let left: Vec<End> = left.into_iter().flatten().collect();
        let at = self.scope(scope);
        match at.closed {
            false => {
                at.ends.extend(left);
                at.ended.push(number);
            }
            true => {
                // Its parent has ended, and no sibling can be created any more.
                self.tasks.remove(&number);
                self.end_below(scope, left);
            }
        }
        self.one_less(scope);
    }

    /// Adds ends below the nearest scope around `scope` that is not closed.
    fn end_below(&mut self, scope: u32, ends: Vec<End>) {
        let mut at = Some(scope);
        while let Some(number) = at {
            let scope = self.scope(number);
            if !scope.closed {
                scope.below.extend(ends);
                return;
            }
            at = scope.around;
        }
    }

    /// Nothing more is created in a scope.
    fn close_scope(&mut self, number: u32) {
        let scope = self.scope(number);
        scope.closed = true;
        scope.table = Table::default();
        let mut left = std::mem::take(&mut scope.ends);
        left.append(&mut scope.below);
        let ended = std::mem::take(&mut scope.ended);
        for task in ended {
            self.tasks.remove(&task);
        }
        self.end_below(number, left);
        self.free_scope(number);
    }

    fn free_scope(&mut self, number: u32) {
        let scope = self.scope(number);
        if scope.closed && scope.open == 0 {
            let around = scope.around;
            self.scopes.remove(&number);
            if let Some(around) = around {
                self.one_less(around);
            }
        }
    }

    fn one_less(&mut self, scope: u32) {
        self.scope(scope).open -= 1;
        self.free_scope(scope);
    }

    fn wait(&mut self, words: &mut Words<'_>) -> Result {
        let uses = std::mem::take(&mut self.here().uses);
        let scope = self.frame().scope;
        let wait = match words.word()? {
            "children" => Wait::Children,
            "group" if self.scope(scope).kind == Kind::Group => Wait::Group,
            "all" => Wait::All,
            "some" => Wait::Some(self.predecessors(scope, &uses, None)),
            "task" => {
                let address = words.hex()?;
                let Some(&number) = self.living.get(&address) else {
                    return Err(words.fault("a wait for a task that was not created"));
                };
                Wait::Some(vec![number])
            }
            "nothing" => Wait::Nothing,
            _ => return Err(words.fault("a wait for nothing that there is")),
        };
        if self.frame().wait.replace(wait).is_some() {
            return Err(words.fault("a wait inside of another one"));
        }
        Ok(())
    }

    /// Returns the ends for which a wait waited, none of which is implied by another, and forgets them.
    fn waited_for(&mut self, wait: &Wait) -> Vec<End> {
        let inner = self.frame().scope;
        let mut ends = Vec::new();
        if let Wait::Some(numbers) = wait {
            for number in numbers {
                let Some(task) = self.tasks.get(number).filter(|task| task.is_over()) else {
                    continue;
                };
                let (scope, origin) = (task.scope, task.origin);
                let own = task.ends.clone();
                self.forget_ends(scope, &own);
                self.scope(scope).ended.retain(|other| other != number);
                self.tasks.remove(number);
                ends.extend(own.into_iter().map(|part| End { part, origin }));
            }
        } else if *wait != Wait::Nothing {
            let mut at = inner;
            loop {
                let scope = self.scope(at);
                ends.append(&mut scope.ends);
                if *wait != Wait::Children {
                    ends.append(&mut scope.below);
                }
                let (kind, around) = (scope.kind, scope.around);
                for task in std::mem::take(&mut scope.ended) {
                    self.tasks.remove(&task);
                }
                match around {
                    Some(around) if kind == Kind::Group && *wait != Wait::Group => at = around,
                    _ => break,
                }
            }
            if *wait != Wait::Group {
                self.scope(at).table = Table::default();
            }
        }
        let origins: HashSet<Part> = ends.iter().filter_map(|end| end.origin).collect();
        ends.retain(|end| !origins.contains(&end.part));
        ends
    }

    fn woke(&mut self, words: &Words<'_>, to: &mut Emitter<'_, impl Sink>) -> Result {
        let frame = self.frame();
        let Some(wait) = frame.wait.take() else {
            return Err(words.fault("the end of a wait that did not begin"));
        };
        let running = frame.task.as_ref();
        let running = running.map(|task| (task.number, task.part, task.parts));
        let ends = self.waited_for(&wait);
        if wait == Wait::Group {
            let group = self.frame().scope;
            let around = self.scope(group).around.expect("a group is in a scope");
            self.frame().scope = around;
            self.close_scope(group);
        }
        let Some((number, part, parts)) = running else {
            let before = &mut self.here().before;
            before.retain(|part| !ends.iter().any(|end| end.origin == Some(*part)));
            before.extend(ends.iter().map(|end| end.part));
            before.sort_unstable();
            before.dedup();
            return Ok(());
        };
        if ends.is_empty() && self.open == Some((self.thread, part)) {
            return Ok(());
        }
        if self.open == Some((self.thread, part)) {
            self.open = None;
            to.end()?;
        }
        self.close(words, to)?;
        let mut after: Vec<Part> = ends.iter().map(|end| end.part).collect();
        after.push(part);
        let next = self.part(number, parts + 1, after, to)?;
        self.open = Some((self.thread, next));
        self.frame().task = Some(RunningTask {
            number,
            part: next,
            parts: parts + 1,
        });
        Ok(())
    }

    fn fulfilled(&mut self, words: &mut Words<'_>) -> Result {
        let address = words.hex()?;
        let Some(&number) = self.living.get(&address) else {
            return Err(words.fault("the event of a task that was not created, or has ended"));
        };
        let by = match &self.frame().task {
            Some(task) => vec![task.part],
            None => self.here().before.clone(),
        };
        let task = self.task(number);
        if !std::mem::take(&mut task.event) {
            return Err(words.fault("an event that the task does not have"));
        }
        task.ends.extend(by);
        self.partly_ended(number);
        Ok(())
    }
}

impl super::tasks::Builder for OpenMpBuilder<'_> {
    fn at(&mut self, line: u64, thread: u32) {
        (self.line, self.thread) = (line, thread);
    }

    fn in_task(&self) -> bool {
        let thread = self.threads.get(&self.thread);
        thread.is_some_and(|thread| {
            let frame = thread.frames.last();
            !thread.paused
                && frame.is_some_and(|frame| frame.task.is_some() && frame.wait.is_none())
        })
    }

    fn mark(&mut self, mark: &str, to: &mut Emitter<'_, impl Sink>) -> Result {
        let (word, rest) = mark.split_once(' ').unwrap_or((mark, ""));
        if !to.imported.marked && word != "hello" {
            return Err(self.fault("a mark before the first one, which has the version"));
        }
        let words = &mut Words::new(rest, self.line, mark);
        self.here().paused = word == "(";
        match word {
            "(" | ")" => {}
            "hello" => {
                let version = words.word()?;
                if version != VERSION {
                    let what = format!(
                        "marks of version {version} are not of OpenMP tasks, whose version is {VERSION}"
                    );
                    return Err(self.fault(what));
                }
                to.imported.marked = true;
            }
            "code" => {
                let (code, offset) = (words.hex()?, words.hex()?);
                let path = words.rest();
                if !self.names.contains_key(&code) {
                    let name = (self.name_of)(path, offset);
                    self.names.insert(code, one_word(&name).into());
                }
            }
            "team" => {
                let threads = words.number()?;
                let what = format!(
                    "the program makes a team of {threads} threads, although it was told to make none"
                );
                return Err(self.fault(what));
            }
            "task" => self.created(words, to)?,
            "start" => self.start(words, to)?,
            "end" => self.end(words, to)?,
            "wait" => self.wait(words)?,
            "woke" => self.woke(words, to)?,
            "group" | "region" => {
                let kind = if word == "group" {
                    Kind::Group
                } else {
                    Kind::Region
                };
                let around = self.frame().scope;
                let scope = self.new_scope(kind, Some(around));
                self.frame().scope = scope;
            }
            "regioned" => {
                let scope = self.frame().scope;
                let region = self.scope(scope);
                let Some(around) = region.around.filter(|_| region.kind == Kind::Region) else {
                    return Err(words.fault("the end of a region that did not begin"));
                };
                self.frame().scope = around;
                self.close_scope(scope);
            }
            "fulfil" => self.fulfilled(words)?,
            other => match Use::named(other) {
                Some(kind) => {
                    let address = if kind == Use::All { 0 } else { words.hex()? };
                    self.here().uses.push((kind, address));
                }
                None => return Err(words.fault("an unknown mark")),
            },
        }
        words.are_used_up()
    }

    fn finish(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result {
        let frames = self.threads.values().flat_map(|thread| &thread.frames);
        let running = frames.filter_map(|frame| frame.task.as_ref());
        if let Some(number) = running.map(|task| task.number).min() {
            let about = Rc::clone(&self.task(number).about);
            let name = &about.name;
            let what = "the program did not come to its end";
            return Err(self.fault(format!("the trace ends inside of task `{name}`: {what}")));
        }
        self.write_waits(to)
    }
}

#[cfg(test)]
mod tests;

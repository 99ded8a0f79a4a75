//! The run: cores, interrupts and the bus in the total order of `RULES.md`, rule 1.

use super::code::{Code, FIXED, PIECES, Place, ROLES, Step};
use super::kernel::{Kernel, Path};
use super::memory::{Memory, Request};
use super::outcome::{Account, CoreOutcome, Cycles, Executed, RtosOutcome, Span};
use super::system::{Body, Call, Core as Program, Got, Outside, System, TaskId};
use crate::SimError;
use crate::machine::{Cycle, Machine};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a task's stack above its pointer while its program calls services.
const STACK_USED: u64 = 128;
/// Bytes of the stack of interrupts that a level takes.
const LEVEL_STACK: u64 = 96;
/// The stack of interrupts.
const INTERRUPT_STACK: u64 = 19;
/// Where the record of a waiting task lies below its pointer.
const WAIT_RECORD: u64 = 60;
/// Most tasks, flags, queues, mailboxes, pools and blocks of a core.
const MOST: [usize; 6] = [16, 4, 4, 16, 4, 64];

/// Settings of a run.
#[derive(Clone, Copy, Default)]
pub struct RtosOptions<'a> {
    /// Overrides the machine's seed.
    pub seed: Option<u64>,
    /// Whether [`RtosOutcome::spans`] is wanted.
    pub spans: bool,
    /// Called now and then with the clock. The run stops if it returns `false`.
    pub watch: Option<&'a dyn Fn(Cycle) -> bool>,
}

impl std::fmt::Debug for RtosOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtosOptions")
            .field("seed", &self.seed)
            .field("spans", &self.spans)
            .finish_non_exhaustive()
    }
}

/// What cycles are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    Own,
    Service,
    Switch,
}

/// Addresses of the roles of a piece.
type Roles = [u64; ROLES];

/// What a context has to do before its program is asked again.
#[derive(Clone, Debug)]
enum Work {
    /// The steps of a piece from `next` on.
    Steps {
        piece: usize,
        behind: bool,
        roles: Roles,
        next: usize,
        account: usize,
        charge: Charge,
    },
    Compute(Cycle),
    /// A more urgent task may run here.
    DispatchPoint,
    /// The most urgent task gets the core.
    Switch {
        account: usize,
    },
    /// Interrupts are accepted again.
    Unmask,
    /// The handler has ended; `Some`: a dispatch follows, and then the rest of this piece.
    Left {
        piece: usize,
        roles: Roles,
        dispatches: bool,
    },
}

/// A task or a handler.
struct Context<'a> {
    body: Box<dyn Body + 'a>,
    works: VecDeque<Work>,
    got: Got,
    /// Whether it begins when it is dispatched next.
    begins: bool,
    /// Its stack pointer, in the recording's addresses.
    stack: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Idles,
    /// Waits for the bus, since its clock.
    Waits,
}

struct Line {
    level: u8,
    requested: Option<Cycle>,
}

struct Core<'a> {
    kernel: Kernel,
    /// Tasks, then handlers.
    contexts: Vec<Context<'a>>,
    tasks: usize,
    lines: Vec<Line>,
    /// Lines whose handlers run, the innermost last.
    nested: Vec<usize>,
    clock: Cycle,
    state: State,
    masked: bool,
    requests: VecDeque<Request>,
    outcome: CoreOutcome,
    /// Who has the core, since when.
    who: (u32, Cycle),
    /// What the cycles at the bus are charged to.
    charged: (usize, Charge),
    /// Executions by account and part of a piece.
    pieces: Vec<Executed>,
    /// The place in it of the part whose step was the last one.
    part: Option<usize>,
}

/// Parts of pieces.
const PARTS: usize = 2 * PIECES.len();

struct Timer {
    core: usize,
    line: usize,
    at: Option<Cycle>,
    every: Cycle,
}

/// A machine that runs a system.
struct Engine<'a, 'o> {
    code: &'a Code,
    cores: Vec<Core<'a>>,
    memory: Memory,
    outside: Box<dyn Outside + 'a>,
    timers: Vec<Timer>,
    spans: Option<Vec<Span>>,
    options: &'o RtosOptions<'o>,
    branch: Cycle,
    stopped: bool,
    numbers: Numbers,
}

/// The numbers of pieces that no service names.
struct Numbers {
    dispatch: usize,
    begins: usize,
    enters: usize,
    enters_nested: usize,
    leaves: usize,
    leaves_nested: usize,
    dispatches: usize,
}

/// Runs `system` on `machine`, whose `[rtos]` says how, and returns what it came to. It ends when a program stops it, or
/// when nothing can happen any more.
///
/// # Errors
/// If the machine has no `[rtos]`, has too few cores, or a core of the system has more objects than the recorded kernel; if
/// a program breaks a rule of the kernel; if `options` stop the run.
pub fn run<'a>(
    machine: &Machine,
    code: &'a Code,
    system: System<'a>,
    options: &RtosOptions<'_>,
) -> Result<RtosOutcome, SimError> {
    let wrong = |core, what: &str| SimError::Rtos {
        core,
        id: None,
        what: what.to_owned(),
    };
    let table = machine
        .rtos
        .as_ref()
        .ok_or_else(|| wrong(0, "the machine has no `[rtos]`"))?;
    if system.cores.len() > usize::from(machine.cores) {
        return Err(wrong(
            system.cores.len() - 1,
            "the machine has no such core",
        ));
    }
    for (number, core) in system.cores.iter().enumerate() {
        let blocks = core.pools.iter().sum::<u64>();
        let counts = [
            core.tasks.len(),
            core.flags,
            core.queues.len(),
            core.mailboxes,
            core.pools.len(),
            blocks as usize,
        ];
        if core.tasks.is_empty() || counts.iter().zip(MOST).any(|(count, most)| *count > most) {
            return Err(wrong(
                number,
                "there are no tasks, or more objects than the kernel has room for",
            ));
        }
        if core.handlers.iter().any(|handler| handler.level == 0) {
            return Err(wrong(number, "a handler's level is at least 1"));
        }
    }
    let lines: Vec<usize> = system
        .cores
        .iter()
        .map(|core| core.handlers.len())
        .collect();
    for &(core, line, ..) in &system.timers {
        if lines.get(core).is_none_or(|&lines| line >= lines) {
            return Err(wrong(core, "an interrupt has no handler"));
        }
    }
    let seed = options.seed.unwrap_or(machine.seed);
    let memory = Memory::new(machine, table, system.cores.len(), seed);
    let timers = system.timers.iter().map(|&(core, line, at, every)| Timer {
        core,
        line,
        at: Some(at),
        every,
    });
    let mut engine = Engine {
        code,
        memory,
        outside: system.outside,
        timers: timers.collect(),
        spans: options.spans.then(Vec::new),
        options,
        branch: table.branch_cycles,
        stopped: false,
        cores: system
            .cores
            .into_iter()
            .map(|core| core_of(code, core))
            .collect(),
        numbers: Numbers {
            dispatch: Code::number("dispatch"),
            begins: Code::number("dispatch begins"),
            enters: Code::number("interrupt enters"),
            enters_nested: Code::number("interrupt enters nested"),
            leaves: Code::number("interrupt leaves"),
            leaves_nested: Code::number("interrupt leaves nested"),
            dispatches: Code::number("interrupt dispatches"),
        },
    };
    engine.run()?;
    Ok(engine.outcome())
}

fn core_of<'a>(code: &Code, core: Program<'a>) -> Core<'a> {
    let kernel = Kernel::new(&core, |block| code.place(Place::Block, block));
    let mut accounts = Vec::new();
    let mut contexts = Vec::new();
    let tasks = core.tasks.len();
    let lines = core.handlers.iter().map(|handler| Line {
        level: handler.level,
        requested: None,
    });
    let lines = lines.collect();
    let stacks = (1..).map(|number| code.place(Place::Stack, number) - STACK_USED);
    let each = core.tasks.into_iter().map(|one| (one.id, one.body));
    let each = each.chain(core.handlers.into_iter().map(|one| (one.id, one.body)));
    for ((id, body), stack) in each.zip(stacks) {
        accounts.push(Account {
            id,
            cycles: Cycles::default(),
            begins: 0,
        });
        contexts.push(Context {
            body,
            works: VecDeque::new(),
            got: Got::Begin,
            begins: true,
            stack,
        });
    }
    let all = contexts.len();
    let running = kernel.running;
    contexts[running].begins = false;
    accounts[running].begins = 1;
    Core {
        who: (accounts[running].id, 0),
        kernel,
        contexts,
        tasks,
        lines,
        nested: Vec::new(),
        clock: 0,
        state: State::Runs,
        masked: false,
        requests: VecDeque::new(),
        outcome: CoreOutcome {
            accounts,
            ..CoreOutcome::default()
        },
        charged: (running, Charge::Own),
        pieces: vec![Executed::default(); PARTS * all],
        part: None,
    }
}

impl Core<'_> {
    /// Returns the context that has the core.
    fn current(&self) -> usize {
        self.nested
            .last()
            .map_or(self.kernel.running, |line| self.tasks + line)
    }

    /// Returns the line whose interrupt is accepted now.
    fn acceptable(&self) -> Option<usize> {
        if self.masked {
            return None;
        }
        let level = self.nested.last().map_or(0, |&line| self.lines[line].level);
        let requested = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.requested.is_some() && line.level > level);
        // Of equal levels the lowest line: `max_by_key` would take the last.
        requested
            .rev()
            .max_by_key(|(_, line)| line.level)
            .map(|(number, _)| number)
    }

    fn spend(&mut self, cycles: Cycle, (account, charge): (usize, Charge)) {
        self.clock += cycles;
        let of = &mut self.outcome.accounts[account].cycles;
        match charge {
            Charge::Own => of.own += cycles,
            Charge::Service => of.service += cycles,
            Charge::Switch => of.switch += cycles,
        }
        if let Some(part) = self.part {
            self.pieces[part].cycles += cycles;
        }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Outside,
    Timer(usize, usize, usize),
    Core(usize),
    Bus,
}

impl<'a> Engine<'a, '_> {
    fn run(&mut self) -> Result<(), SimError> {
        let mut watched = 0_u32;
        while let Some((time, next)) = self.next() {
            match next {
                Next::Outside => {
                    let mut calls = Vec::new();
                    self.outside.happen(time, &mut calls);
                    for call in calls {
                        self.line(None, call, time)?;
                    }
                }
                Next::Timer(core, line, number) => {
                    let timer = &mut self.timers[number];
                    timer.at = (timer.every > 0).then(|| time + timer.every);
                    self.request(core, line, time);
                }
                Next::Core(core) => self.step(core)?,
                Next::Bus => self.grant(time),
            }
            if self.stopped {
                break;
            }
            watched = watched.wrapping_add(1);
            if watched.is_multiple_of(1 << 16)
                && self.options.watch.is_some_and(|watch| !watch(time))
            {
                return Err(SimError::Cancelled);
            }
        }
        Ok(())
    }

    /// Returns the next event and its time.
    fn next(&self) -> Option<(Cycle, Next)> {
        let outside = self.outside.at().map(|at| (at, Next::Outside));
        let timers = self.timers.iter().enumerate();
        let timers = timers
            .filter_map(|(number, one)| Some((one.at?, Next::Timer(one.core, one.line, number))));
        let cores = self.cores.iter().enumerate();
        let running = cores.filter(|(_, core)| core.state == State::Runs);
        let running = running.map(|(number, core)| (core.clock, Next::Core(number)));
        let since = self
            .cores
            .iter()
            .filter(|core| core.state == State::Waits)
            .map(|core| core.clock)
            .min();
        let bus = since.map(|since| (self.memory.edge(since), Next::Bus));
        outside
            .into_iter()
            .chain(timers)
            .chain(running)
            .chain(bus)
            .min()
    }

    /// An interrupt is requested.
    fn request(&mut self, core: usize, line: usize, time: Cycle) {
        let core = &mut self.cores[core];
        match &mut core.lines[line].requested {
            Some(_) => core.outcome.lost += 1,
            none => *none = Some(time),
        }
        if core.state == State::Idles {
            core.outcome.idle += time - core.clock;
            (core.clock, core.state) = (time, State::Runs);
        }
    }

    /// The bus goes to one of the cores that wait.
    fn grant(&mut self, time: Cycle) {
        let waiting = self.cores.iter().enumerate();
        let waiting = waiting.filter(|(_, core)| core.state == State::Waits && core.clock <= time);
        let chosen = self.memory.chosen(waiting.map(|(number, _)| number));
        let number = chosen.expect("a core waits");
        let core = &mut self.cores[number];
        let request = core.requests.pop_front().expect("it waits for something");
        let end = self.memory.grant(number, request, time);
        core.outcome.bus_wait += time - core.clock;
        let charged = core.charged;
        core.spend(end - core.clock, charged);
        if core.requests.is_empty() {
            core.state = State::Runs;
        }
    }

    /// A core accepts an interrupt, goes on with its work, or asks its program.
    fn step(&mut self, number: usize) -> Result<(), SimError> {
        if let Some(line) = self.cores[number].acceptable() {
            self.accept(number, line);
            return Ok(());
        }
        let core = &mut self.cores[number];
        let current = core.current();
        let Some(work) = core.contexts[current].works.front_mut() else {
            let (got, now) = (core.contexts[current].got, core.clock);
            core.contexts[current].got = Got::Ok;
            let call = core.contexts[current].body.next(got, now);
            return self.call(number, current, call);
        };
        match work {
            Work::Steps {
                piece,
                behind,
                roles,
                next,
                account,
                charge,
            } => {
                let part = *account * PARTS + 2 * *piece + usize::from(*behind);
                let piece = &self.code.pieces[*piece];
                let steps = if *behind {
                    &piece.behind
                } else {
                    &piece.before
                };
                let (charged, roles) = ((*account, *charge), *roles);
                let (step, first) = (steps.get(*next).copied(), *next == 0);
                *next += 1;
                if *next >= steps.len() {
                    core.contexts[current].works.pop_front();
                }
                let Some(step) = step else {
                    return Ok(());
                };
                core.pieces[part].times += u64::from(first);
                core.part = Some(part);
                core.charged = charged;
                match step {
                    Step::Execute(count) => core.spend(u64::from(count), charged),
                    Step::Fetch {
                        address,
                        bytes,
                        branched,
                    } => {
                        core.spend(if branched { self.branch } else { 0 }, charged);
                        self.memory.touch(
                            number,
                            true,
                            (address, u64::from(bytes)),
                            false,
                            &mut core.requests,
                        );
                    }
                    Step::Access {
                        role,
                        offset,
                        bytes,
                        store,
                    } => {
                        let base = if role == FIXED {
                            0
                        } else {
                            roles[usize::from(role)]
                        };
                        let address = base.wrapping_add_signed(offset);
                        let bytes = u64::from(bytes);
                        core.spend((bytes.div_ceil(4)).saturating_sub(1), charged);
                        self.memory.touch(
                            number,
                            false,
                            (address, bytes),
                            store,
                            &mut core.requests,
                        );
                    }
                }
                if !core.requests.is_empty() {
                    core.state = State::Waits;
                }
            }
            Work::Compute(cycles) => {
                let cycles = *cycles;
                core.contexts[current].works.pop_front();
                core.part = None;
                core.spend(cycles, (current, Charge::Own));
            }
            Work::Unmask => {
                core.contexts[current].works.pop_front();
                core.masked = false;
            }
            Work::DispatchPoint => {
                core.contexts[current].works.pop_front();
                let to = core.kernel.scheduled();
                let needed = core.kernel.enabled && core.nested.is_empty() && to != Some(current);
                if needed {
                    self.dispatch(number)?;
                }
            }
            Work::Switch { account } => {
                let account = *account;
                core.contexts[current].works.pop_front();
                self.switch(number, account);
            }
            Work::Left {
                piece,
                roles,
                dispatches,
            } => {
                let (piece, roles, dispatches) = (*piece, *roles, *dispatches);
                core.contexts[current].works.pop_front();
                core.nested.pop();
                let under = core.current();
                self.span(number, under);
                let core = &mut self.cores[number];
                core.contexts[under].works.push_front(Work::Unmask);
                if dispatches {
                    core.contexts[under].works.push_front(Work::Steps {
                        piece,
                        behind: true,
                        roles,
                        next: 0,
                        account: current,
                        charge: Charge::Service,
                    });
                    self.dispatch(number)?;
                }
            }
        }
        Ok(())
    }

    /// The interrupt of `line` is accepted.
    fn accept(&mut self, number: usize, line: usize) {
        let core = &mut self.cores[number];
        let requested = core.lines[line].requested.take().unwrap_or(core.clock);
        core.outcome.longest_latency = core
            .outcome
            .longest_latency
            .max(core.clock.saturating_sub(requested));
        let below = core.current();
        let nested = !core.nested.is_empty();
        let handler = core.tasks + line;
        let depth = core.nested.len() as u64;
        core.contexts[handler].stack =
            self.code.place(Place::Stack, INTERRUPT_STACK + 1) - 32 - LEVEL_STACK * depth;
        let mut roles = [0; ROLES];
        roles[0] = core.contexts[below].stack;
        roles[3] = core.contexts[handler].stack;
        core.nested.push(line);
        core.masked = true;
        core.outcome.accounts[handler].begins += 1;
        let context = &mut core.contexts[handler];
        context.got = Got::Begin;
        context.works.push_back(Work::Steps {
            piece: if nested {
                self.numbers.enters_nested
            } else {
                self.numbers.enters
            },
            behind: false,
            roles,
            next: 0,
            account: handler,
            charge: Charge::Service,
        });
        context.works.push_back(Work::Unmask);
        self.span(number, handler);
    }

    /// The task that has the core gives it to the most urgent one.
    fn dispatch(&mut self, number: usize) -> Result<(), SimError> {
        let core = &mut self.cores[number];
        let (from, to) = (core.kernel.running, core.kernel.scheduled());
        let to = to.ok_or_else(|| SimError::Rtos {
            core: number,
            id: None,
            what: "no task is ready, and none idles".to_owned(),
        })?;
        // Whose doing it is: that of the task that stops, or else of the one that became ready.
        let account = if core.kernel.is_ready(from) { to } else { from };
        let roles = self.dispatch_roles(number, from, to);
        let works = &mut self.cores[number].contexts[from].works;
        works.push_front(Work::Switch { account });
        works.push_front(Work::Steps {
            piece: self.numbers.dispatch,
            behind: false,
            roles,
            next: 0,
            account,
            charge: Charge::Switch,
        });
        Ok(())
    }

    fn dispatch_roles(&self, number: usize, from: TaskId, to: TaskId) -> Roles {
        let core = &self.cores[number];
        let mut roles = [0; ROLES];
        roles[0] = core.contexts[from].stack;
        roles[1] = self.code.place(Place::Task, from as u64);
        roles[2] = self.code.place(Place::Task, to as u64);
        roles[3] = core.contexts[to].stack;
        roles[5] = roles[1];
        roles
    }

    fn switch(&mut self, number: usize, account: usize) {
        let core = &mut self.cores[number];
        let from = core.kernel.running;
        let to = core.kernel.scheduled().expect("the dispatch found one");
        core.kernel.running = to;
        core.outcome.accounts[to].begins += 1;
        let roles = self.dispatch_roles(number, from, to);
        let context = &mut self.cores[number].contexts[to];
        let piece = match std::mem::take(&mut context.begins) {
            true => {
                context.works.push_front(Work::Unmask);
                self.numbers.begins
            }
            false => self.numbers.dispatch,
        };
        context.works.push_front(Work::Steps {
            piece,
            behind: true,
            roles,
            next: 0,
            account,
            charge: Charge::Switch,
        });
        self.span(number, to);
    }

    /// Context `to` has the core from now on.
    fn span(&mut self, number: usize, to: usize) {
        let core = &mut self.cores[number];
        let id = core.outcome.accounts[to].id;
        let (before, start) = std::mem::replace(&mut core.who, (id, core.clock));
        if let Some(spans) = self.spans.as_mut().filter(|_| start < core.clock) {
            spans.push(Span {
                core: number,
                id: before,
                start,
                end: core.clock,
            });
        }
    }

    /// An interrupt is requested, or a timer set, by a program or from outside.
    fn line(&mut self, by: Option<(usize, u32)>, call: Call, now: Cycle) -> Result<(), SimError> {
        let (to, line) = match call {
            Call::Raise { core, line } | Call::Timer { core, line, .. } => (core, line),
            _ => (usize::MAX, 0),
        };
        if self
            .cores
            .get(to)
            .is_none_or(|core| line >= core.lines.len())
        {
            return Err(SimError::Rtos {
                core: by.map_or(to, |by| by.0),
                id: by.map(|by| by.1),
                what: "an interrupt has no handler".to_owned(),
            });
        }
        let Call::Timer { at, every, .. } = call else {
            self.request(to, line, now);
            return Ok(());
        };
        let at = at.map(|at| at.max(now));
        match self
            .timers
            .iter_mut()
            .find(|one| (one.core, one.line) == (to, line))
        {
            Some(timer) => (timer.at, timer.every) = (at, every),
            None => self.timers.push(Timer {
                core: to,
                line,
                at,
                every,
            }),
        }
        Ok(())
    }

    /// The program of context `current` calls.
    fn call(&mut self, number: usize, current: usize, call: Call) -> Result<(), SimError> {
        let is_task = self.cores[number].nested.is_empty();
        let id = self.cores[number].outcome.accounts[current].id;
        let wrong = |what: &str| SimError::Rtos {
            core: number,
            id: Some(id),
            what: what.to_owned(),
        };
        let core = &mut self.cores[number];
        match call {
            Call::Run { piece, at } => {
                if piece >= self.code.pieces.len() {
                    return Err(wrong("there is no such piece of code"));
                }
                let mut roles = at;
                roles[0] = core.contexts[current].stack;
                for behind in [false, true] {
                    core.contexts[current].works.push_back(Work::Steps {
                        piece,
                        behind,
                        roles,
                        next: 0,
                        account: current,
                        charge: Charge::Own,
                    });
                }
            }
            Call::Compute(cycles) => core.contexts[current]
                .works
                .push_back(Work::Compute(cycles)),
            Call::Raise { .. } | Call::Timer { .. } => {
                let now = core.clock;
                self.line(Some((number, id)), call, now)?;
            }
            Call::Idle => {
                if !is_task || current + 1 != core.tasks {
                    return Err(wrong("only the last task idles"));
                }
                if core.acceptable().is_none() {
                    core.state = State::Idles;
                }
            }
            Call::Done => {
                if is_task {
                    return Err(wrong("only a handler is done"));
                }
                self.leave(number, current);
            }
            Call::Stop => self.stopped = true,
            call => {
                let me = is_task.then_some(current);
                let path = core.kernel.service(me, call).map_err(wrong)?;
                self.serve(number, current, call, path);
            }
        }
        Ok(())
    }

    /// A service takes its path.
    fn serve(&mut self, number: usize, current: usize, call: Call, path: Path) {
        let (subject, object, message) = subject(call);
        let subject = path
            .woken
            .first()
            .map_or(subject.unwrap_or(current), |one| one.0);
        let core = &mut self.cores[number];
        let mut roles = [0; ROLES];
        roles[0] = core.contexts[current].stack;
        if subject < core.tasks {
            roles[1] = self.code.place(Place::Task, subject as u64);
            roles[2] = core.contexts[subject].stack - WAIT_RECORD;
        }
        roles[3] = object.map_or(roles[1], |(place, index)| {
            self.code.place(place, index as u64)
        });
        roles[4] = match path.got {
            Some(Got::Value(block)) if message.is_none() => block,
            _ => message.unwrap_or(0),
        };
        let blocks =
            self.code.place(Place::Block, 0)..self.code.place(Place::Block, MOST[5] as u64);
        if !blocks.contains(&roles[4]) {
            roles[4] = blocks.start;
        }
        let task = core.kernel.running;
        roles[5] = self.code.place(Place::Task, task as u64);
        let piece = Code::number(path.piece);
        let steps = |behind| Work::Steps {
            piece,
            behind,
            roles,
            next: 0,
            account: current,
            charge: Charge::Service,
        };
        core.masked = true;
        let works = &mut core.contexts[current].works;
        works.push_back(steps(false));
        works.push_back(Work::DispatchPoint);
        if call != Call::Exit {
            works.push_back(steps(true));
            works.push_back(Work::Unmask);
        }
        if let Some(got) = path.got {
            core.contexts[current].got = got;
        }
        for (id, got) in path.woken {
            let context = &mut core.contexts[id];
            context.got = got;
            if got != Got::Begin {
                continue;
            }
            if id == current {
                // Its exit is under way; if no other task runs first, it begins at once.
                core.contexts[id].works.push_back(Work::Unmask);
            } else {
                context.begins = true;
            }
        }
    }

    /// The handler of context `current` has ended.
    fn leave(&mut self, number: usize, current: usize) {
        let core = &mut self.cores[number];
        let outermost = core.nested.len() == 1;
        let dispatches = outermost
            && core.kernel.enabled
            && core.kernel.scheduled() != Some(core.kernel.running);
        let piece = match (outermost, dispatches) {
            (false, _) => self.numbers.leaves_nested,
            (true, false) => self.numbers.leaves,
            (true, true) => self.numbers.dispatches,
        };
        let below = match core.nested.len() {
            1 => core.kernel.running,
            depth => core.tasks + core.nested[depth - 2],
        };
        let mut roles = [0; ROLES];
        roles[0] = core.contexts[below].stack;
        roles[3] = core.contexts[current].stack;
        core.masked = true;
        let works = &mut core.contexts[current].works;
        works.push_back(Work::Steps {
            piece,
            behind: false,
            roles,
            next: 0,
            account: current,
            charge: Charge::Service,
        });
        works.push_back(Work::Left {
            piece,
            roles,
            dispatches,
        });
    }

    fn outcome(mut self) -> RtosOutcome {
        let end = self.cores.iter().map(|core| core.clock).max().unwrap_or(0);
        for number in 0..self.cores.len() {
            let current = self.cores[number].current();
            self.span(number, current);
            if self.cores[number].state == State::Idles {
                self.cores[number].outcome.idle += end - self.cores[number].clock;
            }
        }
        let counts = self.memory.counts;
        let cores = self
            .cores
            .into_iter()
            .zip(counts)
            .map(|(core, caches)| CoreOutcome {
                caches,
                pieces: by_piece(&core.pieces),
                ..core.outcome
            });
        RtosOutcome {
            end,
            cores: cores.collect(),
            spans: self.spans.unwrap_or_default(),
        }
    }
}

fn by_piece(pieces: &[Executed]) -> BTreeMap<(usize, usize), Executed> {
    let executed = pieces.iter().enumerate().filter(|(_, one)| one.times > 0);
    executed
        .map(|(at, one)| ((at / PARTS, at % PARTS), *one))
        .collect()
}

/// Returns the task, the object and the message that a call is about.
fn subject(call: Call) -> (Option<TaskId>, Option<(Place, usize)>, Option<u64>) {
    match call {
        Call::Activate(id) | Call::Wake(id) => (Some(id), None, None),
        Call::SetFlag { flag, .. } | Call::WaitFlag { flag, .. } => {
            (None, Some((Place::Flag, flag)), None)
        }
        Call::Send { queue, .. } | Call::Receive(queue) => {
            (None, Some((Place::DataQueue, queue)), None)
        }
        Call::Mail { mailbox, message } => (None, Some((Place::Mailbox, mailbox)), Some(message)),
        Call::Collect(mailbox) | Call::Poll(mailbox) => {
            (None, Some((Place::Mailbox, mailbox)), None)
        }
        Call::Get(pool) => (None, Some((Place::Pool, pool)), None),
        Call::Put { pool, block } => (None, Some((Place::Pool, pool)), Some(block)),
        _ => (None, None, None),
    }
}

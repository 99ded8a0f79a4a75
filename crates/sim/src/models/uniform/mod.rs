#![doc = include_str!("RULES.md")]

mod first_level;
mod merge;
mod window;

use super::Simulation;
use crate::observer::Run;
use crate::parts::events::{Events, Kind as Event};
use crate::parts::hierarchy::{Hierarchy, path_index};
use crate::parts::source::Source;
use crate::{Outcome, SimError};
use first_level::PIECE_LINES;
use merge::{ShortPath, Sole};
use tanada_policy::{Dispatcher, Origin, WorkerId};
use window::{Costs, PrivateLevels, Window};

/// One core.
#[derive(Debug, Default)]
struct Core {
    /// The task that it runs. [`Run::end`] is not known yet.
    running: Option<Run>,
    source: Source,
    window: Window,
    /// The time at which the window began, plus the cycles that shared levels added since.
    clock: u64,
    /// Whether the pending event is the finish of the task: all its records are done.
    finish_is_next: bool,
}

struct Uniform<'a, D: Dispatcher> {
    sim: Simulation<'a, D>,
    hierarchy: Hierarchy,
    /// The paths of each core, if all paths of the machine are short; else empty.
    short_paths: Vec<[ShortPath; 2]>,
    /// The only shared cache, if all paths are private caches in front of it.
    sole: Option<Sole>,
    /// The pending event of a busy core: the next record with requests, or the finish of its task.
    events: Events,
    cores: Vec<Core>,
    costs: Costs,
}

/// Runs a trace to its end and returns the results.
pub(crate) fn run<D: Dispatcher>(sim: Simulation<'_, D>) -> Result<Outcome, SimError> {
    Uniform::new(sim).run()
}

impl<'a, D: Dispatcher> Uniform<'a, D> {
    fn new(sim: Simulation<'a, D>) -> Self {
        let cores = usize::from(sim.machine.cores);
        let mut hierarchy = Hierarchy::new(sim.machine, sim.seed);
        if sim.options.merge_everything {
            hierarchy.make_all_shared();
        }
        let short_paths = ShortPath::of_all(&hierarchy);
        Uniform {
            sole: Sole::of_all(&short_paths, sim.machine),
            short_paths,
            hierarchy,
            events: Events::new(cores),
            cores: (0..cores).map(|_| Core::default()).collect(),
            costs: Costs::of(sim.machine),
            sim,
        }
    }

    fn run(mut self) -> Result<Outcome, SimError> {
        let mut first = self.start()?;
        while let Some((now, core)) = self.merge_simple(first)? {
            first = self.step(core, now)?;
        }
        self.outcome()
    }

    fn outcome(mut self) -> Result<Outcome, SimError> {
        if self.sim.dispatching.left() > 0 {
            return Err(self.sim.stuck());
        }
        self.sim.tally.set_stalls(&self.costs.miss_cycles);
        Ok(self.sim.outcome(self.hierarchy.writebacks))
    }

    /// Rule 2. Returns the first event.
    fn start(&mut self) -> Result<Option<(u64, usize)>, SimError> {
        self.sim.dispatching.inject();
        for core in 0..self.cores.len() {
            self.call_next(core, 0)?;
        }
        Ok(self.events.first())
    }

    /// Executes the pending event of `core`, which is due at `now`, and replaces it by the core's next event or cancels it. Returns the
    /// first event of all cores.
    #[inline(always)]
    fn step(&mut self, core: usize, now: u64) -> Result<Option<(u64, usize)>, SimError> {
        if self.cores[core].finish_is_next {
            self.sim.check_cancelled()?;
            self.finish(core, now)?;
            return Ok(self.events.first());
        }
        self.merge(core)?;
        self.schedule(core)
    }

    /// Calls the dispatcher's `next` for an idle core.
    fn call_next(&mut self, core: usize, now: u64) -> Result<(), SimError> {
        let got = self.sim.dispatching.next(WorkerId(core as u16));
        self.begin(core, now, got)
    }

    /// Begins the task that the dispatcher returned at `now`, or leaves the core idle if it returned none.
    fn begin(&mut self, core: usize, now: u64, got: Option<(u32, Origin)>) -> Result<(), SimError> {
        let worker = WorkerId(core as u16);
        let observer = &mut *self.sim.dispatching.env.observer;
        let Some((task, origin)) = got else {
            observer.idle(worker, now);
            // An idle core has no next event that would replace the one that was just executed.
            self.events.cancel(core);
            return Ok(());
        };
        observer.given(worker, task, origin, now);
        let start = now.checked_add(self.sim.machine.dispatch_cycles);
        let start = start.ok_or_else(|| self.sim.overflow(task, None))?;
        let this = &mut self.cores[core];
        this.running = Some(Run {
            core: worker.0,
            task,
            asked: now,
            start,
            end: start,
            origin,
        });
        this.clock = start;
        this.finish_is_next = false;
        this.source.start(&mut self.sim.reader, task);
        self.schedule_next_window(core)?;
        Ok(())
    }

    /// Schedules the next event of a busy core: its next record with requests, or the finish of its task. Returns the first event of all.
    #[inline(always)]
    fn schedule(&mut self, core: usize) -> Result<Option<(u64, usize)>, SimError> {
        let this = &self.cores[core];
        let next = this.window.first_pending();
        match next.and_then(|request| this.clock.checked_add(request.offset)) {
            Some(time) => Ok(self.events.schedule(core, time, Event::Act)),
            // No request is pending, or the clock overflows, which `schedule_next_window` reports.
            None => self.schedule_next_window(core),
        }
    }

    /// Returns the same as [`Uniform::schedule`], but also if the window has no pending request: fills further windows until one has a
    /// request or the task has no more records.
    #[inline(never)]
    fn schedule_next_window(&mut self, core: usize) -> Result<Option<(u64, usize)>, SimError> {
        loop {
            let this = &mut self.cores[core];
            if let Some(request) = this.window.first_pending() {
                let time = this.clock.checked_add(request.offset);
                let time = time.ok_or_else(|| self.overflow(core))?;
                return Ok(self.events.schedule(core, time, Event::Act));
            }
            if this.window.has_pieces() {
                self.fill_next_piece(core)?;
                continue;
            }
            let clock = this.clock.checked_add(this.window.take_cycles());
            let Some(clock) = clock else {
                return Err(self.overflow(core));
            };
            this.clock = clock;
            let records = this.source.borrow_records(&mut self.sim.reader)?;
            if records.is_empty() {
                this.finish_is_next = true;
                return Ok(self.events.schedule(core, clock, Event::Act));
            }
            let levels = PrivateLevels {
                core,
                hierarchy: &mut self.hierarchy,
                bound: &mut self.sim.bound,
                tally: &mut self.sim.tally.cores[core],
                costs: &self.costs,
            };
            let filled = this.window.fill(records, u64::MAX - clock, levels);
            this.source.take_of(&self.sim.reader, filled);
            if this.window.overflows() {
                return Err(self.overflow(core));
            }
            self.add_private_misses_to_bound(core);
            self.sim.check_cancelled()?;
        }
    }

    /// Adds the pending requests of `core` to the lower bound of the makespan (`counts/bound.rs`), if the machine has short paths only. The
    /// bound counts distinct lines, because the first touch of a line misses for certain. A request that comes from a private level missed
    /// it and touches the shared level, so both can be added before the merge, whose loop is hotter. A request that comes from no private
    /// level is added by `merge_short`, if it misses.
    fn add_private_misses_to_bound(&mut self, core: usize) {
        if let Some(paths) = self.short_paths.get(core) {
            for request in self.cores[core].window.pending() {
                let path = &paths[path_index(request.kind)];
                path.add_private_miss_to_bound(&mut self.sim.bound, request.address);
            }
        }
    }

    /// Replaces the requests of the window by those of the next piece of its long record.
    fn fill_next_piece(&mut self, core: usize) -> Result<(), SimError> {
        self.sim.check_cancelled()?;
        self.sim.announce_lines(PIECE_LINES)?;
        let window = &mut self.cores[core].window;
        window.fill_next_piece(PrivateLevels {
            core,
            hierarchy: &mut self.hierarchy,
            bound: &mut self.sim.bound,
            tally: &mut self.sim.tally.cores[core],
            costs: &self.costs,
        });
        if window.overflows() {
            return Err(self.overflow(core));
        }
        self.add_private_misses_to_bound(core);
        Ok(())
    }

    /// Returns the error of a clock above 2^64-1. It names the last record that was taken from the source, which is the last one of the
    /// window: `Window::fill` ends a window so early that no other record of it can cause the error.
    #[cold]
    fn overflow(&self, core: usize) -> SimError {
        let this = &self.cores[core];
        let task = this.running.map_or(0, |run| run.task);
        let record = this.source.position().saturating_sub(1);
        self.sim.overflow(task, Some(record))
    }

    /// Rule 4: the task of `core` ends at `now`. The core, then all other idle ones, ask for their next task.
    fn finish(&mut self, core: usize, now: u64) -> Result<(), SimError> {
        let running = self.cores[core].running.take();
        let run = Run {
            end: now,
            ..running.expect("only busy cores have events")
        };
        self.sim.ended(&run, run.start - run.asked);
        let got = self.sim.dispatching.turn(WorkerId(core as u16), run.task);
        self.begin(core, now, got)?;
        for other in 0..self.cores.len() {
            if other != core && self.cores[other].running.is_none() {
                self.call_next(other, now)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Options};
    use std::fmt::Write as _;
    use tanada_policy::registry::{self, Entry, Visitor};
    use tanada_trace::{Groups, Trace};

    const RULES: &str = include_str!("RULES.md");

    /// Returns the code block of RULES.md that begins with `first`.
    fn block(first: &str) -> &'static str {
        let (_, rest) = RULES.split_once(first).expect("the page has the block");
        let (text, _) = rest.split_once("```").expect("the block ends");
        text
    }

    /// Runs a simulation step by step, and writes its windows and its events as RULES.md does.
    struct Steps<'a>(&'a Trace, &'a Machine);

    impl Visitor for Steps<'_> {
        type Out = (String, String, Outcome);
        fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
            let (options, mut observer) = (Options::default(), ());
            let sim = Simulation::<D>::new(self.0, self.1, entry.name, &options, &mut observer);
            let mut uniform = Uniform::new(sim.expect("the trace can be read"));
            let (mut windows, mut events) = (String::new(), String::new());
            let mut describe = |uniform: &Uniform<'_, D>, core: usize| {
                let this = &uniform.cores[core];
                let Some(run) = this.running else { return };
                let offsets = this.window.pending().iter();
                let offsets: Vec<_> = offsets.map(|one| one.offset.to_string()).collect();
                let (offsets, cycles) = (offsets.join(", "), this.window.clone().take_cycles());
                let (task, start) = (run.task, run.start);
                writeln!(
                    windows,
                    "| {task} | {core} | {start} | {offsets} | {cycles} |"
                )
                .unwrap();
            };
            let mut first = uniform.start().expect("no clock overflows");
            (0..2).for_each(|core| describe(&uniform, core));
            while let Some((now, core)) = first {
                let this = &uniform.cores[core];
                let finish_is_next = this.finish_is_next;
                let event = match this.window.first_pending() {
                    Some(request) => format!("request of line {}", request.address / 64),
                    None => format!("finish of task {}", this.running.expect("it is busy").task),
                };
                first = uniform.step(core, now).expect("no clock overflows");
                let clock = uniform.cores[core].clock;
                writeln!(events, "| {now} | {core} | {event} | {clock} |").unwrap();
                if finish_is_next {
                    describe(&uniform, core);
                }
            }
            (windows, events, uniform.outcome().expect("all tasks ran"))
        }
    }

    #[test]
    fn the_example_of_the_rules_runs_as_it_is_described() {
        let machine = Machine::parse(block("```toml\n"), "example.toml").expect("a valid machine");
        let trace = Trace::parse(block("```text\n").as_bytes(), "example.tnt", &Groups::Plain);
        let trace = trace.expect("a valid trace");
        let (windows, events, outcome) =
            registry::with("fcfs", Steps(&trace, &machine)).expect("a known policy");
        assert!(RULES.contains(&windows), "{windows}");
        assert!(RULES.contains(&events), "{events}");
        let counts: Vec<_> = outcome.caches.iter().map(|cache| cache.count).collect();
        let counts: Vec<_> = counts
            .iter()
            .map(|one| (one.accesses, one.misses))
            .collect();
        assert_eq!((counts, outcome.writebacks), (vec![(8, 6), (6, 4)], 1));
        let options = Options {
            merge_everything: true,
            ..Options::default()
        };
        let merged = crate::simulate(&trace, &machine, "fcfs", &options, &mut ());
        assert_eq!(merged.expect("all tasks ran"), outcome);
    }
}

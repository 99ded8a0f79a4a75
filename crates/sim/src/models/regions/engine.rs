//! The time of regions, and runs under a governor (RULES.md, rules 1, 2 and 4 to 7).

use super::core::{Issue, cycles_per_instruction};
use super::{Invocation, Program, Work};
use crate::machine::{Machine, regions::RegionsTable};
use std::collections::BTreeMap;
use tanada_policy::{
    Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Waiting,
};

/// Halvings in which the wait for the memory is found: as many as a double has digits.
const HALVINGS: u32 = 53;

/// What the time of an invocation depends on: the invocation, the team, and the pause of those that wait.
type Timed = ([u64; 4], Shape, u32, Option<u64>);

/// A machine that runs regions.
pub struct Machinery<'a> {
    program: &'a Program,
    table: RegionsTable,
    issue: Issue,
    site: RegionSite,
    /// Lines of memory in a cycle.
    lines_per_cycle: f64,
    /// Cycles of a unit by region, members on the core, other threads there that wait, and their pause.
    paces: BTreeMap<(u32, usize, usize, u64), f64>,
    /// Cycles of the work of an invocation by its key and decision.
    times: BTreeMap<Timed, f64>,
}

/// How surplus threads come and go (paper 4, figure 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// They are there, and wait.
    Waiting(Waiting),
    /// They are created and ended.
    Creation,
}

/// What a run under a governor came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Cycles of all regions.
    pub cycles: f64,
    /// Of these, cycles of switching from one team to another.
    pub switching: f64,
    /// By region: invocations, cycles, and what held at its last invocation.
    pub regions: Vec<(u64, f64, Decision)>,
}

/// A member that works: its core, and what it has to do yet, in units.
#[derive(Clone, Copy)]
struct Member {
    core: u16,
    left: f64,
}

impl<'a> Machinery<'a> {
    /// Returns a machine that runs `program`; `None` if it has no `[regions]`.
    pub fn new(machine: &Machine, program: &'a Program) -> Option<Machinery<'a>> {
        let (table, smt) = (machine.regions.clone()?, machine.smt.as_ref()?);
        let path = machine.path(false);
        let latency = |at: usize| machine.caches[path[at]].miss_cycles;
        Some(Machinery {
            program,
            issue: Issue {
                spacing: (100 / smt.ilp_percent).max(1),
                second_level: latency(0),
                memory: latency(0) + latency(1),
                poll: table.poll_instructions,
            },
            site: RegionSite {
                cores: machine.cores,
                threads_per_core: smt.threads_per_core,
                quota: f64::INFINITY,
                microsecond: table.microsecond_cycles as f64,
            },
            lines_per_cycle: table.memory_bytes_per_100_cycles as f64
                / 100.0
                / machine.caches[path[0]].line as f64,
            table,
            paces: BTreeMap::new(),
            times: BTreeMap::new(),
        })
    }

    /// Returns what a governor is built from.
    pub fn site(&self) -> RegionSite {
        self.site
    }

    /// Returns the cycles for which a thread that waits stops fetching; `None`: it does not look at all.
    fn pause(&self, waiting: Waiting) -> Option<u64> {
        match waiting {
            Waiting::AsIs => Some(self.table.delay_cycles),
            Waiting::Spin => Some(0),
            Waiting::Delay(cycles) => Some(u64::from(cycles)),
            Waiting::Sleep(_) => None,
        }
    }

    fn work(&self, region: u32, members: usize) -> Work {
        let work = &self.program.regions[region as usize].work;
        work[members.clamp(1, work.len()) - 1]
    }

    /// Rule 3: cycles of a unit without waits for the memory.
    fn pace(&mut self, region: u32, members: usize, waiting: Waiting) -> f64 {
        let pause = self.pause(waiting);
        let others = match pause {
            None => 0,
            Some(_) => usize::from(self.site.threads_per_core).saturating_sub(members),
        };
        let key = (region, members, others, pause.unwrap_or(0));
        if let Some(&pace) = self.paces.get(&key) {
            return pace;
        }
        let work = self.work(region, members);
        let each = cycles_per_instruction(&self.issue, &work, members, others, key.3);
        let pace = each * work.instructions;
        self.paces.insert(key, pace);
        pace
    }

    /// Rule 6: a tree of messages between `threads` threads.
    fn tree(&self, threads: u32) -> f64 {
        let levels = threads.max(1).next_power_of_two().trailing_zeros();
        f64::from(levels) * self.table.hop_cycles as f64
    }

    /// Returns the cycles of an invocation without a switch.
    pub fn time(&mut self, invocation: &Invocation, decision: Decision) -> f64 {
        let key = (
            [
                u64::from(invocation.region),
                invocation.iterations,
                invocation.scale.to_bits(),
                invocation.steps,
            ],
            decision.shape,
            decision.threads,
            self.pause(decision.waiting),
        );
        if let Some(&time) = self.times.get(&key) {
            return time;
        }
        let work = match invocation.steps {
            0 => self.shared(invocation, decision),
            steps => self.pipeline(invocation, decision, steps),
        };
        // Fork and join.
        let time = work + 2.0 * self.tree(decision.threads);
        self.times.insert(key, time);
        time
    }

    /// Rules 1 and 2: the members that have iterations, with their units.
    fn members(&self, invocation: &Invocation, decision: Decision) -> Vec<Member> {
        let region = &self.program.regions[invocation.region as usize];
        let units = region.units_per_iteration as f64 * invocation.scale;
        let threads = u64::from(decision.threads.max(1));
        let (each, more) = (
            invocation.iterations / threads,
            invocation.iterations % threads,
        );
        let per_core = decision
            .threads
            .div_ceil(u32::from(decision.shape.cores.max(1)));
        let with = (0..threads).map(|number| (number, each + u64::from(number < more)));
        with.filter(|&(_, iterations)| iterations > 0)
            .map(|(number, iterations)| Member {
                core: (number / u64::from(per_core)) as u16,
                left: iterations as f64 * units,
            })
            .collect()
    }

    /// Returns for each member cycles of a unit, with the wait for the memory (rules 3 and 4).
    fn paces(&mut self, region: u32, members: &[Member], waiting: Waiting) -> Vec<f64> {
        let mut on_core = vec![0_usize; usize::from(self.site.cores)];
        for member in members {
            on_core[usize::from(member.core)] += 1;
        }
        let siblings: Vec<usize> = members
            .iter()
            .map(|member| on_core[usize::from(member.core)])
            .collect();
        let most = siblings.iter().copied().max().unwrap_or(1);
        // By the number of siblings: members, pace, lines.
        let kinds: Vec<(f64, f64, f64)> = (1..=most)
            .map(|number| {
                let count = siblings.iter().filter(|&&one| one == number).count() as f64;
                (
                    count,
                    self.pace(region, number, waiting),
                    self.work(region, number).lines(),
                )
            })
            .collect();
        let demand = |wait: f64| -> f64 {
            let each = kinds.iter().filter(|kind| kind.0 > 0.0);
            each.map(|&(count, pace, lines)| count * lines / (pace + lines * wait))
                .sum()
        };
        let mut wait = 0.0;
        if demand(0.0) > self.lines_per_cycle {
            // With this wait the members ask for less than the memory serves.
            let (mut low, mut high) = (0.0, members.len() as f64 / self.lines_per_cycle);
            for _ in 0..HALVINGS {
                let middle = (low + high) / 2.0;
                match demand(middle) > self.lines_per_cycle {
                    true => low = middle,
                    false => high = middle,
                }
            }
            wait = high;
        }
        let of = |number: usize| kinds[number - 1].1 + kinds[number - 1].2 * wait;
        siblings.into_iter().map(of).collect()
    }

    /// Rule 5: members work side by side, and the others go on faster when one has ended.
    fn shared(&mut self, invocation: &Invocation, decision: Decision) -> f64 {
        let mut members = self.members(invocation, decision);
        let mut now = 0.0;
        while !members.is_empty() {
            let paces = self.paces(invocation.region, &members, decision.waiting);
            let ends = members
                .iter()
                .zip(&paces)
                .map(|(member, pace)| member.left * pace);
            let least = ends.clone().fold(f64::INFINITY, f64::min);
            now += least;
            // Whoever would end within a billionth of that time ends with it: rounding makes no further events.
            let ended: Vec<bool> = ends.map(|end| end <= least * (1.0 + 1e-9)).collect();
            for (member, pace) in members.iter_mut().zip(&paces) {
                member.left -= least / pace;
            }
            let mut ended = ended.into_iter();
            members.retain(|_| !ended.next().unwrap_or(true));
        }
        now
    }

    /// Rule 7: the stages of a pipeline all take as long as its slowest member needs for its share, and one message.
    fn pipeline(&mut self, invocation: &Invocation, decision: Decision, steps: u64) -> f64 {
        let members = self.members(invocation, decision);
        let paces = self.paces(invocation.region, &members, decision.waiting);
        let each = members
            .iter()
            .zip(&paces)
            .map(|(member, pace)| member.left * pace);
        let stage = each.fold(0.0, f64::max) + self.table.hop_cycles as f64;
        (steps as f64 + members.len() as f64 - 1.0) * stage
    }

    /// Rule 6: cycles of going from a team of `from` threads to one of `to`, if these threads wait (or come and go) in this way.
    pub fn switch(&self, from: u32, to: u32, how: Switch) -> f64 {
        if from == to {
            return 0.0;
        }
        let table = &self.table;
        match how {
            Switch::Creation => table.create_cycles as f64 * f64::from(from.abs_diff(to)),
            Switch::Waiting(waiting) => {
                // All threads pass a barrier after the flags have been set. Those that begin to work look at theirs at last then.
                let flags = 2.0 * self.tree(self.site.all().threads());
                let noticed = match self.pause(waiting) {
                    None => table.wake_cycles,
                    Some(pause) => pause,
                };
                flags + if to > from { noticed as f64 } else { 0.0 }
            }
        }
    }

    /// Runs the program under `governor`, which does not know that the machine is simulated. `watch` sees each outcome.
    pub fn run(
        &mut self,
        governor: &mut dyn RegionGovernor,
        mut watch: impl FnMut(&Outcome),
    ) -> Ran {
        let all = self.site.all();
        let nothing = (0, 0.0, Decision::full(all));
        let mut ran = Ran {
            cycles: 0.0,
            switching: 0.0,
            regions: vec![nothing; self.program.regions.len()],
        };
        let mut team = all.threads();
        for _ in 0..self.program.steps {
            for invocation in &self.program.step {
                let region = RegionId(invocation.region);
                let asked = all.threads();
                let mut decision = governor.enter(&Entry {
                    region,
                    asked,
                    iterations: Some(invocation.iterations),
                    neighbours: Some(0.0),
                    now: ran.cycles as u64,
                });
                decision.threads = decision.threads.clamp(1, asked);
                let switch = self.switch(team, decision.threads, Switch::Waiting(decision.waiting));
                team = decision.threads;
                let time = self.time(invocation, decision) + switch;
                ran.cycles += time;
                ran.switching += switch;
                let counts = &mut ran.regions[invocation.region as usize];
                *counts = (counts.0 + 1, counts.1 + time, decision);
                let outcome = Outcome {
                    region,
                    decision,
                    time: time as u64,
                    iterations: Some(invocation.iterations),
                    idle: None,
                    neighbours: Some(0.0),
                    now: ran.cycles as u64,
                };
                watch(&outcome);
                governor.leave(&outcome);
            }
        }
        ran
    }

    /// Returns the cycles of the whole program if all regions have one shape.
    pub fn fixed(&mut self, shape: Shape) -> f64 {
        let decision = Decision::full(shape);
        let step = self.program.step.clone();
        let each = step
            .iter()
            .map(|invocation| self.time(invocation, decision));
        each.sum::<f64>() * self.program.steps as f64
    }
}

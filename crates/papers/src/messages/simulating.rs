//! Runs of the receiver, and what they come to.

use super::Handlers;
use std::collections::BTreeMap;
use tanada_policy::{DeliverySite, deliveries};
use tanada_sim::rtos::code::PIECES;
use tanada_sim::rtos::receiver::{
    LAYER2, NOTIFY, PDCP_STEPS, RECEIVE, Received, Sender, Setup, TIMER, receive_all,
};
use tanada_sim::rtos::{RtosOptions, Span};
use tanada_sim::{Machine, SimError};

/// The paper's period: a TTI of 2 ms, in microseconds.
pub(super) const PERIOD: u64 = 2000;
/// Frames of a period, as in the paper's figure 6.
pub(super) const FRAMES: u64 = 9;
/// Messages for which the ring has room: in 2 ms 14.4 Mbit/s are 54 frames of 66 bytes, a double buffer of 7.2 kB twice as
/// many; 32 hold three times the frames of figure 6.
pub(super) const CAPACITY: u64 = 32;

/// What is simulated.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) machine: Machine,
    pub(super) delivery: &'static str,
    pub(super) setup: Setup,
    /// The bound, in cycles.
    pub(super) bound: u64,
    pub(super) seed: u64,
    pub(super) spans: bool,
}

impl Run {
    pub(super) fn new(
        machine: &Machine,
        delivery: &'static str,
        times: Vec<u64>,
        seed: u64,
    ) -> Run {
        Run {
            delivery,
            setup: Setup {
                sender: Sender::Outside,
                times,
                capacity: CAPACITY as usize,
                pdcp: PDCP_STEPS.to_vec(),
                extra: [0; 2],
                handler_services: 0,
            },
            bound: PERIOD * microsecond(machine),
            seed,
            spans: false,
            machine: machine.clone(),
        }
    }

    /// Returns what it comes to.
    ///
    /// # Errors
    /// As [`receive_all`].
    pub(super) fn run(&self) -> Result<Ran, SimError> {
        let site = DeliverySite {
            sender_arms: true,
            headroom: CAPACITY / 2,
            batch: FRAMES,
            ..DeliverySite::new(self.bound, CAPACITY)
        };
        let entry = deliveries::find(self.delivery).expect("it is registered");
        let delivery = (entry.make)(&site);
        let options = RtosOptions {
            seed: Some(self.seed),
            spans: self.spans,
            watch: None,
        };
        let received = receive_all(&self.machine, &self.setup, &*delivery, &options)?;
        Ok(Ran::of(&received))
    }
}

/// Returns the cycles of a microsecond.
pub(super) fn microsecond(machine: &Machine) -> u64 {
    machine
        .rtos
        .as_ref()
        .map_or(1, |rtos| rtos.microsecond_cycles)
}

/// Returns when the frames of figure 6 are sent, in so many bursts of a period. A seed moves them by up to 10 microseconds.
pub(super) fn bursts(machine: &Machine, gap: u64, bursts: u64, seed: u64) -> Vec<u64> {
    let us = microsecond(machine);
    let moved = 10 * us + seed * 7919 % (10 * us);
    (0..bursts)
        .flat_map(|burst| {
            (0..FRAMES).map(move |frame| moved + burst * PERIOD * us + frame * gap * us)
        })
        .collect()
}

/// Executions of a part of a piece, and their cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    times: f64,
    cycles: f64,
}

impl Part {
    fn add(&mut self, other: Part, share: f64) {
        self.times += other.times * share;
        self.cycles += other.cycles * share;
    }

    /// Returns the cycles of one execution; of what was never executed, those of `other`.
    fn each(self, other: Part) -> f64 {
        let of = if self.times > 0.0 { self } else { other };
        of.cycles / of.times
    }
}

/// Cycles of a run, or means of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    /// By task or handler.
    pub(super) cycles: BTreeMap<u32, f64>,
    /// Executions of code, by task and part of a piece.
    pub(super) pieces: BTreeMap<(u32, usize), Part>,
    /// Cycles from sending to taking, of each message.
    pub(super) latencies: Vec<f64>,
    /// Messages that found the ring full.
    pub(super) lost: f64,
    /// Interrupts of the other core.
    pub(super) notices: f64,
    pub(super) spans: Vec<Span>,
    /// Cycles of one handler.
    pub(super) handler: f64,
}

impl Ran {
    fn of(received: &Received) -> Ran {
        let core = received.outcome.cores.last().expect("the receiver");
        let mut ran = Ran {
            lost: received.lost as f64,
            notices: received.notices as f64,
            spans: received.outcome.spans.clone(),
            ..Ran::default()
        };
        for account in &core.accounts {
            ran.cycles.insert(account.id, account.cycles.total() as f64);
            if account.id == NOTIFY && account.begins > 0 {
                ran.handler = account.cycles.total() as f64 / account.begins as f64;
            }
        }
        for (&(account, part), executed) in &core.pieces {
            let id = core.accounts[account].id;
            let part_of = Part {
                times: executed.times as f64,
                cycles: executed.cycles as f64,
            };
            ran.pieces.insert((id, part), part_of);
        }
        let each = received.messages.iter();
        ran.latencies = each
            .filter_map(|one| Some((one.taken? - one.sent?) as f64))
            .collect();
        ran
    }

    /// Returns the means of runs.
    pub(super) fn mean(runs: &[Ran]) -> Ran {
        let mut mean = Ran::default();
        let share = 1.0 / runs.len().max(1) as f64;
        for run in runs {
            for (&id, &cycles) in &run.cycles {
                *mean.cycles.entry(id).or_default() += cycles * share;
            }
            for (&key, &part) in &run.pieces {
                mean.pieces.entry(key).or_default().add(part, share);
            }
            mean.latencies.extend(&run.latencies);
            mean.lost += run.lost * share;
            mean.notices += run.notices * share;
            mean.handler += run.handler * share;
        }
        mean.spans = runs.first().map_or_else(Vec::new, |run| run.spans.clone());
        mean
    }

    pub(super) fn of_ids(&self, ids: &[u32]) -> f64 {
        ids.iter().filter_map(|id| self.cycles.get(id)).sum()
    }

    /// Returns the cycles of the handlers of messages.
    pub(super) fn handlers(&self, which: Handlers) -> f64 {
        let all = self.of_ids(&[NOTIFY]);
        let around = self
            .pieces
            .iter()
            .filter(|((id, part), _)| *id == NOTIFY && PIECES[part / 2].starts_with("interrupt "));
        match which {
            Handlers::Interrupts => all,
            Handlers::Functions => all - around.map(|(_, part)| part.cycles).sum::<f64>(),
        }
    }

    /// Returns the cycles of all tasks and handlers but the idle one.
    pub(super) fn total(&self) -> f64 {
        self.of_ids(&[NOTIFY, RECEIVE, TIMER]) + self.of_ids(&LAYER2)
    }

    /// Returns the mean and the 99th percentile of latencies, in cycles.
    pub(super) fn latency(&self) -> (f64, f64) {
        let mut sorted = self.latencies.clone();
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
        (mean, sorted.get(at).copied().unwrap_or(0.0))
    }
}

/// What a delivery saves against immediate delivery, in percent of the receiver's time under immediate delivery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    pub(super) notify: f64,
    pub(super) receive: f64,
    pub(super) timer: f64,
    /// What the tasks of layer 2 save because they execute less: they wait, and are switched to, less often. Executions that are
    /// not needed, at what one costs on the mean of both.
    pub(super) layer2_waits: f64,
    /// What they save because the same executions cost less: the difference of what one costs, at the mean number of executions of
    /// both. Nothing in it knows of caches.
    pub(super) layer2_costs: f64,
}

impl Saved {
    pub(super) fn between(immediate: &Ran, other: &Ran) -> Saved {
        let percent = |cycles: f64| 100.0 * cycles / immediate.total();
        let of = |ids: &[u32]| percent(immediate.of_ids(ids) - other.of_ids(ids));
        // Tasks of one kind execute the same code: which bearer a frame has does not matter.
        let [before, after] = [immediate, other].map(kinds);
        let (mut waits, mut costs) = (0.0, 0.0);
        for key in before
            .keys()
            .chain(after.keys().filter(|key| !before.contains_key(*key)))
        {
            let [one, two] =
                [&before, &after].map(|pieces| pieces.get(key).copied().unwrap_or_default());
            let (cost_one, cost_two) = (one.each(two), two.each(one));
            waits += (one.times - two.times) * f64::midpoint(cost_one, cost_two);
            costs += f64::midpoint(one.times, two.times) * (cost_one - cost_two);
        }
        Saved {
            notify: of(&[NOTIFY]),
            receive: of(&[RECEIVE]),
            timer: of(&[TIMER]),
            layer2_waits: percent(waits),
            layer2_costs: percent(costs),
        }
    }

    /// Returns what layer 2 saves in all: the paper's figures 8 and 9.
    pub(super) fn layer2(&self) -> f64 {
        self.layer2_waits + self.layer2_costs
    }

    /// Returns what is saved through the cache: what the same executions of layer 2 cost less.
    pub(super) fn cache(&self) -> f64 {
        self.layer2_costs
    }

    /// Returns what is saved directly: handlers and the receiving task, and what layer 2 need not execute.
    pub(super) fn direct(&self) -> f64 {
        self.notify + self.receive + self.timer + self.layer2_waits
    }

    pub(super) fn total(&self) -> f64 {
        self.direct() + self.cache()
    }
}

/// Executions of layer 2's code, by kind of task (PDCP or output) and part of a piece.
fn kinds(ran: &Ran) -> BTreeMap<(bool, usize), Part> {
    let mut sums: BTreeMap<(bool, usize), Part> = BTreeMap::new();
    for (&(id, part), &executed) in &ran.pieces {
        if LAYER2.contains(&id) {
            let sum = sums.entry((id >= 14, part)).or_default();
            sum.add(executed, 1.0);
        }
    }
    sums
}

//! Programs as an execution would have recorded them: they end on every machine, whatever the timing.

use crate::cases::machine;
use crate::program::Made;
use proptest::prelude::*;
use tanada_policy::governors;
use tanada_sim::{Machine, ThreadOptions, simulate_threads};
use tanada_trace::threads::{Event, Sync};

const LOCKS: usize = 3;
const CONDITIONS: usize = 2;
const SEMAPHORES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Runs,
    /// For a condition and with this lock; whether it was woken.
    Waits(usize, usize, bool),
    Ended,
}

/// An execution: at each moment some thread that can does something, and is recorded.
struct Execution {
    /// Threads hold several locks and wait while they hold one, and there are semaphores.
    nested: bool,
    states: Vec<State>,
    /// Who holds each lock, and whether it is shared.
    holders: [Vec<(usize, bool)>; LOCKS],
    signals: [u32; CONDITIONS],
    values: [u32; SEMAPHORES],
    recorded: Vec<Vec<Event>>,
}

impl Execution {
    fn new(threads: usize, nested: bool) -> Execution {
        let mut states = vec![State::New; threads];
        states[0] = State::Runs;
        Execution {
            nested,
            states,
            holders: Default::default(),
            signals: [0; CONDITIONS],
            values: [0; SEMAPHORES],
            recorded: vec![Vec::new(); threads],
        }
    }

    fn record(&mut self, thread: usize, sync: Sync) {
        self.recorded[thread].push(Event::Sync(sync));
    }

    fn holds(&self, thread: usize) -> bool {
        let mut all = self.holders.iter().flatten();
        all.any(|&(holder, _)| holder == thread)
    }

    /// Does `what` in `thread`, or nothing if the thread could not do it now.
    fn act(&mut self, thread: usize, what: u8, with: usize) {
        let (lock, condition, semaphore) = (with % LOCKS, with % CONDITIONS, with % SEMAPHORES);
        let other = with % self.states.len();
        match self.states[thread] {
            State::New | State::Ended => return,
            State::Waits(condition, lock, woken) => {
                // A wait can end without a signal.
                if (woken || with.is_multiple_of(8)) && self.holders[lock].is_empty() {
                    self.holders[lock].push((thread, false));
                    self.states[thread] = State::Runs;
                    let wait = Sync::Wait {
                        condition: (LOCKS + condition) as u32,
                        lock: lock as u32,
                        signals: Some(self.signals[condition]),
                    };
                    self.record(thread, wait);
                }
                return;
            }
            State::Runs => {}
        }
        let may_block = self.nested || !self.holds(thread);
        match what {
            0 | 1 if may_block => {
                let shared = what == 1;
                let free = self.holders[lock].iter().all(|one| one.1 && shared);
                if free {
                    self.holders[lock].push((thread, shared));
                    let sync = if shared { Sync::Share } else { Sync::Lock };
                    self.record(thread, sync(lock as u32));
                }
            }
            2..=4 => {
                let held = |one: &(usize, bool)| one.0 == thread;
                let of = (0..LOCKS).map(|i| (with + i) % LOCKS);
                let mut places =
                    of.filter_map(|lock| Some((lock, self.holders[lock].iter().position(held)?)));
                if let Some((lock, place)) = places.next() {
                    self.holders[lock].remove(place);
                    self.record(thread, Sync::Unlock(lock as u32));
                }
            }
            5 | 6 => {
                let own = [(thread, false)];
                if let Some(lock) = (0..LOCKS).find(|&lock| self.holders[lock] == own) {
                    self.holders[lock].clear();
                    self.states[thread] = State::Waits(condition, lock, false);
                }
            }
            7 | 8 => {
                self.signals[condition] += 1;
                for state in &mut self.states {
                    if let State::Waits(of, _, woken @ false) = state
                        && *of == condition
                    {
                        *woken = true;
                        if what == 7 {
                            break;
                        }
                    }
                }
                let sync = [Sync::Signal, Sync::Broadcast][usize::from(what - 7)];
                self.record(thread, sync((LOCKS + condition) as u32));
            }
            9 if self.nested => {
                self.values[semaphore] += 1;
                self.record(thread, Sync::Post((LOCKS + CONDITIONS + semaphore) as u32));
            }
            10 if self.nested && self.values[semaphore] > 0 => {
                self.values[semaphore] -= 1;
                self.record(thread, Sync::Take((LOCKS + CONDITIONS + semaphore) as u32));
            }
            11 => {
                let able = |&one: &usize| {
                    self.states[one] == State::Runs && (self.nested || !self.holds(one))
                };
                let all: Vec<usize> = (0..self.states.len()).filter(able).collect();
                // Threads that come to a barrier for another use of it would be taken for those of this one, unless all its uses are by
                // the same threads.
                let parties = all.len() as u32;
                let same: u32 = all.iter().map(|one| 1 << one).sum();
                let object = 20 + if self.nested { parties } else { same };
                for one in all {
                    self.record(one, Sync::Barrier { object, parties });
                }
            }
            12 | 13 if self.states[other] == State::New => {
                self.states[other] = State::Runs;
                self.record(thread, Sync::Create(other as u32));
            }
            14 if may_block && self.states[other] == State::Ended => {
                self.record(thread, Sync::Join(other as u32));
            }
            15 if thread > 0 && with.is_multiple_of(4) && !self.holds(thread) => {
                self.states[thread] = State::Ended;
            }
            _ => self.recorded[thread].push(Event::Instructions(1 + with as u32 % 40)),
        }
    }

    /// The process ends, whatever threads do; those that wait are recorded without that wait.
    fn program(self) -> Made {
        let created = |&(thread, _): &(usize, Vec<Event>)| self.states[thread] != State::New;
        // Threads that were never created stand behind no event: they have no streams, and are made by the first one.
        let all = self.recorded.into_iter().enumerate().collect::<Vec<_>>();
        let never = all.iter().filter(|one| !created(one)).map(|one| one.0);
        let create = never.map(|thread| Event::Sync(Sync::Create(thread as u32)));
        let create: Vec<Event> = create.collect();
        let mut threads: Vec<Vec<Event>> = all.into_iter().map(|one| one.1).collect();
        threads[0].extend(create);
        Made::of(threads)
    }
}

fn recorded(nested: bool) -> impl Strategy<Value = Made> {
    let acts = prop::collection::vec((0..6_usize, 0..18_u8, 0..64_usize), 0..250);
    (1..7_usize, acts).prop_map(move |(threads, acts)| {
        let mut execution = Execution::new(threads, nested);
        for (thread, what, with) in acts {
            execution.act(thread % threads, what, with);
        }
        execution.program()
    })
}

/// Runs `program` and returns how often a thread was forced.
fn forced(program: &Made, text: &str, governor: &str) -> u64 {
    let machine = Machine::parse(text, "random.toml").expect("a machine");
    let outcome = simulate_threads(program, &machine, governor, &ThreadOptions::default());
    outcome
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .forced
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_execution_ends(program in recorded(true), text in machine(), which in any::<prop::sample::Index>()) {
        forced(&program, &text, which.get(governors::all()).name);
    }

    /// Without locks around locks, and without semaphores, whatever a thread waits for comes by itself.
    #[test]
    fn waits_end_by_what_is_recorded(program in recorded(false), text in machine(), which in any::<prop::sample::Index>()) {
        prop_assert_eq!(forced(&program, &text, which.get(governors::all()).name), 0, "{:?}", program);
    }
}

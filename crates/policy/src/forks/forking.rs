//! A fork policy as a dispatcher, for engines that have tasks in place of closures: the tasks of a trace that was recorded of forks.

use super::Named;
use crate::{
    Dispatcher, Env, Fork, Keep, Op, Origin, Peeks, Placement, Ready, Site, Thief, Wake, WorkerId,
};
use std::cell::RefCell;
use std::marker::PhantomData;
use tanada_queues::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use tanada_queues::sync::spin_loop;
use tanada_queues::{Injector, Owner, Padded, Steal, Stealer, deque};

/// Schedules tasks as the fork layer of the native engine schedules forks under the policy `P`.
///
/// Rule: a task that becomes ready on a worker goes to the new end of the worker's deque, or, if the policy keeps it [plain](Keep::Plain),
/// to the worker's private stack. An idle worker takes the newest of its stack, else the newest of its deque, else the oldest task from
/// outside, else the oldest of a victim's deque, victims as the policy says. ([`Keep::Latent`] is a matter of cost: natively such a fork
/// lies in the deque whenever a worker is idle.) One thing differs from the native engine: what follows a join runs where its last closure
/// ended, and natively where the join began.
#[derive(Debug)]
pub struct Forking<P> {
    seats: Vec<Seat>,
    injected: Injector,
    placement: Placement,
    policy: PhantomData<P>,
}

/// What one worker lets others see.
#[derive(Debug)]
struct Seat {
    deque: Stealer,
    /// How many tasks lie on the private stack.
    plain: Padded<AtomicUsize>,
    /// One more than the digest that [`Peeks::Stale`] returns; 0: the next look takes it from the deque.
    hint: Padded<AtomicU32>,
}

impl Seat {
    /// Returns what a thief sees of the oldest task.
    fn peek(&self, peeks: Peeks, random: impl FnOnce() -> u64) -> Option<u16> {
        match peeks {
            Peeks::Fresh => self.deque.peek(),
            // As deep as trees of some thousand leaves.
            Peeks::Garbage => self.deque.peek().map(|_| (random() % 16) as u16),
            Peeks::Stale => match self.hint.0.load(SeqCst) {
                0 => {
                    let digest = self.deque.peek()?;
                    self.hint.0.store(u32::from(digest) + 1, SeqCst);
                    Some(digest)
                }
                known => Some((known - 1) as u16),
            },
        }
    }

    fn steal(&self) -> Option<Ready> {
        self.hint.0.store(0, SeqCst);
        take(&self.deque)
    }
}

/// What one worker alone touches.
#[derive(Debug)]
pub struct Local {
    deque: Owner,
    plain: Vec<Ready>,
    looked: u64,
}

impl<P: Named> Forking<P> {
    /// The private stack of worker `me` has changed.
    fn note_plain(&self, local: &Local, me: WorkerId) {
        let plain = &self.seats[me.index()].plain.0;
        plain.store(local.plain.len(), SeqCst);
    }

    fn steal<E: Env>(&self, local: &mut Local, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        if self.seats.len() == 1 {
            return None;
        }
        let peeks = env.peeks();
        let mut found = None;
        let env = RefCell::new(env);
        let mut random = || env.borrow_mut().random();
        let mut peek = |victim: WorkerId| {
            let mut env = env.borrow_mut();
            env.charge(Op::Peek(victim));
            self.seats[victim.index()].peek(peeks, || env.random())
        };
        let mut thief = Thief {
            me,
            placement: &self.placement,
            looked: local.looked,
            random: &mut random,
            peek: &mut peek,
        };
        P::POLICY.steal(&mut thief, &mut |victim| {
            let task = self.seats[victim.index()].steal();
            found = task.map(|task| (task, Origin::Stolen(victim)));
            env.borrow_mut().charge(match found {
                Some(_) => Op::Steal(victim),
                None => Op::Empty(victim),
            });
            found.is_some()
        });
        if found.is_none() {
            local.looked = local.looked.wrapping_add(1);
        }
        found
    }
}

fn take(seat: &Stealer) -> Option<Ready> {
    loop {
        match seat.steal() {
            Steal::Taken(task) => return Some(task),
            Steal::Empty | Steal::Refused => return None,
            // Another worker took one: this ends.
            Steal::Retry => spin_loop(),
        }
    }
}

impl<P: Named> Dispatcher for Forking<P> {
    type Local = Local;

    fn build(site: &Site<'_>) -> (Self, Vec<Local>) {
        let (locals, seats) = site
            .placement
            .ids()
            .map(|_| {
                let (owner, stealer) = deque();
                let local = Local {
                    deque: owner,
                    plain: Vec::new(),
                    looked: 0,
                };
                let plain = Padded(AtomicUsize::new(0));
                let seat = Seat {
                    deque: stealer,
                    plain,
                    hint: Padded(AtomicU32::new(0)),
                };
                (local, seat)
            })
            .unzip();
        let shared = Forking {
            seats,
            injected: Injector::new(),
            placement: site.placement.clone(),
            policy: PhantomData,
        };
        (shared, locals)
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        env.charge(Op::Pool);
        self.injected.push(task);
        env.wake(Wake::Anyone);
    }

    fn ready<E: Env>(&self, local: &mut Local, env: &mut E, task: Ready) {
        let fork = Fork::new(env.hints(&task), env.workers());
        if P::POLICY.decides() && P::POLICY.keep(&fork) == Keep::Plain {
            local.plain.push(task);
            self.note_plain(local, env.me());
            return;
        }
        env.charge(Op::OwnPush);
        local.deque.push(task);
        env.wake(Wake::Anyone);
    }

    fn next<E: Env>(&self, local: &mut Local, env: &mut E) -> Option<(Ready, Origin)> {
        if let Some(task) = local.plain.pop() {
            self.note_plain(local, env.me());
            return Some((task, Origin::Own));
        }
        if let Some(task) = local.deque.pop() {
            env.charge(Op::OwnPop);
            return Some((task, Origin::Own));
        }
        if let Some(task) = self.injected.pop() {
            env.charge(Op::Injected);
            return Some((task, Origin::Pool));
        }
        self.steal(local, env)
    }

    /// The first closure of a join is declared first, and runs first.
    fn turn<E: Env>(
        &self,
        local: &mut Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        for task in released.drain(..).rev() {
            self.ready(local, env, task);
        }
        self.next(local, env)
    }

    fn may_have(&self, worker: WorkerId) -> bool {
        self.seats[worker.index()].plain.0.load(SeqCst) > 0
            || !self.injected.is_empty()
            || self.seats.iter().any(|seat| !seat.deque.is_empty())
    }
}

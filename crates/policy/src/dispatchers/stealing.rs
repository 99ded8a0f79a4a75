//! What the work-stealing policies have in common.
//!
//! Each worker has a deque of its own and a mailbox; all share one FIFO of tasks that became ready outside any worker. A [`Family`]
//! member says which tasks are mailed, and in which order a thief tries its victims. The rule, exact when calls come one at a time:
//!
//! - A task that becomes ready and is mailed goes to the new end of that worker's mailbox. Any other goes to the new end of the deque of
//!   the worker on which it became ready, or of the shared FIFO if that was outside any worker.
//! - An idle worker takes 1. the newest task of its own deque; 2. the oldest of its mailbox (members that mail: the mailbox first);
//!   3. the oldest of the shared FIFO, see below; 4. the oldest task of a victim's deque, victims in the member's order; 5. (members that
//!   mail) the oldest task in the mailbox of another worker, the nearest first, so that no worker idles while mail lies at a busy one.
//! - With the oldest of the shared FIFO it takes the next ones, if many are there: of n tasks (n / (4 x active workers)), 63 at the most.
//!   They go into its own deque, so that it takes them in their order. Otherwise all workers would meet at the FIFO for every task.
//! - `turn` does what `ready` for each released task and then `next` would do; a task that would thereby go into this worker's deque or
//!   mailbox and come out again at once is handed over without a queue ([`Origin::Handed`]).
//!
//! Wakes: `Anyone` for each task that becomes available and is not the one that this worker takes; for mail to another worker
//! `This(worker)` too, since it is preferred but may be busy.
//!
//! With several workers at once the parts of a call are atomic, not the call. No task is lost or taken twice; a thief that loses a
//! race for the oldest task tries the same victim again.

use crate::{
    Access, Choice, Dispatcher, Env, Hints, Op, Origin, Placement, Ready, Site, Wake, Word,
    WorkerId,
};
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{spin_loop, total_order};
use tanada_queues::{Injector, Mailbox, Owner, Padded, Steal, Stealer, deque};

/// A member of the family of work-stealing policies.
pub trait Family: Send + Sync + Sized + 'static {
    /// Whether tasks are ever mailed. If not, mailboxes are not looked at.
    const MAILS: bool = false;

    /// As [`Dispatcher::READS_GROUPS`].
    const READS_GROUPS: bool = false;

    /// As [`Dispatcher::TREATS_ALIKE`].
    const TREATS_ALIKE: bool = false;

    /// What one worker remembers from call to call.
    type Memory: Default + Send + 'static;

    /// Returns the member's own tables.
    fn build(site: &Site<'_>) -> Self;

    /// Returns the worker that a task is mailed to, if it is mailed: one of the `active` first. Called only if [`Family::MAILS`].
    fn mailed_to(_hints: Hints, _active: u16) -> Option<WorkerId> {
        None
    }

    /// The worker with this memory takes `task`.
    #[inline]
    fn takes(_memory: &mut Self::Memory, _task: &Ready) {}

    /// Step 4: tries victims in the member's order and returns the first task that it steals. Called while another worker's deque has a
    /// task, or had one a moment ago.
    fn steal<E: Env>(
        &self,
        memory: &Self::Memory,
        seats: &Seats,
        env: &mut E,
    ) -> Option<(Ready, Origin)>;
}

/// What one worker lets others reach.
#[derive(Debug)]
struct Seat {
    deque: Stealer,
    mailbox: Mailbox,
}

/// What all workers let others reach.
#[derive(Debug)]
pub struct Seats {
    seats: Vec<Seat>,
    placement: Placement,
}

impl Seats {
    /// Returns whether `victim`'s deque has a task.
    #[inline]
    pub fn has_task(&self, victim: WorkerId) -> bool {
        !self.seats[victim.index()].deque.is_empty()
    }

    /// As [`Seats::has_task`], for a thief.
    #[inline]
    fn look<E: Env>(&self, victim: WorkerId, env: &mut E) -> bool {
        env.charge(Op::Read(Word::Top(victim)));
        env.charge(Op::Read(Word::Bottom(victim)));
        self.has_task(victim)
    }

    /// Takes and returns the oldest task of `victim`'s deque.
    #[inline]
    pub fn steal<E: Env>(&self, victim: WorkerId, env: &mut E) -> Option<(Ready, Origin)> {
        self.steal_if(victim, env, |_| true)
    }

    /// Takes the oldest task of `victim`'s deque if `likes` returns true of its digest.
    #[inline]
    pub fn steal_if<E: Env>(
        &self,
        victim: WorkerId,
        env: &mut E,
        likes: impl Fn(u16) -> bool,
    ) -> Option<(Ready, Origin)> {
        env.charge(Op::Steal(victim));
        env.charge(Op::Read(Word::Top(victim)));
        env.charge(Op::Read(Word::Bottom(victim)));
        loop {
            match self.seats[victim.index()].deque.steal_if(&likes) {
                Steal::Taken(task) => {
                    env.charge(Op::Write(Word::Top(victim)));
                    return Some((task, Origin::Stolen(victim)));
                }
                Steal::Empty | Steal::Refused => return None,
                Steal::Retry => spin_loop(), // another worker took one: this ends
            }
        }
    }

    /// Returns the other workers, the nearest first; see [`Placement::by_distance`].
    #[inline]
    pub fn others(&self, me: WorkerId) -> &[WorkerId] {
        self.placement.by_distance(me)
    }

    /// Takes and returns a task of the nearest other worker that has one, tried ring by ring: workers at one distance are a ring, in the
    /// order of [`Placement::by_distance`], started at a place that one draw decides (draw mod size of the ring). A ring of which no deque
    /// has a task is left out, and a ring of one worker needs no draw.
    pub fn steal_nearest<E: Env>(&self, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        let distance = |other: &WorkerId| self.placement.distance(me, *other);
        for ring in self.others(me).chunk_by(|a, b| distance(a) == distance(b)) {
            if !ring.iter().any(|&victim| self.look(victim, env)) {
                continue;
            }
            let start = if ring.len() == 1 {
                0
            } else {
                (env.random() % ring.len() as u64) as usize
            };
            let victims = ring[start..].iter().chain(&ring[..start]);
            for &victim in victims {
                if let Some(found) = self.steal(victim, env) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Returns whether a deque or a mailbox has a task.
    fn any_task<F: Family>(&self) -> bool {
        self.seats
            .iter()
            .any(|seat| !seat.deque.is_empty() || (F::MAILS && !seat.mailbox.is_empty()))
    }
}

/// The work-stealing dispatcher with the victim order and the mail of `F`.
#[derive(Debug)]
pub struct Stealing<F> {
    seats: Seats,
    injected: Injector,
    /// How many workers have tasks in their hands that they move from `injected` to their deques: a worker that is about to sleep must not
    /// overlook these.
    moving: Padded<AtomicUsize>,
    member: F,
}

/// What one worker of a [`Stealing`] dispatcher alone touches.
#[derive(Debug)]
pub struct Own<M> {
    deque: Owner,
    memory: M,
    /// Room for tasks on their way from the shared FIFO.
    taken: Vec<Ready>,
}

/// A worker takes several tasks from the shared FIFO if there are at least this many for each.
const SHARES: usize = 4;

/// The most tasks that it takes besides the oldest.
const MOST_BESIDES: usize = 63;

impl<F: Family> Stealing<F> {
    #[inline]
    fn mailed_to<E: Env>(env: &E, task: &Ready) -> Option<WorkerId> {
        if F::MAILS {
            F::mailed_to(env.hints(task), env.active())
        } else {
            None
        }
    }

    fn mail<E: Env>(&self, env: &mut E, to: WorkerId, task: Ready) {
        env.charge(Op::Seat(to, Access::Put));
        self.seats.seats[to.index()].mailbox.push(task);
        if to != env.me() {
            env.wake(Wake::This(to));
        }
        env.wake(Wake::Anyone);
    }

    #[inline]
    fn push_own<E: Env>(deque: &mut Owner, env: &mut E, task: Ready) {
        env.charge(Op::OwnPush);
        env.charge(Op::Write(Word::Bottom(env.me())));
        deque.push(task);
        env.wake(Wake::Anyone);
    }

    #[inline]
    fn pop_own<E: Env>(deque: &mut Owner, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        env.charge(Op::Read(Word::Top(me)));
        let task = deque.pop()?;
        if let Some(handle) = deque.newest() {
            env.soon(handle);
        }
        env.charge(Op::OwnPop);
        env.charge(Op::Write(Word::Bottom(me)));
        Some((task, Origin::Own))
    }

    /// Out of line, so that the loop in which nearly all tasks are handed over stays small.
    #[inline(never)]
    fn push_all<E: Env>(deque: &mut Owner, env: &mut E, tasks: &mut Vec<Ready>) {
        for _ in 0..tasks.len() {
            env.charge(Op::OwnPush);
            env.wake(Wake::Anyone);
        }
        env.charge(Op::Write(Word::Bottom(env.me())));
        deque.push_all(tasks.drain(..));
    }

    /// [`Dispatcher::next`], out of line as [`Stealing::push_all`] is. The origin is returned apart from the task, so that both travel in
    /// registers.
    #[inline(never)]
    fn next_out_of_line<E: Env>(
        &self,
        own: &mut Own<F::Memory>,
        env: &mut E,
        origin: &mut Origin,
    ) -> Option<Ready> {
        let (task, from) = self.next(own, env)?;
        *origin = from;
        Some(task)
    }

    fn pop_mail<E: Env>(&self, env: &mut E, of: WorkerId) -> Option<Ready> {
        env.charge(Op::Read(Word::Load(of)));
        let task = self.seats.seats[of.index()].mailbox.pop()?;
        env.charge(Op::Seat(of, Access::Take));
        Some(task)
    }

    #[inline]
    fn pop_own_mail<E: Env>(&self, env: &mut E) -> Option<(Ready, Origin)> {
        if !F::MAILS {
            return None;
        }
        self.pop_mail(env, env.me())
            .map(|task| (task, Origin::Mailbox))
    }

    /// Returns the oldest task of the shared FIFO, and puts those that come with it into the worker's deque, which is empty.
    fn pop_injected<E: Env>(&self, own: &mut Own<F::Memory>, env: &mut E) -> Option<Ready> {
        env.charge(Op::Read(Word::Taken));
        env.charge(Op::Read(Word::Put));
        let besides = self.injected.len() / (SHARES * usize::from(env.active()));
        let most = 1 + besides.min(MOST_BESIDES);
        if most > 1 {
            env.charge(Op::Write(Word::Moving));
            self.moving.0.fetch_add(1, Ordering::SeqCst);
        }
        let task = self.injected.pop_some(most, &mut own.taken);
        if task.is_some() {
            env.charge(Op::Injected);
            env.charge(Op::Write(Word::Taken));
        }
        if !own.taken.is_empty() {
            // The newest task comes out of the deque first: the last that goes in is the oldest. Nobody is woken: wake-ups were requested
            // when the tasks became ready.
            own.taken.reverse();
            own.taken.iter().for_each(|_| env.charge(Op::OwnPush));
            env.charge(Op::Write(Word::Bottom(env.me())));
            own.deque.push_all(own.taken.drain(..));
        }
        if most > 1 {
            env.charge(Op::Write(Word::Moving));
            self.moving.0.fetch_sub(1, Ordering::SeqCst);
            total_order();
        }
        task
    }

    /// Returns a task that is not this worker's: steps 3 to 5.
    #[cold]
    fn next_elsewhere<E: Env>(
        &self,
        own: &mut Own<F::Memory>,
        env: &mut E,
    ) -> Option<(Ready, Origin)> {
        if let Some(task) = self.pop_injected(own, env) {
            return Some((task, Origin::Pool));
        }
        let memory = &own.memory;
        let me = env.me();
        let others = self.seats.others(me);
        // Random numbers are drawn only while something is ready.
        if others.iter().any(|&victim| self.seats.look(victim, env))
            && let Some(found) = self.member.steal(memory, &self.seats, env)
        {
            return Some(found);
        }
        if !F::MAILS {
            return None;
        }
        others.iter().find_map(|&of| {
            self.pop_mail(env, of)
                .map(|task| (task, Origin::Stolen(of)))
        })
    }

    /// Puts the released tasks into the queues, except the one that `next` would take out again at once, which is returned.
    #[inline]
    fn keep_one<E: Env>(
        &self,
        own: &mut Own<F::Memory>,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        let me = env.me();
        let mut from_mail = self.pop_own_mail(env);
        let mut newest = None;
        for task in released.drain(..) {
            match Self::mailed_to(env, &task) {
                // It would be the oldest in the mailbox, which was found empty.
                Some(to) if to == me && from_mail.is_none() => {
                    from_mail = Some((task, Origin::Handed))
                }
                Some(to) => self.mail(env, to, task),
                None => {
                    if let Some(older) = newest.replace(task) {
                        Self::push_own(&mut own.deque, env, older);
                    }
                }
            }
        }
        match (from_mail, newest) {
            (None, newest) => newest.map(|task| (task, Origin::Handed)),
            (mail, None) => mail,
            (mail, Some(newest)) => {
                Self::push_own(&mut own.deque, env, newest);
                mail
            }
        }
    }
}

impl<F: Family> Dispatcher for Stealing<F> {
    type Local = Own<F::Memory>;

    const READS_GROUPS: bool = F::READS_GROUPS;
    const NEWEST_FIRST: bool = true;
    const INJECTS_AT_ONCE: bool = !F::MAILS;
    /// What has no size remembers nothing of the tasks that are taken.
    const HANDS_ON: bool = !F::MAILS && size_of::<F::Memory>() == 0;
    const TREATS_ALIKE: bool = F::TREATS_ALIKE;

    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>) {
        let (locals, seats) = site
            .placement
            .ids()
            .map(|_| {
                let (owner, stealer) = deque();
                let own = Own {
                    deque: owner,
                    memory: F::Memory::default(),
                    taken: Vec::new(),
                };
                (
                    own,
                    Seat {
                        deque: stealer,
                        mailbox: Mailbox::new(),
                    },
                )
            })
            .unzip();
        let seats = Seats {
            seats,
            placement: site.placement.clone(),
        };
        (
            Stealing {
                seats,
                injected: Injector::new(),
                moving: Padded(AtomicUsize::new(0)),
                member: F::build(site),
            },
            locals,
        )
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        match Self::mailed_to(env, &task) {
            Some(to) => self.mail(env, to, task),
            None => {
                env.charge(Op::Pool);
                self.injected.push(task);
                env.wake(Wake::Anyone);
            }
        }
    }

    fn inject_all<E: Env>(&self, env: &mut E, tasks: &mut Vec<Ready>) {
        if F::MAILS {
            tasks.drain(..).for_each(|task| self.inject(env, task));
            return;
        }
        env.charge(Op::Pool);
        let number = tasks.len().min(usize::from(env.active()));
        self.injected.push_all(tasks);
        (0..number).for_each(|_| env.wake(Wake::Anyone));
    }

    #[inline]
    fn ready<E: Env>(&self, own: &mut Self::Local, env: &mut E, task: Ready) {
        match Self::mailed_to(env, &task) {
            Some(to) => self.mail(env, to, task),
            None => Self::push_own(&mut own.deque, env, task),
        }
    }

    #[inline]
    fn next<E: Env>(&self, own: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)> {
        let found = self
            .pop_own_mail(env)
            .or_else(|| Self::pop_own(&mut own.deque, env))
            .or_else(|| self.next_elsewhere(own, env));
        if let Some((task, _)) = &found {
            F::takes(&mut own.memory, task);
        }
        found
    }

    /// The worker's mail, then its own newest task; then the oldest of the shared FIFO; then the oldest task of each other worker, the
    /// nearest first, if its digest may be taken. The member's order of victims is not asked.
    fn next_of<E: Env>(
        &self,
        own: &mut Self::Local,
        env: &mut E,
        choice: &impl Choice,
        refused: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        let mut sort = |found: Option<(Ready, Origin)>| match found {
            Some((task, origin)) if choice.takes(&task) => Some((task, origin)),
            Some((task, _)) => {
                refused.push(task);
                None
            }
            None => None,
        };
        if let Some(found) = sort(self.pop_own_mail(env)) {
            return Some(found);
        }
        if let Some(task) = own.deque.pop_if(|digest| choice.might_take(digest)) {
            if choice.takes(&task) {
                env.charge(Op::OwnPop);
                return Some((task, Origin::Own));
            }
            own.deque.push(task); // back to where it was
        }
        if let Some(found) = sort(self.injected.pop().map(|task| (task, Origin::Pool))) {
            return Some(found);
        }
        let others = self.seats.others(env.me());
        for &victim in others {
            let likes = |digest| choice.might_take(digest);
            if self.seats.has_task(victim)
                && let Some(found) = sort(self.seats.steal_if(victim, env, likes))
            {
                return Some(found);
            }
        }
        if !F::MAILS {
            return None;
        }
        others.iter().find_map(|&of| {
            sort(
                self.pop_mail(env, of)
                    .map(|task| (task, Origin::Stolen(of))),
            )
        })
    }

    #[inline]
    fn turn<E: Env>(
        &self,
        own: &mut Self::Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        let kept = if F::MAILS && !released.is_empty() {
            self.keep_one(own, env, released)
        } else {
            // The last of them is what `next` would take.
            released.pop().map(|newest| {
                if !released.is_empty() {
                    Self::push_all(&mut own.deque, env, released);
                }
                (newest, Origin::Handed)
            })
        };
        let Some(kept) = kept else {
            let mut origin = Origin::Own;
            let task = self.next_out_of_line(own, env, &mut origin)?;
            return Some((task, origin));
        };
        F::takes(&mut own.memory, &kept.0);
        Some(kept)
    }

    fn may_have(&self, _worker: WorkerId) -> bool {
        // In the order in which tasks move.
        let moves = || {
            total_order();
            self.moving.0.load(Ordering::SeqCst) > 0
        };
        !self.injected.is_empty() || moves() || self.seats.any_task::<F>()
    }
}

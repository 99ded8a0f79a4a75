//! Tasks scheduled as the fork layer schedules closures under a policy that [divides](crate::ForkPolicy::divides) the workers, for traces
//! of forks.

use super::Adws;
use super::adws::{Branch, Division, Place, Ranges, Reach};
use crate::{
    Closures, Dispatcher, Env, ForkPolicy, Op, Origin, Placement, Prepared, Ready, Site, Thief,
    Wake, WorkerId,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tanada_queues::sync::Mutex;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Schedules the pieces of closures as the fork layer of the native engine schedules closures under `adws`.
///
/// A closure that has begun goes on, behind a join, on the worker on which it began. The work of closures is what the trace says
/// (`h:work=`); else what was measured, for which the least work of the pieces stands. A graph that is not made of forks and joins is
/// scheduled as under `near-first`.
#[derive(Debug)]
pub struct Dividing {
    placement: Placement,
    prepared: Prepared,
    closures: Option<Arc<Closures>>,
    ranges: Ranges,
    /// That of the roots, if there are any: it lasts as long as they do.
    _roots: Option<Division>,
    state: Mutex<State>,
    queued: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// What is known of each closure that has been forked.
    closures: Vec<Option<Running>>,
    seats: Vec<Seat>,
    places: Vec<Place>,
    /// Workers that found nothing the last time.
    idle: Vec<bool>,
}

/// A closure that has been forked, and where it runs.
#[derive(Debug)]
struct Running {
    branch: Arc<Branch>,
    /// Whether its forks divide a share.
    is_wide: bool,
    /// Whether it is a branch of its own, or below one.
    is_branch: bool,
    worker: Option<WorkerId>,
    /// The closures of its present fork that have not ended, and their share.
    left: u32,
    division: Option<Division>,
}

/// The queues of one worker.
#[derive(Debug, Default)]
struct Seat {
    /// Pieces behind a join of closures that began on this worker.
    resumed: VecDeque<Ready>,
    /// Closures that this worker owns and another one forked.
    mail: VecDeque<Ready>,
    /// Closures that this worker forked.
    own: VecDeque<Ready>,
}

/// The queues of a seat that thieves reach.
enum Queue {
    Own,
    Mail,
}

/// What one worker alone touches.
#[derive(Debug, Default)]
pub struct Local {
    /// The task that it runs.
    running: Option<usize>,
    looked: u64,
}

impl Dividing {
    fn take<E: Env>(
        &self,
        local: &mut Local,
        env: &mut E,
        state: &mut State,
    ) -> Option<(Ready, Origin)> {
        let me = env.me();
        let State {
            seats, closures, ..
        } = state;
        let own = seats[me.index()].pop(|task| self.is_wide(closures, task));
        if own.is_some() {
            env.charge(Op::OwnPop);
            return own;
        }
        self.steal(local, env, state)
    }

    fn steal<E: Env>(
        &self,
        local: &mut Local,
        env: &mut E,
        state: &mut State,
    ) -> Option<(Ready, Origin)> {
        let me = env.me();
        loop {
            let reach = state.places[me.index()].reach(me);
            if let Reach::Nowhere = reach {
                return None;
            }
            let mut found = None;
            let victims = self.victims(me, local.looked, &reach);
            for victim in victims {
                env.charge(Op::Steal(victim));
                if let Some(queue) = self.stealable(state, &reach, victim) {
                    let seat = &mut state.seats[victim.index()];
                    let task = match queue {
                        Queue::Own => seat.own.pop_front(),
                        Queue::Mail => seat.mail.pop_front(),
                    };
                    found = task.map(|task| (task, Origin::Stolen(victim)));
                    break;
                }
            }
            let place = &mut state.places[me.index()];
            if found.is_some() {
                place.found();
                return found;
            }
            local.looked = local.looked.wrapping_add(1);
            if !place.tried() {
                return None;
            }
        }
    }

    /// Returns the workers from which worker `me`, which has looked `looked` times in vain, may steal, in the order in which it tries them.
    fn victims(&self, me: WorkerId, looked: u64, reach: &Reach) -> Vec<WorkerId> {
        let mut victims = Vec::new();
        let mut thief = Thief {
            me,
            placement: &self.placement,
            looked,
            random: &mut || 0,
            peek: &mut |_| None,
        };
        Adws.steal(&mut thief, &mut |victim| {
            if !matches!(reach, Reach::Below(at) if !at.has(victim)) {
                victims.push(victim);
            }
            false
        });
        victims
    }

    /// Returns whether `worker`, if it finds nothing elsewhere, would find something at `victim`.
    fn may_steal(&self, state: &State, worker: WorkerId, victim: WorkerId) -> bool {
        let mut place = state.places[worker.index()].clone();
        loop {
            let reach = place.reach(worker);
            let within = match &reach {
                Reach::Nowhere => return false,
                Reach::Below(at) => at.has(victim),
                Reach::Anything => true,
            };
            if within && self.stealable(state, &reach, victim).is_some() {
                return true;
            }
            if !place.tried() {
                return false;
            }
        }
    }

    /// Returns an idle worker near to `victim` that would find something there.
    fn idle_thief(&self, state: &State, victim: WorkerId) -> Option<WorkerId> {
        let thieves = self.placement.by_distance(victim).iter().copied();
        let mut idle = thieves.filter(|thief| state.idle[thief.index()]);
        idle.find(|thief| self.may_steal(state, *thief, victim))
    }

    /// Returns the queue of `victim` whose oldest task a worker with this reach may steal.
    fn stealable(&self, state: &State, reach: &Reach, victim: WorkerId) -> Option<Queue> {
        let seat = &state.seats[victim.index()];
        let may = |task: &Ready| match reach {
            // Its owner, which others wait for, divides it.
            _ if self.is_wide(&state.closures, task) => false,
            Reach::Below(at) => self.depth(&state.closures, task) > at.depth(),
            _ => true,
        };
        match (seat.own.front(), seat.mail.front()) {
            (Some(task), _) if may(task) => Some(Queue::Own),
            (_, Some(task)) if may(task) => Some(Queue::Mail),
            _ => None,
        }
    }

    fn running<'a>(&self, closures: &'a [Option<Running>], task: &Ready) -> Option<&'a Running> {
        let all = self.closures.as_ref()?;
        closures[all.of(self.prepared.task(task.handle())) as usize].as_ref()
    }

    fn is_wide(&self, closures: &[Option<Running>], task: &Ready) -> bool {
        self.running(closures, task)
            .is_some_and(|running| running.is_wide)
    }

    fn depth(&self, closures: &[Option<Running>], task: &Ready) -> u16 {
        self.running(closures, task)
            .map_or(u16::MAX, |running| running.branch.depth())
    }

    /// Worker `me` begins `task`.
    fn begin(
        &self,
        local: &mut Local,
        state: &mut State,
        me: WorkerId,
        task: &Ready,
        origin: Origin,
    ) {
        let task = self.prepared.task(task.handle());
        local.running = Some(task);
        let Some(all) = &self.closures else { return };
        let running = state.closures[all.of(task) as usize].as_mut();
        let running = running.expect("it has been forked");
        if running.worker.is_some() {
            return;
        }
        running.worker = Some(me);
        let own = running.branch.owner() == me;
        if running.is_wide && !own {
            running.is_wide = false;
            running.branch.stolen();
        }
        if running.is_branch && own && !matches!(origin, Origin::Stolen(_)) {
            state.places[me.index()].begin(&running.branch);
        }
    }

    /// The closures `siblings`, of which `parent` is the one that forks them, have the works `works` and the code `code`.
    fn fork(&self, state: &mut State, parent: u32, siblings: Range<u32>, code: u64, works: &[u64]) {
        let above = state.closures[parent as usize].as_ref().expect("it runs");
        let branch = above.branch.clone();
        if !above.is_wide {
            for closure in siblings {
                state.closures[closure as usize] = Some(Running::below(&branch));
            }
            return;
        }
        let division = self.ranges.divide(&branch, code, works);
        state.share(siblings, &division);
        let above = state.closures[parent as usize].as_mut().expect("it runs");
        above.left = works.len() as u32;
        above.division = Some(division);
    }

    /// The task that this worker ran has ended, and `released` have become ready.
    fn release<E: Env>(&self, local: &mut Local, env: &mut E, released: &mut Vec<Ready>) {
        let (me, state) = (env.me(), &mut *self.state.lock());
        let ended = local.running.take();
        let Some(all) = &self.closures else {
            // What was declared first runs first.
            for task in released.drain(..).rev() {
                self.queue(env, state, me, task);
            }
            return;
        };
        if let Some(ended) = ended
            && all.all()[all.of(ended) as usize].last == ended
        {
            self.end(state, all.of(ended));
        }
        for at in (0..released.len()).rev() {
            let task = self.prepared.task(released[at].handle());
            let number = all.of(task);
            let closure = &all.all()[number as usize];
            if closure.first == task && state.closures[number as usize].is_none() {
                let siblings = closure.siblings.clone();
                let works: Vec<u64> = match released.len() == siblings.len() {
                    true => released.iter().map(|task| env.work(task)).collect(),
                    false => vec![0; siblings.len()],
                };
                let code = env.hints(&released[0]).code;
                let parent = closure.parent.expect("roots are shared from the beginning");
                self.fork(state, parent, siblings, code, &works);
            }
        }
        for task in released.drain(..).rev() {
            let running = self.running(&state.closures, &task).expect("it was forked");
            match running.worker {
                Some(home) => {
                    self.queued.fetch_add(1, SeqCst);
                    env.charge(if home == me {
                        Op::OwnPush
                    } else {
                        Op::Mail(home)
                    });
                    state.seats[home.index()].resumed.push_back(task);
                    env.wake(Wake::This(home));
                }
                None => {
                    let owner = match running.is_branch {
                        true => running.branch.owner(),
                        false => me,
                    };
                    self.queue(env, state, owner, task);
                }
            }
        }
    }

    /// The last task of closure `closure` has ended.
    fn end(&self, state: &mut State, closure: u32) {
        let all = self.closures.as_ref().expect("a closure has ended");
        let running = state.closures[closure as usize].take().expect("it ran");
        if !running.is_branch {
            return;
        }
        if !running.branch.is_wide() {
            running.branch.worked(all.all()[closure as usize].work);
        }
        self.ranges.end(&running.branch);
        let Some(parent) = all.all()[closure as usize].parent else {
            return;
        };
        let above = state.closures[parent as usize].as_mut().expect("it waits");
        above.left -= 1;
        if above.left == 0 {
            let mut division = above.division.take().expect("it has forked");
            self.ranges.learn(&mut division);
        }
    }

    /// Queues the first task of a closure, which `owner` owns.
    fn queue<E: Env>(&self, env: &mut E, state: &mut State, owner: WorkerId, task: Ready) {
        self.queued.fetch_add(1, SeqCst);
        let seat = &mut state.seats[owner.index()];
        if owner == env.me() {
            env.charge(Op::OwnPush);
            seat.own.push_back(task);
            if let Some(thief) = self.idle_thief(state, owner) {
                env.wake(Wake::This(thief));
            }
        } else {
            env.charge(Op::Mail(owner));
            seat.mail.push_back(task);
            env.wake(Wake::This(owner));
        }
    }
}

impl State {
    /// The closures `siblings` have the shares of `division`.
    fn share(&mut self, siblings: Range<u32>, division: &Division) {
        for (branch, closure) in division.branches.iter().zip(siblings) {
            self.closures[closure as usize] = Some(Running {
                is_wide: branch.is_wide(),
                is_branch: true,
                ..Running::below(branch)
            });
        }
    }
}

impl Seat {
    /// Takes and returns the next task of the worker itself: one behind a join, then a wide closure, for whose parts other workers wait,
    /// then the newest of its own, then the oldest that others have sent.
    fn pop(&mut self, is_wide: impl Fn(&Ready) -> bool) -> Option<(Ready, Origin)> {
        if let Some(task) = self.resumed.pop_front() {
            return Some((task, Origin::Own));
        }
        if let Some(at) = self.mail.iter().position(&is_wide) {
            return self.mail.remove(at).map(|task| (task, Origin::Mailbox));
        }
        let wide = self.own.iter().position(&is_wide);
        let own = match wide {
            Some(at) => self.own.remove(at),
            None => self.own.pop_back(),
        };
        let mail = |seat: &mut Self| seat.mail.pop_front().map(|task| (task, Origin::Mailbox));
        own.map(|task| (task, Origin::Own)).or_else(|| mail(self))
    }
}

impl Running {
    /// A closure that runs below `branch`.
    fn below(branch: &Arc<Branch>) -> Self {
        Running {
            branch: branch.clone(),
            is_wide: false,
            is_branch: false,
            worker: None,
            left: 0,
            division: None,
        }
    }
}

impl Dispatcher for Dividing {
    type Local = Local;

    const NEEDS_PREPARED: bool = true;
    const NEEDS_CLOSURES: bool = true;

    fn build(site: &Site<'_>) -> (Self, Vec<Local>) {
        let prepared = site.prepared.expect("adws must know the graph").clone();
        let closures = prepared.closures().cloned();
        let workers = site.placement.workers();
        let all = || closures.iter().flat_map(|all| all.all());
        let mut state = State {
            closures: all().map(|_| None).collect(),
            seats: (0..workers).map(|_| Seat::default()).collect(),
            places: (0..workers).map(|_| Place::default()).collect(),
            idle: vec![false; workers.into()],
        };
        let ranges = Ranges::new(workers);
        let roots: Vec<u64> = all()
            .take_while(|closure| closure.parent.is_none())
            .map(|root| root.work)
            .collect();
        let roots = (!roots.is_empty()).then(|| {
            let root = ranges.root(WorkerId(0), 0);
            ranges.publish(&root);
            let division = ranges.divide(&root, 0, &roots);
            state.share(0..roots.len() as u32, &division);
            division
        });
        let shared = Dividing {
            placement: site.placement.clone(),
            closures,
            prepared,
            ranges,
            _roots: roots,
            state: Mutex::new(state),
            queued: AtomicUsize::new(0),
        };
        (shared, (0..workers).map(|_| Local::default()).collect())
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let state = &mut *self.state.lock();
        let running = self.running(&state.closures, &task);
        let owner = running.map_or(WorkerId(0), |running| running.branch.owner());
        self.queue(env, state, owner, task);
    }

    fn ready<E: Env>(&self, local: &mut Local, env: &mut E, task: Ready) {
        self.release(local, env, &mut vec![task]);
    }

    fn next<E: Env>(&self, local: &mut Local, env: &mut E) -> Option<(Ready, Origin)> {
        let mut state = self.state.lock();
        let found = self.take(local, env, &mut state);
        state.idle[env.me().index()] = found.is_none();
        let (task, origin) = found?;
        self.queued.fetch_sub(1, SeqCst);
        self.begin(local, &mut state, env.me(), &task, origin);
        Some((task, origin))
    }

    fn turn<E: Env>(
        &self,
        local: &mut Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        self.release(local, env, released);
        self.next(local, env)
    }

    fn may_have(&self, worker: WorkerId) -> bool {
        if self.queued.load(SeqCst) == 0 {
            return false;
        }
        let state = &*self.state.lock();
        let seat = &state.seats[worker.index()];
        if !(seat.resumed.is_empty() && seat.own.is_empty() && seat.mail.is_empty()) {
            return true;
        }
        let others = self.placement.ids().filter(|other| *other != worker);
        others
            .into_iter()
            .any(|victim| self.may_steal(state, worker, victim))
    }
}

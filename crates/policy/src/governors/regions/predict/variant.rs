//! One region in one situation: what has been tried, what is held, what is tried next.

use super::{
    arm::Arm,
    ledger::Ledger,
    model::{Model, Point},
};
use crate::{
    Decision, Passed, RegionSite, Shape, Silence, Waiting, Why,
    governors::regions::{Class, Profile, most, team, usual},
};

/// More threads than hardware threads are tried only if these stand idle for this part of the time, in so many invocations, and a team of
/// one does so, too: its member sleeps, or waits for a file. What a larger team stands idle may be that its members wait for each other, or
/// share one hardware thread for a while. All others gain nothing, and on some runtimes surplus threads disturb the rest of the run.
const IDLE: f64 = 0.25;
const IDLE_KNOWN: u32 = 4;

/// Regions whose time is shorter, in microseconds, are left alone: a switch of the team costs more than can be won.
const SHORT: f64 = 3.0;

/// The most teams that are tried from one start on.
const PROBES: u32 = 6;

/// A team is tried if this part of the time of the best one is expected of it.
const PROMISING: f64 = 0.98;

/// Beyond this multiple of the best time a team is given up at once, and the teams behind it are not tried.
const HOPELESS: f64 = 1.2;

/// With neighbours a team is given up after one invocation that takes this multiple of the best time: members that wait for one that has no
/// processor may take a hundred times as long.
const TERRIBLE: f64 = 3.0;

/// And after two invocations that take this multiple: what a slice of the system's time does to a short region goes on.
const POOR: f64 = 1.5;

/// If that has happened in so many situations with the same neighbours, and in none was a team of all threads good, further situations
/// try it this many invocations later.
pub(super) const SHUNNED: usize = 2;
const SHUN: u64 = 256;

/// What it costs to try all threads again may be this part of the time since the last try.
const RECHECK_SHARE: f64 = 0.02;

/// With neighbours a team is tried for at least this time, in microseconds, which some time slices of the system fit into, or for
/// [`ROUGH_TIMES`] invocations.
const ROUGH_TIME: f64 = 10_000.0;
const ROUGH_TIMES: u64 = 8;

/// The most invocations for which a team is tried without being clearly better or worse.
const UNDECIDED: u64 = 24;

/// A region is mixed if its times differ by this part of the mean from it, as far as so many times say; then a team is tried for so many
/// invocations.
const MIXED: f64 = 0.4;
const MIXED_KNOWN: f64 = 24.0;
const MIXED_TIMES: u64 = 48;

/// Before that it is given up if its mean is worse than the best by so many times what chance may do.
const MIXED_CHANCE: f64 = 2.5;

/// Invocations until all threads are tried again if their only time was a first invocation; otherwise; until others are tried again while
/// all threads are best. All but the first double each time, up to `RECHECK_MAX`.
const RECHECK_COLD: u64 = 16;
const RECHECK: u64 = 64;
const RECHECK_OTHERS: u64 = 256;
const RECHECK_MAX: u64 = 4096;

/// Invocations without a new start after one that changed nothing; doubles each time.
const MUTE: u64 = 16;
const MUTE_MAX: u64 = 1024;

/// How much times of the same team vary, until that is known.
const NOISE: f64 = 0.05;

/// So many times count in the mean of how much they vary.
const NOISES: f64 = 64.0;

/// A mean is wrong by at most so many times its standard error, as good as surely; by more while it is not known how much times vary.
const SURE: f64 = 3.5;
const FEW: f64 = 6.0;

/// After so many invocations what is held is compared with other teams, and the next try looked for, in one invocation of so many: one time
/// changes little then, and both take longer than all else.
const EAGER: u64 = 64;
const SELDOM: u64 = 8;

/// If the engine does not ask about most of these, in one of so many; of the others it measures one of [`SELDOM`]. After many invocations
/// all that is worth a try has been tried, and one of more is enough.
const SILENT: u64 = 32;
const SILENT_LATER: u64 = 128;
const LATER: u64 = 1024;

/// The charge for so many invocations is not corrected any more when they are over.
const SETTLED: u32 = 64;

/// What makes a situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) class: Class,
    /// Threads that the program asks for.
    pub(super) asked: u32,
    /// Hardware threads that others keep busy, rounded.
    pub(super) pressure: u32,
}

/// What the change of the team's size costs, in the mean over the region's invocations: if it runs on fewer than all threads, since other
/// regions run on all, and if it runs on all, since others do not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    pub(super) to_fewer: f64,
    pub(super) to_all: f64,
}

/// The mean part of the time in which hardware threads stood idle, of the last few invocations that were looked at.
#[derive(Clone, Debug, Default)]
struct Idle {
    mean: f64,
    count: u32,
}

impl Idle {
    fn add(&mut self, idle: f64) {
        self.count += 1;
        self.mean += (idle - self.mean) / f64::from(self.count.min(IDLE_KNOWN));
    }
}

#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) key: Key,
    site: RegionSite,
    most: u32,
    /// The first is `home`: what is run until something better is known.
    arms: Vec<Arm>,
    /// What the program asks for: `home` unless the machine is crowded.
    usual: Decision,
    held: usize,
    probing: Option<usize>,
    /// Teams that the situation suggests, the first last.
    queue: Vec<Decision>,
    probes: u32,
    /// The arm that was held at the last probe.
    last: usize,
    /// Whether the step from all threads to fewer has been tried.
    stepped: bool,
    /// What the next probe may lose; it is looked for again when the ledger affords this.
    wanted: f64,
    invocations: u64,
    recheck_at: u64,
    gap: u64,
    mute: u64,
    mute_until: u64,
    /// The arm that was held when all was tried anew.
    before: usize,
    /// The arm that runs now.
    now: usize,
    /// How much hardware threads stand idle with the first team, and with a team of one.
    idle: Idle,
    alone: Idle,
    /// Whether more threads than hardware threads are tried.
    crowds: bool,
    /// Until then a team that shares hardware threads with neighbours is not tried.
    shuns_until: u64,
    /// What an invocation with an arm may lose, since the last time that was learnt from.
    lost: Option<(usize, f64)>,
    /// How much times of the same team differ from their mean, over all teams, and of how many times that is the mean.
    noise: f64,
    noises: f64,
    /// Whether invocations have run that nobody measured.
    silent: bool,
}

impl Variant {
    pub(super) fn new(
        site: &RegionSite,
        key: Key,
        measured: Option<(&Profile, crate::RegionId)>,
    ) -> Variant {
        let usual = usual(site, key.asked);
        let most = most(site, key.asked);
        let mut variant = Variant {
            key,
            site: *site,
            most,
            arms: Vec::new(),
            usual,
            held: 0,
            probing: None,
            queue: Vec::new(),
            probes: 0,
            last: 0,
            stepped: false,
            wanted: f64::NEG_INFINITY,
            invocations: 0,
            recheck_at: u64::MAX,
            gap: RECHECK,
            mute: MUTE,
            mute_until: 0,
            before: 0,
            now: 0,
            idle: Idle::default(),
            alone: Idle::default(),
            crowds: false,
            shuns_until: 0,
            lost: None,
            noise: NOISE,
            noises: 1.0,
            silent: false,
        };
        let home = match variant.contended() {
            // Whoever spins has taken the processor that a sibling needs.
            true => team(site.all(), most, Waiting::Sleep(0)),
            false if usual.threads > most => team(site.all(), most, Waiting::AsIs),
            false => usual,
        };
        variant.arms.push(Arm::new(home));
        variant.fill_queue();
        if variant.contended() {
            // It disturbs nobody, and nobody disturbs it: never excellent, never terrible, and what the others are measured by.
            variant.held = match variant.queue.pop() {
                Some(decision) => variant.arm(decision),
                None => 0,
            };
            variant.probing = Some(variant.held);
        }
        if let Some((profile, region)) = measured {
            variant.start_with(profile, region);
        }
        variant
    }

    /// Returns whether a team that shares hardware threads with neighbours was good here, or poor; `None` if that is not known.
    pub(super) fn sharing(&self) -> Option<bool> {
        let (shared, held) = (&self.arms[0], &self.arms[self.held]);
        let times = shared.estimate(true).zip(held.estimate(true));
        let known = self.contended() && self.probing != Some(0);
        let (shared, held) = times.filter(|_| known)?;
        Some(shared < held * HOPELESS)
    }

    /// A team that shares hardware threads with neighbours is not tried soon.
    pub(super) fn shun(&mut self) {
        if self.held != 0 {
            self.shuns_until = SHUN;
        }
    }

    /// Returns the hardware threads that neighbours leave.
    fn left(&self) -> u32 {
        let all = self.site.all().threads();
        all.saturating_sub(self.key.pressure).max(1)
    }

    /// Returns whether a team of all threads shares hardware threads with neighbours.
    fn contended(&self) -> bool {
        self.key.pressure > 0 && self.most > self.left()
    }

    /// Returns whether times vary because others run, too.
    pub(super) fn rough(&self) -> bool {
        self.contended() || self.crowds
    }

    /// Returns whether the program asks for more threads than there are hardware threads.
    fn is_over(&self) -> bool {
        self.usual.threads > self.site.all().threads()
    }

    /// Learns how much of the time hardware threads stood idle, with the first team or, if that is another one, with a team of one.
    fn look_idle(&mut self, at: usize, idle: f64, ledger: &Ledger) {
        match at {
            0 => self.idle.add(idle),
            _ => self.alone.add(idle),
        }
        let idle = self.idle.count >= IDLE_KNOWN && self.idle.mean > IDLE;
        let is_one = self.arms[0].decision.threads == 1;
        let alone = self.alone.count > 0 && self.alone.mean > IDLE;
        if idle && (is_one || alone) && !self.crowds {
            self.settle();
            self.crowds = true;
            self.fill_queue();
        } else if idle && self.queue.is_empty() {
            self.ask_alone(ledger);
        }
    }

    /// Hardware threads stand idle: a team of one is tried if the ledger affords it.
    fn ask_alone(&mut self, ledger: &Ledger) {
        let one = Shape {
            cores: 1,
            threads_per_core: 1,
        };
        let (first, one) = (&self.arms[0], team(one, self.most, Waiting::AsIs));
        let loss = first.mean * f64::from(first.decision.threads - 1);
        let is_new = self.arms.iter().all(|arm| arm.decision.threads != 1);
        if is_new && ledger.affords(loss) {
            self.queue.push(Decision {
                waiting: first.decision.waiting,
                ..one
            });
        }
    }

    fn fill_queue(&mut self) {
        self.queue.clear();
        let home = self.arms[0].decision;
        let quota = f64::from(self.usual.threads) <= self.site.quota.max(1.0) + 1e-6;
        let as_is = match self.is_over() && !self.crowds {
            true => team(self.site.all(), self.most, Waiting::AsIs),
            false => self.usual,
        };
        if home != as_is && quota {
            self.queue.push(as_is);
        }
        if self.contended() {
            let left = self.left();
            let threads_per_core = left.div_ceil(u32::from(self.site.cores)).max(1);
            let shape = Shape {
                cores: (left / threads_per_core).max(1) as u16,
                threads_per_core: threads_per_core as u16,
            };
            self.queue.push(team(shape, self.most, Waiting::AsIs));
        }
    }

    /// Takes over what an earlier run measured.
    fn start_with(&mut self, profile: &Profile, region: crate::RegionId) {
        if self.rough() {
            return;
        }
        let of_class = |class: Class| profile.of(region).filter(move |one| one.class == class);
        let class = match of_class(self.key.class).next() {
            Some(_) => self.key.class,
            None => Class(None),
        };
        let most = self.most;
        for one in of_class(class).filter(|one| one.decision.threads <= most) {
            let at = self.arm(one.decision);
            for _ in 0..one.count.min(8) {
                self.arms[at].add(one.mean, false, false);
            }
        }
        if self.arms[0].count > 0 && self.arms.len() > 1 {
            self.choose();
            (self.probes, self.stepped) = (PROBES, true);
            self.recheck_at = RECHECK;
        }
    }

    /// Returns the index of the arm with `decision`, which is made if it is new.
    fn arm(&mut self, decision: Decision) -> usize {
        let found = self.arms.iter().position(|arm| arm.decision == decision);
        found.unwrap_or_else(|| {
            self.arms.push(Arm::new(decision));
            self.arms.len() - 1
        })
    }

    /// Returns the size of the team of all threads.
    pub(super) fn most_threads(&self) -> u32 {
        self.arms[0].decision.threads
    }

    /// Returns the mean time with all threads, if that is what `decision` is and the mean is no guess.
    pub(super) fn usual_time(&self, decision: Decision) -> Option<f64> {
        let home = &self.arms[0];
        (home.decision == decision && home.count >= 3).then_some(home.mean)
    }

    /// Returns how the next invocation runs: as is tried, or held, if the account affords what that may lose.
    pub(super) fn next(&mut self, ledger: &Ledger) -> Decision {
        let wanted = self.probing.unwrap_or(self.held);
        self.now = match self.rough() || self.affords(wanted, ledger) {
            true => wanted,
            false if self.affords(self.held, ledger) => self.held,
            false => 0,
        };
        self.arms[self.now].decision
    }

    fn affords(&mut self, at: usize, ledger: &Ledger) -> bool {
        if at == 0 {
            return true;
        }
        let loss = match self.lost {
            Some((of, loss)) if of == at => loss,
            _ => {
                let loss = self.loss(at);
                self.lost = Some((at, loss));
                loss
            }
        };
        ledger.affords(loss)
    }

    /// Returns the most that an invocation with this arm loses beside all threads, as far as that is known; negative if it surely wins.
    fn loss(&self, at: usize) -> f64 {
        let (arm, home) = (&self.arms[at], &self.arms[0]);
        let Some((_, all, _)) = home.account().filter(|_| at != 0) else {
            return 0.0;
        };
        let Some((_, time, _)) = arm.account() else {
            return arm.worst;
        };
        let unsure = (self.unsure(at) + self.unsure(0)) * all;
        let loss = match time - all {
            // The model says that it cannot be slower, and it does not seem to be.
            loss if arm.worst <= 0.0 && loss <= unsure => (loss + unsure).min(0.0),
            loss => loss + unsure,
        };
        match home.is_cold() {
            // Nothing is won beside a first invocation, which was slow anyhow.
            true => loss.max(0.0),
            false => loss,
        }
    }

    /// Returns by how much the mean of an arm may be wrong, as a part of it.
    fn unsure(&self, at: usize) -> f64 {
        let Some((known, _, spread)) = self.arms[at].account() else {
            return 0.0;
        };
        // Few times say little of how much times vary.
        let spread = match known {
            0..16 => spread.max(self.noise),
            _ => spread,
        };
        // And how much they vary is not known well at first, either.
        let sure = SURE * (1.0 + FEW / self.noises);
        sure * spread / (known.clamp(1, 32) as f64).sqrt()
    }

    /// Returns whether the team that is held runs for long, and its times are as they were; `time` is one more of these.
    fn is_quiet(&self, time: f64) -> bool {
        self.probing.is_none()
            && self.invocations > EAGER
            && self.now == self.held
            && !self.rough()
            && self.noise <= MIXED
            && self.arms[self.now].is_settled(time)
    }

    /// Returns of how many invocations one is looked at closely if the engine does not ask about the others.
    fn closely(&self) -> u64 {
        match self.invocations {
            0..LATER => SILENT,
            _ => SILENT_LATER,
        }
    }

    /// Returns which of the next invocations the engine need not ask about: those between two that are looked at closely.
    pub(super) fn silence(&self) -> Option<Silence> {
        let arm = &self.arms[self.now];
        // Fewer threads must be surely better: nobody looks what the ledger affords.
        let quiet = self.is_quiet(arm.mean) && self.loss(self.now) <= 0.0;
        quiet.then(|| Silence {
            invocations: (self.closely() - 1 - self.invocations % self.closely()) as u32,
            each: SELDOM as u32,
            times: arm.usual(),
        })
    }

    /// Learns of invocations that have run with the team that is held. Returns its size.
    pub(super) fn pass(&mut self, passed: &Passed, ledger: &mut Ledger) -> u32 {
        self.invocations += u64::from(passed.count);
        self.silent = true;
        let home = self.arms[0].mean;
        let arm = &mut self.arms[self.now];
        ledger.earn(home.min(arm.mean) * f64::from(passed.count));
        arm.pass(passed, self.now == 0);
        arm.decision.threads
    }

    /// Learns the time of an invocation of which nothing more follows for now. Returns whether that holds: it is quiet. Most times are
    /// added to the mean together with the next one of [`SELDOM`].
    fn add_later(&mut self, decision: Decision, time: f64, ledger: &mut Ledger) -> bool {
        let (home, arm) = (&self.arms[0], &self.arms[self.now]);
        let closely = match self.silent {
            true => self.closely(),
            false => SELDOM,
        };
        let may = !self.invocations.is_multiple_of(closely)
            && arm.decision == decision
            && self.is_quiet(time)
            && home.is_settled(home.mean);
        if may {
            ledger.earn(home.mean.min(time));
            let paid = self.now == 0;
            self.arms[self.now].add_later(time, paid);
        }
        may
    }

    /// Learns the time of an invocation.
    pub(super) fn learn(
        &mut self,
        decision: Decision,
        time: f64,
        switch: Switch,
        idle: Option<f64>,
        ledger: &mut Ledger,
    ) {
        self.invocations += 1;
        if idle.is_none() && self.add_later(decision, time, ledger) {
            return;
        }
        self.lost = None;
        let current = self.now;
        let at = match self.arms[current].decision == decision {
            true => current,
            false => {
                let of_size = self.arms[current].decision.threads != decision.threads;
                self.arms[current].refused += match self.rough() && !of_size {
                    // The runtime cannot wait like this, and what runs instead may be terrible. That a region keeps its team may end.
                    true => 3,
                    false => 1,
                };
                if self.arms[current].refused >= 3 {
                    self.probing = self.probing.filter(|&probed| probed != current);
                    if self.held == current {
                        self.held = 0;
                    }
                }
                match self.arms.iter().position(|arm| arm.decision == decision) {
                    Some(at) => at,
                    None => return,
                }
            }
        };
        let of_interest = at == 0 || decision.threads == 1;
        if let Some(idle) = idle.filter(|_| of_interest && self.is_over() && !self.contended()) {
            self.look_idle(at, idle, ledger);
        }
        let (cold, rough) = (self.invocations == 1, self.rough());
        self.listen(at, time);
        if rough {
            self.book(at, time, ledger);
        }
        let changed = match self.mixed() {
            true => {
                self.arms[at].mix(time);
                false
            }
            false => self.arms[at].add(time, cold, rough),
        };
        if !rough {
            if changed {
                self.settle();
            }
            self.charge(at, time, ledger);
        }
        if changed && at == self.held && self.invocations >= self.mute_until {
            self.start_again();
        }
        if self.probing.is_none()
            && self.held == 0
            && self.arms[0].mean < SHORT * self.site.microsecond
        {
            return;
        }
        let eager = changed || self.invocations <= EAGER || self.invocations.is_multiple_of(SELDOM);
        let mut ended = false;
        if let Some(probed) = self.probing.filter(|&probed| self.is_tried(probed)) {
            (self.probing, ended) = (None, true);
            let margin = 0.01 + self.unsure(probed);
            self.arms[probed].confirm(margin);
        }
        if self.probing.is_none() && (eager || ended) {
            self.choose_after(switch);
            self.probing = self.propose(ledger);
        }
    }

    /// Returns whether invocations differ much from each other: the region works now on much, now on little, and the engine does not know
    /// on how much.
    fn mixed(&self) -> bool {
        self.noises >= MIXED_KNOWN && self.noise > MIXED
    }

    /// Learns how much times vary.
    fn listen(&mut self, at: usize, time: f64) {
        let arm = &self.arms[at];
        if arm.count > 0 && !arm.is_cold() {
            let distance = (time / arm.mean - 1.0).abs().min(1.0);
            self.noises = (self.noises + 1.0).min(NOISES);
            self.noise += (distance - self.noise) / self.noises;
        }
    }

    /// Corrects the account by what is known after an invocation.
    fn charge(&mut self, at: usize, time: f64, ledger: &mut Ledger) {
        let all = self.arms[0].account().map_or(time, |(_, all, _)| all);
        ledger.earn(all.min(time));
        if at != 0 {
            let arm = &mut self.arms[at];
            arm.plays += 1 + std::mem::take(&mut arm.unpaid);
        }
        let changed = match at {
            0 => 1..self.arms.len(),
            _ => at..at + 1,
        };
        for at in changed {
            if self.arms[at].plays == 0 {
                continue;
            }
            let charge = Ledger::charge(self.arms[at].plays, self.loss(at));
            let arm = &mut self.arms[at];
            ledger.correct(arm.charged, charge);
            arm.charged = charge;
            if arm.plays >= SETTLED {
                (arm.plays, arm.charged) = (0, 0.0);
            }
        }
    }

    /// What was charged so far is not corrected any more.
    fn settle(&mut self) {
        for arm in &mut self.arms {
            (arm.plays, arm.unpaid, arm.charged) = (0, 0, 0.0);
        }
    }

    /// Books what this invocation lost or won beside the team that the program asks for.
    fn book(&self, at: usize, time: f64, ledger: &mut Ledger) {
        let arm = &self.arms[at];
        if arm.decision == self.usual {
            return ledger.book(time, time);
        }
        let known = |decision: Decision| {
            self.arms
                .iter()
                .find(|arm| arm.decision == decision && arm.count > 0)
        };
        match known(self.usual) {
            // Nothing is won beside a first invocation, which was slow anyhow.
            Some(all) if all.is_cold() => ledger.book(time, all.mean.min(time)),
            Some(all) => ledger.book(time, all.mean),
            // It is not known what all threads would take. They are not tried because little good is expected of them.
            None => match self.arms[0].count {
                0 => ledger.book(time, time),
                _ => ledger.book(time, self.arms[0].mean.min(time)),
            },
        }
    }

    /// Forgets all but the team that is held.
    fn start_again(&mut self) {
        let changed = self.held != self.before;
        self.mute = match changed {
            true => MUTE,
            false => (self.mute * 2).min(MUTE_MAX),
        };
        self.mute_until = match changed {
            true => 0,
            false => self.invocations + self.mute,
        };
        self.before = self.held;
        self.settle();
        for (at, arm) in self.arms.iter_mut().enumerate() {
            if at != self.held {
                arm.outdate();
            }
        }
        self.fill_queue();
        (self.probes, self.stepped, self.wanted) = (0, false, f64::NEG_INFINITY);
        (self.gap, self.recheck_at) = (RECHECK, u64::MAX);
        self.probing = (self.held != 0).then_some(0);
    }

    /// Returns the part of a time by which two arms must differ to be told apart.
    fn margin(&self, a: usize, b: usize) -> f64 {
        let of = |at: usize| {
            let arm = &self.arms[at];
            // One time says nothing of how much times vary.
            let spread = match arm.known() {
                0 | 1 => self.arms[self.held].spread.max(self.arms[0].spread),
                2..16 if !self.rough() => arm.spread.max(self.noise),
                _ => arm.spread,
            };
            spread / (arm.known().clamp(1, 32) as f64).sqrt()
        };
        0.01 + 2.0 * (of(a) + of(b))
    }

    /// Returns whether enough is known of an arm that is probed.
    fn is_tried(&self, probed: usize) -> bool {
        let (arm, known) = (&self.arms[probed], self.arms[probed].known());
        if known == 0 {
            return false;
        }
        let best = self.best_time();
        let time = arm.estimate(self.rough()).unwrap_or(f64::INFINITY);
        if self.mixed() {
            // Invocations may have had much to do by chance, but not so much.
            let chance = 1.0 + MIXED_CHANCE * self.noise / (known as f64).sqrt();
            return known >= MIXED_TIMES || time > best * chance;
        }
        let least = match () {
            () if self.rough() && time > best * TERRIBLE => 1,
            () if self.rough() && time > best * POOR => 2,
            () if self.rough() => match arm.total >= ROUGH_TIME * self.site.microsecond {
                true => 3,
                false => ROUGH_TIMES,
            },
            () if time > best * HOPELESS && probed != 0 => 1,
            () if self.is_steady() => 1 + u64::from(probed == 0),
            () => 3,
        };
        let compared = match probed == self.held {
            true => 0,
            false => self.held,
        };
        let decided = match self.arms[compared].estimate(self.rough()) {
            Some(other) => {
                let far = (time / other - 1.0).abs();
                far > self.margin(probed, compared) || self.is_steady() || probed == compared
            }
            // There is nothing yet to decide between.
            None => true,
        };
        known >= UNDECIDED || (known >= least && decided)
    }

    /// Returns whether times of the same team hardly differ.
    fn is_steady(&self) -> bool {
        let arms = [&self.arms[0], &self.arms[self.held]];
        let known = arms.iter().filter(|arm| arm.known() >= 2 && !arm.is_cold());
        let spreads: Vec<f64> = known.map(|arm| arm.spread).collect();
        !spreads.is_empty() && spreads.iter().all(|&spread| spread < 0.005)
    }

    fn best_time(&self) -> f64 {
        let rough = self.rough();
        let times = self
            .arms
            .iter()
            .filter(|arm| arm.refused < 3)
            .filter_map(|arm| arm.estimate(rough));
        times.fold(f64::INFINITY, f64::min)
    }

    fn choose(&mut self) {
        self.choose_after(Switch::default());
    }

    /// Holds the arm with the least mean, if it is clearly better than the one that is held.
    fn choose_after(&mut self, switch: Switch) {
        let cost = |at: usize| {
            let extra = match self.arms[at].decision.threads == self.arms[0].decision.threads {
                true => switch.to_all,
                false => switch.to_fewer,
            };
            self.arms[at]
                .estimate(self.rough())
                .map(|time| time + extra)
        };
        let Some(held) = cost(self.held) else { return };
        let mut best = (self.held, held);
        for at in 0..self.arms.len() {
            let usable = self.arms[at].refused < 3 && at != self.held;
            let Some(time) = cost(at).filter(|_| usable) else {
                continue;
            };
            // Back to all threads as soon as these are as good; but beside neighbours they are good at one time, and bad at another.
            let needed = match at {
                0 if !self.contended() => held,
                _ => held * (1.0 - self.margin(at, self.held)),
            };
            if time < needed && time < best.1 {
                best = (at, time);
            }
        }
        if best.0 != self.held {
            self.held = best.0;
            self.gap = RECHECK;
            self.recheck_at = self.invocations
                + match self.arms[0].is_cold() {
                    true => RECHECK_COLD,
                    false => self.pause(),
                };
        }
    }

    /// Returns for how many invocations all threads are not tried again: the more, the dearer that is.
    fn pause(&self) -> u64 {
        /// Invocations of one try, about.
        const TRY: f64 = 3.0;
        let rough = self.rough();
        let times = (
            self.arms[0].estimate(rough),
            self.arms[self.held].estimate(rough),
        );
        let dear = match times {
            (Some(all), Some(held)) => (all / held - 1.0) * TRY / RECHECK_SHARE,
            _ => 0.0,
        };
        self.gap.max(dear.min(f64::from(u32::MAX)) as u64)
    }

    /// Returns the arm to try next.
    fn propose(&mut self, ledger: &Ledger) -> Option<usize> {
        let suggested = |decision: &Decision, arms: &[Arm]| {
            !arms
                .iter()
                .any(|arm| arm.decision == *decision && (arm.known() > 0 || arm.refused >= 3))
        };
        // What the situation suggests comes first, when the first team is known.
        while self.is_known(0) && !self.queue.is_empty() {
            let decision = self.queue.pop()?;
            // Beside neighbours it is no better if members spin where it is poor that they sleep.
            let is_poor =
                decision.threads == self.arms[0].decision.threads && self.sharing() == Some(false);
            if !is_poor && suggested(&decision, &self.arms) {
                return Some(self.arm(decision));
            }
        }
        if !self.is_known(0) {
            if self.invocations < self.shuns_until {
                return None;
            }
            return (self.rough() || self.arms[0].known() == 0).then_some(0);
        }
        if self.probes < PROBES && ledger.affords(self.wanted) {
            self.wanted = f64::INFINITY;
            if let Some(decision) = self.next_team(ledger) {
                // A series of successes may go on.
                self.probes += u32::from(self.held == self.last);
                self.last = self.held;
                self.wanted = f64::NEG_INFINITY;
                return Some(self.arm(decision));
            }
        }
        self.recheck(ledger)
    }

    fn is_known(&self, at: usize) -> bool {
        let arm = &self.arms[at];
        match self.rough() {
            true => arm.known() > 0 && self.is_tried(at),
            false => arm.known() > 0,
        }
    }

    /// Returns the team that the model suggests and the ledger affords; sets `wanted` if a suggestion is too dear now.
    fn next_team(&mut self, ledger: &Ledger) -> Option<Decision> {
        let points = self.arms.iter().filter_map(|arm| {
            let (shape, threads) = (arm.decision.shape, arm.decision.threads);
            let time = arm.estimate(self.rough())?;
            Some(Point {
                shape,
                threads,
                time,
            })
        });
        let model = Model::fit(self.key.class.0, points.collect());
        let best = self.best_time();
        // A first invocation says too much.
        let all = match self.arms[0].is_cold() {
            true => best,
            false => self.arms[0].estimate(self.rough()).unwrap_or(best),
        };
        let waiting = self.arms[self.held].decision.waiting;
        let mut found: Option<(f64, Decision, bool, f64)> = None;
        let step = self.next_step(&model, waiting);
        for decision in self.teams(&model, waiting) {
            let arm = self.arms.iter().find(|arm| arm.decision == decision);
            if arm.is_some_and(|arm| arm.known() > 0 || arm.refused >= 3) {
                continue;
            }
            let expected = model.expect(decision.shape, decision.threads);
            let mut loss = (expected.worst - all * 1.003).max(0.0);
            let mut likely = expected.likely;
            // What was worse until the region's times changed may be better now, if its own time is as it was.
            if let Some(before) = arm
                .and_then(|arm| arm.before)
                .filter(|&before| before < best * PROMISING)
            {
                (likely, loss) = (before, 0.0);
            }
            let is_step = Some(decision) == step;
            // The first step is taken whatever the model says, since it is what the model learns from.
            let promising = likely < best * PROMISING
                || (is_step && (!self.stepped || likely < best * HOPELESS));
            if !promising {
                continue;
            }
            let free = loss == 0.0;
            // The first time may have been a slow one: what costs something waits for another.
            if !free
                && (self.arms[0].known() < 2 || self.arms[0].is_cold() || !ledger.affords(loss))
            {
                self.wanted = self.wanted.min(loss);
                continue;
            }
            if found.is_none_or(|(least, ..)| likely < least) {
                found = Some((likely, decision, is_step, loss));
            }
        }
        let (_, decision, is_step, loss) = found?;
        self.stepped |= is_step;
        let at = self.arm(decision);
        self.arms[at].worst = loss;
        Some(decision)
    }

    /// Returns the teams that are looked at: for each number of threads on a core all cores, and the fewest with as many rounds; on a small
    /// machine every number of cores.
    fn teams(&self, model: &Model, waiting: Waiting) -> Vec<Decision> {
        let mut teams = Vec::new();
        for threads_per_core in 1..=self.site.threads_per_core {
            let all = self.site.cores;
            let tight = model.tight(all, threads_per_core);
            let fewer = match self.site.all().threads() <= 16 {
                true => (1..=all).collect(),
                false => vec![tight, all, all - all / 4, all / 2, all / 4],
            };
            for cores in fewer {
                let cores = model.tight(cores.max(1), threads_per_core);
                for cores in [cores, all] {
                    let shape = Shape {
                        cores,
                        threads_per_core,
                    };
                    let decision = team(shape, self.most, waiting);
                    if !teams.contains(&decision) {
                        teams.push(decision);
                    }
                }
            }
        }
        teams
    }

    /// Returns the next smaller team than all that were tried: one thread less on each core, then half of the cores.
    fn next_step(&self, model: &Model, waiting: Waiting) -> Option<Decision> {
        let tried = self.arms.iter().filter(|arm| arm.known() > 0);
        let least = tried
            .map(|arm| arm.decision)
            .min_by_key(|one| one.threads)?;
        let shape = match (least.shape.threads_per_core, least.shape.cores) {
            (1, 1) => return None,
            (1, cores) => Shape {
                cores: cores / 2,
                threads_per_core: 1,
            },
            (threads_per_core, _) => Shape {
                cores: model.tight(self.site.cores, threads_per_core - 1),
                threads_per_core: threads_per_core - 1,
            },
        };
        Some(team(shape, self.most, waiting))
    }

    /// Returns an arm whose time is too old, now and then.
    fn recheck(&mut self, ledger: &Ledger) -> Option<usize> {
        if self.recheck_at == u64::MAX {
            self.recheck_at = self.invocations + RECHECK_OTHERS;
        }
        if self.invocations < self.recheck_at {
            return None;
        }
        self.gap = (self.gap * 2).min(RECHECK_MAX);
        self.recheck_at = self.invocations + self.pause();
        if self.held != 0 {
            self.settle();
            self.arms[0].renew();
            return Some(0);
        }
        let best = self.arms[0].estimate(self.rough())?;
        let others = 1..self.arms.len();
        let near = others.filter_map(|at| {
            let time = self.arms[at].estimate(self.rough())?;
            (self.arms[at].refused < 3 && time < best * 1.5 && ledger.affords(time - best))
                .then_some((at, time))
        });
        let (at, _) = near.min_by(|a, b| a.1.total_cmp(&b.1))?;
        self.settle();
        let worst = self.arms[at].estimate(self.rough());
        self.arms[at].worst = worst.map_or(0.0, |time| (time - best).max(0.0));
        self.arms[at].renew();
        Some(at)
    }

    /// Returns why [`Variant::next`] is what it is.
    pub(super) fn why(&self) -> Why {
        let (all, held) = (&self.arms[0], &self.arms[self.held]);
        let what = match () {
            () if self.invocations == 0 => "not seen yet",
            () if self.probing == Some(0) => "measures all threads",
            () if self.probing.is_some() => "tries a team",
            () if self.held == 0 && all.mean < SHORT * self.site.microsecond => {
                "too short to decide"
            }
            () if self.held == 0 && self.contended() => "sleeps beside neighbours",
            () if self.held == 0 && self.arms.len() == 1 => {
                "all threads, nothing else was worth a try"
            }
            () if self.held == 0 => "all threads, the best that was tried",
            () => "the best that was tried",
        };
        let microseconds = |arm: &Arm| {
            arm.estimate(self.rough())
                .map(|time| time / self.site.microsecond)
        };
        let mut figures = vec![
            ("invocations", self.invocations as f64),
            (
                "teams tried",
                self.arms.iter().filter(|arm| arm.known() > 0).count() as f64,
            ),
        ];
        figures.extend(microseconds(all).map(|time| ("us with all", time)));
        if self.held != 0 {
            figures.extend(microseconds(held).map(|time| ("us with the choice", time)));
        }
        Why { what, figures }
    }

    /// Returns how sure the choice is.
    pub(super) fn confidence(&self) -> f64 {
        let held = &self.arms[self.held];
        let tried = self.arms.iter().filter(|arm| arm.known() > 0).count();
        if held.known() == 0 || (tried < 2 && self.arms[0].mean >= SHORT * self.site.microsecond) {
            return 0.0;
        }
        let sure = 1.0 - (0.5 * self.margin(self.held, 0) - 0.005).min(1.0);
        match self.probing {
            Some(_) => sure * 0.5,
            None => sure,
        }
    }
}

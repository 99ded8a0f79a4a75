//! Every policy that has an exact rule, as a list of the ready tasks by age and scans over it.

use super::split_mix_64;
use super::trace::Trace;

/// The rule of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Serial,
    Oldest,
    Newest,
    Groups,
    Sticky,
    Codes,
    LongestWay,
    StealAtRandom,
    StealNear,
    StealByGroups,
}

impl Rule {
    /// Returns the rule of the policy called `name`; `None` if it is not written down here.
    fn of(name: &str) -> Option<Rule> {
        Some(match name {
            "serial" => Rule::Serial,
            "fcfs" => Rule::Oldest,
            "lcfs" => Rule::Newest,
            "ts" => Rule::Groups,
            "ts-sticky" => Rule::Sticky,
            "slifo" => Rule::Codes,
            "critical-path" => Rule::LongestWay,
            "random-steal" => Rule::StealAtRandom,
            "near-steal" => Rule::StealNear,
            "locality-steal" => Rule::StealByGroups,
            _ => return None,
        })
    }
}

/// Returns whether [`Pool`] knows the policy called `name`. Rules may speak of distances; here all cores are equally far from each other.
pub(crate) fn knows(name: &str, equal_distances: bool) -> bool {
    Rule::of(name).is_some_and(|rule| {
        equal_distances || !matches!(rule, Rule::StealNear | Rule::StealByGroups)
    })
}

/// A ready task, by its place in the trace.
#[derive(Clone, Copy, Debug)]
struct Ready {
    task: usize,
    t: u32,
    s: u32,
    /// The core on which it became ready.
    core: Option<usize>,
    /// The core that it was mailed to.
    mailed: Option<usize>,
    /// What a thief sees of it.
    digest: u32,
}

/// The ready tasks, and what a policy remembers.
pub(crate) struct Pool<'a> {
    rule: Rule,
    trace: &'a Trace,
    cores: usize,
    /// The oldest first.
    ready: Vec<Ready>,
    /// T'.
    running: Option<u32>,
    /// The owner of an S group is its last entry.
    owners: Vec<(u32, usize)>,
    /// The digest of the task that each core took last, of those that are not 0; else 0.
    digests: Vec<u32>,
    /// The S group that each core took from last.
    last: Vec<Option<u32>>,
    /// Codes that have come up so far.
    codes: Vec<Option<String>>,
    /// The longest way from each task to the end.
    ways: Vec<u64>,
    /// Of the random numbers of each core.
    random: Vec<u64>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(
        policy: &str,
        trace: &'a Trace,
        ways: &[u64],
        cores: usize,
        seed: u64,
    ) -> Self {
        Pool {
            rule: Rule::of(policy).expect("a known policy"),
            trace,
            cores,
            ready: Vec::new(),
            running: None,
            owners: Vec::new(),
            digests: vec![0; cores],
            last: vec![None; cores],
            codes: Vec::new(),
            ways: ways.to_vec(),
            random: (0..cores as u64)
                .map(|core| seed.wrapping_add(core << 32))
                .collect(),
        }
    }

    /// A task became ready on a core, or before the run.
    pub(crate) fn ready(&mut self, core: Option<usize>, task: usize) {
        let found = &self.trace.tasks[task];
        let (mut t, mut s) = (found.t, found.s);
        if self.rule == Rule::Codes {
            if !self.codes.contains(&found.code) {
                self.codes.push(found.code.clone());
            }
            let rank = self.codes.iter().position(|code| *code == found.code);
            (t, s) = (1, 1 + rank.expect("just put there") as u32);
        }
        let mails = self.rule == Rule::StealByGroups && s != 0;
        self.ready.push(Ready {
            task,
            t,
            s,
            core,
            mailed: mails.then(|| (s as usize - 1) % self.cores),
            digest: if t != 0 || s != 0 {
                t % 65536
            } else {
                found.depth.min(65535)
            },
        });
    }

    /// The task that a core takes.
    pub(crate) fn next(&mut self, core: usize) -> Option<usize> {
        let last = self.ready.len().checked_sub(1)?;
        let place = match self.rule {
            Rule::Serial if core != 0 => return None,
            Rule::Serial | Rule::Oldest => 0,
            Rule::Newest => last,
            Rule::Groups => self.ts(core),
            Rule::Sticky | Rule::Codes => self.sticky(core),
            Rule::LongestWay => self.critical_path(),
            _ => self.steal(core),
        };
        let taken = self.ready.remove(place);
        if taken.digest != 0 {
            self.digests[core] = taken.digest;
        }
        self.last[core] = Some(taken.s);
        Some(taken.task)
    }

    fn owner(&self, s: u32) -> usize {
        let moved = self.owners.iter().rev().find(|(group, _)| *group == s);
        moved.map_or((s as usize - 1) % self.cores, |(_, owner)| *owner)
    }

    fn oldest(&self, which: impl Fn(&Ready) -> bool) -> Option<usize> {
        self.ready.iter().position(which)
    }

    fn newest(&self, which: impl Fn(&Ready) -> bool) -> Option<usize> {
        self.ready.iter().rposition(which)
    }

    fn ts(&mut self, core: usize) -> usize {
        let in_running = |ready: &Ready| Some(ready.t) == self.running;
        if self.oldest(in_running).is_none()
            && let Some(place) = self.oldest(|ready| ready.t != 0)
        {
            self.running = Some(self.ready[place].t);
        }
        let running = self.running.unwrap_or(0);
        let t = if self.oldest(|ready| ready.t == running).is_some() {
            running
        } else {
            0
        };
        let own = self.oldest(|ready| ready.t == t && ready.s != 0 && self.owner(ready.s) == core);
        let no_group = self.oldest(|ready| ready.t == t && ready.s == 0);
        if let Some(place) = own.or(no_group) {
            return place;
        }
        let place = self
            .oldest(|ready| ready.t == t)
            .expect("something is ready");
        self.owners.push((self.ready[place].s, core));
        place
    }

    fn sticky(&mut self, core: usize) -> usize {
        let tasks_in = |t: u32| self.ready.iter().any(|ready| ready.t == t);
        let t = match self.running {
            Some(t) if tasks_in(t) => t,
            _ => {
                let groups = self.ready.iter().map(|ready| ready.t);
                let lowest = groups.filter(|t| *t != 0).min();
                self.running = lowest.or(self.running);
                lowest.unwrap_or(0)
            }
        };
        let mut groups: Vec<u32> = self
            .ready
            .iter()
            .filter(|ready| ready.t == t)
            .map(|ready| ready.s)
            .collect();
        groups.sort_unstable();
        let in_last = self.last[core].filter(|s| *s != 0 && groups.contains(s));
        let own = groups.iter().find(|s| **s != 0 && self.owner(**s) == core);
        let s0 = groups.iter().find(|s| **s == 0);
        let s = match in_last.or(own.copied()).or(s0.copied()) {
            Some(s) => s,
            None => {
                let length = |s: u32| groups.iter().filter(|other| **other == s).count();
                let most = groups.iter().map(|s| length(*s)).max();
                let longest = groups.iter().find(|s| Some(length(**s)) == most);
                let s = *longest.expect("something is ready");
                self.owners.push((s, core));
                s
            }
        };
        let here = |ready: &Ready| (ready.t, ready.s) == (t, s);
        let place = if self.rule == Rule::Codes {
            self.newest(here)
        } else {
            self.oldest(here)
        };
        place.expect("the cell has a task")
    }

    fn critical_path(&self) -> usize {
        let ways = self.ready.iter().map(|ready| self.ways[ready.task]);
        let longest = ways.max();
        let place = self.oldest(|ready| Some(self.ways[ready.task]) == longest);
        place.expect("something is ready")
    }

    /// The oldest in a core's deque.
    fn oldest_of(&self, victim: usize) -> Option<usize> {
        self.oldest(|ready| ready.mailed.is_none() && ready.core == Some(victim))
    }

    fn draw(&mut self, core: usize, end: usize) -> usize {
        (split_mix_64(&mut self.random[core]) % end as u64) as usize
    }

    fn steal(&mut self, core: usize) -> usize {
        if let Some(mail) = self.oldest(|ready| ready.mailed == Some(core)) {
            return mail;
        }
        if let Some(own) = self.newest(|ready| ready.mailed.is_none() && ready.core == Some(core)) {
            return own;
        }
        let is_shared = |ready: &Ready| ready.mailed.is_none() && ready.core.is_none();
        if let Some(shared) = self.oldest(is_shared) {
            // Those that come along go to the new end of the deque, the newest first.
            let number = self.ready.iter().filter(|ready| is_shared(ready)).count();
            let mut along = Vec::new();
            while along.len() < (number / (4 * self.cores)).min(63) {
                let behind = self.ready.iter().skip(shared + 1).position(is_shared);
                let behind = behind.expect("fewer than there are");
                along.push(self.ready.remove(shared + 1 + behind));
            }
            for mut ready in along.into_iter().rev() {
                ready.core = Some(core);
                self.ready.push(ready);
            }
            return shared;
        }
        // Something is ready, in the deque or in the mailbox of another core.
        let others: Vec<usize> = (1..self.cores)
            .map(|far| (core + far) % self.cores)
            .collect();
        if others.iter().any(|other| self.oldest_of(*other).is_some()) {
            return match self.rule {
                Rule::StealAtRandom => self.steal_at_random(core),
                Rule::StealNear => self.steal_from_ring(core, &others),
                _ => {
                    let last = self.digests[core];
                    let liked = others.iter().filter_map(|other| self.oldest_of(*other));
                    let liked = liked
                        .into_iter()
                        .find(|place| self.ready[*place].digest == last);
                    match liked {
                        Some(place) if last != 0 => place,
                        _ => self.steal_from_ring(core, &others),
                    }
                }
            };
        }
        let mail = others
            .iter()
            .find_map(|other| self.oldest(|ready| ready.mailed == Some(*other)));
        mail.expect("something is ready")
    }

    fn steal_at_random(&mut self, core: usize) -> usize {
        for _ in 0..self.cores - 1 {
            let draw = self.draw(core, self.cores - 1);
            let victim = if draw >= core { draw + 1 } else { draw };
            if let Some(place) = self.oldest_of(victim) {
                return place;
            }
        }
        let place = (0..self.cores).find_map(|victim| self.oldest_of(victim));
        place.expect("a deque has a task")
    }

    /// All others are one ring, which begins with the next core.
    fn steal_from_ring(&mut self, core: usize, others: &[usize]) -> usize {
        let start = if others.len() == 1 {
            0
        } else {
            self.draw(core, others.len())
        };
        let ring = others[start..].iter().chain(&others[..start]);
        let place = ring.into_iter().find_map(|victim| self.oldest_of(*victim));
        place.expect("a deque has a task")
    }
}

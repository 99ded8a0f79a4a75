//! The engine: a governor, what it is told, and what it decides.

use std::path::PathBuf;
use std::time::Duration;

use super::clock::Clock;
use super::code::Looked;
use super::memory::{self, Code, Known, Memory};
use super::neighbours::Neighbours;
use super::settings::Settings;
use super::silence::{self, Passed, Team, Terms};
use super::site::site;
use super::table::Table;
use super::waits::Waits;
use super::{watch, writer};
use crate::abi::runtime;
use crate::board::{self, head, region};
use crate::system;
use tanada_policy::governors::regions::{self, Profile};
use tanada_policy::{
    Decision, Entry, Outcome, RegionGovernor, RegionId, RegionSite, Shape, Silence, Waiting,
};

/// A region keeps its team for so many invocations, in which its code shows whether it depends on it ([`watch`]).
const LEARNING: u64 = 2;

/// And for so many, if the program's own code asks for size and number.
const LEARNING_PAIR: u64 = 16;

/// An event of the time line covers at least this time, and at least this part of the run so far.
const EVENT: u64 = 100_000_000;
const EVENT_PART: u64 = 50;

/// Why a team is as it is takes some microseconds to write, and is written again after this time at the earliest, and at the end.
const EXPLAINED: u64 = 20_000_000;

/// The most measurements of a region that are kept for the profile.
const MEASURED: usize = 64;

/// Numbers of iterations are looked at in the first invocations, and then in one of so many.
const ITERATIONS_FIRST: u64 = 4;
const ITERATIONS_EACH: u64 = 16;

/// libgomp's waiting is left as it is for this long after the last region that wants it, since changing it starts and ends threads; unless
/// neighbours keep less than [`CALM`] of a hardware thread busy, since sleeping may be many times as slow.
const HOLD_WAITING: u64 = 100_000_000;
const CALM: f64 = 0.35;

/// Beside neighbours that keep more than this of a hardware thread busy, libgomp is not left to spin: a region with many barriers, each of
/// which waits for a member that has no processor, may take a thousand times as long, too long even for one try.
const CROWDED: f64 = 0.5;

/// A governor that measures is not asked for this long after the first region, unless the machine is crowded or the team is too large for
/// it: the system starts all threads of a team on one hardware thread, or on one that sleeps, and takes some time to spread them. Times
/// are of no use until then.
const YOUNG: u64 = 30_000_000;

/// So many invocations of a short region pass at a time until then, once its code has shown what it asks for.
const YOUNG_PASS: u32 = 15;

/// If the program asks for more threads than there are hardware threads, it is looked at how long these stand idle; not in regions that
/// are shorter than this, since the look takes half a microsecond.
const IDLE_LEAST: u64 = 200_000;

/// Invocations of regions that are shorter than this may pass without the engine: what it costs is a part of a short region that
/// counts, and nothing of a long one.
const SILENT: u64 = 200_000;

/// What holds for the whole run.
pub(super) struct Engine {
    clock: Clock,
    governor: Box<dyn RegionGovernor>,
    site: RegionSite,
    dry_run: bool,
    profile: Option<PathBuf>,
    table: Table,
    regions: Vec<Region>,
    modules: Vec<Module>,
    looked: Looked,
    neighbours: Option<Neighbours>,
    /// Hardware threads that neighbours keep busy, if nobody looks.
    assumed: Option<f64>,
    waits: Waits,
    /// When the first region began.
    first: Option<u64>,
    /// When a region last wanted that members sleep.
    slept: u64,
    current: Option<Current>,
    /// What holds for all regions: another load or way of waiting ends the [`silence`].
    common: (Option<f64>, Waiting),
}

/// A module with regions.
struct Module {
    path: PathBuf,
    base: usize,
    thread_data: bool,
    fingerprint: u64,
}

struct Region {
    record: writer::Record,
    /// Where its code is, if this run or the profile knows it.
    code: Option<Code>,
    /// Why it keeps its team.
    kept: usize,
    /// Whether an earlier run has shown whether it depends on its team.
    learnt: bool,
    /// Whether its code shares out a loop: if the program is plain, too, it does not depend on its team.
    shares: bool,
    invocations: u64,
    threads: u32,
    waiting: Waiting,
    changes: u64,
    iterations: Option<u64>,
    /// Invocations since the number of iterations changed, and when it is looked at next.
    same: u64,
    look_at: u64,
    event: Option<(writer::Event, u64)>,
    /// The time of the last invocation.
    last: u64,
    /// When it was last written why its team is as it is.
    explained: u64,
    measured: Profile,
}

/// The invocation that runs now.
struct Current {
    number: u32,
    address: usize,
    decision: Decision,
    /// Whether the governor is told how long it took, whether the decision is its own, and whether it was too soon to ask.
    told: bool,
    own: bool,
    unasked: bool,
    asked: u32,
    iterations: Option<u64>,
    looked_for_iterations: bool,
    /// What its members had run when it began, if that is looked at.
    ran: Option<Duration>,
    start: u64,
}

/// What holds for an invocation.
pub(super) struct Entered {
    /// Threads of the team; `None`: as the program asks.
    pub(super) threads: Option<u32>,
    /// Whether code of loops is to report its iterations.
    pub(super) iterations: bool,
}

impl Engine {
    /// Returns an engine, if there is something to decide.
    ///
    /// # Errors
    /// Returns why there is not: an index into [`board::ALONE`], or a text.
    pub(super) fn new(settings: &Settings) -> Result<Engine, String> {
        let (site, cpus) = site();
        let memory = match &settings.profile {
            Some(path) => {
                Memory::read(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => Memory::default(),
        };
        let fixed = settings.threads.unwrap_or(site.all().threads());
        let cores = fixed.min(u32::from(site.cores)).max(1);
        let shape = Shape {
            cores: cores as u16,
            threads_per_core: fixed.div_ceil(cores).min(u32::from(u16::MAX)) as u16,
        };
        let entry = regions::find(&settings.governor).map_err(|error| error.to_string())?;
        let wants = settings.threads.is_some() || settings.waiting != Waiting::AsIs;
        let governor = (entry.make)(
            &site,
            &regions::Settings {
                fixed: wants.then_some((shape, settings.waiting)),
                profile: memory.measured.clone(),
            },
        );
        let runtime = 1 + u64::from(runtime::is_llvm());
        writer::set(head::RUNTIME, runtime);
        writer::set(head::CORES, site.cores.into());
        writer::set(head::THREADS_PER_CORE, site.threads_per_core.into());
        writer::set(head::QUOTA, site.quota.to_bits());
        let reads = governor.reads_neighbours() && !settings.dry_run;
        let looks = reads && settings.neighbours.is_none();
        let neighbours = looks.then(|| Neighbours::new(cpus.clone()));
        let assumed = settings.neighbours.map(f64::from);
        let load = neighbours.as_ref().map_or(assumed, Neighbours::load);
        let is_calm = load.is_none_or(|load| load < CALM);
        let mut engine = Engine {
            clock: Clock::new(super::started()),
            neighbours,
            assumed,
            waits: Waits::new(cpus.len() as u32, reads && is_calm),
            governor,
            site,
            dry_run: settings.dry_run,
            profile: settings.profile.clone(),
            table: Table::new(board::REGIONS),
            regions: Vec::new(),
            modules: Vec::new(),
            looked: Looked::default(),
            first: None,
            slept: 0,
            current: None,
            common: (load, Waiting::AsIs),
        };
        for known in memory.known.iter().take(board::REGIONS) {
            let number = engine.new_region(Some(known.code.clone()), known.kept);
            engine.regions[number as usize].learnt = true;
        }
        for one in memory.measured.measured {
            if let Some(region) = engine.regions.get_mut(one.region.0 as usize) {
                region.measured.measured.push(one);
            }
        }
        Ok(engine)
    }

    /// Returns how many hardware threads neighbours keep busy, as far as that is known.
    fn load(&self) -> Option<f64> {
        match &self.neighbours {
            Some(neighbours) => neighbours.load(),
            None => self.assumed,
        }
    }

    fn new_region(&mut self, code: Option<Code>, kept: usize) -> u32 {
        let number = self.regions.len() as u32;
        self.regions.push(Region {
            record: writer::Record::new(number),
            code,
            kept,
            learnt: false,
            shares: false,
            invocations: 0,
            threads: 0,
            waiting: Waiting::AsIs,
            changes: 0,
            iterations: None,
            same: 0,
            look_at: 0,
            event: None,
            last: 0,
            explained: 0,
            measured: Profile::default(),
        });
        number
    }

    /// Returns the number of the region whose code is at `address`, which has no number yet; `None` if there are too many.
    #[cold]
    fn name(&mut self, address: usize) -> Option<u32> {
        let module = system::module_of(address);
        let (path, base, thread_data) = match module {
            Some(module) => (module.path, module.base, module.thread_data),
            None => (PathBuf::new(), 0, false),
        };
        let known = self.modules.iter().position(|one| one.base == base);
        let module = match known {
            Some(module) => module,
            None if self.modules.len() == board::MODULES => return None,
            None => {
                self.looked.look();
                if self.looked.uses_number() {
                    watch::hand_on();
                }
                writer::module(self.modules.len(), &path.to_string_lossy());
                self.modules.push(Module {
                    fingerprint: memory::fingerprint(&path),
                    path,
                    base,
                    thread_data,
                });
                self.modules.len() - 1
            }
        };
        let Module {
            path,
            base,
            thread_data,
            fingerprint,
        } = &self.modules[module];
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let code = Code {
            // A line of the profile.
            file: file.replace('\n', " "),
            fingerprint: *fingerprint,
            offset: (address - base) as u64,
        };
        let thread_data = *thread_data;
        let of_profile = |region: &Region| region.code.as_ref() == Some(&code);
        let number = match self.regions.iter().position(of_profile) {
            Some(number) => number as u32,
            None if self.regions.len() >= board::REGIONS => return None,
            None => self.new_region(Some(code.clone()), 0),
        };
        self.table.insert(address, number);
        let now = self.clock.now();
        let region = &mut self.regions[number as usize];
        if thread_data {
            region.kept = 4;
        } else if self.dry_run {
            region.kept = 5;
        }
        region.shares = self.looked.shares(address);
        region.record.set(region::MODULE, module as u64);
        region.record.set(region::OFFSET, code.offset);
        region.record.set(region::FIRST, now);
        Some(number)
    }

    /// Returns the team of the region at `address`; `None` if it is left alone. `of_loops` says that
    /// gcc made its code, whose loops ask for size and number.
    pub(super) fn enter(
        &mut self,
        address: usize,
        asked: u32,
        iterations: Option<u64>,
        of_loops: bool,
    ) -> Option<Entered> {
        let number = match self.table.get(address) {
            Some(number) => number,
            None => self.name(address).or_else(|| {
                writer::add(head::UNNAMED, 1);
                None
            })?,
        };
        let before = [silence::take(address), silence::take_last()];
        before.into_iter().flatten().for_each(|one| self.pass(one));
        let now = self.clock.now();
        if let Some(neighbours) = &mut self.neighbours {
            let clock = &mut self.clock;
            let clock = || Duration::from_nanos(clock.now());
            neighbours.look(Duration::from_nanos(now), asked, clock);
        }
        let neighbours = self.load();
        let region = &mut self.regions[number as usize];
        if region.kept == 0 || region.kept == 5 {
            let kept = watch::kept(number);
            if kept != 0 {
                region.kept = kept;
                region.record.set(region::KEPT, kept as u64);
            }
        }
        let learning = || match !of_loops && watch::has_pair(number) {
            true => LEARNING_PAIR,
            false => LEARNING,
        };
        let learns = region.invocations < LEARNING_PAIR
            && !region.learnt
            && !(region.shares && self.looked.is_plain())
            && region.invocations < learning();
        let (mut told, mut own) = (true, false);
        let mut decision = Decision {
            waiting: self.waits.now(),
            ..usual(&self.site, asked)
        };
        let young = now - *self.first.get_or_insert(now) < YOUNG && !region.learnt;
        let calm = neighbours.is_none_or(|load| load <= CROWDED);
        let fits = asked <= self.site.all().threads();
        let too_soon = young && calm && self.governor.reads_neighbours();
        let unasked = too_soon && fits;
        if unasked {
            told = false;
        } else if !self.dry_run && self.site.all().threads() > 1 {
            let chosen = self.governor.enter(&Entry {
                region: RegionId(number),
                asked,
                iterations: iterations.or(region.iterations),
                neighbours,
                now,
            });
            if region.kept == 0 && !learns && chosen.threads <= asked {
                (decision, own) = (chosen, true);
            }
            // That another team ran while the region learns is no refusal.
            told = !too_soon && (!learns || decision.threads == chosen.threads);
            // A team of one waits for nobody, so it is no reason to start or end what makes the others sleep.
            decision.waiting = match decision.threads {
                1 => chosen.waiting,
                _ => {
                    let crowded = neighbours.is_some_and(|load| load > CROWDED);
                    let wanted = match chosen.waiting {
                        Waiting::AsIs if crowded && !self.waits.is_cheap() => Waiting::Sleep(0),
                        wanted => wanted,
                    };
                    let calm = neighbours.is_none_or(|load| load < CALM);
                    wait(&mut self.waits, &mut self.slept, wanted, now, calm)
                }
            };
            own = own && decision == chosen;
        }
        let looks = match iterations {
            Some(_) => false,
            None => region.same < ITERATIONS_FIRST || region.invocations >= region.look_at,
        };
        if looks {
            region.look_at = region.invocations + ITERATIONS_EACH;
        }
        region.invocations += 1;
        let record = region.record;
        record.set(region::INVOCATIONS, region.invocations);
        if (region.threads, region.waiting) != (decision.threads, decision.waiting) {
            region.event = None;
            if region.threads != decision.threads {
                region.changes += u64::from(region.threads != 0);
                record.set(region::CHANGES, region.changes);
                record.set(region::ASKED, asked.into());
                record.set(region::THREADS, decision.threads.into());
                record.set(region::KEPT, region.kept as u64);
                explain(&*self.governor, number, region, now);
            }
            record.set(region::WAITING, writer::word(decision.waiting));
            (region.threads, region.waiting) = (decision.threads, decision.waiting);
        }
        let common = (neighbours, self.waits.now());
        if common != self.common {
            self.common = common;
            silence::expire();
        }
        watch::begin(number);
        self.current = Some(Current {
            number,
            address,
            decision,
            told,
            own,
            unasked: unasked && !learns,
            asked,
            iterations,
            looked_for_iterations: looks,
            ran: (!fits && region.last >= IDLE_LEAST).then(|| ran(decision.threads)),
            start: now,
        });
        Some(Entered {
            threads: (decision.threads != asked).then_some(decision.threads),
            iterations: looks,
        })
    }

    /// Learns of invocations that were not seen. On the board each counts as those of them that were measured, or as the last one that was.
    fn pass(&mut self, passed: Passed) {
        let time = self.clock.nanoseconds(passed.ticks.into());
        self.governor.passed(&tanada_policy::Passed {
            region: RegionId(passed.number),
            count: passed.count,
            measured: passed.measured,
            time,
        });
        let region = &mut self.regions[passed.number as usize];
        let count = u64::from(passed.count);
        let each = time
            .checked_div(passed.measured.into())
            .unwrap_or(region.last);
        region.invocations += count;
        region.record.set(region::INVOCATIONS, region.invocations);
        region.record.passed(region.threads, count, each);
        if let Some((event, _)) = region.event {
            event.passed(count, each);
        }
    }

    /// The invocation has ended; its largest loop had `seen` iterations.
    pub(super) fn leave(&mut self, seen: Option<u64>) {
        watch::end();
        let Some(current) = self.current.take() else {
            return;
        };
        let now = self.clock.now();
        let time = now - current.start;
        let neighbours = self.load();
        let region = &mut self.regions[current.number as usize];
        let iterations = match current.looked_for_iterations {
            true => seen,
            false => current.iterations.or(region.iterations),
        };
        match iterations == region.iterations {
            true => region.same += 1,
            false => {
                (region.iterations, region.same) = (iterations, 0);
                let word = iterations.map_or(0, |count| count.saturating_add(1));
                region.record.set(region::ITERATIONS, word);
            }
        }
        let outcome = Outcome {
            region: RegionId(current.number),
            decision: current.decision,
            time,
            iterations,
            idle: current
                .ran
                .map(|before| idle(before, time, current.decision.threads, &self.site)),
            neighbours,
            now,
        };
        let mut terms = None;
        if current.unasked && time < SILENT {
            terms = Some(Terms::unmeasured(YOUNG_PASS));
        } else if !self.dry_run && current.told {
            self.governor.leave(&outcome);
            if current.own && time < SILENT && outcome.idle.is_none() {
                let silence = self.governor.silence(outcome.region);
                terms = silence.map(|silence| terms_of(silence, &self.clock));
            }
        }
        if self.profile.is_some() && region.measured.measured.len() < MEASURED {
            region.measured.add(&outcome);
        }
        // A region that takes so many times as long as its last invocation, and no shorter time than this.
        const LONG: u64 = 3;
        const LONG_LEAST: u64 = 100_000;
        if time > LONG_LEAST
            && region.last > 0
            && time / LONG > region.last
            && let Some(neighbours) = &mut self.neighbours
        {
            neighbours.hurry(Duration::from_nanos(now));
        }
        region.last = time;
        region.record.measured(current.decision.threads, time);
        let event = match region.event {
            Some((event, start)) if now - start < EVENT.max(now / EVENT_PART) => {
                Some((event, start))
            }
            _ => {
                let Decision {
                    threads, waiting, ..
                } = current.decision;
                let event = writer::Event::new(current.number, threads, waiting, current.start);
                explain(&*self.governor, current.number, region, now);
                event.map(|event| (event, current.start))
            }
        };
        if let Some((event, _)) = event {
            event.add(time, now, neighbours);
        }
        region.event = event;
        writer::set(head::LAST, now);
        if let Some(terms) = terms {
            let team = Team {
                asked: current.asked,
                iterations: current.iterations,
                threads: current.decision.threads,
            };
            let other = silence::allow(current.address, current.number, team, terms);
            other.into_iter().for_each(|other| self.pass(other));
        }
    }

    /// The invocation that ran has been left in a way that was not seen.
    pub(super) fn abandon(&mut self) {
        watch::end();
        self.current = None;
    }

    /// The program ends.
    pub(super) fn finish(&mut self) {
        silence::take_all().for_each(|one| self.pass(one));
        for (number, region) in (0..).zip(&self.regions) {
            if region.invocations > 0 {
                let kept = match region.kept {
                    0 => watch::kept(number),
                    kept => kept,
                };
                region.record.set(region::KEPT, kept as u64);
                write_why(&*self.governor, number, region);
            }
        }
        if let Some(neighbours) = &self.neighbours {
            writer::set(head::LOOKS, neighbours.looks);
            writer::set(head::LOOKING, neighbours.cost.as_nanos() as u64);
        }
        writer::set(head::WAITS, self.waits.changes);
        if let Some(path) = &self.profile {
            let memory = self.memory();
            if let Err(error) = memory.write(path) {
                writer::trouble(&format!("{}: {error}", path.display()));
            }
        }
        writer::set(head::END, self.clock.now());
    }

    fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        for (number, region) in (0..).zip(&self.regions) {
            let Some(code) = region.code.clone() else {
                continue;
            };
            let kept = match region.kept {
                // That the run only observed is not the region's.
                5 => watch::kept(number),
                0 => watch::kept(number),
                kept => kept,
            };
            let new = RegionId(memory.known.len() as u32);
            memory.known.push(Known { code, kept });
            let measured = region.measured.measured.iter();
            memory
                .measured
                .measured
                .extend(measured.map(|one| regions::Measured {
                    region: new,
                    ..*one
                }));
        }
        memory
    }
}

/// Writes why a region's team is as it is, unless that was done a short time ago: a region may change its team often.
fn explain(governor: &dyn RegionGovernor, number: u32, region: &mut Region, now: u64) {
    if region.invocations <= 1 || now - region.explained >= EXPLAINED {
        region.explained = now;
        write_why(governor, number, region);
    }
}

#[cold]
fn write_why(governor: &dyn RegionGovernor, number: u32, region: &Region) {
    if region.kept == 0 {
        let id = RegionId(number);
        region.record.why(&governor.why(id).to_string());
        let confidence = governor.confidence(id).to_bits();
        region.record.set(region::CONFIDENCE, confidence);
    }
}

/// Returns on which terms invocations may pass that are not seen. Without ticks none is measured, so fewer may.
fn terms_of(silence: Silence, clock: &Clock) -> Terms {
    let ticks = |time| {
        let ticks = clock.ticks(time)?;
        u32::try_from(ticks).ok()
    };
    let (least, most) = silence.times;
    match ticks(least).zip(ticks(most)) {
        Some(ticks) => Terms {
            left: silence.invocations,
            each: silence.each,
            ticks,
        },
        None => Terms::unmeasured(silence.invocations % silence.each.max(1)),
    }
}

/// Returns how long the members of a team of `threads` have run so far, others included that ran meanwhile. A thread alone counts for
/// itself: threads of the team before it may still spin.
fn ran(threads: u32) -> Duration {
    match threads {
        1 => system::time_of_thread(),
        _ => system::time_of_process(),
    }
}

/// Returns the part of the time of its hardware threads in which no member of a team of `threads` ran, of an invocation that took `time`
/// and began when these had run for `before`.
fn idle(before: Duration, time: u64, threads: u32, site: &RegionSite) -> f64 {
    let ran = ran(threads).saturating_sub(before).as_nanos() as f64;
    let hardware = threads.min(site.all().threads()).max(1);
    (1.0 - ran / (time as f64 * f64::from(hardware)).max(1.0)).max(0.0)
}

/// Lets members of teams wait as a region wants it. Returns how they do. `calm` says that nobody disturbs them.
#[inline]
fn wait(waits: &mut Waits, slept: &mut u64, wanted: Waiting, now: u64, calm: bool) -> Waiting {
    if wanted == waits.now() {
        if wanted != Waiting::AsIs {
            *slept = now;
        }
        return wanted;
    }
    let hold = !waits.is_cheap() && !calm;
    if hold && wanted == Waiting::AsIs && now - *slept < HOLD_WAITING {
        return wanted;
    }
    *slept = now;
    waits.set(wanted)
}

/// Returns the team that runs if nobody chooses.
fn usual(site: &RegionSite, asked: u32) -> Decision {
    let cores = asked.clamp(1, u32::from(site.cores.max(1)));
    Decision {
        shape: Shape {
            cores: cores as u16,
            threads_per_core: asked.div_ceil(cores).clamp(1, u32::from(u16::MAX)) as u16,
        },
        threads: asked,
        waiting: Waiting::AsIs,
    }
}

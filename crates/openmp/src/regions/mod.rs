//! Parallel regions: how many threads run each.
//!
//! A region is known by the address of its code, the outlined function. [`begin`] and [`end`] surround the runtime's own function. One
//! region is governed at a time, and only outermost ones: a flag says so, which nobody waits for; all others pass through as the program
//! asks.

mod clock;
mod code;
mod engine;
mod memory;
mod neighbours;
mod settings;
mod silence;
mod site;
mod table;
mod waits;
pub(crate) mod watch;
mod writer;

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use crate::abi::runtime;
use crate::board::{self, head};
use crate::system;
use engine::Engine;
use settings::Settings;

/// The variable with the settings.
const VARIABLE: &str = "TANADA_OMP";

/// libgomp's variable for how long members spin, which it has read before this library is loaded; and about a millisecond of it.
const SPINS: &str = "GOMP_SPINCOUNT";
const SHORT: &str = "100000";

/// The variable with the number of the process whose program this library has started again.
const AGAIN: &str = "TANADA_OMP_AGAIN";

const OFF: u8 = 0;
const READY: u8 = 1;
const ON: u8 = 2;

/// Whether regions are governed: from `READY` on, the first one makes the engine.
static MODE: AtomicU8 = AtomicU8::new(OFF);

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static STARTED: OnceLock<Instant> = OnceLock::new();

/// A value on cache lines of its own. What only the thread reads that enters regions, and what all members of a team read, must not share
/// one: each region would fetch it from another processor twice.
#[repr(align(128))]
struct Line<T>(T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Held only while a region begins or ends, never while code of the program runs.
static ENGINE: Line<Mutex<Option<Box<Engine>>>> = Line(Mutex::new(None));

/// The thread whose region is governed now; 0: none.
static OWNER: Line<AtomicI32> = Line(AtomicI32::new(0));

/// The governed region runs on one thread, and the program asked for more.
static SERIAL: AtomicBool = AtomicBool::new(false);

/// Whether loops are to report their iterations, and the most that they have reported, plus 1.
static WANTED: Line<AtomicBool> = Line(AtomicBool::new(false));
static ITERATIONS: Line<AtomicU64> = Line(AtomicU64::new(0));

/// Regions that were left alone since the owner was looked for.
static MISSED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The system's number of this thread, once it is known.
    static THREAD: Cell<i32> = const { Cell::new(0) };
}

/// An invocation of a region that has begun.
pub(crate) struct Token {
    threads: Option<u32>,
    governed: bool,
    end: End,
}

/// What is to be done at its end, if it is governed.
#[derive(Clone, Copy)]
enum End {
    /// The engine sees it.
    Seen,
    /// The engine does not: whether it is measured; and, of a team that is smaller than the program asks for, that it was watched.
    Passed(bool),
    Watched(bool),
}

/// The region is left alone.
const PASS: Token = Token {
    threads: None,
    governed: false,
    end: End::Passed(false),
};

impl Token {
    /// Returns the number of threads to ask the runtime for; `None` to leave it as it is.
    pub(crate) fn threads(&self) -> Option<u32> {
        self.threads
    }
}

/// The library has been loaded: reads the settings.
pub(crate) fn load() {
    let _ = STARTED.set(Instant::now());
    let Some(text) = std::env::var_os(VARIABLE) else {
        return;
    };
    let settings = match Settings::read(&text.to_string_lossy()) {
        // The program may go to another folder before it ends.
        Ok(settings) => Settings {
            profile: settings
                .profile
                .map(|path| std::path::absolute(&path).unwrap_or(path)),
            ..settings
        },
        Err(what) => return eprintln!("tanada: {VARIABLE}: {what}"),
    };
    spin(&settings);
    if settings.own > 0 {
        forget(settings.own);
    }
    if settings.spins {
        system::set_variable(SPINS, None);
    }
    if let Some(board) = &settings.board
        && !writer::open(board)
    {
        return eprintln!(
            "tanada: {VARIABLE}: {}: it cannot be mapped",
            board.display()
        );
    }
    writer::set(head::LOADED, 1);
    writer::set(head::PROCESS, std::process::id().into());
    writer::set(head::VERSION, board::VERSION);
    writer::set(head::MAGIC, board::MAGIC);
    let _ = SETTINGS.set(settings);
    system::on_fork(forked);
    MODE.store(READY, Ordering::Release);
}

/// If libgomp's members sleep at once, as the user wants, the governor cannot let them spin while nobody else wants a processor: libgomp
/// knows from its variables alone how long. So the program is started again with them, once, before any of its own code has run.
fn spin(settings: &Settings) {
    let own = std::process::id().to_string();
    if std::env::var(AGAIN).is_ok_and(|process| process == own) {
        system::set_variable(AGAIN, None);
        system::set_variable(SPINS, None);
        return;
    }
    let policy = std::env::var("OMP_WAIT_POLICY").unwrap_or_default();
    let sleeps = policy.trim().eq_ignore_ascii_case("passive");
    if sleeps && settings.lets_spin() && std::env::var_os(SPINS).is_none() && runtime::is_gcc() {
        system::set_variable(AGAIN, Some(own.as_ref()));
        system::set_variable(SPINS, Some(SHORT.as_ref()));
        system::start_again();
        system::set_variable(AGAIN, None);
        system::set_variable(SPINS, None);
    }
}

/// Programs that this one starts are not governed: their environment is as if this library had not been loaded.
fn forget(own: usize) {
    const PRELOAD: &str = "LD_PRELOAD";
    let preload = std::env::var_os(PRELOAD).unwrap_or_default();
    let preload = preload.to_string_lossy();
    let others: Vec<&str> = preload.split([':', ' ']).skip(own).collect();
    let others = OsString::from(others.join(":"));
    system::set_variable(PRELOAD, (!others.is_empty()).then_some(&others));
    system::set_variable(VARIABLE, None);
}

/// Returns when the library was loaded.
fn started() -> Instant {
    *STARTED.get_or_init(Instant::now)
}

/// In a forked child all regions pass through: it has one thread of many, and its runtime may be in any state.
extern "C" fn forked() {
    MODE.store(OFF, Ordering::Relaxed);
    writer::add(head::FORKS, 1);
}

/// The program ends.
pub(crate) fn finish() {
    if MODE.swap(OFF, Ordering::AcqRel) == OFF {
        return;
    }
    if let Ok(mut engine) = ENGINE.try_lock()
        && let Some(engine) = &mut *engine
    {
        engine.finish();
    }
}

/// Leaves the whole program alone from now on; `why` is an index into [`board::ALONE`].
#[cold]
pub(crate) fn leave_alone(why: usize) {
    if MODE.load(Ordering::Relaxed) != OFF {
        writer::set(head::ALONE, why as u64);
        MODE.store(OFF, Ordering::Relaxed);
    }
}

/// Returns whether an invocation of the region at `outlined` is to go to the runtime as it comes, and nothing is to be done at its end. If
/// not, [`begin`] says how it runs.
#[inline]
pub(crate) fn pass_by(outlined: usize, iterations: Option<u64>) -> bool {
    silence::pass_by(outlined, iterations)
}

/// The program says how many threads its next regions have. What it says before the first one holds for most programs to the end.
pub(crate) fn sized() {
    if MODE.load(Ordering::Relaxed) == ON {
        none_passes_by();
    }
}

/// From now on the runtime is to be called in another way for each region.
pub(crate) fn none_passes_by() {
    silence::none_passes_by();
}

/// A thread enters the region whose code is at the address `outlined`; `asked` returns how many threads would run it, and `of_loops` says
/// that gcc made the code, whose loops ask for the size of the team.
#[inline]
pub(crate) fn begin(
    outlined: usize,
    asked: impl FnOnce() -> u32,
    iterations: Option<u64>,
    of_loops: bool,
) -> Token {
    if MODE.load(Ordering::Acquire) == OFF {
        return PASS;
    }
    let me = match THREAD.get() {
        0 => name_thread(),
        known => known,
    };
    if let Err(owner) = OWNER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        && let Some(token) = busy(owner, me)
    {
        return token;
    }
    let token = govern(outlined, asked, iterations, of_loops);
    if !token.governed {
        OWNER.store(0, Ordering::Release);
    }
    token
}

#[cold]
fn name_thread() -> i32 {
    THREAD.set(system::this_thread());
    THREAD.get()
}

/// Returns what to do while a region of `owner` is governed; `None` if it is no more.
#[cold]
fn busy(owner: i32, me: i32) -> Option<Token> {
    /// Regions that pass through between two looks whether the owner has ended inside of its region.
    const LOOK: u32 = 256;
    let level = runtime::level();
    if owner == me && level == 0 {
        // Its region was left by a jump.
        if let Ok(mut engine) = ENGINE.try_lock()
            && let Some(engine) = &mut *engine
        {
            engine.abandon();
        }
        return None;
    }
    if level > 0 {
        watch::nested();
    }
    writer::add(head::PASSED, 1);
    if MISSED.fetch_add(1, Ordering::Relaxed) % LOOK == LOOK - 1 && !system::is_alive(owner) {
        let _ = OWNER.compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed);
    }
    // Inside of a region with more threads the runtime would have run it on one.
    let serial = owner == me && SERIAL.load(Ordering::Relaxed) && runtime::active_levels() == 1;
    Some(Token {
        threads: serial.then_some(1),
        ..PASS
    })
}

/// As [`begin`], by the thread that has the flag.
#[inline]
fn govern(
    outlined: usize,
    asked: impl FnOnce() -> u32,
    iterations: Option<u64>,
    of_loops: bool,
) -> Token {
    // Of a region that is not governed, because another one is, a member may come here.
    if runtime::level() != 0 {
        return PASS;
    }
    let asked = asked();
    if asked <= 1 {
        return PASS;
    }
    if let Some(passing) = silence::pass(outlined, asked, iterations) {
        let smaller = passing.threads != asked;
        SERIAL.store(smaller && passing.threads == 1, Ordering::Relaxed);
        if smaller {
            watch::begin(passing.number);
        }
        if passing.measured {
            silence::measure();
        }
        return Token {
            threads: smaller.then_some(passing.threads),
            governed: true,
            end: match (smaller, passing.measured) {
                (true, _) => End::Watched(passing.measured),
                (false, measured) => End::Passed(measured),
            },
        };
    }
    see(outlined, asked, iterations, of_loops)
}

/// As [`govern`], if the engine is to see the invocation. It is kept apart: what surrounds those that pass has to be short, since the
/// program's data drive code out of the caches, too.
#[inline(never)]
fn see(outlined: usize, asked: u32, iterations: Option<u64>, of_loops: bool) -> Token {
    let Ok(mut engine) = ENGINE.try_lock() else {
        return PASS;
    };
    if MODE.load(Ordering::Relaxed) == READY && !make(&mut engine) {
        return PASS;
    }
    let Some(engine) = &mut *engine else {
        return PASS;
    };
    let Some(entered) = engine.enter(outlined, asked, iterations, of_loops) else {
        return PASS;
    };
    SERIAL.store(entered.threads == Some(1), Ordering::Relaxed);
    if entered.iterations {
        WANTED.store(true, Ordering::Relaxed);
    }
    Token {
        threads: entered.threads,
        governed: true,
        end: End::Seen,
    }
}

/// Makes the engine. Returns whether there is one.
#[cold]
fn make(engine: &mut Option<Box<Engine>>) -> bool {
    let made = SETTINGS.get().map(Engine::new);
    match made {
        Some(Ok(made)) => {
            *engine = Some(Box::new(made));
            MODE.store(ON, Ordering::Release);
            true
        }
        Some(Err(what)) => {
            writer::trouble(&what);
            eprintln!("tanada: {VARIABLE}: {what}");
            MODE.store(OFF, Ordering::Release);
            false
        }
        None => false,
    }
}

/// The invocation has ended.
#[inline]
pub(crate) fn end(token: Token) {
    if !token.governed {
        return;
    }
    match token.end {
        End::Seen => seen(),
        End::Passed(false) => {}
        End::Passed(true) => silence::measured(),
        End::Watched(measured) => {
            watch::end();
            if measured {
                silence::measured();
            }
        }
    }
    OWNER.store(0, Ordering::Release);
}

/// As [`end`], of an invocation that the engine sees.
#[inline(never)]
fn seen() {
    // Most regions leave the line to their members' processors, which read it.
    let seen = match WANTED.load(Ordering::Relaxed) {
        true => {
            WANTED.store(false, Ordering::Relaxed);
            ITERATIONS.swap(0, Ordering::Relaxed).checked_sub(1)
        }
        false => None,
    };
    // Only a thread that was forked meanwhile finds it held.
    if let Ok(mut engine) = ENGINE.try_lock()
        && let Some(engine) = &mut *engine
    {
        engine.leave(seen);
    }
}

/// Returns whether the code of a loop is to report its iterations.
#[inline]
pub(crate) fn wants_iterations() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// The governed region has a loop with so many iterations.
pub(crate) fn iterations(count: Option<u64>) {
    let word = count.map_or(0, |count| count.saturating_add(1));
    // Every member comes here; most find that nothing is left to do.
    if ITERATIONS.load(Ordering::Relaxed) < word {
        ITERATIONS.fetch_max(word, Ordering::Relaxed);
    }
}

//! The callbacks, and what they share.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tanada_trace::import::TASK_MARK;
use tanada_trace::threads::spool::Spool;
use tanada_trace::threads::{InstructionSet, Sync};

use crate::list::List;
use crate::marks::{self, Call, Mark};
use crate::qemu::{Block, Counting, Functions, Id, Instruction};
use crate::settings::{From, Settings};
use crate::thread::Recorded;

/// The version of the interface, which the emulator reads before it calls `qemu_plugin_install`. The command finds the words behind the
/// version in this library and writes the version that the installed emulator accepts.
#[repr(C)]
pub struct Version {
    version: c_int,
    place: [u8; 28],
}

/// See [`Version`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: Version = Version {
    version: 1,
    place: *b"tanada-probe-version-is-here",
};

/// The most threads that run at once.
const MOST_VCPUS: usize = 1 << 16;

/// The threads by vcpu; null if the thread is not recorded, or not known yet.
static THREADS: [AtomicPtr<Recorded>; MOST_VCPUS] =
    [const { AtomicPtr::new(null_mut()) }; MOST_VCPUS];

/// Whether the recording has not begun, is open, or has ended.
static WINDOW: AtomicU8 = AtomicU8::new(OPEN);
const BEFORE: u8 = 0;
const OPEN: u8 = 1;
const AFTER: u8 = 2;

/// Marks of `guest.c` came: threads say themselves when they start.
static SYNCHRONISED: AtomicBool = AtomicBool::new(false);

/// Threads that have begun or are about to, if they do not say themselves when they start.
static VCPUS: AtomicU32 = AtomicU32::new(0);

/// Recorded threads that have not ended.
static LIVE: AtomicU32 = AtomicU32::new(0);

/// Threads that have begun, without those that the library was about to create.
static UNKNOWN: AtomicI32 = AtomicI32::new(0);

/// The counters of [`Settings::count`].
static COUNTERS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Threads that are in [`ended`].
static ENDING: AtomicU32 = AtomicU32::new(0);

/// How long the last thread waits for those in [`ended`], in milliseconds.
const ENDING_MS: u32 = 10_000;

/// Sum of [`Recorded::parts`] of the threads that have ended.
static PARTS: AtomicU64 = AtomicU64::new(0);

static SHARED: OnceLock<Shared> = OnceLock::new();

struct Shared {
    id: Id,
    qemu: Functions,
    counting: Option<Counting>,
    set: InstructionSet,
    settings: Settings,
    spool: Spool,
    /// Blocks of code by address, bytes and instructions: the same code is translated again now and then.
    codes: Mutex<HashMap<(u64, u32, u32), &'static Code>>,
    /// Who creates the thread with this number.
    parents: Mutex<HashMap<u32, u32>>,
    /// Threads that are about to begin and do not say so themselves: number and parent.
    cloned: Mutex<VecDeque<(u32, u32)>>,
    /// Recorded signals and broadcasts by the condition's address.
    signals: Mutex<HashMap<u64, u32>>,
    /// The list of the runtime's marks, if tasks are recorded.
    tasks: Option<List>,
}

/// A block of code, as the callback at its begin finds it.
struct Code {
    number: usize,
    place: (u64, u32, u32),
}

/// Bits of a number of instructions within a block: the emulator translates at most 512 at once.
const POSITION: u32 = 12;

impl Code {
    fn pointer(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns what the callback of an access gets, as a pointer: the block's number, and how many of its instructions have begun.
    fn place_of(&self, position: usize) -> *mut c_void {
        without_provenance_mut(self.number << POSITION | position)
    }
}

/// Begins. The emulator calls this once, before the program runs.
///
/// # Safety
/// `info` and `words` are those that the emulator passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const *const c_char,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    // SAFETY: `words` holds `count` strings, and `info` begins with the name of the target.
    let (words, target) = unsafe {
        let word = |i| CStr::from_ptr(*words.add(i)).to_string_lossy().into_owned();
        let words: Vec<String> = (0..usize::try_from(count).unwrap_or(0)).map(word).collect();
        (words, CStr::from_ptr(*info).to_string_lossy().into_owned())
    };
    match install(id, words.into_iter(), &target) {
        Ok(()) => 0,
        Err(what) => {
            eprintln!("tanada: {what}");
            1
        }
    }
}

/// Removes the file by which LLVM's OpenMP runtime finds out whether this process has it twice. A process that was killed leaves its own,
/// and if one with the same ID finds that, the runtime allocates memory to see whether it is alive: then the same program has other
/// addresses. A recording that ends early kills its process, too.
fn unregister_runtime() {
    // SAFETY: no pointers.
    let user = unsafe { libc::getuid() };
    let process = std::process::id();
    // In most cases there is none.
    let _ = std::fs::remove_file(format!("/dev/shm/__KMP_REGISTERED_LIB_{process}_{user}"));
}

fn install(id: Id, words: impl Iterator<Item = String>, target: &str) -> Result<(), String> {
    unregister_runtime();
    let settings = Settings::read(words)?;
    let missing =
        |name| format!("the emulator has no `{name}`: its plugin interface is another one");
    let qemu = Functions::find().map_err(missing)?;
    let counting = match settings.count {
        true => Some(Counting::find().map_err(missing)?),
        false => None,
    };
    let set = match target {
        "x86_64" => InstructionSet::X86_64,
        "arm" => InstructionSet::Arm,
        "aarch64" => InstructionSet::Aarch64,
        "mips" | "mipsel" => InstructionSet::Mips,
        "riscv64" => InstructionSet::Riscv64,
        other => return Err(format!("programs for {other} cannot be recorded")),
    };
    // SAFETY: changes what happens to this process when the command is killed: without that it would go on, and fill the disk.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let spool = Spool::create(&settings.spool).map_err(|error| format!("the spool: {error}"))?;
    let tasks = settings.tasks.as_deref().map(List::create).transpose();
    let tasks = tasks.map_err(|error| format!("the list of marks: {error}"))?;
    WINDOW.store(
        if settings.from == From::Start {
            OPEN
        } else {
            BEFORE
        },
        Relaxed,
    );
    let shared = Shared {
        id,
        qemu,
        counting,
        set,
        settings,
        spool,
        codes: Mutex::default(),
        parents: Mutex::default(),
        cloned: Mutex::default(),
        signals: Mutex::default(),
        tasks,
    };
    if SHARED.set(shared).is_err() {
        return Err("the plugin is loaded twice".to_owned());
    }
    qemu.register(id, translated, called, [began, ended], at_end);
    say("loaded");
    Ok(())
}

fn shared() -> &'static Shared {
    SHARED.get().expect("callbacks come after `install`")
}

/// Writes a line of the status.
fn say(line: &str) {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&shared().settings.status);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("tanada: the recorder's status: {error}");
    }
}

/// Says why the recording failed, and ends the process.
#[cold]
fn fail(line: &str) -> ! {
    say(line);
    unregister_runtime();
    // SAFETY: ends the process at once; the emulator's own ends would wait for the program's threads.
    unsafe { libc::_exit(1) }
}

/// Returns the thread of a vcpu, for the callback that runs in it.
///
/// # Safety
/// Only the vcpu's own thread may call this, and use the result no longer than its callback runs; or all of the program's threads stand.
#[inline]
unsafe fn thread<'a>(vcpu: c_uint) -> Option<&'a mut Recorded> {
    let place = THREADS.get(vcpu as usize)?;
    // SAFETY: the pointer is null or a box that lives until `ended` of the same vcpu; only this thread uses it, as the caller promises.
    unsafe { place.load(Relaxed).as_mut() }
}

fn written(result: std::io::Result<()>) {
    if let Err(error) = result {
        match error.kind() {
            ErrorKind::FileTooLarge => fail("limit"),
            _ => fail(&format!("write {error}")),
        }
    }
}

#[cold]
fn write(thread: &mut Recorded) {
    written(thread.write(&shared().spool));
}

/// Ends the recording and the program early.
#[cold]
fn finish(why: &str) {
    if WINDOW.swap(AFTER, Release) != AFTER {
        say(why);
        shared().qemu.uninstall(shared().id, finished);
    }
}

/// All threads stand, and no callback comes any more.
extern "C" fn finished(_: Id) {
    conclude();
    unregister_runtime();
    // SAFETY: ends the process at once; the program must not run on.
    unsafe { libc::_exit(0) }
}

/// Writes what threads have in memory, and says that this is all. No thread of the program runs, or none with callbacks.
fn conclude() {
    if let Some(list) = &shared().tasks {
        written(list.flush());
    }
    for place in &THREADS {
        if let Some(thread) = take(place) {
            // The process ends: that the record stays costs nothing, and a vcpu that is late does not meet freed memory.
            write_last(Box::leak(thread));
        }
    }
    // A thread that has taken its own record may not have written it yet, and the process is about to end.
    for waited in 0.. {
        if ENDING.load(SeqCst) == 0 {
            break;
        }
        if waited == ENDING_MS {
            fail("write a thread did not come to its end");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    say(&format!("parts {}", PARTS.load(Relaxed)));
    if UNKNOWN.load(Relaxed) > 0 {
        say("unknown");
    }
    say("done");
}

extern "C" fn began(_: Id, vcpu: c_uint) {
    let Some(place) = THREADS.get(vcpu as usize) else {
        fail("threads");
    };
    if SYNCHRONISED.load(Acquire) {
        UNKNOWN.fetch_add(1, Relaxed);
    } else {
        // Without the library each thread is recorded from its begin.
        let mut cloned = shared()
            .cloned
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (number, parent) = match cloned.pop_front() {
            Some((number, parent)) => (number, Some(parent)),
            None => {
                let number = VCPUS.fetch_add(1, Relaxed);
                (number, (number > 0).then_some(0))
            }
        };
        record(place, number, parent);
    }
}

/// Records that a thread is about to create another one, which will not say so itself. The emulator begins a new thread within the call.
fn clones(shared: &Shared, vcpu: c_uint) {
    // SAFETY: this is the vcpu's own thread.
    let Some(thread) = (unsafe { thread(vcpu) }) else {
        return;
    };
    let number = VCPUS.fetch_add(1, Relaxed);
    let mut cloned = shared.cloned.lock().unwrap_or_else(PoisonError::into_inner);
    cloned.push_back((number, thread.number));
    drop(cloned);
    let open = WINDOW.load(Relaxed) == OPEN;
    written(thread.mark(Mark::Spawned(number), open, &shared.spool));
}

/// Begins the recording of a thread at its place in [`THREADS`].
fn record(place: &AtomicPtr<Recorded>, number: u32, parent: Option<u32>) {
    LIVE.fetch_add(1, Relaxed);
    let thread = Box::into_raw(Box::new(Recorded::new(number, parent)));
    let before = place.swap(thread, Relaxed);
    debug_assert!(before.is_null());
}

/// Records that the thread ends, unless that is done.
fn end(thread: &mut Recorded) {
    if !std::mem::replace(&mut thread.ended, true) {
        LIVE.fetch_sub(1, Relaxed);
        thread.end(WINDOW.load(Relaxed) == OPEN);
    }
}

extern "C" fn ended(_: Id, vcpu: c_uint) {
    let Some(place) = THREADS.get(vcpu as usize) else {
        return;
    };
    ENDING.fetch_add(1, SeqCst);
    if let Some(mut thread) = take(place) {
        end(&mut thread);
        write_last(&mut thread);
    }
    ENDING.fetch_sub(1, SeqCst);
}

/// Takes the record of a thread out of its place, if it is there.
fn take(place: &AtomicPtr<Recorded>) -> Option<Box<Recorded>> {
    let thread = place.swap(null_mut(), SeqCst);
    // SAFETY: the pointer comes from `Box::into_raw`, and the swap took the only one.
    (!thread.is_null()).then(|| unsafe { Box::from_raw(thread) })
}

/// Writes what a thread has in memory; nothing of it follows.
fn write_last(thread: &mut Recorded) {
    written(thread.write(&shared().spool));
    PARTS.fetch_add(thread.parts, Relaxed);
}

extern "C" fn translated(_: Id, block: *mut c_void) {
    let (shared, block) = (shared(), Block(block));
    let qemu = &shared.qemu;
    let length = qemu.length(block);
    if let Some(counting) = &shared.counting {
        let counters = [0, 1].map(|i: usize| COUNTERS[i].as_ptr());
        for i in 0..length {
            counting.count(qemu.instruction(block, i), counters);
        }
        return;
    }
    if length == 0 {
        return;
    }
    let (address, _) = qemu.place(qemu.instruction(block, 0));
    let (last, size) = qemu.place(qemu.instruction(block, length - 1));
    // The emulator of x86 may drop the last instruction again because it passes the end of a page, and does not say so; its size is then
    // that of the bytes that were read. An instruction near the end of a page becomes a block of its own, which begins only if it is there.
    let apart = length > 1 && (last & PAGE) + LONGEST_INSTRUCTION > PAGE;
    let whole = if apart { length - 1 } else { length };
    let end = if apart {
        last
    } else {
        last.wrapping_add(size as u64)
    };
    let bytes = end.wrapping_sub(address);
    // Code can be jumped over within a block: a distance that is none counts as the last instruction's bytes.
    let bytes = u32::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes <= 1 << 16)
        .unwrap_or(size as u32);
    if shared.tasks.is_some() {
        for i in 0..length {
            alone(shared, qemu.instruction(block, i));
        }
        return;
    }
    let code = shared.code((address, bytes, whole as u32));
    qemu.on_exec(block, executed, code.pointer());
    for i in 0..whole {
        qemu.on_access(qemu.instruction(block, i), accessed, code.place_of(i + 1));
    }
    if apart {
        alone(shared, qemu.instruction(block, whole));
    }
}

/// Has `instruction` recorded as a block of its own.
fn alone(shared: &'static Shared, instruction: Instruction) {
    let (qemu, (address, size)) = (&shared.qemu, shared.qemu.place(instruction));
    let code = shared.code((address, size as u32, 1));
    qemu.on_instruction(instruction, executed, code.pointer());
    qemu.on_access(instruction, accessed, code.place_of(1));
}

/// Bytes of the smallest page, minus 1.
const PAGE: u64 = 4095;

/// Bytes of the longest instruction of x86.
const LONGEST_INSTRUCTION: u64 = 15;

impl Shared {
    /// Counts a signal of a condition, and returns `mark` with the count that a wait needs.
    fn counted(&self, mark: Mark) -> Mark {
        let Mark::Sync { sync, names, times } = mark else {
            return mark;
        };
        let signals = || self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        let sync = match sync {
            Sync::Signal(_) | Sync::Broadcast(_) => {
                let mut signals = signals();
                let count = signals.entry(names[0]).or_default();
                *count = count.saturating_add(1);
                sync
            }
            Sync::Wait {
                condition, lock, ..
            } => Sync::Wait {
                condition,
                lock,
                signals: Some(signals().get(&names[0]).copied().unwrap_or(0)),
            },
            sync => sync,
        };
        Mark::Sync { sync, names, times }
    }

    /// Returns the block of code at `place`, for the callback at its begin.
    fn code(&self, place: (u64, u32, u32)) -> &'static Code {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let number = codes.len();
        codes
            .entry(place)
            .or_insert_with(|| Box::leak(Box::new(Code { number, place })))
    }
}

extern "C" fn executed(vcpu: c_uint, code: *mut c_void) {
    // SAFETY: this is the vcpu's own thread.
    let Some(thread) = (unsafe { thread(vcpu) }) else {
        return;
    };
    if thread.paused {
        return;
    }
    // SAFETY: `translated` passed a `Code` that is never freed.
    let code = unsafe { &*code.cast::<Code>() };
    if WINDOW.load(Relaxed) != OPEN {
        return outside(thread, code);
    }
    thread.begin(code.number, code.place);
    if thread.is_full() {
        write(thread);
    }
    if thread.number == 0
        && shared()
            .settings
            .take
            .is_some_and(|take| thread.instructions() >= take)
    {
        finish("taken");
    }
}

/// Counts what the first thread executes before the recording begins.
#[cold]
fn outside(thread: &mut Recorded, code: &Code) {
    thread.active = None;
    if let From::Skip(instructions) = shared().settings.from
        && thread.number == 0
    {
        thread.skipped += u64::from(code.place.2);
        if thread.skipped >= instructions {
            let _ = WINDOW.compare_exchange(BEFORE, OPEN, Release, Relaxed);
        }
    }
}

extern "C" fn accessed(vcpu: c_uint, information: u32, address: u64, place: *mut c_void) {
    // When the emulator delivers a signal, it stores registers under the name of an instruction that was executed long before.
    let (block, position) = (
        place.addr() >> POSITION,
        place.addr() as u32 & ((1 << POSITION) - 1),
    );
    // SAFETY: this is the vcpu's own thread.
    let Some(thread) = (unsafe { thread(vcpu) }).filter(|thread| thread.active == Some(block))
    else {
        return;
    };
    let (bytes, load, store) = thread.kind(information, |word| shared().qemu.access(word));
    // A piece of an access that would pass the end of the addresses cannot be: the program would have crashed.
    if load {
        thread.access(position, address, bytes, false);
    }
    if store {
        if thread.is_full() {
            write(thread);
        }
        thread.access(position, address, bytes, true);
    }
    if thread.is_full() {
        write(thread);
    }
}

extern "C" fn called(
    _: Id,
    vcpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let shared = shared();
    match marks::call(shared.set, number) {
        Call::Getppid if shared.counting.is_none() => {
            if let Some((mark, resume)) = marks::read(shared.set, [a, b, c, d]) {
                marked(shared, vcpu, mark, resume);
            }
        }
        Call::Fork => fail("fork"),
        Call::Clone if marks::starts_process(a) => fail("fork"),
        Call::Clone
            if !SYNCHRONISED.load(Acquire)
                && shared.counting.is_none()
                && shared.tasks.is_none() =>
        {
            clones(shared, vcpu);
        }
        Call::Exec => fail("exec"),
        Call::ExitGroup if shared.counting.is_none() => {
            // SAFETY: this is the vcpu's own thread.
            if let Some(thread) = unsafe { thread(vcpu) } {
                end(thread);
                // The last thread may end the process: the first one may have called `pthread_exit`.
                if thread.number != 0 && LIVE.load(Relaxed) > 0 && WINDOW.load(Relaxed) != AFTER {
                    fail(&format!("exit {}", thread.number));
                }
            }
        }
        _ => {}
    }
}

fn marked(shared: &'static Shared, vcpu: c_uint, mark: Mark, resume: bool) {
    match mark {
        Mark::Hello { .. } => {
            SYNCHRONISED.store(true, Release);
            say("synchronised");
        }
        Mark::Tasks => say("tasks"),
        Mark::Start { number, .. } => {
            let parents = shared
                .parents
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            record(
                &THREADS[vcpu as usize],
                number,
                parents.get(&number).copied(),
            );
        }
        _ => {}
    }
    // SAFETY: this is the vcpu's own thread.
    let Some(thread) = (unsafe { thread(vcpu) }) else {
        return;
    };
    if let Mark::Create(number) = mark {
        UNKNOWN.fetch_sub(1, Relaxed);
        let mut parents = shared
            .parents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        parents.insert(number, thread.number);
    }
    if let Mark::Start { stack, .. } | Mark::Hello { stack } = mark {
        thread.set_stack(stack);
    }
    if let Mark::Text(piece) = mark
        && let Some(list) = &shared.tasks
        && let Some(line) = thread.line(&piece)
    {
        written(listed(list, thread, &line, &shared.spool));
    }
    if let Mark::Sync {
        sync: Sync::Mark { kind, .. },
        ..
    } = mark
    {
        own_mark(shared, kind);
    }
    match mark {
        Mark::Exit => end(thread),
        mark => {
            let open = WINDOW.load(Relaxed) == OPEN;
            let mark = if open { shared.counted(mark) } else { mark };
            written(thread.mark(mark, open, &shared.spool));
        }
    }
    // What the mark's own block still does belongs to the call.
    thread.active = None;
    thread.paused = !resume;
}

/// Writes a line of the runtime into the list of marks, and its number into the thread's stream.
fn listed(list: &List, thread: &mut Recorded, line: &[u8], spool: &Spool) -> std::io::Result<()> {
    let sync = Sync::Mark {
        kind: TASK_MARK,
        a: list.append(thread.number, line)?,
        b: 0,
    };
    let mark = Mark::Sync {
        sync,
        names: [0; 2],
        times: 1,
    };
    thread.mark(mark, true, spool)
}

/// Opens the recording at the mark that the user named, and ends it at a later one.
fn own_mark(shared: &Shared, kind: u32) {
    if shared.settings.from == From::Mark(kind)
        && WINDOW
            .compare_exchange(BEFORE, OPEN, Release, Relaxed)
            .is_ok()
    {
        return;
    }
    if shared.settings.to == Some(kind) && WINDOW.load(Relaxed) == OPEN {
        finish("taken");
    }
}

extern "C" fn at_end(_: Id, _: *mut c_void) {
    if shared().counting.is_some() {
        let [instructions, accesses] = [0, 1].map(|i: usize| COUNTERS[i].load(Relaxed));
        say(&format!("counted {instructions} {accesses}"));
    } else if WINDOW.load(Relaxed) == BEFORE {
        say("unopened");
    }
    conclude();
}

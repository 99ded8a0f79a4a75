//! Tasks of gcc's programs, and the barriers in which threads run them.
//!
//! Types and constants follow gcc's `omp-builtins.def` and `gomp-constants.h`.

use std::ffi::{c_int, c_long, c_longlong, c_uint, c_ulonglong, c_void};
use std::sync::atomic::Ordering;

use super::locks::has_nest_locks;
use super::next::next;
use crate::tasks::{self, Kind, Member, Task, active, flags, groups, me, me_or_alone};

type Code = unsafe extern "C-unwind" fn(*mut c_void);
type Copy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

const FINAL: c_uint = 1 << 1;
const DEPEND: c_uint = 1 << 3;
const PRIORITY: c_uint = 1 << 4;
const UP: c_uint = 1 << 8;
const GRAINSIZE: c_uint = 1 << 9;
const IF: c_uint = 1 << 10;
const NOGROUP: c_uint = 1 << 11;
const REDUCTION: c_uint = 1 << 12;
const DETACH: c_uint = 1 << 13;
const STRICT: c_uint = 1 << 14;

/// What is cancelled.
const PARALLEL: c_int = 1;
const TASKGROUP: c_int = 8;

next! {
    fn GOMP_task(run: Code, data: *mut c_void, copy: Option<Copy>, size: c_long, align: c_long, deferred: bool, flags: c_uint,
        depend: *mut usize, priority: c_int, detach: *mut *mut c_void);
    fn GOMP_taskloop(run: Code, data: *mut c_void, copy: Option<Copy>, size: c_long, align: c_long, flags: c_uint, tasks: usize,
        priority: c_int, start: c_long, end: c_long, step: c_long);
    fn GOMP_taskloop_ull(run: Code, data: *mut c_void, copy: Option<Copy>, size: c_long, align: c_long, flags: c_uint, tasks: usize,
        priority: c_int, start: c_ulonglong, end: c_ulonglong, step: c_ulonglong);
    fn GOMP_taskwait();
    fn GOMP_taskwait_depend(depend: *mut usize);
    fn GOMP_taskyield();
    fn GOMP_taskgroup_start();
    fn GOMP_taskgroup_end();
    fn GOMP_taskgroup_reduction_register(reductions: *mut usize);
    fn GOMP_taskgroup_reduction_unregister(reductions: *mut usize);
    fn GOMP_task_reduction_remap(count: usize, originals: usize, pointers: *mut usize);
    fn GOMP_workshare_task_reduction_unregister(cancelled: bool);
    fn GOMP_barrier();
    fn GOMP_barrier_cancel() -> bool;
    fn GOMP_loop_end();
    fn GOMP_loop_end_cancel() -> bool;
    fn GOMP_sections_end();
    fn GOMP_sections_end_cancel() -> bool;
    fn GOMP_single_start() -> bool;
    fn GOMP_single_copy_start() -> *mut c_void;
    fn GOMP_single_copy_end(data: *mut c_void);
    fn GOMP_cancel(which: c_int, really: bool) -> bool;
    fn GOMP_cancellation_point(which: c_int) -> bool;
    fn omp_get_cancellation() -> c_int;
    fn omp_in_final() -> c_int;
    fn omp_in_final_() -> c_int;
    fn omp_fulfill_event(event: *mut c_void);
    fn omp_fulfill_event_(event: *mut c_void);
}

/// Returns the thread of a team that the caller is; `None` if the runtime is to be called: tasks are its, or this is outside of regions.
fn in_team() -> Option<&'static Member> {
    me().filter(|me| !me.is_outside())
}

/// The row of addresses that gcc makes of `depend` clauses.
#[derive(Clone)]
struct Depends {
    row: *const usize,
    next: usize,
    count: usize,
    /// Numbers up to which addresses are written, and read.
    written: usize,
    read: usize,
}

impl Depends {
    /// # Safety
    /// `row` is what gcc makes.
    unsafe fn new(row: *const usize) -> Depends {
        // SAFETY: the caller promises it: `[n][written][...]`, or `[0][n][written][mutually exclusive][read][...]`, behind which come
        // objects.
        unsafe {
            match *row {
                0 => {
                    let written = *row.add(2) + *row.add(3);
                    Depends {
                        row: row.add(5),
                        next: 0,
                        count: *row.add(1),
                        written,
                        read: written + *row.add(4),
                    }
                }
                count => Depends {
                    row: row.add(2),
                    next: 0,
                    count,
                    written: *row.add(1),
                    read: count,
                },
            }
        }
    }
}

/// Returns how a task writes at `address`: none stands for `omp_all_memory`.
#[inline]
fn written(address: usize) -> Kind {
    if address == 0 { Kind::All } else { Kind::Out }
}

impl Iterator for Depends {
    type Item = (usize, Kind);

    fn next(&mut self) -> Option<(usize, Kind)> {
        let at = self.next;
        if at == self.count {
            return None;
        }
        self.next += 1;
        // SAFETY: the row has `count` addresses; that of an object is of two words, the address and the kind.
        let address = unsafe { *self.row.add(at) };
        if at < self.written {
            return Some((address, written(address)));
        }
        if at < self.read {
            return Some((address, Kind::In));
        }
        let object = address as *const usize;
        // SAFETY: as above.
        let (address, kind) = unsafe { (*object, *object.add(1)) };
        let kind = match kind {
            1 => Kind::In,
            5 => Kind::Set,
            _ => written(address),
        };
        Some((address, kind))
    }
}

/// Makes a task with a copy of `data`.
#[inline]
unsafe fn make(
    me: &Member,
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: usize,
    align: usize,
    bits: u16,
) -> *mut Task {
    // SAFETY: gcc's code passes data of that size, or a function that copies it.
    unsafe {
        let task = me.allocate(size, align, bits);
        (*task).run.set(run as usize);
        let own = (*task).data.get();
        match copy {
            None => std::ptr::copy_nonoverlapping(data.cast::<u8>(), own.cast::<u8>(), size),
            Some(copy) => {
                (*task).set(flags::CONSTRUCTED);
                copy(own, data);
            }
        }
        task
    }
}

/// Returns whether tasks that are created now would be dropped.
#[inline]
fn drops_tasks(me: &Member) -> bool {
    me.team().cancels.load(Ordering::Relaxed) && drops_tasks_now(me)
}

#[cold]
fn drops_tasks_now(me: &Member) -> bool {
    me.team().cancelled.load(Ordering::Relaxed) || me.group().is_some_and(Task::is_cancelled)
}

/// A task.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_task(
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: c_long,
    align: c_long,
    deferred: bool,
    clauses: c_uint,
    depend: *mut usize,
    priority: c_int,
    detach: *mut *mut c_void,
) {
    // SAFETY: as this function's.
    unsafe {
        let me = match me() {
            Some(me) => me,
            None if active() => me_or_alone(),
            None => {
                return GOMP_task::call(
                    run, data, copy, size, align, deferred, clauses, depend, priority, detach,
                );
            }
        };
        if drops_tasks(me) {
            return;
        }
        let (size, align) = (size as usize, align as usize);
        let included = me.current().is(flags::FINAL);
        let bits = (clauses & FINAL) as u16 >> 1 | u16::from(included);
        if clauses & (DEPEND | DETACH) == 0 && deferred && !included && !me.is_outside() {
            if copy.is_none() && me.is_full() {
                let task = me.allocate(0, 1, bits);
                (*task).run.set(run as usize);
                (*task).data.set(data);
                return me.run_now(task);
            }
            let task = make(me, run, data, copy, size, align, bits);
            if clauses & PRIORITY != 0 {
                (*task).priority.set(tasks::priority(priority));
            }
            return me.submit(task);
        }
        special(
            me,
            run,
            data,
            copy,
            size,
            align,
            deferred && !included,
            bits,
            clauses,
            depend,
            priority,
            detach,
        );
    }
}

/// A task with dependences, with an event, or that runs at once.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
unsafe fn special(
    me: &Member,
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: usize,
    align: usize,
    deferred: bool,
    bits: u16,
    clauses: c_uint,
    depend: *mut usize,
    priority: c_int,
    detach: *mut *mut c_void,
) {
    // SAFETY: as `GOMP_task`'s.
    unsafe {
        let depends = (clauses & DEPEND != 0).then(|| Depends::new(depend));
        let now = !deferred || me.is_outside();
        if now && let Some(depends) = depends.clone() {
            me.wait_for(depends);
        }
        if clauses & DETACH == 0
            && now
            && bits & flags::FINAL != 0
            && me.current().is(flags::FINAL)
            && copy.is_none()
            && !has_nest_locks()
        {
            // Nothing of it can be told from a call: in a final task all is done at once.
            return run(data);
        }
        let bits = bits
            | if clauses & DETACH != 0 {
                flags::DETACHED
            } else {
                0
            };
        let task = if now && copy.is_none() && clauses & DETACH == 0 {
            let task = me.allocate(0, 1, bits);
            (*task).run.set(run as usize);
            (*task).data.set(data);
            task
        } else {
            let task = me.allocate(size, align, bits);
            (*task).run.set(run as usize);
            if clauses & DETACH != 0 {
                *detach = task.cast();
                if !data.is_null() {
                    *data.cast::<*mut c_void>() = task.cast();
                }
            }
            let own = (*task).data.get();
            match copy {
                None => std::ptr::copy_nonoverlapping(data.cast::<u8>(), own.cast::<u8>(), size),
                Some(copy) => {
                    (*task).set(flags::CONSTRUCTED);
                    copy(own, data);
                }
            }
            task
        };
        if clauses & PRIORITY != 0 {
            (*task).priority.set(tasks::priority(priority));
        }
        match depends {
            _ if now => me.run_now(task),
            Some(depends) => me.submit_after(task, depends),
            None => me.submit(task),
        }
    }
}

/// How a loop is cut into tasks: `count` tasks, of which the first `longer` have `length` + 1 iterations and the others `length`, the last
/// `last`.
struct Cut {
    count: u64,
    longer: u64,
    length: u64,
    last: u64,
}

impl Cut {
    fn new(iterations: u64, clauses: c_uint, asked: u64, threads: u64) -> Cut {
        let even = |count: u64| Cut {
            count,
            longer: iterations % count,
            length: iterations / count,
            last: iterations / count,
        };
        if clauses & GRAINSIZE == 0 {
            let count = if asked == 0 { threads } else { asked };
            return even(count.clamp(1, iterations));
        }
        let grain = asked.max(1);
        if clauses & STRICT != 0 {
            let count = iterations.div_ceil(grain);
            return Cut {
                count,
                longer: 0,
                length: grain,
                last: iterations - (count - 1) * grain,
            };
        }
        // At least `grain` iterations a task, less than twice as many.
        even((iterations / grain).max(1))
    }

    fn length(&self, task: u64) -> u64 {
        if task < self.longer {
            self.length + 1
        } else if task + 1 == self.count {
            self.last
        } else {
            self.length
        }
    }
}

/// The tasks of a loop that begins at `start` (as its bits) and takes `iterations` steps of `step`.
#[allow(clippy::too_many_arguments)]
unsafe fn taskloop(
    me: &Member,
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: usize,
    align: usize,
    clauses: c_uint,
    tasks: u64,
    priority: c_int,
    start: u64,
    iterations: u64,
    step: u64,
) {
    // SAFETY: as `GOMP_taskloop`'s.
    unsafe {
        /// What the data of a loop's tasks begins with.
        #[repr(C)]
        struct Head {
            start: u64,
            end: u64,
            reductions: *mut usize,
        }
        let grouped = clauses & NOGROUP == 0;
        if iterations == 0 || drops_tasks(me) {
            if grouped && clauses & REDUCTION != 0 {
                *(*data.cast::<Head>()).reductions.add(2) = 0; // says that they were not registered
            }
            return;
        }
        if grouped {
            me.begin_group(0);
            if clauses & REDUCTION != 0 {
                register(me, (*data.cast::<Head>()).reductions);
            }
        }
        let included = me.current().is(flags::FINAL);
        let now = clauses & IF == 0 || included || me.is_outside();
        let bits = (clauses & FINAL) as u16 >> 1 | u16::from(included);
        let cut = Cut::new(iterations, clauses, tasks, me.team().size() as u64);
        let mut from = start;
        for i in 0..cut.count {
            let to = from.wrapping_add(step.wrapping_mul(cut.length(i)));
            let task = make(me, run, data, copy, size, align, bits);
            let head = (*task).data.get().cast::<[u64; 2]>();
            *head = [from, to];
            if clauses & PRIORITY != 0 {
                (*task).priority.set(tasks::priority(priority));
            }
            if now {
                me.run_now(task);
            } else {
                me.submit(task);
            }
            from = to;
        }
        if grouped {
            me.end_group();
        }
    }
}

/// A loop of tasks.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskloop(
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: c_long,
    align: c_long,
    clauses: c_uint,
    tasks: usize,
    priority: c_int,
    start: c_long,
    end: c_long,
    step: c_long,
) {
    // SAFETY: as this function's.
    unsafe {
        if !active() {
            return GOMP_taskloop::call(
                run, data, copy, size, align, clauses, tasks, priority, start, end, step,
            );
        }
        let distance = if step > 0 {
            i128::from(end) - i128::from(start)
        } else {
            i128::from(start) - i128::from(end)
        };
        let iterations = distance
            .max(0)
            .unsigned_abs()
            .div_ceil(u128::from(step.unsigned_abs().max(1))) as u64;
        let (size, align) = (size as usize, align as usize);
        taskloop(
            me_or_alone(),
            run,
            data,
            copy,
            size,
            align,
            clauses,
            tasks as u64,
            priority,
            start as u64,
            iterations,
            step as u64,
        );
    }
}

/// As [`GOMP_taskloop`], of unsigned numbers; `UP` says which way it goes.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskloop_ull(
    run: Code,
    data: *mut c_void,
    copy: Option<Copy>,
    size: c_long,
    align: c_long,
    clauses: c_uint,
    tasks: usize,
    priority: c_int,
    start: c_ulonglong,
    end: c_ulonglong,
    step: c_ulonglong,
) {
    // SAFETY: as this function's.
    unsafe {
        if !active() {
            return GOMP_taskloop_ull::call(
                run, data, copy, size, align, clauses, tasks, priority, start, end, step,
            );
        }
        let (distance, stride) = if clauses & UP != 0 {
            (end.saturating_sub(start), step)
        } else {
            (start.saturating_sub(end), step.wrapping_neg())
        };
        let iterations = distance.div_ceil(stride.max(1));
        let (size, align) = (size as usize, align as usize);
        taskloop(
            me_or_alone(),
            run,
            data,
            copy,
            size,
            align,
            clauses,
            tasks as u64,
            priority,
            start,
            iterations,
            step,
        );
    }
}

/// Waits for the children of the current task.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskwait() {
    match me() {
        Some(me) => me.wait_for_children(),
        // SAFETY: as this function's.
        None if !active() => unsafe { GOMP_taskwait::call() },
        None => {}
    }
}

/// Waits for the children that have some dependences.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskwait_depend(depend: *mut usize) {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) => me.wait_for(Depends::new(depend)),
            None if !active() => GOMP_taskwait_depend::call(depend),
            None => {}
        }
    }
}

/// The current task may be interrupted here.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskyield() {
    match me() {
        Some(me) => me.yield_to_tasks(),
        // SAFETY: as this function's.
        None if !active() => unsafe { GOMP_taskyield::call() },
        None => {}
    }
}

/// A group begins.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskgroup_start() {
    if active() {
        me_or_alone().begin_group(0);
    } else {
        // SAFETY: as this function's.
        unsafe { GOMP_taskgroup_start::call() }
    }
}

/// A group ends: all tasks of it and their descendants have.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskgroup_end() {
    if active() {
        me_or_alone().end_group();
    } else {
        // SAFETY: as this function's.
        unsafe { GOMP_taskgroup_end::call() }
    }
}

unsafe fn register(me: &Member, reductions: *mut usize) {
    let Some(group) = me.group() else {
        return;
    };
    // SAFETY: gcc's description, and that of the group around.
    unsafe {
        let around = group.data.get().cast();
        groups::register(reductions, around, std::ptr::null_mut(), me.team().size());
    }
    group.data.set(reductions.cast());
}

/// The current group reduces variables.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskgroup_reduction_register(reductions: *mut usize) {
    // SAFETY: as this function's.
    unsafe {
        if active() {
            register(me_or_alone(), reductions);
        } else {
            GOMP_taskgroup_reduction_register::call(reductions);
        }
    }
}

/// The threads' copies are no longer used.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_taskgroup_reduction_unregister(reductions: *mut usize) {
    // SAFETY: as this function's.
    unsafe {
        if active() {
            groups::unregister(reductions, true);
        } else {
            GOMP_taskgroup_reduction_unregister::call(reductions);
        }
    }
}

/// A task asks for its thread's copies.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_task_reduction_remap(
    count: usize,
    originals: usize,
    pointers: *mut usize,
) {
    // SAFETY: as this function's.
    unsafe {
        if !active() {
            return GOMP_task_reduction_remap::call(count, originals, pointers);
        }
        let me = me_or_alone();
        let reductions = me
            .group()
            .map_or(std::ptr::null_mut(), |group| group.data.get());
        let thread = usize::from(me.index);
        if let Err(address) = groups::remap(reductions.cast(), count, originals, pointers, thread) {
            eprintln!("tanada: no group of this task reduces the variable at {address:#x}");
            std::process::abort();
        }
    }
}

/// A work-sharing construct with reductions of tasks begins.
unsafe fn begin_workshare(reductions: *mut usize) {
    let me = me_or_alone();
    let group = me.begin_group(flags::WORKSHARE);
    let around = group.data.get().cast();
    me.share(|first| {
        let first = first.unwrap_or(0) as *mut usize;
        // SAFETY: gcc's description; the first thread's is there until all have come to the end of the construct.
        unsafe { groups::register(reductions, around, first, me.team().size()) };
        reductions as usize
    });
    group.data.set(reductions.cast());
}

/// A work-sharing construct with reductions of tasks ends.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_workshare_task_reduction_unregister(cancelled: bool) {
    if !active() {
        // SAFETY: as this function's.
        return unsafe { GOMP_workshare_task_reduction_unregister::call(cancelled) };
    }
    let me = me_or_alone();
    let reductions = me.scope().data.get().cast();
    me.end_group();
    // SAFETY: registered when the construct began; the copies are the first thread's to free, when all tasks have ended.
    unsafe { groups::unregister(reductions, me.index == 0) };
    if !cancelled && !me.is_outside() {
        me.barrier(false);
    }
}

/// Constructs that may come with reductions of tasks, which the runtime is then called without.
macro_rules! workshares {
    ($(fn $name:ident($($before:ident: $type:ty),*; reductions $(, $after:ident: $after_type:ty)*) $(-> $result:ty)?;)*) => {
        next! {
            $(fn $name($($before: $type,)* reductions: *mut usize $(, $after: $after_type)*) $(-> $result)?;)*
        }
        $(
            /// A work-sharing construct begins.
            ///
            /// # Safety
            /// As gcc calls it.
            #[allow(clippy::too_many_arguments)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                $($before: $type,)* reductions: *mut usize $(, $after: $after_type)*
            ) $(-> $result)? {
                // SAFETY: as this function's.
                unsafe {
                    let mut handed_on = reductions;
                    if !reductions.is_null() && active() {
                        begin_workshare(reductions);
                        handed_on = std::ptr::null_mut();
                    }
                    $name::call($($before,)* handed_on $(, $after)*)
                }
            }
        )*
    };
}

workshares! {
    fn GOMP_loop_start(
        start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, from: *mut c_long, to: *mut c_long;
        reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_loop_ordered_start(
        start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, from: *mut c_long, to: *mut c_long;
        reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_loop_doacross_start(
        count: c_uint, counts: *mut c_long, schedule: c_long, chunk: c_long, from: *mut c_long, to: *mut c_long;
        reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_loop_ull_start(
        up: bool, start: c_longlong, end: c_longlong, step: c_longlong, schedule: c_long, chunk: c_longlong, from: *mut c_longlong,
        to: *mut c_longlong; reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_loop_ull_ordered_start(
        up: bool, start: c_longlong, end: c_longlong, step: c_longlong, schedule: c_long, chunk: c_longlong, from: *mut c_longlong,
        to: *mut c_longlong; reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_loop_ull_doacross_start(
        count: c_uint, counts: *mut c_longlong, schedule: c_long, chunk: c_longlong, from: *mut c_longlong, to: *mut c_longlong;
        reductions, memory: *mut *mut c_void
    ) -> bool;
    fn GOMP_sections2_start(count: c_uint; reductions, memory: *mut *mut c_void) -> c_uint;
}

next! {
    fn GOMP_scope_start(reductions: *mut usize);
}

/// A `scope` construct with reductions of tasks begins; one without makes no call. libgomp has no work for it but these reductions.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_scope_start(reductions: *mut usize) {
    // SAFETY: as this function's.
    unsafe {
        if active() {
            begin_workshare(reductions);
        } else {
            GOMP_scope_start::call(reductions);
        }
    }
}

/// A barrier.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_barrier() {
    match in_team() {
        Some(me) => {
            me.barrier(false);
        }
        // SAFETY: as this function's.
        None => unsafe { GOMP_barrier::call() },
    }
}

/// A barrier in a region that can be cancelled. Returns whether it was.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_barrier_cancel() -> bool {
    match in_team() {
        Some(me) => me.barrier(true),
        // SAFETY: as this function's.
        None => unsafe { GOMP_barrier_cancel::call() },
    }
}

/// Ends of work-sharing constructs, at which the runtime has a barrier of its own: tasks have ended before it.
macro_rules! ends {
    ($($name:ident($cancellable:literal) $(-> $result:ty)?;)*) => {
        $(
            /// A work-sharing construct ends.
            ///
            /// # Safety
            /// As gcc calls it.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name() $(-> $result)? {
                if let Some(me) = in_team() {
                    me.barrier($cancellable);
                }
                // SAFETY: as this function's.
                unsafe { $name::call() }
            }
        )*
    };
}

ends! {
    GOMP_loop_end(false);
    GOMP_loop_end_cancel(true) -> bool;
    GOMP_sections_end(false);
    GOMP_sections_end_cancel(true) -> bool;
}

/// A `single` construct with `copyprivate` begins. Returns null in the thread that runs it, in the others what that thread hands out.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_single_copy_start() -> *mut c_void {
    // SAFETY: as this function's.
    unsafe {
        let Some(me) = in_team() else {
            return GOMP_single_copy_start::call();
        };
        if GOMP_single_start::call() {
            return std::ptr::null_mut();
        }
        me.barrier(false);
        me.team().copied.load(Ordering::Acquire)
    }
}

/// The thread that ran a `single` construct hands out `data`.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_single_copy_end(data: *mut c_void) {
    let Some(me) = in_team() else {
        // SAFETY: as this function's.
        return unsafe { GOMP_single_copy_end::call(data) };
    };
    me.team().copied.store(data, Ordering::Release);
    me.barrier(false);
}

/// Cancels a construct. Returns whether it is cancelled.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_cancel(which: c_int, really: bool) -> bool {
    // SAFETY: as this function's.
    unsafe {
        let Some(me) = me() else {
            return GOMP_cancel::call(which, really);
        };
        if omp_get_cancellation::call() == 0 {
            return false;
        }
        if which & TASKGROUP != 0 {
            if !really {
                return GOMP_cancellation_point(which);
            }
            if let Some(group) = me.group() {
                me.team().cancels.store(true, Ordering::Relaxed);
                group.cancel();
            }
            return true;
        }
        let cancelled = GOMP_cancel::call(which, really);
        if cancelled && which & PARALLEL != 0 {
            me.team().cancels.store(true, Ordering::Relaxed);
            me.team().cancelled.store(true, Ordering::SeqCst);
            me.wake_all();
        }
        cancelled
    }
}

/// Returns whether a construct was cancelled.
///
/// # Safety
/// As gcc calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_cancellation_point(which: c_int) -> bool {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) if which & TASKGROUP != 0 => drops_tasks(me),
            _ => GOMP_cancellation_point::call(which),
        }
    }
}

/// Returns whether the current task is final.
fn in_final() -> Option<c_int> {
    let me = me()?;
    Some(c_int::from(me.current().is(flags::FINAL)))
}

/// Returns 1 in a final task.
///
/// # Safety
/// As any program calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn omp_in_final() -> c_int {
    // SAFETY: as this function's.
    in_final().unwrap_or_else(|| unsafe { omp_in_final::call() })
}

/// As [`omp_in_final`], for Fortran.
///
/// # Safety
/// As any program calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn omp_in_final_() -> c_int {
    // SAFETY: as this function's.
    in_final().unwrap_or_else(|| unsafe { omp_in_final_::call() })
}

/// The event of a detached task has come. Called from any thread.
///
/// # Safety
/// As any program calls it: with an event that has not come.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn omp_fulfill_event(event: *mut c_void) {
    // SAFETY: as this function's; if tasks are taken over, events are tasks.
    unsafe {
        if active() {
            tasks::fulfill(event.cast());
        } else {
            omp_fulfill_event::call(event);
        }
    }
}

/// As [`omp_fulfill_event`], for Fortran.
///
/// # Safety
/// As any program calls it: with an event that has not come.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn omp_fulfill_event_(event: *mut c_void) {
    // SAFETY: as this function's; if tasks are taken over, events are tasks.
    unsafe {
        if active() {
            tasks::fulfill(event.cast());
        } else {
            omp_fulfill_event_::call(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_cut_without_rest() {
        for iterations in 1..200 {
            for asked in 1..40 {
                for clauses in [0, GRAINSIZE, GRAINSIZE | STRICT] {
                    let cut = Cut::new(iterations, clauses, asked, 2);
                    let lengths: Vec<u64> = (0..cut.count).map(|task| cut.length(task)).collect();
                    assert_eq!(lengths.iter().sum::<u64>(), iterations);
                    let but_last = &lengths[..lengths.len() - 1];
                    match clauses {
                        0 => assert_eq!(cut.count, asked.min(iterations)),
                        GRAINSIZE if iterations >= asked => {
                            assert!(
                                lengths
                                    .iter()
                                    .all(|length| (asked..2 * asked).contains(length))
                            );
                        }
                        GRAINSIZE => assert_eq!(cut.count, 1),
                        _ => assert!(but_last.iter().all(|&length| length == asked)),
                    }
                }
            }
        }
    }
}

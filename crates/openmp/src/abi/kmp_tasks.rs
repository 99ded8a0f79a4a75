//! Tasks of clang's programs, and the barriers in which threads run them.
//!
//! Types and constants follow `kmp.h` of LLVM.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::next::next;
use crate::regions::watch;
use crate::tasks::reductions::{Reduces, Reductions, Variable};
use crate::tasks::{self, Kind, KmpData, Member, Task, active, flags, me, me_or_alone};

type Location = *mut c_void;
type Code = unsafe extern "C-unwind" fn(c_int, *mut c_void) -> c_int;
/// Makes a task of a loop from the first, with whether it has the last iteration.
type Duplicate = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int);

/// Bits of a task's flags.
const TIED: c_int = 1;
const FINAL: c_int = 2;
const DESTROYS: c_int = 8;
const PRIORITY: c_int = 0x20;
const DETACHABLE: c_int = 0x40;

/// In a dependence: it is of `omp_all_memory`, as the largest address is, too.
const ALL: u8 = 0x80;

/// What is cancelled.
const PARALLEL: c_int = 1;
const TASKGROUP: c_int = 4;

/// A dependence.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::abi) struct Depend {
    address: usize,
    length: usize,
    flags: u8,
}

next! {
    fn __kmpc_omp_task_alloc(location: Location, thread: c_int, bits: c_int, size: usize, shareds: usize, code: Code) -> *mut c_void;
    fn __kmpc_omp_task(location: Location, thread: c_int, task: *mut c_void) -> c_int;
    fn __kmpc_omp_task_with_deps(location: Location, thread: c_int, task: *mut c_void, count: c_int, depends: *const Depend,
        more: c_int, others: *const Depend) -> c_int;
    fn __kmpc_omp_wait_deps(location: Location, thread: c_int, count: c_int, depends: *const Depend, more: c_int, others: *const Depend);
    fn __kmpc_omp_taskwait_deps_51(location: Location, thread: c_int, count: c_int, depends: *const Depend, more: c_int,
        others: *const Depend, has_no_wait: c_int);
    fn __kmpc_omp_task_begin_if0(location: Location, thread: c_int, task: *mut c_void);
    fn __kmpc_omp_task_complete_if0(location: Location, thread: c_int, task: *mut c_void);
    fn __kmpc_omp_taskwait(location: Location, thread: c_int) -> c_int;
    fn __kmpc_omp_taskyield(location: Location, thread: c_int, end: c_int) -> c_int;
    fn __kmpc_taskgroup(location: Location, thread: c_int);
    fn __kmpc_end_taskgroup(location: Location, thread: c_int);
    fn __kmpc_taskloop(location: Location, thread: c_int, task: *mut c_void, deferred: c_int, from: *mut u64, to: *mut u64,
        step: c_longlong, no_group: c_int, schedule: c_int, grain: u64, duplicate: Option<Duplicate>);
    fn __kmpc_taskloop_5(location: Location, thread: c_int, task: *mut c_void, deferred: c_int, from: *mut u64, to: *mut u64,
        step: c_longlong, no_group: c_int, schedule: c_int, grain: u64, strict: c_int, duplicate: Option<Duplicate>);
    fn __kmpc_task_allow_completion_event(location: Location, thread: c_int, task: *mut c_void) -> *mut c_void;
    fn __kmpc_omp_reg_task_with_affinity(location: Location, thread: c_int, task: *mut c_void, count: c_int, list: *mut c_void) -> c_int;
    fn __kmpc_task_reduction_init(thread: c_int, count: c_int, variables: *const Reduced) -> *mut c_void;
    fn __kmpc_taskred_init(thread: c_int, count: c_int, variables: *const ReducedFrom) -> *mut c_void;
    fn __kmpc_task_reduction_get_th_data(thread: c_int, group: *mut c_void, data: *mut c_void) -> *mut c_void;
    fn __kmpc_task_reduction_modifier_init(location: Location, thread: c_int, share: c_int, count: c_int, variables: *const Reduced)
        -> *mut c_void;
    fn __kmpc_taskred_modifier_init(location: Location, thread: c_int, share: c_int, count: c_int, variables: *const ReducedFrom)
        -> *mut c_void;
    fn __kmpc_task_reduction_modifier_fini(location: Location, thread: c_int, share: c_int);
    fn __kmpc_barrier(location: Location, thread: c_int);
    fn __kmpc_reduce(location: Location, thread: c_int, count: c_int, size: usize, data: *mut c_void, reduce: *mut c_void,
        lock: *mut c_void) -> c_int;
    fn __kmpc_copyprivate(location: Location, thread: c_int, size: usize, data: *mut c_void, copy: *mut c_void, did: c_int);
    fn __kmpc_cancel(location: Location, thread: c_int, kind: c_int) -> c_int;
    fn __kmpc_cancellationpoint(location: Location, thread: c_int, kind: c_int) -> c_int;
    fn __kmpc_serialized_parallel(location: Location, thread: c_int);
    fn __kmpc_end_serialized_parallel(location: Location, thread: c_int);
    fn omp_get_cancellation() -> c_int;
}

/// Returns the calling thread's place. Outside of regions it learns its number.
fn here(thread: c_int) -> &'static Member {
    let me = me_or_alone();
    if me.is_outside() {
        me.number.set(thread);
    }
    me
}

fn in_team() -> Option<&'static Member> {
    me().filter(|me| !me.is_outside())
}

/// Returns the task whose data clang's code has.
#[inline]
fn task_of(data: *mut c_void) -> *mut Task {
    data.wrapping_byte_sub(size_of::<Task>()).cast()
}

/// Returns both rows of dependences.
///
/// # Safety
/// The rows have that many.
unsafe fn depends(
    count: c_int,
    row: *const Depend,
    more: c_int,
    others: *const Depend,
) -> impl Iterator<Item = (usize, Kind)> + Clone {
    let slice = |count: c_int, row: *const Depend| {
        if count <= 0 || row.is_null() {
            &[][..]
        } else {
            // SAFETY: the caller promises it.
            unsafe { std::slice::from_raw_parts(row, count as usize) }
        }
    };
    let all = slice(count, row).iter().chain(slice(more, others));
    all.map(|depend| {
        let kind = match depend.flags {
            1 => Kind::In,
            8 => Kind::Set,
            _ if depend.flags & ALL != 0 || depend.address == usize::MAX => Kind::All,
            _ => Kind::Out,
        };
        (depend.address, kind)
    })
}

/// Returns the bytes that a row of dependences names. (gcc's code does not say how long what it depends on is.)
///
/// # Safety
/// The row has that many.
unsafe fn footprint(count: c_int, row: *const Depend) -> u32 {
    if row.is_null() {
        return 0;
    }
    // SAFETY: the caller promises it.
    let row = unsafe { std::slice::from_raw_parts(row, count.max(0) as usize) };
    let bytes: u64 = row
        .iter()
        .fold(0, |sum, depend| sum.saturating_add(depend.length as u64));
    bytes.try_into().unwrap_or(u32::MAX)
}

/// Makes a task and returns its data.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_alloc(
    location: Location,
    thread: c_int,
    bits: c_int,
    size: usize,
    shareds: usize,
    code: Code,
) -> *mut c_void {
    // SAFETY: as this function's.
    unsafe {
        let me = match me() {
            Some(me) => me,
            None if active() => here(thread),
            None => {
                return __kmpc_omp_task_alloc::call(location, thread, bits, size, shareds, code);
            }
        };
        let mut own = flags::KMP;
        if bits & FINAL != 0 || me.current().is(flags::FINAL) {
            own |= flags::FINAL;
        }
        if bits & TIED == 0 {
            own |= flags::UNTIED;
        }
        if bits & DETACHABLE != 0 {
            own |= flags::DETACHED;
        }
        if bits & DESTROYS != 0 {
            own |= flags::DESTROYS;
        }
        let size = size.next_multiple_of(16);
        let task = me.allocate(size + shareds, 16, own);
        (*task).run.set(code as usize);
        (*task).size.set((size + shareds) as u32);
        let data = (*task).data.get();
        data.cast::<KmpData>().write(KmpData {
            shareds: if shareds > 0 {
                data.byte_add(size)
            } else {
                null_mut()
            },
            routine: Some(code),
            part: 0,
            destroy: None,
            priority: 0,
        });
        if bits & PRIORITY != 0 {
            (*task).size.set((*task).size.get() | HAS_PRIORITY);
        }
        data
    }
}

/// In the size of a task: its data says a priority.
const HAS_PRIORITY: u32 = 1 << 31;

/// Hands in `task`. Its data is complete.
#[inline]
unsafe fn submit(me: &Member, task: *mut Task) {
    // SAFETY: clang's code hands in a task once.
    unsafe {
        if (*task).is(flags::FINAL) && me.current().is(flags::FINAL) || me.is_outside() {
            return me.run_now(task);
        }
        me.submit(task);
    }
}

/// Reads what the program put into the data.
#[inline]
unsafe fn prepare(task: *mut Task) {
    // SAFETY: clang's code made it.
    unsafe {
        if (*task).size.get() & HAS_PRIORITY != 0 {
            let data = (*task).data.get().cast::<KmpData>();
            (*task).priority.set(tasks::priority((*data).priority));
        }
    }
}

/// Hands in a task, or an untied task its next part.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task(
    location: Location,
    thread: c_int,
    data: *mut c_void,
) -> c_int {
    // SAFETY: as this function's.
    unsafe {
        let Some(me) = me() else {
            return __kmpc_omp_task::call(location, thread, data);
        };
        let task = task_of(data);
        if std::ptr::eq(task, me.current()) {
            if !(*task).is(flags::DIRECT) {
                (*task).set(flags::AGAIN);
            } else if let Some(code) = (*data.cast::<KmpData>()).routine {
                code(me.number.get(), data);
            }
            return 0;
        }
        prepare(task);
        submit(me, task);
        0
    }
}

/// Hands in a task with dependences.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_with_deps(
    location: Location,
    thread: c_int,
    data: *mut c_void,
    count: c_int,
    row: *const Depend,
    more: c_int,
    others: *const Depend,
) -> c_int {
    // SAFETY: as this function's.
    unsafe {
        let Some(me) = me() else {
            return __kmpc_omp_task_with_deps::call(
                location, thread, data, count, row, more, others,
            );
        };
        let task = task_of(data);
        prepare(task);
        (*task).footprint.set(footprint(count, row));
        let depends = depends(count, row, more, others);
        if me.current().is(flags::FINAL) || me.is_outside() {
            me.wait_for(depends);
            me.run_now(task);
        } else {
            me.submit_after(task, depends);
        }
        0
    }
}

/// Waits for the children that have some dependences.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_wait_deps(
    location: Location,
    thread: c_int,
    count: c_int,
    row: *const Depend,
    more: c_int,
    others: *const Depend,
) {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) => me.wait_for(depends(count, row, more, others)),
            None if active() => {}
            None => __kmpc_omp_wait_deps::call(location, thread, count, row, more, others),
        }
    }
}

/// As [`__kmpc_omp_wait_deps`].
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_taskwait_deps_51(
    location: Location,
    thread: c_int,
    count: c_int,
    row: *const Depend,
    more: c_int,
    others: *const Depend,
    no_wait: c_int,
) {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) => me.wait_for(depends(count, row, more, others)),
            None if active() => {}
            None => __kmpc_omp_taskwait_deps_51::call(
                location, thread, count, row, more, others, no_wait,
            ),
        }
    }
}

/// A task begins whose code the program calls itself.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_begin_if0(
    location: Location,
    thread: c_int,
    data: *mut c_void,
) {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) => me.begin(task_of(data)),
            None => __kmpc_omp_task_begin_if0::call(location, thread, data),
        }
    }
}

/// The task ends that began with [`__kmpc_omp_task_begin_if0`].
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_complete_if0(
    location: Location,
    thread: c_int,
    data: *mut c_void,
) {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) => me.complete(task_of(data)),
            None => __kmpc_omp_task_complete_if0::call(location, thread, data),
        }
    }
}

/// Waits for the children of the current task.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_taskwait(location: Location, thread: c_int) -> c_int {
    match me() {
        Some(me) => me.wait_for_children(),
        // SAFETY: as this function's.
        None if !active() => return unsafe { __kmpc_omp_taskwait::call(location, thread) },
        None => {}
    }
    0
}

/// The current task may be interrupted here.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_taskyield(
    location: Location,
    thread: c_int,
    end: c_int,
) -> c_int {
    match me() {
        Some(me) => me.yield_to_tasks(),
        // SAFETY: as this function's.
        None if !active() => return unsafe { __kmpc_omp_taskyield::call(location, thread, end) },
        None => {}
    }
    0
}

/// A group begins.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_taskgroup(location: Location, thread: c_int) {
    if active() {
        here(thread).begin_group(0);
    } else {
        // SAFETY: as this function's.
        unsafe { __kmpc_taskgroup::call(location, thread) }
    }
}

fn end_group(me: &Member) {
    let group = me.scope();
    let reductions = group.data.get().cast::<Reduces>();
    let reduces = group.is(flags::REDUCES);
    me.end_group();
    if reduces && !reductions.is_null() {
        // SAFETY: the group has ended, and was the only one that used this.
        unsafe { Reduces::end(reductions) };
    }
}

/// A group ends: all tasks of it and their descendants have.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_end_taskgroup(location: Location, thread: c_int) {
    if active() {
        end_group(here(thread));
    } else {
        // SAFETY: as this function's.
        unsafe { __kmpc_end_taskgroup::call(location, thread) }
    }
}

/// How a loop is cut into tasks.
mod schedule {
    pub(super) const GRAIN: i32 = 1;
    pub(super) const TASKS: i32 = 2;
}

/// The tasks of a loop, made from `data`, in which `from` and `to` are.
#[allow(clippy::too_many_arguments)]
unsafe fn taskloop(
    me: &Member,
    data: *mut c_void,
    deferred: bool,
    from: *mut u64,
    to: *mut u64,
    step: i64,
    no_group: bool,
    schedule: c_int,
    grain: u64,
    strict: bool,
    duplicate: Option<Duplicate>,
) {
    // SAFETY: as `__kmpc_taskloop`'s.
    unsafe {
        let pattern = task_of(data);
        let (first, last) = (*from, *to);
        let iterations = if step > 0 {
            // The bounds are signed or not; the distance is the same, unless there is none.
            let distance = (last as i64).wrapping_sub(first as i64);
            if distance < 0 && (last as i64) < first as i64 {
                0
            } else {
                distance as u64 / step as u64 + 1
            }
        } else {
            let distance = (first as i64).wrapping_sub(last as i64);
            if distance < 0 && (first as i64) < last as i64 {
                0
            } else {
                distance as u64 / step.unsigned_abs().max(1) + 1
            }
        };
        if !no_group {
            me.begin_group(0);
        }
        if iterations > 0 && !drops_tasks(me) {
            let count = match schedule {
                schedule::GRAIN if strict => iterations.div_ceil(grain.max(1)),
                schedule::GRAIN => (iterations / grain.max(1)).max(1),
                schedule::TASKS => grain.clamp(1, iterations),
                _ => iterations.min(me.team().size() as u64 * 10),
            };
            let exact = strict && schedule == schedule::GRAIN;
            let (length, longer) = if exact {
                (grain.max(1), 0)
            } else {
                (iterations / count, iterations % count)
            };
            let size = ((*pattern).size.get() & !HAS_PRIORITY) as usize;
            let (from_at, to_at) = (from.byte_offset_from(data), to.byte_offset_from(data));
            prepare(pattern);
            let mut at = first;
            for i in 0..count {
                let mut here = length + u64::from(i < longer);
                if exact && i + 1 == count {
                    here = iterations - length * (count - 1);
                }
                let task = me.allocate(size, 16, (*pattern).flags());
                (*task).run.set((*pattern).run.get());
                (*task).size.set((*pattern).size.get());
                (*task).priority.set((*pattern).priority.get());
                let own = (*task).data.get();
                std::ptr::copy_nonoverlapping(data.cast::<u8>(), own.cast(), size);
                let (source, copy) = (data.cast::<KmpData>(), own.cast::<KmpData>());
                if !(*source).shareds.is_null() {
                    (*copy).shareds = own.byte_offset((*source).shareds.byte_offset_from(data));
                }
                let end = at.wrapping_add((step as u64).wrapping_mul(here - 1));
                *own.byte_offset(from_at).cast::<u64>() = at;
                *own.byte_offset(to_at).cast::<u64>() = end;
                if let Some(duplicate) = duplicate {
                    duplicate(own, data, c_int::from(i + 1 == count));
                }
                at = end.wrapping_add(step as u64);
                if deferred {
                    submit(me, task);
                } else {
                    me.run_now(task);
                }
            }
        }
        if (*pattern).is(flags::DESTROYS) {
            me.destroy(pattern);
        }
        me.discard(pattern);
        if !no_group {
            end_group(me);
        }
    }
}

/// A loop of tasks.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_taskloop(
    location: Location,
    thread: c_int,
    task: *mut c_void,
    deferred: c_int,
    from: *mut u64,
    to: *mut u64,
    step: c_longlong,
    no_group: c_int,
    schedule: c_int,
    grain: u64,
    duplicate: Option<Duplicate>,
) {
    // SAFETY: as this function's.
    unsafe {
        if active() {
            taskloop(
                here(thread),
                task,
                deferred != 0,
                from,
                to,
                step,
                no_group != 0,
                schedule,
                grain,
                false,
                duplicate,
            );
        } else {
            __kmpc_taskloop::call(
                location, thread, task, deferred, from, to, step, no_group, schedule, grain,
                duplicate,
            );
        }
    }
}

/// As [`__kmpc_taskloop`], with the modifier `strict`.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_taskloop_5(
    location: Location,
    thread: c_int,
    task: *mut c_void,
    deferred: c_int,
    from: *mut u64,
    to: *mut u64,
    step: c_longlong,
    no_group: c_int,
    schedule: c_int,
    grain: u64,
    strict: c_int,
    duplicate: Option<Duplicate>,
) {
    // SAFETY: as this function's.
    unsafe {
        if active() {
            taskloop(
                here(thread),
                task,
                deferred != 0,
                from,
                to,
                step,
                no_group != 0,
                schedule,
                grain,
                strict != 0,
                duplicate,
            );
        } else {
            __kmpc_taskloop_5::call(
                location, thread, task, deferred, from, to, step, no_group, schedule, grain,
                strict, duplicate,
            );
        }
    }
}

/// Returns the event of a task that is detachable.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_task_allow_completion_event(
    location: Location,
    thread: c_int,
    data: *mut c_void,
) -> *mut c_void {
    // SAFETY: as this function's.
    unsafe {
        if !active() {
            // libomp 14 fails an assertion of its own if a region with detached tasks ran on one thread before.
            watch::other();
            return __kmpc_task_allow_completion_event::call(location, thread, data);
        }
        let task = task_of(data);
        (*task).set(flags::DETACHED);
        task.cast()
    }
}

/// Where a task would best run, which is not looked at.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_reg_task_with_affinity(
    location: Location,
    thread: c_int,
    data: *mut c_void,
    count: c_int,
    list: *mut c_void,
) -> c_int {
    if active() {
        return 0;
    }
    // SAFETY: as this function's.
    unsafe { __kmpc_omp_reg_task_with_affinity::call(location, thread, data, count, list) }
}

/// A variable that a group reduces.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::abi) struct Reduced {
    shared: usize,
    size: usize,
    begin: Option<unsafe extern "C-unwind" fn(usize, usize)>,
    end: Option<unsafe extern "C-unwind" fn(usize)>,
    combine: unsafe extern "C-unwind" fn(usize, usize),
    flags: u32,
}

/// The same in newer code: copies are made from the original.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::abi) struct ReducedFrom {
    shared: usize,
    original: usize,
    size: usize,
    begin: Option<unsafe extern "C-unwind" fn(usize, usize)>,
    end: Option<unsafe extern "C-unwind" fn(usize)>,
    combine: unsafe extern "C-unwind" fn(usize, usize),
    flags: u32,
}

impl From<Reduced> for Variable {
    fn from(from: Reduced) -> Variable {
        Variable {
            shared: from.shared,
            original: from.shared, // older functions take one argument, and do not look at the second
            size: from.size,
            begin: from.begin,
            end: from.end,
            combine: from.combine,
        }
    }
}

impl From<ReducedFrom> for Variable {
    fn from(from: ReducedFrom) -> Variable {
        Variable {
            shared: from.shared,
            original: if from.original == 0 {
                from.shared
            } else {
                from.original
            },
            size: from.size,
            begin: from.begin,
            end: from.end,
            combine: from.combine,
        }
    }
}

/// The current group reduces variables. Returns the group.
unsafe fn reduce<V: Copy + Into<Variable>>(
    me: &Member,
    count: c_int,
    variables: *const V,
) -> *mut c_void {
    let group = me.scope();
    if !group.is(flags::GROUP) {
        return null_mut();
    }
    // SAFETY: clang's row of that many.
    let (variables, copies) = unsafe {
        let row = std::slice::from_raw_parts(variables, count.max(0) as usize);
        let row: Vec<Variable> = row.iter().map(|&variable| variable.into()).collect();
        let copies = Reductions::new(&row, me.team().size(), 1);
        (row, copies)
    };
    group.set(flags::REDUCES);
    let shared = variables.iter().map(|variable| variable.shared);
    group
        .data
        .set(Reduces::new(shared.collect(), copies).cast());
    std::ptr::from_ref(group).cast_mut().cast()
}

/// As [`reduce`], of a work-sharing construct or region: begins a group in each thread, and all have the same copies.
unsafe fn reduce_together<V: Copy + Into<Variable>>(
    me: &Member,
    count: c_int,
    variables: *const V,
) -> *mut c_void {
    // SAFETY: clang's row of that many.
    let row = unsafe { std::slice::from_raw_parts(variables, count.max(0) as usize) };
    let row: Vec<Variable> = row.iter().map(|&variable| variable.into()).collect();
    let threads = me.team().size();
    let copies = me.share(|first| {
        // SAFETY: as above.
        first.unwrap_or_else(|| unsafe { Reductions::new(&row, threads, threads) } as usize)
    });
    let group = me.begin_group(flags::REDUCES);
    let addresses = row.iter().map(|variable| variable.shared).collect();
    let copies = copies as *mut Reductions;
    group.data.set(Reduces::new(addresses, copies).cast());
    std::ptr::from_ref(group).cast_mut().cast()
}

/// Functions that describe variables to reduce, each in an older and a newer form.
macro_rules! reduces {
    ($($name:ident($type:ty), $together:ident;)*) => {
        $(
            /// The current group reduces variables.
            ///
            /// # Safety
            /// As clang calls it.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(thread: c_int, count: c_int, variables: *const $type) -> *mut c_void {
                // SAFETY: as this function's.
                unsafe {
                    if active() {
                        reduce(here(thread), count, variables)
                    } else {
                        $name::call(thread, count, variables)
                    }
                }
            }

            /// A region or work-sharing construct reduces variables.
            ///
            /// # Safety
            /// As clang calls it.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $together(
                location: Location, thread: c_int, share: c_int, count: c_int, variables: *const $type
            ) -> *mut c_void {
                // SAFETY: as this function's.
                unsafe {
                    if active() {
                        reduce_together(here(thread), count, variables)
                    } else {
                        $together::call(location, thread, share, count, variables)
                    }
                }
            }
        )*
    };
}

reduces! {
    __kmpc_task_reduction_init(Reduced), __kmpc_task_reduction_modifier_init;
    __kmpc_taskred_init(ReducedFrom), __kmpc_taskred_modifier_init;
}

/// A region or work-sharing construct with reductions ends.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_task_reduction_modifier_fini(
    location: Location,
    thread: c_int,
    share: c_int,
) {
    if active() {
        end_group(here(thread));
    } else {
        // SAFETY: as this function's.
        unsafe { __kmpc_task_reduction_modifier_fini::call(location, thread, share) }
    }
}

/// Returns the thread's copy of a variable that `group`, or one around the current task, reduces.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_task_reduction_get_th_data(
    thread: c_int,
    group: *mut c_void,
    data: *mut c_void,
) -> *mut c_void {
    // SAFETY: as this function's; a group is one of ours.
    unsafe {
        if !active() {
            return __kmpc_task_reduction_get_th_data::call(thread, group, data);
        }
        let me = here(thread);
        let mut at = match group.cast::<Task>().as_ref() {
            Some(group) => Some(group),
            None => me.group(),
        };
        while let Some(group) = at {
            if group.is(flags::REDUCES)
                && let Some(reductions) = group.data.get().cast::<Reduces>().as_ref()
                && let Some(copy) = reductions.find(data as usize, me.index.into())
            {
                return copy;
            }
            at = group.enclosing();
        }
    }
    eprintln!("tanada: no group of this task reduces the variable at {data:?}");
    std::process::abort();
}

/// A barrier.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_barrier(location: Location, thread: c_int) {
    match in_team() {
        Some(me) => {
            me.barrier(false);
        }
        // SAFETY: as this function's.
        None => unsafe { __kmpc_barrier::call(location, thread) },
    }
}

/// Values of all threads are combined, which has a barrier of the runtime's: tasks have ended before it.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_reduce(
    location: Location,
    thread: c_int,
    count: c_int,
    size: usize,
    data: *mut c_void,
    reduce: *mut c_void,
    lock: *mut c_void,
) -> c_int {
    if let Some(me) = in_team() {
        me.barrier(false);
    }
    // SAFETY: as this function's.
    unsafe { __kmpc_reduce::call(location, thread, count, size, data, reduce, lock) }
}

/// A value goes from one thread to all, which has barriers of the runtime's: tasks have ended before them.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_copyprivate(
    location: Location,
    thread: c_int,
    size: usize,
    data: *mut c_void,
    copy: *mut c_void,
    did: c_int,
) {
    if let Some(me) = in_team() {
        me.barrier(false);
    }
    // SAFETY: as this function's.
    unsafe { __kmpc_copyprivate::call(location, thread, size, data, copy, did) }
}

#[inline]
fn drops_tasks(me: &Member) -> bool {
    me.team().cancels.load(Ordering::Relaxed)
        && (me.team().cancelled.load(Ordering::Relaxed)
            || me.group().is_some_and(Task::is_cancelled))
}

/// Cancels a construct. Returns whether it is cancelled.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_cancel(location: Location, thread: c_int, kind: c_int) -> c_int {
    // SAFETY: as this function's.
    unsafe {
        let Some(me) = me() else {
            return __kmpc_cancel::call(location, thread, kind);
        };
        if kind != TASKGROUP {
            let cancelled = __kmpc_cancel::call(location, thread, kind);
            if cancelled != 0 && kind == PARALLEL {
                me.team().cancels.store(true, Ordering::Relaxed);
                me.team().cancelled.store(true, Ordering::SeqCst);
            }
            return cancelled;
        }
        if omp_get_cancellation::call() == 0 {
            return 0;
        }
        if let Some(group) = me.group() {
            me.team().cancels.store(true, Ordering::Relaxed);
            group.cancel();
            return 1;
        }
        0
    }
}

/// Returns whether a construct was cancelled.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_cancellationpoint(
    location: Location,
    thread: c_int,
    kind: c_int,
) -> c_int {
    // SAFETY: as this function's.
    unsafe {
        match me() {
            Some(me) if kind == TASKGROUP => c_int::from(drops_tasks(me)),
            _ => __kmpc_cancellationpoint::call(location, thread, kind),
        }
    }
}

/// A region begins that this thread runs alone.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_serialized_parallel(location: Location, thread: c_int) {
    // SAFETY: as this function's.
    unsafe { __kmpc_serialized_parallel::call(location, thread) };
    if active() {
        crate::tasks::begin_serial(thread);
    }
}

/// A region ends that this thread ran alone.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_end_serialized_parallel(location: Location, thread: c_int) {
    if active() {
        crate::tasks::end_serial();
    }
    // SAFETY: as this function's.
    unsafe { __kmpc_end_serialized_parallel::call(location, thread) };
}

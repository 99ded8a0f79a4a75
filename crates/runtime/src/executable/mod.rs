//! What a worker can execute, and the right to execute it.
//!
//! An *executable thing* is a task of a dynamic graph, a task of a template, a share of a template's roots, or a ticket of a nested graph.
//! In memory it begins with a [`Header`], which points to the functions of its [`Kind`], and says where its [`Description`] is. The policy
//! holds a [`Ready`]: one word with the header's address, and the right to run the thing once. A worker turns it into a [`Runnable`], which
//! the steps of the execution consume one by one.
//!
//! All unsafe code that turns a `Ready` into a call is here. A new layer implements [`Executable`] and mints its `Ready`s with
//! [`Header::ready`].

mod body;
mod brief;

pub(crate) use body::{Block, BodyTable, BodyWords, ErasedBody, Stored, block_of};
pub(crate) use brief::{BRIEF_AT, Brief};

use crate::graph::GraphCore;
use crate::observer::TaskView;
use crate::process;
use crate::worker::WorkerCore;
use std::marker::PhantomData;
use std::ptr::NonNull;
use tanada_policy::{Hints, Ready};

/// The first bytes of every executable thing: what a worker and a policy need of each task. A `Ready` holds its address.
#[repr(C)]
pub(crate) struct Header {
    kind: &'static Kind,
    t: u32,
    s: u32,
    digest: u16,
    form: Form,
    /// Two numbers for the kind's own use; a [brief](Form::Brief) thing has its index in `long`.
    pub(crate) short: u8,
    pub(crate) long: u32,
}

/// Where the [`Description`] of an executable thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// [`DESCRIPTION_AT`] bytes behind the start of the header.
    Beside,
    /// Nothing is to be said but the groups, which are in the header, the index, which is [`Header::long`], and the name, which is a
    /// [`Brief`] at [`BRIEF_AT`].
    Brief,
    /// Elsewhere: a [`Brief`] at [`BRIEF_AT`] points to it.
    Apart,
}

/// Bytes from the start of a [`Header`] to a [`Description`] beside it, which is therefore on the next cache line.
pub(crate) const DESCRIPTION_AT: usize = 64;

/// The rarely read part of an executable thing: its name, its number among the tasks of that name, and its full hint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) index: u64,
    pub(crate) hints: Hints,
}

impl Description {
    /// Returns what observers see of the task at `address`.
    #[inline(always)]
    pub(crate) fn view(&self, address: usize) -> TaskView {
        let Description { name, index, hints } = *self;
        TaskView {
            name,
            index,
            hints,
            address,
        }
    }
}

/// A type of executable things.
///
/// # Safety
/// All functions: `header` is the live header of a thing of this type, derived from a pointer to the whole thing. The caller holds the
/// right to run the thing, calls `run_body` once, and then `finish` once.
pub(crate) trait Executable {
    /// Whether observers see things of this type.
    const OBSERVED: bool;

    /// Calls the body. A panic of the body does not leave this function.
    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore);

    /// Releases what waits for the thing. Its memory may be gone when this returns.
    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore);

    /// Returns the graph that the thing was registered in; null of a thing that was not registered.
    unsafe fn graph(_header: NonNull<Header>) -> *const GraphCore {
        std::ptr::null()
    }

    /// Does both, `run_body` and `finish`. If the worker [chains](WorkerCore::chains), it may go on in the same way with a task that
    /// becomes ready thereby, instead of leaving it among the released ones.
    #[inline(always)]
    unsafe fn run_and_finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the caller keeps this trait's contract, and the calls come in its order.
        unsafe {
            Self::run_body(header, worker);
            Self::finish(header, worker);
        }
    }

    /// As `run_and_finish`, on a worker that [chains](WorkerCore::chains) and has an observer, which has been told that the task starts: it
    /// is told of all else. `None`: such tasks begin no chains.
    const CHAIN: Option<unsafe fn(NonNull<Header>, &WorkerCore)> = None;

    /// The table that headers of this type point to, unless each has a closure.
    const KIND: Kind = kind_of::<Self>(None);
}

/// Returns the table of `E`, whose things have closures that `body` belongs to.
const fn kind_of<E: Executable + ?Sized>(body: Option<BodyTable>) -> Kind {
    Kind {
        observed: E::OBSERVED,
        // SAFETY: the caller keeps the contract of `Executable`.
        run_and_finish: |header, worker| unsafe { E::run_and_finish(header, worker) },
        run_body: E::run_body,
        finish: E::finish,
        chain: E::CHAIN,
        graph: E::graph,
        body,
    }
}

/// Things of type `E` that have a closure of type `F`, which is called with a `C`.
pub(crate) struct With<E, C, F>(PhantomData<(E, C, F)>);

impl<E: Executable, C, F: FnOnce(&C) + Send> With<E, C, F> {
    /// The table that their headers point to.
    pub(crate) const KIND: Kind = kind_of::<E>(Some(Stored::<C, F>::TABLE));
}

/// An [`Executable`] as a table of functions, with the same contract.
pub(crate) struct Kind {
    observed: bool,
    /// `run_body`, then `finish`, in one indirect call: the hot path, which no observer sees.
    run_and_finish: unsafe fn(NonNull<Header>, &WorkerCore),
    run_body: unsafe fn(NonNull<Header>, &WorkerCore),
    finish: unsafe fn(NonNull<Header>, &WorkerCore),
    chain: Option<unsafe fn(NonNull<Header>, &WorkerCore)>,
    graph: unsafe fn(NonNull<Header>) -> *const GraphCore,
    /// How the closure is called, if each thing has one.
    body: Option<BodyTable>,
}

impl Header {
    /// Returns the header of a task with these hints, whose description is stored as `form` says.
    #[inline]
    pub(crate) fn new(
        kind: &'static Kind,
        form: Form,
        hints: &Hints,
        short: u8,
        long: u32,
    ) -> Self {
        Header {
            kind,
            t: hints.t,
            s: hints.s,
            digest: hints.digest(),
            form,
            short,
            long,
        }
    }

    /// Returns where the description is.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns how the thing's closure is called, if it has one.
    #[inline]
    pub(crate) fn body(&self) -> Option<&'static BodyTable> {
        self.kind.body.as_ref()
    }

    /// Mints and returns the right to run the thing with this header.
    ///
    /// # Safety
    /// `this` is derived from a pointer to the whole thing, which has its [`Description`] where its [`Form`] says and keeps the contract
    /// of its [`Executable`]. The thing is ready, stays where it is until it has run, and no other right for this run exists.
    #[inline]
    pub(crate) unsafe fn ready(this: NonNull<Header>) -> Ready {
        // SAFETY: the header is alive (caller).
        let digest = unsafe { this.as_ref() }.digest;
        // SAFETY: the only right for this run (caller).
        unsafe { Ready::at(this.as_ptr() as u64, digest) }
    }

    /// Returns what observers and error messages say of the thing.
    ///
    /// # Safety
    /// `this` is the live header of an executable thing, derived from a pointer to the whole thing.
    #[inline(always)]
    pub(crate) unsafe fn view(this: NonNull<Header>) -> TaskView {
        // SAFETY: the caller keeps the same contract.
        unsafe { Header::description(this) }.view(this.as_ptr().addr())
    }

    /// Returns the description of the thing with the header `this`.
    ///
    /// # Safety
    /// As [`Header::view`].
    #[inline(always)]
    unsafe fn description(this: NonNull<Header>) -> Description {
        // SAFETY: the header is alive, and every executable thing has its description where its form says (each type asserts so), written
        // before the thing became ready.
        unsafe {
            let header = this.as_ref();
            let brief = || this.byte_add(BRIEF_AT).cast::<Brief>().as_ref();
            match header.form {
                Form::Beside => this.byte_add(DESCRIPTION_AT).cast::<Description>().read(),
                Form::Brief => Description {
                    name: brief().name(),
                    index: header.long.into(),
                    hints: Hints::groups(header.t, header.s),
                },
                Form::Apart => brief().place().read(),
            }
        }
    }
}

/// Returns the header's address from a right. Every `Ready` in this process with an address comes from [`Header::ready`], because
/// `Ready::at` is unsafe.
#[inline]
fn header_of(task: &Ready) -> NonNull<Header> {
    let header = task
        .address()
        .and_then(|address| NonNull::new(address as *mut Header));
    header.unwrap_or_else(|| foreign_task())
}

/// Prefetches what a worker reads first of the task with this handle, which need not be there any more.
#[inline]
pub(crate) fn prefetch(handle: u64) {
    crate::prefetch::prefetch(std::ptr::without_provenance::<Header>(handle as usize));
}

/// Consumes the right to run a task and returns the task's header: for a kind that runs it itself, as the contract of [`Executable`] says.
#[inline]
pub(crate) fn claim(task: Ready) -> NonNull<Header> {
    header_of(&task)
}

/// Ends the process and never returns: a task would end on a pool that does not own it, and its waiting thread would never wake.
#[cold]
pub(crate) fn foreign_task() -> ! {
    process::report(format_args!(
        "a policy gave a worker a task of another pool or engine, or one that it had lost before; the process cannot go on"
    ));
    std::process::abort();
}

/// Returns the full hint of a task that has not run. `code` is derived from the task's name unless the task has set it.
///
/// The groups come from the header, so that a policy that reads no more than these touches one cache line.
#[inline]
pub(crate) fn hints(task: &Ready) -> Hints {
    let this = header_of(task);
    // SAFETY: the right has not been used, so the thing is alive.
    let (header, description) = unsafe { (this.as_ref(), Header::description(this)) };
    let Description {
        name, mut hints, ..
    } = description;
    (hints.t, hints.s) = (header.t, header.s);
    if hints.code == 0 {
        hints.code = code_of(name);
    }
    hints
}

/// Returns what observers see of a task that has not run; `None` of what they do not see.
pub(crate) fn observed(task: &Ready) -> Option<TaskView> {
    let task = Runnable(header_of(task));
    task.is_observed().then(|| task.view())
}

/// Returns the graph that `task` was registered in; null of a task of a template, and of a ticket.
pub(crate) fn graph_of(task: &Ready) -> *const GraphCore {
    let header = header_of(task);
    // SAFETY: the right has not been used, so the thing is alive.
    unsafe { (header.as_ref().kind.graph)(header) }
}

/// Returns a number for the code of all tasks of this name, made from the name's address and length. Equal names in different places of a
/// program may have different codes.
fn code_of(name: &'static str) -> u64 {
    name.as_ptr() as u64 ^ (name.len() as u64) << 48
}

/// Tells the worker's observer that the body of the thing with the header `this` has run.
///
/// # Safety
/// `this` is the live header of an executable thing, derived from a pointer to the whole thing. Its body has run, and it has not finished.
#[inline]
pub(crate) unsafe fn tell_end(this: NonNull<Header>, worker: &WorkerCore) {
    worker.tell_end(&Ran(this));
}

/// Tells the worker's observer that the thing with the header `this`, which was handed on, starts.
///
/// # Safety
/// As [`tell_end`], but its body is about to run.
#[inline]
pub(crate) unsafe fn tell_start(this: NonNull<Header>, worker: &WorkerCore) {
    worker.tell_start(&Runnable(this));
}

/// A task that a worker is about to run: a right that has left the policy.
pub(crate) struct Runnable(NonNull<Header>);

/// A task whose body has run, and which has not released its successors yet.
#[must_use = "what waits for the task is released by `finish`"]
pub(crate) struct Ran(NonNull<Header>);

impl Runnable {
    #[inline]
    pub(crate) fn new(task: Ready) -> Self {
        Runnable(header_of(&task))
    }

    #[inline]
    fn kind(&self) -> &'static Kind {
        // SAFETY: the right has not been used, so the thing is alive.
        unsafe { self.0.as_ref() }.kind
    }

    /// Returns whether observers see this task.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.kind().observed
    }

    /// Returns what observers see of this task.
    #[inline(always)]
    pub(crate) fn view(&self) -> TaskView {
        // SAFETY: the right has not been used, so the thing is alive.
        unsafe { Header::view(self.0) }
    }

    /// Runs the body and releases what waits for the task. Costs one indirect call.
    #[inline]
    pub(crate) fn run_and_finish(self, worker: &WorkerCore) {
        // SAFETY: `self` is the right to do both, and is consumed.
        unsafe { (self.kind().run_and_finish)(self.0, worker) }
    }

    /// Runs the task and the [chain](Executable::CHAIN) that it begins, or returns the task if such tasks begin none. The worker chains,
    /// and its observer has been told of the task's start.
    #[inline]
    pub(crate) fn run_chain(self, worker: &WorkerCore) -> Option<Runnable> {
        let Some(chain) = self.kind().chain else {
            return Some(self);
        };
        // SAFETY: `self` is the right to run and finish the task, and is consumed.
        unsafe { chain(self.0, worker) };
        None
    }

    /// Runs the body and returns the right to finish the task.
    #[inline]
    pub(crate) fn run_body(self, worker: &WorkerCore) -> Ran {
        // SAFETY: `self` is the right to do so, and is consumed.
        unsafe { (self.kind().run_body)(self.0, worker) }
        Ran(self.0)
    }
}

impl Ran {
    /// Returns what observers see of this task.
    #[inline(always)]
    pub(crate) fn view(&self) -> TaskView {
        // SAFETY: the thing stays alive until `finish`.
        unsafe { Header::view(self.0) }
    }

    /// Releases what waits for the task.
    #[inline]
    pub(crate) fn finish(self, worker: &WorkerCore) {
        // SAFETY: the body has run, the thing stays alive until `finish`, and `self` is consumed.
        unsafe { (self.0.as_ref().kind.finish)(self.0, worker) }
    }
}

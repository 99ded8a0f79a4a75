//! How pools are described and made.

use crate::pool::ThreadPool;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use tanada_runtime::fork::ForkRecorder;
use tanada_runtime::{Pool, WorkerThread};

type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
type ThreadHandler = dyn Fn(usize) + Send + Sync;

/// Why a pool was not made.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: ErrorKind,
}

#[derive(Debug)]
pub(crate) enum ErrorKind {
    GlobalPoolAlreadyInitialized,
    CurrentThreadAlreadyInPool,
    Io(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        ThreadPoolBuildError { kind }
    }
}

impl From<io::Error> for ThreadPoolBuildError {
    fn from(error: io::Error) -> Self {
        ThreadPoolBuildError::new(ErrorKind::Io(error))
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::GlobalPoolAlreadyInitialized => {
                f.write_str("The global thread pool has already been initialized.")
            }
            ErrorKind::CurrentThreadAlreadyInPool => {
                f.write_str("The current thread is already part of another thread pool.")
            }
            ErrorKind::Io(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// A thread of a pool that has not begun; see [`ThreadPoolBuilder::spawn_handler`].
pub struct ThreadBuilder {
    name: Option<String>,
    stack_size: Option<usize>,
    thread: WorkerThread,
}

impl ThreadBuilder {
    /// Returns the number of the thread in its pool.
    pub fn index(&self) -> usize {
        self.thread.index()
    }

    /// Returns the name that the pool's builder gives the thread.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the bytes of stack that the pool's builder asks for.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs the thread's loop. Returns when the pool has been dropped and all that was spawned in it has run.
    pub fn run(self) {
        self.thread.run();
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index())
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish()
    }
}

/// How a pool starts its threads. Only the types of this crate implement it.
pub trait ThreadSpawn: sealed::Sealed {
    /// Starts a thread that runs `thread`.
    ///
    /// # Errors
    /// If it cannot be started.
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;

    /// As [`ThreadSpawn::spawn`], when the thread is needed, if the program cannot see when that is.
    ///
    /// # Errors
    /// If it cannot be started.
    #[doc(hidden)]
    fn spawn_later(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        self.spawn(thread)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Starts threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl sealed::Sealed for DefaultSpawn {}

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        builder_of(&thread).spawn(|| thread.run())?;
        Ok(())
    }

    fn spawn_later(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        thread.thread.start_later(thread.name)
    }
}

/// Returns the number of hardware threads that the process may use.
fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn builder_of(thread: &ThreadBuilder) -> std::thread::Builder {
    let mut builder = std::thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.to_owned());
    }
    if let Some(size) = thread.stack_size() {
        builder = builder.stack_size(size);
    }
    builder
}

/// Starts threads by a closure.
#[derive(Debug)]
pub struct CustomSpawn<F>(F);

impl<F> sealed::Sealed for CustomSpawn<F> {}

impl<F: FnMut(ThreadBuilder) -> io::Result<()>> ThreadSpawn for CustomSpawn<F> {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

/// The description of a pool.
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    num_threads: usize,
    use_current_thread: bool,
    panic_handler: Option<Box<PanicHandler>>,
    get_thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    start_handler: Option<Box<ThreadHandler>>,
    exit_handler: Option<Box<ThreadHandler>>,
    spawn_handler: S,
    breadth_first: bool,
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        ThreadPoolBuilder {
            num_threads: 0,
            use_current_thread: false,
            panic_handler: None,
            get_thread_name: None,
            stack_size: None,
            start_handler: None,
            exit_handler: None,
            spawn_handler: DefaultSpawn,
            breadth_first: false,
        }
    }
}

impl ThreadPoolBuilder {
    /// Returns the description of a usual pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pool whose threads may borrow from here, passes it to `with_pool`, and returns the result once all threads have ended.
    /// `wrapper` is called on each thread, and has to run it.
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`].
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        std::thread::scope(|scope| {
            let wrapper = &wrapper;
            let pool = self.spawn_handler(|thread| {
                builder_of(&thread).spawn_scoped(scope, move || wrapper(thread))?;
                Ok(())
            });
            Ok(with_pool(&pool.build()?))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Makes and returns the pool.
    ///
    /// # Errors
    /// If a thread cannot be started, the environment names a policy that does not exist, or the current thread is to be part of the pool
    /// and is part of one already.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        ThreadPool::build(self)
    }

    /// Makes the pool and lets it be the global one.
    ///
    /// # Errors
    /// If there is a global pool already; and as [`ThreadPoolBuilder::build`].
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        crate::global::initialize(self)
    }

    /// Makes the pool and starts its threads.
    pub(crate) fn make(mut self) -> Result<Pool, ThreadPoolBuildError> {
        if self.use_current_thread && crate::current_thread_index().is_some() {
            return Err(ThreadPoolBuildError::new(
                ErrorKind::CurrentThreadAlreadyInPool,
            ));
        }
        let (threads, hardware_threads) = self.count_threads();
        let mut builder = Pool::builder().workers(threads as u32);
        if let Some(policy) = std::env::var_os("TANADA_POLICY") {
            builder = builder.policy(&policy.to_string_lossy());
        }
        if let Some(recorder) = ForkRecorder::of_environment().map_err(io::Error::other)? {
            builder = builder.record_forks(&recorder);
        }
        if let Some(size) = self.stack_size {
            builder = builder.stack_size(size);
        }
        if let Some(handler) = self.panic_handler.take() {
            builder = builder.panic_handler(handler);
        }
        if let Some(handler) = self.start_handler.take() {
            builder = builder.start_handler(handler);
        }
        if let Some(handler) = self.exit_handler.take() {
            builder = builder.exit_handler(handler);
        }
        let (pool, threads) = builder
            .build_fork_threads(hardware_threads)
            .map_err(io::Error::other)?;
        for thread in threads {
            if thread.index() == 0 && self.use_current_thread {
                thread.adopt();
                continue;
            }
            let thread = ThreadBuilder {
                name: self
                    .get_thread_name
                    .as_mut()
                    .map(|name| name(thread.index())),
                stack_size: self.stack_size,
                thread,
            };
            // On an error the pool is dropped, and the threads that have begun end. Threads for which there is a processor begin at once:
            // whichever gets it first takes what there is to do.
            match thread.index() < hardware_threads {
                true => self.spawn_handler.spawn(thread)?,
                false => self.spawn_handler.spawn_later(thread)?,
            }
        }
        Ok(pool)
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Lets `spawn` start the threads: it is called with each, and has to run it on a new thread.
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        let ThreadPoolBuilder {
            num_threads,
            use_current_thread,
            panic_handler,
            get_thread_name,
            stack_size,
            start_handler,
            exit_handler,
            spawn_handler: _,
            breadth_first,
        } = self;
        ThreadPoolBuilder {
            num_threads,
            use_current_thread,
            panic_handler,
            get_thread_name,
            stack_size,
            start_handler,
            exit_handler,
            spawn_handler: CustomSpawn(spawn),
            breadth_first,
        }
    }

    /// Returns the number of threads, and that of the hardware threads which the process may use.
    fn count_threads(&self) -> (usize, usize) {
        let said = self.threads();
        // The standard library reads the files of a quota, for some 50 microseconds. A number that is set does not depend on them.
        let mask = said.and_then(|_| tanada_topology::usable_threads());
        let usable = mask.unwrap_or_else(available_threads);
        (said.unwrap_or(usable).min(crate::max_num_threads()), usable)
    }

    /// Returns the number of threads that is set or that the environment says; `None`: as many as there are hardware threads that the
    /// process may use.
    fn threads(&self) -> Option<usize> {
        let from = |variable| std::env::var(variable).ok()?.parse::<usize>().ok();
        if self.num_threads > 0 {
            return Some(self.num_threads);
        }
        match from("RAYON_NUM_THREADS") {
            Some(threads) => Some(threads).filter(|threads| *threads > 0),
            None => from("RAYON_RS_NUM_CPUS").filter(|threads| *threads > 0),
        }
    }

    /// Sets how threads are named.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.get_thread_name = Some(Box::new(closure));
        self
    }

    /// Sets the number of threads. 0, the default: as many as the environment variable `RAYON_NUM_THREADS` says, or else as there are
    /// hardware threads that the process may use.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the thread that builds the pool one of its threads, number 0. It works for the pool only while it waits in one of its
    /// functions.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Lets `panic_handler` have the panics that nothing waits for. Without it such a panic ends the process.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.panic_handler = Some(Box::new(panic_handler));
        self
    }

    /// Sets the bytes of stack of each thread.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Changes nothing: [`spawn_fifo`](crate::spawn_fifo) and [`scope_fifo`](crate::scope_fifo) are breadth-first where that matters.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Calls `start_handler` on each new thread, with its number.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.start_handler = Some(Box::new(start_handler));
        self
    }

    /// Calls `exit_handler` on each thread that ends, with its number.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.exit_handler = Some(Box::new(exit_handler));
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("get_thread_name", &self.get_thread_name.is_some())
            .field("panic_handler", &self.panic_handler.is_some())
            .field("stack_size", &self.stack_size)
            .field("start_handler", &self.start_handler.is_some())
            .field("exit_handler", &self.exit_handler.is_some())
            .field("breadth_first", &self.breadth_first)
            .finish()
    }
}

/// The description of a pool, in an older form.
#[deprecated(note = "use `ThreadPoolBuilder`")]
#[derive(Debug, Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

#[allow(deprecated)]
impl Configuration {
    /// Returns the description of a usual pool.
    pub fn new() -> Configuration {
        Configuration::default()
    }

    /// As [`ThreadPoolBuilder::build`].
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`].
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        self.builder.build().map_err(Box::from)
    }

    fn map(self, map: impl FnOnce(ThreadPoolBuilder) -> ThreadPoolBuilder) -> Self {
        Configuration {
            builder: map(self.builder),
        }
    }

    /// As [`ThreadPoolBuilder::thread_name`].
    pub fn thread_name<F>(self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.map(|builder| builder.thread_name(closure))
    }

    /// As [`ThreadPoolBuilder::num_threads`].
    pub fn num_threads(self, num_threads: usize) -> Configuration {
        self.map(|builder| builder.num_threads(num_threads))
    }

    /// As [`ThreadPoolBuilder::panic_handler`].
    pub fn panic_handler<H>(self, panic_handler: H) -> Configuration
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.map(|builder| builder.panic_handler(panic_handler))
    }

    /// As [`ThreadPoolBuilder::stack_size`].
    pub fn stack_size(self, stack_size: usize) -> Self {
        self.map(|builder| builder.stack_size(stack_size))
    }

    /// As [`ThreadPoolBuilder::breadth_first`].
    pub fn breadth_first(self) -> Self {
        self.map(ThreadPoolBuilder::breadth_first)
    }

    /// As [`ThreadPoolBuilder::start_handler`].
    pub fn start_handler<H>(self, start_handler: H) -> Configuration
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.start_handler(start_handler))
    }

    /// As [`ThreadPoolBuilder::exit_handler`].
    pub fn exit_handler<H>(self, exit_handler: H) -> Configuration
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.exit_handler(exit_handler))
    }
}

/// As [`ThreadPoolBuilder::build_global`].
///
/// # Errors
/// As [`ThreadPoolBuilder::build_global`].
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
#[allow(deprecated)]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    config.builder.build_global().map_err(Box::from)
}

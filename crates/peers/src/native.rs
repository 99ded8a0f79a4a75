//! The bodies that all peers share (`native/body.c`), and peers that are shared objects (`native/peer.h`).

use crate::Fallible;
use crate::programs::forks::{Inputs, Kernel, Node};
use crate::programs::{Counted, Edges, Field, Flat, Growth, Program, Steps, Stream, Swept};
use libloading::{Library, Symbol};
use md5::{Digest as _, Md5};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::time::Instant;

mod c {
    // SAFETY: these are the signatures in `native/body.c`. Safe ones may be called from all threads at once. The others set, without
    // atomics, what tasks read, or read what these set: no task may run meanwhile.
    unsafe extern "C" {
        pub(super) safe fn peers_task(index: u32);
        pub(super) fn peers_grid(columns: u32, rows: u32, edges: u32);
        pub(super) fn peers_check_begin();
        pub(super) fn peers_check_end(frames: u32) -> u32;
        pub(super) safe fn peers_serial_ns(n: u32, rounds: u32) -> f64;
        pub(super) fn peers_rate() -> f64;
        pub(super) fn peers_length(ns: f64, rate: f64);
        pub(super) fn peers_count_begin();
        pub(super) fn peers_count() -> u64;
        pub(super) fn peers_least_share(workers: u32) -> f64;
        pub(super) fn peers_stencil_row(
            to: *mut f32,
            above: *const f32,
            here: *const f32,
            below: *const f32,
            columns: usize,
        );
        pub(super) fn peers_cholesky_begin(tiles: u32, tile: u32) -> i32;
        pub(super) safe fn peers_cholesky_step(i: u32, j: u32, k: u32);
        pub(super) fn peers_cholesky_wrong() -> u32;
        pub(super) fn peers_cholesky_checksum() -> u64;
        #[cfg(test)]
        pub(super) fn peers_cholesky_error() -> f64;
    }
}

// Tasks run only while a function of `Program` does, or `body_ns`: both return when all have ended. All of this is called by the one
// thread of a process that runs cases (the parent runs none), one after the other; so between two such calls no task runs.

/// The body of task `index`.
#[inline]
pub(crate) fn task(index: u32) {
    c::peers_task(index);
}

/// Sets the size and the edges of the wavefront, for the checks and for native peers.
pub(crate) fn grid(columns: u32, rows: u32, edges: Edges) {
    // SAFETY: no task runs (above).
    unsafe { c::peers_grid(columns, rows, edges as u32) };
}

/// Returns multiplications in a nanosecond. The parent measures them once, so all bodies of one name are the same in all processes.
pub(crate) fn rate() -> f64 {
    // SAFETY: no task runs: the parent has none.
    unsafe { c::peers_rate() }
}

/// Sets the length of bodies to `ns`, and measures one.
///
/// # Errors
/// If the body takes less than half of `ns` or more than double: processors change their clock by a third, but not by that.
pub(crate) fn set_body(ns: f64, rate: f64) -> Fallible<()> {
    // SAFETY: no task runs (above).
    unsafe { c::peers_length(ns, rate) };
    let took = body_ns(ns, 1);
    if ns > 0.0 && !(0.5..2.0).contains(&(took / ns)) {
        return Err(format!("a body of {ns} ns took {took:.0} ns: is the machine busy?").into());
    }
    Ok(())
}

/// Returns the nanoseconds of a body of about `ns`, call included, if plain loops run it on `threads` threads at once: the mean over
/// threads of the fastest loop of each. (`threads` is the number of workers, since a processor's clock depends on the number of busy
/// cores.)
pub(crate) fn body_ns(ns: f64, threads: u16) -> f64 {
    // A loop takes about 40 us, so many loops are not interrupted.
    let n = (4e4 / ns.max(2.0)).ceil() as u32;
    let one = move || c::peers_serial_ns(n, 20);
    let sum: f64 = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        others.into_iter().fold(one(), |sum, other| {
            sum + other.join().expect("it cannot panic")
        })
    });
    sum / f64::from(threads)
}

/// Returns the number of tasks that ran too early, twice, or not at all while `run` ran `frames` frames of the graph, one after the other.
pub(crate) fn checked(frames: u32, run: impl FnOnce(u32)) -> u32 {
    // SAFETY: no task runs yet (above).
    unsafe { c::peers_check_begin() };
    run(frames);
    // SAFETY: the tasks that `run` ran have ended.
    unsafe { c::peers_check_end(frames) }
}

/// Returns the number of tasks that ran while `run` ran.
pub(crate) fn counted(run: impl FnOnce()) -> u64 {
    // SAFETY: no task runs yet (above).
    unsafe { c::peers_count_begin() };
    run();
    // SAFETY: the tasks that `run` ran have ended.
    unsafe { c::peers_count() }
}

/// Returns the least share of all tasks that one of `workers` workers ran while `run` ran.
pub(crate) fn least_share(workers: u16, run: impl FnOnce()) -> f64 {
    // SAFETY: no task runs yet (above).
    unsafe { c::peers_count_begin() };
    run();
    // SAFETY: the tasks that `run` ran have ended.
    unsafe { c::peers_least_share(u32::from(workers)) }
}

/// Computes the row `to` of a stencil from three lines that have one more point at either side.
///
/// # Panics
/// If a line has another length.
#[inline]
pub(crate) fn stencil_row(to: &mut [f32], above: &[f32], here: &[f32], below: &[f32]) {
    let columns = to.len();
    let bordered = |line: &[f32]| line.len() == columns + 2;
    let all = bordered(above) && bordered(here) && bordered(below);
    assert!(all, "lines have a border");
    // SAFETY: the C function reads `columns` points from the second point of `above` and `below`, and one more at either side of those of
    // `here`; the assertion has checked that all lines have these points.
    unsafe {
        c::peers_stencil_row(
            to.as_mut_ptr(),
            above[1..].as_ptr(),
            here.as_ptr().add(1),
            below[1..].as_ptr(),
            columns,
        )
    };
}

/// Step `k` of tile (`i`, `j`) of the Cholesky factorisation, `k <= j <= i`. A step that comes before those that it waits for is not done,
/// and [`factored`] reports it.
#[inline]
pub(crate) fn cholesky_step([i, j, k]: [u32; 3]) {
    c::peers_cholesky_step(i, j, k);
}

/// Makes the matrix of `tiles` x `tiles` tiles of `tile` x `tile` numbers anew.
///
/// # Errors
/// If there is not enough memory.
pub(crate) fn matrix(tiles: u32, tile: u32) -> Fallible<()> {
    assert!(
        tile.is_multiple_of(8),
        "kernels compute eight numbers at once"
    );
    // SAFETY: no task runs (above).
    let made = unsafe { c::peers_cholesky_begin(tiles, tile) };
    (made != 0)
        .then_some(())
        .ok_or_else(|| "no memory for the matrix".into())
}

/// Calls `run`, which factors the matrix, and returns the seconds that it took and a checksum over the bits of the factor.
///
/// # Errors
/// If a step was not done, or came too early.
pub(crate) fn factored(run: impl FnOnce()) -> Fallible<(f64, u64)> {
    let start = Instant::now();
    run();
    let seconds = start.elapsed().as_secs_f64();
    // SAFETY: the tasks that `run` ran have ended.
    let (wrong, checksum) = unsafe { (c::peers_cholesky_wrong(), c::peers_cholesky_checksum()) };
    match wrong {
        0 => Ok((seconds, checksum)),
        _ => Err(format!("{wrong} steps came too early, twice or not at all").into()),
    }
}

/// Returns the largest difference between the matrix and the factor times its transpose.
#[cfg(test)]
pub(crate) fn factor_error() -> f64 {
    // SAFETY: no task runs (above).
    unsafe { c::peers_cholesky_error() }
}

/// Planes and bytes a row of a decoded frame.
type OnFrame = unsafe extern "C" fn(*mut c_void, *const *const u8, *const usize, usize, usize);

/// Adds the bytes of a frame to the digest that `context` is.
unsafe extern "C" fn add_frame(
    context: *mut c_void,
    planes: *const *const u8,
    strides: *const usize,
    width: usize,
    height: usize,
) {
    // SAFETY: `decode` below passes a digest that only it holds while the decoder runs.
    let digest = unsafe { &mut *context.cast::<Md5>() };
    for (plane, of_stride, shift) in [(0, 0, 0), (1, 1, 1), (2, 1, 1)] {
        // SAFETY: there are three planes and two strides (`native/peer.h`).
        let (data, stride) = unsafe { (*planes.add(plane), *strides.add(of_stride)) };
        for y in 0..height >> shift {
            // SAFETY: a plane has that number of rows and of bytes in each, `stride` apart.
            let row = unsafe { std::slice::from_raw_parts(data.add(y * stride), width >> shift) };
            digest.update(row);
        }
    }
}

/// A peer that was compiled by `build.rs`.
pub(crate) struct Shared {
    /// Never unloaded: threads of its runtime may still be on their way out.
    object: ManuallyDrop<Library>,
}

impl Shared {
    /// Loads the shared object, starts its workers and returns it.
    pub(crate) fn open(path: &str, workers: u16) -> Fallible<Shared> {
        // SAFETY: the object is one of ours; what runs when it is loaded are the initialisers of the runtime that it is linked with,
        // in a process that has one thread yet and will load no other.
        let library = unsafe { Library::new(path) }?;
        let shared = Shared {
            object: ManuallyDrop::new(library),
        };
        let open = shared.function::<unsafe extern "C" fn(u32)>("peer_open")?;
        // SAFETY: the signature is that of `native/peer.h`.
        unsafe { open(u32::from(workers)) };
        Ok(shared)
    }

    /// Returns a function of the shared object.
    fn function<F>(&self, name: &str) -> Fallible<Symbol<'_, F>> {
        // SAFETY: callers name a function of `native/peer.h` with its type.
        Ok(unsafe { self.object.get(name.as_bytes()) }?)
    }

    fn call(&self, name: &str) {
        let function = self.function::<unsafe extern "C" fn()>(name);
        let function = function.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: callers name a function without arguments; only the thread that opened the peer calls.
        unsafe { function() };
    }

    fn call_with(&self, name: &str, [kind, tasks]: [u32; 2]) {
        let function = self.function::<unsafe extern "C" fn(u32, u32)>(name);
        let function = function.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: as in `call`, of a function with two arguments.
        unsafe { function(kind, tasks) };
    }
}

/// A tile of a field, as `native/peer.h` has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Tile {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) w: usize,
    pub(crate) h: usize,
}

impl Shared {
    /// Runs `sweeps` sweeps over a square of `size` points a side as a graph over these tiles, of which `strips` are a band, and returns
    /// the time of the run and the result.
    ///
    /// # Panics
    /// If a tile is not inside the field.
    pub(crate) fn tiles(
        &self,
        size: usize,
        sweeps: u32,
        tiles: &[Tile],
        strips: usize,
    ) -> Fallible<Swept> {
        let inside = |tile: &Tile| tile.x + tile.w <= size && tile.y + tile.h <= size;
        assert!(tiles.iter().all(inside), "tiles are parts of the field");
        type Build = unsafe extern "C" fn(*const Tile, usize, usize, u32);
        let build = self.function::<Build>("peer_tiles_build")?;
        type Run = unsafe extern "C" fn(*mut f32, *mut f32, usize);
        let run = self.function::<Run>("peer_tiles_run")?;
        // SAFETY: `tiles` has this length and this layout, and the function copies the tiles.
        unsafe { build(tiles.as_ptr(), tiles.len(), strips, sweeps) };
        let swept = Field::new(size).swept(sweeps, |field, _| {
            let (start, stride) = (field.start(0), field.stride);
            let [a, b] = field
                .both()
                .map(|points| points.as_mut_ptr().wrapping_add(start));
            // SAFETY: both are fields with a border that hold all tiles, no other thread uses them, and all tasks have ended when the
            // function returns.
            unsafe { run(a, b, stride) };
        });
        self.call("peer_graph_drop");
        Ok(swept)
    }
}

impl Program for Shared {
    fn build(&mut self, _edges: Edges) {
        // `grid` has set the edges.
        self.call("peer_graph_build");
    }

    fn run(&mut self, frames: u32) {
        let run = self.function::<unsafe extern "C" fn(u32)>("peer_graph_run");
        let run = run.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the signature is that of `native/peer.h`; a graph is built before it is run.
        unsafe { run(frames) };
    }

    fn discard(&mut self) {
        self.call("peer_graph_drop");
    }

    fn region(&mut self) {
        self.call("peer_region");
    }

    fn flat(&mut self, flat: Flat, tasks: u32) {
        self.call_with("peer_flat", [flat as u32, tasks]);
    }

    fn grow(&mut self, shape: Growth, tasks: u32) {
        self.call_with("peer_grow", [shape as u32, tasks]);
    }

    fn prepare_cholesky(&mut self, _way: Flat, _steps: &Steps) {
        self.call("peer_cholesky_build");
    }

    fn cholesky(&mut self, _way: Flat, _steps: &Steps) {
        self.call("peer_cholesky_run");
    }

    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        type Fork = unsafe extern "C" fn(u32, u32, *const Node) -> u64;
        let run = self.function::<Fork>("peer_fork")?;
        let tree = inputs
            .tree
            .as_deref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the signature and the nodes are those of `native/peer.h`; the function reads the nodes, which live.
        Ok(unsafe { run(kernel as u32, kernel.size(), tree) })
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        let run = self.function::<unsafe extern "C" fn(*mut f32, *mut f32, usize, usize, u32)>(
            "peer_stencil",
        )?;
        Ok(Field::new(size).swept(sweeps, |field, sweeps| {
            let (start, stride) = (field.start(0), field.stride);
            let [a, b] = field
                .both()
                .map(|points| points.as_mut_ptr().wrapping_add(start));
            // SAFETY: both are fields of that shape with a border, and no other thread uses them.
            unsafe { run(a, b, size, stride, sweeps) };
        }))
    }

    fn decode(&mut self, stream: &Stream, digest: Option<&mut Md5>) -> Fallible<Counted> {
        type Decode = unsafe extern "C" fn(*const u8, usize, Option<OnFrame>, *mut c_void) -> u64;
        let run = self.function::<Decode>("peer_decode")?;
        let on_frame = digest.is_some().then_some(add_frame as OnFrame);
        let stream = stream.bytes()?;
        let context = digest.map_or(std::ptr::null_mut(), |digest| {
            std::ptr::from_mut(digest).cast()
        });
        // SAFETY: the stream has this length, and the context is the digest that `add_frame` expects.
        Counted::timed(|| Ok(unsafe { run(stream.as_ptr(), stream.len(), on_frame, context) }))
    }

    fn prepare_dynamic(&mut self, edges: Edges) {
        self.discard();
        self.build(edges);
    }

    fn dynamic(&mut self, _edges: Edges) {
        self.run(1);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.call("peer_close");
    }
}

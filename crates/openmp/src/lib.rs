//! `libtanada_omp.so`: a library that an OpenMP program loads before its OpenMP runtime (`LD_PRELOAD`).
//!
//! It stands between the program and the runtime, libgomp of gcc or libomp of LLVM: `abi` has the names that the program calls, each of
//! which asks `regions` (how many threads run this region?) and `tasks` (who runs this task?), and calls the runtime's function of the
//! same name. What it does not understand it hands to the runtime as it came.
//!
//! Its code runs in any thread of a program that it does not know, also in one that is about to crash: no function here panics on purpose,
//! prints to standard output, or keeps a lock while code of the program runs.

#[allow(unsafe_code)]
mod abi;
// The command compiles it, too, and reads more of it.
#[allow(dead_code, unreachable_pub)]
mod board;
mod regions;
#[allow(unsafe_code)]
mod system;
mod tasks;

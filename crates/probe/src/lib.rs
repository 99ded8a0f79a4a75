//! What the emulator loads while `tanada record` records a program: a plugin of QEMU's user-mode emulators.
//!
//! A thread of the program is a *vcpu* of the emulator, which calls the plugin for each block of code that begins and each access to
//! memory. Each thread encodes its own events into a block of [`Encoder`](tanada_trace::threads::Encoder) and appends full blocks,
//! compressed, to one *spool* file, see [`spool`](tanada_trace::threads::spool). The command makes the trace of the spool when the program
//! has ended. Threads share nothing on the way but the spool's length, so they run side by side.
//!
//! `guest/guest.c` is loaded into the program itself and reports synchronisation by system calls (`marks.rs`).
//!
//! No header of QEMU is needed: the functions are found by name (`qemu.rs`).

#![allow(
    unreachable_pub,
    reason = "what the emulator finds by name is in a private module"
)]

mod list;
mod marks;
#[allow(unsafe_code)]
mod plugin;
#[allow(unsafe_code)]
mod qemu;
mod settings;
mod thread;

//! Where senders ring for a receiver in an event loop.
//!
//! In one process that is an `eventfd`. Processes share a `timerfd`: a sender rings by setting the count of its ends, and the receiver
//! silences it by stopping it. Neither call waits for anything, whatever another process does with the descriptor. With an `eventfd` both
//! ends would depend on the others' good will: all have the same `O_NONBLOCK` and the same count, so that a read of a silent bell, or a
//! write to a full one, can be made to block for ever.

use super::{ChannelError, clock};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_gettime,
    timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that is readable from when it is rung until it is silenced.
#[derive(Debug)]
pub(super) enum Bell {
    /// An `eventfd` of this process.
    Own(OwnedFd),
    /// A `timerfd` that other processes have, too.
    Shared(OwnedFd),
}

impl Bell {
    /// Returns a bell for one process.
    pub(super) fn own() -> Result<Bell, Errno> {
        Ok(Bell::Own(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Returns a bell for several processes.
    pub(super) fn shared() -> Result<Bell, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Bell::Shared(timer))
    }

    /// Returns the bell that another process has made.
    ///
    /// # Errors
    /// If the descriptor is none of a [shared](Self::shared) bell. Of nothing else it is known that no call waits.
    pub(super) fn of_another(bell: OwnedFd) -> Result<Bell, ChannelError> {
        match timerfd_gettime(&bell) {
            Ok(_) => Ok(Bell::Shared(bell)),
            Err(_) => Err(ChannelError::Refused("its bell is no timer")),
        }
    }

    /// Makes the descriptor readable.
    pub(super) fn ring(&self) {
        match self {
            // It fails only if the bell has been rung 2^64 times and nobody has looked: then the receiver is told.
            Bell::Own(event) => {
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
            Bell::Shared(timer) => {
                if !set_count(timer) {
                    // A moment that has passed does the same, but costs an interrupt of the processor's timer. (0 would be no moment.)
                    set(timer, 1);
                }
            }
        }
    }

    /// Takes back all that was rung.
    pub(super) fn silence(&self) {
        match self {
            // It fails if the bell was silent.
            Bell::Own(event) => {
                let _ = rustix::io::read(event, &mut [0; 8]);
            }
            Bell::Shared(timer) => set(timer, 0),
        }
    }
}

/// Sets the number of times that the timer has ended to 1, as an `eventfd` is written to; returns false if this kernel cannot, which is
/// built without `CONFIG_CHECKPOINT_RESTORE`, or a process has made this timer one that it does not do that for.
fn set_count(timer: &OwnedFd) -> bool {
    /// `TFD_IOC_SET_TICKS`, which no crate here names.
    const SET_TICKS: Opcode = opcode::write::<u64>(b'T', 0);
    // SAFETY: the descriptor is a timer (`of_another`), for which the request reads a `u64`.
    unsafe { ioctl(timer, Setter::<SET_TICKS, u64>::new(1)).is_ok() }
}

/// Sets the timer to a moment, or with 0 to none. What it has counted is forgotten.
fn set(timer: &OwnedFd, moment: u64) {
    let time = Itimerspec {
        it_interval: clock::timespec(0),
        it_value: clock::timespec(moment),
    };
    // It cannot fail for these moments.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time);
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Bell::Own(bell) | Bell::Shared(bell) => bell.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(bell: &Bell, patience: i64) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: patience,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&patience)).expect("it can be polled") == 1
    }

    #[test]
    fn a_bell_rings_until_it_is_silenced() {
        for bell in [Bell::own(), Bell::shared()] {
            let bell = bell.expect("the system has descriptors");
            for _ in 0..100 {
                assert!(!rings(&bell, 0));
                bell.ring();
                bell.ring();
                assert!(rings(&bell, 60) && rings(&bell, 0));
                bell.silence();
            }
            bell.silence();
            assert!(!rings(&bell, 0));
        }
    }

    /// What a kernel does that cannot set the count.
    #[test]
    fn a_moment_that_has_passed_rings_as_well() {
        let Ok(Bell::Shared(timer)) = Bell::shared() else {
            panic!("the system has descriptors");
        };
        set(&timer, 1);
        let bell = Bell::Shared(timer);
        assert!(rings(&bell, 60));
        bell.silence();
        assert!(!rings(&bell, 0));
    }

    #[test]
    fn what_is_no_timer_is_no_bell_of_another() {
        let Ok(Bell::Own(event)) = Bell::own() else {
            panic!("the system has descriptors");
        };
        assert!(Bell::of_another(event).is_err());
        let Ok(Bell::Shared(timer)) = Bell::shared() else {
            panic!("the system has descriptors");
        };
        assert!(Bell::of_another(timer).is_ok());
    }
}

//! How a receiver sleeps and is told, without a lost message and with one telling a sleep.
//!
//! # Protocol
//! The word says how the receiver sleeps, or that it is awake.
//! - *Receiver*: finds all lanes empty; asks the delivery when to look again, and stores the answer ([`ChannelState::rest`]);
//!   **announces** its sleep; **looks** into all lanes. If a message is there it withdraws the announcement. Else it sleeps until it is
//!   told, or until its timer.
//! - *Sender*: **commits** a message; **loads** the word. If the receiver sleeps it asks the delivery ([`Delivery::sent`]). To tell the
//!   receiver it *claims* the announcement: exchanges it for `AWAKE`. The sender that succeeds, and no other, rings.
//!
//! [`ChannelState::rest`]: tanada_policy::ChannelState::rest
//! [`Delivery::sent`]: tanada_policy::Delivery::sent
//!
//! # No message is overlooked
//! The four operations in bold are sequentially consistent, so they have one order. If the commit comes before the look, the receiver
//! finds the message. Otherwise the announcement, which comes before the look, comes before the commit and so before the load: the sender
//! sees it, or finds that another sender has claimed it since, which rings. Then the delivery decides with the answer of `rest` before
//! its eyes, because that was stored before the announcement. A delivery that answers `By` relies on the receiver's timer, which is set
//! for the sleep that was announced or, if that sleep has ended meanwhile, the receiver has looked since.
//!
//! A telling may come late, into the next sleep of the receiver: it then looks once in vain.

use tanada_queues::sync::atomic::{AtomicU32, Ordering};
use tanada_queues::sync::total_order;

/// How a receiver sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Bed {
    /// At the word itself, as a futex.
    Futex = 1,
    /// In an event loop that looks at the channel's bell.
    Event = 2,
    /// As a future or a task, which a waker of this process wakes.
    Waker = 3,
}

const AWAKE: u32 = 0;

/// The word. It may lie in memory that other processes write.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Doze(AtomicU32);

impl Doze {
    pub(super) fn new() -> Doze {
        Doze(AtomicU32::new(AWAKE))
    }

    /// Returns the word, for a [`Bed::Futex`].
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Announces that the receiver sleeps.
    pub(super) fn announce(&self, bed: Bed) {
        self.0.store(bed as u32, Ordering::SeqCst);
        total_order();
    }

    /// Takes the announcement back: the receiver is awake.
    pub(super) fn withdraw(&self) {
        self.0.store(AWAKE, Ordering::SeqCst);
    }

    /// Returns how the receiver sleeps; `None` if it is awake, or the word is no announcement.
    #[inline]
    pub(super) fn asleep(&self) -> Option<Bed> {
        total_order();
        match self.0.load(Ordering::SeqCst) {
            AWAKE => None,
            1 => Some(Bed::Futex),
            2 => Some(Bed::Event),
            3 => Some(Bed::Waker),
            _ => None,
        }
    }

    /// Claims the announcement; returns whether the caller is to ring.
    pub(super) fn claim(&self, bed: Bed) -> bool {
        let claimed =
            self.0
                .compare_exchange(bed as u32, AWAKE, Ordering::SeqCst, Ordering::Relaxed);
        claimed.is_ok()
    }
}

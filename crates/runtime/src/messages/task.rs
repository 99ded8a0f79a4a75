//! Receivers that are tasks of a pool.

use super::{Message, Receiver, RecvError};
use crate::{Resolver, Scope, Token};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// As many messages are handled by one task; then other tasks have their turn.
const TURN: u32 = 256;

/// Resolves the task that waits for messages, once.
struct Waiting(Mutex<Option<(Resolver, Token)>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.resolve();
    }
}

impl Waiting {
    fn resolve(&self) {
        let waiting = self.0.lock().take();
        if let Some((resolver, task)) = waiting {
            // It fails if the graph has failed, which then drops the task, or in a child process, which runs none.
            let _ = resolver.resolve(task);
        }
    }
}

struct Served<F> {
    receiver: Receiver,
    name: &'static str,
    handle: F,
}

impl Receiver {
    /// Handles all messages by tasks of the scope's pool, one at a time: a task handles what is there and
    /// ends; the next one becomes ready when the receiver is told. No worker waits meanwhile. The scope ends only when no sender is left.
    ///
    /// A lane of a shared channel whose sender wrote what cannot be ([`RecvError::Corrupt`]) counts as closed; the others go on.
    pub fn serve<'scope, F>(self, scope: &Scope<'scope>, name: &'static str, handle: F)
    where
        F: FnMut(Message<'_>) + Send + 'scope,
    {
        let served = Served {
            receiver: self,
            name,
            handle,
        };
        scope.task(name).register(move |scope| served.step(scope));
    }
}

impl<'scope, F> Served<F>
where
    F: FnMut(Message<'_>) + Send + 'scope,
{
    /// Handles what is there, and registers the task that handles what comes.
    fn step(mut self, scope: &Scope<'scope>) {
        for _ in 0..TURN {
            match self.receiver.try_recv() {
                Ok(message) => (self.handle)(message),
                Err(RecvError::Empty) => break,
                Err(RecvError::Corrupt { .. }) => {}
                Err(_) => return,
            }
        }
        let name = self.name;
        let both = Arc::new(Mutex::new(Some(self)));
        let next = Arc::clone(&both);
        let task = scope.task(name).count(1).register(move |scope| {
            let served = next.lock().take();
            served
                .expect("the task that was before it has put it back")
                .step(scope);
        });
        let waiting = Arc::new(Waiting(Mutex::new(Some((scope.resolver(), task)))));
        let waker = Waker::from(Arc::clone(&waiting));
        let mut served = both.lock();
        let receiver = &mut served.as_mut().expect("its task waits").receiver;
        match receiver.poll_ready(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            // A message has come, or nothing comes any more: the task finds out.
            Poll::Ready(_) => {
                drop(served);
                waiting.resolve();
            }
        }
    }
}

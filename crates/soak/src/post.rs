//! A thread that is no worker, and that resolves and cancels by order of others.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use tanada_runtime::{Cancel, Resolver, Token};

pub(crate) enum Letter {
    Resolve(Resolver, Token),
    Cancel(Cancel, Duration),
    End,
}

/// Sends orders to that thread.
pub(crate) struct Post(pub(crate) Sender<Letter>);

impl Post {
    /// Orders that one count of the task be resolved.
    pub(crate) fn resolve(&self, resolver: Resolver, token: Token) {
        self.send(Letter::Resolve(resolver, token));
    }

    /// Orders a cancellation after a pause that is a function of `seed`: up to half a millisecond.
    pub(crate) fn cancel(&self, cancel: &Cancel, seed: u64) {
        let pause = Duration::from_micros(1 << (seed % 10));
        self.send(Letter::Cancel(cancel.clone(), pause));
    }

    /// Orders the thread to end: no order follows.
    pub(crate) fn close(&self) {
        self.send(Letter::End);
    }

    fn send(&self, letter: Letter) {
        // The thread is gone only if it panicked, which its join reports.
        let _ = self.0.send(letter);
    }
}

/// Carries out orders until [`Post::close`]. Returns all findings.
pub(crate) fn serve(letters: Receiver<Letter>) -> Vec<String> {
    let mut findings = Vec::new();
    for letter in letters {
        match letter {
            Letter::Resolve(resolver, token) => {
                if let Err(error) = resolver.resolve(token) {
                    findings.push(format!("resolving from outside: {error}"));
                }
            }
            Letter::Cancel(cancel, pause) => {
                std::thread::sleep(pause);
                cancel.cancel();
            }
            Letter::End => break,
        }
    }
    findings
}

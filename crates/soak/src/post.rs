//! A thread that is no worker, and that resolves and cancels by order of others.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use tanada_runtime::{Cancel, Resolver, Token};

enum Letter {
    Resolve(Resolver, Token),
    Cancel(Cancel, Duration),
}

#[derive(Default)]
struct Letters {
    queue: VecDeque<Letter>,
    closed: bool,
    findings: Vec<String>,
}

/// The queue of that thread's orders. (A channel of the standard library is not instrumented, so ThreadSanitizer would report it.)
#[derive(Default)]
pub(crate) struct Post {
    /// Whether the caller carries out orders itself, at once: what other threads do is no part of a replay.
    at_once: bool,
    letters: Mutex<Letters>,
    news: Condvar,
}

impl Post {
    /// Returns an empty queue, or one whose orders are carried out `at_once`.
    pub(crate) fn new(at_once: bool) -> Self {
        Post {
            at_once,
            ..Post::default()
        }
    }

    /// Orders that one count of the task be resolved.
    pub(crate) fn resolve(&self, resolver: Resolver, token: Token) {
        match self.at_once {
            true => self.carry_out(Letter::Resolve(resolver, token)),
            false => self.send(Letter::Resolve(resolver, token)),
        }
    }

    /// Orders a cancellation after a pause that is a function of `seed`: up to half a millisecond.
    pub(crate) fn cancel(&self, cancel: &Cancel, seed: u64) {
        let pause = Duration::from_micros(1 << (seed % 10));
        if self.at_once {
            return cancel.cancel();
        }
        self.send(Letter::Cancel(cancel.clone(), pause));
    }

    fn send(&self, letter: Letter) {
        self.letters.lock().queue.push_back(letter);
        self.news.notify_one();
    }

    /// Ends the queue: no order follows.
    pub(crate) fn close(&self) {
        self.letters.lock().closed = true;
        self.news.notify_one();
    }

    fn carry_out(&self, letter: Letter) {
        match letter {
            Letter::Resolve(resolver, token) => {
                if let Err(error) = resolver.resolve(token) {
                    let text = format!("resolving from outside: {error}");
                    self.letters.lock().findings.push(text);
                }
            }
            Letter::Cancel(cancel, pause) => {
                std::thread::sleep(pause);
                cancel.cancel();
            }
        }
    }

    /// Carries out orders until the queue is closed. Returns all findings.
    pub(crate) fn serve(&self) -> Vec<String> {
        loop {
            let letter = {
                let mut letters = self.letters.lock();
                loop {
                    if let Some(letter) = letters.queue.pop_front() {
                        break letter;
                    }
                    if letters.closed {
                        return std::mem::take(&mut letters.findings);
                    }
                    self.news.wait(&mut letters);
                }
            };
            self.carry_out(letter);
        }
    }
}

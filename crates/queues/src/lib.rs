//! Queues of one-word tasks: deque, injector, mailbox, and the std/loom shim they are checked through.

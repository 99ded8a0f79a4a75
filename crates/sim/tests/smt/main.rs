//! Logical threads on hardware threads: cases worked out by hand, and a second implementation from the rules alone.

mod by_hand;
mod cases;
mod program;
mod recorded;
mod reference;

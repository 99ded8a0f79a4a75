//! Tests of reading and writing traces, in one program because that builds faster than several.

mod by_the_book;
mod common;
mod damage;
mod malformed;
mod round_trips;
mod threads;

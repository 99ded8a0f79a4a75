//! Quick laws, in one program because that builds faster than several.

mod arrivals;
mod bad_policies;
mod forks;
mod handing;
mod regions;
mod resizing;

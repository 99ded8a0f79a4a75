//! Laws on many graphs, which take long.

mod random_graphs;
mod small_graphs;

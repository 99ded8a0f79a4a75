//! Tasks of OpenMP.

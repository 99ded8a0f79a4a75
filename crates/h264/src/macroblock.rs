//! macroblock

//! One schema of events and results, and one self-contained HTML page, for every engine.

//! The native engine: workers, task graphs, templates.

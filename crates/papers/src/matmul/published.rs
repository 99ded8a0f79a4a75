//! What paper 5 says in words. The values of its charts are lost.

/// Gigacycles a second of the paper's machine (table 1).
pub(super) const GIGAHERTZ: f64 = 2.2;

/// Rows and columns of the matrices (section 2.3).
pub(super) const SIZE: usize = 768;

/// Cores of the paper's machine.
pub(super) const CORES: u16 = 32;

/// Original over Cutoff on 32 cores: "about 75%" (fig. 3).
pub(super) const ORIGINAL_OVER_CUTOFF: f64 = 0.75;

/// The number of cores from which on Original does not get faster (fig. 3).
pub(super) const STOPS_AT: f64 = 20.0;

/// The last depth at which an ideal run steals on 32 cores (section 2.3).
pub(super) const LAST_DEPTH: u32 = 4;

/// What the policy with depth as hint gains: it is "slightly slower" (fig. 6), of which no figure is left.
pub(super) const GAIN_PERCENT: f64 = -1.0;

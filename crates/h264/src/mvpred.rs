//! mvpred

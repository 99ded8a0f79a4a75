//! What probes have shown of each width, in one situation.

use super::{Pair, Settings};

/// One width.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// How often in a row it lost.
    losses: u32,
    /// When it may be probed again.
    until: u64,
    /// Sums over the last probes: their rates, those of the width in use beside them, and the squares of the differences.
    probed: f64,
    used: f64,
    squares: f64,
}

/// What a probe shows together with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Won,
    Lost,
    /// Better, but not by more than probes differ from each other.
    Unclear,
}

/// The width in use, and the others.
#[derive(Clone, Debug)]
pub(super) struct Widths {
    width: usize,
    threads: usize,
    tried: Vec<Tried>,
    /// How many times as good as all threads the width in use is, as far as probes have shown.
    ratio: f64,
}

/// By which part older probes count less with each new one.
const FADING: f64 = 0.75;

impl Widths {
    pub(super) fn new(threads: usize) -> Widths {
        Widths {
            width: threads,
            threads,
            tried: vec![Tried::default(); threads + 1],
            ratio: 1.0,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns how many hardware threads run something if `waiting` logical threads are there.
    pub(super) fn used(&self, waiting: usize) -> usize {
        self.width.min(waiting).max(1)
    }

    /// Returns the part of the time that the width in use saves.
    pub(super) fn gained(&self) -> f64 {
        (1.0 - 1.0 / self.ratio).max(0.0)
    }

    /// Returns the widths that may be probed, the most promising first.
    pub(super) fn due(&self, waiting: usize, now: u64) -> impl Iterator<Item = usize> + '_ {
        let most = self.threads.min(waiting);
        let used = self.used(waiting);
        let all = [
            used / 2,
            (used * 2).min(most),
            used * 3 / 4,
            (used * 3).div_ceil(2).min(most),
        ];
        let may =
            move |&width: &usize| width > 0 && width != used && self.tried[width].until <= now;
        all.into_iter().filter(may)
    }

    /// Returns by which factor `width` has to be better than `used` to be chosen. A wider one needs less: all threads are what a program
    /// gets without a governor.
    pub(super) fn needed(width: usize, used: usize, settings: &Settings) -> f64 {
        match width > used {
            true => settings.margin_wider,
            false => settings.margin,
        }
    }

    /// Takes a probe of `width` into account, beside the width `used`.
    pub(super) fn judge(
        &mut self,
        width: usize,
        used: usize,
        pair: Pair,
        now: u64,
        settings: &Settings,
        window: u64,
    ) -> Verdict {
        let needed = Widths::needed(width, used, settings);
        let one = &mut self.tried[width];
        let difference = pair.probed - pair.used;
        one.probed = one.probed * FADING + pair.probed;
        one.used = one.used * FADING + pair.used;
        one.squares = one.squares * FADING * FADING + difference * difference;
        let better = one.probed > one.used * needed;
        let clear = (one.probed - one.used) > settings.clear * one.squares.sqrt();
        let large = pair.probed > pair.used * settings.large && better;
        if better && (clear || large || width > used) {
            let ratio = one.probed / one.used;
            self.choose(width, ratio, now, settings, window);
            return Verdict::Won;
        }
        if better {
            one.until = now + window * settings.pause;
            return Verdict::Unclear;
        }
        let most = match width > used {
            true => settings.doublings_wider,
            false => settings.doublings,
        };
        one.until = now + ((window * settings.pause) << one.losses.min(most));
        one.losses += 1;
        Verdict::Lost
    }

    /// Uses `width`, which was `ratio` times as good as the one before.
    fn choose(&mut self, width: usize, ratio: f64, now: u64, settings: &Settings, window: u64) {
        self.ratio = match width >= self.threads {
            true => 1.0,
            false => self.ratio * ratio.min(4.0),
        };
        let before = self.width;
        for one in &mut self.tried {
            (one.probed, one.used, one.squares) = (0.0, 0.0, 0.0);
        }
        let most = match before > width {
            true => settings.doublings_wider,
            false => settings.doublings,
        };
        let one = &mut self.tried[before];
        one.until = now + ((window * settings.pause) << one.losses.min(most));
        self.tried[width].losses = 0;
        self.width = width;
    }

    /// A probe had no result.
    pub(super) fn put_off(&mut self, width: usize, now: u64, settings: &Settings, window: u64) {
        self.tried[width].until = now + window * settings.pause;
    }

    /// Lets every width be probed soon: the program does something else now.
    pub(super) fn changed(&mut self, now: u64, settings: &Settings, window: u64) {
        for one in &mut self.tried {
            one.until = one.until.min(now + window * settings.pause);
            one.losses = one.losses.min(settings.doublings_wider);
        }
    }
}

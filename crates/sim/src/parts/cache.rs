//! One cache: the lines that it holds, which of them are dirty, and which one is evicted from a full set.
//!
//! A cache depends on no time, address or other cache: its interface uses *line numbers* (address / line length). What a miss costs, what
//! happens to a dirty victim and which other caches hold the line is decided in `hierarchy.rs` and by models.
//!
//! Rules: the set of a line is its number mod the number of sets. A fill takes a free way of the set, or else the victim: FIFO the line
//! that was filled first, LRU the line that was used least recently, random the line in a random way. Marking a line dirty does not count
//! as a use. Removing a line frees its way. With random replacement a fill takes the free way of the lowest number.
//!
//! Cost: linear in the number of ways. Memory: 8 bytes a line (16 with lines of less than 4 bytes, whose numbers need all 64 bits).

use crate::machine::{CacheTable, Replacement};
use std::hint::select_unpredictable;

/// The sets of a cache whose number of ways and replacement are known at compile time, for loops of lookups. The rules are the same.
#[derive(Debug)]
pub(crate) struct Packed<'a, const WAYS: usize, const LRU: bool> {
    sets: &'a mut [[u64; WAYS]],
    mask: u64,
}

/// Sets of at most this many ways are searched without a branch.
const FEW_WAYS: usize = 4;

impl<const WAYS: usize, const LRU: bool> Packed<'_, WAYS, LRU> {
    /// Does and returns the same as [`Cache::look_up`].
    #[inline(always)]
    pub(crate) fn look_up(&mut self, line: u64, write: bool) -> Lookup {
        let wanted = <u64 as Entry>::new(line);
        let Some(set) = self.sets.get_mut((line & self.mask) as usize) else {
            return Lookup::Miss; // never: the mask is the number of sets minus one
        };
        if LRU && WAYS > FEW_WAYS {
            if use_lru(set, wanted, write).is_some() {
                return Lookup::Hit;
            }
        } else {
            // All ways are compared: a branch on the way would be mispredicted.
            if LRU {
                let mut found = WAYS;
                for (way, entry) in set.iter().enumerate() {
                    found = select_unpredictable(entry & !1 == wanted, way, found);
                }
                // A branch on a hit would be, too. The line moves to the first way from its own, or from the victim's.
                let (there, way) = (found < WAYS, found.min(WAYS - 1));
                let old = set[way];
                for to in (1..WAYS).rev() {
                    set[to] = select_unpredictable(to <= way, set[to - 1], set[to]);
                }
                set[0] = select_unpredictable(there, old, wanted) | u64::from(write);
                return Lookup::of(there, old);
            }
            if use_in_place(set, wanted, write) {
                return Lookup::Hit;
            }
        }
        let victim = set[WAYS - 1];
        for to in (1..WAYS).rev() {
            set[to] = set[to - 1];
        }
        set[0] = wanted | u64::from(write);
        Lookup::of(false, victim)
    }

    /// Does and returns the same as [`Cache::use_one`].
    #[inline(always)]
    pub(crate) fn use_one(&mut self, line: u64, write: bool) -> bool {
        let wanted = <u64 as Entry>::new(line);
        match self.sets.get_mut((line & self.mask) as usize) {
            Some(set) if LRU => use_lru(set, wanted, write).is_some(),
            Some(set) => use_in_place(set, wanted, write),
            None => false,
        }
    }

    /// Does and returns the same as [`Cache::use_undoably`].
    #[inline(always)]
    pub(crate) fn use_undoably(&mut self, line: u64) -> Option<usize> {
        let wanted = <u64 as Entry>::new(line);
        let set = self.sets.get_mut((line & self.mask) as usize)?;
        if LRU {
            return use_lru(set, wanted, false);
        }
        let mut found = WAYS;
        for (way, entry) in set.iter().enumerate() {
            found = select_unpredictable(entry & !1 == wanted, way, found);
        }
        (found < WAYS).then_some(found)
    }

    /// Does and returns the same as [`Cache::mark_dirty`].
    #[inline(always)]
    pub(crate) fn mark_dirty(&mut self, line: u64) -> bool {
        let wanted = <u64 as Entry>::new(line);
        let mut there = false;
        let set = self.sets.get_mut((line & self.mask) as usize);
        for entry in set.into_iter().flatten() {
            let is_it = *entry & !1 == wanted;
            *entry |= u64::from(is_it);
            there |= is_it;
        }
        there
    }
}

/// Looks the line of the clean entry `wanted` up in a set in which a use changes no order. Returns whether it is there.
#[inline(always)]
fn use_in_place<const WAYS: usize>(set: &mut [u64; WAYS], wanted: u64, write: bool) -> bool {
    // An entry differs from the wanted one by 0 if it is the same, and by 1 if it is the line and dirty. All ways are compared: a branch on
    // the way would be mispredicted.
    let nearest = set.iter().map(|entry| entry ^ wanted).min();
    let nearest = nearest.unwrap_or(u64::MAX);
    // Not for each write, since the next lookup in the set would wait for the store. A line becomes dirty once, so the branch is predicted.
    if nearest < u64::from(write) {
        for entry in set {
            *entry |= u64::from(*entry == wanted);
        }
    }
    nearest <= 1
}

/// Looks the line of the clean entry `wanted` up in a set whose order is that of uses, and changes nothing if it misses. Returns the way in
/// which it was.
#[inline(always)]
fn use_lru<const WAYS: usize>(set: &mut [u64; WAYS], wanted: u64, write: bool) -> Option<usize> {
    if set[0] & !1 == wanted {
        set[0] |= u64::from(write);
        return Some(0);
    }
    let way = (1..WAYS).find(|&way| set[way] & !1 == wanted)?;
    let used = set[way] | u64::from(write);
    for to in (1..=way).rev() {
        set[to] = set[to - 1];
    }
    set[0] = used;
    Some(way)
}

/// The result of a lookup. The line is in the cache afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The line was there.
    Hit,
    /// It was not, and no dirty line was evicted.
    Miss,
    /// It was not, and the dirty line of this number was evicted.
    MissEvicting(u64),
}

impl Lookup {
    /// Returns the result if the line was `there`, or else `victim` was evicted.
    #[inline(always)]
    fn of(there: bool, victim: impl Entry) -> Lookup {
        match (there, victim.is_dirty()) {
            (true, _) => Lookup::Hit,
            (false, false) => Lookup::Miss,
            (false, true) => Lookup::MissEvicting(victim.line()),
        }
    }
}

/// The random numbers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug, PartialEq)]
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The content of one way. The default is a free way.
trait Entry: Copy + Default + PartialEq {
    fn new(line: u64) -> Self;
    fn line(self) -> u64;
    fn is_dirty(self) -> bool;
    fn dirtied(self) -> Self;
    fn is_line(self, clean: Self) -> bool;
    fn is_free(self) -> bool {
        self == Self::default()
    }
}

/// Line number plus one, times two, plus one if dirty: for line numbers of at most 62 bits.
impl Entry for u64 {
    #[inline(always)]
    fn new(line: u64) -> u64 {
        (line + 1) << 1
    }
    #[inline(always)]
    fn line(self) -> u64 {
        (self >> 1) - 1
    }
    #[inline(always)]
    fn is_dirty(self) -> bool {
        self & 1 != 0
    }
    #[inline(always)]
    fn dirtied(self) -> u64 {
        self | 1
    }
    #[inline(always)]
    fn is_line(self, clean: u64) -> bool {
        self & !1 == clean
    }
}

/// The same for line numbers that need all 64 bits.
impl Entry for u128 {
    fn new(line: u64) -> u128 {
        (u128::from(line) + 1) << 1
    }
    fn line(self) -> u64 {
        ((self >> 1) - 1) as u64
    }
    fn is_dirty(self) -> bool {
        self & 1 != 0
    }
    fn dirtied(self) -> u128 {
        self | 1
    }
    fn is_line(self, clean: u128) -> bool {
        self & !1 == clean
    }
}

/// The map from line numbers to sets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Index {
    /// Sets minus one.
    Mask(u64),
    /// Sets, and 2^128 / sets rounded up, by which two multiplications are a remainder (Lemire, Kaser and Kurz, "Faster remainder by direct
    /// computation", 2019: exact if the fraction has twice the bits of the numbers).
    Remainder { sets: u64, reciprocal: u128 },
}

impl Index {
    fn of(sets: u64) -> Index {
        if sets.is_power_of_two() {
            Index::Mask(sets - 1)
        } else {
            Index::Remainder {
                sets,
                reciprocal: u128::MAX / u128::from(sets) + 1,
            }
        }
    }

    #[inline(always)]
    fn set(self, line: u64) -> usize {
        match self {
            Index::Mask(mask) => (line & mask) as usize,
            Index::Remainder { sets, reciprocal } => {
                let fraction = reciprocal.wrapping_mul(u128::from(line));
                let low = (u128::from(fraction as u64) * u128::from(sets)) >> 64;
                let high = (fraction >> 64) * u128::from(sets);
                ((low + high) >> 64) as usize
            }
        }
    }
}

/// The sets. With FIFO and LRU the lines of a set are in order, the next victim last, followed by the free ways; with random
/// replacement each stays in its way.
#[derive(Clone, Debug, PartialEq)]
struct Sets<E> {
    entries: Vec<E>,
    ways: usize,
}

impl<E: Entry> Sets<E> {
    fn new(table: &CacheTable) -> Sets<E> {
        let lines = usize::try_from(table.size / table.line).expect("machines have few lines");
        Sets {
            entries: vec![E::default(); lines],
            ways: table.ways as usize,
        }
    }

    #[inline(always)]
    fn set(&mut self, set: usize) -> &mut [E] {
        &mut self.entries[set * self.ways..(set + 1) * self.ways]
    }

    #[inline(always)]
    fn look_up(
        &mut self,
        set: usize,
        line: u64,
        write: bool,
        replacement: Replacement,
        random: &mut Random,
    ) -> Lookup {
        if self.use_if_there(set, line, write, replacement) {
            return Lookup::Hit;
        }
        let ways = self.set(set);
        let wanted = E::new(line);
        let new = if write { wanted.dirtied() } else { wanted };
        let last = ways.len() - 1;
        let victim = if replacement == Replacement::Random {
            let way = ways.iter().position(|entry| entry.is_free());
            let way = way.unwrap_or_else(|| (random.draw() % ways.len() as u64) as usize);
            std::mem::replace(&mut ways[way], new)
        } else {
            let victim = ways[last];
            shift_to(ways, last);
            ways[0] = new;
            victim
        };
        Lookup::of(false, victim)
    }

    /// Looks a line up, and changes nothing if it misses. Returns whether it hits.
    #[inline(always)]
    fn use_if_there(
        &mut self,
        set: usize,
        line: u64,
        write: bool,
        replacement: Replacement,
    ) -> bool {
        self.find_and_use(set, line, write, replacement).is_some()
    }

    /// As [`Sets::use_if_there`]; returns the way in which the line was.
    #[inline(always)]
    fn find_and_use(
        &mut self,
        set: usize,
        line: u64,
        write: bool,
        replacement: Replacement,
    ) -> Option<usize> {
        let ways = self.set(set);
        let wanted = E::new(line);
        let way = ways.iter().position(|entry| entry.is_line(wanted))?;
        if write {
            ways[way] = ways[way].dirtied();
        }
        if replacement == Replacement::Lru && way > 0 {
            let used = ways[way];
            shift_to(ways, way);
            ways[0] = used;
        }
        Some(way)
    }

    /// As [`Sets::use_if_there`] for at most `most` consecutive lines from `first` on, up to the first miss. Returns the number of
    /// hits.
    #[inline(always)]
    fn use_run(
        &mut self,
        index: Index,
        first: u64,
        most: u64,
        write: bool,
        replacement: Replacement,
    ) -> u64 {
        let mut done = 0;
        while done < most {
            let line = first + done;
            if !self.use_if_there(index.set(line), line, write, replacement) {
                break;
            }
            done += 1;
        }
        done
    }

    fn holds(&self, set: usize, line: u64) -> bool {
        let wanted = E::new(line);
        let ways = &self.entries[set * self.ways..(set + 1) * self.ways];
        ways.iter().any(|entry| entry.is_line(wanted))
    }

    fn find(&mut self, set: usize, line: u64) -> Option<&mut E> {
        let wanted = E::new(line);
        let is_it = |entry: &&mut E| entry.is_line(wanted);
        self.set(set).iter_mut().find(is_it)
    }

    fn remove(&mut self, set: usize, line: u64, replacement: Replacement) -> bool {
        let wanted = E::new(line);
        let ways = self.set(set);
        let is_it = |entry: &E| entry.is_line(wanted);
        let Some(way) = ways.iter().position(is_it) else {
            return false;
        };
        if replacement == Replacement::Random {
            ways[way] = E::default();
        } else {
            ways.copy_within(way + 1.., way);
            ways[ways.len() - 1] = E::default();
        }
        true
    }
}

/// Moves the entries before `way` back by one, over the entry of `way`.
#[inline(always)]
fn shift_to<E: Copy>(ways: &mut [E], way: usize) {
    const FEW: usize = 16;
    if way > FEW {
        ways.copy_within(..way, 1);
    } else {
        for to in (1..=way).rev() {
            ways[to] = ways[to - 1];
        }
    }
}

impl Sets<u64> {
    /// Does and returns the same as [`Sets::use_run`] for FIFO with two ways and a power of two of sets.
    #[inline(always)]
    fn run_of_two_ways(&mut self, mask: u64, first: u64, most: u64, write: bool) -> u64 {
        let (sets, _) = self.entries.as_chunks_mut::<2>();
        let mut done = 0;
        while done < most {
            let line = first + done;
            let wanted = <u64 as Entry>::new(line);
            let set = sets.get_mut((line & mask) as usize);
            if !set.is_some_and(|set| use_in_place(set, wanted, write)) {
                break;
            }
            done += 1;
        }
        done
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Store {
    Packed(Sets<u64>),
    Wide(Sets<u128>),
}

macro_rules! each {
    ($store:expr, $sets:ident => $what:expr) => {
        match $store {
            Store::Packed($sets) => $what,
            Store::Wide($sets) => $what,
        }
    };
}

/// A cache; see the module. Equal caches answer everything alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cache {
    store: Store,
    index: Index,
    replacement: Replacement,
    random: Random,
    shape: Shape,
}

/// Forms of caches for which lookups are compiled separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    TwoFifo,
    FourLru,
    EightLru,
    SixteenLru,
    Other,
}

/// The shortest line whose numbers leave two bits of a word free.
const SHORTEST_PACKED: u64 = 4;

impl Cache {
    /// Returns an empty cache: instance `instance` of the `[[cache]]` table `table`, which is number `number` of its machine. With random
    /// replacement the state of its generator begins with seed + 2^32 x number + instance.
    pub(crate) fn new(table: &CacheTable, number: usize, instance: usize, seed: u64) -> Cache {
        let store = if table.line >= SHORTEST_PACKED {
            Store::Packed(Sets::new(table))
        } else {
            Store::Wide(Sets::new(table))
        };
        let state = seed
            .wrapping_add((number as u64) << 32)
            .wrapping_add(instance as u64);
        let mut cache = Cache {
            store,
            index: Index::of(table.sets()),
            replacement: table.replacement,
            random: Random(state),
            shape: Shape::Other,
        };
        cache.shape = match cache.form() {
            Some((2, false)) => Shape::TwoFifo,
            Some((4, true)) => Shape::FourLru,
            Some((8, true)) => Shape::EightLru,
            Some((16, true)) => Shape::SixteenLru,
            _ => Shape::Other,
        };
        cache
    }

    /// As [`Cache::use_one`] of a read. Returns what [`Cache::undo`] needs; `None`: it misses, and nothing has changed.
    #[inline]
    pub(crate) fn use_undoably(&mut self, line: u64) -> Option<usize> {
        if let (Shape::TwoFifo, Store::Packed(sets), Index::Mask(mask)) =
            (self.shape, &self.store, self.index)
        {
            // Both ways are compared: a branch on the way would be mispredicted.
            let set = 2 * (line & mask) as usize;
            let wanted = <u64 as Entry>::new(line).dirtied();
            let ways = &sets.entries[set..set + 2];
            let (one, other) = (ways[0].dirtied() == wanted, ways[1].dirtied() == wanted);
            return (one | other).then_some(usize::from(other));
        }
        let (set, replacement) = (self.index.set(line), self.replacement);
        each!(&mut self.store, sets => sets.find_and_use(set, line, false, replacement))
    }

    /// Undoes the last use of `line`, which was the last in its set, too; `way` is what [`Cache::use_undoably`] returned.
    pub(crate) fn undo(&mut self, line: u64, way: usize) {
        let set = self.index.set(line);
        if self.replacement == Replacement::Lru {
            each!(&mut self.store, sets => sets.set(set)[..=way].rotate_left(1));
        }
    }

    /// Returns whether the removal of one of two lines and a hit of the other one do not commute.
    #[inline]
    pub(crate) fn meet(&self, one: u64, other: u64) -> bool {
        match self.replacement {
            Replacement::Lru => self.index.set(one) == self.index.set(other),
            // A hit changes nothing.
            Replacement::Fifo | Replacement::Random => one == other,
        }
    }

    /// Calls `each` with every line that it holds.
    pub(crate) fn for_each_line(&self, mut each: impl FnMut(u64)) {
        each!(&self.store, sets => {
            let held = sets.entries.iter().filter(|entry| !entry.is_free());
            held.for_each(|entry| each(entry.line()));
        });
    }

    /// Returns whether it holds `line`. That is no use.
    pub(crate) fn holds(&self, line: u64) -> bool {
        let set = self.index.set(line);
        each!(&self.store, sets => sets.holds(set, line))
    }

    /// Returns the number of lines that it can hold.
    pub(crate) fn lines(&self) -> usize {
        each!(&self.store, sets => sets.entries.len())
    }

    /// Returns the number of ways, and whether replacement is LRU; `None` unless a word holds a way, the number of sets is a power of two,
    /// and replacement is not random.
    pub(crate) fn form(&self) -> Option<(usize, bool)> {
        match (&self.store, self.index, self.replacement) {
            (_, _, Replacement::Random) => None,
            (Store::Packed(sets), Index::Mask(_), replacement) => {
                Some((sets.ways, replacement == Replacement::Lru))
            }
            _ => None,
        }
    }

    /// Returns the sets, if [`Cache::form`] is (`WAYS`, `LRU`).
    pub(crate) fn packed<const WAYS: usize, const LRU: bool>(
        &mut self,
    ) -> Option<Packed<'_, WAYS, LRU>> {
        let shape = self.form();
        match (&mut self.store, self.index) {
            (Store::Packed(sets), Index::Mask(mask)) if shape == Some((WAYS, LRU)) => {
                Some(Packed {
                    sets: sets.entries.as_chunks_mut().0,
                    mask,
                })
            }
            _ => None,
        }
    }

    /// Looks a line up and returns the result. A miss evicts and fills at once. `write` marks the line dirty.
    #[inline]
    pub(crate) fn look_up(&mut self, line: u64, write: bool) -> Lookup {
        macro_rules! known {
            ($ways:literal, $lru:literal) => {
                if let (Store::Packed(sets), Index::Mask(mask)) = (&mut self.store, self.index) {
                    let sets = sets.entries.as_chunks_mut().0;
                    return Packed::<$ways, $lru> { sets, mask }.look_up(line, write);
                }
            };
        }
        match self.shape {
            Shape::TwoFifo => known!(2, false),
            Shape::FourLru => known!(4, true),
            Shape::EightLru => known!(8, true),
            Shape::SixteenLru => known!(16, true),
            Shape::Other => {}
        }
        self.look_up_any(line, write)
    }

    #[inline(never)]
    fn look_up_any(&mut self, line: u64, write: bool) -> Lookup {
        let set = self.index.set(line);
        let (replacement, random) = (self.replacement, &mut self.random);
        each!(&mut self.store, sets => sets.look_up(set, line, write, replacement, random))
    }

    /// Looks a line up, and changes nothing if it misses. Returns whether it hits.
    #[inline(always)]
    pub(crate) fn use_one(&mut self, line: u64, write: bool) -> bool {
        if let (Shape::TwoFifo, Store::Packed(sets), Index::Mask(mask)) =
            (self.shape, &mut self.store, self.index)
        {
            return sets.run_of_two_ways(mask, line, 1, write) == 1;
        }
        self.use_run(line, 1, write) == 1
    }

    /// Looks up at most `most` consecutive lines from `first` on, up to the first miss, which changes nothing. Returns the number of
    /// hits.
    #[inline(never)]
    pub(crate) fn use_run(&mut self, first: u64, most: u64, write: bool) -> u64 {
        match (&mut self.store, self.index, self.replacement) {
            // The form of most first levels, compiled separately.
            (Store::Packed(sets), Index::Mask(mask), Replacement::Fifo) if sets.ways == 2 => {
                sets.run_of_two_ways(mask, first, most, write)
            }
            (Store::Packed(sets), index, Replacement::Lru) => {
                sets.use_run(index, first, most, write, Replacement::Lru)
            }
            (Store::Packed(sets), index, replacement) => {
                sets.use_run(index, first, most, write, replacement)
            }
            (Store::Wide(sets), index, replacement) => {
                sets.use_run(index, first, most, write, replacement)
            }
        }
    }

    /// Marks a line dirty if it is in the cache, which does not count as a use. Returns whether it is.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, line: u64) -> bool {
        if let (Shape::FourLru, Store::Packed(sets), Index::Mask(mask)) =
            (self.shape, &mut self.store, self.index)
        {
            let sets = sets.entries.as_chunks_mut().0;
            return Packed::<4, true> { sets, mask }.mark_dirty(line);
        }
        let set = self.index.set(line);
        each!(&mut self.store, sets => {
            let found = sets.find(set, line);
            let there = found.is_some();
            if let Some(entry) = found {
                *entry = entry.dirtied();
            }
            there
        })
    }

    /// Removes a line, dirty or not, if it is in the cache. Returns whether it was.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        let set = self.index.set(line);
        let replacement = self.replacement;
        each!(&mut self.store, sets => sets.remove(set, line, replacement))
    }
}

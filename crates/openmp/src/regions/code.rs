//! What the machine code of the program asks its OpenMP runtime for, read before any of it runs.
//!
//! A region may store the size of its team, and one that comes much later share out work by what was stored. When the later one runs it is
//! too late to keep the earlier one's team. But the later one has to ask for its thread's number, somewhere in its code, and for
//! something else than gcc's loops do: these ask for the team's size and right behind it for the number, and `master` compares the number
//! with zero. If no code of the program asks for the number in any other way, nothing is shared out by a size from elsewhere.

use std::collections::BTreeSet;
use std::ffi::CStr;

use crate::system;

/// A call of the number this close behind a call of the size belongs to it, in bytes: gcc moves a few instructions in between.
const CLOSE: usize = 40;

/// What the code of a module refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// `omp_get_num_threads`
    Size,
    /// `omp_get_thread_num`
    Number,
    /// A share of a loop, of gcc's or clang's kind.
    Share,
}

/// Where a module keeps the address of a function that it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) asks: Asks,
    pub(super) address: usize,
}

/// The functions that are asked for, with Fortran's names.
const NAMES: [(&CStr, Asks); 4] = [
    (c"omp_get_num_threads", Asks::Size),
    (c"omp_get_num_threads_", Asks::Size),
    (c"omp_get_thread_num", Asks::Number),
    (c"omp_get_thread_num_", Asks::Number),
];

/// Names that begin like this belong to further questions whose answers depend on the team, and to gcc's sections.
const OTHERS: [&[u8]; 7] = [
    b"omp_in_parallel",
    b"omp_get_team_size",
    b"omp_get_ancestor_thread_num",
    b"omp_get_active_level",
    b"GOMP_sections",
    b"GOMP_parallel_sections",
    b"omp_in_explicit_task",
];

/// Names that begin like this are those of clang's loops, of which some are sections; and of those of gcc's loops that call the runtime.
const LOOPS: [&[u8]; 2] = [b"__kmpc_for_static_init", b"__kmpc_dispatch_init"];
const GCC_LOOPS: [&[u8]; 1] = [b"GOMP_loop"];

/// Looks at modules, each once.
#[derive(Default)]
pub(super) struct Looked {
    bases: BTreeSet<usize>,
    uses_number: bool,
    not_plain: bool,
    /// Where threads get their shares of loops.
    shares: BTreeSet<usize>,
    /// The tables of the modules' functions.
    functions: Vec<Functions>,
}

impl Looked {
    /// Looks at the modules that have been loaded since the last look. Cost: about a millisecond a megabyte of code that asks.
    #[cold]
    pub(super) fn look(&mut self) {
        if cfg!(not(target_arch = "x86_64")) {
            (self.uses_number, self.not_plain) = (true, true);
            return;
        }
        let starts = |name: &CStr, with: &[&[u8]]| {
            let mut with = with.iter();
            with.any(|start| name.to_bytes().starts_with(start))
        };
        let asks = |name: &CStr| {
            let mut names = NAMES.iter();
            let asks = names.find(|(one, _)| *one == name).map(|(_, asks)| *asks);
            let share = || starts(name, &LOOPS) || starts(name, &GCC_LOOPS);
            asks.or_else(|| share().then_some(Asks::Share))
        };
        let is_wanted = |name: &CStr| asks(name).is_some() || starts(name, &OTHERS);
        system::linked(is_wanted, |module| {
            if !self.bases.insert(module.base) {
                return;
            }
            let places = module.places.iter();
            let slots = places.filter_map(|&(address, name)| {
                let asks = asks(name)?;
                Some(Slot { asks, address })
            });
            let slots: Vec<Slot> = slots.collect();
            let has = |is: &dyn Fn(&CStr) -> bool| module.places.iter().any(|(_, name)| is(name));
            let calls = calls(&slots, &module.code);
            self.uses_number |= calls.use_number();
            self.not_plain |= !calls.are_pairs()
                || has(&|name| starts(name, &OTHERS))
                || (has(&|name| starts(name, &LOOPS)) && may_have_sections(&module.data));
            self.shares
                .extend(calls.shares.iter().chain(&calls.numbers));
            let ends = module.code.iter().map(|(start, bytes)| start + bytes.len());
            let functions = module.functions.zip(ends.max());
            self.functions.extend(
                functions.and_then(|((start, bytes), end)| Functions::new(start, bytes, end)),
            );
        });
    }

    /// Returns whether code of any module that was looked at uses the number of its thread for something that is not understood; of
    /// processors other than x86-64 any code does.
    pub(super) fn uses_number(&self) -> bool {
        self.uses_number
    }

    /// Returns whether no code of these modules asks for anything that depends on the team, but for the pairs of gcc's loops, and none has
    /// sections: then a region that shares out a loop does not have to show by running that it does not depend on its team.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.not_plain
    }

    /// Returns whether the function at `address` shares out a loop among the threads of its team.
    pub(super) fn shares(&self, address: usize) -> bool {
        let mut functions = self.functions.iter();
        functions
            .find_map(|functions| functions.end_of(address))
            .is_some_and(|end| self.shares.range(address..end).next().is_some())
    }
}

/// The table of a module's functions that unwinders search (`.eh_frame_hdr`, Linux Standard Base, "Exception Frames").
struct Functions {
    start: usize,
    /// Pairs of distances from `start`: of a function, in ascending order, and of its description.
    pairs: &'static [u8],
    /// Where the code of the module ends.
    end: usize,
}

impl Functions {
    const PAIR: usize = 8;

    /// Returns the table in `bytes`, which are at `start`, of a module whose code ends at `end`; `None` if it is not of the usual form.
    fn new(start: usize, bytes: &'static [u8], end: usize) -> Option<Functions> {
        // Version 1; an address that is not read; a count of 4 bytes; pairs of distances of 4 bytes from the table.
        let (&[1, _, 0x03, 0x3b], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (count, pairs) = rest.get(4..)?.split_first_chunk()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(Self::PAIR)?;
        Some(Functions {
            start,
            pairs: pairs.get(..length)?,
            end,
        })
    }

    fn function(&self, at: usize) -> Option<usize> {
        let pair = self.pairs.get(at * Self::PAIR..)?.first_chunk()?;
        Some(
            self.start
                .wrapping_add_signed(i32::from_le_bytes(*pair) as isize),
        )
    }

    /// Returns where the function that begins at `address` ends at the latest; `None` if none begins there.
    fn end_of(&self, address: usize) -> Option<usize> {
        let (mut from, mut to) = (0, self.pairs.len() / Self::PAIR);
        while from < to {
            let middle = from.midpoint(to);
            match self.function(middle)? < address {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let found = self.function(from)? == address;
        found.then(|| self.function(from + 1).unwrap_or(self.end))
    }
}

/// Returns whether data of a module describes a construct that is `sections`, or no construct at all as clang describes them (`ident_t` of
/// LLVM's `kmp.h`: four words of 32 bits, of which the second has flags, and the address of a text that begins with a semicolon).
fn may_have_sections(data: &[(usize, &[u8])]) -> bool {
    const WORD: usize = size_of::<u64>();
    /// Any construct of clang; sections.
    const CLANG: u32 = 2;
    const SECTIONS: u32 = 0x400;
    let at = |address: usize| {
        let inside = |&&(start, bytes): &&(usize, &[u8])| {
            address
                .checked_sub(start)
                .is_some_and(|at| at < bytes.len())
        };
        data.iter()
            .find(inside)
            .map(|(start, bytes)| bytes[address - start])
    };
    let mut known = false;
    for &(start, bytes) in data {
        // Constructs are aligned as addresses are.
        let skipped = start.next_multiple_of(WORD) - start;
        let words = bytes.get(skipped..).unwrap_or(&[]);
        for three in words.windows(3 * WORD).step_by(WORD) {
            let half = |at: usize| {
                let mut half = [0; WORD / 2];
                half.copy_from_slice(&three[at * WORD / 2..][..WORD / 2]);
                u32::from_le_bytes(half)
            };
            let (reserved, flags) = (half(0), half(1));
            if reserved != 0 || flags & CLANG == 0 {
                continue;
            }
            let text = u64::from(half(4)) | u64::from(half(5)) << 32;
            if at(text as usize) != Some(b';') {
                continue;
            }
            if flags & SECTIONS != 0 {
                return true;
            }
            known = true;
        }
    }
    !known
}

/// Returns the calls of a module. `slots` are where the module has the addresses of the runtime's functions; `code` are its segments of
/// code, each with its address. The code is that of x86-64.
fn calls(slots: &[Slot], code: &[(usize, &[u8])]) -> Calls {
    // A call goes to the slot itself, or to a stub that jumps to what the slot has.
    let mut stubs = Vec::new();
    let mut calls = Calls::default();
    let slot_of = |target| slots.iter().find(|slot| slot.address == target);
    for reference in references(code, slots.iter().map(|slot| slot.address)) {
        let Some(slot) = slot_of(reference.target) else {
            continue;
        };
        match reference.before {
            [_, _, _, _, 0xff, 0x25] => {
                let start = reference.at - 2;
                let starts = match reference.before {
                    // endbr64
                    [0xf3, 0x0f, 0x1e, 0xfa, ..] => [start, start - 4],
                    // A prefix, and what stands before it.
                    [.., 0xf2, _, _] => [start - 1, start.wrapping_sub(5)],
                    _ => [start; 2],
                };
                stubs.extend(starts.map(|address| Slot {
                    asks: slot.asks,
                    address,
                }));
            }
            [.., 0xff, 0x15] => calls.add(slot.asks, reference.at - 2, &reference),
            _ => calls.add_strange(slot.asks),
        }
    }
    for reference in references(code, stubs.iter().map(|stub| stub.address)) {
        let Some(stub) = stubs.iter().find(|stub| stub.address == reference.target) else {
            continue;
        };
        match reference.before {
            [.., 0xe8] => calls.add(stub.asks, reference.at - 1, &reference),
            // A stub's own number, and a jump back, which happen to look like a distance.
            [.., 0x68] if reference.after.first() == Some(&0xe9) => {}
            _ => calls.add_strange(stub.asks),
        }
    }
    calls
}

/// Four bytes that are the distance to a target.
struct Reference<'a> {
    target: usize,
    /// The address of the four bytes.
    at: usize,
    /// What stands before them.
    before: [u8; 6],
    /// What stands behind them.
    after: &'a [u8],
}

/// Returns all references in `code` to `targets`.
fn references<'a>(
    code: &[(usize, &'a [u8])],
    targets: impl Iterator<Item = usize>,
) -> Vec<Reference<'a>> {
    let targets: BTreeSet<usize> = targets.collect();
    let (Some(&first), Some(&last)) = (targets.first(), targets.last()) else {
        return Vec::new();
    };
    let span = last - first;
    let mut found = Vec::new();
    for &(start, bytes) in code {
        let bytes: &'a [u8] = bytes;
        for (offset, four) in bytes.windows(4).enumerate() {
            let distance = i32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            let behind = start.wrapping_add(offset + 4);
            let target = behind.wrapping_add_signed(distance as isize);
            // Nearly all are far from all targets; and what points into itself is the end of one thing and the beginning of the next.
            let inside = (behind - 3..behind).contains(&target);
            if target.wrapping_sub(first) > span || inside || !targets.contains(&target) {
                continue;
            }
            let mut before = [0; 6];
            let known = &bytes[offset.saturating_sub(6)..offset];
            before[6 - known.len()..].copy_from_slice(known);
            found.push(Reference {
                target,
                at: behind - 4,
                before,
                after: &bytes[offset + 4..],
            });
        }
    }
    found
}

/// The calls of a module.
#[derive(Default)]
struct Calls {
    /// Ends of the calls of the size.
    sizes: BTreeSet<usize>,
    /// Starts of the calls of the number whose result is not compared with zero at once.
    numbers: Vec<usize>,
    /// Starts of those whose result is.
    compared: Vec<usize>,
    /// Whether the number is asked for in a way that is not understood: by a jump, or by a pointer; and whether the size is.
    strange: bool,
    strange_size: bool,
    /// Starts of the calls for a share of a loop.
    shares: Vec<usize>,
}

impl Calls {
    fn add(&mut self, asks: Asks, start: usize, reference: &Reference<'_>) {
        match asks {
            Asks::Size => {
                self.sizes.insert(reference.at + 4);
            }
            Asks::Number if compares_with_zero(reference.after) => self.compared.push(start),
            Asks::Number => self.numbers.push(start),
            Asks::Share => self.shares.push(start),
        }
    }

    fn add_strange(&mut self, asks: Asks) {
        match asks {
            Asks::Size => self.strange_size = true,
            Asks::Number => self.strange = true,
            Asks::Share => {}
        }
    }

    /// Returns whether the number is used for something that is not understood.
    fn use_number(&self) -> bool {
        let pairs = |&start: &usize| {
            let sizes = self.sizes.range(start.saturating_sub(CLOSE)..=start);
            sizes.count() > 0
        };
        self.strange || !self.numbers.iter().all(pairs)
    }

    /// Returns whether there are no calls but pairs as those of gcc's loops: the size, and right behind it the number.
    fn are_pairs(&self) -> bool {
        let has_number = |&size: &usize| {
            let numbers = self.numbers.iter();
            numbers
                .copied()
                .any(|number| (size..=size + CLOSE).contains(&number))
        };
        let strange = self.strange_size || self.use_number() || !self.compared.is_empty();
        !strange && self.sizes.len() <= self.numbers.len() && self.sizes.iter().all(has_number)
    }
}

/// Returns whether code begins with a comparison of a call's result with zero, and a jump if it is equal, or is not.
fn compares_with_zero(code: &[u8]) -> bool {
    matches!(
        code,
        [0x85, 0xc0, 0x74 | 0x75, ..] | [0x85, 0xc0, 0x0f, 0x84 | 0x85, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x10_0000;
    const SLOTS: [Slot; 2] = [
        Slot {
            asks: Asks::Size,
            address: BASE + 0x2000,
        },
        Slot {
            asks: Asks::Number,
            address: BASE + 0x2008,
        },
    ];

    /// Code with a stub for each slot, and what is written behind them.
    struct Writer(Vec<u8>);

    impl Writer {
        fn new() -> Writer {
            let mut writer = Writer(Vec::new());
            for slot in &SLOTS {
                writer.reference(&[0xff, 0x25], slot.address);
                // As the linker writes it: a number, and a jump back.
                writer.bytes(&[0x68, 5, 0, 0, 0, 0xe9, 0xa0, 0xff, 0xff, 0xff]);
            }
            writer
        }

        fn bytes(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }

        fn reference(&mut self, code: &[u8], target: usize) {
            self.bytes(code);
            let behind = BASE + self.0.len() + 4;
            let distance = (target as i64 - behind as i64) as i32;
            self.bytes(&distance.to_le_bytes());
        }

        fn call(&mut self, asks: Asks) {
            let stub = if asks == Asks::Size { 0 } else { 16 };
            self.reference(&[0xe8], BASE + stub);
        }

        fn uses_number(&self) -> bool {
            calls(&SLOTS, &[(BASE, &self.0)]).use_number()
        }
    }

    #[test]
    fn loops_and_masters_do_not_use_the_number() {
        let mut code = Writer::new();
        assert!(!code.uses_number());
        code.call(Asks::Size);
        code.bytes(&[0x89, 0xc3]);
        code.call(Asks::Number);
        code.bytes(&[0x89, 0xc5]);
        code.call(Asks::Number);
        code.bytes(&[0x85, 0xc0, 0x75, 0x10]);
        code.call(Asks::Size);
        assert!(!code.uses_number());
    }

    #[test]
    fn a_number_alone_a_jump_and_a_pointer_do() {
        let mut alone = Writer::new();
        alone.call(Asks::Size);
        alone.bytes(&[0x90; CLOSE + 1]);
        alone.call(Asks::Number);
        assert!(alone.uses_number());
        let mut before = Writer::new();
        before.call(Asks::Number);
        before.call(Asks::Size);
        assert!(before.uses_number());
        let mut jump = Writer::new();
        jump.call(Asks::Size);
        jump.reference(&[0xe9], BASE + 16);
        assert!(jump.uses_number());
        let mut pointer = Writer::new();
        pointer.reference(&[0x48, 0x8b, 0x05], SLOTS[1].address);
        assert!(pointer.uses_number());
        let mut direct = Writer::new();
        direct.reference(&[0xff, 0x15], SLOTS[1].address);
        direct.bytes(&[0x89, 0xc3]);
        assert!(direct.uses_number());
        let mut marked = Writer(Vec::new());
        marked.bytes(&[0xf3, 0x0f, 0x1e, 0xfa]);
        marked.reference(&[0xff, 0x25], SLOTS[1].address);
        assert!(!marked.uses_number());
        marked.reference(&[0xe8], BASE);
        assert!(marked.uses_number());
        let mut paired = Writer::new();
        paired.reference(&[0xff, 0x15], SLOTS[0].address);
        paired.reference(&[0xff, 0x15], SLOTS[1].address);
        assert!(!paired.uses_number());
    }

    #[test]
    fn only_pairs_are_plain() {
        let pairs = |code: &Writer| calls(&SLOTS, &[(BASE, &code.0)]).are_pairs();
        let mut code = Writer::new();
        assert!(pairs(&code));
        code.call(Asks::Size);
        code.call(Asks::Number);
        assert!(pairs(&code));
        let mut size = Writer(code.0.clone());
        size.call(Asks::Size);
        assert!(!pairs(&size));
        let mut master = Writer(code.0.clone());
        master.call(Asks::Size);
        master.call(Asks::Number);
        master.bytes(&[0x85, 0xc0, 0x75, 0x10]);
        assert!(!pairs(&master));
        let mut pointer = Writer(code.0);
        pointer.reference(&[0x48, 0x8b, 0x05], SLOTS[0].address);
        assert!(!pairs(&pointer));
    }

    #[test]
    fn functions_end_where_the_next_one_begins() {
        let mut table = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0];
        table.extend(3_u32.to_le_bytes());
        for distance in [-0x300_i32, -0x200, -0x100] {
            table.extend(distance.to_le_bytes());
            table.extend(0_i32.to_le_bytes());
        }
        let table: &'static [u8] = table.leak();
        let functions = Functions::new(BASE, table, BASE - 0x80).expect("the usual form");
        assert_eq!(functions.end_of(BASE - 0x300), Some(BASE - 0x200));
        assert_eq!(functions.end_of(BASE - 0x100), Some(BASE - 0x80));
        for other in [BASE - 0x301, BASE - 0x2ff, BASE] {
            assert_eq!(functions.end_of(other), None);
        }
        assert!(Functions::new(BASE, &table[..table.len() - 1], BASE).is_none());
        assert!(
            Functions::new(BASE, &[1, 0x1b, 0x03, 0x3c, 0, 0, 0, 0, 0, 0, 0, 0], BASE).is_none()
        );
    }

    #[test]
    fn sections_are_found_in_the_descriptions_of_constructs() {
        let text = BASE + 0x1000;
        let construct = |flags: u32, text: usize| {
            let mut words = vec![0; 4];
            words.extend(flags.to_le_bytes());
            words.extend([0; 8]);
            words.extend((text as u64).to_le_bytes());
            words
        };
        let has = |constructs: &[Vec<u8>]| {
            let data = constructs.concat();
            may_have_sections(&[(BASE, &data), (text, b";a.c;f;1;1;;\0")])
        };
        assert!(!has(&[construct(0x202, text), construct(0x22, text)]));
        assert!(has(&[construct(0x202, text), construct(0x402, text)]));
        // What is not understood may be sections; and what has no such text is no construct.
        assert!(has(&[]));
        assert!(has(&[construct(0x202, text + 1)]));
        assert!(!has(&[construct(0x202, text), construct(0x402, text + 1)]));
    }
}

//! Turning instructions and accesses into records.

use super::{Fetches, Imported, Options, PAGE};
use crate::{Kind, NewTask, Record, Sink, TraceError};
use hashbrown::HashMap;

/// An access that [`access`] has checked: its end does not pass the last address.
#[derive(Clone, Copy)]
pub(super) struct Access {
    address: u64,
    /// Address of the last byte.
    last: u64,
}

/// The longest access in bytes: longer than any instruction's, and short enough that a short text cannot ask for many pages of memory.
const LONGEST: u64 = 1 << 20;

/// Checks address and size of an access, and returns the access.
pub(super) fn access(address: u64, size: u64) -> Result<Access, &'static str> {
    if size == 0 || size > LONGEST {
        return Err("an access has a size from 1 to 1048576 bytes");
    }
    match address.checked_add(size - 1) {
        Some(last) => Ok(Access { address, last }),
        None => Err("the access passes the last address, 2^64-1"),
    }
}

/// Writes the records of one task after another.
pub(super) struct Emitter<'a, S> {
    sink: &'a mut S,
    options: Options,
    /// Cycles of computation that are not written yet.
    cycles: u64,
    /// The block in which the last instruction ended.
    block: Option<u64>,
    /// By page, its number.
    pages: HashMap<u64, u64>,
    /// The last page and its number, for data and for instructions.
    recent: [Option<(u64, u64)>; 2],
    pub(super) imported: Imported,
}

impl<'a, S: Sink> Emitter<'a, S> {
    pub(super) fn new(sink: &'a mut S, options: Options) -> Self {
        Emitter {
            sink,
            options,
            cycles: 0,
            block: None,
            pages: HashMap::new(),
            recent: [None; 2],
            imported: Imported::default(),
        }
    }

    /// Sets the line of the text from which the next items come.
    pub(super) fn at_line(&mut self, line: u64) {
        self.sink.at_line(line);
    }

    /// Starts a task; the task before it ends.
    pub(super) fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        self.end()?;
        self.imported.tasks += 1;
        self.sink.task(task)
    }

    /// Ends the current task.
    pub(super) fn end(&mut self) -> Result<(), TraceError> {
        self.block = None;
        self.compute()
    }

    pub(super) fn edge(&mut self, from: u32, to: u32) -> Result<(), TraceError> {
        self.imported.dependencies += 1;
        self.sink.edge(from, to, false)
    }

    /// Adds an executed instruction.
    #[inline]
    pub(super) fn instruction(&mut self, code: Access) -> Result<(), TraceError> {
        self.imported.instructions += 1;
        match self.options.fetches {
            Fetches::Each => self.touch(Kind::Fetch, code)?,
            Fetches::Blocks(size) => {
                let size = u64::from(size);
                let (first, last) = (code.address / size, code.last / size);
                let first = first + u64::from(self.block == Some(first));
                if first <= last {
                    let last = last * size + (size - 1);
                    let address = first * size;
                    self.touch(Kind::Fetch, Access { address, last })?;
                }
                self.block = Some(last);
            }
            Fetches::None => {}
        }
        let more = self.options.cycles_per_instruction;
        self.cycles = match self.cycles.checked_add(more) {
            Some(cycles) => cycles,
            None => {
                // The sum does not fit into one record. Whether a clock may get so far is checked by the simulator.
                self.compute()?;
                more
            }
        };
        Ok(())
    }

    #[inline]
    pub(super) fn read(&mut self, data: Access) -> Result<(), TraceError> {
        self.imported.reads += 1;
        self.touch(Kind::Read, data)
    }

    #[inline]
    pub(super) fn write(&mut self, data: Access) -> Result<(), TraceError> {
        self.imported.writes += 1;
        self.touch(Kind::Write, data)
    }

    /// Writes the cycles that are not written yet as one record.
    fn compute(&mut self) -> Result<(), TraceError> {
        match std::mem::take(&mut self.cycles) {
            0 => Ok(()),
            cycles => {
                self.imported.records += 1;
                self.sink.record(Record::compute(cycles))
            }
        }
    }

    fn touch(&mut self, kind: Kind, access: Access) -> Result<(), TraceError> {
        self.compute()?;
        let Access { mut address, last } = access;
        if !self.options.renumber {
            return self.record(kind, address, last);
        }
        loop {
            let page = address / PAGE;
            let end = last.min(page * PAGE + (PAGE - 1));
            let base = self.page_number(kind, page) * PAGE;
            self.record(kind, base + address % PAGE, base + end % PAGE)?;
            if end == last {
                return Ok(());
            }
            address = end + 1;
        }
    }

    fn record(&mut self, kind: Kind, address: u64, last: u64) -> Result<(), TraceError> {
        self.imported.records += 1;
        self.sink.record(Record {
            kind,
            value: address,
            size: (last - address + 1) as u32,
        })
    }

    /// Returns the number of `page`. Numbers start at 1: address 0 stays unused, as in programs.
    #[inline]
    fn page_number(&mut self, kind: Kind, page: u64) -> u64 {
        let recent = &mut self.recent[usize::from(kind == Kind::Fetch)];
        match *recent {
            Some((known, number)) if known == page => number,
            _ => {
                let next = self.pages.len() as u64 + 1;
                let number = *self.pages.entry(page).or_insert(next);
                *recent = Some((page, number));
                self.imported.pages = self.pages.len() as u64;
                number
            }
        }
    }
}

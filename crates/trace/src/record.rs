//! One line of a task's trace.

/// What a [`Record`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Cycles of computation without a memory access.
    Compute = 0,
    /// Instruction fetch.
    Fetch = 1,
    /// Data read.
    Read = 2,
    /// Data write.
    Write = 3,
}

impl Kind {
    /// Returns the word of this kind in a text trace.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compute => "x",
            Self::Fetch => "i",
            Self::Read => "r",
            Self::Write => "w",
        }
    }
}

/// One step of a task: computation or one memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Cycles if `kind` is [`Kind::Compute`]; otherwise the address of the first byte.
    pub value: u64,
    /// Bytes: at least 1, and `value + size - 1` does not pass 2^64-1; 0 if `kind` is [`Kind::Compute`].
    pub size: u32,
    /// Computation or the kind of access.
    pub kind: Kind,
}

impl Record {
    /// Returns a computation of `cycles` cycles.
    #[must_use]
    pub const fn compute(cycles: u64) -> Self {
        Self {
            value: cycles,
            size: 0,
            kind: Kind::Compute,
        }
    }

    /// Returns an instruction fetch of `size` bytes at `address`.
    #[must_use]
    pub const fn fetch(address: u64, size: u32) -> Self {
        Self::access(Kind::Fetch, address, size)
    }

    /// Returns a read of `size` bytes at `address`.
    #[must_use]
    pub const fn read(address: u64, size: u32) -> Self {
        Self::access(Kind::Read, address, size)
    }

    /// Returns a write of `size` bytes at `address`.
    #[must_use]
    pub const fn write(address: u64, size: u32) -> Self {
        Self::access(Kind::Write, address, size)
    }

    const fn access(kind: Kind, value: u64, size: u32) -> Self {
        Self { value, size, kind }
    }

    /// Returns whether a trace may hold this record: size and address are as their fields document.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        match self.kind {
            Kind::Compute => self.size == 0,
            _ => self.size > 0 && self.value.checked_add(self.size as u64 - 1).is_some(),
        }
    }
}

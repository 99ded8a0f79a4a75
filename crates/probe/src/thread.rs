//! One recorded thread.

use std::io;

use tanada_trace::threads::spool::{Chunk, Spool};
use tanada_trace::threads::{Encoder, Sync, ThreadWriter};

use crate::marks::Mark;

/// The most bytes that one instruction accesses at once.
const WIDEST: u8 = 64;

/// An access; none if it has no bytes.
#[derive(Clone, Copy, Default)]
struct Access {
    position: u32,
    address: u64,
    bytes: u8,
    store: bool,
}

/// Places of [`Recorded::kinds`]: a program's accesses are of a dozen kinds.
const KINDS: usize = 32;

/// A kind of access, as the emulator tells it, with its bytes, and whether it loads and whether it stores.
type Kind = (u32, (u8, bool, bool));

/// What one thread of the program has done since its last block was written. Only that thread touches it while the program runs.
pub(crate) struct Recorded {
    pub(crate) number: u32,
    parent: Option<u32>,
    stack: Option<u64>,
    encoder: Encoder,
    /// Codes of the encoder by the number of the emulator's block; the upper half is the encoder's generation, 0 if there is no code.
    codes: Vec<u64>,
    /// The emulator's block of code that is being recorded: accesses belong to it.
    pub(crate) active: Option<usize>,
    /// Inside of a call that is left out.
    pub(crate) paused: bool,
    /// Instructions before the recording began.
    pub(crate) skipped: u64,
    /// The last access, which is not written yet.
    open: Access,
    /// Accesses of the emulator that are parts of others.
    pub(crate) parts: u64,
    packed: Vec<u8>,
    objects_written: usize,
    threads_written: usize,
    /// The end was recorded, or would be if the recording were open.
    pub(crate) ended: bool,
    /// A line of the runtime that has not ended.
    line: Vec<u8>,
    /// Kinds of accesses that were asked for: each answer takes two calls of the emulator, a tenth of the time of a recording.
    kinds: [Option<Kind>; KINDS],
}

impl Recorded {
    pub(crate) fn new(number: u32, parent: Option<u32>) -> Self {
        Self {
            number,
            parent,
            stack: None,
            encoder: Encoder::new(),
            codes: Vec::new(),
            active: None,
            paused: false,
            skipped: 0,
            open: Access::default(),
            parts: 0,
            packed: Vec::new(),
            objects_written: 0,
            threads_written: 0,
            ended: false,
            line: Vec::new(),
            kinds: [None; KINDS],
        }
    }

    /// Returns what `read` does of the emulator's word for a kind of access: its bytes, whether it loads and whether it stores.
    #[inline]
    pub(crate) fn kind(
        &mut self,
        information: u32,
        read: impl FnOnce(u32) -> (u8, bool, bool),
    ) -> (u8, bool, bool) {
        let place = &mut self.kinds[(information ^ information >> 13) as usize % KINDS];
        match *place {
            Some((known, kind)) if known == information => kind,
            _ => {
                let kind = read(information);
                *place = Some((information, kind));
                kind
            }
        }
    }

    /// Adds a piece to the runtime's line, and returns the line if that ends it.
    pub(crate) fn line(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        let end = piece.iter().position(|&byte| byte == 0);
        self.line.extend(&piece[..end.unwrap_or(piece.len())]);
        self.line
            .ends_with(b"\n")
            .then(|| std::mem::take(&mut self.line))
    }

    pub(crate) fn instructions(&self) -> u64 {
        self.encoder.totals().instructions
    }

    pub(crate) const fn set_stack(&mut self, stack: u64) {
        self.stack = Some(stack);
    }

    /// Records that the block of code with this number begins.
    #[inline]
    pub(crate) fn begin(&mut self, number: usize, place: (u64, u32, u32)) {
        self.close();
        self.active = Some(number);
        let generation = u64::from(self.encoder.generation() + 1) << 32;
        match self.codes.get(number) {
            Some(&code) if code & !0xffff_ffff == generation => self.encoder.known(code as u32),
            _ => self.begin_new(number, place),
        }
    }

    #[cold]
    fn begin_new(&mut self, number: usize, (address, bytes, instructions): (u64, u32, u32)) {
        let code = self.encoder.code(address, bytes, instructions);
        let generation = u64::from(self.encoder.generation() + 1) << 32;
        if self.codes.len() <= number {
            self.codes.resize((number + 1).next_power_of_two(), 0);
        }
        self.codes[number] = generation | u64::from(code);
    }

    /// Records an access. The emulator loads and stores vectors, and registers that an instruction lists, in parts: accesses of one
    /// instruction to neighbouring bytes are one.
    #[inline]
    pub(crate) fn access(&mut self, position: u32, address: u64, bytes: u8, store: bool) {
        let open = &mut self.open;
        if open.position == position
            && open.store == store
            && open.address.wrapping_add(open.bytes.into()) == address
            && open.bytes + bytes <= WIDEST
            && open.bytes > 0
        {
            open.bytes += bytes;
            self.parts += 1;
            return;
        }
        self.close();
        self.open = Access {
            position,
            address,
            bytes,
            store,
        };
    }

    /// Writes the access of which more parts could have come.
    #[inline]
    fn close(&mut self) {
        let Access {
            position,
            address,
            bytes,
            store,
        } = self.open;
        if bytes > 0 {
            self.encoder.access(position, address, bytes, store);
            self.open.bytes = 0;
        }
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.encoder.is_full()
    }

    /// Records what a mark says of this thread. `open`: the recording has begun and not ended.
    pub(crate) fn mark(&mut self, mark: Mark, open: bool, spool: &Spool) -> io::Result<()> {
        match mark {
            // Also before the recording begins: a piece of a program has the threads that were created before it.
            Mark::Spawned(number) => self.sync(Sync::Create(0), [number.into(), 0]),
            Mark::Join(number) if open => self.sync(Sync::Join(0), [number.into(), 0]),
            Mark::Sync { sync, names, times } if open => {
                for _ in 0..times {
                    self.sync(sync, names);
                    if self.is_full() {
                        self.write(spool)?;
                    }
                }
            }
            _ => {}
        }
        match self.is_full() {
            true => self.write(spool),
            false => Ok(()),
        }
    }

    fn sync(&mut self, sync: Sync, names: [u64; 2]) {
        self.close();
        self.encoder.rest();
        self.encoder.named(sync, names);
    }

    /// Records the end of the thread, if the recording is open.
    pub(crate) fn end(&mut self, open: bool) {
        if open {
            self.sync(Sync::Exit, [0; 2]);
        }
    }

    /// Appends what was not written yet to the spool: a thread without any block has one chunk, too.
    pub(crate) fn write(&mut self, spool: &Spool) -> io::Result<()> {
        self.close();
        ThreadWriter::pack(self.encoder.block(), &mut self.packed);
        let chunk = Chunk {
            thread: self.number,
            parent: self.parent,
            stack: self.stack,
            totals: self.encoder.totals(),
            length: self.encoder.block().len() as u32,
            objects: &self.encoder.objects()[self.objects_written..],
            threads: &self.encoder.threads()[self.threads_written..],
            packed: &self.packed,
        };
        spool.append(&chunk)?;
        self.objects_written = self.encoder.objects().len();
        self.threads_written = self.encoder.threads().len();
        self.encoder.clear();
        Ok(())
    }
}

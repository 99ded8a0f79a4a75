//! The part of QEMU's plugin interface that is used, found by name in the emulator that loads the plugin.
//!
//! Names and signatures are those of versions 1 to 4 of the interface (QEMU 6.0 to 10); they did not change between these.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;

pub(crate) type Id = u64;
pub(crate) type OnBlock = extern "C" fn(Id, *mut c_void);
pub(crate) type OnVcpu = extern "C" fn(Id, c_uint);
pub(crate) type OnExec = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type OnCall = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type OnEnd = extern "C" fn(Id, *mut c_void);

/// `QEMU_PLUGIN_CB_NO_REGS`: a callback reads and writes no register.
const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`: loads and stores.
const LOADS_AND_STORES: c_int = 3;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const INLINE_ADD: c_int = 0;

macro_rules! functions {
    ($($field:ident: fn($($argument:ty),*) $(-> $result:ty)? = $name:literal;)*) => {
        /// The functions, found in the emulator.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds all functions.
            ///
            /// # Errors
            /// Returns the name of the first one that the emulator does not have.
            pub(crate) fn find() -> Result<Self, &'static str> {
                Ok(Self { $($field: {
                    let found = find($name)?;
                    // SAFETY: the emulator exports this name with this signature, see the module; both are one pointer.
                    unsafe { transmute_copy::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(&found) }
                },)* })
            }
        }
    };
}

functions! {
    register_block: fn(Id, OnBlock) = c"qemu_plugin_register_vcpu_tb_trans_cb";
    register_exec: fn(*mut c_void, OnExec, c_int, *mut c_void) = c"qemu_plugin_register_vcpu_tb_exec_cb";
    register_instruction: fn(*mut c_void, OnExec, c_int, *mut c_void) = c"qemu_plugin_register_vcpu_insn_exec_cb";
    register_access: fn(*mut c_void, OnAccess, c_int, c_int, *mut c_void) = c"qemu_plugin_register_vcpu_mem_cb";
    register_init: fn(Id, OnVcpu) = c"qemu_plugin_register_vcpu_init_cb";
    register_exit: fn(Id, OnVcpu) = c"qemu_plugin_register_vcpu_exit_cb";
    register_call: fn(Id, OnCall) = c"qemu_plugin_register_vcpu_syscall_cb";
    register_end: fn(Id, OnEnd, *mut c_void) = c"qemu_plugin_register_atexit_cb";
    uninstall: fn(Id, extern "C" fn(Id)) = c"qemu_plugin_uninstall";
    block_length: fn(*mut c_void) -> usize = c"qemu_plugin_tb_n_insns";
    instruction: fn(*mut c_void, usize) -> *mut c_void = c"qemu_plugin_tb_get_insn";
    address: fn(*mut c_void) -> u64 = c"qemu_plugin_insn_vaddr";
    size: fn(*mut c_void) -> usize = c"qemu_plugin_insn_size";
    size_shift: fn(u32) -> c_uint = c"qemu_plugin_mem_size_shift";
    is_store: fn(u32) -> bool = c"qemu_plugin_mem_is_store";
}

/// Counters that the emulator's own code adds to, found apart: later versions of the interface have others.
#[derive(Clone, Copy)]
pub(crate) struct Counting {
    exec: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, u64),
    access: unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void, u64),
}

fn find(name: &'static CStr) -> Result<*mut c_void, &'static str> {
    // SAFETY: looks up a name among the symbols of this process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast::<c_char>()) };
    match found.is_null() {
        true => Err(name.to_str().unwrap_or_default()),
        false => Ok(found),
    }
}

impl Counting {
    /// Finds the functions.
    ///
    /// # Errors
    /// Returns the name of the first one that the emulator does not have.
    pub(crate) fn find() -> Result<Self, &'static str> {
        let exec = find(c"qemu_plugin_register_vcpu_insn_exec_inline")?;
        let access = find(c"qemu_plugin_register_vcpu_mem_inline")?;
        // SAFETY: the emulator exports these names with these signatures; all are one pointer.
        unsafe {
            Ok(Self {
                exec: transmute_copy(&exec),
                access: transmute_copy(&access),
            })
        }
    }

    /// Adds one to `instructions` for each execution, and to `accesses` for each access of an instruction of a block that is being
    /// translated. The pointers must stay valid. Loads and stores are not told apart, because QEMU 7.2 confuses their counters: it adds
    /// stores to that of loads, and both to that of stores.
    pub(crate) fn count(&self, instruction: Instruction, counters: [*mut u64; 2]) {
        let [instructions, accesses] = counters;
        // SAFETY: `instruction` comes from the callback of translation that is running, and the counters live as long as the process.
        unsafe {
            (self.exec)(instruction.0, INLINE_ADD, instructions.cast(), 1);
            (self.access)(
                instruction.0,
                LOADS_AND_STORES,
                INLINE_ADD,
                accesses.cast(),
                1,
            );
        }
    }
}

/// A block of code that is being translated.
#[derive(Clone, Copy)]
pub(crate) struct Block(pub(crate) *mut c_void);

/// An instruction of such a block.
#[derive(Clone, Copy)]
pub(crate) struct Instruction(*mut c_void);

impl Functions {
    /// Registers the callbacks of the process.
    pub(crate) fn register(
        &self,
        id: Id,
        block: OnBlock,
        call: OnCall,
        [init, exit]: [OnVcpu; 2],
        end: OnEnd,
    ) {
        // SAFETY: called from `qemu_plugin_install` with its `id`; the callbacks have the signatures of the interface.
        unsafe {
            (self.register_block)(id, block);
            (self.register_call)(id, call);
            (self.register_init)(id, init);
            (self.register_exit)(id, exit);
            (self.register_end)(id, end, std::ptr::null_mut());
        }
    }

    /// Ends all callbacks, then calls `then` while no thread of the program runs.
    pub(crate) fn uninstall(&self, id: Id, then: extern "C" fn(Id)) {
        // SAFETY: called from a callback with the plugin's `id`.
        unsafe { (self.uninstall)(id, then) }
    }

    pub(crate) fn length(&self, block: Block) -> usize {
        // SAFETY: `block` comes from the callback of translation that is running.
        unsafe { (self.block_length)(block.0) }
    }

    /// Returns the instruction with this index below [`length`](Self::length).
    pub(crate) fn instruction(&self, block: Block, index: usize) -> Instruction {
        // SAFETY: `block` comes from the callback of translation that is running.
        Instruction(unsafe { (self.instruction)(block.0, index) })
    }

    /// Returns address and bytes of an instruction.
    pub(crate) fn place(&self, instruction: Instruction) -> (u64, usize) {
        // SAFETY: `instruction` comes from the callback of translation that is running.
        unsafe { ((self.address)(instruction.0), (self.size)(instruction.0)) }
    }

    /// Has `call` called with `data` whenever `block` begins.
    pub(crate) fn on_exec(&self, block: Block, call: OnExec, data: *mut c_void) {
        // SAFETY: `block` comes from the callback of translation that is running.
        unsafe { (self.register_exec)(block.0, call, NO_REGISTERS, data) }
    }

    /// Has `call` called with `data` whenever `instruction` begins.
    pub(crate) fn on_instruction(&self, instruction: Instruction, call: OnExec, data: *mut c_void) {
        // SAFETY: `instruction` comes from the callback of translation that is running.
        unsafe { (self.register_instruction)(instruction.0, call, NO_REGISTERS, data) }
    }

    /// Has `call` called with `data` at each access of `instruction`.
    pub(crate) fn on_access(&self, instruction: Instruction, call: OnAccess, data: *mut c_void) {
        // SAFETY: `instruction` comes from the callback of translation that is running.
        unsafe { (self.register_access)(instruction.0, call, NO_REGISTERS, LOADS_AND_STORES, data) }
    }

    /// Returns the bytes of an access, and whether it loads and whether it stores.
    pub(crate) fn access(&self, information: u32) -> (u8, bool, bool) {
        // SAFETY: `information` comes from a callback of an access.
        let (shift, store) =
            unsafe { ((self.size_shift)(information), (self.is_store)(information)) };
        // An atomic instruction has both bits of `QEMU_PLUGIN_MEM_RW` where the emulator keeps them.
        let both = information >> 16 & 3 == LOADS_AND_STORES as u32;
        (1 << shift.min(7), !store || both, store)
    }
}

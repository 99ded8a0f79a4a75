//! Any text as a machine file: a machine or an error with a line, at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tanada_sim::Machine;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match Machine::parse(&text, "fuzz.toml") {
        Ok(machine) => {
            assert!(machine.cores > 0);
            let overrides = ["dispatch_cycles=5", "l1.ways=4"];
            for set in overrides {
                if let Ok(changed) = machine.overridden(&[set]) {
                    assert_eq!(changed.cores, machine.cores);
                }
            }
            if machine.cores <= 64 {
                assert_eq!(machine.placement().workers(), machine.cores);
            }
        }
        Err(wrong) => assert!(wrong.to_string().starts_with("fuzz.toml:"), "{wrong}"),
    }
});

//! An outcome as one JSON object, in a fixed order of keys.

use crate::counts::outcome::{Outcome, Stalls};
use serde::ser::{Serialize, SerializeMap, Serializer};

impl Outcome {
    /// Returns one JSON object on one line, without a line feed: `policy, cores, makespan, tasks, busy, utilisation, bound, bound_ratio`,
    /// for each level and kind `l1i_accesses, l1i_misses`, then `writebacks`. After those: `machine, seed`; for each level and kind
    /// `l1i_unavoidable` (misses that no order avoids) and `l1i_stall_cycles`; `compute_cycles, memory_queue_cycles, scheduling_cycles,
    /// idle_cycles`, summed over the cores; and with the contended model those of [`Contention`](crate::outcome::Contention).
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).expect("plain data has a JSON form")
    }

    /// Returns the sum of a part of the stalls over all cores.
    fn all_cores(&self, part: impl Fn(&Stalls) -> u64) -> u64 {
        self.stalls.iter().map(part).fold(0, u64::saturating_add)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("policy", &self.policy)?;
        map.serialize_entry("cores", &self.cores)?;
        map.serialize_entry("makespan", &self.makespan)?;
        map.serialize_entry("tasks", &self.tasks)?;
        map.serialize_entry("busy", &self.busy)?;
        map.serialize_entry("utilisation", &self.utilisation())?;
        map.serialize_entry("bound", &self.bound)?;
        map.serialize_entry("bound_ratio", &self.bound_ratio())?;
        for cache in &self.caches {
            let label = cache.label();
            map.serialize_entry(&format!("{label}_accesses"), &cache.count.accesses)?;
            map.serialize_entry(&format!("{label}_misses"), &cache.count.misses)?;
        }
        map.serialize_entry("writebacks", &self.writebacks)?;
        map.serialize_entry("machine", &self.machine)?;
        map.serialize_entry("seed", &self.seed)?;
        for (number, cache) in self.caches.iter().enumerate() {
            let label = cache.label();
            let stalls = self.all_cores(|core| core.caches[number]);
            map.serialize_entry(&format!("{label}_unavoidable"), &cache.unavoidable)?;
            map.serialize_entry(&format!("{label}_stall_cycles"), &stalls)?;
        }
        map.serialize_entry("compute_cycles", &self.all_cores(|core| core.compute))?;
        let queue = self.all_cores(|core| core.memory_queue);
        map.serialize_entry("memory_queue_cycles", &queue)?;
        map.serialize_entry("scheduling_cycles", &self.all_cores(|core| core.scheduling))?;
        map.serialize_entry("idle_cycles", &self.all_cores(|core| core.idle))?;
        if let Some(contention) = &self.contention {
            contention.serialize_entries(&mut map)?;
        }
        map.end()
    }
}

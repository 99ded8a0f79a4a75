//! The topology of a machine, as policies and pictures see it.

use super::{Kind, Machine, Per};
use tanada_topology::{Kind as Place, Object, Placement, Topology};

/// A kind of object that holds a number of neighbouring cores.
struct Ring {
    kind: Place,
    bytes: Option<u64>,
    cores: u64,
}

impl Machine {
    /// Returns the tree of the machine: sockets, the caches of levels 2 to 4 that hold data, cores. What does not nest in the others (a
    /// cluster that straddles two sockets) is left out, the smaller one first.
    pub fn topology(&self) -> Topology {
        let mut rings = self.rings();
        let cores = u64::from(self.cores);
        // Outermost first; of equals the deeper level, and a socket before the caches.
        rings.sort_by_key(|ring| (std::cmp::Reverse(ring.cores), ring.kind));
        let mut nested: Vec<Ring> = Vec::new();
        for ring in rings {
            let holds =
                |outer: &Ring| outer.cores >= cores || outer.cores.is_multiple_of(ring.cores);
            let fits = nested.last().is_none_or(holds);
            let mut caches = nested.iter().filter(|outer| outer.kind.is_cache());
            let ordered = !ring.kind.is_cache() || caches.all(|outer| outer.kind < ring.kind);
            if fits && ordered {
                nested.push(ring);
            }
        }
        let children = self.objects(&nested, 0, cores);
        let root = Object::new(Place::Machine, children);
        Topology::new(root, None).expect("objects nest, every core has a number of its own")
    }

    /// Returns the placement by which core w is worker w.
    pub fn placement(&self) -> Placement {
        self.topology().place(self.cores)
    }

    fn rings(&self) -> Vec<Ring> {
        let mut rings = Vec::new();
        if let Some(cores) = self.cores_per_socket {
            rings.push(Ring {
                kind: Place::Package,
                bytes: None,
                cores,
            });
        }
        for cache in &self.caches {
            let kind = match cache.level {
                2 => Place::L2,
                3 => Place::L3,
                4 => Place::L4,
                _ => continue,
            };
            if cache.kind != Kind::Instruction {
                rings.push(Ring {
                    kind,
                    bytes: Some(cache.size),
                    cores: self.cores_per(cache.per),
                });
            }
        }
        rings
    }

    /// Returns the objects that hold cores `from` up to `to`.
    fn objects(&self, rings: &[Ring], from: u64, to: u64) -> Vec<Object> {
        let Some((ring, inner)) = rings.split_first() else {
            return (from..to).map(|core| self.core(core)).collect();
        };
        let starts = (from..to).step_by(usize::try_from(ring.cores).unwrap_or(usize::MAX));
        let object = |start: u64| {
            let end = start.saturating_add(ring.cores).min(to);
            let mut object = Object::new(ring.kind, self.objects(inner, start, end));
            object.bytes = ring.bytes;
            object
        };
        starts.map(object).collect()
    }

    fn core(&self, number: u64) -> Object {
        let level_1 = |instruction: bool| {
            let mut own = self.caches.iter().filter(|cache| {
                cache.level == 1 && cache.per == Per::Core && cache.serves(instruction)
            });
            own.next().map(|cache| cache.size)
        };
        let thread = Object::hardware_thread(number as u32, true);
        Object {
            l1d_bytes: level_1(false),
            l1i_bytes: level_1(true),
            ..Object::new(Place::Core, vec![thread])
        }
    }
}

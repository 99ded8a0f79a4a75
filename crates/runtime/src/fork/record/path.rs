//! Paths: how much time lies on the longest chain of strands up to a point, and in which forks.

use smallvec::SmallVec;

/// The number of a [site](super::site).
pub(super) type SiteId = u32;

/// The strands of one site on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) site: SiteId,
    pub(super) strands: u32,
    pub(super) ns: u64,
}

/// The longest chain of strands that ends at a point of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) ns: u64,
    /// Sum to `ns`; a site once.
    pub(super) parts: SmallVec<[Part; 3]>,
}

impl Path {
    /// Adds a strand at the end.
    pub(super) fn add(&mut self, site: SiteId, ns: u64) {
        self.ns += ns;
        if let Some(part) = self.parts.iter_mut().find(|part| part.site == site) {
            part.strands = part.strands.saturating_add(1);
            part.ns += ns;
            return;
        }
        self.parts.push(Part {
            site,
            strands: 1,
            ns,
        });
    }

    /// Becomes `other` if that is longer: a point that two chains lead to.
    pub(super) fn join(&mut self, other: Path) {
        if other.ns > self.ns {
            *self = other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_to_the_whole_and_the_longer_path_wins() {
        let mut path = Path::default();
        for (site, ns) in [(1, 5), (2, 7), (1, 1)] {
            path.add(site, ns);
        }
        assert_eq!(path.ns, 13);
        assert_eq!(path.parts.len(), 2);
        let mut other = path.clone();
        other.add(9, 1);
        path.join(other.clone());
        assert_eq!(path, other);
        path.join(Path::default());
        assert_eq!(path, other);
    }
}

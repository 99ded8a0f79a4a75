//! From the address of a region's code to its number.

/// An open-addressed table with twice as many places as there can be regions.
pub(super) struct Table {
    places: Vec<(usize, u32)>,
}

impl Table {
    /// `most`: regions that are entered at most.
    pub(super) fn new(most: usize) -> Self {
        Table {
            places: vec![(0, 0); (most * 2).next_power_of_two()],
        }
    }

    /// Returns the place of `address`, or the free one for it.
    #[inline]
    fn place(&self, address: usize) -> usize {
        let mask = self.places.len() - 1;
        // Code is aligned to 16 bytes; the multiplication spreads the rest.
        let mut at = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 20 & mask;
        while self.places[at].0 != 0 && self.places[at].0 != address {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    pub(super) fn get(&self, address: usize) -> Option<u32> {
        let (known, number) = self.places[self.place(address)];
        (known == address && address != 0).then_some(number)
    }

    pub(super) fn insert(&mut self, address: usize, number: u32) {
        let at = self.place(address);
        self.places[at] = (address, number);
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn it_holds_as_many_as_it_says() {
        let mut table = Table::new(512);
        let address = |i: u32| 0x40_1000 + i as usize * 48;
        for i in 0..512 {
            assert_eq!(table.get(address(i)), None);
            table.insert(address(i), i);
        }
        for i in 0..512 {
            assert_eq!(table.get(address(i)), Some(i));
        }
        assert_eq!(table.get(0), None);
    }
}

//! The counting allocator. A program of its own, because it counts the allocations of all threads.

use tanada_testing::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[test]
fn allocations_bytes_and_their_peak_are_counted() {
    let (count, start) = (ALLOCATOR.allocations(), ALLOCATOR.restart_peak());
    let block = std::hint::black_box(vec![1_u8; 1 << 20]);
    assert!(ALLOCATOR.allocations() > count);
    assert!(ALLOCATOR.bytes() >= start + block.len());
    drop(block);
    assert!(ALLOCATOR.bytes() < start + (1 << 20));
    assert!(ALLOCATOR.peak() >= start + (1 << 20));
    assert!(ALLOCATOR.restart_peak() < start + (1 << 20));
    assert!(ALLOCATOR.peak() < start + (1 << 20));
}

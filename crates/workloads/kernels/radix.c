/* Radix sort of 32-bit keys, 8 bits a pass.
 *
 * Written after the description of the kernel Radix of SPLASH-2 (Woo, Ohara, Torrie, Singh, Gupta: The SPLASH-2 Programs, ISCA 1995,
 * section 3). In each pass every thread counts the digits of its own keys; the counts become places; every thread moves its keys to
 * their places, which lie all over the other array. Here the sums over threads are computed in parallel, a share of the digits a thread,
 * and one thread adds the 256 totals. */
#include "kernel.h"

enum { RADIX = 256, BITS = 8, PASSES = 4 };

static uint32_t *keys, *moved;
static uint32_t (*count)[RADIX]; /* of each thread: first counts, then places within the keys of the same digit */
static uint32_t *first;          /* the first place of each digit */

static uint32_t input(long place) {
    return (uint32_t)(kernel_random((uint64_t)place) >> 32);
}

static uint32_t digit_of(uint32_t key, int pass) {
    return key >> (BITS * pass) & (RADIX - 1);
}

static void count_digits(long me, int pass) {
    memset(count[me], 0, sizeof count[me]);
    for (long at = kernel_share(kernel_size, me); at < kernel_share(kernel_size, me + 1); at++)
        count[me][digit_of(keys[at], pass)]++;
}

/* Turns the counts of this thread's digits into places, and leaves the total of each digit in `first`. */
static void add_threads(long me) {
    for (long digit = kernel_share(RADIX, me); digit < kernel_share(RADIX, me + 1); digit++) {
        uint32_t sum = 0;
        for (long thread = 0; thread < kernel_threads; thread++) {
            uint32_t here = count[thread][digit];
            count[thread][digit] = sum;
            sum += here;
        }
        first[digit] = sum;
    }
}

static void add_digits(void) {
    uint32_t sum = 0;
    for (long digit = 0; digit < RADIX; digit++) {
        uint32_t here = first[digit];
        first[digit] = sum;
        sum += here;
    }
}

static void move_keys(long me, int pass) {
    for (long at = kernel_share(kernel_size, me); at < kernel_share(kernel_size, me + 1); at++) {
        uint32_t digit = digit_of(keys[at], pass);
        moved[first[digit] + count[me][digit]++] = keys[at];
    }
}

static void body(long me) {
    for (long at = kernel_share(kernel_size, me); at < kernel_share(kernel_size, me + 1); at++)
        keys[at] = input(at);
    for (int pass = 0; pass < PASSES; pass++) {
        if (me == 0)
            tanada_mark(KERNEL_MARK_PHASE, pass, 0);
        count_digits(me, pass);
        kernel_barrier();
        add_threads(me);
        kernel_barrier();
        if (me == 0)
            add_digits();
        kernel_barrier();
        move_keys(me, pass);
        kernel_barrier();
        if (me == 0) {
            uint32_t *swap = keys;
            keys = moved;
            moved = swap;
        }
        kernel_barrier();
    }
}

/* Returns the number of neighbours in the wrong order, plus 1 if the keys are not those of the input: their sum and the sum of a
 * scrambled form of each, in which a key that was lost and one that came twice do not cancel out. */
static double flaws(void) {
    long wrong = 0;
    uint64_t sums[2][2] = {{0, 0}, {0, 0}};
    for (long at = 0; at < kernel_size; at++) {
        uint32_t both[2] = {input(at), keys[at]};
        if (at > 0 && keys[at - 1] > keys[at])
            wrong++;
        for (int side = 0; side < 2; side++) {
            sums[side][0] += both[side];
            sums[side][1] += kernel_random(both[side]);
        }
    }
    if (sums[0][0] != sums[1][0] || sums[0][1] != sums[1][1])
        wrong++;
    return (double)wrong;
}

int main(int argc, char **argv) {
    kernel_threads = 8;
    kernel_size = 1 << 18;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(1, 1 << 28, "keys"),
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "radix", "radix sort of 32-bit keys", options);
    size_t bytes = (size_t)kernel_size * sizeof *keys;
    kernel_reserve(2 * bytes + (size_t)kernel_threads * sizeof *count + RADIX * sizeof *first, 4);
    keys = kernel_array(bytes);
    moved = kernel_array(bytes);
    count = kernel_array((size_t)kernel_threads * sizeof *count);
    first = kernel_array(RADIX * sizeof *first);

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    for (long at = 0; at < kernel_size; at++)
        kernel_add(keys[at]);
    return kernel_end(kernel_checks ? flaws() : 0, 0);
}

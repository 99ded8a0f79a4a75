/* What the OpenMP kernels share: the marks between which a region is measured, memory, and random numbers.
 *
 * Each program has the parallel regions of one of the NAS parallel benchmarks, written anew with the published sizes of class B (IS and MG:
 * class C). Inner loops have their full length, so that an iteration has the accesses of the full program; of the loop that is shared out only a few
 * iterations are run, or parts of one: its *units*. Recorded with four threads, the first k of them are the siblings of a core: what their parallel
 * region between two marks does is what `count` units do, a quarter each; the region before it only fills the caches. */
#ifndef TANADA_REGION_H
#define TANADA_REGION_H

#define _DEFAULT_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in kernel.h: a system call that does nothing. REGION_BEGIN has the region's number and the units of an iteration, REGION_END the number
 * and the units that were run. */
enum { REGION_MARK = 0x7a010040, REGION_BEGIN = 3, REGION_END = 4 };

static inline void region_mark(long kind, long a, long b) {
    syscall(SYS_getppid, REGION_MARK + kind, a, b, 0);
}

/* Measures units [warm, warm + count) of `body(from, to)`, a function with one parallel loop over units. */
#define MEASURE(number, units, body, warm, count)            \
    do {                                                     \
        body(0, warm);                                       \
        region_mark(REGION_BEGIN, number, units);            \
        body(warm, (warm) + (count));                        \
        region_mark(REGION_END, number, count);              \
    } while (0)

/* Returns an array of zeros, of which only the pages that are touched take memory. */
static inline void *region_array(size_t bytes) {
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) {
        perror("memory");
        exit(1);
    }
    return found;
}

/* The next random number, from 0 to below `below`. */
static inline uint32_t region_random(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 32) * below >> 32);
}

#endif

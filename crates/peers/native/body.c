/* The bodies, their calibration and their checks; see body.h. */
#define _GNU_SOURCE
#include "body.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint32_t peers_columns = 0, peers_rows = 0, peers_edges = 3;

/* Multiplications of one body. */
static uint64_t length = 0;

enum { MOST_THREADS = 1024 };

/* What one thread has run; the list is written once a thread, so nobody shares a line on the way. */
struct slot {
    _Alignas(128) uint64_t tasks;
};
static struct slot slots[MOST_THREADS];
static atomic_uint slots_used;
static _Thread_local struct slot *mine;

static int checking = 0;
static uint32_t epoch = 0;
static _Atomic uint32_t *stamps = NULL;
static atomic_uint wrong;

static __attribute__((noinline, cold)) void enroll(void) {
    unsigned at = atomic_fetch_add(&slots_used, 1);
    mine = &slots[at < MOST_THREADS ? at : MOST_THREADS - 1];
}

/* A chain in which every multiplication waits for the one before. The fence at its end keeps a processor from starting on what comes
 * after while the chain is on its way: otherwise short bodies would hide the costs that are to be measured. */
static inline void spin(uint64_t n) {
    if (n == 0)
        return;
    uint64_t x = n;
    for (; n != 0; n--) {
        x = x * 6364136223846793005u + 1;
        __asm__ volatile("" : "+r"(x));
    }
#if defined(__x86_64__)
    __asm__ volatile("lfence" : "+r"(x)::"memory");
#elif defined(__aarch64__)
    __asm__ volatile("isb" : "+r"(x)::"memory");
#endif
}

static int has_run(uint32_t index) { return atomic_load_explicit(&stamps[index], memory_order_relaxed) == epoch; }

static void count_missing(void) {
    for (size_t at = 0; epoch > 0 && at < (size_t)peers_columns * peers_rows; at++)
        if (atomic_load(&stamps[at]) != epoch)
            atomic_fetch_add(&wrong, 1);
}

/* All three dependencies are checked, whether the graph has the implied edge or not. All tasks of a frame wait for its first, directly or not: when that runs, the frame before must have ended. */
static __attribute__((noinline, cold)) void check(uint32_t index) {
    if (index == 0) {
        count_missing();
        epoch++;
    }
    uint32_t column = index % peers_columns, row = index / peers_columns;
    int early = (column > 0 && !has_run(index - 1)) || (row > 0 && !has_run(index - peers_columns)) ||
                (row > 0 && column + 1 < peers_columns && !has_run(index - peers_columns + 1));
    uint32_t before = atomic_exchange_explicit(&stamps[index], epoch, memory_order_relaxed);
    if (early || before + 1 != epoch)
        atomic_fetch_add(&wrong, 1);
}

__attribute__((noinline)) void peers_task(uint32_t index) {
    if (__builtin_expect(mine == NULL, 0))
        enroll();
    mine->tasks++;
    if (__builtin_expect(checking, 0))
        check(index);
    spin(length);
}

void peers_grid(uint32_t columns, uint32_t rows, uint32_t edges) {
    peers_columns = columns;
    peers_rows = rows;
    peers_edges = edges;
}

/* From now on tasks look whether they run once a frame, after those that they wait for, frame after frame. */
void peers_check_begin(void) {
    free(stamps);
    stamps = calloc((size_t)peers_columns * peers_rows, sizeof *stamps);
    epoch = 0;
    atomic_store(&wrong, 0);
    checking = 1;
}

/* How many tasks ran too early, twice or not at all since `peers_check_begin`, in so many frames. */
uint32_t peers_check_end(uint32_t frames) {
    count_missing();
    checking = 0;
    return atomic_load(&wrong) + (epoch != frames);
}

uint64_t peers_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The least time of `rounds` loops of `n` bodies, in nanoseconds a body. */
double peers_serial_ns(uint32_t n, uint32_t rounds) {
    double least = 1e300;
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t start = peers_now_ns();
        for (uint32_t at = 0; at < n; at++)
            peers_task(at);
        double ns = (double)(peers_now_ns() - start) / n;
        if (ns < least)
            least = ns;
    }
    return least;
}

/* Multiplications in a nanosecond, by the fastest of many loops. */
double peers_rate(void) {
    const uint64_t n = 20000;
    const uint64_t before = length;
    length = n;
    double ns = peers_serial_ns(1, 2000);
    length = before;
    return (double)n / ns;
}

/* What a body without multiplications takes: call, count and return. */
static double empty_ns(void) {
    length = 0;
    return peers_serial_ns(10000, 5);
}

/* Sets the length of bodies to `ns`, call and return included, at so many multiplications a nanosecond. */
void peers_length(double ns, double rate) {
    double wanted = ns <= 0 ? 0 : (ns - empty_ns()) * rate;
    length = wanted <= 0 ? 0 : wanted < 1 ? 1 : (uint64_t)(wanted + 0.5);
}

/* Forgets who ran what. */
void peers_count_begin(void) {
    for (int at = 0; at < MOST_THREADS; at++)
        slots[at].tasks = 0;
}

/* How many tasks have run since then. */
uint64_t peers_count(void) {
    uint64_t all = 0;
    for (int at = 0; at < MOST_THREADS; at++)
        all += slots[at].tasks;
    return all;
}

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Of the `workers` threads that ran most, the part of all tasks that the last of them ran. */
double peers_least_share(uint32_t workers) {
    uint64_t counts[MOST_THREADS], all = 0;
    for (int at = 0; at < MOST_THREADS; at++)
        all += counts[at] = slots[at].tasks;
    qsort(counts, MOST_THREADS, sizeof *counts, descending);
    return all == 0 || workers == 0 || workers > MOST_THREADS ? 0 : (double)counts[workers - 1] / (double)all;
}

void peers_stencil_row(float *restrict to, const float *restrict above, const float *restrict here,
                       const float *restrict below, size_t columns) {
    for (size_t x = 0; x < columns; x++)
        to[x] = 0.5f * here[x] + 0.125f * ((above[x] + below[x]) + (here[x - 1] + here[x + 1]));
}

/* IS, class C: 2^27 keys below 2^23 in 1,024 buckets. An iteration stands for 1,024 keys. */
#include "region.h"

enum { KEYS = 1 << 20, MOST = 1 << 23, BUCKETS = 1024, SHIFT = 13, CHUNK = 1024 };

static uint32_t *keys, *sorted, *ranks;
static _Thread_local uint32_t sizes[BUCKETS], places[BUCKETS];

static void count(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int chunk = from; chunk < to; chunk++)
        for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++)
            sizes[keys[i] >> SHIFT]++;
}

/* Each thread has a place of its own in each bucket. */
static void distribute(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int chunk = from; chunk < to; chunk++)
        for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
            uint32_t bucket = keys[i] >> SHIFT;
            sorted[bucket * (KEYS / BUCKETS * 2) + places[bucket]++] = keys[i];
        }
}

/* The keys of one bucket lie together: 2^27 / 1,024 keys have 8,192 values. */
static void rank(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int chunk = from; chunk < to; chunk++)
        for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++)
            ranks[sorted[i] & (MOST / BUCKETS - 1)]++;
}

int main(void) {
    uint64_t state = 7;
    keys = region_array(sizeof *keys * KEYS);
    sorted = region_array(sizeof *sorted * KEYS * 2);
    ranks = region_array(sizeof *ranks * MOST);
    for (int i = 0; i < KEYS; i++)
        keys[i] = (region_random(&state, MOST / 4) + region_random(&state, MOST / 4) + region_random(&state, MOST / 4)
                   + region_random(&state, MOST / 4));
    MEASURE(0, 1, count, 100, 300);
    MEASURE(1, 1, distribute, 100, 300);
    MEASURE(2, 1, rank, 100, 300);
    printf("%u\n", ranks[3]);
    return 0;
}

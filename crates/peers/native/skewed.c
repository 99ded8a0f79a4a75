/* A lower limit made by hand: sweeps skewed against rows, so that several sweeps pass over rows that are still in a core's cache.
 *
 * Sweep s of tile k produces rows [k * TILE - s, (k + 1) * TILE - s): all that it reads was produced by earlier tiles, and all that it
 * overwrites was read by them. Threads take turns in groups of sweeps; a group follows the one before it by one tile. */
#define _GNU_SOURCE
#include "peer.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TILE = 8, GROUP = 8 };

static uint32_t workers_now = 1;

struct field {
    float *a, *b;
    size_t size, stride;
    uint32_t sweeps, groups;
    size_t tiles;
    /* Tiles that each group has done, a cache line each. */
    struct progress {
        _Alignas(128) atomic_size_t tiles;
    } *done;
};

struct part {
    struct field *field;
    uint32_t at;
};

static void wait_for(atomic_size_t *done, size_t tiles) {
    for (int spins = 0; atomic_load_explicit(done, memory_order_acquire) < tiles; spins++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (spins % 1024 == 1023)
            sched_yield();
    }
}

static void tile_of_group(const struct field *f, uint32_t group, size_t tile) {
    const uint32_t first = group * GROUP, end = first + GROUP < f->sweeps ? first + GROUP : f->sweeps;
    for (uint32_t sweep = first; sweep < end; sweep++) {
        const float *from = sweep % 2 == 0 ? f->a : f->b;
        float *to = sweep % 2 == 0 ? f->b : f->a;
        size_t from_row = tile * TILE > sweep ? tile * TILE - sweep : 0;
        size_t to_row = (tile + 1) * TILE > sweep ? (tile + 1) * TILE - sweep : 0;
        if (to_row > f->size)
            to_row = f->size;
        for (size_t y = from_row; y < to_row; y++) {
            const float *here = from + y * f->stride;
            peers_stencil_row(to + y * f->stride, here - f->stride, here, here + f->stride, f->size);
        }
    }
}

static void *work(void *argument) {
    const struct part *part = argument;
    struct field *f = part->field;
    for (uint32_t group = part->at; group < f->groups; group += workers_now)
        for (size_t tile = 0; tile < f->tiles; tile++) {
            if (group > 0)
                wait_for(&f->done[group - 1].tiles, tile + 1);
            tile_of_group(f, group, tile);
            atomic_store_explicit(&f->done[group].tiles, tile + 1, memory_order_release);
        }
    return NULL;
}

void peer_open(uint32_t workers) { workers_now = workers; }

void peer_close(void) {}

void peer_stencil(float *a, float *b, size_t size, size_t stride, uint32_t sweeps) {
    struct field field = {.a = a, .b = b, .size = size, .stride = stride, .sweeps = sweeps};
    field.groups = (sweeps + GROUP - 1) / GROUP;
    field.tiles = (size + sweeps + TILE - 1) / TILE;
    field.done = aligned_alloc(128, sizeof *field.done * field.groups);
    for (uint32_t group = 0; group < field.groups; group++)
        atomic_init(&field.done[group].tiles, 0);
    pthread_t *threads = calloc(workers_now, sizeof *threads);
    struct part *parts = calloc(workers_now, sizeof *parts);
    for (uint32_t at = 0; at < workers_now; at++) {
        parts[at] = (struct part){.field = &field, .at = at};
        if (at > 0 && pthread_create(&threads[at], NULL, work, &parts[at]) != 0)
            abort();
    }
    work(&parts[0]);
    for (uint32_t at = 1; at < workers_now; at++)
        pthread_join(threads[at], NULL);
    free(parts);
    free(threads);
    free(field.done);
}

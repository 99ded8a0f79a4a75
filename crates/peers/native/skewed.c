/* A lower limit made by hand: sweeps skewed against rows, so that several sweeps pass over rows that are still in a core's cache.
 *
 * Sweep s of tile k produces rows [k * TILE - s, (k + 1) * TILE - s): all that it reads was produced by earlier tiles, and all that it
 * overwrites was read by them. Threads take turns in groups of sweeps; a group follows the one before it by one tile. */
#include "threads.h"
#include "peer.h"

enum { TILE = 8, GROUP = 8 };

static uint32_t workers_now = 1;

struct field {
    float *a, *b;
    size_t size, stride;
    uint32_t sweeps, groups;
    size_t tiles;
    /* Tiles that each group has done. */
    struct progress *done;
};

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

static void work(void *context, uint32_t thread) {
    struct field *f = context;
    for (uint32_t group = thread; group < f->groups; group += workers_now)
        for (size_t tile = 0; tile < f->tiles; tile++) {
            if (group > 0)
                progress_wait(&f->done[group - 1], tile + 1);
            tile_of_group(f, group, tile);
            progress_set(&f->done[group], tile + 1);
        }
}

void peer_open(uint32_t workers) { workers_now = workers; }

void peer_close(void) {}

void peer_stencil(float *a, float *b, size_t size, size_t stride, uint32_t sweeps) {
    struct field field = {.a = a, .b = b, .size = size, .stride = stride, .sweeps = sweeps};
    field.groups = (sweeps + GROUP - 1) / GROUP;
    field.tiles = (size + sweeps + TILE - 1) / TILE;
    field.done = progress_new(field.groups);
    on_threads(workers_now, work, &field);
    free(field.done);
}

/* The matrix of the Cholesky factorisation and its steps; see body.h. */
#include "body.h"

#include "../../openmp/programs/tiles.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint32_t peers_tiles = 0, peers_tile_side = 0;

static double *matrix = NULL;
/* For each tile how many of its steps have ended; with RUNNING while one runs. */
static _Atomic uint32_t *ended = NULL;
static atomic_uint wrong;

static const uint32_t RUNNING = UINT32_C(1) << 31;

static size_t index_of(uint32_t i, uint32_t j) { return (size_t)i * (i + 1) / 2 + j; }

double *peers_tile_at(uint32_t i, uint32_t j) {
    return matrix + index_of(i, j) * (size_t)peers_tile_side * peers_tile_side;
}

/* Symmetric, and positive definite since the diagonal outweighs each row. */
static double entry(size_t i, size_t j) {
    const size_t size = (size_t)peers_tiles * peers_tile_side, apart = i > j ? i - j : j - i;
    return i == j ? (double)size + 1 : 1.0 / (double)(1 + apart % 37) + (double)((i ^ j) % 5) / 10;
}

int peers_cholesky_begin(uint32_t tiles, uint32_t tile) {
    const size_t count = index_of(tiles, 0), points = count * tile * tile;
    if (tiles != peers_tiles || tile != peers_tile_side) {
        free(matrix);
        free(ended);
        peers_tiles = tiles;
        peers_tile_side = tile;
        matrix = aligned_alloc(4096, (points * sizeof *matrix + 4095) / 4096 * 4096);
        ended = calloc(count, sizeof *ended);
    }
    if (matrix == NULL || ended == NULL)
        return 0;
    for (uint32_t i = 0; i < tiles; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double *to = peers_tile_at(i, j);
            for (size_t x = 0; x < tile; x++)
                for (size_t y = 0; y < tile; y++)
                    *to++ = entry((size_t)i * tile + y, (size_t)j * tile + x);
        }
    for (size_t at = 0; at < count; at++)
        atomic_store(&ended[at], 0);
    atomic_store(&wrong, 0);
    return 1;
}

/* A step that comes too early, twice or beside another of its tile is counted and not done, so no order of calls is a data race. */
__attribute__((noinline)) void peers_cholesky_step(uint32_t i, uint32_t j, uint32_t k) {
    if (k > j || j > i || i >= peers_tiles) {
        atomic_fetch_add(&wrong, 1);
        return;
    }
    _Atomic uint32_t *own = &ended[index_of(i, j)];
    uint32_t before = k;
    int ready = atomic_compare_exchange_strong(own, &before, k | RUNNING);
    if (ready && i != k)
        ready = j == k ? atomic_load(&ended[index_of(k, k)]) == k + 1
                       : atomic_load(&ended[index_of(i, k)]) == k + 1 && atomic_load(&ended[index_of(j, k)]) == k + 1;
    if (!ready) {
        atomic_fetch_add(&wrong, 1);
        return;
    }
    const int t = (int)peers_tile_side;
    double *to = peers_tile_at(i, j);
    if (k < j)
        update(t, peers_tile_at(i, k), peers_tile_at(j, k), to);
    else if (i == j)
        factor(t, to);
    else
        divide(t, peers_tile_at(k, k), to);
    atomic_store_explicit(own, k + 1, memory_order_release);
}

uint32_t peers_cholesky_wrong(void) {
    uint32_t all = atomic_load(&wrong);
    for (uint32_t i = 0; i < peers_tiles; i++)
        for (uint32_t j = 0; j <= i; j++)
            all += atomic_load(&ended[index_of(i, j)]) != j + 1;
    return all;
}

uint64_t peers_cholesky_checksum(void) {
    const size_t points = index_of(peers_tiles, 0) * peers_tile_side * peers_tile_side;
    uint64_t sum = 0;
    for (size_t at = 0; at < points; at++) {
        uint64_t bits;
        memcpy(&bits, &matrix[at], sizeof bits);
        sum = sum * 31 + bits;
    }
    return sum;
}

/* The largest difference between the matrix and the factor times its transpose, over every entry. */
double peers_cholesky_error(void) {
    const size_t tile = peers_tile_side, size = peers_tiles * tile;
    double worst = 0;
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k <= j; k++) {
                const double *a = peers_tile_at((uint32_t)(i / tile), (uint32_t)(k / tile));
                const double *b = peers_tile_at((uint32_t)(j / tile), (uint32_t)(k / tile));
                sum += a[k % tile * tile + i % tile] * b[k % tile * tile + j % tile];
            }
            worst = fmax(worst, fabs(sum - entry(i, j)));
        }
    return worst;
}

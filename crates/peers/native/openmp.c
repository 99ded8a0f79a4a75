/* OpenMP, for whichever compiler and runtime this is compiled with: tasks with `depend`, parallel loops. */
#include "peer.h"

#include <omp.h>
#include <stdlib.h>

static int workers_now = 1;
/* One byte a task, which only stands for its address. */
static char *cells = NULL;

void peer_open(uint32_t workers) {
    workers_now = (int)workers;
    omp_set_dynamic(0);
    omp_set_num_threads(workers_now);
#pragma omp parallel
    {
    }
}

void peer_close(void) {}

void peer_graph_build(void) { cells = calloc((size_t)peers_columns * peers_rows, 1); }

/* A task at `at` with further `depend` clauses. */
#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define TASK(...)                                                                                                      \
    do {                                                                                                               \
        PRAGMA(omp task firstprivate(at) depend(out : c[at]) __VA_ARGS__)                                              \
        peers_task(at);                                                                                                \
    } while (0)

static void frame(void) {
    const uint32_t columns = peers_columns, tasks = columns * peers_rows;
    char *c = cells;
    for (uint32_t at = 0; at < tasks; at++) {
        const int left = peers_after_left(at), up = peers_after_up(at), up_right = peers_after_up_right(at);
        if (left && up && up_right)
            TASK(depend(in : c[at - 1], c[at - columns], c[at - columns + 1]));
        else if (left && up_right)
            TASK(depend(in : c[at - 1], c[at - columns + 1]));
        else if (up && up_right)
            TASK(depend(in : c[at - columns], c[at - columns + 1]));
        else if (left && up)
            TASK(depend(in : c[at - 1], c[at - columns]));
        else if (up_right)
            TASK(depend(in : c[at - columns + 1]));
        else if (left)
            TASK(depend(in : c[at - 1]));
        else
            TASK();
    }
}

void peer_graph_run(uint32_t frames) {
#pragma omp parallel num_threads(workers_now)
#pragma omp single
    for (uint32_t at = 0; at < frames; at++) {
        frame();
#pragma omp taskwait
    }
}

void peer_cholesky_build(void) {}

static void cholesky(void) {
    for (uint32_t k = 0; k < peers_tiles; k++) {
        double *kk = peers_tile_at(k, k);
#pragma omp task depend(inout : kk[0]) firstprivate(k)
        peers_cholesky_step(k, k, k);
        for (uint32_t i = k + 1; i < peers_tiles; i++) {
            double *ik = peers_tile_at(i, k);
#pragma omp task depend(in : kk[0]) depend(inout : ik[0]) firstprivate(i, k)
            peers_cholesky_step(i, k, k);
        }
        for (uint32_t i = k + 1; i < peers_tiles; i++) {
            double *ik = peers_tile_at(i, k);
            for (uint32_t j = k + 1; j <= i; j++) {
                double *jk = peers_tile_at(j, k), *ij = peers_tile_at(i, j);
#pragma omp task depend(in : ik[0], jk[0]) depend(inout : ij[0]) firstprivate(i, j, k)
                peers_cholesky_step(i, j, k);
            }
        }
    }
}

void peer_cholesky_run(void) {
#pragma omp parallel num_threads(workers_now)
#pragma omp single
    cholesky();
}

void peer_graph_drop(void) {
    free(cells);
    cells = NULL;
}

void peer_region(void) {
#pragma omp parallel for schedule(static, 1) num_threads(workers_now)
    for (int at = 0; at < workers_now; at++)
        peers_task((uint32_t)at);
}

static void leaves(uint32_t tasks) {
    for (uint32_t at = 0; at < tasks; at++) {
#pragma omp task firstprivate(at)
        peers_task(at);
    }
}

void peer_flat(uint32_t scope, uint32_t tasks) {
    if (scope) {
#pragma omp parallel num_threads(workers_now)
#pragma omp single
        leaves(tasks);
    } else if (getenv("PEERS_TASKLOOP")) {
#pragma omp parallel num_threads(workers_now)
#pragma omp single
#pragma omp taskloop
        for (uint32_t at = 0; at < tasks; at++)
            peers_task(at);
    } else {
#pragma omp parallel for schedule(static) num_threads(workers_now)
        for (uint32_t at = 0; at < tasks; at++)
            peers_task(at);
    }
}

static void chain(uint32_t at, uint32_t tasks) {
    if (at < tasks) {
#pragma omp task firstprivate(at, tasks)
        {
            peers_task(at);
            chain(at + 1, tasks);
        }
    }
}

static void tree(uint32_t at, uint32_t tasks) {
    if (at < tasks) {
#pragma omp task firstprivate(at, tasks)
        {
            peers_task(at);
            tree(2 * at + 1, tasks);
            tree(2 * at + 2, tasks);
        }
    }
}

void peer_grow(uint32_t shape, uint32_t tasks) {
#pragma omp parallel num_threads(workers_now)
#pragma omp single
    {
        if (shape == 0)
            chain(0, tasks);
        else if (shape == 1)
            tree(0, tasks);
        else
            leaves(tasks);
    }
}

void peer_stencil(float *a, float *b, size_t size, size_t stride, uint32_t sweeps) {
    float *from = a, *to = b;
    for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
#pragma omp parallel for schedule(static) num_threads(workers_now)
        for (size_t y = 0; y < size; y++) {
            const float *here = from + y * stride;
            peers_stencil_row(to + y * stride, here - stride, here, here + stride, size);
        }
        float *swapped = from;
        from = to;
        to = swapped;
    }
}

static uint64_t fib(uint32_t n) {
    if (n < 2)
        return n;
    uint64_t a, b;
#pragma omp task shared(b) firstprivate(n)
    b = fib(n - 2);
    a = fib(n - 1);
#pragma omp taskwait
    return a + b;
}

static uint64_t comb(uint32_t teeth) {
    if (teeth == 0)
        return 0;
    uint64_t rest;
#pragma omp task firstprivate(teeth)
    peers_task(teeth);
    rest = comb(teeth - 1);
#pragma omp taskwait
    return rest + 1;
}

static uint64_t sum(const struct peers_node *node) {
    if (!node)
        return 0;
    uint64_t left, right;
#pragma omp task shared(right) firstprivate(node)
    right = sum(node->right);
    left = sum(node->left);
#pragma omp taskwait
    return node->value + left + right;
}

static uint64_t uts(uint64_t name, uint32_t count);

static uint64_t uts_children(uint64_t name, uint32_t first, uint32_t last) {
    if (last - first == 1) {
        uint64_t child = peers_hash(name + last);
        return uts(child, peers_twigs(child));
    }
    uint32_t middle = first + (last - first) / 2;
    uint64_t a, b;
#pragma omp task shared(b) firstprivate(name, middle, last)
    b = uts_children(name, middle, last);
    a = uts_children(name, first, middle);
#pragma omp taskwait
    return a + b;
}

static uint64_t uts(uint64_t name, uint32_t count) {
    return count == 0 ? 1 : 1 + uts_children(name, 0, count);
}

static uint64_t skynet(uint64_t from, uint64_t size);

static uint64_t skynet_children(uint64_t from, uint64_t size, uint64_t first, uint64_t last) {
    if (last - first == 1)
        return skynet(from + first * size, size);
    uint64_t middle = first + (last - first) / 2;
    uint64_t a, b;
#pragma omp task shared(b) firstprivate(from, size, middle, last)
    b = skynet_children(from, size, middle, last);
    a = skynet_children(from, size, first, middle);
#pragma omp taskwait
    return a + b;
}

static uint64_t skynet(uint64_t from, uint64_t size) {
    return size == 1 ? from : skynet_children(from, size / 10, 0, 10);
}

static uint64_t queens(uint32_t rows, uint32_t row, uint32_t columns, uint32_t left, uint32_t right);

static uint64_t places(uint32_t rows, uint32_t row, uint32_t columns, uint32_t left, uint32_t right, uint32_t free) {
    uint32_t first = free & -free;
    if (free == 0)
        return 0;
    if (free == first)
        return queens(rows, row + 1, columns | free, (left | free) << 1, (right | free) >> 1);
    uint64_t a, b;
#pragma omp task shared(b) firstprivate(rows, row, columns, left, right, free, first)
    b = places(rows, row, columns, left, right, free & ~first);
    a = places(rows, row, columns, left, right, first);
#pragma omp taskwait
    return a + b;
}

static uint64_t queens(uint32_t rows, uint32_t row, uint32_t columns, uint32_t left, uint32_t right) {
    if (row == rows)
        return 1;
    return places(rows, row, columns, left, right, ~(columns | left | right) & ((1u << rows) - 1));
}

static uint64_t run_kernel(uint32_t kernel, uint32_t size, const struct peers_node *tree) {
    switch (kernel) {
    case 0:
        return fib(size);
    case 1:
        return comb(size);
    case 2:
        return sum(tree);
    case 3:
        return uts(0, size);
    case 4:
        return skynet(0, size);
    default:
        return queens(size, 0, 0, 0, 0);
    }
}

uint64_t peer_fork(uint32_t kernel, uint32_t size, const struct peers_node *tree) {
    uint64_t result = 0;
#pragma omp parallel num_threads(workers_now)
#pragma omp single
    result = run_kernel(kernel, size, tree);
    return result;
}

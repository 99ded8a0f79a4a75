/* Multigrid solution of an elliptic equation on a square, by red-black Gauss-Seidel sweeps over row strips.
 *
 * This is the solver that dominates Ocean of SPLASH-2 (Woo, Ohara, Torrie, Singh, Gupta: The SPLASH-2 Programs, ISCA 1995, section 3),
 * after the general description of the method (Briggs, Henson, McCormick: A Multigrid Tutorial, chapter 3): V-cycles with two sweeps
 * before and after the coarser grid, full weighting, and linear interpolation. Each thread has a strip of rows of every grid; there is a
 * barrier behind every half sweep. A point's new value depends on points of the other colour only, so strips do not show in the result.
 *
 * The right side is that of u = x (1 - x) y (1 - y), which the five-point formula solves exactly; the first guess is random. */
#include "kernel.h"

enum { MAX_LEVELS = 16, SWEEPS = 2 };

static long cycles = 4, levels;

/* A grid of `cells` cells a side: rows and columns 0 and `cells` are the boundary, where u is 0. */
static struct grid {
    long cells;
    double *u, *right, *rest;
} grids[MAX_LEVELS];

static double exact(const struct grid *g, long row, long column) {
    double x = (double)(int32_t)column / (double)(int32_t)g->cells, y = (double)(int32_t)row / (double)(int32_t)g->cells;
    return x * (1 - x) * (y * (1 - y));
}

/* Returns the first interior row of thread `me`'s strip. */
static long strip(const struct grid *g, long me) {
    return 1 + kernel_share(g->cells - 1, me);
}

static void initialise(const struct grid *g, long me) {
    long width = g->cells + 1;
    double step = 1.0 / (double)(int32_t)g->cells;
    for (long row = strip(g, me); row < strip(g, me + 1); row++) {
        for (long column = 1; column < g->cells; column++) {
            long at = row * width + column;
            double x = (double)(int32_t)column * step, y = (double)(int32_t)row * step;
            g->u[at] = kernel_unit((uint64_t)at) - 0.5;
            g->right[at] = 2 * (x * (1 - x) + y * (1 - y)) * (step * step);
        }
    }
}

/* Sets the points of one colour: 4 u - (sum of the neighbours) = right. `right` holds the square of the step as a factor. */
static void half_sweep(const struct grid *g, long me, long colour) {
    long width = g->cells + 1;
    for (long row = strip(g, me); row < strip(g, me + 1); row++) {
        double *u = &g->u[row * width];
        const double *right = &g->right[row * width];
        for (long column = 1 + ((row + colour) & 1); column < g->cells; column += 2)
            u[column] = 0.25 * (right[column] + ((u[column - 1] + u[column + 1]) + (u[column - width] + u[column + width])));
    }
}

static void smooth(const struct grid *g, long me) {
    for (long sweep = 0; sweep < SWEEPS; sweep++) {
        for (long colour = 0; colour < 2; colour++) {
            half_sweep(g, me, colour);
            kernel_barrier();
        }
    }
}

static void find_rest(const struct grid *g, long me) {
    long width = g->cells + 1;
    for (long row = strip(g, me); row < strip(g, me + 1); row++) {
        const double *u = &g->u[row * width], *right = &g->right[row * width];
        double *rest = &g->rest[row * width];
        for (long column = 1; column < g->cells; column++)
            rest[column] =
                right[column] + ((u[column - 1] + u[column + 1]) + (u[column - width] + u[column + width])) - 4 * u[column];
    }
}

/* Sets the right side of the coarse grid to the weighted rest of the fine one, and its u to 0. The weights 1/4, 1/8, 1/16 are
 * multiplied by 4, because the square of the step is a factor of the right side. */
static void restrict_rest(const struct grid *fine, const struct grid *coarse, long me) {
    long width = coarse->cells + 1, fine_width = fine->cells + 1;
    for (long row = strip(coarse, me); row < strip(coarse, me + 1); row++) {
        const double *rest = &fine->rest[2 * row * fine_width];
        for (long column = 1; column < coarse->cells; column++) {
            const double *at = &rest[2 * column], *above = at - fine_width, *below = at + fine_width;
            double corners = (above[-1] + above[1]) + (below[-1] + below[1]), sides = (at[-1] + at[1]) + (above[0] + below[0]);
            coarse->right[row * width + column] = at[0] + 0.5 * sides + 0.25 * corners;
            coarse->u[row * width + column] = 0;
        }
    }
}

/* Adds the coarse correction to the fine grid, by linear interpolation. */
static void correct(const struct grid *fine, const struct grid *coarse, long me) {
    long width = coarse->cells + 1, fine_width = fine->cells + 1;
    for (long row = strip(fine, me); row < strip(fine, me + 1); row++) {
        const double *low = &coarse->u[row / 2 * width], *high = &coarse->u[(row + 1) / 2 * width];
        double *u = &fine->u[row * fine_width];
        for (long column = 1; column < fine->cells; column++) {
            long left = column / 2, right = (column + 1) / 2;
            u[column] += 0.25 * ((low[left] + low[right]) + (high[left] + high[right]));
        }
    }
}

static void cycle(long me, long level) {
    const struct grid *fine = &grids[level], *coarse = &grids[level + 1];
    smooth(fine, me);
    if (level + 1 == levels)
        return;
    find_rest(fine, me);
    kernel_barrier();
    restrict_rest(fine, coarse, me);
    kernel_barrier();
    cycle(me, level + 1);
    correct(fine, coarse, me);
    kernel_barrier();
    smooth(fine, me);
}

static void body(long me) {
    initialise(&grids[0], me);
    kernel_barrier();
    for (long turn = 0; turn < cycles; turn++) {
        if (me == 0)
            tanada_mark(KERNEL_MARK_PHASE, turn, 0);
        cycle(me, 0);
    }
}

/* Returns the largest distance from the exact solution, over what V-cycles leave of it: a factor of at least 5 a cycle. */
static double error_of_result(void) {
    const struct grid *g = &grids[0];
    double worst = 0, bound = 1;
    for (long row = 1; row < g->cells; row++) {
        for (long column = 1; column < g->cells; column++) {
            double error = fabs(g->u[row * (g->cells + 1) + column] - exact(g, row, column));
            if (!(error <= worst))
                worst = error;
        }
    }
    for (long turn = 0; turn < cycles; turn++)
        bound /= 5;
    return worst / (bound > 1e-12 ? bound : 1e-12);
}

int main(int argc, char **argv) {
    kernel_threads = 8;
    kernel_size = 256;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(2, 8192, "cells a side of the grid, a power of 2"),
        {"--cycles", &cycles, 1, 1000, "V-cycles"},
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "ocean", "multigrid solver with red-black sweeps", options);
    if ((kernel_size & (kernel_size - 1)) != 0)
        kernel_fail(2, "-n is no power of 2", "");
    size_t bytes = 0;
    for (long cells = kernel_size; cells >= 2; cells /= 2)
        bytes += 3 * (size_t)(cells + 1) * (size_t)(cells + 1) * sizeof(double);
    kernel_reserve(bytes, 3 * MAX_LEVELS);
    for (long cells = kernel_size; cells >= 2; cells /= 2) {
        struct grid *g = &grids[levels++];
        size_t one = (size_t)(cells + 1) * (size_t)(cells + 1) * sizeof(double);
        g->cells = cells;
        g->u = kernel_array(one);
        g->right = kernel_array(one);
        g->rest = kernel_array(one);
    }

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    const struct grid *g = &grids[0];
    for (long row = 1; row < g->cells; row++)
        for (long column = 1; column < g->cells; column++)
            kernel_add_double(g->u[row * (g->cells + 1) + column]);
    return kernel_end(kernel_checks ? error_of_result() : 0, 1);
}

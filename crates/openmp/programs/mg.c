/* Multigrid V-cycles for Poisson's equation on a cube of `--size` points a side (a power of two, plus one): regions from large to tiny. Checks
 * that each cycle reduces the residual, and the solution against the function that the right side was made of. */
#include "check.h"
#include <math.h>
#include <omp.h>

enum { LEVELS = 12 };

struct grid {
    int n; /* intervals a side */
    double *u, *f, *r;
};

#define AT(g, i, j, k) ((((size_t)(i)) * ((size_t)(g)->n + 1) + (size_t)(j)) * ((size_t)(g)->n + 1) + (size_t)(k))

static void smooth(struct grid *g, int colour)
{
    int n = g->n;
    double h2 = 1.0 / ((double)n * n);
#pragma omp parallel for schedule(static)
    for (int i = 1; i < n; i++) {
        for (int j = 1; j < n; j++) {
            for (int k = 1 + (i + j + colour) % 2; k < n; k += 2) {
                size_t at = AT(g, i, j, k);
                size_t row = (size_t)n + 1, plane = row * row;
                double *u = g->u;
                u[at] = (h2 * g->f[at] + u[at - 1] + u[at + 1] + u[at - row] + u[at + row] + u[at - plane] + u[at + plane]) / 6;
            }
        }
    }
}

static double residual(struct grid *g)
{
    int n = g->n;
    double n2 = (double)n * n, sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int i = 1; i < n; i++) {
        for (int j = 1; j < n; j++) {
            for (int k = 1; k < n; k++) {
                size_t at = AT(g, i, j, k);
                size_t row = (size_t)n + 1, plane = row * row;
                const double *u = g->u;
                double r = g->f[at] - n2 * (6 * u[at] - u[at - 1] - u[at + 1] - u[at - row] - u[at + row] - u[at - plane] - u[at + plane]);
                g->r[at] = r;
                sum += r * r;
            }
        }
    }
    return sqrt(sum / ((double)n * n * n));
}

static void restrict_to(struct grid *fine, struct grid *coarse)
{
    int n = coarse->n;
    static const double weight[3] = {0.5, 1, 0.5};
#pragma omp parallel for schedule(static)
    for (int i = 1; i < n; i++) {
        for (int j = 1; j < n; j++) {
            for (int k = 1; k < n; k++) {
                double sum = 0;
                for (int a = -1; a <= 1; a++)
                    for (int b = -1; b <= 1; b++)
                        for (int c = -1; c <= 1; c++)
                            sum += weight[a + 1] * weight[b + 1] * weight[c + 1] * fine->r[AT(fine, 2 * i + a, 2 * j + b, 2 * k + c)];
                coarse->f[AT(coarse, i, j, k)] = sum / 8;
                coarse->u[AT(coarse, i, j, k)] = 0;
            }
        }
    }
}

static void prolongate(struct grid *coarse, struct grid *fine)
{
    int n = fine->n;
#pragma omp parallel for schedule(static)
    for (int i = 1; i < n; i++) {
        for (int j = 1; j < n; j++) {
            for (int k = 1; k < n; k++) {
                double sum = 0;
                for (int a = 0; a <= i % 2; a++)
                    for (int b = 0; b <= j % 2; b++)
                        for (int c = 0; c <= k % 2; c++)
                            sum += coarse->u[AT(coarse, i / 2 + a, j / 2 + b, k / 2 + c)];
                fine->u[AT(fine, i, j, k)] += sum / ((1 + i % 2) * (1 + j % 2) * (1 + k % 2));
            }
        }
    }
}

static void cycle(struct grid *grids, int level, int last)
{
    struct grid *g = &grids[level];
    int sweeps = level == last ? 20 : 2;
    for (int s = 0; s < sweeps; s++) {
        smooth(g, 0);
        smooth(g, 1);
    }
    if (level == last)
        return;
    residual(g);
    restrict_to(g, &grids[level + 1]);
    cycle(grids, level + 1, last);
    prolongate(&grids[level + 1], g);
    for (int s = 0; s < 2; s++) {
        smooth(g, 1);
        smooth(g, 0);
    }
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    int size = (int)option(argc, argv, "size", quick ? 16 : 64);
    int cycles = (int)option(argc, argv, "rounds", quick ? 6 : 30);
    struct grid grids[LEVELS];
    int levels = 0;
    for (int n = size; n >= 4 && levels < LEVELS; n /= 2) {
        size_t points = ((size_t)n + 1) * ((size_t)n + 1) * ((size_t)n + 1);
        grids[levels].n = n;
        grids[levels].u = calloc(points, sizeof(double));
        grids[levels].f = calloc(points, sizeof(double));
        grids[levels].r = calloc(points, sizeof(double));
        levels++;
    }
    struct grid *top = &grids[0];
    const double pi = 3.14159265358979323846;
    for (int i = 1; i < size; i++)
        for (int j = 1; j < size; j++)
            for (int k = 1; k < size; k++)
                top->f[AT(top, i, j, k)] = 3 * pi * pi * sin(pi * i / size) * sin(pi * j / size) * sin(pi * k / size);
    double begin = seconds();
    double before = residual(top), first = before;
    for (int c = 0; c < cycles; c++) {
        cycle(grids, 0, levels - 1);
        double now = residual(top);
        CHECK(now < 0.4 * before || now < 1e-9 * first, "a V-cycle reduces the residual");
        before = now;
    }
    printf("seconds %.6f\n", seconds() - begin);
    double worst = 0;
    for (int i = 1; i < size; i++)
        for (int j = 1; j < size; j++)
            for (int k = 1; k < size; k++)
                worst = fmax(worst, fabs(top->u[AT(top, i, j, k)] - sin(pi * i / size) * sin(pi * j / size) * sin(pi * k / size)));
    CHECK(worst < 3.0 / ((double)size * size), "the solution");
    return finish();
}

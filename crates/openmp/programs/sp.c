/* Line solves as SP has them: a region walks along one axis in lock step. At every step it shares a few short rows among the team, with a
 * barrier behind them, and what a thread works on along one axis was another thread's along the axis before. A step takes less than a
 * microsecond, so a team of two spends more time at barriers, and fetching what the other one wrote, than it saves: the solves are faster on
 * one thread. The regions between them (`right_side`) share whole planes and gain from threads. Checks the result against one thread. */
#include "check.h"
#include <math.h>
#include <omp.h>

enum { PARTS = 5 };

static int n, rows;

#define AT(m, i, j, k) ((((size_t)(i) * (size_t)n + (size_t)(j)) * (size_t)n + (size_t)(k)) * PARTS + (size_t)(m))

/* One step of the right side: each cell becomes a mean of its neighbours of both `from` and itself. */
static void right_side(const double *from, double *to)
{
#pragma omp parallel for schedule(static)
    for (int i = 1; i < n - 1; i++) {
        for (int j = 1; j < n - 1; j++) {
            for (int k = 1; k < n - 1; k++) {
                for (int m = 0; m < PARTS; m++) {
                    double sum = from[AT(m, i - 1, j, k)] + from[AT(m, i + 1, j, k)] + from[AT(m, i, j - 1, k)] + from[AT(m, i, j + 1, k)]
                               + from[AT(m, i, j, k - 1)] + from[AT(m, i, j, k + 1)];
                    to[AT(m, i, j, k)] = 0.4 * from[AT(m, i, j, k)] + 0.1 * sum;
                }
            }
        }
    }
}

/* Eliminates along one axis, there and back: step s uses the cells of step s - 1. `axis` is 0, 1 or 2: the index that is walked. */
static void solve(double *u, int axis)
{
#pragma omp parallel
    for (int pass = 0; pass < 2; pass++) {
        for (int step = 1; step < n; step++) {
            int s = pass == 0 ? step : n - 1 - step;
            int before = pass == 0 ? s - 1 : s + 1;
            for (int first = 0; first < n; first += rows) {
                int last = first + rows < n ? first + rows : n;
#pragma omp for schedule(static)
                for (int row = first * n; row < last * n; row++) {
                    int a = row / n, b = row % n;
                    for (int m = 0; m < PARTS; m++) {
                        size_t here = axis == 0 ? AT(m, s, a, b) : axis == 1 ? AT(m, a, s, b) : AT(m, a, b, s);
                        size_t there = axis == 0 ? AT(m, before, a, b) : axis == 1 ? AT(m, a, before, b) : AT(m, a, b, before);
                        u[here] = 0.75 * u[here] + 0.25 * u[there];
                    }
                }
            }
        }
    }
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    n = (int)option(argc, argv, "size", quick ? 8 : 24);
    rows = (int)option(argc, argv, "rows", 4);
    int rounds = (int)option(argc, argv, "rounds", quick ? 2 : 100);
    /* Work of the right side for one of the solves: SP's own share of the time is about a third. */
    int sides = (int)option(argc, argv, "sides", 6);
    size_t number = (size_t)n * (size_t)n * (size_t)n * PARTS;
    double *u = malloc(sizeof(double) * number), *v = malloc(sizeof(double) * number);
    double checked[2];
    /* The second time on one thread, as the standard lets the program ask: equal bits, since the order of operations is the same. */
    for (int alone = 0; alone < (quick ? 2 : 1); alone++) {
        int before = omp_get_max_threads();
        if (alone)
            omp_set_num_threads(1);
        for (size_t i = 0; i < number; i++)
            u[i] = v[i] = (double)(i * 7919 % 1000) / 1000;
        double begin = seconds();
        for (int round = 0; round < rounds; round++) {
            for (int side = 0; side < sides; side++) {
                right_side(u, v);
                right_side(v, u);
            }
            for (int axis = 0; axis < 3; axis++)
                solve(u, axis);
        }
        if (!alone)
            printf("seconds %.6f\n", seconds() - begin);
        double sum = 0, most = 0;
        for (size_t i = 0; i < number; i++) {
            sum += u[i] * (double)(1 + i % 17);
            most = fmax(most, fabs(u[i]));
        }
        CHECK(most <= 1.0 && sum > 0, "means stay within the bounds of their values");
        checked[alone] = sum;
        omp_set_num_threads(before);
    }
    CHECK(!quick || checked[0] == checked[1], "the same bits on one thread");
    return finish();
}

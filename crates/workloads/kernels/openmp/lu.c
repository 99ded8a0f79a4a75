/* LU, class B: 102^3 points; the right-hand side, and the two sweeps of SSOR. Threads share the rows j of a plane, and work on successive
 * planes k in a pipeline: a thread waits for its neighbour's rows of the same plane. A unit is one row of one plane. */
#include "grid.h"

enum { ROWS = 100 };

static void row(long at, long step, double sign) {
    double a[M][M];
    for (int i = 1; i < N - 1; i++, at += step) {
        for (int p = 0; p < M; p++)
            for (int q = 0; q < M; q++)
                a[p][q] = 0.02 * u[at][p] * rho[at] * u[at][q] + (p == q ? 1.5 : 0.0);
        long neighbours[3] = {at - (long)(sign * 1), at - (long)(sign * N), at - (long)(sign * N * N)};
        for (int d = 0; d < 3; d++)
            for (int p = 0; p < M; p++) {
                double sum = 0;
                for (int q = 0; q < M; q++)
                    sum += (0.01 * u[neighbours[d]][p] * rho[neighbours[d]] * u[neighbours[d]][q] - (p == q ? 0.1 : 0.0))
                           * rhs[neighbours[d]][q];
                rhs[at][p] -= 1.2 * sum;
            }
        for (int p = 0; p < M; p++)
            for (int i2 = p + 1; i2 < M; i2++) {
                double f = a[i2][p] / a[p][p];
                for (int q = p + 1; q < M; q++)
                    a[i2][q] -= f * a[p][q];
                rhs[at][i2] -= f * rhs[at][p];
            }
        for (int p = M - 1; p >= 0; p--) {
            for (int q = p + 1; q < M; q++)
                rhs[at][p] -= a[p][q] * rhs[at][q];
            rhs[at][p] /= a[p][p];
        }
    }
}

static void lower(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        row(PLACE(1 + unit / ROWS, 1 + unit % ROWS, 1), 1, 1);
}

static void upper(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        row(PLACE(9 - unit / ROWS, 100 - unit % ROWS, 100), -1, -1);
}

int main(void) {
    grid_make();
    grid_auxiliary(0, 12);
    MEASURE(0, 1, grid_rhs, 4, 4);
    MEASURE(1, 1, lower, 100, 200);
    MEASURE(2, 1, upper, 100, 200);
    MEASURE(3, 1, grid_add, 4, 4);
    printf("%g\n", u[PLACE(2, 5, 5)][2]);
    return 0;
}

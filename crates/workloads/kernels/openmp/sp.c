/* SP, class B: scalar pentadiagonal systems along each dimension of 102^3 points. */
#include "grid.h"

typedef double band[5];
static _Thread_local band left[3][N][N];

/* Solves the three kinds of systems of `N` lines side by side, which begin at `base`, `across` points apart; `step` leads along a line.
 * As in NPB 3.3 lines lie beside each other in the bands of a plane. */
static void solve(long base, long across, long step) {
    for (int j = 1; j < N - 1; j++)
        for (int i = 0; i < N; i++) {
            long at = base + j * across + i * step;
            double c = speed[at] * 0.1, v = u[at][1] * rho[at];
            for (int kind = 0; kind < 3; kind++) {
                double shift = (kind - 1) * c;
                left[kind][j][i][0] = 0.01;
                left[kind][j][i][1] = -0.1 * (v + shift) - 0.05;
                left[kind][j][i][2] = 1.5;
                left[kind][j][i][3] = 0.1 * (v + shift) - 0.05;
                left[kind][j][i][4] = 0.01;
            }
        }
    for (int j = 1; j < N - 1; j++)
        for (int i = 0; i < N - 2; i++)
            for (int kind = 0; kind < 3; kind++) {
                double *a = left[kind][j][i], *b = left[kind][j][i + 1], *c = left[kind][j][i + 2];
                double inverse = 1.0 / a[2], f = b[1], g = c[0];
                int first = kind == 0 ? 0 : kind + 2, last = kind == 0 ? 3 : kind + 3;
                a[3] *= inverse;
                a[4] *= inverse;
                b[2] -= f * a[3];
                b[3] -= f * a[4];
                c[1] -= g * a[3];
                c[2] -= g * a[4];
                long at = base + j * across + i * step;
                for (int m = first; m < last; m++) {
                    rhs[at][m] *= inverse;
                    rhs[at + step][m] -= f * rhs[at][m];
                    rhs[at + 2 * step][m] -= g * rhs[at][m];
                }
            }
    for (int j = 1; j < N - 1; j++)
        for (int i = N - 3; i >= 0; i--) {
            long at = base + j * across + i * step;
            for (int m = 0; m < M; m++) {
                double *a = left[m < 3 ? 0 : m - 2][j][i];
                rhs[at][m] -= a[3] * rhs[at + step][m] + a[4] * rhs[at + 2 * step][m];
            }
        }
}

static void invert(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from; k < to; k++)
        for (int j = 1; j < N - 1; j++)
            for (int i = 1; i < N - 1; i++) {
                long at = PLACE(k, j, i);
                double a = rhs[at][0], b = rhs[at][1], c = rhs[at][2], d = rhs[at][3], e = rhs[at][4];
                double t = 0.4 * rho[at] * (square[at] * a - b * u[at][1] - c * u[at][2] - d * u[at][3] + e);
                double s = speed[at] * rho[at];
                rhs[at][0] = a - t;
                rhs[at][1] = c * rho[at];
                rhs[at][2] = -d * rho[at];
                rhs[at][3] = b * s + t;
                rhs[at][4] = t - b * s;
            }
}

static void x_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from; k < to; k++)
        solve(PLACE(k, 0, 0), N, 1);
}

static void y_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from; k < to; k++)
        solve(PLACE(k, 0, 0), 1, N);
}

static void z_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int j = from; j < to; j++)
        solve(PLACE(0, j, 0), 1, (long)N * N);
}

int main(void) {
    grid_make();
    MEASURE(0, 1, grid_auxiliary, 4, 4);
    MEASURE(1, 1, grid_rhs, 4, 4);
    MEASURE(2, 1, invert, 4, 4);
    MEASURE(3, 1, x_solve, 4, 4);
    MEASURE(4, 1, y_solve, 4, 4);
    MEASURE(5, 1, z_solve, 4, 4);
    MEASURE(6, 1, grid_add, 4, 4);
    printf("%g\n", u[PLACE(2, 5, 5)][2]);
    return 0;
}

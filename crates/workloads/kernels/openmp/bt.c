/* BT, class B: block tridiagonal systems of 5 x 5 blocks along each dimension of 102^3 points. */
#include "grid.h"

typedef double block[M][M];
static _Thread_local block lower[N], middle[N], upper[N];

static void jacobian(block out, long at, double scale, double diagonal) {
    for (int a = 0; a < M; a++)
        for (int b = 0; b < M; b++)
            out[a][b] = scale * (u[at][a] * rho[at] * u[at][b] + square[at] * (a == 4)) + (a == b ? diagonal : 0.0);
}

/* rows -= a * b */
static void subtract_product(block rows, block a, block b) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            for (int k = 0; k < M; k++)
                rows[i][j] -= a[i][k] * b[k][j];
}

/* Solves a x = r, and a y = c, by elimination. */
static void divide(block a, block c, double *r) {
    for (int p = 0; p < M; p++) {
        double inverse = 1.0 / a[p][p];
        for (int j = 0; j < M; j++) {
            a[p][j] *= inverse;
            c[p][j] *= inverse;
        }
        r[p] *= inverse;
        for (int i = 0; i < M; i++) {
            if (i == p)
                continue;
            double f = a[i][p];
            for (int j = 0; j < M; j++) {
                a[i][j] -= f * a[p][j];
                c[i][j] -= f * c[p][j];
            }
            r[i] -= f * r[p];
        }
    }
}

static void solve(long base, long step) {
    for (int i = 0; i < N; i++) {
        long at = base + i * step;
        jacobian(lower[i], at, -0.01, -0.1);
        jacobian(middle[i], at, 0.02, 1.5);
        jacobian(upper[i], at, 0.01, -0.1);
    }
    divide(middle[0], upper[0], rhs[base]);
    for (int i = 1; i < N; i++) {
        long at = base + i * step;
        for (int a = 0; a < M; a++)
            for (int b = 0; b < M; b++)
                rhs[at][a] -= lower[i][a][b] * rhs[at - step][b];
        subtract_product(middle[i], lower[i], upper[i - 1]);
        divide(middle[i], upper[i], rhs[at]);
    }
    for (int i = N - 2; i >= 0; i--) {
        long at = base + i * step;
        for (int a = 0; a < M; a++)
            for (int b = 0; b < M; b++)
                rhs[at][a] -= upper[i][a][b] * rhs[at + step][b];
    }
}

/* A unit is a quarter of a plane: 25 of its 100 lines. */
enum { PARTS = 4 };
#define LINES(unit, line) for (int line = 1 + (unit) % PARTS * 25; line < 26 + (unit) % PARTS * 25; line++)

static void x_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        LINES(unit, j)
            solve(PLACE(unit / PARTS, j, 0), 1);
}

static void y_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        LINES(unit, i)
            solve(PLACE(unit / PARTS, 0, i), N);
}

static void z_solve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        LINES(unit, i)
            solve(PLACE(0, 1 + unit / PARTS, i), (long)N * N);
}

int main(void) {
    grid_make();
    MEASURE(0, 1, grid_auxiliary, 4, 4);
    MEASURE(1, 1, grid_rhs, 4, 4);
    MEASURE(2, PARTS, x_solve, 4, 8);
    MEASURE(3, PARTS, y_solve, 4, 8);
    MEASURE(4, PARTS, z_solve, 4, 8);
    MEASURE(5, 1, grid_add, 4, 4);
    printf("%g\n", u[PLACE(2, 5, 5)][2]);
    return 0;
}

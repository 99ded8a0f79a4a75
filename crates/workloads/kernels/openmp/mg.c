/* MG, class C: a V-cycle on 512^3 points; its four loops over planes. A unit is 1/32 of a plane: 16 rows. */
#include "region.h"

enum { N = 514, C = 258, ROWS = 16, PARTS = 32 };

static double *u, *v, *r, *coarse;
#define AT(x, k, j, i) x[((long)(k) * N + (j)) * N + (i)]
#define ATC(x, k, j, i) x[((long)(k) * C + (j)) * C + (i)]

/* Units in the order of planes and rows. */
#define PLANE(unit) (1 + (unit) / PARTS)
#define ROW(unit) (1 + (unit) % PARTS * ROWS)

static void residual(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = PLANE(unit);
        double u1[N], u2[N];
        for (int j = ROW(unit); j < ROW(unit) + ROWS; j++) {
            for (int i = 0; i < N; i++) {
                u1[i] = AT(u, k, j - 1, i) + AT(u, k, j + 1, i) + AT(u, k - 1, j, i) + AT(u, k + 1, j, i);
                u2[i] = AT(u, k - 1, j - 1, i) + AT(u, k - 1, j + 1, i) + AT(u, k + 1, j - 1, i) + AT(u, k + 1, j + 1, i);
            }
            for (int i = 1; i < N - 1; i++)
                AT(r, k, j, i) = AT(v, k, j, i) + 2.67 * AT(u, k, j, i) - 0.17 * (u2[i] + u1[i - 1] + u1[i + 1])
                                 - 0.083 * (u2[i - 1] + u2[i + 1]);
        }
    }
}

static void smooth(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = PLANE(unit);
        double r1[N], r2[N];
        for (int j = ROW(unit); j < ROW(unit) + ROWS; j++) {
            for (int i = 0; i < N; i++) {
                r1[i] = AT(r, k, j - 1, i) + AT(r, k, j + 1, i) + AT(r, k - 1, j, i) + AT(r, k + 1, j, i);
                r2[i] = AT(r, k - 1, j - 1, i) + AT(r, k - 1, j + 1, i) + AT(r, k + 1, j - 1, i) + AT(r, k + 1, j + 1, i);
            }
            for (int i = 1; i < N - 1; i++)
                AT(u, k, j, i) += -0.375 * AT(r, k, j, i) + 0.03 * (AT(r, k, j, i - 1) + AT(r, k, j, i + 1) + r1[i])
                                  - 0.016 * (r2[i] + r1[i - 1] + r1[i + 1]);
        }
    }
}

/* Planes of the coarse grid: 256, each from three fine ones. A unit is 8 coarse rows. */
static void restriction(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = PLANE(unit), kk = 2 * k;
        for (int j = 1 + unit % PARTS * 8; j < 9 + unit % PARTS * 8; j++)
            for (int i = 1; i < C - 1; i++) {
                int jj = 2 * j, ii = 2 * i;
                double faces = AT(r, kk, jj, ii - 1) + AT(r, kk, jj, ii + 1) + AT(r, kk, jj - 1, ii) + AT(r, kk, jj + 1, ii)
                               + AT(r, kk - 1, jj, ii) + AT(r, kk + 1, jj, ii);
                double edges = AT(r, kk - 1, jj - 1, ii) + AT(r, kk - 1, jj + 1, ii) + AT(r, kk + 1, jj - 1, ii)
                               + AT(r, kk + 1, jj + 1, ii) + AT(r, kk, jj - 1, ii - 1) + AT(r, kk, jj + 1, ii + 1);
                ATC(coarse, k, j, i) = 0.5 * AT(r, kk, jj, ii) + 0.25 * faces + 0.125 * edges;
            }
    }
}

static void interpolate(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = PLANE(unit), kk = 2 * k;
        for (int j = 1 + unit % PARTS * 8; j < 9 + unit % PARTS * 8; j++)
            for (int i = 1; i < C - 1; i++) {
                int jj = 2 * j, ii = 2 * i;
                double one = ATC(coarse, k, j, i), two = one + ATC(coarse, k, j, i + 1);
                double four = two + ATC(coarse, k, j + 1, i) + ATC(coarse, k, j + 1, i + 1);
                AT(u, kk, jj, ii) += one;
                AT(u, kk, jj, ii + 1) += 0.5 * two;
                AT(u, kk, jj + 1, ii) += 0.5 * (one + ATC(coarse, k, j + 1, i));
                AT(u, kk, jj + 1, ii + 1) += 0.25 * four;
                AT(u, kk + 1, jj, ii) += 0.5 * (one + ATC(coarse, k + 1, j, i));
                AT(u, kk + 1, jj, ii + 1) += 0.25 * (two + ATC(coarse, k + 1, j, i));
                AT(u, kk + 1, jj + 1, ii) += 0.25 * (one + ATC(coarse, k + 1, j + 1, i));
                AT(u, kk + 1, jj + 1, ii + 1) += 0.125 * four;
            }
    }
}

int main(void) {
    u = region_array(sizeof(double) * N * N * N);
    v = region_array(sizeof(double) * N * N * N);
    r = region_array(sizeof(double) * N * N * N);
    coarse = region_array(sizeof(double) * C * C * C);
    MEASURE(0, PARTS, residual, 40, 16);
    MEASURE(1, PARTS, smooth, 40, 16);
    MEASURE(2, PARTS, restriction, 40, 16);
    MEASURE(3, PARTS, interpolate, 40, 16);
    printf("%g\n", AT(u, 3, 3, 3));
    return 0;
}

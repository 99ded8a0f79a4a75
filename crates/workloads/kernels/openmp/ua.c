/* UA, class B: heat on 8,800 elements of 5^3 points that lie in memory in an order of refinement; values on shared faces are gathered and
 * scattered by lists. */
#include "region.h"

enum { ELEMENTS = 8800, D = 5, POINTS = D * D * D, FACE = 6 * D * D };

static double (*t)[POINTS], (*out)[POINTS], (*weight)[POINTS], *mortar;
static int (*list)[FACE];
static double derivative[D][D];

static void laplacian(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int e = from; e < to; e++)
        for (int k = 0; k < D; k++)
            for (int j = 0; j < D; j++)
                for (int i = 0; i < D; i++) {
                    double sum = 0;
                    for (int m = 0; m < D; m++)
                        sum += derivative[i][m] * t[e][(k * D + j) * D + m] + derivative[j][m] * t[e][(k * D + m) * D + i]
                               + derivative[k][m] * t[e][(m * D + j) * D + i];
                    out[e][(k * D + j) * D + i] = sum * weight[e][(k * D + j) * D + i];
                }
}

static int face_point(int f) {
    int side = f / (D * D), a = f % (D * D) / D, b = f % D, c = side % 2 * (D - 1);
    return side < 2 ? (c * D + a) * D + b : side < 4 ? (a * D + c) * D + b : (a * D + b) * D + c;
}

static void gather(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int e = from; e < to; e++)
        for (int f = 0; f < FACE; f++)
            out[e][face_point(f)] += 0.5 * mortar[list[e][f]];
}

static void scatter(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int e = from; e < to; e++)
        for (int f = 0; f < FACE; f++)
            mortar[list[e][f]] += 0.5 * out[e][face_point(f)];
}

static void update(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int e = from; e < to; e++)
        for (int i = 0; i < POINTS; i++)
            t[e][i] += 0.1 * out[e][i];
}

int main(void) {
    uint64_t state = 3;
    t = region_array(sizeof *t * ELEMENTS);
    out = region_array(sizeof *out * ELEMENTS);
    weight = region_array(sizeof *weight * ELEMENTS);
    mortar = region_array(sizeof *mortar * ELEMENTS * FACE / 2);
    list = region_array(sizeof *list * ELEMENTS);
    for (int e = 0; e < 1200; e++)
        for (int side = 0; side < 6; side++) {
            /* Half of the neighbours are near in the order, the others anywhere. */
            long face = side < 3 ? (long)e * 3 + side : (long)region_random(&state, ELEMENTS * 3);
            for (int f = 0; f < D * D; f++)
                list[e][side * D * D + f] = (int)(face * D * D + f);
        }
    MEASURE(0, 1, laplacian, 200, 600);
    MEASURE(1, 1, gather, 200, 600);
    MEASURE(2, 1, scatter, 200, 600);
    MEASURE(3, 1, update, 200, 600);
    printf("%g\n", t[3][3] + mortar[7]);
    return 0;
}

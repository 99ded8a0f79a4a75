/* CG, class B: 75,000 rows with about 183 non-zeros each; the four loops of one step of the conjugate gradient. */
#include "region.h"

enum { ROWS = 75000, EACH = 183, RUN = 3000 };

static double *a, *p, *q, *r, *z, dot;
static int *column;

static void multiply(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int row = from; row < to; row++) {
        double sum = 0;
        for (long k = (long)row * EACH; k < (long)(row + 1) * EACH; k++)
            sum += a[k] * p[column[k]];
        q[row] = sum;
    }
}

static void product(int from, int to) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int row = from; row < to; row++)
        sum += p[row] * q[row];
    dot += sum;
}

static void update(int from, int to) {
    double sum = 0, alpha = dot * 1e-3;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int row = from; row < to; row++) {
        z[row] += alpha * p[row];
        r[row] -= alpha * q[row];
        sum += r[row] * r[row];
    }
    dot = sum;
}

static void direction(int from, int to) {
    double beta = dot * 1e-3;
#pragma omp parallel for schedule(static)
    for (int row = from; row < to; row++)
        p[row] = r[row] + beta * p[row];
}

int main(void) {
    uint64_t state = 1;
    double **vectors[] = {&p, &q, &r, &z};
    for (int i = 0; i < 4; i++)
        *vectors[i] = region_array(ROWS * sizeof(double));
    a = region_array(sizeof(double) * (RUN + 1) * EACH);
    column = region_array(sizeof(int) * (RUN + 1) * EACH);
    for (int row = 0; row < RUN; row++)
        for (int k = 0; k < EACH; k++) {
            a[(long)row * EACH + k] = 1.0 / (k + 1);
            column[(long)row * EACH + k] = (int)region_random(&state, ROWS);
        }
    for (int row = 0; row < ROWS; row++)
        p[row] = r[row] = 1.0;
    MEASURE(0, 1, multiply, 1000, 2000);
    MEASURE(1, 1, product, 5000, 40000);
    MEASURE(2, 1, update, 5000, 40000);
    MEASURE(3, 1, direction, 5000, 40000);
    printf("%g\n", dot);
    return 0;
}

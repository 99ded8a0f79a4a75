/* A conjugate-gradient solve: a sparse symmetric matrix of `--size` rows, thousands of short regions. Checks the residual, and the solution,
 * which is known. */
#include "check.h"
#include <math.h>
#include <omp.h>

static int rows;
static int *start, *column;
static double *value;

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* A diagonally dominant matrix with a pair of entries for each of `links` random pairs of rows. */
static void make_matrix(int links)
{
    int *from = malloc(sizeof(int) * (size_t)links), *to = malloc(sizeof(int) * (size_t)links);
    int *degree = calloc((size_t)rows, sizeof(int));
    unsigned long x = 314159;
    for (int l = 0; l < links; l++) {
        x = spin(x, 1);
        from[l] = (int)((x >> 33) % (unsigned)rows);
        x = spin(x, 1);
        to[l] = (int)((x >> 33) % (unsigned)rows);
        if (to[l] == from[l])
            to[l] = (to[l] + 1) % rows;
        degree[from[l]]++;
        degree[to[l]]++;
    }
    start = malloc(sizeof(int) * (size_t)(rows + 1));
    start[0] = 0;
    for (int i = 0; i < rows; i++)
        start[i + 1] = start[i] + degree[i] + 1;
    column = malloc(sizeof(int) * (size_t)start[rows]);
    value = malloc(sizeof(double) * (size_t)start[rows]);
    int *next = malloc(sizeof(int) * (size_t)rows);
    for (int i = 0; i < rows; i++) {
        next[i] = start[i];
        column[next[i]++] = i;
    }
    for (int l = 0; l < links; l++) {
        column[next[from[l]]++] = to[l];
        column[next[to[l]]++] = from[l];
    }
    for (int i = 0; i < rows; i++) {
        qsort(&column[start[i]], (size_t)(start[i + 1] - start[i]), sizeof(int), compare);
        for (int k = start[i]; k < start[i + 1]; k++)
            value[k] = column[k] == i ? degree[i] + 1.0 : -1.0;
    }
    free(from);
    free(to);
    free(degree);
    free(next);
}

static void multiply(const double *x, double *y)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = start[i]; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

static double dot(const double *x, const double *y)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int i = 0; i < rows; i++)
        sum += x[i] * y[i];
    return sum;
}

/* x = x + a y */
static void add(double *x, double a, const double *y)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < rows; i++)
        x[i] += a * y[i];
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    rows = (int)option(argc, argv, "size", quick ? 2000 : 20000);
    int solves = (int)option(argc, argv, "rounds", quick ? 3 : 25);
    make_matrix(6 * rows);
    size_t bytes = sizeof(double) * (size_t)rows;
    double *x = malloc(bytes), *wanted = malloc(bytes), *b = malloc(bytes), *r = malloc(bytes), *p = malloc(bytes), *q = malloc(bytes);
    double begin = seconds();
    for (int solve = 0; solve < solves; solve++) {
        for (int i = 0; i < rows; i++) {
            wanted[i] = 1.0 + (i * 7 + solve) % 13;
            x[i] = 0;
        }
        multiply(wanted, b);
        memcpy(r, b, bytes);
        memcpy(p, b, bytes);
        double rho = dot(r, r);
        for (int step = 0; step < 60; step++) {
            multiply(p, q);
            double alpha = rho / dot(p, q);
            add(x, alpha, p);
            add(r, -alpha, q);
            double rho_now = dot(r, r);
            double beta = rho_now / rho;
            rho = rho_now;
#pragma omp parallel for schedule(static)
            for (int i = 0; i < rows; i++)
                p[i] = r[i] + beta * p[i];
        }
        double worst = 0;
        for (int i = 0; i < rows; i++)
            worst = fmax(worst, fabs(x[i] - wanted[i]));
        CHECK(worst < 1e-6, "the solution of the conjugate-gradient solve");
        CHECK(sqrt(rho) < 1e-6, "its residual");
    }
    printf("seconds %.6f\n", seconds() - begin);
    return finish();
}

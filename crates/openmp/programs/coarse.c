/* Programs of coarse tasks without `depend`: `--sort N` (numbers), `--strassen N` (rows), `--fft N` (points), `--sparse N` (blocks a side),
 * `--align N` (sequences); without any, all five, small. Prints the seconds and checks the results. */
#include "check.h"
#include <math.h>
#include <omp.h>

static unsigned long next(unsigned long *state)
{
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return *state >> 33;
}

/* ---- sort: merge sort, whose merges are cut in two by the place of the longer half's middle ---- */

enum { SHORT = 2048 };

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void merge(const int *a, long na, const int *b, long nb, int *to)
{
    if (na < nb) {
        const int *other = a;
        long length = na;
        a = b, na = nb;
        b = other, nb = length;
    }
    if (na + nb <= 2 * SHORT) {
        long i = 0, j = 0;
        while (i < na && j < nb)
            *to++ = b[j] < a[i] ? b[j++] : a[i++];
        memcpy(to, a + i, (size_t)(na - i) * sizeof *a);
        memcpy(to + (na - i), b + j, (size_t)(nb - j) * sizeof *b);
        return;
    }
    long middle = na / 2, low = 0, high = nb;
    while (low < high) {
        long at = (low + high) / 2;
        if (b[at] < a[middle])
            low = at + 1;
        else
            high = at;
    }
#pragma omp task firstprivate(a, middle, b, low, to)
    merge(a, middle, b, low, to);
#pragma omp task firstprivate(a, na, middle, b, nb, low, to)
    merge(a + middle, na - middle, b + low, nb - low, to + middle + low);
#pragma omp taskwait
}

static void sort(int *a, int *room, long n)
{
    if (n <= SHORT) {
        qsort(a, (size_t)n, sizeof *a, compare);
        return;
    }
    long half = n / 2, quarter = half / 2, rest = n - half, last = rest / 2;
#pragma omp task firstprivate(a, room, quarter)
    sort(a, room, quarter);
#pragma omp task firstprivate(a, room, quarter, half)
    sort(a + quarter, room + quarter, half - quarter);
#pragma omp task firstprivate(a, room, half, last)
    sort(a + half, room + half, last);
#pragma omp task firstprivate(a, room, half, last, rest)
    sort(a + half + last, room + half + last, rest - last);
#pragma omp taskwait
#pragma omp task firstprivate(a, room, quarter, half)
    merge(a, quarter, a + quarter, half - quarter, room);
#pragma omp task firstprivate(a, room, half, last, rest)
    merge(a + half, last, a + half + last, rest - last, room + half);
#pragma omp taskwait
    merge(room, half, room + half, rest, a);
}

static void check_sort(long n)
{
    int *a = malloc((size_t)n * sizeof *a), *room = malloc((size_t)n * sizeof *room);
    unsigned long state = 7, before = 0, after = 0;
    for (long i = 0; i < n; i++) {
        a[i] = (int)next(&state);
        before += (unsigned long)a[i] * (unsigned long)a[i];
    }
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    sort(a, room, n);
    printf("sort seconds %.6f\n", seconds() - begin);
    int ordered = 1;
    for (long i = 0; i < n; i++) {
        ordered &= i == 0 || a[i - 1] <= a[i];
        after += (unsigned long)a[i] * (unsigned long)a[i];
    }
    CHECK(ordered && before == after, "sorted, and the same numbers");
    free(a);
    free(room);
}

/* ---- strassen: seven products of halves ---- */

enum { LEAF = 64 };

static void multiply(const double *a, const double *b, double *c, int n, int stride_a, int stride_b, int stride_c)
{
    for (int i = 0; i < n; i++) {
        double *row = c + (long)i * stride_c;
        memset(row, 0, (size_t)n * sizeof *row);
        for (int k = 0; k < n; k++) {
            double x = a[(long)i * stride_a + k];
            const double *other = b + (long)k * stride_b;
            for (int j = 0; j < n; j++)
                row[j] += x * other[j];
        }
    }
}

/* to = a + sign b */
static void add(const double *a, int stride_a, const double *b, int stride_b, double sign, double *to, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[(long)i * n + j] = a[(long)i * stride_a + j] + sign * b[(long)i * stride_b + j];
}

static void strassen(const double *a, const double *b, double *c, int n, int sa, int sb, int sc)
{
    if (n <= LEAF) {
        multiply(a, b, c, n, sa, sb, sc);
        return;
    }
    int h = n / 2;
    long part = (long)h * h;
    const double *a11 = a, *a12 = a + h, *a21 = a + (long)h * sa, *a22 = a21 + h;
    const double *b11 = b, *b12 = b + h, *b21 = b + (long)h * sb, *b22 = b21 + h;
    double *room = malloc(17 * (size_t)part * sizeof *room);
    double *sums = room + 7 * part;
#define M(i) (room + (i) * part)
#define S(i) (sums + (i) * part)
    add(a11, sa, a22, sa, 1, S(0), h), add(b11, sb, b22, sb, 1, S(1), h);
    add(a21, sa, a22, sa, 1, S(2), h), add(b12, sb, b22, sb, -1, S(3), h);
    add(b21, sb, b11, sb, -1, S(4), h), add(a11, sa, a12, sa, 1, S(5), h);
    add(a21, sa, a11, sa, -1, S(6), h), add(b11, sb, b12, sb, 1, S(7), h);
    add(a12, sa, a22, sa, -1, S(8), h), add(b21, sb, b22, sb, 1, S(9), h);
#pragma omp task untied
    strassen(S(0), S(1), M(0), h, h, h, h);
#pragma omp task untied
    strassen(S(2), b11, M(1), h, h, sb, h);
#pragma omp task untied
    strassen(a11, S(3), M(2), h, sa, h, h);
#pragma omp task untied
    strassen(a22, S(4), M(3), h, sa, h, h);
#pragma omp task untied
    strassen(S(5), b22, M(4), h, h, sb, h);
#pragma omp task untied
    strassen(S(6), S(7), M(5), h, h, h, h);
#pragma omp task untied
    strassen(S(8), S(9), M(6), h, h, h, h);
#pragma omp taskwait
    for (int i = 0; i < h; i++) {
        for (int j = 0; j < h; j++) {
            long at = (long)i * h + j;
            double *up = c + (long)i * sc + j, *down = up + (long)h * sc;
            up[0] = M(0)[at] + M(3)[at] - M(4)[at] + M(6)[at];
            up[h] = M(2)[at] + M(4)[at];
            down[0] = M(1)[at] + M(3)[at];
            down[h] = M(0)[at] - M(1)[at] + M(2)[at] + M(5)[at];
        }
    }
#undef M
#undef S
    free(room);
}

static void check_strassen(int n)
{
    size_t bytes = (size_t)n * (size_t)n * sizeof(double);
    double *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    unsigned long state = 3;
    for (long i = 0; i < (long)n * n; i++) {
        a[i] = (double)(next(&state) % 1000) / 1000;
        b[i] = (double)(next(&state) % 1000) / 1000;
    }
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    strassen(a, b, c, n, n, n, n);
    printf("strassen seconds %.6f\n", seconds() - begin);
    /* The product times a vector is a times (b times the vector). */
    double *v = malloc((size_t)n * sizeof *v), *bv = calloc((size_t)n, sizeof *bv), worst = 0;
    for (int i = 0; i < n; i++)
        v[i] = (double)(next(&state) % 3) - 1;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            bv[i] += b[(long)i * n + j] * v[j];
    for (int i = 0; i < n; i++) {
        double difference = 0;
        for (int j = 0; j < n; j++)
            difference += c[(long)i * n + j] * v[j] - a[(long)i * n + j] * bv[j];
        worst = fmax(worst, fabs(difference));
    }
    CHECK(worst < 1e-7 * n, "Strassen's product");
    free(a), free(b), free(c), free(v), free(bv);
}

/* ---- fft: of even and odd points, then their sums in tasks of a part each ---- */

struct point {
    double re, im;
};

static const struct point *roots;
static long points;

static void join(const struct point *from, struct point *to, long n, long begin, long end)
{
    long step = points / n, half = n / 2;
    for (long k = begin; k < end; k++) {
        struct point w = roots[k * step], odd = from[half + k], even = from[k];
        struct point turned = {odd.re * w.re - odd.im * w.im, odd.re * w.im + odd.im * w.re};
        to[k] = (struct point){even.re + turned.re, even.im + turned.im};
        to[k + half] = (struct point){even.re - turned.re, even.im - turned.im};
    }
}

/* Transforms `n` points of `from`, `stride` apart, into `to`; `room` is of `n` points. */
static void fft(const struct point *from, long stride, struct point *to, struct point *room, long n)
{
    if (n == 1) {
        to[0] = from[0];
        return;
    }
    long half = n / 2;
    if (n <= 512) {
        fft(from, 2 * stride, room, to, half);
        fft(from + stride, 2 * stride, room + half, to + half, half);
        join(room, to, n, 0, half);
        return;
    }
#pragma omp task firstprivate(from, stride, to, room, half)
    fft(from, 2 * stride, room, to, half);
#pragma omp task firstprivate(from, stride, to, room, half)
    fft(from + stride, 2 * stride, room + half, to + half, half);
#pragma omp taskwait
    long part = half < 4096 ? half : 4096;
    for (long k = 0; k < half; k += part) {
#pragma omp task firstprivate(room, to, n, k, part)
        join(room, to, n, k, k + part);
    }
#pragma omp taskwait
}

static void check_fft(long n)
{
    size_t bytes = (size_t)n * sizeof(struct point);
    struct point *in = malloc(bytes), *out = malloc(bytes), *room = malloc(bytes), *w = malloc(bytes / 2);
    unsigned long state = 5;
    double energy = 0, spectrum = 0;
    for (long i = 0; i < n; i++) {
        in[i] = (struct point){(double)(next(&state) % 2000) / 1000 - 1, (double)(next(&state) % 2000) / 1000 - 1};
        energy += in[i].re * in[i].re + in[i].im * in[i].im;
    }
    for (long i = 0; i < n / 2; i++)
        w[i] = (struct point){cos(-2 * M_PI * (double)i / (double)n), sin(-2 * M_PI * (double)i / (double)n)};
    roots = w;
    points = n;
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    fft(in, 1, out, room, n);
    printf("fft seconds %.6f\n", seconds() - begin);
    /* Parseval's sum, and some frequencies by their definition. */
    for (long i = 0; i < n; i++)
        spectrum += out[i].re * out[i].re + out[i].im * out[i].im;
    double worst = fabs(spectrum / (double)n / energy - 1);
    for (long k = 1; k < n; k += n / 3) {
        struct point sum = {0, 0};
        for (long i = 0; i < n; i++) {
            long at = (long)((unsigned long)i * (unsigned long)k % (unsigned long)n);
            struct point root = at < n / 2 ? w[at] : (struct point){-w[at - n / 2].re, -w[at - n / 2].im};
            sum.re += in[i].re * root.re - in[i].im * root.im;
            sum.im += in[i].re * root.im + in[i].im * root.re;
        }
        worst = fmax(worst, (fabs(sum.re - out[k].re) + fabs(sum.im - out[k].im)) / sqrt((double)n));
    }
    CHECK(worst < 1e-9, "the transform");
    free(in), free(out), free(room), free(w);
}

/* ---- sparse: LU factors of a matrix of blocks, of which many are empty ---- */

enum { BLOCK = 64 };

static void lu_diagonal(double *d)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++) {
            d[i * BLOCK + k] /= d[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                d[i * BLOCK + j] -= d[i * BLOCK + k] * d[k * BLOCK + j];
        }
}

/* b = b / the upper triangle of d */
static void lu_below(const double *d, double *b)
{
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++) {
            b[i * BLOCK + k] /= d[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                b[i * BLOCK + j] -= b[i * BLOCK + k] * d[k * BLOCK + j];
        }
}

/* b = the lower triangle of d \ b */
static void lu_right(const double *d, double *b)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                b[i * BLOCK + j] -= d[i * BLOCK + k] * b[k * BLOCK + j];
}

static void lu_inner(const double *left, const double *up, double *b)
{
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++) {
            double x = left[i * BLOCK + k];
            for (int j = 0; j < BLOCK; j++)
                b[i * BLOCK + j] -= x * up[k * BLOCK + j];
        }
}

static double *new_block(void)
{
    return calloc((size_t)BLOCK * BLOCK, sizeof(double));
}

static double **matrix(int n)
{
    double **blocks = calloc((size_t)n * (size_t)n, sizeof *blocks);
    unsigned long state = 11;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i != j && (i * 7 + j * 5) % 4 != 0)
                continue;
            double *b = blocks[i * n + j] = new_block();
            for (int k = 0; k < BLOCK * BLOCK; k++)
                b[k] = (double)(next(&state) % 1000) / 1000 + (i == j && k % (BLOCK + 1) == 0 ? 2.0 * n * BLOCK : 0);
        }
    return blocks;
}

static void factor(double **b, int n)
{
    for (int k = 0; k < n; k++) {
        lu_diagonal(b[k * n + k]);
        for (int j = k + 1; j < n; j++) {
            if (b[k * n + j] != NULL) {
#pragma omp task untied firstprivate(k, j) shared(b)
                lu_right(b[k * n + k], b[k * n + j]);
            }
        }
        for (int i = k + 1; i < n; i++) {
            if (b[i * n + k] != NULL) {
#pragma omp task untied firstprivate(k, i) shared(b)
                lu_below(b[k * n + k], b[i * n + k]);
            }
        }
#pragma omp taskwait
        for (int i = k + 1; i < n; i++) {
            for (int j = k + 1; j < n; j++) {
                if (b[i * n + k] != NULL && b[k * n + j] != NULL) {
#pragma omp task untied firstprivate(k, i, j) shared(b)
                    {
                        if (b[i * n + j] == NULL)
                            b[i * n + j] = new_block();
                        lu_inner(b[i * n + k], b[k * n + j], b[i * n + j]);
                    }
                }
            }
        }
#pragma omp taskwait
    }
}

static void check_sparse(int n)
{
    double **b = matrix(n);
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    factor(b, n);
    printf("sparse seconds %.6f\n", seconds() - begin);
    /* Outside of regions tasks run at once, in order: the same operations on each block. */
    double **same = matrix(n);
    factor(same, n);
    int equal = 1;
    for (int i = 0; i < n * n; i++) {
        equal &= (b[i] == NULL) == (same[i] == NULL);
        equal &= b[i] == NULL || same[i] == NULL || memcmp(b[i], same[i], (size_t)BLOCK * BLOCK * sizeof(double)) == 0;
        free(b[i]), free(same[i]);
    }
    CHECK(equal, "LU factors");
    free(b), free(same);
}

/* ---- align: each pair of sequences, with gaps that are dearer to open than to extend ---- */

enum { MATCH = 5, DIFFERENT = -4, OPEN = -10, EXTEND = -1 };

static int align(const char *a, int na, const char *b, int nb)
{
    int best[nb + 1], gap[nb + 1];
    best[0] = 0;
    for (int j = 1; j <= nb; j++) {
        best[j] = OPEN + j * EXTEND;
        gap[j] = 2 * OPEN + j * EXTEND;
    }
    for (int i = 1; i <= na; i++) {
        int diagonal = best[0], across = 2 * OPEN + i * EXTEND;
        best[0] = OPEN + i * EXTEND;
        for (int j = 1; j <= nb; j++) {
            int here = diagonal + (a[i - 1] == b[j - 1] ? MATCH : DIFFERENT);
            int open = best[j - 1] + OPEN + EXTEND;
            across = across + EXTEND > open ? across + EXTEND : open;
            open = best[j] + OPEN + EXTEND;
            gap[j] = gap[j] + EXTEND > open ? gap[j] + EXTEND : open;
            diagonal = best[j];
            here = here > across ? here : across;
            best[j] = here > gap[j] ? here : gap[j];
        }
    }
    return best[nb];
}

static void check_align(int n)
{
    char **sequences = malloc((size_t)n * sizeof *sequences);
    int *lengths = malloc((size_t)n * sizeof *lengths), *scores = calloc((size_t)n * (size_t)n, sizeof *scores);
    unsigned long state = 17;
    for (int i = 0; i < n; i++) {
        lengths[i] = 200 + (int)(next(&state) % 400);
        sequences[i] = malloc((size_t)lengths[i]);
        for (int k = 0; k < lengths[i]; k++)
            sequences[i][k] = (char)('a' + next(&state) % 20);
    }
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < n; i++) {
        for (int j = i; j < n; j++) {
#pragma omp task firstprivate(i, j) untied
            scores[i * n + j] = align(sequences[i], lengths[i], sequences[j], lengths[j]);
        }
    }
    printf("align seconds %.6f\n", seconds() - begin);
    int right = 1;
    for (int i = 0; i < n; i++) {
        right &= scores[i * n + i] == MATCH * lengths[i];
        int j = i + (n - 1 - i) / 2;
        right &= scores[i * n + j] == align(sequences[j], lengths[j], sequences[i], lengths[i]);
    }
    CHECK(right, "scores of a sequence with itself, and of two in either order");
    for (int i = 0; i < n; i++)
        free(sequences[i]);
    free(sequences), free(lengths), free(scores);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"sort", "strassen", "fft", "sparse", "align"};
    static const long small[] = {100000, 256, 8192, 8, 12}, quick[] = {20000, 128, 2048, 4, 6};
    long sizes[5];
    int any = 0;
    for (int i = 0; i < 5; i++) {
        sizes[i] = option(argc, argv, names[i], 0);
        any |= sizes[i] > 0;
    }
    for (int i = 0; i < 5 && !any; i++)
        sizes[i] = has_flag(argc, argv, "quick") ? quick[i] : small[i];
    if (sizes[0] > 0)
        check_sort(sizes[0]);
    if (sizes[1] > 0)
        check_strassen((int)sizes[1]);
    if (sizes[2] > 0)
        check_fft(sizes[2]);
    if (sizes[3] > 0)
        check_sparse((int)sizes[3]);
    if (sizes[4] > 0)
        check_align((int)sizes[4]);
    return finish();
}

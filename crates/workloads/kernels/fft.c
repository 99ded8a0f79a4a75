/* Fast Fourier transform of n complex points, in six steps over a matrix of sqrt(n) x sqrt(n).
 *
 * Written after the description of the kernel FFT of SPLASH-2 (Woo, Ohara, Torrie, Singh, Gupta: The SPLASH-2 Programs, ISCA 1995,
 * section 3) and of the algorithm (Bailey: FFTs in External or Hierarchical Memory, J. Supercomputing 4, 1990): transpose; transform
 * each row; multiply by roots of unity; transpose; transform each row; transpose. Each thread has a strip of rows. A transposition goes
 * patch by patch, and a thread begins with the patch behind its own, so that not all read the same strip at once.
 *
 * As there, each thread has its own copy of the roots of a row's transformation, rows are padded so that a strip ends at the end of a page,
 * a patch is read by rows and written by columns, and the result stays where the last transposition puts it: which lines of a cache threads
 * share or fight for depends on all of these. */
#include "kernel.h"

struct complex {
    double re, im;
};

enum { PATCH = 16, PAGE = 4096 };

static long side, levels, pitch;
/* The result is in `other`. */
static struct complex *x, *other, *row_roots, *all_roots;
/* 1, or -1 for the inverse, which is not divided by n. */
static long direction = 1;
/* The threads' copies of row_roots, one behind the other: side - 1 roots and half of one, as if each thread had called malloc. */
static char *copies;
static double *touched;

/* Returns sin(pi/4 * t) for t from 0 to 1: Taylor's series, whose rest is below 2^-54. */
static double sine(double t) {
    double a = t * 0.78539816339744828, s = a * a;
    double sum = -1.0 / 1307674368000.0;
    sum = sum * s + 1.0 / 6227020800.0;
    sum = sum * s - 1.0 / 39916800.0;
    sum = sum * s + 1.0 / 362880.0;
    sum = sum * s - 1.0 / 5040.0;
    sum = sum * s + 1.0 / 120.0;
    sum = sum * s - 1.0 / 6.0;
    return a + a * s * sum;
}

static double cosine(double t) {
    double a = t * 0.78539816339744828, s = a * a;
    double sum = 1.0 / 20922789888000.0;
    sum = sum * s - 1.0 / 87178291200.0;
    sum = sum * s + 1.0 / 479001600.0;
    sum = sum * s - 1.0 / 3628800.0;
    sum = sum * s + 1.0 / 40320.0;
    sum = sum * s - 1.0 / 720.0;
    sum = sum * s + 1.0 / 24.0;
    sum = sum * s - 0.5;
    return 1.0 + s * sum;
}

/* Returns sin(2 pi k / n), for n a power of two of at least 8. Not libm's: its last bit differs between processors. */
static double sine_of(long k, long n) {
    long eighth = n / 8, part = (k & (n - 1)) / eighth, rest = (k & (n - 1)) % eighth;
    double up = (double)(int32_t)rest / (double)(int32_t)eighth, down = (double)(int32_t)(eighth - rest) / (double)(int32_t)eighth;
    switch (part) {
    case 0: return sine(up);
    case 1: return cosine(down);
    case 2: return cosine(up);
    case 3: return sine(down);
    case 4: return -sine(up);
    case 5: return -cosine(down);
    case 6: return -cosine(up);
    default: return -sine(down);
    }
}

/* Returns exp(-2 pi i k / n). */
static struct complex root(long k, long n) {
    struct complex u = {sine_of(k + n / 4, n), -sine_of(k, n)};
    return u;
}

static struct complex input(long place) {
    struct complex point = {kernel_unit(2 * (uint64_t)place) - 0.5, kernel_unit(2 * (uint64_t)place + 1) - 0.5};
    return point;
}

static void initialise(void) {
    for (long row = 0; row < side; row++)
        for (long column = 0; column < side; column++)
            x[row * pitch + column] = input(row * side + column);
    /* The roots of level l of a row's transformation begin at 2^l - 1. */
    for (long half = 1; half < side; half *= 2)
        for (long j = 0; j < half; j++)
            row_roots[half - 1 + j] = root(j * (kernel_size / (2 * half)), kernel_size);
    for (long row = 0; row < side; row++)
        for (long column = 0; column < side; column++)
            all_roots[row * pitch + column] = root(row * column, kernel_size);
}

/* Sets the rows of thread `me`'s strip in `to` to these columns of `from`. */
static void transpose(struct complex *to, const struct complex *from, long me) {
    long first = kernel_share(side, me), last = kernel_share(side, me + 1);
    for (long turn = 1; turn <= kernel_threads; turn++) {
        long strip = (me + turn) % kernel_threads;
        long begin = kernel_share(side, strip), end = kernel_share(side, strip + 1);
        for (long row0 = first; row0 < last; row0 += PATCH) {
            long row1 = row0 + PATCH < last ? row0 + PATCH : last;
            for (long column0 = begin; column0 < end; column0 += PATCH) {
                long column1 = column0 + PATCH < end ? column0 + PATCH : end;
                for (long column = column0; column < column1; column++)
                    for (long row = row0; row < row1; row++)
                        to[row * pitch + column] = from[column * pitch + row];
            }
        }
    }
}

static void reverse_bits(struct complex *row) {
    for (long k = 0; k < side; k++) {
        long j = 0;
        for (long bit = 0; bit < levels; bit++)
            j |= (k >> bit & 1) << (levels - 1 - bit);
        if (j > k) {
            struct complex point = row[k];
            row[k] = row[j];
            row[j] = point;
        }
    }
}

/* Returns the copy of row_roots that belongs to thread `me`. */
static struct complex *roots_of(long me) {
    size_t apart = (size_t)(side - 1) * sizeof *row_roots + sizeof(double);
    return (struct complex *)(void *)(copies + (size_t)me * apart);
}

/* Transforms one row in place, by radix 2. */
static void transform_row(struct complex *row, const struct complex *roots) {
    double sign = (double)(int32_t)direction;
    reverse_bits(row);
    for (long half = 1; half < side; half *= 2) {
        const struct complex *u = &roots[half - 1];
        for (long k = 0; k < side; k += 2 * half) {
            struct complex *low = &row[k], *high = &row[k + half];
            for (long j = 0; j < half; j++) {
                struct complex turn = {u[j].re, sign * u[j].im}, first = low[j], second = high[j];
                double re = turn.re * second.re - turn.im * second.im;
                double im = turn.re * second.im + turn.im * second.re;
                high[j].re = first.re - re;
                high[j].im = first.im - im;
                low[j].re = first.re + re;
                low[j].im = first.im + im;
            }
        }
    }
}

static void multiply_row(struct complex *row, const struct complex *u) {
    double sign = (double)(int32_t)direction;
    for (long j = 0; j < side; j++) {
        struct complex turn = {u[j].re, sign * u[j].im}, point = row[j];
        row[j].re = turn.re * point.re - turn.im * point.im;
        row[j].im = turn.re * point.im + turn.im * point.re;
    }
}

static double sum_of(const struct complex *point) {
    return point->re + point->im;
}

/* Every thread copies the roots and reads its own rows first, as a program would that places them in the memory near it. */
static void touch(long me, struct complex *roots) {
    double sum = 0;
    memcpy(roots, row_roots, (size_t)(side - 1) * sizeof *roots);
    for (long j = 0; j < side - 1; j++)
        sum += roots[j].re + roots[j].im;
    for (long row = kernel_share(side, me); row < kernel_share(side, me + 1); row++)
        for (long column = 0; column < side; column++)
            sum += sum_of(&x[row * pitch + column]) + sum_of(&other[row * pitch + column]) + sum_of(&all_roots[row * pitch + column]);
    touched[me * 8] = sum;
}

static void body(long me) {
    long first = kernel_share(side, me), last = kernel_share(side, me + 1);
    struct complex *roots = roots_of(me);
    touch(me, roots);
    kernel_barrier();
    transpose(other, x, me);
    for (long row = first; row < last; row++) {
        transform_row(&other[row * pitch], roots);
        multiply_row(&other[row * pitch], &all_roots[row * pitch]);
    }
    kernel_barrier();
    transpose(x, other, me);
    for (long row = first; row < last; row++)
        transform_row(&x[row * pitch], roots);
    kernel_barrier();
    transpose(other, x, me);
}

/* Returns by how many elements the rows of a matrix are apart: the least number with which a thread's strip ends at the end of a page. */
static long padding(void) {
    long rows = side / kernel_threads > 0 ? side / kernel_threads : 1;
    long element = (long)sizeof *x, strip = rows * side * element;
    if (strip < PAGE)
        return (PAGE - strip) / (rows * element);
    long pages = (element * rows + PAGE - 1) / PAGE;
    return pages * PAGE / (element * rows);
}

static struct complex point(long place) {
    return other[place / side * pitch + place % side];
}

/* Returns the largest error: of some points of the result against the definition, and of the inverse against the input. */
static double error_of_result(void) {
    double worst = 0;
    for (long sample = 0; sample < 8; sample++) {
        long k = (long)(kernel_random(UINT64_MAX - (uint64_t)sample) % (uint64_t)kernel_size);
        double re = 0, im = 0;
        for (long j = 0; j < kernel_size; j++) {
            struct complex in = input(j), u = root((long)((int64_t)j * k % kernel_size), kernel_size);
            re += in.re * u.re - in.im * u.im;
            im += in.re * u.im + in.im * u.re;
        }
        double error = hypot(point(k).re - re, point(k).im - im) / (double)kernel_size;
        if (!(error <= worst))
            worst = error;
    }
    memcpy(x, other, (size_t)side * (size_t)pitch * sizeof *x);
    direction = -1;
    kernel_parallel(body);
    for (long place = 0; place < kernel_size; place++) {
        struct complex in = input(place), out = point(place);
        double error = hypot(out.re / (double)kernel_size - in.re, out.im / (double)kernel_size - in.im);
        if (!(error <= worst))
            worst = error;
    }
    return worst;
}

int main(int argc, char **argv) {
    kernel_threads = 64;
    kernel_size = 65536;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(16, 1 << 24, "points, a power of 4"),
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "fft", "fast Fourier transform in six steps", options);
    for (side = 1; side * side < kernel_size; side *= 2)
        levels++;
    if (side * side != kernel_size)
        kernel_fail(2, "-n is no power of 4", "");
    pitch = side + padding();
    /* A page more than there are elements: arrays that are aligned by hand lie as far apart. */
    size_t bytes = (size_t)side * (size_t)pitch * sizeof *x + PAGE;
    size_t all_copies = (size_t)kernel_threads * ((size_t)side * sizeof *x);
    kernel_reserve(3 * bytes + (size_t)side * sizeof *x + (size_t)kernel_threads * 64 + all_copies, 6);
    x = kernel_array(bytes);
    other = kernel_array(bytes);
    all_roots = kernel_array(bytes);
    row_roots = kernel_array((size_t)side * sizeof *x);
    touched = kernel_array((size_t)kernel_threads * 64);
    copies = kernel_array(all_copies);

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    initialise();
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    for (long place = 0; place < kernel_size; place++) {
        kernel_add_double(point(place).re);
        kernel_add_double(point(place).im);
    }
    return kernel_end(kernel_checks ? error_of_result() : 0, 1e-14);
}
